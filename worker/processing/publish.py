"""Publishing: ranks an entity's planned steps, and makes a message for each change of its sets.

A set contains pairs of sentence id and text. It is compared with the one last published by ids and
text digests. The rules are the same for the summary and the facets; see `Publisher`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from worker.coversumm import Ranking, Step
from worker.events import (
    EVENT_TYPES,
    Cause,
    Event,
    FacetsChanged,
    Rejected,
    ReviewDeleted,
    ReviewDetails,
    ReviewUpserted,
    SentencesDeleted,
    SummaryChanged,
    dead_letter_message,
    tombstone_message,
)
from worker.events.publishing import SUMMARIES
from worker.processing.changes import EntityChanges, EntityCounts, Outcome, PlannedStep
from worker.processing.entities import CachedEntity
from worker.processing.facets import EntityFacets, points
from worker.processing.outbox import ORDER, Draft, Outbox
from worker.processing.tracked_sets import SetPart, SetSentence, TrackedSets, digests
from worker.state.entity import Sentence
from worker.state.keys import review_of

DELETIONS: Final = (ReviewDeleted, SentencesDeleted)
"""After these events no set may quote what they name, at any COVERSUMM_EMIT_MIN_CHANGES."""
SPARE_SENTENCES: Final = 32
"""Sentences outside the sets that an entity caches: those near a set often return to it."""


def publish_dead_letters(outcomes: Sequence[Outcome], outbox: Outbox) -> None:
    """Put a dead letter for each rejected record into the outbox. Raises TooMuch."""
    config = outbox.config
    topic, version, limit = config.dlq_topic, config.worker_version, config.max_message_bytes
    for index, outcome in enumerate(outcomes):
        if isinstance(outcome, Rejected):
            record = outbox.records[index]
            outbox.put(index, dead_letter_message(topic, record, outcome, version, limit))
            if record.headers:  # the dead letter has them too
                outbox.load.add(0, record._replace(key=None, value=None).size)


def publish(changes: EntityChanges, outbox: Outbox) -> None:
    """Rank an entity's steps, update the entity, and put its messages into the outbox, in order.

    Raises CorruptRow or TooMuch; the entity is then between two steps and must be discarded.
    """
    entity = changes.entity
    is_behind = outbox.config.is_behind
    if outbox.config.mapping is not None:
        changes.join_steps()
    texts = _LiveTexts(entity)
    (ranked,) = entity.summary.sets
    ranked.now = ranked.published
    summary = Publisher(entity.summary, changes, outbox, texts)
    facets = _facets(changes, is_behind=is_behind)
    others = None if facets is None else Publisher(facets.tracked, changes, outbox, texts)
    for step, ranking in zip(changes.steps, _rank(changes, is_behind=is_behind), strict=True):
        texts.take(step)
        deleted = _taken_down(entity.summary, step) if is_behind else ()
        is_changed = ranking is not None and _ranked(entity, ranking, texts, bool(deleted))
        summary.after(step, is_changed, deleted)
        if others is not None and facets is not None:
            is_changed = bool(step.moves) and facets.apply(step.moves, texts.of)
            deleted = _taken_down(facets.tracked, step) if is_behind else ()
            others.after(step, is_changed, deleted)
    summary.finish()
    if others is not None and facets is not None:
        others.finish()
        if changes.newest is not None:
            facets.newest = changes.newest
    texts.release()
    ranked.part = None
    if changes.end is None:
        entity.review_count, entity.sentence_count = changes.review_count, changes.sentence_count
        entity.ratings = changes.ratings


class Publisher:
    """Publishes the sets of one topic of an entity during a micro-batch.

    With `emit=every` each change that is due; with `coalesced` the last one, if it is due. With
    `final` and `none` the last one counts as published; `final` stores it for the end of the
    replay. It is the last of all changes, not a net one, so it does not depend on micro-batches.
    """

    def __init__(
        self, tracked: TrackedSets, changes: EntityChanges, outbox: Outbox, texts: _LiveTexts
    ) -> None:
        self._tracked = tracked
        self._changes = changes
        self._outbox = outbox
        self._emit = outbox.config.emit
        self._texts = texts
        self._last: tuple[PlannedStep, list[SetPart]] | None = None
        self._deleted: frozenset[bytes] = frozenset()  # since the last published change

    def after(self, step: PlannedStep, is_changed: bool, deleted: Collection[bytes]) -> None:
        """The next step is carried out: it changed a set, or took down these published sentences.

        Raises CorruptRow, TooMuch.
        """
        if not is_changed and not deleted:
            return
        self._changes.changed[self._tracked.topic] += 1
        if self._emit != "every":
            self._deleted = self._deleted.union(deleted)
            self._last = step, self._tracked.parts(self._texts.of)
        elif self._is_due(deleted):
            self._publish(step, self._tracked.parts(self._texts.of))

    def finish(self) -> None:
        """All steps are carried out. Raises TooMuch."""
        tracked, changes = self._tracked, self._changes
        is_ended = changes.end is not None
        if self._last is not None:
            step, parts = self._last
            is_empty = not any(tracked_set.now for tracked_set in tracked.sets)
            if self._emit == "coalesced":
                # The deletion of the entity is the last change of sets that are not empty.
                if self._is_due(self._deleted) and (is_empty or not is_ended):
                    self._publish(step, parts)
            else:
                if self._emit == "final" and not is_ended and not is_empty:
                    alone = tracked.alone()
                    draft = self._draft(alone, step.index, step.event, step.counts, parts)
                    self._outbox.keep(changes, draft)
                tracked.on_published(self._outbox.records[step.index].offset)
        if changes.end is not None:
            changes.changed[tracked.topic] += any(tracked_set.now for tracked_set in tracked.sets)
            if self._emit in ("every", "coalesced"):
                self._publish_end(*changes.end)

    def _is_due(self, deleted: Collection[bytes]) -> bool:
        return self._tracked.is_due(self._outbox.config.min_changes, deleted)

    def _publish(self, step: PlannedStep, parts: list[SetPart]) -> None:
        draft = self._draft(self._tracked, step.index, step.event, step.counts, parts)
        self._outbox.put_change(draft)
        self._tracked.on_published(draft.record.offset)

    def _publish_end(self, index: int, event: Event) -> None:
        """The last messages: all sets become empty if one was not, then a tombstone."""
        tracked, config, record = self._tracked, self._outbox.config, self._outbox.records[index]
        if any(tracked_set.published for tracked_set in tracked.sets):
            empty = tracked.emptied()
            parts = empty.parts(self._texts.of)
            self._outbox.put_change(self._draft(empty, index, event, EntityCounts(), parts))
        name, entity_id = tracked.topic.of(config), self._changes.entity.entity_id
        tombstone = tombstone_message(
            tracked.topic, name, entity_id, config.epoch, event.occurred_at, record
        )
        self._outbox.put(index, tombstone, ORDER[tracked.topic] + 1)

    def _draft(
        self,
        tracked: TrackedSets,
        index: int,
        event: Event,
        counts: EntityCounts,
        parts: list[SetPart],
    ) -> Draft:
        """The change from the sets last published to the present ones."""
        config, record = self._outbox.config, self._outbox.records[index]
        entity_id = self._changes.entity.entity_id
        review_id: str | None = getattr(event, "review_id", None)
        place = record.topic, record.partition, record.offset
        cause = Cause(EVENT_TYPES[type(event)], *place, review_id)
        if tracked.topic is not SUMMARIES:
            facets = FacetsChanged(
                entity_id,
                config.epoch,
                record.offset,
                tracked.sequence,
                list(
                    dict.fromkeys(
                        tracked_set.facet.name
                        for tracked_set in tracked.changed()
                        if tracked_set.facet
                    )
                ),
                counts.reviews,
                counts.sentences,
                [],
                cause,
                event.occurred_at,
                config.limits.model,
                ratings=counts.ratings.ratings(),
            )
            return Draft(index, record, tracked.topic, facets, parts, [])
        (ranked,), (part,) = tracked.sets, parts
        now, published = ranked.now, ranked.published
        summary = SummaryChanged(
            entity_id,
            config.epoch,
            record.offset,
            tracked.sequence,
            [],
            [come.decode() for come, digest in now.items() if published.get(come) != digest],
            [gone.decode() for gone, digest in published.items() if now.get(gone) != digest],
            counts.reviews,
            counts.sentences,
            config.k,
            cause,
            event.occurred_at,
            config.limits.model,
            ratings=counts.ratings.ratings(),
        )
        return Draft(index, record, tracked.topic, summary, parts, part.quotes)


class _LiveTexts:
    """The sentences of an entity, step by step."""

    def __init__(self, entity: CachedEntity) -> None:
        self._entity = entity
        self._added: dict[bytes, tuple[Sentence, ReviewDetails]] = {}

    def take(self, step: PlannedStep) -> None:
        """The next step."""
        for sentence in step.removed:
            self._entity.drop_sentence(sentence.id)
        if step.earlier:
            upserts = [event for event in step.events if isinstance(event, ReviewUpserted)]
            of_reviews = {upsert.review_id.encode(): upsert.details for upsert in upserts}
            for sentence in step.added:
                self._added[sentence.id] = sentence, of_reviews[review_of(sentence.id)]
        elif isinstance(step.event, ReviewUpserted):
            details = step.event.details
            for sentence in step.added:
                self._added[sentence.id] = sentence, details

    def of(self, identifiers: Sequence[bytes]) -> list[SetSentence]:
        """These live sentences, after the last step. Raises CorruptRow."""
        entity, added = self._entity, self._added
        for identifier in added.keys() & identifiers:  # in no row yet
            sentence, details = added.pop(identifier)
            codec = entity.config.output
            entity.keep_sentence(SetSentence.of(identifier, sentence.text, details, codec))
        return entity.sentences(identifiers)

    def release(self) -> None:
        """Cache only few sentences outside the sets."""
        entity = self._entity
        if len(entity.cached) <= SPARE_SENTENCES:
            return
        sets = entity.tracked_sets()
        if len(entity.cached) > SPARE_SENTENCES + sum([len(tracked.now) for tracked in sets]):
            entity.keep_sentences_only({name for tracked in sets for name in tracked.now})


def _has_deletion(step: PlannedStep) -> bool:
    return any(isinstance(event, DELETIONS) for event in step.events)


def _taken_down(tracked: TrackedSets, step: PlannedStep) -> set[bytes]:
    """The published sentences that the step takes down; see `TrackedSets.taken_down`."""
    return {name for event in step.events for name in tracked.taken_down(event)}


def _facets(changes: EntityChanges, *, is_behind: bool) -> EntityFacets | None:
    """The entity's facets, if any are defined and may change; read if an event changes them."""
    is_touched = changes.steps or changes.end is not None or changes.newest is not None
    facets = changes.entity.facets if is_touched else None
    if facets is not None and any(
        step.moves or (is_behind and _has_deletion(step)) for step in changes.steps
    ):
        # now: the steps of the summary change the texts that the entity caches
        changes.entity.load()
    return facets


