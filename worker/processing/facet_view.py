"""An entity's facets and their overview, from its rows.

The overview reads the facets in turn: the facets by their number of sentences, from each the
nearest sentence, then the next round. It skips what says nearly the same as a chosen sentence, of
whichever facet.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from worker.coversumm import EntityCore, FlatIndex
from worker.coversumm.short_view import Candidate, Scan, Walk, kept
from worker.errors import SetupError
from worker.events import FacetSummary, Ratings, summary_sentence
from worker.events.ratings import NO_RATINGS, RatingCounts
from worker.facets.definitions import Facet
from worker.facets.membership import FacetSet
from worker.processing.short_view import Extent, fitting
from worker.state import Rows
from worker.state.entity import EntityRows, VectorBlock, read_header
from worker.state.facet_members import FacetMembers, ReviewBits, rows_of
from worker.state.keys import review_of
from worker.state.partition import read_facets
from worker.state.rows import Header

CANDIDATES: Final = 512
"""Distinct vectors of each facet that an overview holds; more are read again if these do not do."""


class NoFacets(SetupError):
    """The state was made without facets."""

    def __init__(self) -> None:
        super().__init__(
            "there are no facets in this state: it was made without COVERSUMM_FACETS; set that to "
            "preset:NAME or a file, with another COVERSUMM_EPOCH, and rebuild"
        )


@dataclass(frozen=True, slots=True)
class FacetsView:
    """An entity's facets, by descending sentence count, then name."""

    entity_id: str
    incarnation: int  # source offset of the event that created it
    review_count: int
    sentence_count: int
    ratings: Ratings  # of all live reviews
    sequence: int | None  # source offset of the last published change of facets
    facets: tuple[FacetSummary, ...]
    partition: int | None = None
    next_offset: int | None = None  # of the input partition: all below is in this view


@dataclass(frozen=True, slots=True)
class OverviewSentence:
    """A sentence of an overview, with the facet that brought it."""

    rank: int
    facet: str
    facet_sentence_count: int
    sentence_id: str
    review_id: str
    text: str
    rating: float | None
    distance: float  # to the centroid of the facet


@dataclass(frozen=True, slots=True)
class Overview:
    """An entity's overview and its counts."""

    entity_id: str
    incarnation: int  # source offset of the event that created it
    review_count: int
    sentence_count: int
    threshold: float
    sentences: tuple[OverviewSentence, ...]
    partition: int | None = None
    next_offset: int | None = None  # of the input partition: all below is in this view


def read_facets_view(
    rows: Rows, entity_id: str, *, dimension: int, distinct: bool
) -> FacetsView | None:
    """The entity's facets, or None if it is unknown. Raises NoFacets, CorruptRow.

    Reads all of its vectors: once if they are few enough to be kept, otherwise for each facet.
    """
    found = _read(rows, entity_id, dimension)
    if found is None:
        return None
    header, entity, members = found
    published = entity.facet_sets()
    return FacetsView(
        entity_id,
        header.incarnation,
        header.reviews,
        header.sentences,
        entity.ratings(header).ratings(),
        None if published is None else published.sequence,
        tuple(_summary(entity, members, one, distinct) for one in members.ordered()),
    )


def read_overview(rows: Rows, entity_id: str, dimension: int, extent: Extent) -> Overview | None:
    """The entity's overview, or None if it is unknown. Raises NoFacets, CorruptRow.

    Reads as much as `read_facets_view`.
    """
    found = _read(rows, entity_id, dimension)
    if found is None:
        return None
    header, entity, members = found
    ordered = [one for one in members.ordered() if one.sentences]
    walks = [
        Walk(members.scan(one.number), dimension, extent.threshold, CANDIDATES) for one in ordered
    ]
    turns = in_turn(walks, extent.count)
    facts = [entity.text_and_details(turn.found.id) for turn in turns]
    taken: Sequence[int] = range(len(turns))
    if extent.words is not None:
        taken = fitting([text for text, _ in facts], extent.words)
    sentences = []
    for rank, at in enumerate(taken):
        turn = turns[at]
        facet, identifier = ordered[turn.walk], turn.found.id
        text, details = facts[at]
        sentences.append(
            OverviewSentence(
                rank,
                facet.facet.name,
                facet.sentences,
                identifier.decode(),
                review_of(identifier).decode(),
                text,
                details.rating,
                walks[turn.walk].distance(turn.found),
            )
        )
    return Overview(
        entity_id,
        header.incarnation,
        header.reviews,
        header.sentences,
        extent.threshold,
        tuple(sentences),
    )


