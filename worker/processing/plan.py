"""Planning: what each event of a micro-batch does by the contract's rules, before any embedding.

It reads stored rows and changes nothing outside the plan, so a plan can be discarded and made
again. Sentences may still lack their vectors.

Versions: an event without one counts as the stored version + 1, a review's first as 1. An upsert
applies if it is newer than what is stored, a deletion also if it is equal and the review is live. A
deletion that comes before its review is remembered like any other, in an unknown entity too.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import assert_never

from worker.coversumm import max_sentences
from worker.events import (
    EntityDeleted,
    Event,
    GivenSentence,
    Ignored,
    Limits,
    Reason,
    Record,
    Rejected,
    ReviewDeleted,
    ReviewUpserted,
    SentencesDeleted,
)
from worker.events.dates import is_future
from worker.events.reasons import place_of
from worker.facets.membership import FacetCriteria
from worker.limits import Limit
from worker.processing.changes import EntityChanges, Outcome
from worker.processing.config import ProcessorConfig
from worker.processing.embed import Embedder, split_text
from worker.processing.entities import CachedEntity, Entities, EntityKey
from worker.processing.pace import characters
from worker.state.entity import Review, Sentence
from worker.state.keys import parse_sentence_id, sentence_id
from worker.text.engine import reads_all
from worker.text.language import language_code
from worker.text.splitting import cap_sentence, read_whole, says_something


class BatchPlan:
    """The plan of one micro-batch; `take` adds its events in order.

    Attributes:
        changes: by first event; several for an entity that is deleted in between.
        unembedded: by text the sentences without a vector, each with the index of its record and
            words for the place of its event there.
        new_characters: to embed, in units of `pace.characters`.
        sentences: added, or read with their vectors.
        cut_sentences: longer than the cap, so cut into several.
        future_dates: of reviews that count as undated.
        languages: of the sentences that events give no vector, empty where it is not known.
    """

    def __init__(self, config: ProcessorConfig, entities: Entities, embedder: Embedder) -> None:
        self.changes: list[EntityChanges] = []
        self.unembedded: dict[str, list[tuple[int, str, Sentence]]] = {}
        self.new_characters = self.sentences = self.cut_sentences = self.future_dates = 0
        self.languages: Counter[str] = Counter()
        self._limits = limits = config.limits
        # The settings are checked against the core's exact range; other limits are capped here.
        self._max_sentences = min(limits.max_sentences_per_entity, max_sentences(limits.dimension))
        self._entities = entities
        self._embedder = embedder
        self._reads_all = reads_all(embedder.engine)
        self._facets = config.facets
        self._open: dict[EntityKey, EntityChanges | None] = {}
        self._place = ""

    def take(self, index: int, record: Record, event: Event) -> Outcome:
        """Plan one event and return its outcome."""
        key = EntityKey(record.partition, event.entity_id)
        match event:
            case ReviewUpserted():
                return self._upsert(index, record, key, event)
            case ReviewDeleted():
                return self._delete_review(index, record, key, event)
            case SentencesDeleted():
                return self._delete_sentences(index, key, event)
            case EntityDeleted():
                return self._delete_entity(index, key, event)
            case _:
                assert_never(event)

    def take_several(self, index: int, record: Record, events: Sequence[Event]) -> Outcome:
        """Plan the events of one record: all, or none if one is rejected. Without effect of any,
        the outcome is that of the first.
        """
        undo = self._undo(index, [EntityKey(record.partition, body.entity_id) for body in events])
        before, most = self.sentences, self._limits.max_sentences_per_deletion
        outcomes: list[Outcome] = []
        for number, event in enumerate(events, start=1):
            self._place = place_of(number, event.entity_id)
            outcome = self.take(index, record, event)
            if self.sentences - before > most and outcomes:
                outcome = Rejected(
                    Reason.TOO_MANY_SENTENCES,
                    f"the events so far rewrite {self.sentences - before} sentences, at most "
                    f"{most} are rewritten by one record",
                    Limit.SENTENCES_PER_DELETION,
                )
            if isinstance(outcome, Rejected):
                undo()
                outcomes = [outcome.under(self._place)]
                break
            outcomes.append(outcome)
        self._place = ""
        return None if None in outcomes else outcomes[0]

    def _undo(self, index: int, keys: Sequence[EntityKey]) -> Callable[[], None]:
        """Undoes what is planned for the record of this index, of these entities, from now on."""
        counts = self.new_characters, self.sentences, self.cut_sentences, self.future_dates
        languages = self.languages.copy()
        length = len(self.changes)
        opened = {key: self._open[key] for key in keys if key in self._open}
        kept = {id(entity): entity.copy() for entity in opened.values() if entity is not None}

        def undo() -> None:
            self.new_characters, self.sentences, self.cut_sentences, self.future_dates = counts
            self.languages = languages
            self.changes = [kept.get(id(change), change) for change in self.changes[:length]]
            for key in keys:
                self._open.pop(key, None)
            self._open |= {key: entity and kept[id(entity)] for key, entity in opened.items()}
            for text, waiting in list(self.unembedded.items()):
                waiting[:] = [rest for rest in waiting if rest[0] != index]
                if not waiting:
                    del self.unembedded[text]

        return undo

    # -- entities

    def _changes_of(self, key: EntityKey) -> EntityChanges | None:
        """The entity's changes so far, or None if it has no row at this point."""
        if key in self._open:
            return self._open[key]
        entity = self._entities.find(key)
        changes = None if entity is None else self._begin(key, entity, is_new=False)
        self._open[key] = changes
        return changes

    def _begin_new(self, key: EntityKey, offset: int) -> EntityChanges:
        return self._begin(key, self._entities.create(key, offset), is_new=True)

    def _begin(self, key: EntityKey, entity: CachedEntity, *, is_new: bool) -> EntityChanges:
        changes = self._open[key] = EntityChanges(key, entity, is_new=is_new)
        self.changes.append(changes)
        return changes

    # -- events

    def _upsert(self, index: int, record: Record, key: EntityKey, event: ReviewUpserted) -> Outcome:
        review_id = event.review_id.encode()
        facets, tag = self._facets, event.details.language
        language = "" if facets is None else facets.language_of(texts_of(event), tag)
        split = split_review(
            review_id, event, self._limits, language, self._embedder.split, self._reads_all
        )
        if isinstance(split, Rejected):
            return split
        sentences, cut = split
        self.cut_sentences += cut
        changes = self._changes_of(key)
        stored = None if changes is None else changes.review(review_id)
        version = _version(event.review_version, stored)
        if stored is not None and version <= stored.version:
            return Ignored.NOT_NEWER
        before = 0 if changes is None else changes.sentence_count
        if stored is not None:
            before -= len(stored.sentences)
        if before + len(sentences) > self._max_sentences:
            return Rejected(
                Reason.ENTITY_FULL,
                f"{before} sentences and {len(sentences)} more, at most {self._max_sentences}",
                Limit.SENTENCES_PER_ENTITY,
            )
        if changes is None:
            changes = self._begin_new(key, record.offset)
        removed = changes.live_sentences(review_id, stored)
        self.sentences += len(removed) + len(sentences)
        unembedded = [sentence for sentence in sentences if sentence.vector is None]
        embedded = len(unembedded) == len(sentences)
        if unembedded:
            self._need_vectors(index, unembedded, stored)
            self.languages[language_code(tag) or language] += len(unembedded)
        chunks = (0, 0) if stored is None else stored.chunks
        review = Review(version, False, event.details, embedded, sentences, chunks, language)
        if facets is not None and facets.recent:
            review.is_future = is_future(event.occurred_at, record.timestamp_ms)
            self.future_dates += review.is_future
        if facets is not None and facets.quoting_bits:
            _mark(facets, review)
        else:
            review.mentions = mentions_of(facets, review)
        changes.review_count += stored is None or stored.deleted
        before_rating = None if stored is None else stored.details.rating
        changes.ratings = changes.ratings.replaced(before_rating, event.details.rating)
        changes.write(index, event, {review_id: review}, removed, sentences, {review_id: stored})
        return None

    def _delete_review(
        self, index: int, record: Record, key: EntityKey, event: ReviewDeleted
    ) -> Outcome:
        review_id = event.review_id.encode()
        changes = self._changes_of(key)
        stored = None if changes is None else changes.review(review_id)
        version = _version(event.review_version, stored)
        if stored is not None and version < stored.version + stored.deleted:
            return Ignored.NOT_NEWER
        if changes is None:
            changes = self._begin_new(key, record.offset)
        removed = changes.live_sentences(review_id, stored)
        self.sentences += len(removed)
        if stored is not None and not stored.deleted:
            changes.review_count -= 1
            changes.ratings = changes.ratings.plus(stored.details.rating, -1)
        chunks = (0, 0) if stored is None else stored.chunks
        deleted = Review(version, deleted=True, chunks=chunks)
        changes.write(index, event, {review_id: deleted}, removed, (), {review_id: stored})
        return None

    def _delete_sentences(self, index: int, key: EntityKey, event: SentencesDeleted) -> Outcome:
        changes = self._changes_of(key)
        if changes is None:
            return Ignored.UNKNOWN_ENTITY
        wanted: dict[bytes, set[int]] = {}
        for identifier in event.sentence_ids:
            if parsed := parse_sentence_id(identifier.encode()):
                wanted.setdefault(parsed[0], set()).add(parsed[1])
        touched: dict[bytes, Review] = {}
        held = 0
        for review_id, ordinals in wanted.items():
            review = changes.review(review_id)
            if review is not None and any(s.ordinal in ordinals for s in review.sentences):
                touched[review_id] = review
                held += len(review.sentences)
                if held > self._limits.max_sentences_per_deletion and len(touched) > 1:
                    return Rejected(
                        Reason.TOO_MANY_SENTENCES,
                        f"the reviews it is about hold {held} sentences, at most "
                        f"{self._limits.max_sentences_per_deletion} are rewritten by one event",
                        Limit.SENTENCES_PER_DELETION,
                    )
        if not touched:
            return Ignored.UNKNOWN_SENTENCE
        reviews: dict[bytes, Review] = {}
        removed: list[Sentence] = []
        for review_id, review in touched.items():
            ordinals = wanted[review_id]
            self.sentences += len(changes.live_sentences(review_id, review))
            removed += [s for s in review.sentences if s.ordinal in ordinals]
            kept = [s for s in review.sentences if s.ordinal not in ordinals]
            reviews[review_id] = left = replace(review, sentences=kept)
            left.mentions = mentions_of(self._facets, left)
        changes.write(index, event, reviews, removed, (), touched)
        return None

    def _delete_entity(self, index: int, key: EntityKey, event: EntityDeleted) -> Outcome:
        changes = self._changes_of(key)
        if changes is None:
            return Ignored.UNKNOWN_ENTITY
        changes.end = (index, event)
        self._open[key] = None
        return None

    # -- sentences

    def _need_vectors(self, index: int, unembedded: list[Sentence], stored: Review | None) -> None:
        """Reuse the engine's vectors of an edited review's unchanged sentences; list the others."""
        known = (
            {s.text: s.vector for s in stored.sentences}
            if stored is not None and stored.embedded
            else {}
        )
        new: list[str] = []
        for sentence in unembedded:
            vector = known.get(sentence.text)
            if vector is not None:
                sentence.vector = vector
                continue
            waiting = self.unembedded.setdefault(sentence.text, [])
            if not waiting:
                new.append(sentence.text)
            waiting.append((index, self._place, sentence))
        self.new_characters += sum(map(characters, self._embedder.missing(new)))


