"""When each sentence was in the summary or in a facet, and the chart of it as data.

`worker/page/static/timeline.js` draws the chart.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias

from worker.events import SummarySentence
from worker.published.history import HistoryStep
from worker.view.timeline.axis import Axis
from worker.view.timeline.markup import printable

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
    def of(cls, ratings: Sequence[float]) -> "Scale | None":
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
