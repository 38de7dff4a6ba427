"""Which stored sentences of an entity belong to which visible facet, from its rows alone: for views
and `verify`, which share nothing with the facets in memory.
"""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from worker.facets.membership import NO_FACET, FacetSet
from worker.facets.newest import recency
from worker.state.rows import ReviewRow


class FacetMembers:
    """The members of an entity's facets by its review rows; `ratings` are those of live reviews."""

    def __init__(self, facets: FacetSet, reviews: Iterable[tuple[bytes, ReviewRow]]) -> None:
        self._facets = facets
        self._visible = sum([1 << number for number in facets.definitions.visible])
        self._of_review: dict[bytes, int] = {}
        self._labels: dict[bytes, Mapping[int, int]] = {}
        self.ratings: dict[bytes, float | None] = {}
        dated: list[tuple[bytes, bytes]] = []
        for name, row in reviews:
            if row.deleted:
                continue
            self.ratings[name] = row.rating
            self._of_review[name] = facets.rating_bits(row.rating)
            if row.labels:
                self._labels[name] = row.labels
            dated.append((recency(row.instant), name))
        dated.sort()
        for facet, count in facets.newest:
            for _, name in dated[:count]:
                self._of_review[name] |= 1 << facet

    def bits(
        self, vectors: NDArray[np.int16], places: Sequence[tuple[bytes, int]]
    ) -> NDArray[np.uint64]:
        """By sentence its visible facets, a bit for each; `vectors` is (m, D), and `places` has the
        review and the ordinal of each row.
        """
        found = []
        nearest = self._facets.nearest_facets(vectors).tolist()
        for (review_id, ordinal), facet in zip(places, nearest, strict=True):
            one = 0 if facet == NO_FACET else 1 << facet
            one |= self._of_review.get(review_id, 0)
            if review_id in self._labels:
                one |= self._labels[review_id].get(ordinal, 0)
            found.append(one & self._visible)
        return np.array(found, np.uint64)
