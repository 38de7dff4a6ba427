"""Publishing: ranks an entity's planned steps and makes a message for each change of its set.

The set contains pairs of sentence id and text. It is compared with the last published one by ids
and text digests (`worker.state.verify`).
"""

from collections.abc import Collection, Sequence

from worker.coversumm import Ranking, Step
from worker.events import (
    EVENT_TYPES,
    Cause,
    EntityDeleted,
    Event,
    Message,
    Record,
    Rejected,
    ReviewDeleted,
    ReviewDetails,
    ReviewUpserted,
    SentencesDeleted,
    SummaryChanged,
    dead_letter_message,
    summary_message,
    tombstone_message,
)
from worker.events.publishing import is_due
from worker.processing.changes import EntityChanges, EntityCounts, Outcome, PlannedStep
from worker.processing.config import ProcessorConfig
from worker.processing.entity_cache import CachedEntity, SummaryMember
from worker.processing.facet_changes import facet_changes
from worker.processing.facets import points
from worker.processing.outbox import (
    Outbox,
    SetChange,
    UnmeasuredChange,
    quoted,
    review_id_of,
)
from worker.state.entity import Sentence

DELETIONS = (ReviewDeleted, SentencesDeleted)
"""After these events no summary may quote what they name, at any COVERSUMM_EMIT_MIN_CHANGES."""
SPARE_MEMBERS = 32
"""Sentences outside the set that an entity caches: those near the set often return to it."""


def publish_dead_letters(
    records: Sequence[Record], outcomes: Sequence[Outcome], config: ProcessorConfig, outbox: Outbox
) -> None:
    """Put a dead letter for each rejected record into the outbox. Raises TooMuch."""
    topic, version, limit = config.dlq_topic, config.worker_version, config.max_message_bytes
    for index, outcome in enumerate(outcomes):
        if isinstance(outcome, Rejected):
            outbox.put(index, dead_letter_message(topic, records[index], outcome, version, limit))


def publish(
    changes: EntityChanges, records: Sequence[Record], config: ProcessorConfig, outbox: Outbox
) -> None:
    """Rank an entity's steps, update the entity, and put its messages into the outbox, in order.

    Raises CorruptRow or TooMuch; the entity is then between two steps and must be discarded.
    """
    entity, end = changes.entity, changes.end
    summary = _Summary(entity)
    facets = facet_changes(changes, records, config, outbox, summary.members_of)
    last: SetChange | None = None
    deleted: set[bytes] = set()
    for step, ranking in zip(changes.steps, _rank(changes, config), strict=True):
        gone = quoted(entity.published, step.event) if config.is_behind else ()
        deleted.update(gone)
        change = summary.after(step, ranking, is_wanted=bool(gone))
        if change is not None:
            last = change
            changes.set_changes += 1
            if config.emit == "every" and is_due(
                entity.published, change.digests, config.min_changes, gone
            ):
                _publish_change(entity, change, records[step.index], config, outbox)
        if facets is not None:
            facets.after(step)
    if facets is not None:
        facets.finish()
    summary.release_members()
    if last is not None and config.emit != "every":
        _publish_last(changes, last, deleted, records, config, outbox)
    if end is None:
        entity.review_count, entity.sentence_count = changes.review_count, changes.sentence_count
        entity.ratings = changes.ratings
        return
    index, event = end
    changes.set_changes += bool(last.digests if last is not None else entity.published)
    if config.emit in ("every", "coalesced"):
        for message in deletion_messages(entity, event, records[index], config):
            outbox.put(index, message)


