"""Ratings of live reviews: counted exactly while reviews come and go, and as bodies have them."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Annotated, Final, NamedTuple

from msgspec import UNSET, Meta, Struct, UnsetType

HALVES: Final = tuple(f"{half // 2}{'.5' * (half % 2)}" for half in range(21))
"""Whole and half numbers from 0 to 10 as a histogram names them, by their double."""
_DOUBLES: Final = {half / 2: half for half in range(len(HALVES))}


class Ratings(Struct, frozen=True):
    """The ratings of live reviews."""

    count: Annotated[int, Meta(ge=0, description="Reviews that have a rating.")]
    mean: (
        Annotated[float, Meta(description="Their exact mean, rounded once; null without any.")]
        | None
    )
    histogram: (
        Annotated[
            dict[
                Annotated[str, Meta(extra_json_schema={"enum": list(HALVES)})],
                Annotated[int, Meta(ge=1)],
            ],
            Meta(
                description="By rating the number of its reviews, if it has any, ascending. Absent "
                "if a rating is not a whole or half number from 0 to 10.",
                examples=[{"3": 1, "4.5": 2}],
            ),
        ]
        | UnsetType
    ) = UNSET


class RatingCounts(NamedTuple):
    """The ratings of some reviews, a value: counting one more makes another value.

    `halves`: by the double of a whole or half number from 0 to 10 its reviews, if it has any.
    `others`: reviews with other ratings. `others_sum`: the sum of these ratings.
    """

    halves: Mapping[int, int] = {}
    others: int = 0
    others_sum: Fraction = Fraction()

    def plus(self, rating: float | None, reviews: int = 1) -> RatingCounts:
        """The counts with so many more reviews of this rating, or fewer; None: without a rating."""
        if rating is None:
            return self
        halves, others, others_sum = self
        half = _DOUBLES.get(rating)
        if half is None:
            return RatingCounts(halves, others + reviews, others_sum + reviews * Fraction(rating))
        count = halves.get(half, 0) + reviews
        halves = {**halves, half: count}
        if not count:
            del halves[half]
        return RatingCounts(halves, others, others_sum)

    def replaced(self, before: float | None, now: float | None) -> RatingCounts:
        """The counts with a review's rating `now` in place of the one `before`."""
        if before == now:
            return self
        return self.plus(now) if before is None else self.plus(before, -1).plus(now)

    def ratings(self) -> Ratings:
        """The member `ratings` of a body."""
        count, doubled = self.others, 0
        histogram = {}
        for half, reviews in sorted(self.halves.items()):
            count += reviews
            doubled += half * reviews
            histogram[HALVES[half]] = reviews
        if self.others:
            return Ratings(count, float((Fraction(doubled, 2) + self.others_sum) / count))
        return Ratings(count, doubled / (2 * count) if count else None, histogram)


NO_RATINGS: Final = RatingCounts()


class ReviewCounts(NamedTuple):
    """The number of some reviews, and their ratings; a value as `RatingCounts`."""

    reviews: int = 0
    ratings: RatingCounts = NO_RATINGS

    def plus(self, rating: float | None, reviews: int = 1) -> ReviewCounts:
        """The counts with so many more reviews of this rating, or fewer; None: without a rating."""
        return ReviewCounts(self.reviews + reviews, self.ratings.plus(rating, reviews))


NO_REVIEWS: Final = ReviewCounts()
