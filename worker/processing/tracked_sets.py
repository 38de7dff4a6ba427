"""The sets of an entity in memory: its summary, and its facets. An entity is a list of them.

Each is the set of the sentences nearest to the centroid of those that it takes: the summary takes
all. They are published by topic, see `worker.events.publishing`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from worker.coversumm import EntityCore, Index, Ranking
from worker.events import Event, FacetSummary, ReviewDeleted, ReviewDetails, SentencesDeleted
from worker.events.codec import OutputCodec
from worker.events.outputs import RankedQuotes
from worker.events.publishing import OutputTopic, are_mentions_due, is_due
from worker.events.ratings import NO_REVIEWS, ReviewCounts
from worker.state.keys import review_of
from worker.state.rows import PublishedSets, text_digest

SENTENCE_BYTES: Final = 600  # of a sentence in memory besides its text
SET_BYTES: Final = 1500  # of a facet besides its core: objects, digests


@dataclass(slots=True)
class SetSentence:
    """A sentence of a set, as messages and the published row need it."""

    id: bytes
    sentence_id: str
    review_id: str
    text: str
    details: ReviewDetails
    digest: bytes
    quote: bytes  # the part that is the same in every message

    @property
    def memory_bytes(self) -> int:
        """Approximate bytes in memory."""
        return SENTENCE_BYTES + len(self.text) + len(self.quote)

    @classmethod
    def of(
        cls, identifier: bytes, text: str, details: ReviewDetails, codec: OutputCodec
    ) -> SetSentence:
        """Make it of a live sentence and its review's details, for messages of this codec."""
        sentence_id, review_id = identifier.decode(), review_of(identifier).decode()
        quote = codec.quote(sentence_id, review_id, text, details)
        return cls(identifier, sentence_id, review_id, text, details, text_digest(text), quote)


Texts = Callable[[Sequence[bytes]], list[SetSentence]]  # the live sentences with these ids


def digests(sentences: Iterable[SetSentence]) -> dict[bytes, bytes]:
    """A set of these sentences, as it is compared."""
    return {sentence.id: sentence.digest for sentence in sentences}


@dataclass(slots=True, eq=False)
class SetPart:
    """A set as a part of messages. A facet is encoded once, for the first of them."""

    facet: FacetSummary | None  # None for the summary
    sentences: list[SetSentence]
    ranking: Ranking | None  # None without sentences
    size: int  # at most, encoded
    sides: Sequence[SetPart] = ()  # pros and cons of a facet with sides
    _encoded: bytes | None = None

    @property
    def quotes(self) -> list[bytes]:
        """The quotes by rank."""
        return [sentence.quote for sentence in self.sentences]

    @property
    def numbers(self) -> tuple[Sequence[float], Sequence[int]]:
        """Distances and support by rank."""
        ranking = self.ranking
        return ((), ()) if ranking is None else (ranking.distances(), ranking.support)

    @property
    def ranked(self) -> RankedQuotes:
        """The set for a codec."""
        return RankedQuotes(self.quotes, *self.numbers)

    @property
    def rankings(self) -> list[Ranking]:
        """All that are not encoded."""
        return [side.ranking for side in (self, *self.sides) if side.ranking is not None]

    @property
    def memory_bytes(self) -> int:
        """Approximate bytes in memory."""
        return self.size if self._encoded is None else len(self._encoded)

    def encode(self, codec: OutputCodec) -> bytes:
        """The facet; always of the same codec."""
        if self._encoded is None:
            assert self.facet is not None
            sides = [side.ranked for side in self.sides]
            self._encoded = codec.encode_facet(self.facet, self.ranked, sides)
            # a ranking has a sum of its own
            self.ranking, self.sentences, self.sides = None, [], ()
        return self._encoded


@dataclass(slots=True, eq=False)
class TrackedSet:
    """One set."""

    facet: FacetSummary | None = None  # without sentences; None for the summary
    sign: int = 0  # of a facet's pros 1, of its cons -1
    core: EntityCore | None = None
    """Of a facet None without sentences, of the summary until it is loaded."""
    index: Index | None = None
    now: Mapping[bytes, bytes] = field(default_factory=dict)
    """`{sentence id: text digest}` in rank order; of the summary as this micro-batch knows it."""
    published: Mapping[bytes, bytes] = field(default_factory=dict)  # the set last published
    reviews: ReviewCounts = NO_REVIEWS  # of a facet: with a sentence here
    mentions: ReviewCounts = NO_REVIEWS  # of a facet: with its words
    published_mentions: int = 0
    ranking: Ranking | None = None  # of the last step of a facet, if it changed the set
    part: SetPart | None = None  # for messages, until the set changes

    @property
    def name(self) -> str:
        """The facet's name with its language."""
        return "" if self.facet is None else self.facet.label

    @property
    def sentences(self) -> int:
        """Live sentences that it takes."""
        return 0 if self.core is None else self.core.live

    @property
    def place(self) -> tuple[int, int]:
        """The place of a facet among all: by mentions, then by sentences, both descending."""
        return -self.mentions.reviews, -self.sentences

    def touch(self) -> None:
        """Its sentences or reviews changed."""
        self.part = self.ranking = None

    def make_part(self, texts: Texts, sides: Sequence[TrackedSet] = ()) -> SetPart:
        """Make the part of a message, a facet's with its sides: a changed side changes it."""
        if self.part is None:
            ranking, sentences = None, []
            if self.core is not None and self.core.n:
                ranking = self.ranking or self.core.ranking()
                sentences = texts(ranking.ids)
            size = SET_BYTES + sum([len(sentence.quote) for sentence in sentences])
            parts = [side.make_part(texts) for side in sides]
            size += sum([part.size for part in parts])
            self.part = SetPart(self._summary(), sentences, ranking, size, parts)
        return self.part

    def _summary(self) -> FacetSummary | None:
        """The facet without its sentences."""
        facet = self.facet
        if facet is None or self.sign:
            return None
        return facet.with_counts(self.sentences, self.reviews, self.mentions)

    @property
    def memory_bytes(self) -> int:
        """Approximate bytes in memory of a facet."""
        core = 0 if self.core is None else self.core.memory_bytes
        return SET_BYTES + core + 400 * len(self.now)


