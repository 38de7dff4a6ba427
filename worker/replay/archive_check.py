"""Checks of history in files: whether an archive is of its topic, and what both lack.

A topic that was deleted and created again has the same name and counts its offsets from 0 again, so
some records of archive and log at the same offsets are compared.

Compaction and transaction markers leave gaps too, so an archive alone cannot tell a lost file from
these. The topic can, where its log still has the offsets: if it has no record in a gap, none is
missing there. The same holds for offsets before the archive's first one.
"""

import time
from collections.abc import Collection, Iterator, Mapping
from math import isclose
from typing import Any, Final

import msgspec
from msgspec import Struct

from worker.clock import Clock
from worker.errors import SetupError, many
from worker.events import Record
from worker.events.dates import milliseconds, to_timestamp
from worker.events.reasons import shown
from worker.kafka.clients import Clients
from worker.replay.ranges import Range, check_ends
from worker.replay.record_source import Archived, RecordSource
from worker.sources.archive_files import NO_TIMESTAMP

COMPARED: Final = 50  # most records of a partition to compare with its log
SPREAD: Final = 10  # places to compare between the first and the last offset of both
LISTED: Final = 5  # ranges of missing offsets to list by partition
_SCHEMA_ID: Final = b"\0"  # first byte of a value that a schema registry's serializer wrote
_ANOTHER_TOPIC: Final = (
    "The topic was deleted and created again, or the files are of another topic of this name: "
    "name the files of the topic as it is now, or replay the topic alone (--from without files). "
    "To restore these files, `coversumm-worker send` them to a new topic, and replay that one"
)


def check_log(
    history: Archived,
    clients: Clients,
    group: str,
    only: Collection[int] | None = None,
    clock: Clock = time,
) -> None:
    """Raise SetupError if the log of a partition (in `only`, if given) is not the archive's.

    It is not if it ends below the archive, or if records at the same offset differ.
    """
    archive = history.archive
    offsets = {
        partition: offsets
        for partition, offsets in archive.partitions().items()
        if partition in history.filled_from and (only is None or partition in only)
    }

    def ends_below(topic: str, partition: int, found: int, end: int) -> SetupError:
        last = archive.find(partition, end - 1)
        file = "the archive" if last is None else last[1]
        return SetupError(
            f"{topic}-{partition} ends at offset {found}, and {file} has offset {end - 1}. "
            f"{_ANOTHER_TOPIC}"
        )

    ends = {partition: offset.stop for partition, offset in offsets.items()}
    check_ends(clients, group, history.topic, ends, clock, ends_below)
    for partition, archived in offsets.items():
        common = range(max(archived.start, history.filled_from[partition]), archived.stop)
        if common:
            _compare(history, partition, common)


def _compare(history: Archived, partition: int, common: range) -> None:
    """Compare the first records of the log at or after some of the offsets."""
    following = common.start
    with history.open_log(partition) as log:
        for offset in _places(history.archive.ends(partition), common):
            if offset < following:
                continue  # the log has no record between the last place and this one
            stored = next(log.read(partition, offset, common.stop), None)
            if stored is None:
                continue
            following = stored.record.offset + 1
            found = history.archive.find(partition, stored.record.offset)
            if found is not None and (what := difference(found[0], stored.record)):
                raise SetupError(
                    f"{history.topic}-{partition}: at offset {stored.record.offset} "
                    f"{found[1]} has another record than the topic ({what}). {_ANOTHER_TOPIC}"
                )


def _places(ends: Collection[int], common: range) -> list[int]:
    """Ascending offsets: the ends of each file, and some evenly spread; at most COMPARED."""
    spread = range(common.start, common.stop, max(1, len(common) // SPREAD))
    places = sorted({common.start, *spread, *(end for end in ends if end in common)})
    if len(places) <= COMPARED:
        return places
    last = len(places) - 1
    return [places[number * last // (COMPARED - 1)] for number in range(COMPARED)]


def difference(archived: Record, stored: Record) -> str:
    """The difference of an archived record from that of the log, for people; empty if equal.

    An archive may lack timestamps and keys, cut timestamps to seconds, and have JSON written
    otherwise, or in columns. Members that only one of both has do not count: archivers add and
    drop some, and two records with equal members beside these are never two reviews.

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
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        value = None
    if isinstance(value, dict | list | str):
        return value
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data


def _contradict(archived: Any, stored: Any) -> bool:
    """True if two values cannot be the same one, which an archiver may have converted."""
    match archived, stored:
        case dict(), dict():
            common = archived.keys() & stored.keys()
            return not common or any(
                _contradict(archived[offset], stored[offset]) for offset in common
            )
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


class Missing(Struct, frozen=True):
    """Offsets that neither archive nor topic has. `first`: the first ranges, as `5-6`."""

    offsets: int
    ranges: int
    first: list[str]


class Holes(Struct, frozen=True):
    """Gaps of a history in files: unreadable rows, and missing offsets by partition."""

    unreadable: int = 0
    first_unreadable: str = ""
    missing: dict[str, Missing] = {}

    def lines(self) -> Iterator[str]:
        """One line a kind, for the log."""
        if self.unreadable:
            yield (
                f"skipped {many(self.unreadable, 'unreadable rows')} of the files, the first: "
                f"{self.first_unreadable}"
            )
        if self.missing:
            count = sum(gap.offsets for gap in self.missing.values())
            yield (
                f"neither the archive nor its topic has {many(count, 'offsets')} "
                f"({listed(self.missing)}): a file may be missing; no worker can continue from "
                "this replay"
            )


def listed(missing: Mapping[str, Missing]) -> str:
    """The missing offsets, for people.

    >>> listed({"0": Missing(3, 2, ["5-6", "9"])})
    'partition 0: 5-6, 9'
    """
    return "; ".join(
        f"partition {partition}: {', '.join(gap.first)}"
        + (
            f" and {many(gap.ranges - len(gap.first), 'more ranges')}"
            if gap.ranges > len(gap.first)
            else ""
        )
        for partition, gap in missing.items()
    )


def holes_of(history: RecordSource | None, ranges: Mapping[int, Range]) -> Holes:
    """The gaps of the history within the ranges. Reads the files. Raises SetupError."""
    if history is None:
        return Holes()
    count, first = 0, ""
    for row in history.unreadable():
        count, first = count + 1, first or row
    if not isinstance(history, Archived):
        return Holes(count, first)
    found = {
        str(partition): _missing(
            history, partition, range(max(offsets.start, span.first), min(offsets.stop, span.end))
        )
        for partition, offsets in history.partitions().items()
        if (span := ranges.get(partition)) is not None
    }
    return Holes(count, first, {name: gap for name, gap in found.items() if gap.offsets})


def _missing(history: Archived, partition: int, wanted: range) -> Missing:
    offsets = count = 0
    first: list[str] = []
    for gap in _gaps(history, partition, wanted):
        lost = range(gap.start, min(gap.stop, history.filled_from.get(partition, gap.stop)))
        if lost:
            offsets += len(lost)
            count += 1
            if count <= LISTED:
                first.append(f"{lost.start}-{lost[-1]}" if len(lost) > 1 else str(lost.start))
    return Missing(offsets, count, first)


def _gaps(history: Archived, partition: int, wanted: range) -> Iterator[range]:
    following = wanted.start
    for record in history.in_files(partition, wanted.start):
        if record.offset >= wanted.stop:
            break
        if record.offset > following:
            yield range(following, record.offset)
        following = record.offset + 1
    if following < wanted.stop:
        yield range(following, wanted.stop)
