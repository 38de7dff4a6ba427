"""History in files, which a replay reads before its topic or instead of one.

Plain files of reviews are one partition, whose offsets are their lines. An archive of a topic has
the offsets of that topic, from which its gaps are read: after the archive the replay continues from
the topic.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import file_digest, sha256
from itertools import chain
from typing import Final, Protocol

from worker.errors import SetupError, many
from worker.events import Record
from worker.kafka.clients import Clients
from worker.kafka.reader import TopicReader
from worker.sources import WHERE, Archive, Faulty, ReviewFiles, beginning_at, is_archive
from worker.stream.run_bounds import FileRecords

ONLY = 0  # the partition of plain files
NEAR_OFFSETS: Final = 10_000
"""Offsets between two gaps that are read past; more are skipped by a seek."""


class RecordSource(FileRecords, Protocol):
    """`FileRecords`, and what the plan of a replay needs to know; `read` skips unreadable rows."""

    name: str  # shows the files in a plan
    read_with: Mapping[str, str]  # what they are read with and their content, for a plan

    def first_at(self, partition: int, time_ms: int) -> int | None:
        """The offset of the first record whose timestamp is not before a time, if any."""
        found = (
            record.offset for record in self.read(partition, 0) if record.timestamp_ms >= time_ms
        )
        return next(found, None)

    def unreadable(self) -> Iterator[str]:
        """The rows that are no records, one line each. Raises SetupError."""


class PlainFiles(RecordSource):
    """Plain files, in their order, read once to count their lines. Raises SetupError."""

    def __init__(self, paths: Sequence[str], fields: Mapping[str, str]) -> None:
        self._paths, self._fields = list(paths), fields
        with ReviewFiles(self._paths, fields) as files:
            for _ in files:
                pass
            self._count = files.lines
        self.name = f"{many(len(self._paths), 'files')} with {many(self._count, 'lines')}"
        self.read_with = _read_with(fields, [_digest(path) for path in self._paths])

    def partitions(self) -> Mapping[int, range]:
        return {ONLY: range(self._count)}

    def read(self, partition: int, start: int) -> Iterator[Record]:
        with ReviewFiles(self._paths, self._fields) as files:
            for entry in beginning_at(start + 1, files):
                if isinstance(entry, Record):
                    yield entry

    def unreadable(self) -> Iterator[str]:
        with ReviewFiles(self._paths, self._fields) as files:
            for entry in files:
                if isinstance(entry, Faulty):
                    yield f"{files.where(entry.line)}: {entry.reason}: {entry.detail}"

    def first_at(self, partition: int, time_ms: int) -> int | None:
        """See `RecordSource`. Raises SetupError: lines have no timestamps."""
        raise SetupError(
            "lines of files have no timestamps: give --since and --until with --by occurred_at"
        )


def _no_log(partition: int) -> TopicReader:
    raise AssertionError(f"partition {partition} is not filled from a log")


@dataclass(eq=False)
class Archived(RecordSource):
    """An archive of a topic, with the records that the topic has in its gaps and before it."""

    archive: Archive
    filled_from: Mapping[int, int] = field(default_factory=dict)
    """By partition the offset from which gaps are read from the topic; part of the plan, so that a
    restart reads the same records.
    """
    open_log: Callable[[int], TopicReader] = _no_log  # of a partition
    read_with: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """The name has the offsets of the files alone."""
        self.topic = self.archive.topic
        self._archived = self.archive.partitions()
        covered = ", ".join(
            f"{p}: {offsets.start}-{offsets.stop}" for p, offsets in self._archived.items()
        )
        self.name = f"archive of {self.topic} ({covered})"

    def partitions(self) -> Mapping[int, range]:
        """See `RecordSource`. A partition begins with its log, if the archive begins later."""
        return {
            partition: range(
                min(offsets.start, self.filled_from.get(partition, offsets.start)), offsets.stop
            )
            for partition, offsets in self._archived.items()
        }

    def in_files(self, partition: int, start: int) -> Iterator[Record]:
        """The records of the archive alone, from the offset `start` on."""
        return (entry for entry in self.archive.read(partition, start) if isinstance(entry, Record))

    def read(self, partition: int, start: int) -> Iterator[Record]:
        """See `RecordSource`. Raises SetupError if the topic has lost offsets of the plan."""
        offsets = self.partitions()[partition]
        following = max(start, offsets.start)
        log = _Log(partition, self.open_log)
        try:
            for record in self.in_files(partition, start):
                yield from self._between(log, following, record.offset)
                yield record
                following = record.offset + 1
            yield from self._between(log, following, offsets.stop)
        finally:
            log.close()

    def _between(self, log: "_Log", start: int, stop: int) -> Iterator[Record]:
        start = max(start, self.filled_from.get(log.partition, stop))
        return log.read(start, stop) if start < stop else iter(())

    def unreadable(self) -> Iterator[str]:
        rows = (entry for partition in self._archived for entry in self.archive.read(partition))
        for entry in chain(self.archive.faults(), rows):
            if isinstance(entry, Faulty):
                yield f"{entry.file}:{entry.line}: {entry.reason}: {entry.detail}"


class _Log:
    """The log of one partition, read at ascending offsets; the first read opens its reader."""

    def __init__(self, partition: int, open_reader: Callable[[int], TopicReader]) -> None:
        self.partition = partition
        self._open = open_reader
        self._reader: TopicReader | None = None
        self._records: Iterator[Record] = iter(())
        self._head: Record | None = None
        self._following: int | None = None

    def read(self, start: int, stop: int) -> Iterator[Record]:
        self._go_to(start)
        while self._head is not None and self._head.offset < stop:
            if self._head.offset >= start:
                yield self._head
            self._head = next(self._records, None)
        self._following = stop

    def close(self) -> None:
        if self._reader is not None:
            self._reader.__exit__(None, None, None)

    def _go_to(self, start: int) -> None:
        """Seek to `start`, unless it is only a few offsets ahead."""
        if self._reader is None:
            self._reader = self._open(self.partition)
        if self._following is not None and start - self._following <= NEAR_OFFSETS:
            return
        log_start = self._reader.bounds(self.partition).start
        if log_start > start:
            raise SetupError(
                f"{self._reader.topic}-{self.partition}: the archive lacks offset {start}, and the "
                f"topic, which had it when the replay began, begins at {log_start} now: add the "
                "missing file and start over with --restart"
            )
        read = self._reader.read(self.partition, start)
        self._records = (_without_headers(stored.record) for stored in read)
        self._head = next(self._records, None)


def _without_headers(record: Record) -> Record:
    """The record, refused only if it was not read at all."""
    is_unread = record.key is None and record.value is None
    return record._replace(refused=record.refused if is_unread else None)


def open_history(paths: Sequence[str], fields: Mapping[str, str]) -> PlainFiles | Archived:
    """The archive or the plain lines in these files. Raises SetupError if there are both."""
    kinds = {is_archive(path) for path in paths}
    if len(kinds) > 1:
        raise SetupError(
            "some of the files are the archive of a topic (columns topic, partition, offset), "
            "others are not: replay them apart"
        )
    if kinds != {True}:
        return PlainFiles(paths, fields)
    if any(name.startswith(WHERE) for name in fields):
        raise SetupError("--where chooses reviews of plain files; an archive is read completely")
    digests = sorted(map(_digest, paths))  # an archive is the same in any order of its files
    return Archived(Archive(paths, fields), read_with=_read_with(fields, digests))


def _read_with(fields: Mapping[str, str], digests: Iterable[str]) -> dict[str, str]:
    columns = ",".join(f"{field}={column}" for field, column in sorted(fields.items()))
    content = sha256("".join(digests).encode()).hexdigest()[:16]
    return {"--fields": columns or "none", "the content of the files": content}


def _digest(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return file_digest(file, "sha256").hexdigest()
    except OSError as cause:
        raise SetupError(f"{path} cannot be read ({cause.strerror})") from cause


def filled(
    history: RecordSource | None,
    clients: Clients,
    group: str,
    filled_from: Mapping[int, int] | None = None,
) -> RecordSource | None:
    """The history; if it is an archive, with its gaps filled from its topic.

    `filled_from`: see `Archived`; by default where each log begins now. Raises SetupError.
    """
    if not isinstance(history, Archived):
        return history
    topic = history.topic
    if filled_from is None:
        offsets = history.partitions()
        with TopicReader(
            clients,
            topic,
            group,
            lambda partitions: [number for number in partitions if number in offsets],
        ) as reader:
            filled_from = {number: reader.bounds(number).start for number in reader.partitions}
    return replace(
        history,
        filled_from=filled_from,
        open_log=lambda partition: TopicReader(clients, topic, group, lambda _: (partition,)),
    )
