"""The facets of an entity in memory: a core for each, kept up to date review by review.

Which sentences belong to a facet follows from `worker.facets.membership`, so a facet is read again
from the entity's rows: its count, sum and reservoir, and the counts of its reviews. Vectors and
texts are stored once, for the summary and all facets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from worker.coversumm import (
    EntityCore,
    FlatIndex,
    Index,
    Points,
    Ranking,
    Step,
    Subsets,
    load_all,
    no_points,
)
from worker.coversumm.index import Block, BlockPart
from worker.coversumm.short_view import read_once
from worker.events.publishing import FACETS
from worker.facets.membership import FacetCriteria
from worker.facets.newest import NewestReviews
from worker.processing.tracked_sets import SET_BYTES, Texts, TrackedSet, TrackedSets, digests
from worker.state.entity import EntityRows, Review, Sentence, VectorBlock, vector_of
from worker.state.facet_members import FacetMembers, ReviewBits, rows_of
from worker.state.rows import date_of


class ReviewMove(NamedTuple):
    """A live review that appears or disappears, or joins or leaves facets of the newest reviews.

    `bits`: the facets in which its sentences may change, whose criteria the review meets. All of
    its sentences have vectors once they are embedded.
    """

    review_id: bytes
    review: Review
    bits: int
    is_arriving: bool


SetKey = tuple[int, int]
"""A set of an entity's facets: see `Definitions.sets`."""


@dataclass(eq=False)
class EntityFacets:
    """The visible facets of an entity, by key; sets and `newest` are read at their first use."""

    criteria: FacetCriteria
    rows: EntityRows
    texts: Texts  # gives stored sentences
    new_core: Callable[[int, Index], EntityCore]
    is_new: bool  # the entity has no rows
    emit_mentions: int = 0  # see `ProcessorConfig`

    def __post_init__(self) -> None:
        """Raises CorruptRow."""
        definitions = self.criteria.definitions
        summaries = definitions.summaries
        sets = [TrackedSet(summaries[number], sign) for number, sign in definitions.sets]
        published = None if self.is_new else self.rows.published(FACETS)
        self.tracked = TrackedSets(FACETS, sets, published, self.emit_mentions)
        self._sets = dict(zip(definitions.sets, sets, strict=True))
        self._newest = NewestReviews(self.criteria.most_recent)
        self.is_loaded = self.is_new  # whether sets and newest reviews are in memory
        self._touched: set[SetKey] = set()
        self._set_bytes = dict.fromkeys(self._sets, SET_BYTES)

    @property
    def newest(self) -> NewestReviews:
        """The newest reviews, for the facets of these. Raises CorruptRow."""
        self.load()
        return self._newest

    @newest.setter
    def newest(self, newest: NewestReviews) -> None:
        self._newest = newest

    # -- from rows

    def load(self, core: EntityCore | None = None) -> None:
        """Read the facets from the rows, unless that is done; see `read`."""
        if not self.is_loaded:
            self.read(core)

    def read(self, core: EntityCore | None = None) -> tuple[FacetMembers, Subsets]:
        """Read the facets from the rows, and the entity's own core in the same passes, if that is
        given; their members, and the sentences of all these sets. Raises CorruptRow.
        """
        self.is_loaded = True
        reviews = list(self.rows.review_facts())
        if self.criteria.recent:
            live = (
                (n, date_of(review.details, review.is_future))
                for n, review in reviews
                if not review.deleted
            )
            self._newest = NewestReviews(self._newest.wanted, live)
        members = FacetMembers(self.criteria, reviews)
        counted = ReviewBits()
        own = [] if core is None else [core]
        has_sides = bool(self.criteria.sided_bits)

        def rows(block: Block) -> list[NDArray[np.int64] | None]:
            assert isinstance(block, VectorBlock)
            bits = members.bits(block.vectors, block.places)
            signs = members.signs(block.vectors, block.places) if has_sides else None
            counted.add(block.reviews, bits)
            return [*(None for _ in own), *(rows_of(bits, *key, signs) for key in self._sets)]

        subsets = Subsets(self.criteria.dimension, read_once(self.rows.blocks), rows)
        load_all([*own, *map(self._begin, self._sets)], subsets)
        for (bits, rating), count in counted.counts(members).items():
            self._count_reviews(bits, rating, count)
        for (bits, rating), count in members.mention_counts().items():
            self._count_mentions(bits, rating, count)
        for facet in self._sets.values():
            facet.touch()
            if facet.core is not None and facet.sentences:
                facet.now = digests(self.texts(facet.core.ranking().ids))
        self._touched.update(self._sets)
        return members, subsets

    def _begin(self, key: SetKey) -> EntityCore:
        """The core of a set without sentences."""
        facet = self._sets[key]
        k = self.criteria.definitions.facets[key[0]].size(key[1])
        index = facet.index = FlatIndex(self.criteria.dimension, self._scan(key))
        core = facet.core = self.new_core(k, index)
        return core

    def _scan(self, key: SetKey) -> Callable[[], Iterator[Block]]:
        """Reads the stored sentences of a set."""
        sign = key[1]

        def read() -> Iterator[Block]:
            needs_reviews = self.criteria.needs_reviews or sign
            members = FacetMembers(self.criteria, self.rows.review_facts() if needs_reviews else ())
            for block in self.rows.blocks():
                bits = members.bits(block.vectors, block.places)
                signs = members.signs(block.vectors, block.places) if sign else None
                rows = rows_of(bits, *key, signs)
                if len(rows):
                    yield BlockPart(block, rows)

        return read

    # -- changes

    def apply(self, moves: Sequence[ReviewMove], texts: Texts) -> bool:
        """Carry out the moves of one record, which are classified; whether a set changed, or with
        COVERSUMM_EMIT_MENTIONS the mentions of a facet.

        The facets are loaded. `texts` gives the sentences of a set. Raises CorruptRow.
        """
        removed: dict[SetKey, dict[bytes, Sentence]] = {}
        added: dict[SetKey, dict[bytes, Sentence]] = {}
        mentions = self._mentions() if self.tracked.emit_mentions else []
        for move in moves:
            self._collect(move, removed, added)
        changed = self.tracked.emit_mentions > 0 and mentions != self._mentions()
        for key in removed.keys() | added.keys():
            gone, come = removed.get(key, {}), added.get(key, {})
            for name in [name for name, moved in gone.items() if come.get(name) is moved]:
                del gone[name], come[name]
            facet = self._sets[key]
            ranking = self._step(key, gone.values(), come.values()) if gone or come else None
            facet.touch()
            self._touched.add(key)
            if ranking is not None:
                facet.ranking = ranking
                now = digests(texts(ranking.ids))
                changed |= now != facet.now
                facet.now = now
        return changed

    def _collect(
        self,
        move: ReviewMove,
        removed: dict[SetKey, dict[bytes, Sentence]],
        added: dict[SetKey, dict[bytes, Sentence]],
    ) -> None:
        """Add the review's sentences to those of their sets, and count the review there."""
        target = added if move.is_arriving else removed
        review, facets, joined = move.review, self.criteria, 0
        direction = facets.direction
        side = 0 if direction is None else direction.of_rating(review.details.rating)
        for sentence in review.sentences:
            bits = facets.facets_of(sentence.phrase_bits or 0, sentence.label_bits, move.bits)
            joined |= bits
            keys = _of_facets(bits)
            if side and sentence.sign == side:
                keys += _of_facets(bits & facets.sided_bits, side)
            for key in keys:
                if target is removed and key in added and sentence.id in added[key]:
                    del added[key][sentence.id]  # an earlier event of the record added it
                else:
                    target.setdefault(key, {})[sentence.id] = sentence
        by = 1 if move.is_arriving else -1
        self._count_reviews(joined, review.details.rating, by)
        self._count_mentions(review.mentions & move.bits, review.details.rating, by)

    def _count_reviews(self, bits: int, rating: float | None, by: int) -> None:
        """Count reviews with a sentence in these facets, or no longer."""
        for key in _of_facets(bits):
            facet = self._sets[key]
            facet.reviews = facet.reviews.plus(rating, by)

    def _count_mentions(self, bits: int, rating: float | None, by: int) -> None:
        """Count reviews with the words of these facets, or no longer."""
        for key in _of_facets(bits):
            facet = self._sets[key]
            facet.mentions, facet.part = facet.mentions.plus(rating, by), None

    def _mentions(self) -> list[int]:
        return [tracked.mentions.reviews for tracked in self.tracked.sets]

    def _step(
        self, key: SetKey, gone: Iterable[Sentence], come: Iterable[Sentence]
    ) -> Ranking | None:
        dimension = self.criteria.dimension
        core = self._sets[key].core or self._begin(key)
        step = Step(points(list(gone), dimension), points(list(come), dimension))
        (ranking,) = core.apply([step])
        return ranking

    def on_processed(self) -> None:
        """The rows are up to date."""
        for key in self._touched:
            facet = self._sets[key]
            facet.ranking = None
            if facet.index is not None:
                facet.index.on_rows_written()
            if not facet.sentences:
                facet.core = facet.index = None
        self.measure()
        self._touched.clear()

    def measure(self) -> int:
        """Approximate bytes in memory."""
        for key in self._touched:
            self._set_bytes[key] = self._sets[key].memory_bytes
        # a message has parts of all sets
        parts = sum(
            [tracked.part.memory_bytes for tracked in self.tracked.sets if tracked.part is not None]
        )
        return sum(self._set_bytes.values()) + parts + self._newest.memory_bytes


