"""A mapping file: TOML to the checked rules of each topic, with every error at its line."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from hashlib import sha256
from pathlib import Path as FilePath
from typing import Any, Final

import msgspec

from worker.errors import FileErrors
from worker.events.reasons import BadEvent
from worker.mapping.paths import KEY, Path, getter, parse_path
from worker.mapping.rules import ANY_OF, BODIES, Condition, Rule, TopicMapping, hidden_rules
from worker.mapping.values import (
    EPOCHS,
    Expression,
    Take,
    const,
    first_of,
    join,
    of_epoch,
    of_path,
    of_text,
    taker,
)
from worker.toml_lines import Place, line_of, parse_toml, positions

IGNORE: Final = "ignore"
ENTITY_DELETED: Final = "entity.deleted"
KEYS: Final = ("plain", "json", "framed")
VALUES: Final = ("json", "framed")
OF_TOPIC: Final = ("key", "value", "unwrap", "tombstone", "rule")
OF_RULE: Final = ("name", "when", "when_present", "emit")
FIELD_TYPES: Final = {
    one.encode_name: one.type for kind in BODIES.values() for one in msgspec.structs.fields(kind)
}
TEXTS: Final = ("entity_id", "review_id", "text", "language", "reason", "embedding_model")
"""Fields that may be joined."""
FORMS: Final = (
    'a path, a list of them, { const = ... }, { join = [...], with = " " } or '
    '{ path = "...", epoch = "ms" }'
)


def load_mapping(file: FilePath) -> dict[str, TopicMapping]:
    """The mapping of each topic. Raises FileErrors with a line for each error."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not UTF-8"
        raise FileErrors([f"{file}: cannot be read ({why})"]) from error
    try:
        content = parse_toml(text)
    except ValueError as error:
        raise FileErrors([f"{file}: not TOML: {error}"]) from error
    check = _Check()
    topics = check.topics(content)
    if check.problems:
        lines = positions(text)
        found = sorted((line_of(lines, place), what) for place, what in check.problems)
        raise FileErrors([f"{file}:{line}: {what}" for line, what in found])
    return topics


