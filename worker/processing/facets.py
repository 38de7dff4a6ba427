"""The facets of an entity in memory: a core for each, kept up to date review by review.

Which sentences belong to a facet follows from `worker.facets.membership`, so a facet is read again
from the entity's rows: its count, sum and reservoir, and the counts of its reviews. Vectors and
texts are stored once, for the summary and all facets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from worker.coversumm import (
    EntityCore,
    FlatIndex,
    Points,
    Ranking,
    Step,
    Subsets,
    load_all,
    no_points,
)
from worker.coversumm.index import Block
from worker.coversumm.short_view import kept
from worker.events import FacetSummary
from worker.events.codec import OutputCodec
from worker.events.publishing import FACETS
from worker.events.ratings import NO_RATINGS
from worker.facets.definitions import Facet
from worker.facets.membership import NO_FACET, FacetCriteria
from worker.facets.newest import NewestReviews
from worker.state.entity import EntityRows, Review, Sentence, VectorBlock
from worker.state.facet_members import FacetMembers, ReviewBits, rows_of

if TYPE_CHECKING:
    from worker.processing.entity_cache import SummaryMember

FACET_BYTES: Final = 1500  # of a facet besides its core: objects, digests


class ReviewMove(NamedTuple):
    """A live review that appears or disappears, or joins or leaves facets of the newest reviews.

    `newest`: the facets of the newest reviews that it is in, or joins or leaves; `is_newest_only`:
    its sentences change in these alone. All of its sentences have vectors once they are embedded.
    """

    review_id: bytes
    review: Review
    newest: int
    is_newest_only: bool
    is_arriving: bool


def newest_bits(facets: FacetCriteria, newest: NewestReviews) -> dict[bytes, int]:
    """By review the facets of the newest reviews that it is in."""
    bits: dict[bytes, int] = {}
    for facet, count in facets.newest:
        for review_id in newest.first(count):
            bits[review_id] = bits.get(review_id, 0) | 1 << facet
    return bits


class FacetPart:
    """A facet as a part of messages, encoded when the first of them is made.

    `ranking` is None without sentences; `quotes` are those of its sentences.
    """

    __slots__ = ("_encoded", "_quotes", "_summary", "ranking", "size")

    def __init__(self, summary: FacetSummary, quotes: list[bytes], ranking: Ranking | None) -> None:
        self._summary = summary
        self._quotes = quotes
        self.ranking = ranking
        self.size = FACET_BYTES + sum(map(len, quotes))  # at most, encoded
        self._encoded: bytes | None = None

    def encode(self, codec: OutputCodec) -> bytes:
        """The part; always of the same codec."""
        if self._encoded is None:
            ranking = self.ranking
            numbers: tuple[Sequence[float], Sequence[int]] = ((), ())
            if ranking is not None:
                numbers = ranking.distances(), ranking.support
            self._encoded = codec.encode_facet(self._summary, self._quotes, *numbers)
            self.ranking, self._quotes = None, []  # a ranking has a sum of its own
        return self._encoded


class FacetCore:
    """One facet of an entity. `now` is its set, as `{sentence id: text digest}` in rank order."""

    __slots__ = (
        "core",
        "facet",
        "index",
        "now",
        "part",
        "ranking",
        "ratings",
        "reviews",
    )

    def __init__(self, facet: Facet) -> None:
        self.facet = facet
        self.core: EntityCore | None = None  # None without sentences
        self.index: FlatIndex | None = None
        self.reviews = 0  # with a sentence here
        self.ratings = NO_RATINGS  # of these reviews
        self.now: dict[bytes, bytes] = {}
        self.ranking: Ranking | None = None  # of the last step, if that changed the set
        self.part: FacetPart | None = None  # until the facet changes

    def touch(self) -> None:
        """Its sentences or reviews changed."""
        self.part = self.ranking = None

    @property
    def sentences(self) -> int:
        """Its live sentences."""
        return 0 if self.core is None else self.core.n

    def count_review(self, rating: float | None, by: int) -> None:
        """Count a review with a sentence here, or no longer."""
        self.reviews += by
        self.ratings = self.ratings.plus(rating, by)

    def summary(self) -> FacetSummary:
        """The facet without its sentences."""
        facet, ratings = self.facet, self.ratings.ratings()
        return FacetSummary(facet.name, facet.k, self.sentences, self.reviews, ratings, [])

    @property
    def memory_bytes(self) -> int:
        """Approximate bytes in memory."""
        core = 0 if self.core is None else self.core.memory_bytes
        return FACET_BYTES + core + 400 * len(self.now)


class EntityFacets:
    """The visible facets of an entity; `cores` and `newest` are read at their first use.

    `published` has the sets last published, `sequence` the source offset of that change.
    """

    def __init__(
        self,
        facets: FacetCriteria,
        rows: EntityRows,
        texts: Callable[[Sequence[bytes]], list[SummaryMember]],
        *,
        distinct: bool,
        is_new: bool,
    ) -> None:
        """`texts` gives stored sentences; `is_new`: the entity has no rows. Raises CorruptRow."""
        self.facets = facets
        self._rows = rows
        self._texts = texts
        self._distinct = distinct
        self._cores = {
            number: FacetCore(facets.definitions.facets[number])
            for number in facets.definitions.visible
        }
        self._newest = NewestReviews(max([count for _, count in facets.newest], default=0))
        self._is_loaded = is_new
        self._touched: set[int] = set()
        self._core_bytes = dict.fromkeys(self._cores, FACET_BYTES)
        published = None if is_new else rows.published(FACETS)
        sets: Sequence[Mapping[bytes, bytes]] = (
            [{} for _ in self._cores] if published is None else published.sets
        )
        self.published: dict[int, Mapping[bytes, bytes]] = dict(zip(self._cores, sets, strict=True))
        self.sequence = None if published is None else published.sequence

    @property
    def is_loaded(self) -> bool:
        """Whether the facets are in memory."""
        return self._is_loaded

    @property
    def cores(self) -> dict[int, FacetCore]:
        """The facets by number. Raises CorruptRow."""
        if not self._is_loaded:
            self.load()
        return self._cores

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
        """Read the facets from the rows, unless that is done; and the entity's own core in the same
        passes, if that is given. Raises CorruptRow.
        """
        if self._is_loaded:
            return
        self._is_loaded = True
        reviews = list(self._rows.review_facts())
        if self.facets.newest:
            live = ((name, one.occurred_at) for name, one in reviews if not one.deleted)
            self._newest = NewestReviews(self._newest.wanted, live)
        members = FacetMembers(self.facets, reviews)
        counted = ReviewBits()
        own = [] if core is None else [core]

        def rows(block: Block) -> list[NDArray[np.int64] | None]:
            assert isinstance(block, VectorBlock)
            bits = members.bits(block.vectors, block.places)
            counted.add(block.reviews, bits)
            return [*(None for _ in own), *(rows_of(bits, number) for number in self._cores)]

        subsets = Subsets(self.facets.dimension, kept(self._rows.blocks), rows)
        load_all([*own, *map(self._begin, self._cores)], subsets)
        for (bits, rating), count in counted.counts(members).items():
            for number in _numbers(bits):
                self._cores[number].count_review(rating, count)
        for facet in self._cores.values():
            facet.touch()
            if facet.core is not None and facet.sentences:
                facet.now = _digests(self._texts(facet.core.ranking().ids))
        self._touched.update(self._cores)

    def _begin(self, number: int) -> EntityCore:
        """The core of a facet without sentences."""
        one, dimension = self._cores[number], self.facets.dimension
        one.index = FlatIndex(dimension, self._scan(number))
        one.core = EntityCore(one.facet.k, dimension, one.index, distinct=self._distinct)
        return one.core

    def _scan(self, number: int) -> Callable[[], Iterator[VectorBlock]]:
        """Reads the stored sentences of a facet."""

        def read() -> Iterator[VectorBlock]:
            reviews = self._rows.review_facts() if self.facets.needs_reviews else ()
            members = FacetMembers(self.facets, reviews)
            for block in self._rows.blocks():
                rows = rows_of(members.bits(block.vectors, block.places), number)
                if len(rows):
                    yield block.part(rows.tolist())

        return read

    # -- changes

    def apply(
        self,
        moves: Sequence[ReviewMove],
        texts: Callable[[Sequence[bytes]], list[SummaryMember]],
    ) -> bool:
        """Carry out the moves of one event, which are classified; whether a set changed.

        The facets are loaded. `texts` gives the sentences of a set. Raises CorruptRow.
        """
        removed: dict[int, dict[bytes, Sentence]] = {}
        added: dict[int, dict[bytes, Sentence]] = {}
        for move in moves:
            self._collect(move, added if move.is_arriving else removed)
        changed = False
        for number in removed.keys() | added.keys():
            gone, come = removed.get(number, {}), added.get(number, {})
            for name in [name for name, one in gone.items() if come.get(name) is one]:
                del gone[name], come[name]
            one = self._cores[number]
            ranking = self._step(number, gone.values(), come.values()) if gone or come else None
            one.touch()
            self._touched.add(number)
            if ranking is not None:
                one.ranking = ranking
                now = _digests(texts(ranking.ids))
                changed |= now != one.now
                one.now = now
        return changed

    def _collect(self, move: ReviewMove, target: dict[int, dict[bytes, Sentence]]) -> None:
        """Add the review's sentences to those of their facets, and count the review there."""
        review, facets, joined = move.review, self.facets, 0
        of_review = move.newest
        if not move.is_newest_only:
            of_review |= facets.rating_bits(review.rating)
        for sentence in review.sentences:
            if move.is_newest_only:
                bits = of_review & facets.visible
            else:
                nearest = NO_FACET if sentence.facet is None else sentence.facet
                bits = facets.facets_of(nearest, sentence.label_bits, of_review)
            joined |= bits
            for number in _numbers(bits):
                target.setdefault(number, {})[sentence.id] = sentence
        for number in _numbers(joined):
            self._cores[number].count_review(review.rating, 1 if move.is_arriving else -1)

    def _step(
        self, number: int, gone: Iterable[Sentence], come: Iterable[Sentence]
    ) -> Ranking | None:
        dimension = self.facets.dimension
        core = self._cores[number].core or self._begin(number)
        step = Step(points(list(gone), dimension), points(list(come), dimension))
        (ranking,) = core.apply([step])
        return ranking

    def on_processed(self) -> None:
        """The rows are up to date."""
        for number in self._touched:
            one = self._cores[number]
            one.ranking = None
            if one.index is not None:
                one.index.on_commit()
            if not one.sentences:
                one.core = one.index = None
            self._core_bytes[number] = one.memory_bytes
        self._touched.clear()

    @property
    def memory_bytes(self) -> int:
        """Approximate bytes in memory."""
        return sum(self._core_bytes.values()) + self._newest.memory_bytes

    # -- for messages

    def parts(self, texts: Callable[[Sequence[bytes]], list[SummaryMember]]) -> list[FacetPart]:
        """All visible facets as parts of a message, in its order."""
        ordered = sorted(self.cores.values(), key=lambda one: (-one.sentences, one.facet.name))
        for one in ordered:
            if one.part is None:
                one.part = _part(one, texts)
        return [one.part for one in ordered if one.part is not None]

    def changed(self) -> list[int]:
        """The facets whose sets are not those last published."""
        published = self.published
        return [number for number, one in self.cores.items() if one.now != published[number]]

    def on_published(self, sequence: int) -> None:
        """The present sets are the ones last published."""
        self.sequence = sequence
        for number, one in self.cores.items():
            self.published[number] = one.now

    @property
    def shown(self) -> set[bytes]:
        """The sentences of all sets."""
        return {name for one in self.cores.values() for name in one.now}


