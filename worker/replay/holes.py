"""What a history in files lacks, and its topic with it.

Compaction and transaction markers leave gaps too, so an archive alone cannot tell a lost file from
these. The topic can, where its log still has the offsets: if it has no record in a gap, none is
missing there. The same holds for offsets before the archive's first one.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from msgspec import Struct

from worker.errors import many
from worker.replay.ranges import Range
from worker.replay.record_source import Archived, RecordSource

LISTED: Final = 5  # ranges of missing offsets to list by partition


class Missing(Struct, frozen=True):
    """Offsets that neither archive nor topic has. `first`: the first ranges, as `5-6`."""

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
                f"skipped {many(self.unreadable, 'unreadable rows')} of the files, the first: "
                f"{self.first_unreadable}"
            )
        if self.missing:
            count = sum(one.offsets for one in self.missing.values())
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
        f"partition {partition}: {', '.join(one.first)}"
        + (
            f" and {many(one.ranges - len(one.first), 'more ranges')}"
            if one.ranges > len(one.first)
            else ""
        )
        for partition, one in missing.items()
    )


def holes_of(history: RecordSource | None, ranges: Mapping[int, Range]) -> Holes:
    """What the history lacks of the ranges. Reads the files. Raises SetupError."""
    if history is None:
        return Holes()
    count, first = 0, ""
    for row in history.unreadable():
        count, first = count + 1, first or row
    if not isinstance(history, Archived):
        return Holes(count, first)
    found = {
        str(partition): _missing(
            history, partition, range(max(offsets.start, one.first), min(offsets.stop, one.end))
        )
        for partition, offsets in history.partitions().items()
        if (one := ranges.get(partition)) is not None
    }
    return Holes(count, first, {name: one for name, one in found.items() if one.offsets})


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
