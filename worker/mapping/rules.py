"""A rule of a topic: its conditions, and the events that it makes of a record."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NoReturn, get_args

from worker.events.inputs import Body, UpsertBody
from worker.events.json_codec import body_of
from worker.events.notes import EMPTY, FILLED, LEFT_OUT, NOTES
from worker.events.reasons import BadEvent, Reason
from worker.mapping.paths import KEY, UNAVAILABLE, Get, Path, Roots, Unavailable, getter, is_there
from worker.mapping.values import OPTIONAL, Expression, texts

BODIES: Final[dict[str, type[Body]]] = {
    str(kind.__struct_config__.tag): kind for kind in get_args(Body)
}
MAX_EVENTS: Final = 10_000
"""Most events of one record."""
MAX_BYTES: Final = 32 * 2**20
"""Most bytes of a record's events after the first: each may repeat a text of the record."""
ANY_OF: Final = ("text", "sentences")
"""Of a review one must be there; either may be null."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A rule's condition on a path: one of these values, or with none of them any but null; or that
    it and another path have values that differ.
    """

    path: Path
    get: Get
    values: frozenset[tuple[bool, str | int | float]] | None
    """With whether each is a boolean: for Python true equals 1."""
    other: Path | None = None
    get_other: Get | None = None

    def holds(self, roots: Roots) -> bool:
        """True if it holds for a record. Raises BadEvent if the source left the value out."""
        value = self.get(roots)
        if self.get_other is not None:
            return self._differs(value, self.get_other(roots))
        if self.values is None:
            return value is not None
        kind = type(value)
        if kind is not str and kind is not int and kind is not bool and kind is not float:
            return False
        if value == UNAVAILABLE:
            self._unavailable()
        return (kind is bool, value) in self.values

    def _differs(self, value: Any, other: Any) -> bool:
        if UNAVAILABLE in (*texts(value), *texts(other)):
            self._unavailable()
        if value is None or other is None:
            return False
        return bool(value != other) or (type(value) is bool) is not (type(other) is bool)

    def _unavailable(self) -> NoReturn:
        raise Unavailable(
            Reason.BAD_FIELD,
            f"when: the source left out {self.path.text} ({UNAVAILABLE}): "
            "set REPLICA IDENTITY FULL on its table",
        )

    def implies(self, other: Condition) -> bool:
        """True if the other one holds wherever this one does."""
        if self.path[1:] != other.path[1:]:
            return False
        if self.other is not None or other.other is not None:
            return other.values is None and other.other in (None, self.other)
        return other.values is None or (self.values is not None and self.values <= other.values)

    @property
    def paths(self) -> list[Path]:
        """The paths that it reads."""
        return [self.path] if self.other is None else [self.path, self.other]


