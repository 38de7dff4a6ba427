"""Files of reviews and events: JSON lines, CSV and TSV, plain or packed, Parquet, or standard input.

`paths` finds files, `packing` unpacks them and `formats` tells what they are, both by their first bytes; `opened` puts these
together. `tables` takes CSV apart, `parquet` Parquet (`vectors` its vectors), `columns` maps names to fields. `source` gives a
file's records (`entries`), `several` those of many; `checks` holds them against the contract, `spool` keeps standard input,
`batches` cuts records into pieces that take a given time.

`archive` reads the archive of a topic, whose records keep their coordinates: `archive_pieces` of files in `archive_parquet` and
`archive_lines`.
"""

from worker.operations.files.archive import Archive, is_archive
from worker.operations.files.batches import timely
from worker.operations.files.checks import judged
from worker.operations.files.columns import parse_fields
from worker.operations.files.entries import Entry, Faulty, beginning_at
from worker.operations.files.opened import STDIN
from worker.operations.files.paths import find_files
from worker.operations.files.several import ReviewFiles
from worker.operations.files.source import LeftOut, ReviewFile
from worker.operations.files.spool import spooled

__all__ = [
    "STDIN",
    "Archive",
    "Entry",
    "Faulty",
    "LeftOut",
    "ReviewFile",
    "ReviewFiles",
    "beginning_at",
    "find_files",
    "is_archive",
    "judged",
    "parse_fields",
    "spooled",
    "timely",
]
