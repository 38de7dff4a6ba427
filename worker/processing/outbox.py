"""The messages of a micro-batch: collected, counted, and encoded in blocks."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, Final, NamedTuple, cast

from msgspec import UNSET

from worker.coversumm import measure
from worker.events import (
    Cause,
    FacetsChanged,
    Message,
    RankedChange,
    Record,
    ReviewDetails,
    SummaryChanged,
    change_message,
)
from worker.events.outputs import LastFacets, LastSummary
from worker.events.publishing import FACETS, SUMMARIES, OutputTopic
from worker.processing.changes import EntityChanges
from worker.processing.config import ProcessorConfig
from worker.processing.entities import CachedEntity
from worker.processing.pace import Load
from worker.processing.tracked_sets import SetPart
from worker.state.errors import CorruptRow
from worker.state.keys import describe, last_change_key
from worker.state.rows import LastChange

CHANGES_BYTES = 2**20  # of a block of changes: a batch over the limit wastes one block
ORDER: Final = {SUMMARIES: 0, FACETS: 2}
"""Of the messages of one record: each topic's change, then its tombstone."""


class Draft(NamedTuple):
    """A change to be published, before its distances are computed and it is encoded."""

    at: int  # index of the record that caused it
    record: Record
    topic: OutputTopic
    body: SummaryChanged | FacetsChanged  # without sets
    parts: list[SetPart]
    quotes: list[bytes]  # of the summary; those of facets are in the parts


@dataclass(eq=False)
class Outbox:
    """Collects and counts the messages of a micro-batch of `records`."""

    records: Sequence[Record]
    config: ProcessorConfig
    load: Load
    _messages: list[tuple[int, int, Message]] = field(default_factory=list)
    """By record, then ORDER."""
    _drafts: list[Draft] = field(default_factory=list)
    _draft_bytes: int = 0  # at most
    _last: list[tuple[EntityChanges, Draft]] = field(default_factory=list)

    def put(self, index: int, message: Message, order: int = 0) -> None:
        """Add a message, for the record of this index. Raises TooMuch if it exceeds a limit."""
        self.load.add(1, len(message.key or b"") + len(message.value or b""))
        self._messages.append((index, order, message))

    def put_counted(self, messages: Iterable[tuple[int, tuple[Any, ...]]]) -> None:
        """Add messages, as fields, that are counted and weighed already, for these records."""
        self._messages += [(index, 0, Message._make(fields)) for index, fields in messages]

    def put_change(self, draft: Draft) -> None:
        """Add a change, whose message is made later. Raises TooMuch if it exceeds a limit."""
        self.load.add(1, 0)
        self._drafts.append(draft)
        for part in draft.parts:
            self._draft_bytes += part.size
        if self._draft_bytes > CHANGES_BYTES:
            self._make()

    def keep(self, changes: EntityChanges, draft: Draft) -> None:
        """Keep an entity's last change for the end of the replay."""
        self._last.append((changes, draft))

    def messages(self) -> list[Message]:
        """All messages in the order of their records; stores kept changes. Raises TooMuch."""
        self._make()
        measure_all([draft for _, draft in self._last])
        for changes, draft in self._last:
            changes.last[draft.topic] = _last_change(draft, self.config)
        found = sorted(self._messages, key=itemgetter(0, 1))
        if self.config.mapping is not None:  # a record may have events of several entities
            found.sort(key=lambda message: (message[0], message[2].key or b""))
        return [message for _, _, message in found]

    def _make(self) -> None:
        """Turn the changes so far into messages. Raises TooMuch if they exceed a limit."""
        drafts = self._drafts
        if not drafts:
            return
        self._drafts, self._draft_bytes = [], 0
        measure_all(drafts)
        codec = self.config.output
        for draft, value in zip(drafts, encode(drafts, self.config), strict=True):
            at, record, topic, body, *_ = draft
            name, entity_id = topic.of(self.config), body.entity_id
            message = change_message(
                topic, name, entity_id, body.epoch, body.occurred_at, value, record, codec
            )
            self.load.add(0, len(message.key or b"") + len(value))
            self._messages.append((at, ORDER[topic], message))