@lru_cache(maxsize=1024)
def _numbers(bits: int) -> tuple[int, ...]:
    """The positions of the bits, ascending."""
    return tuple(at for at in range(bits.bit_length()) if bits >> at & 1)


def _digests(members: Iterable[SummaryMember]) -> dict[bytes, bytes]:
    return {member.id: member.digest for member in members}


def _part(one: FacetCore, texts: Callable[[Sequence[bytes]], list[SummaryMember]]) -> FacetPart:
    if not one.sentences or one.core is None:
        return FacetPart(one.summary(), [], None)
    ranking = one.ranking or one.core.ranking()
    return FacetPart(one.summary(), [member.quote for member in texts(ranking.ids)], ranking)


def classify(facets: FacetCriteria, moves: Iterable[ReviewMove]) -> None:
    """Find the nearest phrases of all sentences of these moves at once."""
    new = [
        sentence
        for move in moves
        if not move.is_newest_only
        for sentence in move.review.sentences
        if sentence.facet is None
    ]
    if new:
        vectors = np.stack([_vector(sentence) for sentence in new])
        for sentence, facet in zip(new, facets.nearest_facets(vectors).tolist(), strict=True):
            sentence.facet = facet


def _vector(sentence: Sentence) -> NDArray[np.int16]:
    assert sentence.vector is not None
    return sentence.vector


_nothing = cache(no_points)


def points(sentences: Sequence[Sentence], dimension: int) -> Points:
    """The sentences, all with vectors, as a batch of the core."""
    if not sentences:
        return _nothing(dimension)
    if len(sentences) == 1:
        return Points((sentences[0].id,), _vector(sentences[0])[None, :])
    vectors = np.empty((len(sentences), dimension), np.int16)
    for row, sentence in enumerate(sentences):
        vectors[row] = _vector(sentence)
    return Points([sentence.id for sentence in sentences], vectors)
