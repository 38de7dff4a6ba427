"""Membership: which facets a sentence belongs to, exact and independent of batch and machine.

Facets are numbered by their position in the definitions; a set of them is an integer with a bit for
each. Phrases are fixed-point vectors, as sentences are. A product of two is an integer below 2^53,
so float64 computes it exactly in any order. Lengths differ a little from vector to vector, so a
cosine has both: float64 decides what is clear, and integers what rounding might decide.
"""

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from worker.coversumm.fixed_point import quantize
from worker.errors import SetupError
from worker.facets.definitions import (
    DEFAULT_THRESHOLD,
    MAX_VECTOR_BYTES,
    Definitions,
    given_vectors,
)

NO_FACET: Final = -1
ROWS: Final = 2048  # vectors compared at once, so that they fit a core's cache
ROUNDING: Final = 1e-12  # above the error of a cosine in float64, which is a few 2^-53


class NewestFacet(NamedTuple):
    """A facet of the newest live reviews."""

    facet: int
    reviews: int


class FacetCriteria:
    """The facets of a partition, with the vectors of their phrases.

    Attributes:
        definitions: as configured.
        vectors: (p, D) int16, of all phrases in the order of the facets; stored with the partition,
            because another machine may compute other last bits.
        dimension: D.
        label_bits: by label the facets that take it.
        newest: facets of the newest reviews.
        visible: the bits of all that are published.
    """

    def __init__(self, definitions: Definitions, vectors: NDArray[np.int16]) -> None:
        self.definitions = definitions
        self.vectors = vectors
        self.dimension = vectors.shape[1]
        owners: list[int] = []
        thresholds: list[float] = []
        self._ratings = []
        self.label_bits: dict[str, int] = {}
        newest: list[NewestFacet] = []
        for number, facet in enumerate(definitions.facets):
            given = facet.phrases or facet.vectors or ()
            threshold = DEFAULT_THRESHOLD if facet.threshold is None else facet.threshold
            owners += [number] * len(given)
            thresholds += [threshold] * len(given)
            if facet.rating is not None:
                self._ratings.append((1 << number, facet.rating))
            for label in facet.labels or ():
                self.label_bits[label] = self.label_bits.get(label, 0) | 1 << number
            if facet.newest is not None:
                newest.append(NewestFacet(number, facet.newest))
        if len(owners) != len(vectors):
            raise ValueError(f"{len(vectors)} vectors for {len(owners)} phrases")
        self.newest = tuple(newest)
        self.visible = sum(1 << number for number in definitions.visible)
        self._owners = np.array(owners, np.int64)
        self._thresholds = np.array(thresholds, np.float64)
        self._columns = np.ascontiguousarray(vectors.T, np.float64)  # (D, p)
        squares = np.square(self._columns).sum(axis=0)
        self._squared_norms = [int(square) for square in squares.tolist()]
        self._norms = np.sqrt(squares)

    @property
    def needs_reviews(self) -> bool:
        """Whether a facet depends on more than a sentence's vector."""
        return bool(self._ratings or self.label_bits or self.newest)

    def nearest_facets(self, vectors: NDArray[np.int16]) -> NDArray[np.int64]:
        """By row of (m, D) the facet of the phrase with the highest cosine, or NO_FACET if that is
        below its threshold.
        """
        found = np.full(len(vectors), NO_FACET, np.int64)
        if not len(self._owners):
            return found
        for at in range(0, len(vectors), ROWS):
            rows = vectors[at : at + ROWS].astype(np.float64)
            products, squares = rows @ self._columns, np.einsum("ij,ij->i", rows, rows)
            cosines = products / self._norms  # times the row's length
            best = cosines.argmax(axis=1)
            highest, lengths = cosines[np.arange(len(best)), best], np.sqrt(squares)
            above = highest - self._thresholds[best] * lengths
            near = above >= 0
            slack = ROUNDING * lengths
            rivals = cosines >= (highest - slack)[:, None]
            unclear = np.abs(above) <= slack
            if np.count_nonzero(rivals) > len(rows):
                unclear |= rivals.sum(axis=1) > 1
            for row in np.flatnonzero(unclear).tolist():
                best[row], near[row] = self._decide(
                    np.flatnonzero(rivals[row]).tolist(), products[row], int(squares[row])
                )
            found[at : at + ROWS][near] = self._owners[best[near]]
        return found

    def _decide(
        self, phrases: list[int], products: NDArray[np.float64], squared_norm: int
    ) -> tuple[int, bool]:
        """The nearest of these phrases, and whether its cosine is at least the threshold; in
        integers, by squares with the sign of the cosine.
        """
        squares = {}
        for phrase in phrases:
            product = int(products[phrase])
            squares[phrase] = Fraction(product * abs(product), self._squared_norms[phrase])
        best = max(phrases, key=squares.__getitem__)  # the first of equals: the one defined first
        threshold = Fraction(str(float(self._thresholds[best])))  # as it is written
        return best, squares[best] >= threshold**2 * squared_norm

    def facets_of(self, nearest: int, label_bits: int, of_review: int) -> int:
        """The visible facets of a sentence: by its nearest phrase, by its labels, and those of its
        review.
        """
        of_phrase = 0 if nearest == NO_FACET else 1 << nearest
        return (of_phrase | label_bits | of_review) & self.visible

    def rating_bits(self, rating: float | None) -> int:
        """The facets that a review with this rating belongs to."""
        if rating is None:
            return 0
        return sum([bit for bit, wanted in self._ratings if wanted.has(rating)])


def facet_criteria(
    definitions: Definitions,
    dimension: int,
    embed: Callable[[Sequence[str]], NDArray[np.floating[Any]]] | None,
) -> FacetCriteria:
    """The facets with their phrases embedded. `embed`: (m, dimension) of m sentences; None: events
    bring their embeddings.

    Raises SetupError if phrases cannot be embedded, or vectors do not fit.
    """
    rows: list[NDArray[np.int16]] = [np.empty((0, dimension), np.int16)]
    for facet in definitions.facets:
        if facet.phrases and embed is None:
            raise SetupError(
                f"COVERSUMM_FACETS: facet {facet.name!r}: phrases need an embedder, and "
                "COVERSUMM_EMBEDDER is none: give their embeddings as vectors"
            )
        if facet.phrases and embed is not None:
            rows.append(_fixed_point(facet.name, embed(facet.phrases)))
        elif facet.vectors:
            rows.append(_fixed_point(facet.name, given_vectors(facet, dimension)))
    vectors = np.concatenate(rows)
    if vectors.nbytes > MAX_VECTOR_BYTES:
        raise SetupError(
            f"COVERSUMM_FACETS: {len(vectors)} phrases and vectors of dimension {dimension} take "
            f"{vectors.nbytes} bytes, at most {MAX_VECTOR_BYTES} are allowed: give fewer"
        )
    return FacetCriteria(definitions, vectors)


def _fixed_point(name: str, embeddings: NDArray[np.floating[Any]]) -> NDArray[np.int16]:
    try:
        return quantize(embeddings)
    except ValueError as error:
        raise SetupError(f"COVERSUMM_FACETS: facet {name!r}: {error}") from None


def label_bits(facets: FacetCriteria | None) -> Mapping[str, int]:
    """By label the facets that take it; empty without facets."""
    return {} if facets is None else facets.label_bits
