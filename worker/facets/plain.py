"""Facets as plain values, for native code (`worker._native`): numbers, bytes and texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Final, NamedTuple

import numpy as np

from worker.events.ratings import HALVES
from worker.facets.membership import FacetCriteria

MOST_SQUARE: Final = 2**31
MOST_DENOMINATOR: Final = 10**9  # so that comparisons with a threshold take 128 bits


class PlainRivals(NamedTuple):
    """`Rivals`: of each phrase its vector, its threshold as a fraction, and its facets."""

    is_exclusive: bool
    vectors: bytes  # int16, little-endian, one after the other
    thresholds: Sequence[tuple[int, int]]
    owners: Sequence[int]


class PlainFacet(NamedTuple):
    """A visible facet as messages have it."""

    number: int  # of its bit
    name: str
    label: str
    k: int
    has_language: bool
    language: str | None
    has_words: bool
    side_k: int


class PlainFacets(NamedTuple):
    """`FacetCriteria`: sets of facets are integers with a bit for each.

    Of a review the facets that admit it are an intersection: by the double of its rating, the last
    without one; by whether it is verified (unknown, no, yes); by the values of fields, the one of
    the empty text for all others.
    """

    rivals: Sequence[PlainRivals]
    without_phrases: int
    without_labels: int
    quoting: int  # the facets that quote words
    labels: Mapping[str, int]
    ratings: Sequence[int]
    verified: Sequence[int]
    languages: Mapping[str, int]
    countries: Mapping[str, int]
    authors: Mapping[str, int]
    finds_languages: bool
    finds_words: bool
    facets: Sequence[PlainFacet]
    direction: Sequence[int]  # empty without sides
    beyond: int
    rating_signs: Sequence[int]  # by the double of a rating, the last without one
    recent: Sequence[tuple[int, int | None, int | None]]  # as `RecentFacet`
    emit_mentions: int


def plain_facets(criteria: FacetCriteria, emit_mentions: int) -> PlainFacets | None:
    """The same facets; None if native code does not take such."""
    definitions, direction = criteria.definitions, criteria.direction
    squares = np.square(criteria.vectors.astype(np.int64)).sum(axis=1)
    rivals = [
        PlainRivals(
            rival.is_exclusive,
            rival.vectors.astype("<i2").tobytes(),
            [Fraction(str(float(each))).as_integer_ratio() for each in rival.thresholds],
            rival.owners.tolist(),
        )
        for rival in criteria.rivals
    ]
    thresholds = [fraction for rival in rivals for fraction in rival.thresholds]
    if any(below > MOST_DENOMINATOR for _, below in thresholds):
        return None
    if len(squares) and not 0 < squares.min() <= squares.max() < MOST_SQUARE:
        return None
    halves = [*(half / 2 for half in range(len(HALVES))), None]
    has_sides = direction is not None and bool(definitions.sided)
    return PlainFacets(
        rivals,
        criteria.without_phrases,
        criteria.without_labels,
        criteria.quoting_bits,
        criteria.label_bits,
        [criteria.rating_bits(half) for half in halves],
        [*criteria.verified.values()],
        criteria.languages,
        criteria.countries,
        criteria.authors,
        bool(definitions.named_languages),
        criteria.has_words,
        [_plain(criteria, number) for number in definitions.visible],
        direction.vector.astype(np.int64).tolist() if direction and has_sides else [],
        int(direction.beyond) if direction else 0,
        [direction.of_rating(half) if direction else 0 for half in halves],
        criteria.recent,
        emit_mentions,
    )


def _plain(criteria: FacetCriteria, number: int) -> PlainFacet:
    definitions = criteria.definitions
    facet, summary = definitions.facets[number], definitions.summaries[number]
    return PlainFacet(
        number,
        facet.name,
        summary.label,
        facet.k,
        bool(definitions.named_languages),
        facet.only_language,
        facet.words is not None,
        facet.side_k,
    )