class TrackedSets:
    """The sets of an entity that one topic publishes, in the order of their row.

    `sequence`: source offset of the last published change. `emit_mentions`: see `ProcessorConfig`.
    """

    __slots__ = ("emit_mentions", "sequence", "sets", "topic")

    def __init__(
        self,
        topic: OutputTopic,
        sets: list[TrackedSet],
        stored: PublishedSets | None = None,
        emit_mentions: int = 0,
    ) -> None:
        """`stored`: their row, None without one."""
        self.topic = topic
        self.sets = sets
        self.emit_mentions = emit_mentions
        self.sequence: int | None = None
        if stored is not None:
            self.sequence = stored.sequence
            for nearest_set, published in zip(sets, stored.sets, strict=True):
                nearest_set.published = published
            for nearest_set, count in zip(sets, stored.mentions, strict=False):  # of none, maybe
                nearest_set.published_mentions = count

    def changed(self) -> list[TrackedSet]:
        """The sets that differ from those last published, or whose mentions are due."""
        percent = self.emit_mentions
        return [
            tracked
            for tracked in self.sets
            if tracked.now != tracked.published
            or are_mentions_due(tracked.published_mentions, tracked.mentions.reviews, percent)
        ]

    def is_due(self, min_changes: int, deleted: Collection[bytes]) -> bool:
        """True if one of them must be published."""
        percent = self.emit_mentions
        for tracked in self.sets:
            count = tracked.mentions.reviews
            if percent and are_mentions_due(tracked.published_mentions, count, percent):
                return True
            if tracked.now is not tracked.published and is_due(
                tracked.published, tracked.now, min_changes, deleted
            ):
                return True
        return False

    def taken_down(self, event: Event) -> set[bytes]:
        """The published sentences that a deletion of reviews or sentences takes down."""
        if isinstance(event, ReviewDeleted):
            review_id = event.review_id.encode()
            return {
                name
                for tracked in self.sets
                for name in tracked.published
                if review_of(name) == review_id
            }
        if isinstance(event, SentencesDeleted):
            names = [name.encode() for name in event.sentence_ids]
            return {name for tracked in self.sets for name in names if name in tracked.published}
        return set()

    def on_published(self, sequence: int) -> None:
        """The present sets are the ones last published."""
        self.sequence = sequence
        for tracked in self.sets:
            tracked.published, tracked.published_mentions = tracked.now, tracked.mentions.reviews

    def row(self) -> PublishedSets | None:
        """The stored row; None before the first change is published."""
        if self.sequence is None:
            return None
        mentions = (
            [tracked.published_mentions for tracked in self.sets] if self.emit_mentions else []
        )
        return PublishedSets(self.sequence, [tracked.published for tracked in self.sets], mentions)

    def emptied(self) -> TrackedSets:
        """The same sets without sentences, after those last published."""
        empty = [TrackedSet(tracked.facet, tracked.sign) for tracked in self.sets]
        return TrackedSets(self.topic, empty, self.row(), self.emit_mentions)

    def alone(self) -> TrackedSets:
        """The same sets, with nothing published before them."""
        made = TrackedSets(
            self.topic, [TrackedSet(tracked.facet, tracked.sign) for tracked in self.sets]
        )
        for nearest_set, present in zip(made.sets, self.sets, strict=True):
            nearest_set.now = present.now
        return made

    def parts(self, texts: Texts) -> list[SetPart]:
        """All of them as parts of a message, in its order."""
        if len(self.sets) == 1:
            return [self.sets[0].make_part(texts)]
        named: dict[str, list[TrackedSet]] = {}  # a facet, and its pros and cons
        for tracked in self.sets:
            named.setdefault(tracked.name, []).append(tracked)
        ordered = sorted([(*whole.place, name) for name, (whole, *_) in named.items()])
        of_facets = (named[name] for *_, name in ordered)
        return [nearest_set.make_part(texts, sides) for nearest_set, *sides in of_facets]
