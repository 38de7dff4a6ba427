"""An archive whose gaps are read from its topic, and what both of them lack.

Compaction and transaction markers leave gaps too, so an archive alone cannot tell a lost file from
these. The topic can, where its log still has the offsets: if it has no record in a gap, none is
missing there. The same holds for offsets before the archive's first one.

This needs archive and log to be of one topic. A topic that was deleted and created again has the
same name and counts its offsets from 0 again, so some records at the same offsets are compared.
"""

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from math import isclose
from typing import Any, Final

import msgspec
from msgspec import Struct

from worker.clock import Clock
from worker.errors import SetupError
from worker.events import Record
from worker.events.dates import milliseconds, to_timestamp
from worker.events.reasons import shown
from worker.kafka.clients import Clients
from worker.kafka.reader import TopicReader
from worker.replay.ranges import Range, check_ends
from worker.replay.record_source import Archived, RecordSource

NEAR_OFFSETS: Final = 10_000
"""Offsets between two gaps that are read past; more are skipped by a seek."""
LISTED: Final = 5
"""Ranges of missing offsets to list by partition."""
COMPARED: Final = 50
"""Most records of a partition to compare with its log."""
SPREAD: Final = 10
"""Places to compare between the first and the last offset that archive and log both cover."""
NO_TIMESTAMP: Final = -1
_SCHEMA_ID: Final = b"\0"
"""First byte of a value that a schema registry's serializer wrote."""


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


_ANOTHER_TOPIC: Final = (
    "The topic was deleted and created again, or the files are of another topic of this name: "
    "name the files of the topic as it is now, or replay the topic alone (--from without files), "
    "after you have written the records of these files to it if they belong to its history"
)