class _Summary:
    """An entity's set, updated step by step."""

    def __init__(self, entity: CachedEntity) -> None:
        self._entity = entity
        self._digests = entity.published
        self._members: list[SummaryMember] | None = None
        self._added: dict[bytes, tuple[Sentence, ReviewDetails]] = {}

    def after(
        self, step: PlannedStep, ranking: Ranking | None, *, is_wanted: bool = False
    ) -> SetChange | None:
        """The set after the next step; None if it did not change and is not wanted."""
        entity, added = self._entity, self._added
        for sentence in step.removed:
            entity.drop_member(sentence.id)
        if isinstance(step.event, ReviewUpserted):
            details = step.event.details
            for sentence in step.added:
                added[sentence.id] = sentence, details
        if ranking is None:
            return None
        self._keep_added(ranking.ids)
        members = entity.members_of(ranking.ids)
        self._members = members
        digests = {member.id: member.digest for member in members}
        if digests == self._digests and not is_wanted:  # in any order
            return None
        self._digests = digests
        return SetChange(step, ranking, members, digests)

    def members_of(self, identifiers: Sequence[bytes]) -> list[SummaryMember]:
        """These live sentences, after the last step. Raises CorruptRow."""
        self._keep_added(identifiers)
        return self._entity.members_of(identifiers)

    def _keep_added(self, identifiers: Sequence[bytes]) -> None:
        """Cache those that this micro-batch added, which no row has yet."""
        added = self._added
        for identifier in added.keys() & identifiers:
            sentence, details = added.pop(identifier)
            entity = self._entity
            entity.keep_member(SummaryMember.of(identifier, sentence.text, details, entity.codec))

    def release_members(self) -> None:
        """Keep only few sentences outside the sets."""
        members, entity = self._members, self._entity
        if members is None:
            return
        facets = set() if entity.facets is None else entity.facets.shown
        if len(entity.members) > len(members) + len(facets) + SPARE_MEMBERS:
            shown = [entity.members[one] for one in facets if one in entity.members]
            entity.keep_members_only([*members, *shown])


def _rank(changes: EntityChanges, config: ProcessorConfig) -> Sequence[Ranking | None]:
    """The ranking after each step, or None if the set is unchanged and need not be published.

    Without added or removed sentences the core is not even loaded.
    """
    if config.is_behind and any(isinstance(step.event, DELETIONS) for step in changes.steps):
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
    if ranking is None and isinstance(step.event, DELETIONS):
        return entity.core.ranking()
    return ranking


def _core_step(entity: CachedEntity, step: PlannedStep) -> Step:
    dimension = entity.rows.dimension
    return Step(points(step.removed, dimension), points(step.added, dimension))


def _publish_last(
    changes: EntityChanges,
    last: SetChange,
    deleted: Collection[bytes],
    records: Sequence[Record],
    config: ProcessorConfig,
    outbox: Outbox,
) -> None:
    """Publish the last change of a micro-batch's changes of an entity, keep it, or only store it.

    The kept change is the last of all changes, not a net one: it does not depend on micro-batches.
    """
    entity, record = changes.entity, records[last.step.index]
    if config.emit == "coalesced":
        # The deletion of the entity is the set's last change.
        is_emptied = changes.end is not None and last.digests
        is_changed = is_due(entity.published, last.digests, config.min_changes, deleted)
        if is_changed and not is_emptied:
            _publish_change(entity, last, record, config, outbox)
        return
    if config.emit == "final" and changes.end is None and last.digests:
        outbox.keep(changes, last, record)
    entity.published, entity.sequence = last.digests, record.offset


def _publish_change(
    entity: CachedEntity, change: SetChange, record: Record, config: ProcessorConfig, outbox: Outbox
) -> None:
    """Put a change into the outbox; its set becomes the one last published."""
    step, ranking, members, digests = change
    body = _changed(entity, digests, step.counts, step.event, record, config)
    quotes = [member.quote for member in members]
    outbox.put_change(
        UnmeasuredChange(step.index, record, body, quotes, ranking), entity.member_bytes
    )
    entity.published, entity.sequence = digests, record.offset


def deletion_messages(
    entity: CachedEntity, event: EntityDeleted, record: Record, config: ProcessorConfig
) -> list[Message]:
    """The last messages of an entity: its set becomes empty if it was not, then a tombstone."""
    topic, partition = config.output_topic, record.partition
    tombstone = tombstone_message(
        topic, partition, entity.entity_id, config.epoch, event.occurred_at, record
    )
    if not entity.published:
        return [tombstone]
    emptied = _changed(entity, {}, EntityCounts(), event, record, config)
    return [summary_message(topic, partition, emptied, record, config.output), tombstone]


def _changed(
    entity: CachedEntity,
    digests: dict[bytes, bytes],
    counts: EntityCounts,
    event: Event,
    record: Record,
    config: ProcessorConfig,
) -> SummaryChanged:
    """The change from the published set to these digests, without sentences."""
    published, event_type = entity.published, EVENT_TYPES[type(event)]
    return SummaryChanged(
        entity.entity_id,
        config.epoch,
        record.offset,
        entity.sequence,
        [],
        [come.decode() for come, digest in digests.items() if published.get(come) != digest],
        [gone.decode() for gone, digest in published.items() if digests.get(gone) != digest],
        counts.reviews,
        counts.sentences,
        config.k,
        Cause(event_type, record.topic, record.partition, record.offset, review_id_of(event)),
        event.occurred_at,
        config.limits.model,
        ratings=counts.ratings.ratings(),
    )
