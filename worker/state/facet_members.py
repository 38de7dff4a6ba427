"""Which stored sentences of an entity belong to which visible facet, from its rows alone."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from worker.facets.membership import FacetCriteria
from worker.facets.newest import NewestReviews
from worker.state.errors import CorruptRow
from worker.state.rows import ReviewFacts, ReviewRow, date_of
from worker.text.language import language_code


class FacetMembers:
    """The members of an entity's facets by its review rows; `ratings` are those of live reviews,
    `languages` their numbers by known language.

    Without the reviews the sentences of facets by phrases alone are found.
    """

    def __init__(
        self, facets: FacetCriteria, reviews: Iterable[tuple[bytes, ReviewFacts | ReviewRow]] = ()
    ) -> None:
        self._facets = facets
        self._of_review: dict[bytes, int] = {}
        self._label_bits: dict[bytes, Mapping[int, int]] = {}
        self._mentions: dict[bytes, int] = {}
        self.ratings: dict[bytes, float | None] = {}
        self.languages: Counter[str] = Counter()
        dates: list[tuple[bytes, str | None]] = []
        for name, row in reviews:
            if row.deleted:
                continue
            self.ratings[name] = row.details.rating
            if language := language_code(row.details.language or row.language):
                self.languages[language] += 1
            if row.label_bits:
                self._label_bits[name] = row.label_bits
            if row.mentions:
                self._mentions[name] = row.mentions
            if facets.needs_reviews:
                self._of_review[name] = facets.review_bits(row.details, row.language)
            if facets.recent:
                dates.append((name, date_of(row.details, row.is_future)))
        if facets.recent:
            newest = NewestReviews(len(dates), dates)
            recent = dict.fromkeys(self._of_review, ~facets.recent_bits)
            for recent_facet in facets.recent:
                for _, name in newest.before(
                    newest.end(recent_facet.newest, recent_facet.within_days)
                ):
                    recent[name] |= recent_facet.bit
            for name, bits in recent.items():
                self._of_review[name] &= bits

    def bits(
        self, vectors: NDArray[np.int16], places: Iterable[tuple[bytes, int]]
    ) -> NDArray[np.uint64]:
        """The visible facets by sentence, a bit for each; `vectors` is (m, D), and `places` has the
        review and the ordinal of each row.
        """
        facets, nearest = self._facets, self._facets.nearest_facets(vectors)
        if not facets.needs_reviews:
            return facets.all_facets_of(nearest, np.uint64(0), np.uint64(facets.every))
        of_review, of_labels = self._of_review, self._label_bits
        label_bits = []
        review_bits = []
        for name, ordinal in places:
            review_bits.append(of_review.get(name, 0))
            label_bits.append(of_labels[name].get(ordinal, 0) if name in of_labels else 0)
        return facets.all_facets_of(
            nearest, np.array(label_bits, np.uint64), np.array(review_bits, np.uint64)
        )

    def mention_counts(self) -> Counter[tuple[int, float | None]]:
        """The numbers of reviews that mention exactly these facets, whose criteria on reviews they
        meet, and have this rating.
        """
        return Counter((bits, self.ratings[name]) for name, bits in self.mentions().items())

    def mentions(self) -> Mapping[bytes, int]:
        """For each review that has a facet's words: the facets that it mentions, and whose criteria
        on reviews it meets, a bit for each.
        """
        of_review, every = self._of_review, self._facets.every
        return {name: bits & of_review.get(name, every) for name, bits in self._mentions.items()}

    def signs(
        self, vectors: NDArray[np.int16], places: Iterable[tuple[bytes, int]]
    ) -> NDArray[np.int8]:
        """Signs by sentence: 1 if it is praise, -1 if it is a complaint, else 0; see `bits`."""
        direction = self._facets.direction
        if direction is None:
            return np.zeros(len(vectors), np.int8)
        of_reviews = [direction.of_rating(self.ratings.get(name)) for name, _ in places]
        signs = direction.signs(vectors)
        signs[signs != np.array(of_reviews, np.int8)] = 0
        return signs

    def rating(self, review_id: bytes) -> float | None:
        """The rating of a live review. Raises CorruptRow if there is none of this id."""
        try:
            return self.ratings[review_id]
        except KeyError:
            raise CorruptRow(
                f"review {review_id!r}", "it has vectors, and is missing or deleted"
            ) from None


class ReviewBits:
    """The facets of a review's sentences, by review; sentences arrive review by review."""

    def __init__(self) -> None:
        self._names: list[bytes] = []
        self._bits: list[int] = []

    def add(self, reviews: Sequence[bytes], bits: NDArray[np.uint64]) -> None:
        """Take in sentences, at least one: the review of each, and its facets."""
        names, found = self._names, self._bits
        starts = [0, *(at for at, (a, b) in enumerate(pairwise(reviews), 1) if a is not b)]
        joined = np.bitwise_or.reduceat(bits, starts).tolist()
        for name, value in zip([reviews[at] for at in starts], joined, strict=True):
            if names and names[-1] == name:
                found[-1] |= value
            else:
                names.append(name)
                found.append(value)

    def counts(self, members: FacetMembers) -> Counter[tuple[int, float | None]]:
        """The numbers of reviews with sentences in exactly these facets, and this rating.

        Raises CorruptRow if there is a sentence without a live review.
        """
        return Counter(zip(self._bits, map(members.rating, self._names), strict=True))


def rows_of(
    bits: NDArray[np.uint64], number: int, sign: int = 0, signs: NDArray[np.int8] | None = None
) -> NDArray[np.int64]:
    """The rows whose bit of this facet is set; of its pros or cons those of this sign."""
    rows = np.flatnonzero(bits & np.uint64(1 << number))
    return rows if not sign or signs is None else rows[signs[rows] == sign]
