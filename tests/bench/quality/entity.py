"""An entity's sentences in order of arrival, with their reviews and vectors."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from worker.coversumm import SCALE


class Review(NamedTuple):
    """A review and its sentences, in reading order."""

    sentences: list[str]
    rating: float | None = None


class Entity(NamedTuple):
    """Row i of `review_of` and `vectors` belongs to sentence i."""

    id: str
    sentences: list[str]
    review_of: NDArray[np.int64]  # the review of each sentence, counted in order of arrival
    ratings: list[float | None]  # of each review
    vectors: NDArray[np.int16]

    @property
    def unit(self) -> NDArray[np.float32]:
        """The vectors as numbers of length one, but for their rounding."""
        return self.vectors.astype(np.float32) / SCALE

    def after(self, reviews: int) -> int:
        """How many sentences there are after so many reviews."""
        return int(np.searchsorted(self.review_of, reviews))

    def only(self, rows: Sequence[int]) -> "Entity":
        """The same with these sentences alone, in this order."""
        taken = list(rows)
        return self._replace(
            sentences=[self.sentences[row] for row in taken],
            review_of=self.review_of[taken],
            vectors=self.vectors[taken],
        )

    def in_order(self, reviews: Sequence[int]) -> "Entity":
        """The same with its reviews in another order, or with some of them only."""
        rows_of: dict[int, list[int]] = {}
        for row, review in enumerate(self.review_of.tolist()):
            rows_of.setdefault(review, []).append(row)
        rows = [row for review in reviews for row in rows_of.get(review, [])]
        counted = [
            place
            for place, review in enumerate(reviews)
            for _ in range(len(rows_of.get(review, [])))
        ]
        return Entity(
            self.id,
            [self.sentences[row] for row in rows],
            np.array(counted, np.int64),
            [self.ratings[review] for review in reviews],
            self.vectors[rows],
        )


def entity(id_: str, reviews: Sequence[Review], vectors: NDArray[np.int16]) -> Entity:
    """Of reviews in order of arrival, and the vectors of all their sentences."""
    counts = [len(review.sentences) for review in reviews]
    return Entity(
        id_,
        [sentence for review in reviews for sentence in review.sentences],
        np.repeat(np.arange(len(reviews)), counts),
        [review.rating for review in reviews],
        vectors,
    )
