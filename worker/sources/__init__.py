"""Files of reviews and events: JSON lines, CSV and TSV, plain or packed, Parquet, or standard
input.

`paths` finds files, `packing` unpacks them and `formats` tells what they are, both by their first
bytes; `opened` puts these together. `tables` takes CSV apart, `parquet` Parquet (`vectors` its
vectors), `columns` maps names to fields. `source` gives a file's records (`entries`), `several`
those of many; `checks` holds them against the contract, `spool` keeps standard input, `batches`
cuts records into pieces that take a given time.

`archive` reads the archive of a topic, whose records keep their coordinates: `archive_pieces` of
files in `archive_parquet` and `archive_lines`.
"""

from worker.sources.archive import Archive, is_archive
from worker.sources.columns import Entry, Faulty, beginning_at, parse_fields
from worker.sources.opened import STDIN, find_files
from worker.sources.source import LeftOut, ReviewFile, ReviewFiles, judged, spooled, timely

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
