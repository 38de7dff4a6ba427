"""An archive of a topic: its records in files, each with the coordinates that it had on Kafka."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from heapq import heappop, heappush
from pathlib import Path

from worker.errors import SetupError
from worker.events import Record
from worker.sources.archive_files import COORDINATES, ArchivedLines, ArchiveFile, Piece, Topic
from worker.sources.archive_parquet import ArchivedParquet
from worker.sources.columns import Entry, Faulty
from worker.sources.opened import OpenedFile
from worker.sources.source import NO_FIELDS


class Archive:
    """The records of one topic in any number of files: Parquet or JSON lines.

    Columns (members) `topic`, `partition` and `offset` must be there; `timestamp` (milliseconds, or
    a timestamp) and `key` may. `value` is the record's value, bytes or text; without it the row is
    a review, or an event, by the names of its fields.
    """

    def __init__(self, paths: Iterable[str], fields: Mapping[str, str] = NO_FIELDS) -> None:
        """Locate the records: by three columns of Parquet; all other files are read once.

        `fields` has columns by field. Raises SetupError where a file is unreadable, no archive, or
        of another topic.
        """
        self._topic = Topic()
        self._sources = [_source(path, fields, self._topic) for path in paths]
        self._pieces: dict[int, list[Piece]] = {}
        for source in self._sources:
            for piece in source.pieces():
                self._pieces.setdefault(piece.partition, []).append(piece)
        for pieces in self._pieces.values():
            pieces.sort(key=lambda piece: piece.first)

    @property
    def topic(self) -> str:
        """The topic's name; empty where there is no record."""
        return self._topic.name

    def partitions(self) -> dict[int, range]:
        """The offsets by partition; a topic that continues the archive does so at `stop`."""
        return {
            partition: range(pieces[0].first, max(piece.last for piece in pieces) + 1)
            for partition, pieces in sorted(self._pieces.items())
        }

    def ends(self, partition: int) -> set[int]:
        """The first and the last offset of each file (Parquet: row group) with the partition."""
        pieces = self._pieces.get(partition, ())
        return {offset for piece in pieces for offset in (piece.first, piece.last)}

    def find(self, partition: int, offset: int) -> tuple[Record, str] | None:
        """The record at an offset, if any, and its file. Raises SetupError as `read` does."""
        for piece in self._pieces.get(partition, ()):
            if piece.first <= offset <= piece.last:
                found = next(iter(piece.source.records(piece, offset)), None)
                if found is not None and found[0] == offset and isinstance(found[1], Record):
                    return found[1], piece.source.name
        return None

    def faults(self) -> Iterator[Faulty]:
        """The rows without coordinates, and broken rows. Raises SetupError."""
        return (fault for source in self._sources for fault in source.faults())

    def read(self, partition: int, start: int = 0) -> Iterator[Entry]:
        """A partition's records from the offset `start` on, in order of offsets, each once; Faulty
        for one that cannot be read.

        Raises SetupError where a file cannot be read, or two rows have one offset and are
        not the same record.
        """
        pieces = [piece for piece in self._pieces.get(partition, ()) if piece.last >= start]
        last: tuple[int, Piece, Entry] | None = None
        for offset, piece, found in _merged(pieces, start):
            if last is None or offset != last[0]:
                yield found
                last = offset, piece, found
            elif not (isinstance(found, Record) and found == last[2]):
                raise SetupError(
                    f"offset {offset} of partition {partition} is in {last[1].source.name} and "
                    f"in {piece.source.name}, and "
                    "they are not the same record: one of the two is not of this topic"
                )


def is_archive(path: str) -> bool:
    """True if a file is an archive, by its columns or its first lines. Raises SetupError."""
    return _source(path, NO_FIELDS, Topic()).is_archived()


def _source(path: str, fields: Mapping[str, str], topic: Topic) -> ArchiveFile:
    if not Path(path).is_file():
        raise SetupError(f"{path} is not a file: an archive is read more than once")
    with OpenedFile(path, path, COORDINATES) as file:
        kind = file.format.kind
        if kind == "table":
            _refuse_table(path, next(file.lines(), None), file.format.delimiter)
    return (ArchivedParquet if kind == "parquet" else ArchivedLines)(path, fields, topic)


def _refuse_table(path: str, header: bytes | None, delimiter: str) -> None:
    """Raise SetupError if a table has the columns of an archive: it cannot tell an empty value from
    none, nor bytes from text.
    """
    columns = (header or b"").decode(errors="replace").split(delimiter)
    if set(COORDINATES) <= {column.strip().strip('"') for column in columns}:
        raise SetupError(
            f"{path} looks like an archive of a topic as CSV or TSV: an archive is Parquet or JSON "
            "lines. Convert it first, with pyarrow: parquet.write_table(csv.read_csv(...), ...)"
        )


def _merged(pieces: Iterable[Piece], start: int) -> Iterator[tuple[int, Piece, Entry]]:
    """Merge pieces by offset. Each is opened when its first offset is next."""
    waiting = deque(enumerate(pieces))
    heads: list[tuple[int, int, Piece, Entry, Iterator[tuple[int, Entry]]]] = []

    def advance(number: int, piece: Piece, rest: Iterator[tuple[int, Entry]]) -> None:
        for offset, found in rest:
            heappush(heads, (offset, number, piece, found, rest))
            return

    while waiting or heads:
        while waiting and (not heads or waiting[0][1].first <= heads[0][0]):
            number, piece = waiting.popleft()
            advance(number, piece, piece.source.records(piece, start))
        if heads:
            offset, number, piece, found, rest = heappop(heads)
            yield offset, piece, found
            advance(number, piece, rest)
