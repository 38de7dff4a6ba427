"""Files of reviews and events, and archives of topics.

opened    finds, opens and unpacks files, and recognizes them by their first bytes
columns   splits CSV and maps columns to fields; `parquet` reads Parquet
source    the records of one file or several, checked and in batches
archive   the archive of a topic, whose records keep their coordinates: Parquet (`archive_parquet`)
          or JSON lines (`archive_files`)
"""

from worker.events.bare import BREAKS, HALVES, WHERE
from worker.sources.archive import Archive, is_archive
from worker.sources.columns import Entry, Faulty, beginning_at, parse_fields
from worker.sources.opened import STDIN, find_files
from worker.sources.source import HEADER, CutShort, LeftOut, ReviewFiles, judged, spooled, timely

__all__ = [
    "BREAKS",
    "HALVES",
    "HEADER",
    "STDIN",
    "WHERE",
    "Archive",
    "CutShort",
    "Entry",
    "Faulty",
    "LeftOut",
    "ReviewFiles",
    "beginning_at",
    "find_files",
    "is_archive",
    "judged",
    "parse_fields",
    "spooled",
    "timely",
]
