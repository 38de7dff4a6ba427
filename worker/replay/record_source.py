"""History in files, which a replay reads before its topic or instead of one.

Plain files of reviews are one partition, whose offsets are their lines. An archive of a topic has
the offsets of that topic: after the archive the replay continues from the topic.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Protocol

from worker.errors import SetupError
from worker.events import Record
from worker.sources import Archive, Faulty, ReviewFiles, beginning_at, is_archive
from worker.stream.run_bounds import FileRecords

ONLY = 0
"""The partition of plain files."""


class RecordSource(FileRecords, Protocol):
    """`FileRecords`, and what the plan of a replay needs to know; `read` skips unreadable rows.

    Attributes:
        name: identifies the files in a plan.
    """

    name: str

    def first_at(self, partition: int, time_ms: int) -> int | None:
        """The offset of the first record whose timestamp is not before a time, if any."""
        found = (
            record.offset for record in self.read(partition, 0) if record.timestamp_ms >= time_ms
        )
        return next(found, None)

    def unreadable(self) -> Iterator[str]:
        """The rows that are no records, one line each. Raises SetupError."""


class PlainFiles(RecordSource):
    """Plain files, in their order.

    Construction reads them once, to count their lines. Raises SetupError.
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


class Archived(RecordSource):
    """An archive of a topic."""

    def __init__(self, archive: Archive) -> None:
        self.archive = archive
        self._partitions = archive.partitions()
        covered = ", ".join(f"{p}: {one.start}-{one.stop}" for p, one in self._partitions.items())
        self.topic = archive.topic
        self.name = f"archive of {archive.topic} ({covered})"

    def partitions(self) -> Mapping[int, range]:
        """See `RecordSource`."""
        return self._partitions

    def read(self, partition: int, start: int) -> Iterator[Record]:
        """See `RecordSource`."""
        return (entry for entry in self.archive.read(partition, start) if isinstance(entry, Record))

    def unreadable(self) -> Iterator[str]:
        """See `RecordSource`."""
        rows = (entry for partition in self._partitions for entry in self.archive.read(partition))
        for entry in chain(self.archive.faults(), rows):
            if isinstance(entry, Faulty):
                yield f"{entry.file}:{entry.line}: {entry.reason}: {entry.detail}"


def open_history(paths: Sequence[str], fields: Mapping[str, str]) -> PlainFiles | Archived:
    """The archive or the plain lines in these files. Raises SetupError if there are both."""
    kinds = {is_archive(path) for path in paths}
    if len(kinds) > 1:
        raise SetupError(
            "some of the files are the archive of a topic (columns topic, partition, offset), "
            "others are not: replay them apart"
        )
    return Archived(Archive(paths, fields)) if kinds == {True} else PlainFiles(paths, fields)
