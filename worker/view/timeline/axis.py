"""Where times, and the numbers of changes, lie on a line; in percent of its length."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import count as count_from
from typing import Final, Literal, NamedTuple

from worker.events.messages import timestamp
from worker.published.history import HistoryStep

MOST_TICKS: Final = 7
ROOM: Final = 96.0
"""Where the last change lies: behind it is room for what is still there."""
_SECOND: Final = 1000
_HOUR: Final = 3600 * _SECOND
_DAY: Final = 24 * _HOUR
_EVEN: Final = tuple(
    [count * _SECOND for count in (1, 5, 15, 60, 300, 900)]
    + [count * _HOUR for count in (1, 3, 6, 12)]
    + [count * _DAY for count in (1, 2, 7)]
)
"""Distances of ticks, milliseconds."""
_MONTHS: Final = (1, 3, 6, 12, 24, 60, 120, 600, 1200, 6000, 24000)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

Clock = Literal["occurred", "published"]


class Tick(NamedTuple):
    """A mark on an axis."""

    at: float
    label: str


class Axis(NamedTuple):
    """Positions of the steps, ascending, and marks between them."""

    at: list[float]
    ticks: list[Tick]


def times(steps: Sequence[HistoryStep]) -> tuple[Clock, list[int]] | None:
    """Milliseconds since 1970 of each step, ascending, and by which clock; None where no clock
    tells them apart.

    By that of the events where most have a time, for a replay publishes years in minutes; else by
    that of the publication. A step without a time, or with an earlier one than the step before it,
    has that of the one before.
    """
    publications = [step.publication for step in steps]
    occurred = [one.occurred_ms for one in publications]
    published = [
        None if timestamp(one.published_ms) is None else one.published_ms for one in publications
    ]
    clocks: tuple[tuple[Clock, list[int | None]], ...] = (
        ("occurred", occurred),
        ("published", published),
    )
    for clock, moments in clocks:
        known = [one for one in moments if one is not None]
        if 2 * len(known) >= len(steps) and min(known) < max(known):
            return clock, _ascending(moments, known[0])
    return None


def time_axis(moments: Sequence[int]) -> Axis:
    """Of ascending milliseconds since 1970, not all of them the same."""
    first, length = moments[0], moments[-1] - moments[0]
    marks = [tick for tick in _calendar(first, moments[-1]) if first <= tick[0] <= moments[-1]]
    return Axis(
        [_rounded(ROOM * (one - first) / length) for one in moments],
        [Tick(_rounded(ROOM * (at - first) / length), label) for at, label in marks],
    )


def step_axis(count: int) -> Axis:
    """Of so many steps, one as far from the next as any other."""
    distances = (even * 10**power for power in count_from(0) for even in (1, 2, 5))
    distance = next(one for one in distances if (count - 1) / one <= MOST_TICKS)
    at = [_rounded(ROOM * i / max(count - 1, 1)) for i in range(count)]
    return Axis(at, [Tick(at[i], f"{i + 1:,}") for i in range(0, count, distance)])


def _ascending(moments: Sequence[int | None], first: int) -> list[int]:
    latest = first
    result = []
    for one in moments:
        latest = latest if one is None else max(latest, one)
        result.append(latest)
    return result


def _calendar(first: int, last: int) -> list[tuple[int, str]]:
    """Even moments about these, with their labels: in seconds to weeks, else in months
    and years.
    """
    for distance in _EVEN:
        if (last - first) / distance <= MOST_TICKS:
            form = (
                "%Y-%m-%d"
                if distance >= _DAY
                else "%m-%d %H:%M"
                if distance >= 60 * _SECOND
                else "%H:%M:%S"
            )
            start = -(-first // distance) * distance
            return [(at, _moment(at).strftime(form)) for at in range(start, last + 1, distance)]
    return list(_months(first, last))


def _months(first: int, last: int) -> Iterator[tuple[int, str]]:
    begin, end = _moment(first), _moment(last)
    months = (end.year - begin.year) * 12 + end.month - begin.month
    distance = next(one for one in _MONTHS if months / one <= MOST_TICKS)
    number = -(-(begin.year * 12 + begin.month - 1) // distance) * distance
    while number // 12 <= min(end.year, 9999):
        day = datetime(number // 12, number % 12 + 1, 1, tzinfo=UTC)
        yield (
            (day - _EPOCH) // timedelta(milliseconds=1),
            f"{day:%Y}" if distance >= 12 else f"{day:%Y-%m}",
        )
        number += distance


def _moment(milliseconds_: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=milliseconds_)


def _rounded(percent: float) -> float:
    return round(percent, 3)