class _Check:
    """Reads the parsed file and collects what is wrong, each with its place."""

    def __init__(self) -> None:
        self.problems: list[tuple[Place, str]] = []

    def _wrong(self, place: Place, what: str) -> None:
        self.problems.append((place, f"{_shown(place)}{what}"))

    def topics(self, content: Mapping[str, Any]) -> dict[str, TopicMapping]:
        """The topics of the file."""
        self._known((), content, ("topic",))
        tables = content.get("topic")
        if not isinstance(tables, dict) or not tables:
            self._wrong(("topic",), 'a table for each topic is needed: [topic."NAME"]')
            return {}
        return {
            name: self._topic(("topic", name), name, table)
            for name, table in tables.items()
            if self._is(("topic", name), table, dict, "a table")
        }

    def _topic(self, place: Place, name: str, table: Mapping[str, Any]) -> TopicMapping:
        self._known(place, table, OF_TOPIC)
        key = self._choice((*place, "key"), table.get("key", "plain"), KEYS)
        value = self._choice((*place, "value"), table.get("value", "json"), VALUES)
        unwrap = table.get("unwrap")
        if unwrap is not None and not (isinstance(unwrap, str) and unwrap):
            self._wrong((*place, "unwrap"), "the name of a member is wanted, like payload")
        rules = table.get("rule")
        if not isinstance(rules, list) or not rules:
            self._wrong(
                (*place, "rule") if rules else place, "needs rules: [[topic.NAME.rule]] for each"
            )
            rules = []
        made = [
            self._rule((*place, "rule", number), rule, f"rule {number + 1}")
            for number, rule in enumerate(rules)
            if self._is((*place, "rule", number), rule, dict, "a table")
        ]
        if not self.problems:
            for number, before in hidden_rules(made):
                takers = " and ".join(made[one].name for one in before)
                verb = "take" if len(before) > 1 else "takes"
                why = f"never applies: {takers} {verb} all of its records"
                self._wrong((*place, "rule", number), why)
        tombstone = self._tombstone((*place, "tombstone"), table, unwrap)
        content = json.dumps(table, sort_keys=True, default=str)
        digest = sha256(content.encode()).hexdigest()[:12]
        return TopicMapping(name, tuple(made), tombstone, key, value, unwrap, digest)

    def _tombstone(self, place: Place, table: Mapping[str, Any], unwrap: object) -> Rule:
        """The rule of null values. Debezium's tombstones follow the deletion of a row."""
        given = table.get("tombstone", ENTITY_DELETED if unwrap is None else IGNORE)
        fields: Mapping[str, Any] = {"entity_id": "key"}
        if isinstance(given, dict):
            self._known(place, given, ("entity_id",))
            fields, given = given, ENTITY_DELETED
        if self._choice(place, given, (IGNORE, ENTITY_DELETED)) == IGNORE:
            return Rule("tombstone", (), None)
        made = self._fields(place, fields, ENTITY_DELETED)
        if any(path.root < KEY for one in made.values() for path in one.paths):
            self._wrong(place, "a tombstone has no value: entity_id must come from key or header")
        return Rule("tombstone", (), ENTITY_DELETED, made)

    def _rule(self, place: Place, rule: Mapping[str, Any], name: str) -> Rule:
        given = rule.get("name", name)
        if self._is((*place, "name"), given, str, "a text"):
            name = given if given == name else f"rule {given!r}"
        conditions = tuple(self._conditions(place, rule))
        if "emit" not in rule:
            self._wrong(place, f"emit is missing: {', '.join(BODIES)} or {IGNORE}")
            return Rule(name, conditions, None)
        emit = self._choice((*place, "emit"), rule["emit"], (*BODIES, IGNORE))
        if emit == IGNORE:
            self._known(place, rule, OF_RULE)
        elif emit in BODIES:
            fields = {field: value for field, value in rule.items() if field not in OF_RULE}
            return Rule(name, conditions, emit, self._fields(place, fields, emit))
        return Rule(name, conditions, None)

    # -- conditions

    def _conditions(self, place: Place, rule: Mapping[str, Any]) -> Iterator[Condition]:
        when, present = rule.get("when", {}), rule.get("when_present", [])
        if self._is((*place, "when"), when, dict, "a table of paths and values"):
            yield from self._equal((*place, "when"), when, "")
        if self._is((*place, "when_present"), present, list, "a list of paths"):
            for one in present:
                if path := self._path((*place, "when_present"), one):
                    yield Condition(path, getter(path), None)

    def _equal(self, place: Place, when: Mapping[str, Any], above: str) -> Iterator[Condition]:
        """Conditions of a table; `after.status = 1` without quotes is a table in a table."""
        for name, wanted in when.items():
            here, text = (*place, name), f"{above}{name}"
            if isinstance(wanted, dict) and wanted:
                yield from self._equal(here, wanted, f"{text}.")
                continue
            values = wanted if isinstance(wanted, list) else [wanted]
            if not values or not all(isinstance(one, str | int | float) for one in values):
                self._wrong(here, "a text, number or boolean is wanted, or a list of them")
            elif path := self._path(here, text):
                kept = frozenset((isinstance(one, bool), one) for one in values)
                yield Condition(path, getter(path), kept)

    # -- fields

    def _fields(self, place: Place, given: Mapping[str, Any], emit: str) -> dict[str, Expression]:
        described = msgspec.structs.fields(BODIES[emit])
        names = [one.encode_name for one in described]
        self._known(place, given, (*names, *OF_RULE), f"of {emit}")
        needed = [one.encode_name for one in described if one.required]
        missing = [name for name in needed if name not in given]
        if emit == "review.upserted" and not any(name in given for name in ANY_OF):
            missing.append(" or ".join(ANY_OF))
        if missing:
            self._wrong(place, f"{emit} needs {', '.join(missing)}")
        found: dict[str, Expression] = {}
        for name in names:
            if name in given:
                made = self._value((*place, name), given[name], name, taker(name))
                found |= {name: made} if made else {}
        return found

    def _value(self, place: Place, given: Any, field: str, take: Take | None) -> Expression | None:
        """An expression of any form; None, with its problems noted, if it is none."""
        if isinstance(given, str):
            path = self._path(place, given)
            return of_path(path, take) if path else None
        if isinstance(given, list) and given:
            parts = [self._value(place, one, field, take) for one in given]
            return first_of([one for one in parts if one])
        if isinstance(given, dict):
            forms = {"const": self._const, "join": self._join, "path": self._epoch}
            for name, form in forms.items():
                if name in given:
                    return form(place, given, field, take)
        self._wrong(place, f"{FORMS} is wanted")
        return None

    def _const(
        self, place: Place, given: Mapping[str, Any], field: str, take: Take | None
    ) -> Expression:
        self._known(place, given, ("const",))
        value = given["const"]
        try:
            value = value if take is None else take(value)
            return const(msgspec.convert(value, FIELD_TYPES[field]))
        except BadEvent as bad:
            self._wrong(place, f"const: {bad.rejected.detail}")
        except msgspec.ValidationError as error:
            self._wrong(place, f"const: {str(error).replace('`', '')} for {field}")
        return const(None)

    def _join(
        self, place: Place, given: Mapping[str, Any], field: str, _take: Take | None
    ) -> Expression | None:
        self._known(place, given, ("join", "with"))
        parts, between = given["join"], given.get("with", " ")
        if field not in TEXTS:
            self._wrong(place, f"join makes a text: {field} is not one")
        if not isinstance(between, str):
            self._wrong(place, "with: a text is wanted")
        if not (isinstance(parts, list) and parts):
            self._wrong(place, "join: a list of paths is wanted")
            return None
        made = [self._value(place, one, field, of_text(field)) for one in parts]
        return join(field, [one for one in made if one], str(between))

    def _epoch(
        self, place: Place, given: Mapping[str, Any], field: str, take: Take | None
    ) -> Expression | None:
        self._known(place, given, ("path", "epoch"))
        path = self._path(place, given["path"])
        unit = given.get("epoch")
        if unit is None:
            return of_path(path, take) if path else None
        if field != "occurred_at":
            self._wrong(place, f"epoch: {field} is not a time")
        if self._choice(place, unit, tuple(EPOCHS), "epoch: ") not in EPOCHS or path is None:
            return None
        return of_path(path, of_epoch(unit))

    # -- small parts

    def _path(self, place: Place, text: Any) -> Path | None:
        try:
            if not isinstance(text, str):
                raise ValueError(f"{text!r} is not a path like after.title")
            return parse_path(text)
        except ValueError as error:
            self._wrong(place, str(error))
            return None

    def _is(self, place: Place, value: object, kind: type, wanted: str) -> bool:
        if isinstance(value, kind):
            return True
        self._wrong(place, f"{wanted} is wanted, not {value!r:.40}")
        return False

    def _choice(self, place: Place, value: Any, accepted: tuple[str, ...], what: str = "") -> str:
        if value not in accepted:
            self._wrong(
                place, f"{what}{value!r} is none of {', '.join(accepted)}{_near(value, accepted)}"
            )
        return str(value)

    def _known(
        self, place: Place, table: Mapping[str, Any], names: tuple[str, ...], of: str = ""
    ) -> None:
        for name in table:
            if name not in names:
                about = f"is not a field {of}" if of else "is unknown here"
                self._wrong((*place, name), f"{about}{_near(name, names)}")


def _near(name: object, names: tuple[str, ...]) -> str:
    near = get_close_matches(str(name), names, 1)
    return f"; is it {near[0]}?" if near else ""


def _shown(place: Place) -> str:
    """A place in words: the topic, the rule from 1, and the key."""
    shown = [one if isinstance(one, int) or one.isprintable() else repr(one) for one in place]
    parts = [str(one) for one in shown[:1] if one != "topic" or len(place) == 1]
    for at, name in enumerate(shown):
        if isinstance(name, int):
            parts.append(f"rule {name + 1}")
        elif at > 0 and not (name == "rule" and at == 2 and len(place) > 3):
            parts.append(name)
    return f"{': '.join(parts)}: " if parts else ""
