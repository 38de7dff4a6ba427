"""An archive whose gaps are read from its topic, and what both of them lack.

Compaction and transaction markers leave gaps too, so an archive alone cannot tell a lost file from
these. The topic can, where its log still has the offsets: if it has no record in a gap, none is
missing there. The same holds for offsets before the archive's first one.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from msgspec import Struct

from worker.errors import SetupError
from worker.events import Record
from worker.kafka.clients import Clients
from worker.kafka.reader import TopicReader
from worker.replay.ranges import Range
from worker.replay.record_source import Archived, RecordSource

NEAR_OFFSETS: Final = 10_000
"""Offsets between two gaps that are read past; more are skipped by a seek."""
LISTED: Final = 5
"""Ranges of missing offsets to list by partition."""


class Missing(Struct, frozen=True):
    """Offsets of a partition that neither archive nor topic has.

    `first` has the first ranges, as `5-6`.
    """

    offsets: int
    ranges: int
    first: list[str]


class Holes(Struct, frozen=True):
    """What a history in files lacks: unreadable rows, and missing offsets by partition."""

    unreadable: int = 0
    first_unreadable: str = ""
    missing: dict[str, Missing] = {}

    def lines(self) -> Iterator[str]:
        """One line a kind, for the log."""
        if self.unreadable:
            yield (
                f"{self.unreadable:,} rows of the files cannot be read and are skipped, the first: "
                f"{self.first_unreadable}"
            )
        if self.missing:
            count = sum(one.offsets for one in self.missing.values())
            yield (
                f"{count:,} offsets are neither in the archive nor in its topic "
                f"({listed(self.missing)}): a file may be missing; no worker can continue from "
                "this replay"
            )


def listed(missing: Mapping[str, Missing]) -> str:
    """The missing offsets, for people.

    >>> listed({"0": Missing(3, 2, ["5-6", "9"])})
    'partition 0: 5-6, 9'
    """
    return "; ".join(
        f"partition {partition}: {', '.join(one.first)}"
        + (
            f" and {one.ranges - len(one.first):,} more ranges"
            if one.ranges > len(one.first)
            else ""
        )
        for partition, one in missing.items()
    )


class FilledArchive(RecordSource):
    """An archive, with the records that its topic has in the archive's gaps and before it.

    `filled_from` has by partition the offset from which gaps are read from the topic. It is part of
    the plan, so that a restart reads the same records.
    """

    def __init__(
        self, archived: Archived, clients: Clients, group: str, filled_from: Mapping[int, int]
    ) -> None:
        self._archived = archived
        self._clients = clients
        self._group = group
        self._filled_from = filled_from
        self.name = archived.name

    def partitions(self) -> Mapping[int, range]:
        """See `RecordSource`. A partition begins with its log, if the archive begins later."""
        return {
            partition: range(
                min(offsets.start, self._filled_from.get(partition, offsets.start)), offsets.stop
            )
            for partition, offsets in self._archived.partitions().items()
        }

    def unreadable(self) -> Iterator[str]:
        """See `RecordSource`."""
        return self._archived.unreadable()

    def read(self, partition: int, start: int) -> Iterator[Record]:
        """See `RecordSource`. Raises SetupError if the topic has lost offsets of the plan."""
        offsets = self.partitions()[partition]
        following = max(start, offsets.start)
        log = _Log(partition, self._reader)
        try:
            for record in self._archived.read(partition, start):
                yield from self._between(log, following, record.offset)
                yield record
                following = record.offset + 1
            yield from self._between(log, following, offsets.stop)
        finally:
            log.close()

    def missing(self, ranges: Mapping[int, Range]) -> dict[str, Missing]:
        """By partition what both lack of the ranges. Reads the archive."""
        found = {
            str(partition): self._missing(
                partition, range(max(offsets.start, one.first), min(offsets.stop, one.end))
            )
            for partition, offsets in self.partitions().items()
            if (one := ranges.get(partition)) is not None
        }
        return {partition: one for partition, one in found.items() if one.offsets}

    def _missing(self, partition: int, wanted: range) -> Missing:
        offsets = count = 0
        first: list[str] = []
        for gap in self._gaps(partition, wanted):
            lost = range(gap.start, min(gap.stop, self._filled_from.get(partition, gap.stop)))
            if lost:
                offsets += len(lost)
                count += 1
                if count <= LISTED:
                    first.append(f"{lost.start}-{lost[-1]}" if len(lost) > 1 else str(lost.start))
        return Missing(offsets, count, first)

    def _gaps(self, partition: int, wanted: range) -> Iterator[range]:
        following = wanted.start
        for record in self._archived.read(partition, wanted.start):
            if record.offset >= wanted.stop:
                break
            if record.offset > following:
                yield range(following, record.offset)
            following = record.offset + 1
        if following < wanted.stop:
            yield range(following, wanted.stop)

    def _between(self, log: "_Log", start: int, stop: int) -> Iterator[Record]:
        start = max(start, self._filled_from.get(log.partition, stop))
        return log.read(start, stop) if start < stop else iter(())

    def _reader(self, partition: int) -> TopicReader:
        return TopicReader(self._clients, self._archived.topic, self._group, lambda _: (partition,))


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
        self._records = (stored.record for stored in self._reader.read(self.partition, start))
        self._head = next(self._records, None)


def fillable(history: RecordSource | None, clients: Clients, group: str) -> dict[int, int]:
    """By partition of an archive where its topic's log begins now. Raises SetupError."""
    if not isinstance(history, Archived):
        return {}
    offsets = history.partitions()
    with TopicReader(
        clients,
        history.topic,
        group,
        lambda partitions: [one for one in partitions if one in offsets],
    ) as reader:
        return {partition: reader.bounds(partition).start for partition in reader.partitions}


def filled(
    history: RecordSource | None, clients: Clients, group: str, filled_from: Mapping[int, int]
) -> RecordSource | None:
    """The history; if it is an archive, with its gaps filled from its topic."""
    if isinstance(history, Archived) and filled_from:
        return FilledArchive(history, clients, group, filled_from)
    return history


def holes_of(history: RecordSource | None, ranges: Mapping[int, Range]) -> Holes:
    """What the history lacks of the ranges. Reads the files. Raises SetupError."""
    if history is None:
        return Holes()
    count, first = 0, ""
    for row in history.unreadable():
        count, first = count + 1, first or row
    missing = history.missing(ranges) if isinstance(history, FilledArchive) else {}
    return Holes(count, first, missing)
