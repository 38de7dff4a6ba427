"""The rules of one topic: a record becomes bodies of the contract, is ignored, or is rejected.

The first rule whose conditions hold decides. A record for which none holds is rejected, so that
nothing is lost in silence.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final

from msgspec.json import encode

from worker.events.codec import FRAME_BYTES, check_frame, decoded, is_frame, is_framed, unread_frame
from worker.events.inputs import Body, Record
from worker.events.json_codec import check_ids, parse
from worker.events.notes import NOTES
from worker.events.reasons import BadEvent, Reason, Rejected, place_of
from worker.mapping.paths import (
    CE,
    HEADERS,
    KEY,
    UNAVAILABLE,
    VALUE,
    Path,
    Roots,
    step,
    text_of,
    unavailable,
)
from worker.mapping.rules import MAX_BYTES, MAX_EVENTS, Rule

BATCH: Final = b"application/cloudevents-batch"
ANY: Final = "any"
"""The form of keys that show theirs, for a mapping in Python."""


@dataclass(frozen=True, slots=True)
class TopicMapping:
    """The rules of a topic, and how its records are read. A mapping in Python is of any topic.

    Attributes:
        key: how keys are written: `plain` text, `json`, `framed` JSON, or ANY of these.
        value: how values are written: `json`, or `framed`.
        unwrap: the member that holds the payload of values and keys; None: there is no envelope.
        parse: paths of texts that are JSON themselves; they are parsed first, in this order.
        tombstone: the rule of null values; None: they are dead letters.
        digest: of what the file says of the topic, comments and spaces aside.
        refuse: an entity id and its record to the complaint about its partition; None: it is right.
        unframe: decodes framed keys and values by their schemas; None: they are JSON.
    """

    topic: str
    rules: tuple[Rule, ...]
    tombstone: Rule | None
    key: str = "plain"
    value: str = "json"
    unwrap: str | None = None
    parse: tuple[Path, ...] = ()
    digest: str = ""
    refuse: Callable[[str, Record], str | None] | None = None
    unframe: Callable[[bytes], Any] | None = None
    _reads: tuple[bool, bool, bool] = field(init=False, default=(False, False, False))

    def __post_init__(self) -> None:
        """Find out which roots the rules read: only those are decoded, the key only for a rule
        that reads it.
        """
        roots = {path.root for rule in self.all_rules for path in rule.paths}
        conditions = [condition for rule in self.rules for condition in rule.conditions]
        asked = {path.root for condition in conditions for path in condition.paths}
        object.__setattr__(self, "_reads", (KEY in asked, CE in roots, HEADERS in roots))

    @property
    def all_rules(self) -> tuple[Rule, ...]:
        """All rules, with that of null values."""
        if self.tombstone is None or self.tombstone in self.rules:
            return self.rules
        return (*self.rules, self.tombstone)

    @property
    def is_of_any_topic(self) -> bool:
        """True for a mapping in Python."""
        return self.key == ANY

    @property
    def needs_headers(self) -> bool:
        """True if records must come with their headers: of framed ones they may have the ids."""
        return self.reads_headers or "framed" in (self.key, self.value)

    @property
    def reads_headers(self) -> bool:
        """True if rules read headers, so that a record without readable ones is refused."""
        _, reads_ce, reads_headers = self._reads
        return reads_ce or reads_headers

    def refusing(self, refuse: Callable[[str, Record], str | None] | None) -> TopicMapping:
        """The same mapping that refuses records by the entity that they are mapped to."""
        return replace(self, refuse=refuse)

    def unframing(self, unframe: Callable[[bytes], Any]) -> TopicMapping:
        """The same mapping that decodes framed keys and values by their schemas."""
        return replace(self, unframe=unframe)

    def read_all(self, record: Record) -> list[Body]:
        """The events that the record means, none if it is ignored. Raises BadEvent: then none of
        its events holds.
        """
        if record.refused is not None and self.reads_headers:
            raise BadEvent(*record.refused)
        found: list[Body] = []
        size, before = 0, NOTES.values
        for rule, roots in self.decided(record):
            for body in rule.bodies(roots):
                found.append(body)
                if len(found) > 1:
                    size += len(encode(body))
                    _check_number(len(found), size)
        for number, body in enumerate(found, start=1):
            try:
                check_ids(body, record.value)
                if self.refuse is not None and (why := self.refuse(body.entity_id, record)):
                    raise BadEvent(Reason.KEY_MISMATCH, why)
            except BadEvent as bad:
                place = place_of(number, body.entity_id) if len(found) > 1 else ""
                raise bad.under(place) from None
        NOTES.records += bool(found) and NOTES.values > before
        return found

    def decided(self, record: Record) -> Iterator[tuple[Rule, Roots]]:
        """The rule that decides about the record, and the record decoded; one of each event of a
        batch of CloudEvents. Raises BadEvent.
        """
        for roots, is_tombstone in self._roots(record):
            rule = self.tombstone if is_tombstone else self._first(roots)
            if rule is None:
                what = "says what a null value means: set tombstone" if is_tombstone else "applies"
                raise BadEvent(Reason.UNKNOWN_TYPE, f"no rule of the mapping {what}")
            if rule.reads_key:
                key, schema = self._key(record)
                roots = roots._replace(key=key, schemas={**roots.schemas, KEY: schema})
            yield rule, roots

    def rule_of(self, record: Record) -> Rule | None:
        """The rule that decides about the record, of a batch about its first event; None if none
        does. Never raises.
        """
        try:
            roots, is_tombstone = next(self._roots(record))
            return self.tombstone if is_tombstone else self._first(roots)
        except Exception:  # what it is shows once the record is read
            return None

    def explain(self, record: Record, rejected: Rejected) -> Rejected:
        """The rejection with the name of the rule in its detail, if a rule has read the record."""
        rule = self.rule_of(record) if record.refused is None else None
        if rule is None:
            return rejected
        return rejected._replace(detail=f"{rule.name}: {rejected.detail}")

    def _first(self, roots: Roots) -> Rule | None:
        for rule in self.rules:
            if rule.matches(roots):
                return rule
        return None

    def _roots(self, record: Record) -> Iterator[tuple[Roots, bool]]:
        """The record decoded, for each event of a batch of CloudEvents, and whether it is a
        tombstone. Raises BadEvent.
        """
        reads_key, reads_ce, reads_headers = self._reads
        headers = dict(record.headers) if reads_ce or reads_headers else {}
        value: Any = None
        if record.value is not None:
            value = self._decoded(record.value, self.value, "value", record.headers)
        key = self._key(record)[0] if reads_key else None
        is_batch = self.key != ANY and type(value) is list and _is_batch(headers, value)
        for body in value if is_batch else (value,):
            ce: dict[str, Any] = {}
            if reads_ce:
                ce, body = _cloud_event({} if is_batch else headers, body)
                if is_batch and not ce:
                    raise BadEvent(Reason.BAD_FIELD, "a member of the batch is not a CloudEvent")
            schemas: dict[int, Any] = {}
            if self.unwrap is not None and type(body) is dict and self.unwrap in body:
                schemas, body = {VALUE: body.get("schema")}, body[self.unwrap]
            for path in self.parse:
                body = _parsed(body, path)
            # an event without data is no tombstone: its attributes say what it is
            yield Roots(body, key, ce, headers, None, record, schemas), body is None and not ce

    def _key(self, record: Record) -> tuple[Any, Any]:
        """The key, and the schema that its envelope brings. Raises BadEvent."""
        if (raw := record.key) is None:
            return None, None
        if self.key == ANY:
            return self._any_key(record, raw), None
        if self.key == "plain":
            if is_frame(raw):
                raise unread_frame(raw, ', and key = "framed"').under("key: ")
            return text_of(raw, "key"), None
        key = self._decoded(raw, self.key, "key", record.headers)
        if self.unwrap is not None and type(key) is dict and self.unwrap in key:
            return key[self.unwrap], key.get("schema")
        return key, None

    def _any_key(self, record: Record, raw: bytes) -> Any:
        """The content of a frame or of JSON, else the text, else the bytes. Raises BadEvent for a
        frame whose schema cannot read it.
        """
        if is_frame(raw):
            framed = self.unframe is not None
            return self._decoded(raw, "framed", "key", record.headers) if framed else raw
        if raw[:1] in (b"{", b"[", b'"'):
            with suppress(BadEvent):
                return parse(raw)
        return text_or_bytes(raw)

    def _decoded(
        self, raw: bytes, form: str, part: str, headers: Sequence[tuple[str, bytes | None]]
    ) -> Any:
        """The decoded key or value. Raises BadEvent."""
        is_json = form != "framed" or (part == "value" and not is_framed(raw))
        try:
            return decoded(parse if is_json else self._unframed, raw, part, headers)
        except BadEvent as bad:
            raise bad.under(f"{part}: ") from None

    def _unframed(self, raw: bytes) -> Any:
        check_frame(raw)
        if self.unframe is not None:
            return self.unframe(raw)
        try:
            return parse(raw[FRAME_BYTES:])
        except BadEvent:
            raise unread_frame(raw) from None


def _check_number(events: int, size: int) -> None:
    """Raise BadEvent for a record with too many events, or with too large ones after the first."""
    if events > MAX_EVENTS or size > MAX_BYTES:
        why = f"the events of the record have more than {MAX_BYTES} bytes"
        if events > MAX_EVENTS:
            why = f"the record has more than {MAX_EVENTS:,} events"
        raise BadEvent(Reason.TOO_LARGE, why)


def _is_batch(headers: dict[str, bytes | None], value: list[Any]) -> bool:
    """True if a list is a batch of CloudEvents: by its header, or by a member."""
    content_type = _content_type(headers)
    is_said = content_type.startswith(BATCH)
    return is_said or any(type(member) is dict and "specversion" in member for member in value)


def _parsed(value: Any, path: Path) -> Any:
    """The value with the JSON text at a path parsed. Raises BadEvent."""
    *above, last = ("", *path.names)
    node = value
    for name in above[1:]:
        node = step(node, name, None)
    found = step(node, last, None) if path.names else value
    if type(found) is not str:
        return value
    if found == UNAVAILABLE:
        unavailable(path.text)
    try:
        parsed = parse(found.encode())
    except (BadEvent, UnicodeEncodeError) as error:
        why = error.rejected.detail if isinstance(error, BadEvent) else "not UTF-8"
        raise BadEvent(Reason.BAD_JSON, f"{path.text}: {why}") from None
    if not path.names:
        return parsed
    node[int(last) if type(node) is list else last] = parsed
    return value


def _content_type(headers: dict[str, bytes | None]) -> bytes:
    found = (raw for name, raw in headers.items() if raw and name.lower() == "content-type")
    return next(found, b"").strip().lower()


def _cloud_event(headers: dict[str, bytes | None], value: Any) -> tuple[dict[str, Any], Any]:
    """The attributes and the data of a CloudEvent in either mode; none, and the value, without one.

    Raises BadEvent for a record that says it is one and cannot be read as one.
    """
    content_type = _content_type(headers)
    attributes = {
        name[3:].lower(): text_of(raw, name)
        for name, raw in headers.items()
        if raw is not None and name[:3].lower() in ("ce_", "ce-")  # Spring writes the second
    }
    if "specversion" in attributes and not content_type.startswith(b"application/cloudevents"):
        return attributes | {"datacontenttype": content_type.decode(errors="replace")}, value
    if type(value) is not dict or "specversion" not in value:
        if content_type.startswith(b"application/cloudevents"):
            said = content_type.decode(errors="replace")
            raise BadEvent(
                Reason.BAD_FIELD, f"the value is not a CloudEvent, its header says {said}"
            )
        return {}, value
    data = value.get("data")
    if data is None and type(packed := value.get("data_base64")) is str:
        try:
            data = parse(base64.b64decode(packed, validate=True))
        except ValueError as error:  # binascii.Error is one; a character outside ASCII is another
            raise BadEvent(Reason.BAD_JSON, f"data_base64: {error}") from None
    return value, data


def text_or_bytes(raw: bytes) -> str | bytes:
    """The text, or the bytes if they are not UTF-8."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw
