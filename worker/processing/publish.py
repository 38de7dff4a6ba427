"""Publishing: an entity's planned steps through the algorithm, and a message for each change of its set.

The set is that of (sentence id, text); it is compared with the one last published by ids and text digests.
"""

from collections.abc import Sequence
from functools import cache
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from worker.coversumm import Points, Ranking, Step, no_points
from worker.events import (
    EVENT_TYPES,
    Cause,
    EntityDeleted,
    Event,
    Message,
    Record,
    Rejected,
    SummaryChanged,
    SummarySentence,
    dead_letter_message,
    summary_message,
    tombstone_message,
)
from worker.processing.config import ProcessorConfig
from worker.processing.entity_cache import CachedEntity, Member
from worker.processing.load import Load
from worker.processing.plan import EntityChanges, Outcome, PlannedStep
from worker.state.entity import Sentence

SPARE_MEMBERS = 32
"""How many sentences that left the set an entity may keep at hand: at the set's edge, they come and go."""


class Outbox:
    """Collects the messages of a micro-batch, each under the index of the record that caused it, and counts them."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._messages: list[tuple[int, Message]] = []

    def put(self, index: int, message: Message) -> None:
        """Add a message. Raises TooMuch where it is one too many."""
        self._load.add(message.key, message.value)
        self._messages.append((index, message))

    def messages(self) -> list[Message]:
        """All messages in the order of their records; those of one record in the order in which they were put."""
        return [message for _, message in sorted(self._messages, key=itemgetter(0))]


def publish_dead_letters(
    records: Sequence[Record], outcomes: Sequence[Outcome], config: ProcessorConfig, outbox: Outbox
) -> None:
    """Put a dead letter for each rejected record into the outbox. Raises TooMuch."""
    for index, outcome in enumerate(outcomes):
        if isinstance(outcome, Rejected):
            message = dead_letter_message(
                config.dlq_topic, records[index], outcome, config.worker_version, config.max_message_bytes
            )
            outbox.put(index, message)


def publish(
    changes: EntityChanges, records: Sequence[Record], config: ProcessorConfig, outbox: Outbox
) -> None:
    """Rank an entity's steps, bring the entity up to date, and put its messages into the outbox, in order.

    Raises CorruptRow, and TooMuch: then the entity is between two of its steps and must be thrown away.
    """
    entity, end, coalesced = changes.entity, changes.end, config.emit == "coalesced"
    summary = _Summary(entity)
    last: _Change | None = None
    for step, ranking in zip(changes.steps, _rank(changes), strict=True):
        change = summary.after(step, ranking)
        if change is None:
            continue
        last = change
        if not coalesced:
            _publish_change(entity, change, records[step.index], config, outbox)
    summary.release_members()
    if (
        coalesced
        and last is not None
        and last.digests != entity.published
        and (end is None or not last.digests)  # else the deletion of the entity is the set's last change
    ):
        _publish_change(entity, last, records[last.step.index], config, outbox)
    if end is None:
        entity.review_count, entity.sentence_count = changes.review_count, changes.sentence_count
        return
    index, event = end
    for message in deletion_messages(entity, event, records[index], config):
        outbox.put(index, message)


# -- the set -------------------------------------------------------------------------------------------------


class _Change(NamedTuple):
    """The set after a step that changed it."""

    step: PlannedStep
    ranking: Ranking
    members: list[Member]
    digests: dict[bytes, bytes]


class _Summary:
    """An entity's set, followed from step to step."""

    def __init__(self, entity: CachedEntity) -> None:
        self._entity = entity
        self._digests = entity.published
        self._members: list[Member] | None = None
        self._added: dict[bytes, tuple[Sentence, float | None]] = {}

    def after(self, step: PlannedStep, ranking: Ranking | None) -> _Change | None:
        """The set after the next step, with its members as they are then; None where the step did not change it."""
        entity, added = self._entity, self._added
        for sentence in step.removed:
            entity.members.pop(sentence.id, None)
        for sentence in step.added:
            added[sentence.id] = sentence, step.rating
        if ranking is None:
            return None
        for identifier in added.keys() & ranking.ids:
            sentence, rating = added.pop(identifier)
            entity.members[identifier] = Member.of(identifier, sentence.text, rating)
        known = entity.members.get
        members = [known(identifier) or entity.member(identifier) for identifier in ranking.ids]
        self._members = members
        digests = {member.id: member.digest for member in members}
        if digests == self._digests:  # whatever the order
            return None
        self._digests = digests
        return _Change(step, ranking, members, digests)

    def release_members(self) -> None:
        """Of the sentences that left the set, the entity keeps few."""
        members, entity = self._members, self._entity
        if members is not None and len(entity.members) > len(members) + SPARE_MEMBERS:
            entity.members = {member.id: member for member in members}