class Turn(NamedTuple):
    """A sentence of one of several walks."""

    walk: int
    found: Candidate


def in_turn(walks: Sequence[Walk], count: int) -> list[Turn]:
    """One sentence of each walk, then the next round, until all are read or there are `count`.

    In its turn a walk gives its nearest sentence that no chosen one stands for.
    """
    turns: list[Turn] = []
    chosen: list[NDArray[np.int16]] = []
    while True:
        before = len(turns)
        for number, walk in enumerate(walks):
            if len(turns) == count:
                return turns
            if (found := walk.nearest(chosen)) is not None:
                turns.append(Turn(number, found))
                chosen.append(found.vector)
        if len(turns) == before:
            return turns


@dataclass(slots=True)
class _Counted:
    """A visible facet and what it has."""

    number: int
    facet: Facet
    sentences: int
    reviews: int
    ratings: RatingCounts


class _Members:
    """An entity's stored sentences by facet."""

    def __init__(self, entity: EntityRows, facets: FacetSet) -> None:
        self._blocks = kept(entity.blocks)
        members = FacetMembers(facets, entity.review_facts())
        self._counted = [
            _Counted(number, facets.definitions.facets[number], 0, 0, NO_RATINGS)
            for number in facets.definitions.visible
        ]
        self._bits: list[NDArray[np.uint64]] = []  # by block
        reviews = ReviewBits()
        for block in self._blocks():
            assert isinstance(block, VectorBlock)
            bits = members.bits(block.vectors, block.places)
            self._bits.append(bits)
            reviews.add(block.reviews, bits)
            for one in self._counted:
                one.sentences += len(rows_of(bits, one.number))
        for (found, rating), count in reviews.counts(members).items():
            for one in self._counted:
                if found >> one.number & 1:
                    one.reviews += count
                    one.ratings = one.ratings.plus(rating, count)

    def ordered(self) -> list[_Counted]:
        """The visible facets by descending sentence count, then name."""
        return sorted(self._counted, key=lambda one: (-one.sentences, one.facet.name))

    def scan(self, number: int) -> Scan:
        """Reads the sentences of a facet."""

        def read() -> Iterator[VectorBlock]:
            for block, bits in zip(self._blocks(), self._bits, strict=True):
                assert isinstance(block, VectorBlock)
                if len(rows := rows_of(bits, number)):
                    yield block.part(rows.tolist())

        return read


def _read(rows: Rows, entity_id: str, dimension: int) -> tuple[Header, EntityRows, _Members] | None:
    header = read_header(rows, entity_id.encode())
    if header is None:
        return None
    facets = read_facets(rows)
    if facets is None:
        raise NoFacets
    entity = EntityRows(rows, entity_id.encode(), header.incarnation, dimension)
    return header, entity, _Members(entity, facets)


def _summary(entity: EntityRows, members: _Members, one: _Counted, distinct: bool) -> FacetSummary:
    """The facet as it is published."""
    facet, dimension = one.facet, entity.dimension
    summary = FacetSummary(
        facet.name, facet.k, one.sentences, one.reviews, one.ratings.ratings(), []
    )
    if not one.sentences:
        return summary
    index = FlatIndex(dimension, kept(members.scan(one.number)))
    ranking = EntityCore.load(facet.k, dimension, index, distinct=distinct).ranking()
    ranked = zip(ranking.ids, ranking.distances(), ranking.support, strict=True)
    sentences = [
        summary_sentence(
            rank,
            identifier.decode(),
            review_of(identifier).decode(),
            *entity.text_and_details(identifier),
            distance,
            support,
        )
        for rank, (identifier, distance, support) in enumerate(ranked)
    ]
    return msgspec.structs.replace(summary, sentences=sentences)
