"""Membership: which facets a sentence belongs to, exact and independent of batch and machine.

Facets are numbered by their position in the definitions; a set of them is an integer with a bit for
each. A sentence belongs to a facet if it meets all of its criteria: those on its vector, on its
labels, and on its review. Phrases are fixed-point vectors, as sentences are. A product of two is an
integer below 2^53, so float64 computes it exactly in any order. Lengths differ a little from vector
to vector, so a cosine has both: float64 decides what is clear, and integers what rounding might
decide.
"""

import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from worker.coversumm.fixed_point import quantize
from worker.errors import SetupError
from worker.events.inputs import ReviewDetails
from worker.facets.definitions import (
    DEFAULT_THRESHOLD,
    MAX_VECTOR_BYTES,
    Definitions,
    Facet,
    given_vectors,
)
from worker.facets.polarity import Direction
from worker.facets.quotable import has_personal_name, is_quotable
from worker.facets.words import Meaning, Words
from worker.text.language import LanguageDetector

ROWS: Final = 2048  # vectors compared at once, so that they fit a core's cache
ROUNDING: Final = 1e-12  # above the error of a cosine in float64, which is a few 2^-53


class RecentFacet(NamedTuple):
    """A facet of the newest live reviews: a number of them, or those within days of the newest."""

    bit: int
    newest: int | None
    within_days: int | None


@dataclass(frozen=True, eq=False)
class Rivals:
    """Phrases of which a sentence has at most one: the nearest, if it is near enough. Those that do
    not exclude one another it has all that are near enough.
    """

    vectors: NDArray[np.int16]  # (p, D)
    thresholds: NDArray[np.float64]  # (p,)
    owners: NDArray[np.uint64]  # (p,), a bit for each facet of the phrase
    is_exclusive: bool = True

    @cached_property
    def _columns(self) -> NDArray[np.float64]:
        return np.ascontiguousarray(self.vectors.T, np.float64)  # (D, p)

    @cached_property
    def _squares(self) -> NDArray[np.float64]:
        squares: NDArray[np.float64] = np.square(self._columns).sum(axis=0)
        return squares

    def facets(self, vectors: NDArray[np.int16]) -> NDArray[np.uint64]:
        """The facets of the phrase with the highest cosine, by row of (m, D); none if that is below
        its threshold. Without exclusion those of all phrases that are near enough.
        """
        find = self._of_nearest if self.is_exclusive else self._of_all_near
        found = np.zeros(len(vectors), np.uint64)
        for at in range(0, len(vectors), ROWS):
            rows = vectors[at : at + ROWS].astype(np.float64)
            found[at : at + ROWS] = find(rows @ self._columns, np.einsum("ij,ij->i", rows, rows))
        return found

    def _of_nearest(
        self, products: NDArray[np.float64], squares: NDArray[np.float64]
    ) -> NDArray[np.uint64]:
        """The facets of the nearest phrase, by row: of (m, p) products and (m,) squared lengths."""
        cosines = products / np.sqrt(self._squares)  # times the row's length
        best = cosines.argmax(axis=1)
        highest, lengths = cosines[np.arange(len(best)), best], np.sqrt(squares)
        above = highest - self.thresholds[best] * lengths
        near = above >= 0
        slack = ROUNDING * lengths
        rivals = cosines >= (highest - slack)[:, None]
        unclear = np.abs(above) <= slack
        if np.count_nonzero(rivals) > len(products):
            unclear |= rivals.sum(axis=1) > 1
        for row in np.flatnonzero(unclear).tolist():
            best[row], near[row] = self._decide(
                np.flatnonzero(rivals[row]).tolist(), products[row], int(squares[row])
            )
        return np.where(near, self.owners[best], np.uint64(0))

    def _of_all_near(
        self, products: NDArray[np.float64], squares: NDArray[np.float64]
    ) -> NDArray[np.uint64]:
        """Likewise of all phrases with a cosine of at least their threshold."""
        lengths = np.sqrt(squares)[:, None]
        above = products / np.sqrt(self._squares) - self.thresholds * lengths
        near = above >= 0
        for row, phrase in np.argwhere(np.abs(above) <= ROUNDING * lengths).tolist():
            _, near[row, phrase] = self._decide([phrase], products[row], int(squares[row]))
        owned = np.where(near, self.owners, np.uint64(0))
        found: NDArray[np.uint64] = np.bitwise_or.reduce(owned, axis=1)
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
            squares[phrase] = Fraction(product * abs(product), int(self._squares[phrase]))
        best = max(phrases, key=squares.__getitem__)  # the first of equals: the one defined first
        threshold = Fraction(str(float(self.thresholds[best])))  # as it is written
        return best, squares[best] >= threshold**2 * squared_norm


