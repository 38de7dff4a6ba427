"""The expressions of a mapping file: a field's value in TOML becomes a closure, or a problem with
its place.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from worker.events.dates import is_format
from worker.events.reasons import BadEvent
from worker.facets.toml_lines import Place, near
from worker.mapping.numbers import (
    BASE64,
    BY_SCHEMA,
    EPOCHS,
    MAX_SCALE,
    Take,
    added,
    decimal,
    of_epoch,
    of_parts,
    rescaled,
)
from worker.mapping.paths import Path, getter, parse_path
from worker.mapping.rules import BODIES
from worker.mapping.values import (
    HEX,
    IDS,
    RECORD_PARTS,
    Expression,
    const,
    first_of,
    join,
    of_escaped,
    of_format,
    of_hex,
    of_path,
    of_record,
    of_text,
    piped,
    unless_blank,
)

FIELD_TYPES: Final = {
    field.encode_name: field.type
    for kind in BODIES.values()
    for field in msgspec.structs.fields(kind)
}
TEXTS: Final = (*IDS, "text", "language", "country", "reason", "embedding_model")
"""Fields that may be joined."""
OPTIONS: Final = {
    "epoch": ("occurred_at", "review_version"),
    "decimal": (*IDS, "review_version", "rating"),
    "scale": ("rating",),
    "add": ("review_version",),
    "unescape": ("text",),
    "format": ("occurred_at", "review_version"),
    "bytes": (*IDS, "review_version", "rating"),
}
"""Of a value: the fields that take each of them."""
FORMS: Final = (
    'a path, a list of them, { const = ... }, { join = [...], with = " " } or a table with path, '
    "record or parts"
)


class Expressions:
    """Reads expressions, and collects what is wrong, each with its place."""

    def __init__(self) -> None:
        self.problems: list[tuple[Place, str]] = []
        self._has_items = False
        """True if paths may begin at an item: they are of a rule with `each`."""

    def _wrong(self, place: Place, what: str) -> None:
        self.problems.append((place, f"{_shown(place)}{what}"))

    def value(self, place: Place, given: Any, field: str, take: Take | None) -> Expression | None:
        """An expression of any form; None, with its problems noted, if it is none."""
        if isinstance(given, str):
            path = self._path(place, given)
            return of_path(path, take) if path else None
        if isinstance(given, list) and given:
            parts = [self.value(place, part, field, take) for part in given]
            return first_of([part for part in parts if part])
        if isinstance(given, dict):
            forms = {
                "const": self._const,
                "join": self._join,
                "path": self._at_path,
                "record": self._of_record,
                "parts": self._parts,
            }
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
            self._wrong(place, f"const: {bad.rejected.detail.removeprefix(f'{field}: ')}")
        except msgspec.ValidationError as error:
            self._wrong(place, f"const: {str(error).replace('`', '')} for {field}")
        return const(None)

    def _join(
        self, place: Place, given: Mapping[str, Any], field: str, _take: Take | None
    ) -> Expression | None:
        self._known(place, given, ("join", "with"))
        parts, between = given["join"], given.get("with", " ")
        parts = [parts] if isinstance(parts, str) else parts
        if field not in TEXTS:
            self._wrong(place, f"join makes a text: {field} is not one")
        if not isinstance(between, str):
            self._wrong(place, "with: a text is wanted")
        if not (isinstance(parts, list) and parts):
            self._wrong(place, "join: a list of paths is wanted")
            return None
        made = [self.value(place, part, field, of_text(field)) for part in parts]
        return join(field, [part for part in made if part], str(between))

    def _at_path(
        self, place: Place, given: Mapping[str, Any], field: str, take: Take | None
    ) -> Expression | None:
        """A value at a path, with how it is written."""
        self._known(place, given, ("path", *OPTIONS))
        path = self._path(place, given["path"])
        if not self._options(place, given, field) or path is None:
            return None
        if given.keys() == {"path"}:
            return of_path(path, take)
        get = getter(path)
        if (scale := given.get("decimal")) is not None:
            is_base64 = given.get("bytes") == BASE64
            get = decimal(field, get, path, None if scale == BY_SCHEMA else scale, is_base64)
        unit, form = given.get("epoch"), given.get("format")
        steps = [of_hex if given.get("bytes") == HEX else None, take, *self._last(given)]
        if unit is not None:
            steps[1] = unless_blank(of_epoch(unit, field), field)
        elif form is not None:
            steps[1] = unless_blank(of_format(form, field), field)
        return piped(get, (path,), [step for step in steps if step])

    def _of_record(
        self, place: Place, given: Mapping[str, Any], field: str, _take: Take | None
    ) -> Expression | None:
        self._known(place, given, ("record", "add"))
        if field not in RECORD_PARTS:
            self._wrong(place, f"record: {field} is not one of {', '.join(RECORD_PARTS)}")
            return None
        part = self._choice(place, given["record"], RECORD_PARTS[field], "record: ")
        if part not in RECORD_PARTS[field] or not self._options(place, given, field):
            return None
        return piped(of_record(part, field), (), self._last(given))

    def _parts(
        self, place: Place, given: Mapping[str, Any], field: str, _take: Take | None
    ) -> Expression | None:
        """A version of a log's file and the position in it."""
        self._known(place, given, ("parts", "add"))
        if field != "review_version":
            self._wrong(place, f"parts make a version: {field} is not one")
        texts = given["parts"]
        if not (isinstance(texts, list) and len(texts) == 2):
            self._wrong(place, 'parts: two paths are wanted, like ["source.file", "source.pos"]')
            return None
        paths = [path for text in texts if (path := self._path(place, text))]
        if not self._options(place, given, field) or len(paths) != 2:
            return None
        return piped(of_parts(*paths), paths, self._last(given))

    def _options(self, place: Place, given: Mapping[str, Any], field: str) -> bool:
        """True if the table's options fit the field."""
        before = len(self.problems)
        for name in OPTIONS.keys() & given.keys():
            if field not in OPTIONS[name]:
                self._wrong(place, f"{name}: only {' and '.join(OPTIONS[name])} take it")
        if "epoch" in given:
            self._choice(place, given["epoch"], tuple(EPOCHS), "epoch: ")
        if len(kinds := {"epoch", "decimal", "format"} & given.keys()) > 1:
            self._wrong(place, f"give {' or '.join(sorted(kinds))}")
        if "format" in given and not is_format(given["format"]):
            self._wrong(place, "format: day, month and year are wanted, like %d.%m.%Y %H:%M")
        if "bytes" in given:
            wanted = BASE64 if "decimal" in given else HEX if field in IDS else ""
            if given["bytes"] != wanted:
                self._wrong(place, f'bytes: "{HEX}" is for ids, "{BASE64}" goes with decimal')
        scale, bounds, number = given.get("decimal"), given.get("scale"), given.get("add", 0)
        if scale is not None and scale != BY_SCHEMA and not _is_within(scale, 0, MAX_SCALE):
            self._wrong(place, f"decimal: the digits after the point are wanted, or {BY_SCHEMA!r}")
        if bounds is not None and not _is_range(bounds):
            self._wrong(place, "scale: the lowest and the highest rating are wanted, like [0, 10]")
        if not _is_within(number, -(2**63), 2**63 - 1):
            self._wrong(place, "add: a whole number is wanted")
        if not isinstance(given.get("unescape", True), bool):
            self._wrong(place, "unescape: true or false is wanted")
        return len(self.problems) == before

    def _last(self, given: Mapping[str, Any]) -> list[Take]:
        """The last step of a checked expression."""
        bounds, number = given.get("scale"), given.get("add")
        steps = [rescaled(*bounds)] if bounds else []
        steps += [of_escaped] if given.get("unescape") else []
        return steps + ([added(number)] if number else [])

    # -- small parts

    def _path(self, place: Place, text: Any) -> Path | None:
        try:
            if not isinstance(text, str):
                raise ValueError(f"{text!r} is not a path like after.title")
            return parse_path(text, self._has_items)
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
                meant = _near(name, names) or f"; there are {', '.join(names)}"
                self._wrong((*place, name), f"{about}{meant}")


def _is_within(value: Any, low: int, high: int) -> bool:
    return type(value) is int and low <= value <= high


def _is_range(value: Any) -> bool:
    """True if it is two numbers, the lower one first."""
    is_pair = isinstance(value, list) and len(value) == 2
    return (
        is_pair
        and all(type(number) in (int, float) and abs(number) < 1e9 for number in value)
        and value[0] < value[1]
    )


def _near(name: object, names: tuple[str, ...]) -> str:
    return near(name, names, "; is it")


def _shown(place: Place) -> str:
    """A place in words: the topic, the rule from 1, and the key."""
    shown = [step if isinstance(step, int) or step.isprintable() else repr(step) for step in place]
    parts = [str(step) for step in shown[:1] if step != "topic" or len(place) == 1]
    for at, name in enumerate(shown):
        if isinstance(name, int):
            parts.append(f"{shown[at - 1]} {name + 1}")
        elif at > 0 and not (at < len(shown) - 1 and isinstance(shown[at + 1], int)):
            parts.append(name)
    return f"{': '.join(parts)}: " if parts else ""
