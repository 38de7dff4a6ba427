"""An entity for people, from its stored rows: its summary, short view, facets or overview.

A view holds what its rows say at one commit. A short view leaves out what says nearly the same as
a nearer sentence. An overview reads the facets in turn: the facets by mentions and sentences, from
each the nearest sentence, then the next round. It skips what says nearly the same as a chosen
sentence, of whichever facet. With a word limit a walk goes down to `MOST_SENTENCES`, takes each
chosen sentence that still fits, and skips the others.

Facets of languages that a file declares are read in one language: that of the most sentences,
unless another is asked for. `everything` repeats the others and has no turn.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, Self, TypeAlias, TypeVar

import msgspec
import numpy as np
from msgspec import UNSET, UnsetType
from numpy.typing import NDArray

from worker.coversumm import EntityCore, FlatIndex, Index, Ranking
from worker.coversumm.short_view import Candidate, Scan, Walk, choose, read_once, stands_for
from worker.errors import SetupError
from worker.events import FacetSummary, Ratings, ReviewDetails, SummarySentence, summary_sentence
from worker.events.codec import DEFAULT
from worker.events.fields import LanguageCode
from worker.events.outputs import SIDES
from worker.events.publishing import FACETS, SUMMARIES
from worker.facets.definitions import Definitions
from worker.facets.membership import FacetCriteria
from worker.processing.facets import EntityFacets
from worker.processing.tracked_sets import SetSentence, TrackedSet
from worker.state import Rows, read_applied
from worker.state.entity import EntityRows, read_header
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

    def new_core(self, k: int, index: Index) -> EntityCore:
        """The core of a set without sentences."""
        dimension = self.entity.dimension
        return EntityCore(k, dimension, index, distinct=self.distinct, by_text=self.by_text)

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
        core = source.new_core(source.k, FlatIndex(entity.dimension, entity.blocks))
        core.read()
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
        facets, published = _Facets(source), source.entity.published(FACETS)
        return cls(
            *source.counts,
            source.header.ratings.ratings(),
            None if published is None else published.sequence,
            tuple(map(facets.summary, facets.ordered(source.extent.language))),
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
        extent, facets = source.extent, _Facets(source)
        language = extent.language or facets.language
        shown = facets.turns(language, source.language_min)
        dimension, by_text = source.entity.dimension, source.by_text
        walks = [
            Walk(facets.scan(number), dimension, extent.threshold, CANDIDATES, by_text=by_text)
            for number in shown
        ]
        turns = in_turn(walks, extent.count)
        sentences = []
        for rank, (at, text, details) in enumerate(source.fitting(found.id for _, found in turns)):
            walk, found = turns[at]
            facet = facets[shown[walk]]
            assert facet.facet is not None
            sentences.append(
                OverviewSentence(
                    rank,
                    facet.name if language is None else facet.facet.name,
                    facet.sentences,
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
            tuple(facets.summary(number, with_authors=False) for number in shown),
            language or UNSET,
            facets.languages,
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


class _Facets:
    """An entity's facets, read from its rows, by their number."""

    def __init__(self, source: Source) -> None:
        """Raises NoFacets, CorruptRow."""
        criteria: FacetCriteria | None = read_criteria(source.entity.rows)
        if criteria is None:
            raise NoFacets
        self._definitions = criteria.definitions
        self._text = cache(
            lambda name: SetSentence.of(name, *source.entity.text_and_details(name), DEFAULT)
        )
        # as if new: what is published may be of other facets than those that are tried here
        facets = EntityFacets(criteria, source.entity, self._texts, source.new_core, is_new=True)
        members, self._subsets = facets.read()
        self.languages = dict(members.languages.most_common())
        self._sets = dict(zip(self._definitions.sets, facets.tracked.sets, strict=True))

    def _texts(self, names: Sequence[bytes]) -> list[SetSentence]:
        return list(map(self._text, names))

    def __getitem__(self, number: int) -> TrackedSet:
        """The set of all sentences of a facet."""
        return self._sets[number, 0]

    def ordered(self, language: str | None) -> list[int]:
        """The visible facets by descending mentions, sentences, then name; with a language those of
        it alone. Raises UnknownLanguage.
        """
        definitions = self._definitions
        if language is not None:
            check_language(definitions, language)
        found = (
            number
            for number in definitions.visible
            if language in (None, definitions.summaries[number].language)
        )
        return sorted(found, key=lambda number: (*self[number].place, self[number].name))

    @property
    def language(self) -> str | None:
        """The declared language with the most sentences, the first of equals; None without any."""
        definitions = self._definitions
        whole = filter(self._takes_all, definitions.visible)
        sizes = {definitions.summaries[number].language: self[number].sentences for number in whole}
        return max(definitions.languages, key=sizes.__getitem__, default=None)

    def turns(self, language: str | None, language_min: int) -> list[int]:
        """The facets of an overview, of one language or all: `ordered`, without those that take all
        sentences of a language, those of a language with fewer than `language_min` sentences, and
        others without sentences and mentions.
        """

        def has_turn(number: int) -> bool:
            facet = self[number]
            if self._definitions.summaries[number].language:
                return facet.sentences >= language_min
            return facet.sentences > 0 or facet.mentions.reviews > 0

        found = (number for number in self.ordered(language) if not self._takes_all(number))
        return list(filter(has_turn, found))

    def _takes_all(self, number: int) -> bool:
        return self._definitions.origin[number] is None

    def scan(self, number: int) -> Scan:
        """Reads the sentences of a facet."""
        return partial(self._subsets.scan, self._definitions.sets.index((number, 0)))

    def summary(self, number: int, *, with_authors: bool = True) -> FacetSummary:
        """The facet as it is published, or its quotes without their authors."""
        whole, facet = self[number], self._definitions.summaries[number]
        sets = {"sentences": 0} | ({} if facet.pros is UNSET else SIDES)
        return msgspec.structs.replace(
            facet.with_counts(whole.sentences, whole.reviews, whole.mentions),
            **{
                name: self._sentences(self._sets[number, sign], with_authors)
                for name, sign in sets.items()
            },
        )

    def _sentences(self, facet: TrackedSet, with_authors: bool) -> list[SummarySentence]:
        """The sentences of a set that are nearest to its centroid."""
        if facet.core is None or not facet.sentences:
            return []
        ranking = facet.core.ranking()
        ranked = zip(self._texts(ranking.ids), ranking.distances(), ranking.support, strict=True)
        return [
            summary_sentence(
                rank,
                found.sentence_id,
                found.review_id,
                found.text,
                found.details if with_authors else found.details._replace(author_id=None),
                distance,
                support,
            )
            for rank, (found, distance, support) in enumerate(ranked)
        ]
