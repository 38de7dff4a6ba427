"""History in files: what a replay reads before, or in place of, what a topic has.

Plain files of reviews are a partition of their own, whose offsets are their lines. An archive of a
topic has the offsets of that topic: where it ends, the topic goes on.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Protocol

from worker.errors import SetupError
from worker.events import Record
from worker.sources import Archive, Faulty, ReviewFiles, beginning_at, is_archive

ONLY = 0
"""The partition of plain files."""


class RecordSource(Protocol):
    """See `worker.stream.run_bounds.History`; and what a plan has to know of it."""

    def partitions(self) -> Mapping[int, range]:
        """By partition the offsets that are had here."""

    def read(self, partition: int, start: int) -> Iterator[Record]:
        """The records of a partition from an offset on; unreadable rows are skipped, `unreadable`
        has them.
        """

    def first_at(self, partition: int, time_ms: int) -> int | None:
        """The offset of the first record whose timestamp is at or past a time; None
        where none is.
        """

    def unreadable(self) -> Iterator[str]:
        """The rows that are no records, one line each. Raises SetupError."""

    @property
    def name(self) -> str:
        """What a plan keeps of it."""


class PlainFiles:
    """Plain files, in their order. Construction reads them once, to see how long they are. Raises
    SetupError.
    """

    def __init__(self, paths: Sequence[str], fields: Mapping[str, str]) -> None:
        self._paths, self._fields = list(paths), fields
        with ReviewFiles(self._paths, fields) as files:
            for _ in files:
                pass
            self._count = files.lines
        self.name = f"{len(self._paths)} files with {self._count} lines"

    def partitions(self) -> Mapping[int, range]:
        """See `RecordSource`."""
        return {ONLY: range(self._count)}

    def read(self, partition: int, start: int) -> Iterator[Record]:
        """See `RecordSource`."""
        with ReviewFiles(self._paths, self._fields) as files:
            for entry in beginning_at(start + 1, files):
                if isinstance(entry, Record):
                    yield entry

    def unreadable(self) -> Iterator[str]:
        """See `RecordSource`."""
        with ReviewFiles(self._paths, self._fields) as files:
            for entry in files:
                if isinstance(entry, Faulty):
                    yield f"{files.where(entry.line)}: {entry.reason}: {entry.detail}"

    def first_at(self, partition: int, time_ms: int) -> int | None:
        """See `RecordSource`. Raises SetupError: lines have no timestamps."""
        raise SetupError(
            "lines of files have no timestamps: give --since and --until with --by occurred_at"
        )


class Archived:
    """An archive of a topic."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self._partitions = archive.partitions()
        covered = ", ".join(f"{p}: {one.start}-{one.stop}" for p, one in self._partitions.items())
        self.name = f"archive of {archive.topic} ({covered})"

    @property
    def topic(self) -> str:
        """Whose archive it is."""
        return self._archive.topic

    def partitions(self) -> Mapping[int, range]:
        """See `RecordSource`."""
        return self._partitions

    def read(self, partition: int, start: int) -> Iterator[Record]:
        """See `RecordSource`."""
        return (
            entry for entry in self._archive.read(partition, start) if isinstance(entry, Record)
        )

    def unreadable(self) -> Iterator[str]:
        """See `RecordSource`."""
        rows = (entry for partition in self._partitions for entry in self._archive.read(partition))
        for entry in chain(self._archive.faults(), rows):
            if isinstance(entry, Faulty):
                yield f"{entry.file}:{entry.line}: {entry.reason}: {entry.detail}"

    def first_at(self, partition: int, time_ms: int) -> int | None:
        """See `RecordSource`."""
        found = (
            record.offset for record in self.read(partition, 0) if record.timestamp_ms >= time_ms
        )
        return next(found, None)


def open_history(paths: Sequence[str], fields: Mapping[str, str]) -> PlainFiles | Archived:
    """The history in these files: the archive of a topic, or plain lines. Raises SetupError
    where it is some of both.
    """
    kinds = {is_archive(path) for path in paths}
    if len(kinds) > 1:
        raise SetupError(
            "some of the files are the archive of a topic (columns topic, partition, offset), others are not: replay them apart"
        )
    return Archived(Archive(paths, fields)) if kinds == {True} else PlainFiles(paths, fields)
