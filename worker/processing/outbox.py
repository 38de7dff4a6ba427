"""The messages of a micro-batch: collected, counted, and encoded in blocks."""

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import NamedTuple

from msgspec import UNSET

from worker.coversumm import Ranking, measure
from worker.events import (
    EVENT_TYPES,
    Cause,
    Event,
    FacetsChanged,
    Message,
    RankedChange,
    Record,
    ReviewDeleted,
    ReviewDetails,
    SentencesDeleted,
    SummaryChanged,
    SummaryDraft,
    facets_message,
    facets_value,
    summary_messages,
)
from worker.events.outputs import LastSummary
from worker.processing.changes import EntityChanges, PlannedStep
from worker.processing.config import ProcessorConfig
from worker.processing.entity_cache import CachedEntity, SummaryMember
from worker.processing.facets import FacetPart
from worker.processing.pace import Load
from worker.state.errors import CorruptRow
from worker.state.keys import describe, last_change_key, review_of

CHANGES_BYTES = 2**20
"""Changes are encoded in blocks of this size, so that a batch over the limit wastes one block."""


class SetChange(NamedTuple):
    """The set after a step that changed it."""

    step: PlannedStep
    ranking: Ranking
    members: list[SummaryMember]
    digests: dict[bytes, bytes]


class UnmeasuredChange(NamedTuple):
    """A change to be published, without the distances of its sentences."""

    at: int  # index of the record that caused it
    record: Record
    body: SummaryChanged  # without sentences
    quotes: list[bytes]
    ranking: Ranking


class Outbox:
    """Collects and counts a micro-batch's messages, each under the index of its record."""

    def __init__(self, load: Load, config: ProcessorConfig) -> None:
        self._load = load
        self._config = config
        # by record: those of summaries, changes of facets, their tombstones
        self._messages: list[tuple[int, int, Message]] = []
        self._changes: list[UnmeasuredChange] = []
        self._facets: list[tuple[int, FacetsChanged, list[FacetPart], Record]] = []
        self._change_bytes = 0  # at most
        self._kept: list[tuple[EntityChanges, SetChange, Record]] = []

    def put(self, index: int, message: Message, *, of_facets: bool = False) -> None:
        """Add a message; `of_facets`: the end of an entity's facets, after their last change.

        Raises TooMuch if it exceeds a limit.
        """
        self._load.add(message.key, message.value)
        self._messages.append((index, 2 * of_facets, message))

    def put_change(self, change: UnmeasuredChange, size: int) -> None:
        """Add a change; its message, of at most `size` bytes, is made later with others.

        Raises TooMuch if it exceeds a limit.
        """
        self._load.count()
        self._changes.append(change)
        self._change_bytes += size
        if self._change_bytes > CHANGES_BYTES:
            self._make()

    def put_facets(
        self, index: int, body: FacetsChanged, parts: list[FacetPart], record: Record
    ) -> None:
        """Add a change of facets, as `put_change` does one of a summary."""
        self._load.count()
        self._facets.append((index, body, parts, record))
        self._change_bytes += sum([part.size for part in parts])
        if self._change_bytes > CHANGES_BYTES:
            self._make()

    def keep(self, changes: EntityChanges, last: SetChange, record: Record) -> None:
        """Keep an entity's last change for the end of the replay."""
        self._kept.append((changes, last, record))

    def _make(self) -> None:
        """Turn the changes so far into messages. Raises TooMuch if they exceed a limit."""
        changes, config = self._changes, self._config
        self._changes, self._change_bytes = [], 0
        facets, self._facets = self._facets, []
        rankings = {
            id(part): part.ranking for _, _, parts, _ in facets for part in parts if part.ranking
        }
        measure(list(rankings.values()))
        for index, body, parts, record in facets:
            codec = config.output
            value = facets_value(body, [part.encode(codec) for part in parts], codec)
            names = config.facets_topic, body.entity_id, body.epoch, body.occurred_at
            message = facets_message(*names, value, record, codec)
            self._load.weigh(len(message.key or b"") + len(value))
            self._messages.append((index, 1, message))
        measured = measure([change.ranking for change in changes])
        drafts = [
            SummaryDraft(
                RankedChange(change.body, change.quotes, distances, change.ranking.support),
                change.record.partition,
                change.record,
            )
            for change, distances in zip(changes, measured, strict=True)
        ]
        made = summary_messages(config.output_topic, drafts, config.output)
        for change, message in zip(changes, made, strict=True):
            self._load.weigh(len(message.key or b"") + len(message.value or b""))
            self._messages.append((change.at, 0, message))

    def messages(self) -> list[Message]:
        """All messages in the order of their records, then those of facets last, then in order of
        `put`; stores kept changes.

        Raises TooMuch if they exceed a limit.
        """
        if self._changes or self._facets:
            self._make()
        measure([last.ranking for _, last, _ in self._kept])
        for changes, last, record in self._kept:
            changes.kept = _kept(last, record)
        return [message for _, _, message in sorted(self._messages, key=itemgetter(0, 1))]


def _kept(change: SetChange, record: Record) -> LastSummary:
    step, ranking, members, _ = change
    ratings, dates, languages = zip(*(member.details for member in members), strict=True)
    return LastSummary(
        record.timestamp_ms,
        record.topic,
        EVENT_TYPES[type(step.event)],
        review_id_of(step.event),
        step.event.occurred_at,
        step.counts.reviews,
        step.counts.sentences,
        ratings,
        ranking.distances(),
        ranking.support,
        dates if any(dates) else (),
        languages if any(languages) else (),
        step.counts.ratings.ratings(),
    )


def kept_message(
    entity: CachedEntity, kept: LastSummary, partition: int, config: ProcessorConfig
) -> Message:
    """The message of a committed entity's last change. Raises CorruptRow."""
    offset = entity.sequence
    members = [entity.member(identifier) for identifier in entity.published]
    nothing = [None] * len(members)
    details = (kept.ratings, kept.dates or nothing, kept.languages or nothing)
    lengths = {len(members), *map(len, details), len(kept.distances), len(kept.support)}
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
        [member.sentence_id for member in members],
        [],
        kept.review_count,
        kept.sentence_count,
        config.k,
        Cause(kept.event_type, kept.topic, partition, offset, kept.review_id),
        kept.occurred_at,
        config.limits.model,
        ratings=UNSET if kept.all_ratings is None else kept.all_ratings,
    )
    quotes = [
        config.output.quote(
            member.sentence_id, member.review_id, member.text, ReviewDetails(*of_review)
        )
        for member, of_review in zip(members, zip(*details, strict=True), strict=True)
    ]
    record = Record(kept.topic, partition, offset, kept.timestamp_ms, None, None)
    change = RankedChange(body, quotes, kept.distances, kept.support)
    drafts = [SummaryDraft(change, partition, record)]
    return summary_messages(config.output_topic, drafts, config.output)[0]


def quoted(published: Mapping[bytes, bytes], event: Event) -> Sequence[bytes]:
    """The published sentences that a deletion of reviews or sentences takes down."""
    if isinstance(event, ReviewDeleted):
        review_id = event.review_id.encode()
        return [one for one in published if review_of(one) == review_id]
    if isinstance(event, SentencesDeleted):
        return [one for one in map(str.encode, event.sentence_ids) if one in published]
    return ()


def review_id_of(event: Event) -> str | None:
    """The event's review, if it is about one."""
    return getattr(event, "review_id", None)