class FacetCriteria:
    """The facets of a partition, with the vectors of their phrases.

    Attributes:
        definitions: as configured.
        vectors: (p, D) int16, of all phrases in the order of the definitions, then those of the
            polarity; stored with the partition, because another machine may compute other last
            bits.
        dimension: D.
        label_bits: by label the facets that take it.
        recent: facets of the newest reviews.
        recent_bits: the bits of these.
        phrase_bits: the bits of facets with phrases or vectors.
        quoting_bits: the bits of facets that quote words.
        every: the bits of all.
        visible: the bits of all that are published.
        without_phrases: the bits of facets without phrases and vectors.
        without_labels: the bits of facets without labels.
        verified: the facets that admit reviews, by whether these are verified.
        languages: likewise by the value of the field, under "" those that admit any other.
        countries: likewise.
        authors: likewise.
        rivals: the phrases, by those that exclude one another.
        direction: tells praise from complaints; None without polarity.
    """

    def __init__(self, definitions: Definitions, vectors: NDArray[np.int16]) -> None:
        self.definitions = definitions
        self.vectors = vectors
        self.dimension = vectors.shape[1]
        facets = [(1 << number, facet) for number, facet in enumerate(definitions.facets)]
        self.every = sum(bit for bit, _ in facets)
        self.label_bits = dict(_by_value(facets, "labels"))
        self.recent = tuple(
            RecentFacet(bit, facet.newest, facet.within_days)
            for bit, facet in facets
            if facet.newest is not None or facet.within_days is not None
        )
        self.recent_bits = sum(recent_facet.bit for recent_facet in self.recent)
        self.phrase_bits = sum(bit for bit, facet in facets if facet.is_exclusive)
        self.visible = sum(1 << number for number in definitions.visible)
        self.without_phrases = self.every & ~self.phrase_bits
        self._of_languages = sum(bit for bit, facet in facets if facet.language is not None)
        self.quoting_bits = sum(bit for bit, facet in facets if facet.quotes_words)
        self.without_labels = sum(bit for bit, facet in facets if facet.labels is None)
        self.without_marks = self.without_labels & ~self.quoting_bits
        self._ratings = [(bit, facet.rating) for bit, facet in facets if facet.rating is not None]
        self.verified = {
            value: sum(bit for bit, facet in facets if facet.verified in (None, value))
            for value in (None, False, True)
        }
        self.languages = _admitting(facets, "language")
        self.countries = _admitting(facets, "country")
        self.authors = _admitting(facets, "author_id")
        polarity = definitions.polarity
        phrases = len(vectors) - (0 if polarity is None else sum(polarity.counts))
        self.rivals = _rivals(definitions, vectors[:phrases])
        self.direction = None if polarity is None else Direction(polarity, vectors[phrases:])
        # facets of several languages have the same words
        self._words = Words(
            [None if definition.hidden else definition.words for definition in definitions.defined]
        )
        self._with_language = sum(
            1 << at
            for at, facet in enumerate(definitions.defined)
            if definitions.languages or facet.language is not None
        )
        self._of_definition = [
            sum(1 << number for number, origin in enumerate(definitions.origin) if origin == at)
            for at in range(len(definitions.defined))
        ]

    @cached_property
    def needs_reviews(self) -> bool:
        """True if a facet depends on more than a sentence's vector."""
        return any(facet.rivals != Facet("", k=1) for facet in self.definitions.facets)

    @cached_property
    def sided_bits(self) -> int:
        """The bits of facets with sides."""
        return sum(1 << number for number in self.definitions.sided)

    @cached_property
    def most_recent(self) -> int:
        """The number of newest reviews that decide about facets; all for a facet by days."""
        if any(recent_facet.within_days is not None for recent_facet in self.recent):
            return sys.maxsize // 8
        return max([recent_facet.newest or 0 for recent_facet in self.recent], default=0)

    def nearest_facets(self, vectors: NDArray[np.int16]) -> NDArray[np.uint64]:
        """The facets of the nearest phrases by row of (m, D), a bit for each."""
        found = np.zeros(len(vectors), np.uint64)
        for rivals in self.rivals:
            found |= rivals.facets(vectors)
        return found

    def facets_of(self, phrase_bits: int, label_bits: int, review_bits: int) -> int:
        """The visible facets of a sentence: of those of its nearest phrases, its labels and its
        review.
        """
        of_phrases, of_marks = self.without_phrases | phrase_bits, self.without_marks
        return of_phrases & (of_marks | label_bits) & review_bits & self.visible

    def all_facets_of(
        self,
        phrase_bits: NDArray[np.uint64],
        label_bits: NDArray[np.uint64] | np.uint64,
        review_bits: NDArray[np.uint64] | np.uint64,
    ) -> NDArray[np.uint64]:
        """`facets_of` by row."""
        found = phrase_bits | np.uint64(self.without_phrases)
        found &= label_bits | np.uint64(self.without_marks)
        found &= review_bits
        found &= np.uint64(self.visible)
        return found

    def review_bits(self, details: ReviewDetails, language: str) -> int:
        """The facets whose criteria a live review meets; those on the newest reviews aside."""
        bits = self.rating_bits(details.rating) & self.verified[details.verified]
        bits &= self.languages.get(language, self.languages[""])
        bits &= self.countries.get(details.country or "", self.countries[""])
        return bits & self.authors.get(details.author_id or "", self.authors[""])

    def rating_bits(self, rating: float | None) -> int:
        """The facets that admit a review of this rating."""
        bits = self.every
        for bit, wanted in self._ratings:
            if rating is None or not wanted.has(rating):
                bits &= ~bit
        return bits

    @cached_property
    def detector(self) -> LanguageDetector | None:
        """Finds the languages of reviews; None if no facet depends on them.

        Raises SetupError without the extra `language`.
        """
        named = self.definitions.named_languages
        return _detector(tuple(sorted(named))) if named else None

    def language_of(self, texts: Iterable[str], tag: str | None) -> str:
        """The language of a review with these texts and this tag; empty if no facet needs it."""
        detector = self.detector
        return "" if detector is None else detector.language_of(" ".join(texts), tag)

    @property
    def has_words(self) -> bool:
        """True if a visible facet has words."""
        return bool(self._words)

    def mentions(self, texts: Iterable[str], language: str, tag: str | None) -> int:
        """The facets whose words a review with these sentences has, a bit for each.

        Facets of a language read it as the `language` found for the review, all others as that of
        its event's `tag`: so no facet's count depends on another facet.
        """
        if not self._words:
            return 0
        texts, every = list(texts), (1 << len(self._of_definition)) - 1
        found = self._words.bits(texts, language) if self._with_language else 0
        tagged = self._words.bits(texts, tag) if self._with_language != every else 0
        return self._of_words(found, tagged)

    def marks(self, label_bits: int, words: int, text: str, language: str, tag: str | None) -> int:
        """The facets of a sentence's labels, of those that quote words only those that quote this
        one. `words`: the facets whose words it has; languages as in `mentions`.
        """
        quoting = (label_bits | self.without_labels) & self.quoting_bits & words
        if quoting:
            quoting &= self.quotable(text, language, tag)
        return label_bits & ~self.quoting_bits | quoting

    def quotable(self, text: str, language: str, tag: str | None) -> int:
        """The facets by whose language the sentence can be quoted."""
        if self.definitions.hide_names and has_personal_name(text):
            return 0
        found = self.quoting_bits & self._of_languages
        others = self.quoting_bits & ~self._of_languages
        return (found if found and is_quotable(text, language) else 0) | (
            others if others and is_quotable(text, tag) else 0
        )

    def mentions_of_word(self, word: str, language: str, tag: str | None) -> Meaning:
        """The facets of which this folded word is one, and those of the runs that it begins."""
        (found, found_runs), (tagged, tagged_runs) = (
            self._words.meaning(word, code) for code in (language, tag)
        )
        runs = zip(found_runs, tagged_runs, strict=True)
        return self._of_words(found, tagged), [
            (rest, self._of_words(of_found, of_tag)) for (rest, of_found), (_, of_tag) in runs
        ]

    def _of_words(self, found: int, tagged: int) -> int:
        """The facets with the words of these definitions, by the language found and by the tag."""
        bits = (found & self._with_language) | (tagged & ~self._with_language)
        if not bits:
            return 0
        return sum([bit for at, bit in enumerate(self._of_definition) if bits >> at & 1])


