"""Positions of changes on an axis, by time or by number, in percent of its length."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import count as count_from
from typing import Final, Literal, NamedTuple

from worker.events.messages import timestamp
from worker.published.history import HistoryStep

MOST_TICKS: Final = 7
ROOM: Final = 96.0
"""Position of the last change; bars of present sentences continue beyond it."""
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
    """A labelled position."""

    at: float
    label: str


class Axis(NamedTuple):
    """Positions of the steps, ascending, and ticks."""

    at: list[float]
    ticks: list[Tick]


def times(steps: Sequence[HistoryStep]) -> tuple[Clock, list[int]] | None:
    """The clock and the time of each step (milliseconds since 1970, ascending); None where neither
    clock tells the steps apart.

    The clock is that of the events if most have a time, because a replay publishes years in
    minutes; else that of publication. A step without a time, or with an earlier time than the step
    gets the time of the step before.
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
    """The axis of ascending times (milliseconds since 1970) that are not all equal."""
    first, length = moments[0], moments[-1] - moments[0]
    marks = [tick for tick in _calendar(first, moments[-1]) if first <= tick[0] <= moments[-1]]
    return Axis(
        [_rounded(ROOM * (one - first) / length) for one in moments],
        [Tick(_rounded(ROOM * (at - first) / length), label) for at, label in marks],
    )


def step_axis(count: int) -> Axis:
    """The axis of equidistant steps."""
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
    """Round times within the range, with labels."""
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
