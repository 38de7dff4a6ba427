"""Which stored sentences of an entity belong to which visible facet, from its rows alone."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from worker.facets.membership import NO_FACET, FacetCriteria
from worker.facets.newest import recency
from worker.state.errors import CorruptRow
from worker.state.rows import ReviewFacts, ReviewRow


class FacetMembers:
    """The members of an entity's facets by its review rows; `ratings` are those of live reviews.

    Without the reviews the sentences of facets by phrases alone are found.
    """

    def __init__(
        self, facets: FacetCriteria, reviews: Iterable[tuple[bytes, ReviewFacts | ReviewRow]] = ()
    ) -> None:
        self._facets = facets
        # By nearest phrase alone; the last one is that of NO_FACET, which is -1.
        every = [*range(len(facets.definitions.facets)), NO_FACET]
        self._by_phrase = np.array([facets.facets_of(one, 0, 0) for one in every], np.uint64)
        self._of_review: dict[bytes, int] = {}
        self._label_bits: dict[bytes, Mapping[int, int]] = {}
        self.ratings: dict[bytes, float | None] = {}
        dated: list[tuple[bytes, bytes]] = []
        for name, row in reviews:
            if row.deleted:
                continue
            self.ratings[name] = row.details.rating
            if bits := facets.rating_bits(row.details.rating):
                self._of_review[name] = bits
            if row.label_bits:
                self._label_bits[name] = row.label_bits
            if facets.newest:
                dated.append((recency(row.details.occurred_at), name))
        dated.sort()
        for facet, count in facets.newest:
            for _, name in dated[:count]:
                self._of_review[name] = self._of_review.get(name, 0) | 1 << facet

    def bits(
        self, vectors: NDArray[np.int16], places: Iterable[tuple[bytes, int]]
    ) -> NDArray[np.uint64]:
        """By sentence its visible facets, a bit for each; `vectors` is (m, D), and `places` has the
        review and the ordinal of each row.
        """
        nearest = self._facets.nearest_facets(vectors)
        if not self._of_review and not self._label_bits:
            return self._by_phrase[nearest]
        of_review, label_bits = self._of_review, self._label_bits
        found = [
            self._facets.facets_of(
                facet, label_bits.get(name, {}).get(ordinal, 0), of_review.get(name, 0)
            )
            for facet, (name, ordinal) in zip(nearest.tolist(), places, strict=True)
        ]
        return np.array(found, np.uint64)

    def rating(self, review_id: bytes) -> float | None:
        """The rating of a live review. Raises CorruptRow if there is none of this id."""
        try:
            return self.ratings[review_id]
        except KeyError:
            raise CorruptRow(
                f"review {review_id!r}", "it has vectors, and is missing or deleted"
            ) from None


class ReviewBits:
    """By review the facets of its sentences, which come review by review."""

    def __init__(self) -> None:
        self._names: list[bytes] = []
        self._bits: list[int] = []

    def add(self, reviews: Sequence[bytes], bits: NDArray[np.uint64]) -> None:
        """Take in sentences, at least one: the review of each, and its facets."""
        names, found = self._names, self._bits
        starts = [0, *(at for at, (a, b) in enumerate(pairwise(reviews), 1) if a is not b)]
        joined = np.bitwise_or.reduceat(bits, starts).tolist()
        for name, one in zip([reviews[at] for at in starts], joined, strict=True):
            if names and names[-1] == name:
                found[-1] |= one
            else:
                names.append(name)
                found.append(one)

    def counts(self, members: FacetMembers) -> Counter[tuple[int, float | None]]:
        """How many reviews have sentences in exactly these facets, and this rating.

        Raises CorruptRow if there is a sentence without a live review.
        """
        return Counter(zip(self._bits, map(members.rating, self._names), strict=True))


def rows_of(bits: NDArray[np.uint64], number: int) -> NDArray[np.int64]:
    """The rows whose bit of this facet is set."""
    return np.flatnonzero(bits & np.uint64(1 << number))
