"""A mapping file: TOML to the checked rules of each topic, with every error at its line; a file in
Python is loaded by `function`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path as FilePath
from typing import Any, Final

import msgspec

from worker.errors import FileErrors
from worker.facets.toml_lines import Place, line_of, parse_toml, positions
from worker.mapping.expressions import Expressions
from worker.mapping.function import load_function
from worker.mapping.paths import ITEM, KEY, VALUE, Path, getter
from worker.mapping.rules import ANY_OF, BODIES, Condition, Rule, RuleEvent, hidden_rules
from worker.mapping.topic import TopicMapping
from worker.mapping.values import Expression, taker

IGNORE: Final = "ignore"
ENTITY_DELETED: Final = "entity.deleted"
REVIEW_DELETED: Final = "review.deleted"
KEYS: Final = ("plain", "json", "framed")
VALUES: Final = ("json", "framed")
OF_TOPIC: Final = ("key", "value", "unwrap", "parse", "tombstone", "rule")
OF_RULE: Final = ("name", "when", "when_present", "each", "emit", "event")


def load_mapping(file: FilePath, topic: str = "") -> dict[str, TopicMapping]:
    """The mapping of each topic that a TOML file names, or of `topic` by a file in Python, NAME.py.
    Raises FileErrors with a line for each error.
    """
    try:
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not UTF-8"
        raise FileErrors([f"{file}: cannot be read ({why})"]) from error
    if file.suffix == ".py":
        return {topic: load_function(file, text, topic)}
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


class _Check(Expressions):
    """Reads the parsed file and collects what is wrong, each with its place."""

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
                takers = " and ".join(made[name].name for name in before)
                verb = "take" if len(before) > 1 else "takes"
                why = f"never applies: {takers} {verb} all of its records"
                self._wrong((*place, "rule", number), why)
        parsed = self._parse((*place, "parse"), table.get("parse", []))
        tombstone = self._tombstone((*place, "tombstone"), table, unwrap, made)
        content = json.dumps(table, sort_keys=True, default=str)
        digest = sha256(content.encode()).hexdigest()[:12]
        return TopicMapping(name, tuple(made), tombstone, key, value, unwrap, parsed, digest)

    def _parse(self, place: Place, given: Any) -> tuple[Path, ...]:
        """Paths of JSON texts in the value; `value` is the complete one."""
        if not self._is(place, given, list, "a list of paths"):
            return ()
        paths = []
        for rule_table in given:
            path = (
                Path("value", VALUE, ()) if rule_table == "value" else self._path(place, rule_table)
            )
            if path is not None and path.root != VALUE:
                self._wrong(place, f"{path.text} is not in the value")
            elif path is not None:
                paths.append(path)
        return tuple(paths)

    def _tombstone(
        self, place: Place, table: Mapping[str, Any], unwrap: object, rules: Sequence[Rule]
    ) -> Rule | None:
        """The rule of null values, None if the file does not say what they mean.

        Debezium sends a tombstone after the deletion of a row, so it is ignored. Other sources may
        send nothing else for a deletion. It deletes the key if that alone is the id in all rules.
        """
        events = [event for rule in rules for event in rule.events if "entity_id" in event.fields]
        ids = [event.fields["entity_id"] for event in events]
        are_keys = bool(ids) and all(
            expression.is_path and expression.paths[0].text == "key" for expression in ids
        )
        given = table.get("tombstone", IGNORE if unwrap is not None else None)
        if given is None and not are_keys:
            return None
        given = given or ENTITY_DELETED
        event = {"emit": ENTITY_DELETED, "entity_id": "key"}
        if isinstance(given, dict):
            event = {"emit": ENTITY_DELETED} | given
        elif self._choice(place, given, (IGNORE, ENTITY_DELETED)) == IGNORE:
            return Rule("tombstone", ())
        made = tuple(self._event(place, event, ("emit",), (ENTITY_DELETED, REVIEW_DELETED)))
        if any(path.root < KEY for rule_made in made for path in rule_made.paths):
            self._wrong(place, "a tombstone has no value: ids must come from key or header")
        return Rule("tombstone", (), made)

    def _rule(self, place: Place, rule: Mapping[str, Any], name: str) -> Rule:
        given = rule.get("name", name)
        if self._is((*place, "name"), given, str, "a text"):
            name = given if given == name else f"rule {given!r}"
        each = self._path((*place, "each"), rule["each"]) if "each" in rule else None
        self._has_items = "each" in rule
        conditions: tuple[list[Condition], list[Condition]] = [], []
        for condition in self._conditions(place, rule):
            conditions[any(path.root == ITEM for path in condition.paths)].append(condition)
        events = tuple(self._events(place, rule))
        self._has_items = False
        return Rule(name, tuple(conditions[0]), events, each, tuple(conditions[1]))

    def _events(self, place: Place, rule: Mapping[str, Any]) -> Iterator[RuleEvent]:
        """The event that a rule says itself, or those of its list; none if it says `ignore`."""
        if "event" not in rule:
            if rule.get("emit") == IGNORE:
                self._known(place, rule, ("name", "when", "when_present", "emit"))
            else:
                yield from self._event(place, rule, OF_RULE, (*BODIES, IGNORE))
            return
        self._known(place, rule, tuple(name for name in OF_RULE if name != "emit"))
        given = rule["event"]
        if not isinstance(given, list) or not given:
            self._wrong((*place, "event"), "a table for each event is wanted: [[....rule.event]]")
            return
        for number, event in enumerate(given):
            here = (*place, "event", number)
            if self._is(here, event, dict, "a table"):
                yield from self._event(here, event, ("emit",), tuple(BODIES))

    def _event(
        self,
        place: Place,
        given: Mapping[str, Any],
        others: tuple[str, ...],
        kinds: tuple[str, ...],
    ) -> Iterator[RuleEvent]:
        """An event of a table that also has `others`."""
        if "emit" not in given:
            self._wrong(place, f"emit is missing: {', '.join(kinds[:-1])} or {kinds[-1]}")
            return
        emit = self._choice((*place, "emit"), given["emit"], kinds)
        if emit in BODIES:
            fields = {field: value for field, value in given.items() if field not in others}
            yield RuleEvent(emit, self._fields(place, fields, emit))

    # -- conditions

    def _conditions(self, place: Place, rule: Mapping[str, Any]) -> Iterator[Condition]:
        when, present = rule.get("when", {}), rule.get("when_present", [])
        if self._is((*place, "when"), when, dict, "a table of paths and values"):
            yield from self._equal((*place, "when"), when, "")
        if self._is((*place, "when_present"), present, list, "a list of paths"):
            for name in present:
                if path := self._path((*place, "when_present"), name):
                    yield Condition(path, getter(path), None)

    def _equal(self, place: Place, when: Mapping[str, Any], above: str) -> Iterator[Condition]:
        """Conditions of a table; `after.status = 1` without quotes is a table in a table."""
        for name, wanted in when.items():
            here, text = (*place, name), f"{above}{name}"
            if isinstance(wanted, dict) and wanted.keys() == {"differs"}:
                path, other = self._path(here, text), self._path(here, wanted["differs"])
                if path and other:
                    yield Condition(path, getter(path), None, other, getter(other))
                continue
            if isinstance(wanted, dict) and wanted:
                yield from self._equal(here, wanted, f"{text}.")
                continue
            values = wanted if isinstance(wanted, list) else [wanted]
            if not values or not all(isinstance(value, str | int | float) for value in values):
                self._wrong(here, "a text, number or boolean is wanted, or a list of them")
            elif path := self._path(here, text):
                kept = frozenset((isinstance(value, bool), value) for value in values)
                yield Condition(path, getter(path), kept)

    # -- fields

    def _fields(self, place: Place, given: Mapping[str, Any], emit: str) -> dict[str, Expression]:
        described = msgspec.structs.fields(BODIES[emit])
        names = [described_field.encode_name for described_field in described]
        self._known(place, given, (*names, *OF_RULE), f"of {emit}")
        needed = [
            described_field.encode_name for described_field in described if described_field.required
        ]
        missing = [name for name in needed if name not in given]
        if emit == "review.upserted" and not any(name in given for name in ANY_OF):
            missing.append(" or ".join(ANY_OF))
        if missing:
            self._wrong(place, f"{emit} needs {', '.join(missing)}")
        found: dict[str, Expression] = {}
        for name in names:
            if name in given:
                made = self.value((*place, name), given[name], name, taker(name))
                found |= {name: made} if made else {}
        return found