@dataclass(eq=False)
class FilledArchive(RecordSource):
    """An archive, with the records that its topic has in the archive's gaps and before it.

    `filled_from` has by partition the offset from which gaps are read from the topic. It is part of
    the plan, so that a restart reads the same records.
    """

    archived: Archived
    clients: Clients
    group: str
    filled_from: Mapping[int, int]

    def __post_init__(self) -> None:
        """It has the archive's name."""
        self.name = self.archived.name

    def partitions(self) -> Mapping[int, range]:
        """See `RecordSource`. A partition begins with its log, if the archive begins later."""
        return {
            partition: range(
                min(offsets.start, self.filled_from.get(partition, offsets.start)), offsets.stop
            )
            for partition, offsets in self.archived.partitions().items()
        }

    def unreadable(self) -> Iterator[str]:
        """See `RecordSource`."""
        return self.archived.unreadable()

    def read(self, partition: int, start: int) -> Iterator[Record]:
        """See `RecordSource`. Raises SetupError if the topic has lost offsets of the plan."""
        offsets = self.partitions()[partition]
        following = max(start, offsets.start)
        log = _Log(partition, self._reader)
        try:
            for record in self.archived.read(partition, start):
                yield from self._between(log, following, record.offset)
                yield record
                following = record.offset + 1
            yield from self._between(log, following, offsets.stop)
        finally:
            log.close()

    def check_log(self, only: Collection[int] | None = None, clock: Clock = time) -> None:
        """Raise SetupError if the log of a partition (in `only`, if given) is not the archive's.

        It is not if it ends below the archive, or if records at the same offset differ.
        """
        offsets = {
            partition: one
            for partition, one in self.archived.partitions().items()
            if partition in self.filled_from and (only is None or partition in only)
        }
        ends = {partition: one.stop for partition, one in offsets.items()}
        check_ends(self.clients, self.group, self.archived.topic, ends, clock, self._ends_below)
        for partition, archived in offsets.items():
            common = range(max(archived.start, self.filled_from[partition]), archived.stop)
            if common:
                self._compare(partition, common)

    def _compare(self, partition: int, common: range) -> None:
        """Compare the first records of the log at or after some of the offsets."""
        following = common.start
        with self._reader(partition) as log:
            for offset in self._places(partition, common):
                if offset < following:
                    continue  # the log has no record between the last place and this one
                stored = next(log.read(partition, offset, common.stop), None)
                if stored is None:
                    continue
                following = stored.record.offset + 1
                found = self.archived.archive.find(partition, stored.record.offset)
                if found is not None and (what := difference(found[0], stored.record)):
                    raise SetupError(
                        f"{self.archived.topic}-{partition}: at offset {stored.record.offset} "
                        f"{found[1]} has another record than the topic ({what}). {_ANOTHER_TOPIC}"
                    )

    def _places(self, partition: int, common: range) -> list[int]:
        """Ascending offsets: the ends of each file, and some evenly spread; at most COMPARED."""
        spread = range(common.start, common.stop, max(1, len(common) // SPREAD))
        ends = self.archived.archive.ends(partition)
        places = sorted({common.start, *spread, *(one for one in ends if one in common)})
        if len(places) <= COMPARED:
            return places
        last = len(places) - 1
        return [places[number * last // (COMPARED - 1)] for number in range(COMPARED)]

    def _ends_below(self, topic: str, partition: int, found: int, end: int) -> SetupError:
        last = self.archived.archive.find(partition, end - 1)
        file = "the archive" if last is None else last[1]
        return SetupError(
            f"{topic}-{partition} ends at offset {found}, and {file} has offset {end - 1}. "
            f"{_ANOTHER_TOPIC}"
        )

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
            lost = range(gap.start, min(gap.stop, self.filled_from.get(partition, gap.stop)))
            if lost:
                offsets += len(lost)
                count += 1
                if count <= LISTED:
                    first.append(f"{lost.start}-{lost[-1]}" if len(lost) > 1 else str(lost.start))
        return Missing(offsets, count, first)

    def _gaps(self, partition: int, wanted: range) -> Iterator[range]:
        following = wanted.start
        for record in self.archived.read(partition, wanted.start):
            if record.offset >= wanted.stop:
                break
            if record.offset > following:
                yield range(following, record.offset)
            following = record.offset + 1
        if following < wanted.stop:
            yield range(following, wanted.stop)

    def _between(self, log: "_Log", start: int, stop: int) -> Iterator[Record]:
        start = max(start, self.filled_from.get(log.partition, stop))
        return log.read(start, stop) if start < stop else iter(())

    def _reader(self, partition: int) -> TopicReader:
        return TopicReader(self.clients, self.archived.topic, self.group, lambda _: (partition,))


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


def difference(archived: Record, stored: Record) -> str:
    """How an archived record differs from that of the log, for people; empty if it does not.

    An archive may lack timestamps and keys, cut timestamps to seconds, and have JSON written
    otherwise, or in columns.

    >>> one = Record("reviews", 0, 7, 1551708306000, b"e1", b'{"review_id": "r1"}')
    >>> difference(one, one._replace(value=b'{"review_id":"r1","rating":5}'))
    ''
    >>> difference(one, one._replace(key=b"e2"))
    "key 'e1', in the topic 'e2'"
    """
    before, now = archived.timestamp_ms, stored.timestamp_ms
    if NO_TIMESTAMP not in (before, now) and before not in (now, now // 1000 * 1000):
        return f"timestamp {before}, in the topic {now}"
    if archived.key is not None and _differ(archived.key, stored.key):
        return f"key {_shown(archived.key)}, in the topic {_shown(stored.key)}"
    if _differ(archived.value, stored.value):
        return f"value {_shown(archived.value)}, in the topic {_shown(stored.value)}"
    return ""


def _differ(archived: bytes | None, stored: bytes | None) -> bool:
    if archived == stored:
        return False
    return archived is None or stored is None or _contradict(_parsed(archived), _parsed(stored))


def _parsed(data: bytes) -> Any:
    """The JSON object, list or text; other text as it is; bytes if it is neither."""
    if data.startswith(_SCHEMA_ID):
        return data
    try:
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError):
        value = None
    if isinstance(value, dict | list | str):
        return value
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data


def _contradict(archived: Any, stored: Any) -> bool:
    """Whether two values cannot be the same one, which an archiver may have converted."""
    match archived, stored:
        case dict(), dict():
            common = archived.keys() & stored.keys()
            return not common or any(_contradict(archived[one], stored[one]) for one in common)
        case list(), list():
            return len(archived) != len(stored) or any(map(_contradict, archived, stored))
        case (
            (dict(), bytes())  # Avro written as JSON
            | (list(), str())  # vectors written as base64, or the reverse
            | (str(), list())
            | (str(), int() | float())
            | (int() | float(), str())
        ):
            return False
        case (int() | float(), int() | float()):
            return not isclose(archived, stored, rel_tol=1e-6)
        case str(), str() if archived != stored:
            return _date(archived) is None or _date(archived) != _date(stored)
    return bool(archived != stored)


def _date(text: str) -> int | None:
    date = to_timestamp(text)
    return None if date is None else milliseconds(date)


def _shown(data: bytes | None) -> str:
    return "none" if data is None else shown(data)


def filled(
    history: RecordSource | None,
    clients: Clients,
    group: str,
    filled_from: Mapping[int, int] | None = None,
) -> RecordSource | None:
    """The history; if it is an archive, with its gaps filled from its topic.

    `filled_from`: see `FilledArchive`; by default where each log begins now. Raises SetupError.
    """
    if not isinstance(history, Archived):
        return history
    if filled_from is None:
        offsets = history.partitions()
        with TopicReader(
            clients,
            history.topic,
            group,
            lambda partitions: [one for one in partitions if one in offsets],
        ) as reader:
            filled_from = {one: reader.bounds(one).start for one in reader.partitions}
    return FilledArchive(history, clients, group, filled_from) if filled_from else history


def holes_of(history: RecordSource | None, ranges: Mapping[int, Range]) -> Holes:
    """What the history lacks of the ranges. Reads the files. Raises SetupError."""
    if history is None:
        return Holes()
    count, first = 0, ""
    for row in history.unreadable():
        count, first = count + 1, first or row
    missing = history.missing(ranges) if isinstance(history, FilledArchive) else {}
    return Holes(count, first, missing)
