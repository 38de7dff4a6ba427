"""Files of reviews and events, read for `summarize` and `send`: JSON lines, CSV and TSV, plain or gzip, or standard input.

`formats` tells by its first bytes what a file is, `tables` takes CSV apart, `columns` maps names to fields, `source` opens
the file and gives its records (`entries`), `checks` holds them against the contract, `spool` keeps standard input, `batches`
cuts records into pieces that take a given time.
"""

from worker.operations.files.batches import timely
from worker.operations.files.checks import judged
from worker.operations.files.columns import parse_fields
from worker.operations.files.entries import Entry, Faulty, beginning_at
from worker.operations.files.source import STDIN, LeftOut, ReviewFile
from worker.operations.files.spool import spooled

__all__ = [
    "STDIN",
    "Entry",
    "Faulty",
    "LeftOut",
    "ReviewFile",
    "beginning_at",
    "judged",
    "parse_fields",
    "spooled",
    "timely",
]