_detector = cache(LanguageDetector)


def _admitting(facets: Sequence[tuple[int, Facet]], name: str) -> Mapping[str, int]:
    """The facets that admit a value of a review's field, those that name it or no value: by value,
    and under "" for all others.
    """
    others = sum(bit for bit, facet in facets if getattr(facet, name) is None)
    found = _by_value(facets, name)
    return {"": others} | {value: bits | others for value, bits in found.items()}


def _by_value(facets: Sequence[tuple[int, Facet]], name: str) -> Mapping[str, int]:
    """Bits of the facets that name a value of this field, by value."""
    found: dict[str, int] = defaultdict(int)
    for bit, facet in facets:
        for value in getattr(facet, name) or ():
            found[value] |= bit
    return found


def _rivals(definitions: Definitions, vectors: NDArray[np.int16]) -> list[Rivals]:
    """The phrases of all facets, by those that exclude one another. Facets of several languages
    with the same phrases share them.
    """
    starts, rows = [], 0
    for facet in definitions.defined:
        starts.append(rows)
        rows += len(facet.phrases or facet.vectors or ())
    if rows != len(vectors):
        raise ValueError(f"{len(vectors)} vectors for {rows} phrases")
    owners: dict[Facet, list[tuple[int, float, int]]] = defaultdict(list)
    alone: dict[tuple[int, float], int] = defaultdict(int)  # facets of what excludes nothing
    for number, (facet, origin) in enumerate(
        zip(definitions.facets, definitions.origin, strict=True)
    ):
        threshold = DEFAULT_THRESHOLD if facet.threshold is None else facet.threshold
        if origin is not None:
            for row in range(len(facet.phrases or facet.vectors or ())):
                if facet.quotes_words:
                    alone[starts[origin] + row, threshold] |= 1 << number
                else:
                    owners[facet.rivals].append((starts[origin] + row, threshold, number))
    shared: dict[tuple[tuple[int, float], ...], list[int]] = {}
    for phrases in owners.values():
        key = tuple((row, threshold) for row, threshold, _ in phrases)
        bits = shared.setdefault(key, [0] * len(phrases))
        for at, (_, _, number) in enumerate(phrases):
            bits[at] |= 1 << number
    found = [_rivals_of(vectors, key, bits) for key, bits in shared.items()]
    if alone:
        found.append(_rivals_of(vectors, list(alone), list(alone.values()), is_exclusive=False))
    return found


def _rivals_of(
    vectors: NDArray[np.int16],
    phrases: Sequence[tuple[int, float]],
    owners: Sequence[int],
    *,
    is_exclusive: bool = True,
) -> Rivals:
    """The rivals of rows of `vectors`, with their thresholds and facets."""
    return Rivals(
        vectors[[row for row, _ in phrases]],
        np.array([threshold for _, threshold in phrases], np.float64),
        np.array(owners, np.uint64),
        is_exclusive,
    )


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
    polarity = definitions.polarity
    for facet in (*definitions.defined, *(() if polarity is None else polarity.facets)):
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
