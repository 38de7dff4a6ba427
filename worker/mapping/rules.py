"""The rules of one topic: a record becomes a body of the contract, is ignored, or is rejected.

The first rule whose conditions hold decides. A record for which none holds is rejected, so that
nothing is lost in silence.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from worker.events.codec import FRAME_BYTES, check_frame
from worker.events.inputs import (
    Body,
    EntityDeleted,
    Record,
    ReviewDeleted,
    SentencesDeleted,
    UpsertBody,
)
from worker.events.json_codec import body_of, parse
from worker.events.reasons import BadEvent, Ignored, Reason, Rejected
from worker.mapping.paths import CE, HEADERS, KEY, Get, Path, Roots, is_there
from worker.mapping.values import Expression

BODIES: Final[dict[str, type[Body]]] = {
    "review.upserted": UpsertBody,
    "review.deleted": ReviewDeleted,
    "sentences.deleted": SentencesDeleted,
    "entity.deleted": EntityDeleted,
}
ANY_OF: Final = ("text", "sentences")
"""Of a review one must be there; either may be null."""


@dataclass(frozen=True, slots=True)
class Condition:
    """What a rule asks of one path: one of these values, or with none of them any but null."""

    path: Path
    get: Get
    values: frozenset[tuple[bool, str | int | float]] | None
    """With whether each is a boolean: for Python true equals 1."""

    def holds(self, roots: Roots) -> bool:
        """Whether it holds for a record."""
        value = self.get(roots)
        if self.values is None:
            return value is not None
        kind = type(value)
        if kind is not str and kind is not int and kind is not bool and kind is not float:
            return False
        return (kind is bool, value) in self.values

    def implies(self, other: Condition) -> bool:
        """Whether the other one holds wherever this one does."""
        if self.path[1:] != other.path[1:]:
            return False
        return other.values is None or (self.values is not None and self.values <= other.values)


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule. `emit` None: matching records are ignored. `fields` by name, of the event."""

    name: str
    conditions: tuple[Condition, ...]
    emit: str | None
    fields: dict[str, Expression] = field(default_factory=dict)
    reads_key: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        """Find out whether the fields need the key."""
        roots = {path.root for one in self.fields.values() for path in one.paths}
        object.__setattr__(self, "reads_key", KEY in roots)

    def matches(self, roots: Roots) -> bool:
        """Whether all conditions hold."""
        for condition in self.conditions:  # noqa: SIM110 - a third of the time of all()
            if not condition.holds(roots):
                return False
        return True

    def hides(self, later: Rule) -> bool:
        """Whether a later rule can never apply, because this one always does before it."""
        return all(any(one.implies(own) for one in later.conditions) for own in self.conditions)

    @property
    def paths(self) -> list[Path]:
        """All paths that the rule reads."""
        own = [condition.path for condition in self.conditions]
        return own + [path for one in self.fields.values() for path in one.paths]

    def body(self, roots: Roots) -> Body:
        """The event's body. Raises BadEvent."""
        assert self.emit is not None
        members: dict[str, Any] = {}
        for name, expression in self.fields.items():
            value = expression.get(roots)
            if value is not None:
                members[name] = value
        kind = BODIES[self.emit]
        if kind is UpsertBody and "text" not in members and "sentences" not in members:
            self._check_text(roots)
            members["text"] = None
        try:
            return body_of(members, kind)
        except BadEvent as bad:
            name, _, rest = bad.rejected.detail.partition(":")
            if rest != " missing" or name not in self.fields:
                raise
        raise BadEvent(Reason.BAD_FIELD, f"{name}: nothing at {self._read_by(name)}")

    def _check_text(self, roots: Roots) -> None:
        """A review may be without words, but a wrong path must not make all of them so."""
        given = [name for name in ANY_OF if name in self.fields]
        if not any(is_there(path, roots) for name in given for path in self.fields[name].paths):
            read = " or ".join(self._read_by(name) for name in given)
            raise BadEvent(Reason.BAD_FIELD, f"{given[0]}: the record has no {read}, not even null")

    def _read_by(self, name: str) -> str:
        return ", ".join(path.text for path in self.fields[name].paths) or "its const"