@dataclass(frozen=True, slots=True)
class RuleEvent:
    """An event that a rule makes. `fields` by name, of the event."""

    emit: str
    fields: dict[str, Expression] = field(default_factory=dict)

    @property
    def paths(self) -> list[Path]:
        """All paths that its fields read."""
        return [path for expression in self.fields.values() for path in expression.paths]

    def body(self, roots: Roots) -> Body:
        """The event's body. Raises BadEvent."""
        members: dict[str, Any] = {}
        for name, expression in self.fields.items():
            try:
                value = expression.get(roots)
            except BadEvent as bad:
                if name not in OPTIONAL or isinstance(bad, Unavailable):
                    raise
                NOTES.add(LEFT_OUT, name, bad.rejected.detail)
                continue
            if value is not None:
                members[name] = value
        kind = BODIES[self.emit]
        if kind is UpsertBody and "text" not in members and "sentences" not in members:
            if "rating" not in members:
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
class Rule:
    """A rule: its events, of each member of the list at `each` that meets the conditions
    `of_items`. Without events matching records are ignored.
    """

    name: str
    conditions: tuple[Condition, ...]
    events: tuple[RuleEvent, ...] = ()
    each: Path | None = None
    of_items: tuple[Condition, ...] = ()
    reads_key: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        """Find out whether the events need the key."""
        read = [path for event in self.events for path in event.paths]
        read += [path for expression in self.of_items for path in expression.paths]
        roots = {path.root for path in (*read, self.each) if path is not None}
        object.__setattr__(self, "reads_key", KEY in roots)

    def matches(self, roots: Roots) -> bool:
        """True if all conditions hold."""
        for condition in self.conditions:  # noqa: SIM110 - a third of the time of all()
            if not condition.holds(roots):
                return False
        return True

    def hides(self, later: Rule) -> bool:
        """True if a later rule can never apply, because this one always does before it."""
        return all(
            any(condition.implies(own) for condition in later.conditions) for own in self.conditions
        )

    @property
    def paths(self) -> list[Path]:
        """All paths that the rule reads."""
        conditions = (*self.conditions, *self.of_items)
        own = [path for condition in conditions for path in condition.paths]
        of_events = [path for event in self.events for path in event.paths]
        return own + of_events + ([] if self.each is None else [self.each])

    def bodies(self, roots: Roots) -> Iterable[Body]:
        """The bodies of its events. Raises BadEvent: then a record has none at all."""
        if len(self.events) < 2 and self.each is None:
            return [event.body(roots) for event in self.events]
        return self._several(roots)

    def _several(self, roots: Roots) -> Iterator[Body]:
        for where, at in self.members(roots):
            for number, expressions in enumerate(self.events, start=1):
                try:
                    yield expressions.body(at)
                except BadEvent as bad:
                    event = f"event {number}: " if len(self.events) > 1 else ""
                    raise bad.under(f"{where}{event}") from None

    def members(self, roots: Roots) -> Iterator[tuple[str, Roots]]:
        """The record for each member of the list, with words for its place. Raises BadEvent."""
        if self.each is None:
            yield "", roots
            return
        items = getter(self.each)(roots)
        if type(items) is not list and not (items is None and is_there(self.each, roots)):
            raise BadEvent(Reason.BAD_FIELD, f"each: the record has no list at {self.each.text}")
        if len(items or ()) * len(self.events) > MAX_EVENTS:
            raise BadEvent(Reason.TOO_LARGE, f"each: more than {MAX_EVENTS:,} events of a record")
        is_empty = bool(items)
        for number, item in enumerate(items or ()):
            at = roots._replace(item=item)
            if all(condition.holds(at) for condition in self.of_items):
                is_empty = False
                yield f"{self.each.text}.{number}: ", at
        if items and self.of_items:
            NOTES.add(EMPTY if is_empty else FILLED, self.name)


def hidden_rules(rules: Sequence[Rule]) -> list[tuple[int, list[int]]]:
    """The rules that can never apply, each with the earlier ones that take all of its records."""
    found = [(number, _hiding(rule, rules[:number])) for number, rule in enumerate(rules)]
    return [(number, hiding) for number, hiding in found if hiding]


def _hiding(rule: Rule, earlier: Sequence[Rule]) -> list[int]:
    """The earlier rules that hide a rule: one, or one for each value of one of its conditions."""
    if (hidden := _first_hiding(rule, earlier)) is not None:
        return [hidden]
    for at, condition in enumerate(rule.conditions):
        others = rule.conditions[:at] + rule.conditions[at + 1 :]
        hiding = set()
        for value in condition.values or ():
            part = replace(condition, values=frozenset([value]))
            hiding.add(_first_hiding(replace(rule, conditions=(*others, part)), earlier))
        if hiding and None not in hiding:
            return sorted(hidden_by for hidden_by in hiding if hidden_by is not None)
    return []


def _first_hiding(rule: Rule, earlier: Sequence[Rule]) -> int | None:
    return next((number for number, other in enumerate(earlier) if other.hides(rule)), None)
