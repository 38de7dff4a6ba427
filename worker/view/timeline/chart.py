"""The chart of a history as data, which `worker/page/static/timeline.js` draws."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from worker.published.history import HistoryStep
from worker.view.timeline.axis import Axis
from worker.view.timeline.lives import SentenceLife
from worker.view.timeline.markup import printable

SHADES: Final = 5
"""Colours of ratings, from the lowest to the highest rating."""


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
        "steps": [
            {"came": _came(one), "left": _left(one), "isEnd": not one.sentences} for one in steps
        ],
        "sentences": [
            {
                "id": printable(one.latest.sentence_id),
                "text": printable(one.latest.text),
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


def _came(step: HistoryStep) -> int:
    body = step.publication.body
    return 0 if body is None else len(body.added)


def _left(step: HistoryStep) -> int:
    body = step.publication.body
    if body is None:
        return 0 if step.before is None else len(step.before.sentences)
    return len(body.removed)