def measure_all(drafts: Sequence[Draft]) -> None:
    """Compute the distances of all sets that are not encoded yet, in one pass."""
    rankings = {
        id(ranking): ranking
        for draft in drafts
        for part in draft.parts
        for ranking in part.rankings
    }
    measure(list(rankings.values()))


def encode(drafts: Sequence[Draft], config: ProcessorConfig) -> list[bytes]:
    """The values of these changes; summaries, of which there are many, in one pass."""
    codec = config.output
    ranked = []
    for draft in drafts:
        if draft.topic is SUMMARIES:
            (part,) = draft.parts
            body = cast(SummaryChanged, draft.body)
            ranked.append(RankedChange(body, draft.quotes, *part.numbers))
    summaries = iter(codec.encode_ranked(ranked))
    return [
        next(summaries)
        if draft.topic is SUMMARIES
        else codec.encode_facets(
            cast(FacetsChanged, draft.body), [part.encode(codec) for part in draft.parts]
        )
        for draft in drafts
    ]


def _last_change(draft: Draft, config: ProcessorConfig) -> LastChange:
    """The last change in the form that is stored until it is published."""
    record, body = draft.record, draft.body
    if draft.topic is FACETS:
        (value,) = encode([draft], config)
        return LastFacets(record.topic, record.offset, record.timestamp_ms, body.occurred_at, value)
    (part,) = draft.parts
    ratings, *others = zip(*[sentence.details for sentence in part.sentences], strict=True)
    dates, languages, *more = [
        other if any(fact is not None for fact in other) else () for other in others
    ]
    return LastSummary(
        record.timestamp_ms,
        record.topic,
        body.cause.type,
        body.cause.review_id,
        body.occurred_at,
        body.review_count,
        body.sentence_count,
        ratings,
        *part.numbers,
        dates,
        languages,
        None if body.ratings is UNSET else body.ratings,
        *more,
    )


def last_message(
    entity: CachedEntity, partition: int, last: LastChange, config: ProcessorConfig
) -> Message:
    """The message of a committed entity's stored last change. Raises CorruptRow."""
    if isinstance(last, LastFacets):
        topic, offset, value = FACETS, last.offset, last.value
    else:
        topic, offset, value = SUMMARIES, *_value_of(entity, partition, last, config)
    record = Record(last.topic, partition, offset, last.timestamp_ms, None, None)
    return change_message(
        topic,
        topic.of(config),
        entity.entity_id,
        config.epoch,
        last.occurred_at,
        value,
        record,
        config.output,
    )


def _value_of(
    entity: CachedEntity, partition: int, last: LastSummary, config: ProcessorConfig
) -> tuple[int, bytes]:
    """The sequence and the value of the message of a summary's last change."""
    (summary,) = entity.summary.sets
    offset, sentences = entity.summary.sequence, entity.sentences(list(summary.published))
    unknown = [None] * len(sentences)
    others = last.dates, last.languages, last.verified, last.countries, last.authors
    details = last.ratings, *[other or unknown for other in others]
    lengths = {len(sentences), *map(len, details), len(last.distances), len(last.support)}
    if offset is None or len(lengths) > 1:
        raise CorruptRow(
            describe(last_change_key(entity.rows.entity)), "not of the set that was ranked last"
        )
    body = SummaryChanged(
        entity.entity_id,
        config.epoch,
        offset,
        None,
        [],
        [sentence.sentence_id for sentence in sentences],
        [],
        last.review_count,
        last.sentence_count,
        config.k,
        Cause(last.event_type, last.topic, partition, offset, last.review_id),
        last.occurred_at,
        config.limits.model,
        ratings=UNSET if last.all_ratings is None else last.all_ratings,
    )
    quote = config.output.quote
    quotes = [
        quote(sentence.sentence_id, sentence.review_id, sentence.text, ReviewDetails(*of_review))
        for sentence, of_review in zip(sentences, zip(*details, strict=True), strict=True)
    ]
    change = RankedChange(body, quotes, last.distances, last.support)
    return offset, config.output.encode_ranked([change])[0]
