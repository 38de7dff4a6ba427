"""An entity for people, from its stored rows: its summary, short view, facets or overview.

A view holds what its rows say at one commit. A short view leaves out what says nearly the same as
a nearer sentence. An overview reads the facets in turn: the facets by mentions and sentences, from
each the nearest sentence, then the next round. It skips what says nearly the same as a chosen
sentence, of whichever facet. With a word limit a walk goes down to `MOST_SENTENCES`, takes each
chosen sentence that still fits, and skips the others.

Facets of languages that a file declares are read in one language: that of the most sentences,
unless another is asked for. `everything` repeats the others and has no turn.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, Self, TypeAlias, TypeVar

import msgspec
import numpy as np
from msgspec import UNSET, UnsetType
from numpy.typing import NDArray

from worker.coversumm import EntityCore, FlatIndex, Ranking
from worker.coversumm.short_view import Candidate, Scan, Walk, choose, read_once, stands_for
from worker.errors import SetupError
from worker.events import FacetSummary, Ratings, ReviewDetails, SummarySentence, summary_sentence
from worker.events.fields import LanguageCode
from worker.events.outputs import SIDES
from worker.events.publishing import FACETS, SUMMARIES
from worker.events.ratings import NO_REVIEWS, ReviewCounts
from worker.facets.definitions import Definitions
from worker.facets.membership import FacetCriteria
from worker.state import Rows, read_applied
from worker.state.entity import EntityRows, VectorBlock, read_header
from worker.state.facet_members import FacetMembers, ReviewBits, rows_of
from worker.state.keys import review_of
from worker.state.partition import read_criteria
from worker.state.rows import Header

if TYPE_CHECKING:
    from worker.processing.config import ProcessorConfig
    from worker.processing.entities import EntityKey

CANDIDATES: Final = 512
"""Distinct vectors of each facet that an overview holds; more are read again if these do not do."""
SENTENCES, MOST_SENTENCES = 10, 100
MOST_WORDS = 10_000
THRESHOLD = 0.8  # of MiniLM: sentences with a cosine above it mean the same


@dataclass(frozen=True, slots=True)
class Extent:
    """The limits of a view. Raises ValueError, for the user, if one is out of range."""

    sentences: int | None = None
    """At most this many; by default as many as the words allow, or `SENTENCES`."""
    words: int | None = None  # at most this many in all, separated by blanks; by default any number
    threshold: float = THRESHOLD  # a sentence whose cosine to an earlier one is above is skipped
    language: str | None = None  # of the facets

    def __post_init__(self) -> None:
        if self.sentences is not None and not 1 <= self.sentences <= MOST_SENTENCES:
            raise ValueError(f"sentences is a number from 1 to {MOST_SENTENCES}")
        if self.words is not None and not 1 <= self.words <= MOST_WORDS:
            raise ValueError(f"words is a number from 1 to {MOST_WORDS}")
        if not 0 <= self.threshold < 1:
            raise ValueError("threshold is a number from 0 up to, but not including, 1")

    @property
    def count(self) -> int:
        """The number of sentences at which the walk ends."""
        return self.sentences or (SENTENCES if self.words is None else MOST_SENTENCES)


def fitting(texts: Sequence[str], words: int) -> list[int]:
    """Which of the texts, in order, fit into this many words.

    >>> fitting(["so very quiet", "a host who is kind", "quiet"], 4)
    [0, 2]
    """
    taken = []
    for at, text in enumerate(texts):
        if (count := len(text.split())) <= words:
            taken.append(at)
            words -= count
    return taken


class NoFacets(SetupError):
    """The state was made without facets."""

    def __init__(self) -> None:
        super().__init__(
            "there are no facets in this state: it was made without COVERSUMM_FACETS; set that to "
            "preset:NAME or a file, with another COVERSUMM_EPOCH, and rebuild"
        )


class UnknownLanguage(SetupError):
    """No published facet is of this language alone."""


def check_language(definitions: Definitions, language: str) -> None:
    """Raise UnknownLanguage unless a published facet is of this language alone."""
    of_facets = (definitions.facets[number].only_language for number in definitions.visible)
    if language not in (known := dict.fromkeys(code for code in of_facets if code is not None)):
        have = f"the facets are in {', '.join(known)}" if known else "no facet is of one language"
        raise UnknownLanguage(f"language {language!r}: {have}")


class Source(NamedTuple):
    """The rows of an entity, and what its views depend on."""

    entity: EntityRows
    header: Header
    k: int
    distinct: bool
    by_text: bool
    language_min: int
    extent: Extent

    @property
    def counts(self) -> tuple[str, int, int, int]:
        """The fields of an `EntityView`."""
        header = self.header
        return self.entity.entity.decode(), header.incarnation, header.reviews, header.sentences

    def core(self, k: int, scan: Scan) -> EntityCore:
        """The sentences of a scan, to be ranked. Reads their vectors twice."""
        dimension = self.entity.dimension
        index, shown = FlatIndex(dimension, scan), self.distinct
        return EntityCore.load(k, dimension, index, distinct=shown, by_text=self.by_text)

    def fitting(self, ids: Iterable[bytes]) -> list[tuple[int, str, ReviewDetails]]:
        """The sentences that fit into the words of the extent: the position of each, its
        text, and the details of its review.
        """
        facts = [self.entity.text_and_details(identifier) for identifier in ids]
        words = self.extent.words
        taken = range(len(facts)) if words is None else fitting([text for text, _ in facts], words)
        return [(at, *facts[at]) for at in taken]


@dataclass(frozen=True, slots=True)
class EntityView:
    """The common parts of an entity's views; read by `read_view`."""

    entity_id: str
    incarnation: int  # source offset of the event that created it
    review_count: int
    sentence_count: int

    @classmethod
    def read(cls, source: Source) -> Self:
        """The view of this entity, without its place. Raises as `read_view`."""
        raise NotImplementedError


