"""The chart of a timeline as data: when each sentence was in the summary or in a facet, and axes.

`worker/page/static/timeline.js` draws the chart.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count as count_from
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from worker.events import SummarySentence
from worker.events.messages import timestamp
from worker.published.history import HistoryStep
from worker.view.texts import printable

SHADES: Final = 5
"""Colours of ratings, from the lowest to the highest rating."""


class Life(NamedTuple):
    """A time that a sentence was in the summary, by step numbers.

    Attributes:
        last: the step with which it left; None: it is still there.
        is_start_known: it came with `first`, not with a missing step.
        is_end_known: it left with `last`, not with a missing step.
    """

    first: int
    last: int | None
    is_start_known: bool
    is_end_known: bool


@dataclass(frozen=True, slots=True)
class SentenceLife:
    """A sentence of some summary or facet. An edited sentence is another one."""

    latest: SummarySentence
    """In the last set that had it."""
    facet: str | None = None
    lives: list[Life] = field(default_factory=list)


def sentences_of(steps: Sequence[HistoryStep]) -> list[SentenceLife]:
    """All sentences of the steps: the last sets by facet and rank, then the others, last left
    first.
    """
    found: dict[_Key, SentenceLife] = {}
    begun: dict[_Key, tuple[int, bool]] = {}
    for i, step in enumerate(steps):
        body, facet = step.publication.body, step.publication.facet
        shown = {(facet, one.sentence_id, one.text): one for one in step.sentences}
        added, removed = (
            (set(body.added), set(body.removed)) if body is not None else (set(), set())
        )
        of_it = [key for key in begun if body is None or key[0] == facet]
        for key in [key for key in of_it if key not in shown]:
            first, is_start_known = begun.pop(key)
            is_end_known = not step.incomplete or key[1] in removed
            found[key].lives.append(Life(first, i, is_start_known, is_end_known))
        for key, one in shown.items():
            found[key] = SentenceLife(one, facet, found[key].lives if key in found else [])
            begun.setdefault(key, (i, key[1] in added))
    for key, (first, is_start_known) in begun.items():
        found[key].lives.append(Life(first, None, is_start_known, True))
    return sorted(found.values(), key=_order)


_Key: TypeAlias = tuple[str | None, str, str]


def _order(sentence: SentenceLife) -> tuple[int, str, int, int]:
    latest = sentence.lives[-1]
    if latest.last is None:
        return 0, sentence.facet or "", sentence.latest.rank, 0
    return 1, "", -latest.last, -latest.first


class Scale(NamedTuple):
    """The range of ratings: five stars, or from the lowest to the highest rating if one lies
    outside of these.
    """

    lowest: float
    highest: float

    @classmethod
    def of(cls, ratings: Sequence[float]) -> Scale | None:
        """None without a rating."""
        if not ratings:
            return None
        if FIVE_STARS.lowest <= min(ratings) and max(ratings) <= FIVE_STARS.highest:
            return FIVE_STARS
        return cls(min(ratings), max(ratings))

    def shade(self, rating: float | None) -> str:
        """The CSS class of a bar."""
        if rating is None:
            return "r-none"
        length = self.highest - self.lowest
        share = 1.0 if length == 0 else (rating - self.lowest) / length
        return f"r{round(share * (SHADES - 1))}"


FIVE_STARS: Final = Scale(1, 5)


def chart(
    steps: Sequence[HistoryStep],
    sentences: Sequence[SentenceLife],
    by_time: Axis | None,
    by_step: Axis,
) -> dict[str, Any]:
    """The argument of `timeline` in timeline.js; its comment says what is in it."""
    scale = Scale.of([one.latest.rating for one in sentences if one.latest.rating is not None])
    return {
        "steps": [{"came": _came(one), "left": _left(one), "isEnd": _is_end(one)} for one in steps],
        "sentences": [
            {
                "id": printable(one.latest.sentence_id),
                "text": printable(_named(one.latest.text, one.facet)),
                "rating": one.latest.rating,
                "shade": "r-none" if scale is None else scale.shade(one.latest.rating),
                "spans": one.lives,
            }
            for one in sentences
        ],
        "axes": {
            "time": None if by_time is None else by_time._asdict(),
            "steps": by_step._asdict(),
        },
        "scale": scale,
    }


def _named(text: str, facet: str | None) -> str:
    return text if facet is None else f"{facet}: {text}"


def _is_end(step: HistoryStep) -> bool:
    return step.publication.facet is None and not step.sentences


def _came(step: HistoryStep) -> int:
    body = step.publication.body
    return 0 if body is None else len(body.added)


def _left(step: HistoryStep) -> int:
    body = step.publication.body
    if body is None:
        return 0 if step.before is None else len(step.before.sentences)
    return len(body.removed)


# -- positions on an axis, by time or by number, in percent of its length

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
