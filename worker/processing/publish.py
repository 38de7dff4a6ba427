"""Publishing: an entity's planned steps through the algorithm, and a message for each change of its set.

The set is that of (sentence id, text); it is compared with the one last published by ids and text digests.
"""

from collections.abc import Iterator, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np

from worker.coversumm import Points, Ranking, Step, no_points
from worker.events import (
    EVENT_TYPES,
    Cause,
    Event,
    Message,
    Record,
    SummaryChanged,
    SummarySentence,
    summary_message,
    tombstone_message,
)
from worker.processing.entity_cache import HotEntity, Member
from worker.processing.plan import PlannedStep, Run
from worker.state.entity import Sentence

SPARE_MEMBERS = 32
"""How many sentences that left the set an entity may keep at hand: at the set's edge, they come and go."""


class Output(NamedTuple):
    """Where summaries go, and what all of them carry."""

    topic: str
    epoch: int
    k: int
    model: str | None
    coalesced: bool
    """One net change an entity and micro-batch, not every change."""


class Emission(NamedTuple):
    """A message and the index of the record that caused it."""

    at: int
    message: Message


class _Change(NamedTuple):
    """The set after a step that changed it."""

    step: PlannedStep
    ranking: Ranking
    members: list[Member]
    digests: dict[bytes, bytes]


def publish(run: Run, records: Sequence[Record], output: Output) -> Iterator[Emission]:
    """Rank the run's steps and bring its entity up to date; the messages, in order."""
    entity = run.entity
    last: _Change | None = None
    for change in _changes(run):
        if not output.coalesced:
            yield _summary(entity, change, records, output)
        last = change
    if (
        output.coalesced
        and last is not None
        and last.digests != entity.published
        and (run.end is None or not last.digests)  # else the deletion of the entity is the set's last change
    ):
        yield _summary(entity, last, records, output)
    if run.end is None:
        entity.reviews, entity.sentences = run.review_count, run.sentence_count
    else:
        yield from _farewell(entity, run.end, records, output)


def _changes(run: Run) -> Iterator[_Change]:
    """The steps after which the set is another than before, each with its members as they were then."""
    if not run.steps:
        return
    entity = run.entity
    dimension = entity.rows.dimension
    current = entity.published
    members: list[Member] | None = None
    added: dict[bytes, tuple[Sentence, float | None]] = {}
    steps = [Step(_points(step.removed, dimension), _points(step.added, dimension)) for step in run.steps]
    for step, ranking in zip(run.steps, entity.core.apply(steps), strict=True):
        for sentence in step.removed:
            entity.members.pop(sentence.id, None)
        for sentence in step.added:
            added[sentence.id] = sentence, step.rating
        if ranking is None:
            continue
        for identifier in added.keys() & ranking.ids:
            sentence, rating = added.pop(identifier)
            entity.members[identifier] = Member.of(identifier, sentence.text, rating)
        known = entity.members.get
        members = [known(identifier) or entity.member(identifier) for identifier in ranking.ids]
        digests = {member.id: member.digest for member in members}
        if digests != current:  # equal whatever the order
            yield _Change(step, ranking, members, digests)
            current = digests
    if members is not None and len(entity.members) > len(members) + SPARE_MEMBERS:
        entity.members = {member.id: member for member in members}


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


def _summary(entity: HotEntity, change: _Change, records: Sequence[Record], output: Output) -> Emission:
    """The change as a message; from now on it is what was last published."""
    step, ranking, members, digests = change
    published = entity.published
    sentences = [
        SummarySentence(
            rank, member.sentence_id, member.review_id, member.text, member.rating, distance, support
        )
        for rank, (member, distance, support) in enumerate(
            zip(members, ranking.distances(), ranking.support, strict=True)
        )
    ]
    record = records[step.index]
    body = SummaryChanged(
        entity.entity_id,
        output.epoch,
        record.offset,
        entity.sequence,
        sentences,
        [member.sentence_id for member in members if published.get(member.id) != member.digest],
        [gone.decode() for gone, digest in published.items() if digests.get(gone) != digest],
        step.reviews,
        step.sentences,
        output.k,
        _cause(step.event, record),
        step.event.occurred_at,
        output.model,
    )
    entity.published, entity.sequence = digests, record.offset
    return Emission(step.index, summary_message(output.topic, record.partition, body, record))


def _farewell(
    entity: HotEntity, end: tuple[int, Event], records: Sequence[Record], output: Output
) -> Iterator[Emission]:
    """An entity's last messages: its set becomes empty, if it was not, and then it is gone."""
    index, event = end
    record = records[index]
    if entity.published:
        body = SummaryChanged(
            entity.entity_id,
            output.epoch,
            record.offset,
            entity.sequence,
            [],
            [],
            [gone.decode() for gone in entity.published],
            0,
            0,
            output.k,
            _cause(event, record),
            event.occurred_at,
            output.model,
        )
        yield Emission(index, summary_message(output.topic, record.partition, body, record))
    tombstone = tombstone_message(
        output.topic, record.partition, entity.entity_id, output.epoch, event.occurred_at, record
    )
    yield Emission(index, tombstone)


def _cause(event: Event, record: Record) -> Cause:
    review_id = getattr(event, "review_id", None)
    return Cause(EVENT_TYPES[type(event)], record.topic, record.partition, record.offset, review_id)