V = TypeVar("V", bound=EntityView)
V_co = TypeVar("V_co", bound=EntityView, covariant=True)


class Reads(Protocol[V_co]):
    """A kind of view, or a question."""

    def read(self, source: Source) -> V_co:
        """The view of an entity, without its place. Raises as `read_view`."""


def read_view(
    rows: Rows,
    key: "EntityKey",
    kind: Reads[V],
    config: "ProcessorConfig",
    extent: Extent | None = None,
) -> V | None:
    """The entity's view of this kind as of the last commit, or None if there is no such entity.

    Reads all of its vectors: twice if they are many, and for facets once more for each facet. An
    overview leaves out facets of a language with fewer than `language_min` sentences. Raises
    NoFacets, UnknownLanguage, CorruptRow.
    """
    name = key.entity_id.encode()
    header, applied = read_header(rows, name), read_applied(rows)
    if header is None or applied is None:
        return None
    entity = EntityRows(rows, name, header.incarnation, config.limits.dimension)
    sets = config.k, config.distinct, config.by_text, config.language_min
    view = kind.read(Source(entity, header, *sets, extent or Extent()))
    place = {"partition": key.partition, "next_offset": applied.next_offset}
    return replace(view, **place)  # type: ignore[arg-type]  # fields of each kind


class ViewSentence(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A sentence of the current summary. JSON leaves out unknown details, except the rating."""

    rank: int
    sentence_id: str
    review_id: str
    text: str
    rating: float | None
    occurred_at: str | None = None  # of its review, as are the next four
    language: str | None = None
    verified: bool | None = None
    country: str | None = None
    author_id: str | None = None
    distance: float
    support: int


@dataclass(frozen=True, slots=True)
class SummaryView(EntityView):
    """An entity's current state: counts, offsets, and its summary with current distances."""

    ratings: Ratings  # of its live reviews
    sequence: int | None  # source offset of the last published change
    sentences: tuple[ViewSentence, ...]
    partition: int | None = None
    next_offset: int | None = None  # of the input partition: all below is in this view
    reservoir: int | None = None  # distinct vectors in that of a worker that has just loaded it
    refills: int | None = None  # always None: a view is read from rows

    @classmethod
    def read(cls, source: Source) -> Self:
        entity, published = source.entity, source.entity.published(SUMMARIES)
        core = source.core(source.k, entity.blocks)
        ranking = core.ranking()
        return cls(
            *source.counts,
            source.header.ratings.ratings(),
            None if published is None else published.sequence,
            view_sentences(ranking, map(entity.text_and_details, ranking.ids)),
            reservoir=core.reservoir_size,
        )


def view_sentences(
    ranking: Ranking, texts: Iterable[tuple[str, ReviewDetails]]
) -> tuple[ViewSentence, ...]:
    """A ranking with the text of each of its sentences and the details of its review."""
    facts = zip(ranking.ids, texts, ranking.distances(), ranking.support, strict=True)
    return tuple(
        ViewSentence(
            rank=rank,
            sentence_id=identifier.decode(),
            review_id=review_of(identifier).decode(),
            text=text,
            **details._asdict(),
            distance=distance,
            support=support,
        )
        for rank, (identifier, (text, details), distance, support) in enumerate(facts)
    )


@dataclass(frozen=True, slots=True)
class ShortSentence:
    """A sentence of a short view."""

    rank: int
    sentence_id: str
    review_id: str
    text: str
    rating: float | None
    distance: float
    stands_for: int
    """Sentences, itself included, nearest to this one, with a cosine above the threshold."""
    stands_for_reviews: int  # the reviews of these


@dataclass(frozen=True, slots=True)
class ShortView(EntityView):
    """An entity's short view and its counts."""

    threshold: float
    sentences: tuple[ShortSentence, ...]
    partition: int | None = None
    next_offset: int | None = None  # of the input partition: all below is in this view

    @classmethod
    def read(cls, source: Source) -> Self:
        entity, extent = source.entity, source.extent
        scan = read_once(entity.blocks)
        chosen = choose(
            scan, entity.dimension, extent.threshold, extent.count, by_text=source.by_text
        )
        taken = source.fitting(chosen.ids)
        vectors = chosen.vectors[[at for at, *_ in taken]]
        counts = stands_for(scan, vectors, extent.threshold, review_of)
        sentences = [
            ShortSentence(
                rank,
                chosen.ids[at].decode(),
                review_of(chosen.ids[at]).decode(),
                text,
                details.rating,
                chosen.distances[at],
                count.sentences,
                count.groups,
            )
            for rank, ((at, text, details), count) in enumerate(zip(taken, counts, strict=True))
        ]
        return cls(*source.counts, extent.threshold, tuple(sentences))


@dataclass(frozen=True, slots=True)
class FacetsView(EntityView):
    """An entity's facets, by descending mentions, sentences, then name."""

    ratings: Ratings  # of all live reviews
    sequence: int | None  # source offset of the last published change of facets
    facets: tuple[FacetSummary, ...]
    partition: int | None = None
    next_offset: int | None = None  # of the input partition: all below is in this view

    @classmethod
    def read(cls, source: Source) -> Self:
        members = _Members(source)
        found = members.ordered(source.extent.language)
        published = source.entity.published(FACETS)
        return cls(
            *source.counts,
            source.header.ratings.ratings(),
            None if published is None else published.sequence,
            tuple(_facet(source, members, counted) for counted in found),
        )


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
    occurred_at: str | None = None  # of its review


@dataclass(frozen=True, slots=True)
class Overview(EntityView):
    """An entity's overview and its counts."""

    ratings: Ratings  # of all live reviews
    threshold: float
    sentences: tuple[OverviewSentence, ...]
    facets: tuple[FacetSummary, ...]  # those that had a turn; readers do not see who wrote a quote
    language: LanguageCode | UnsetType = UNSET  # of its facets; absent if they may have several
    languages: dict[str, int] = field(default_factory=dict)  # its reviews by known language
    partition: int | None = None
    next_offset: int | None = None  # of the input partition: all below is in this view

    @classmethod
    def read(cls, source: Source) -> Self:
        extent, members = source.extent, _Members(source)
        language = extent.language or members.language
        facets = members.turns(language, source.language_min)
        walks = [
            Walk(
                members.scan(counted.number),
                source.entity.dimension,
                extent.threshold,
                CANDIDATES,
                by_text=source.by_text,
            )
            for counted in facets
        ]
        turns = in_turn(walks, extent.count)
        sentences = []
        for rank, (at, text, details) in enumerate(source.fitting(found.id for _, found in turns)):
            walk, found = turns[at]
            sentences.append(
                OverviewSentence(
                    rank,
                    facets[walk].facet.label if language is None else facets[walk].facet.name,
                    facets[walk].sentences,
                    found.id.decode(),
                    review_of(found.id).decode(),
                    text,
                    details.rating,
                    walks[walk].distance(found),
                    details.occurred_at,
                )
            )
        return cls(
            *source.counts,
            source.header.ratings.ratings(),
            extent.threshold,
            tuple(sentences),
            tuple(_facet(source, members, counted, with_authors=False) for counted in facets),
            language or UNSET,
            members.languages,
        )


View: TypeAlias = SummaryView | ShortView | FacetsView | Overview
KINDS: Final[Mapping[str, type[View]]] = {
    "set": SummaryView,
    "short": ShortView,
    "facets": FacetsView,
    "overview": Overview,
}
"""By the name that the web and commands have for it."""


def in_turn(walks: Sequence[Walk], count: int) -> list[tuple[int, Candidate]]:
    """One sentence of each walk, with its number; then the next round, until all are read or there
    are `count`.

    In its turn a walk gives its nearest sentence that no chosen one stands for.
    """
    turns: list[tuple[int, Candidate]] = []
    chosen: list[NDArray[np.int16]] = []
    while True:
        before = len(turns)
        for number, walk in enumerate(walks):
            if len(turns) == count:
                return turns
            if (found := walk.nearest(chosen)) is not None:
                turns.append((number, found))
                chosen.append(found.vector)
        if len(turns) == before:
            return turns


@dataclass(slots=True)
class _Counted:
    """A visible facet and what it has."""

    number: int
    facet: FacetSummary  # without sentences
    sentences: int = 0
    reviews: ReviewCounts = NO_REVIEWS
    mentions: ReviewCounts = NO_REVIEWS

    @property
    def is_there(self) -> bool:
        """True if it has a sentence, or a review mentions it."""
        return self.sentences > 0 or self.mentions.reviews > 0

    def place(self) -> tuple[int, int, str]:
        """Where it stands among all."""
        return -self.mentions.reviews, -self.sentences, self.facet.label


class _Members:
    """An entity's stored sentences by facet."""

    def __init__(self, source: Source) -> None:
        """Raises NoFacets."""
        facets: FacetCriteria | None = read_criteria(source.entity.rows)
        if facets is None:
            raise NoFacets
        entity, self._definitions = source.entity, facets.definitions
        self._blocks = read_once(entity.blocks)
        members = FacetMembers(facets, entity.review_facts())
        self.languages = dict(members.languages.most_common())
        self._counted = [
            _Counted(number, facets.definitions.summaries[number])
            for number in facets.definitions.visible
        ]
        self._bits: list[NDArray[np.uint64]] = []  # by block
        self._signs: list[NDArray[np.int8]] = []
        reviews = ReviewBits()
        for block in self._blocks():
            assert isinstance(block, VectorBlock)
            bits = members.bits(block.vectors, block.places)
            self._bits.append(bits)
            self._signs.append(members.signs(block.vectors, block.places))
            reviews.add(block.reviews, bits)
            for counted in self._counted:
                counted.sentences += len(rows_of(bits, counted.number))
        for (found, rating), count in reviews.counts(members).items():
            for counted in self._counted:
                if found >> counted.number & 1:
                    counted.reviews = counted.reviews.plus(rating, count)
        for (found, rating), count in members.mention_counts().items():
            for counted in self._counted:
                if found >> counted.number & 1:
                    counted.mentions = counted.mentions.plus(rating, count)

    def ordered(self, language: str | None = None) -> list[_Counted]:
        """The visible facets by descending mentions, sentences, then name; with a language those of
        it alone. Raises UnknownLanguage.
        """
        if language is not None:
            check_language(self._definitions, language)
        found = (counted for counted in self._counted if language in (None, counted.facet.language))
        return sorted(found, key=_Counted.place)

    @property
    def language(self) -> str | None:
        """The declared language with the most sentences, the first of equals; None without any."""
        whole = filter(self._takes_all, self._counted)
        sizes = {counted.facet.language: counted.sentences for counted in whole}
        return max(self._definitions.languages, key=sizes.__getitem__, default=None)

    def turns(self, language: str | None, language_min: int) -> list[_Counted]:
        """The facets of an overview, of one language or all: `ordered`, without those that take all
        sentences of a language, and those of a language with fewer than `language_min` sentences.
        """
        return [
            counted
            for counted in self.ordered(language)
            if (counted.sentences >= language_min if counted.facet.language else counted.is_there)
            and not self._takes_all(counted)
        ]

    def _takes_all(self, counted: _Counted) -> bool:
        return self._definitions.origin[counted.number] is None

    def size(self, number: int, sign: int) -> int:
        """Sentences of a full set of a facet, or of its pros or cons."""
        return self._definitions.facets[number].size(sign)

    def scan(self, number: int, sign: int = 0) -> Scan:
        """Reads the sentences of a facet, or its pros (1) or cons (-1)."""

        def read() -> Iterator[VectorBlock]:
            for block, bits, signs in zip(self._blocks(), self._bits, self._signs, strict=True):
                assert isinstance(block, VectorBlock)
                if len(rows := rows_of(bits, number, sign, signs)):
                    yield block.part(rows.tolist())

        return read


def _facet(
    source: Source, members: _Members, counted: _Counted, *, with_authors: bool = True
) -> FacetSummary:
    """The facet as it is published, or its quotes without their authors."""
    facet = counted.facet
    summary = facet.with_counts(counted.sentences, counted.reviews, counted.mentions)
    sets = {"sentences": 0} | ({} if facet.pros is UNSET else SIDES)
    nearest = {
        name: _nearest(
            source,
            members.size(counted.number, sign),
            members.scan(counted.number, sign),
            with_authors,
        )
        for name, sign in sets.items()
    }
    return msgspec.structs.replace(summary, **nearest)


def _nearest(source: Source, k: int, scan: Scan, with_authors: bool) -> list[SummarySentence]:
    """The sentences of a scan that are nearest to their centroid."""
    scan = read_once(scan)
    if not any(len(block.vectors) for block in scan()):
        return []
    ranking = source.core(k, scan).ranking()
    facts = map(source.entity.text_and_details, ranking.ids)
    ranked = zip(ranking.ids, facts, ranking.distances(), ranking.support, strict=True)
    return [
        summary_sentence(
            rank,
            identifier.decode(),
            review_of(identifier).decode(),
            text,
            details if with_authors else details._replace(author_id=None),
            distance,
            support,
        )
        for rank, (identifier, (text, details), distance, support) in enumerate(ranked)
    ]
