"""An archive of a topic: its records in files, each with the coordinates that it had on Kafka."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from heapq import heappop, heappush
from pathlib import Path
from typing import TypeVar

from worker.errors import SetupError
from worker.events import Record
from worker.sources.archive_lines import ArchivedLines
from worker.sources.archive_parquet import ArchivedParquet
from worker.sources.archive_pieces import COORDINATES, Archived, ArchiveFile, Piece, Topic
from worker.sources.columns import Faulty
from worker.sources.opened import OpenedFile
from worker.sources.source import NO_FIELDS, LeftOut

T = TypeVar("T")


class Archive:
    """The records of one topic in any number of files: Parquet, JSON lines, CSV or TSV.

    Columns (members) `topic`, `partition` and `offset` must be there; `timestamp` (milliseconds, or
    a timestamp) and `key` may. `value` is the record's value, bytes or text; without it the row is
    a review, or an event, by the names of its fields.
    """

    def __init__(self, paths: Iterable[str], fields: Mapping[str, str] = NO_FIELDS) -> None:
        """Locate the records: by the statistics of Parquet; all other files are read once.

        `fields` has columns by field. Raises SetupError where a file is unreadable, no archive, or
        of another topic.
        """
        self.left_out: dict[str, LeftOut] = {}
        """By field, what was left out of bare reviews so far."""
        self._topic = Topic()
        self._sources = [_source(path, fields, self._topic, self.left_out) for path in paths]
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
        """By partition, its offsets; a topic that continues the archive does so at `stop`."""
        return {
            partition: range(pieces[0].first, max(piece.last for piece in pieces) + 1)
            for partition, pieces in sorted(self._pieces.items())
        }

    def gaps(self, partition: int) -> Iterator[range]:
        """Missing offsets of a partition, in order: gaps of compaction or of a lost file.

        Raises SetupError.
        """
        expected: int | None = None
        runs = _merged(
            self._pieces.get(partition, ()),
            lambda piece: ((run.start, run) for run in piece.runs()),
        )
        for _, _, run in runs:
            if expected is not None and run.start > expected:
                yield range(expected, run.start)
            expected = max(expected or 0, run.stop)

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

    def read(self, partition: int, start: int = 0) -> Iterator[Archived]:
        """A partition's records from the offset `start` on, in order of offsets, each once; Faulty
        for one that cannot be read.

        Raises SetupError where a file cannot be read, or two rows have one offset and are
        not the same record.
        """
        pieces = [piece for piece in self._pieces.get(partition, ()) if piece.last >= start]
        last: tuple[int, Piece, Archived] | None = None
        for offset, piece, found in _merged(
            pieces, lambda piece: piece.source.records(piece, start)
        ):
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
    """Whether a file is an archive, by its columns or its first lines. Raises SetupError."""
    return _source(path, NO_FIELDS, Topic(), {}).is_archived()


def _source(
    path: str, fields: Mapping[str, str], topic: Topic, left_out: dict[str, LeftOut]
) -> ArchiveFile:
    if not Path(path).is_file():
        raise SetupError(f"{path} is not a file: an archive is read more than once")
    with OpenedFile(path, path, COORDINATES) as file:
        is_parquet = file.format.kind == "parquet"
    return (ArchivedParquet if is_parquet else ArchivedLines)(path, fields, topic, left_out)


def _merged(
    pieces: Iterable[Piece], opened: Callable[[Piece], Iterator[tuple[int, T]]]
) -> Iterator[tuple[int, Piece, T]]:
    """Merge pieces by offset. Each is opened when its first offset is next."""
    waiting = deque(enumerate(pieces))
    heads: list[tuple[int, int, Piece, T, Iterator[tuple[int, T]]]] = []

    def advance(number: int, piece: Piece, rest: Iterator[tuple[int, T]]) -> None:
        for offset, found in rest:
            heappush(heads, (offset, number, piece, found, rest))
            return

    while waiting or heads:
        while waiting and (not heads or waiting[0][1].first <= heads[0][0]):
            number, piece = waiting.popleft()
            advance(number, piece, opened(piece))
        if heads:
            offset, number, piece, found, rest = heappop(heads)
            yield offset, piece, found
            advance(number, piece, rest)
