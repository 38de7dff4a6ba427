"""Raw Kafka records to checked events: one call for a micro-batch, one result for each record.

Checks run in this order: size (`too_large`), codec (`bad_json`, `unknown_type`, `bad_field`,
`bad_vector`), key (`no_key`, `key_mismatch`), rules. Bad input is a result, never an exception; the
first failing check names the reason. A result depends only on the record's bytes and the limits, so
a record read again after a crash has the same result. A record that raises what no check raises is
an `internal_error`, and the others are as without it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol, TypeAlias

from worker.events.codec import DEFAULT, InputCodec, decoded, is_frame, unread_frame
from worker.events.fields import MAX_ID_CHARS, is_day
from worker.events.inputs import Body, EntityDeleted, Event, Record
from worker.events.internal_errors import internal_error
from worker.events.notes import NOTES
from worker.events.reasons import BadEvent, Ignored, Reason, Rejected, place_of, shown
from worker.events.rules import FixedPoint, Limits, UpsertDraft, VectorPool, check, upserted
from worker.limits import Limit

Decoded: TypeAlias = Event | list[Event] | Rejected | Ignored
"""What a record means; a list has the events of a record with several."""
Draft: TypeAlias = UpsertDraft | Event
MAX_ENTITIES: Final = 1_000
"""Most entities of the events of one record: the worker reads all of them into memory at once."""


class RecordMapping(Protocol):
    """The meaning of the records of a topic that does not follow the contract."""

    @property
    def needs_headers(self) -> bool:
        """True if records must come with their headers."""

    @property
    def digest(self) -> str:
        """Identifies its content."""

    def read_all(self, record: Record) -> Sequence[Body]:
        """The events that the record means, none if it is ignored. Raises BadEvent."""

    def explain(self, record: Record, rejected: Rejected) -> Rejected:
        """The rejection with the name of the rule in its detail."""


def decode(
    records: Sequence[Record],
    limits: Limits,
    codec: InputCodec = DEFAULT,
    mapping: RecordMapping | None = None,
) -> list[Decoded]:
    """One result for each record, in order. A `mapping` replaces the codec and the check of keys.

    >>> from worker.events import Limits, Record
    >>> limits = Limits(
    ...     dimension=384, model=None, embeds=True, max_event_bytes=4_000_000,
    ...     max_text_bytes=250_000, max_sentence_chars=2000, max_sentences_per_review=1000,
    ...     max_sentences_per_deletion=10_000, max_sentences_per_entity=1_000_000,
    ... )
    >>> value = (
    ...     b'{"type": "review.deleted", "entity_id": "B00X", "review_id": "r-81",'
    ...     b' "reason": "spam"}'
    ... )
    >>> one = Record("reviews", partition=0, offset=7, timestamp_ms=0, key=b"B00X", value=value)
    >>> event, rejected = decode([one, one._replace(key=b"B00Y")], limits)
    >>> event.entity_id, event.review_id, event.reason
    ('B00X', 'r-81', 'spam')
    >>> rejected.reason.value, rejected.detail
    ('key_mismatch', "key 'B00Y', entity_id 'B00X'")
    """
    pool, before = VectorPool(limits.dimension), NOTES.records
    try:
        checked = [_check(record, limits, codec, mapping, pool) for record in records]
        found = _finished(checked, pool)
    except Exception as error:
        if len(records) == 1:
            return [internal_error(error)]
        NOTES.records = before  # each is read again, alone
        return [event for record in records for event in decode([record], limits, codec, mapping)]
    if mapping is None:
        return found
    return [
        mapping.explain(record, event) if isinstance(event, Rejected) else event
        for record, event in zip(records, found, strict=True)
    ]


def _check(
    record: Record,
    limits: Limits,
    codec: InputCodec,
    mapping: RecordMapping | None,
    pool: VectorPool,
) -> Draft | list[Draft] | Rejected | Ignored:
    value = record.value
    try:
        if record.refused is not None:
            return record.refused
        if value is None and mapping is None:
            return EntityDeleted(_entity_of(record.key))
        if value is not None and len(value) > limits.max_event_bytes:
            raise BadEvent(
                Reason.TOO_LARGE,
                f"{len(value)} bytes, at most {limits.max_event_bytes} are taken",
                Limit.EVENT_BYTES,
            )
        if mapping is not None:
            bodies = mapping.read_all(record)
            if len(bodies) > 1:
                _check_together(bodies)
                return _check_all(bodies, limits, pool)
            return _draft(bodies[0], limits, pool) if bodies else Ignored.BY_MAPPING
        body = decoded(codec.decode, value or b"", "value", record.headers)
        _check_day(body)
        if record.key != body.entity_id.encode():
            raise _wrong_key(record.key, body.entity_id)
        return check(body, limits, pool)
    except BadEvent as bad:
        return bad.rejected


def _draft(body: Body, limits: Limits, pool: VectorPool) -> Draft:
    _check_day(body)
    return check(body, limits, pool)


def _check_day(body: Body) -> None:
    if body.occurred_at is not None and not is_day(body.occurred_at):
        raise BadEvent(Reason.BAD_FIELD, f"occurred_at: {body.occurred_at[:10]} is not a date")


# -- several events of a record


def check_several(bodies: Sequence[Body], limits: Limits) -> list[Event] | Rejected:
    """The events of a record with several, or why one of them refuses the record. A bridge, which
    writes a record for each, needs no more.
    """
    pool = VectorPool(limits.dimension)
    try:
        return _all_upserted(_check_all(bodies, limits, pool), pool.quantize())
    except BadEvent as bad:
        return bad.rejected


def _check_all(bodies: Sequence[Body], limits: Limits, pool: VectorPool) -> list[Draft]:
    drafts = []
    for number, body in enumerate(bodies, start=1):
        try:
            drafts.append(_draft(body, limits, pool))
        except BadEvent as bad:
            raise bad.under(place_of(number, body.entity_id)) from None
    return drafts


def _check_together(bodies: Sequence[Body]) -> None:
    """Raise BadEvent for events that one record of a worker cannot have.

    A deleted entity that the record also writes would publish two changes of one offset.
    """
    ended = {body.entity_id for body in bodies if isinstance(body, EntityDeleted)}
    for number, body in enumerate(bodies, start=1) if ended else ():
        if body.entity_id in ended and not isinstance(body, EntityDeleted):
            raise BadEvent(
                Reason.BAD_FIELD,
                f"{place_of(number, body.entity_id)}the record also deletes the entity: only a "
                "bridge takes both of one record",
            )
    if (count := len({body.entity_id for body in bodies})) > MAX_ENTITIES:
        raise BadEvent(
            Reason.TOO_LARGE,
            f"the record has events of {count} entities: a worker takes at most {MAX_ENTITIES} of "
            "one record, a bridge more",
        )


def _all_upserted(drafts: Sequence[Draft], fixed_point: FixedPoint) -> list[Event] | Rejected:
    events: list[Event] = []
    for number, draft in enumerate(drafts, start=1):
        event = upserted(draft, fixed_point) if isinstance(draft, UpsertDraft) else draft
        if isinstance(event, Rejected):
            assert isinstance(draft, UpsertDraft)
            return event.under(place_of(number, draft.body.entity_id))
        events.append(event)
    return events


def _finished(
    drafts: Sequence[Draft | list[Draft] | Rejected | Ignored], pool: VectorPool
) -> list[Decoded]:
    """The drafts as events, with vectors in fixed point; the others as they are."""
    fixed_point = pool.quantize()
    return [
        upserted(draft, fixed_point)
        if isinstance(draft, UpsertDraft)
        else _all_upserted(draft, fixed_point)
        if isinstance(draft, list)
        else draft
        for draft in drafts
    ]


def _entity_of(key: bytes | None) -> str:
    """The entity that a null value deletes."""
    if key is None:
        raise BadEvent(Reason.NO_KEY, "the record has neither key nor value")
    try:
        entity_id = key.decode()
    except UnicodeDecodeError:
        raise BadEvent(Reason.BAD_FIELD, "key: not UTF-8, so no entity_id") from None
    if not 1 <= len(entity_id) <= MAX_ID_CHARS:
        raise BadEvent(
            Reason.BAD_FIELD,
            f"key: {len(entity_id)} characters, an entity_id has 1 to {MAX_ID_CHARS}",
        )
    return entity_id


def _wrong_key(key: bytes | None, entity_id: str) -> BadEvent:
    if key is None:
        return BadEvent(Reason.NO_KEY, "the record has no key; it must be the entity_id")
    if is_frame(key):
        framed = unread_frame(key, ", and let a bridge map it").rejected.detail
        return BadEvent(Reason.KEY_MISMATCH, f"the key is {framed}")
    return BadEvent(Reason.KEY_MISMATCH, f"key {shown(key)}, entity_id {shown(entity_id.encode())}")