def _version(given: int | None, stored: Review | None) -> int:
    """The event's version, or the next one if it has none."""
    if given is not None:
        return given
    return 1 if stored is None else stored.version + 1


def mentions_of(criteria: FacetCriteria | None, review: Review) -> int:
    """The facets whose words its sentences have, a bit for each."""
    if criteria is None:
        return 0
    texts = [sentence.text for sentence in review.sentences]
    return criteria.mentions(texts, review.language, review.details.language)


def _mark(criteria: FacetCriteria, review: Review) -> None:
    """Note its mentions, and which facets quote each of its sentences."""
    languages = review.language, review.details.language
    for sentence in review.sentences:
        text, labels = sentence.text, sentence.label_bits
        words = criteria.mentions((text,), *languages)
        sentence.label_bits = criteria.marks(labels, words, text, *languages)
        review.mentions |= words


def texts_of(event: ReviewUpserted) -> Iterable[str]:
    """The text of the review, or the texts of its given sentences."""
    if event.sentences is None:
        return (event.text or "",)
    return (sentence.text for sentence in event.sentences)


def split_review(
    review_id: bytes,
    event: ReviewUpserted,
    limits: Limits,
    language: str = "",
    split: Callable[[str, str], list[str]] = split_text,
    reads_all: Callable[[str], bool] = lambda text: True,
) -> tuple[list[Sentence], int] | Rejected:
    """The event's sentences under their ids, and how many were longer than the cap. `split` does
    what `split_text` does, `reads_all` tells whether the engine reads a text to its end.

    Blank ones are dropped but counted. A sentence without a vector needs the engine's, and is cut
    where the engine would not read it to its end.
    """
    cap = limits.max_sentence_chars
    given = event.sentences
    is_split_here = given is None
    if given is None:
        given = tuple(GivenSentence(text, None) for text in split(event.text or "", language))
    pieces: list[GivenSentence] = []
    cut = 0
    for sentence in given:
        if sentence.vector is not None or (len(sentence.text) <= cap and reads_all(sentence.text)):
            pieces.append(sentence)
            continue
        cut += len(sentence.text) > cap
        pieces += [
            sentence._replace(text=piece)
            for part in cap_sentence(sentence.text, cap)
            for piece in read_whole(part, reads_all)
            if says_something(piece) or not is_split_here
        ]
    if len(pieces) > limits.max_sentences_per_review:
        return Rejected(
            Reason.TOO_MANY_SENTENCES,
            f"{len(pieces)} sentences, at most {limits.max_sentences_per_review} are taken",
            Limit.SENTENCES_PER_REVIEW,
        )
    sentences = [
        Sentence(i, sentence_id(review_id, i), text, vector, label_bits)
        for i, (text, vector, label_bits) in enumerate(pieces)
        if text and not text.isspace()
    ]
    return sentences, cut