def _ranked(entity: CachedEntity, ranking: Ranking, texts: _LiveTexts, is_wanted: bool) -> bool:
    """Update the summary after a step; whether it changed."""
    (ranked,) = entity.summary.sets
    sentences = texts.of(ranking.ids)
    now = digests(sentences)
    is_changed = now != ranked.now  # in any order
    if is_changed or is_wanted:
        ranked.now = now
        ranked.part = SetPart(None, sentences, ranking, entity.cached_bytes)
    return is_changed


def _rank(changes: EntityChanges, *, is_behind: bool) -> Sequence[Ranking | None]:
    """The ranking after each step, or None if the set is unchanged and need not be published.

    Without added or removed sentences the core is not even loaded.
    """
    if is_behind and any(map(_has_deletion, changes.steps)):
        return [_rank_alone(changes.entity, step) for step in changes.steps]
    moving = [step for step in changes.steps if step.removed or step.added]
    if not moving:
        return [None] * len(changes.steps)
    rankings = changes.entity.core.apply([_core_step(changes.entity, step) for step in moving])
    if len(moving) == len(changes.steps):
        return rankings
    answers = iter(rankings)
    return [next(answers) if step.removed or step.added else None for step in changes.steps]


def _rank_alone(entity: CachedEntity, step: PlannedStep) -> Ranking | None:
    """The ranking after one step; after a deletion also that of an unchanged set."""
    ranking = None
    if step.removed or step.added:
        (ranking,) = entity.core.apply([_core_step(entity, step)])
    if ranking is None and _has_deletion(step):
        return entity.core.ranking()
    return ranking


def _core_step(entity: CachedEntity, step: PlannedStep) -> Step:
    dimension = entity.rows.dimension
    return Step(points(step.removed, dimension), points(step.added, dimension))