def _rank(changes: EntityChanges) -> Sequence[Ranking | None]:
    """The core's answer to each step. Without steps the core is not even loaded."""
    if not changes.steps:
        return ()
    entity = changes.entity
    dimension = entity.rows.dimension
    steps = [Step(_points(step.removed, dimension), _points(step.added, dimension)) for step in changes.steps]
    return entity.core.apply(steps)


_nothing = cache(no_points)


def _points(sentences: Sequence[Sentence], dimension: int) -> Points:
    if not sentences:
        return _nothing(dimension)
    if len(sentences) == 1:
        (only,) = sentences
        assert only.vector is not None
        return Points((only.id,), only.vector[None, :])
    vectors = np.empty((len(sentences), dimension), np.int16)
    for row, sentence in enumerate(sentences):
        assert sentence.vector is not None
        vectors[row] = sentence.vector
    return Points([sentence.id for sentence in sentences], vectors)


# -- messages ------------------------------------------------------------------------------------------------


def _publish_change(
    entity: CachedEntity, change: _Change, record: Record, config: ProcessorConfig, outbox: Outbox
) -> None:
    """Put a change into the outbox; its set is the one last published from now on."""
    step, ranking, members, digests = change
    sentences = [
        SummarySentence(
            rank, member.sentence_id, member.review_id, member.text, member.rating, distance, support
        )
        for rank, (member, distance, support) in enumerate(
            zip(members, ranking.distances(), ranking.support, strict=True)
        )
    ]
    counts = step.review_count, step.sentence_count
    outbox.put(step.index, _change_message(entity, sentences, digests, counts, step.event, record, config))
    entity.published, entity.sequence = digests, record.offset


def deletion_messages(
    entity: CachedEntity, event: EntityDeleted, record: Record, config: ProcessorConfig
) -> list[Message]:
    """An entity's last messages: its set becomes empty, if it was not, and then the entity is gone."""
    tombstone = tombstone_message(
        config.output_topic, record.partition, entity.entity_id, config.epoch, event.occurred_at, record
    )
    if not entity.published:
        return [tombstone]
    return [_change_message(entity, [], {}, (0, 0), event, record, config), tombstone]


def _change_message(
    entity: CachedEntity,
    sentences: list[SummarySentence],
    digests: dict[bytes, bytes],
    counts: tuple[int, int],
    event: Event,
    record: Record,
    config: ProcessorConfig,
) -> Message:
    """From the set last published to these sentences and digests; `counts`: the entity's reviews and sentences."""
    published = entity.published
    body = SummaryChanged(
        entity.entity_id,
        config.epoch,
        record.offset,
        entity.sequence,
        sentences,
        [come.decode() for come, digest in digests.items() if published.get(come) != digest],
        [gone.decode() for gone, digest in published.items() if digests.get(gone) != digest],
        *counts,
        config.k,
        _cause(event, record),
        event.occurred_at,
        config.limits.model,
    )
    return summary_message(config.output_topic, record.partition, body, record)


def _cause(event: Event, record: Record) -> Cause:
    review_id = getattr(event, "review_id", None)
    return Cause(EVENT_TYPES[type(event)], record.topic, record.partition, record.offset, review_id)