@lru_cache(maxsize=1024)
def _of_facets(bits: int, sign: int = 0) -> tuple[SetKey, ...]:
    """The sets of these facets, by position."""
    return tuple((at, sign) for at in range(bits.bit_length()) if bits >> at & 1)


def classify(facets: FacetCriteria, moves: Iterable[ReviewMove]) -> None:
    """Find the nearest phrases of all sentences of these moves at once."""
    new = [
        sentence
        for move in moves
        if move.bits & (facets.phrase_bits | facets.sided_bits)
        for sentence in move.review.sentences
        if sentence.phrase_bits is None
    ]
    if new:
        vectors = np.stack([vector_of(sentence) for sentence in new])
        for sentence, bits in zip(new, facets.nearest_facets(vectors).tolist(), strict=True):
            sentence.phrase_bits = bits
        if facets.direction is not None:
            for sentence, sign in zip(new, facets.direction.signs(vectors).tolist(), strict=True):
                sentence.sign = sign


_nothing = cache(no_points)


def points(sentences: Sequence[Sentence], dimension: int) -> Points:
    """The sentences, all with vectors, as a batch of the core."""
    if not sentences:
        return _nothing(dimension)
    if len(sentences) == 1:
        return Points((sentences[0].id,), vector_of(sentences[0])[None, :])
    vectors = np.empty((len(sentences), dimension), np.int16)
    for row, sentence in enumerate(sentences):
        vectors[row] = vector_of(sentence)
    return Points([sentence.id for sentence in sentences], vectors)