@dataclass(frozen=True, slots=True)
class TopicMapping:
    """The rules of a topic, and how its records are read.

    Attributes:
        key: how keys are written: `plain` text, `json`, or `framed` JSON.
        value: how values are written: `json`, or `framed`.
        unwrap: the member that holds the payload of values and keys; None: there is no envelope.
        tombstone: the rule of null values.
        digest: of what the file says of the topic, comments and spaces aside.
        refuse: an entity id and its record to the complaint about its partition; None: it is right.
        unframe: decodes framed keys and values by their schemas; None: they are JSON.
    """

    topic: str
    rules: tuple[Rule, ...]
    tombstone: Rule
    key: str = "plain"
    value: str = "json"
    unwrap: str | None = None
    digest: str = ""
    refuse: Callable[[str, Record], str | None] | None = None
    unframe: Callable[[bytes], Any] | None = None
    _reads: tuple[bool, bool, bool] = field(init=False, default=(False, False, False))

    def __post_init__(self) -> None:
        """Find out which roots the rules read: only those are decoded, the key only for a rule
        that reads it.
        """
        roots = {path.root for rule in (*self.rules, self.tombstone) for path in rule.paths}
        asked = {one.path.root for rule in self.rules for one in rule.conditions}
        object.__setattr__(self, "_reads", (KEY in asked, CE in roots, HEADERS in roots))

    @property
    def needs_headers(self) -> bool:
        """Whether records must come with their headers."""
        _, reads_ce, reads_headers = self._reads
        return reads_ce or reads_headers

    def refusing(self, refuse: Callable[[str, Record], str | None]) -> TopicMapping:
        """The same mapping that refuses records by the entity that they are mapped to."""
        return replace(self, refuse=refuse)

    def unframing(self, unframe: Callable[[bytes], Any]) -> TopicMapping:
        """The same mapping that decodes framed keys and values by their schemas."""
        return replace(self, unframe=unframe)

    def read(self, record: Record) -> Body | Ignored:
        """What the record means. Raises BadEvent."""
        roots, is_tombstone = self._roots(record)
        rule = self.tombstone if is_tombstone else self._first(roots)
        if rule is None:
            raise BadEvent(Reason.UNKNOWN_TYPE, "no rule of the mapping applies")
        if rule.emit is None:
            return Ignored.BY_MAPPING
        if rule.reads_key:
            value, _, ce, headers = roots
            roots = (value, self._key(record.key), ce, headers)
        body = rule.body(roots)
        if self.refuse is not None and (complaint := self.refuse(body.entity_id, record)):
            raise BadEvent(Reason.KEY_MISMATCH, complaint)
        return body

    def rule_of(self, record: Record) -> Rule | None:
        """The rule that decides about the record; None if none does."""
        try:
            roots, is_tombstone = self._roots(record)
            return self.tombstone if is_tombstone else self._first(roots)
        except BadEvent:
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

    def _roots(self, record: Record) -> tuple[Roots, bool]:
        """The record decoded, and whether it is a tombstone. Raises BadEvent."""
        reads_key, reads_ce, reads_headers = self._reads
        headers = dict(record.headers) if reads_ce or reads_headers else {}
        value: Any = None
        if record.value is not None:
            value = self._decoded(record.value, self.value, "value")
        ce: dict[str, Any] = {}
        if reads_ce:
            ce, value = _cloud_event(headers, value)
        if self.unwrap is not None and type(value) is dict and self.unwrap in value:
            value = value[self.unwrap]
        # an event without data is no tombstone: its attributes say what it is
        is_tombstone = value is None and not ce
        return (value, self._key(record.key) if reads_key else None, ce, headers), is_tombstone

    def _key(self, raw: bytes | None) -> Any:
        if raw is None:
            return None
        if self.key == "plain":
            try:
                return raw.decode()
            except UnicodeDecodeError:
                raise BadEvent(Reason.BAD_FIELD, "key: not UTF-8") from None
        key = self._decoded(raw, self.key, "key")
        if self.unwrap is not None and type(key) is dict and self.unwrap in key:
            return key[self.unwrap]
        return key

    def _decoded(self, raw: bytes, form: str, what: str) -> Any:
        """What a key or value has. Raises BadEvent."""
        try:
            if form != "framed":
                return parse(raw)
            check_frame(raw)
            return parse(raw[FRAME_BYTES:]) if self.unframe is None else self.unframe(raw)
        except BadEvent as bad:
            raise BadEvent(bad.rejected.reason, f"{what}: {bad.rejected.detail}") from None


def _cloud_event(headers: dict[str, bytes | None], value: Any) -> tuple[dict[str, Any], Any]:
    """The attributes and the data of a CloudEvent in either mode; none, and the value, without one.

    Raises BadEvent.
    """
    content_type = headers.get("content-type") or b""
    if "ce_specversion" in headers and not content_type.startswith(b"application/cloudevents"):
        attributes = {
            name[3:]: raw.decode(errors="replace")
            for name, raw in headers.items()
            if raw is not None and name.startswith("ce_")
        }
        return attributes | {"datacontenttype": content_type.decode(errors="replace")}, value
    if type(value) is not dict or "specversion" not in value:
        return {}, value
    data = value.get("data")
    if data is None and type(packed := value.get("data_base64")) is str:
        try:
            data = parse(base64.b64decode(packed, validate=True))
        except ValueError as error:  # binascii.Error is one; a character outside ASCII is another
            raise BadEvent(Reason.BAD_JSON, f"data_base64: {error}") from None
    return value, data


def hidden_rules(rules: Sequence[Rule]) -> list[tuple[int, list[int]]]:
    """The rules that can never apply, each with the earlier ones that take all of its records."""
    found = [(number, _hiding(rule, rules[:number])) for number, rule in enumerate(rules)]
    return [(number, hiding) for number, hiding in found if hiding]


def _hiding(rule: Rule, earlier: Sequence[Rule]) -> list[int]:
    """The earlier rules that hide a rule: one, or one for each value of one of its conditions."""
    if (one := _first_hiding(rule, earlier)) is not None:
        return [one]
    for at, condition in enumerate(rule.conditions):
        others = rule.conditions[:at] + rule.conditions[at + 1 :]
        hiding = set()
        for value in condition.values or ():
            part = replace(condition, values=frozenset([value]))
            hiding.add(_first_hiding(replace(rule, conditions=(*others, part)), earlier))
        if hiding and None not in hiding:
            return sorted(one for one in hiding if one is not None)
    return []


def _first_hiding(rule: Rule, earlier: Sequence[Rule]) -> int | None:
    return next((number for number, one in enumerate(earlier) if one.hides(rule)), None)
