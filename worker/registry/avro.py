"""A writer's Avro schema, checked, and the values that it describes.

The writer's schema alone decodes a value. Any producer may register a schema, and none may end the
worker with it. So a schema is refused if

- it is nested deeper than `MAX_DEPTH`,
- few bytes can stand for many values, as in an array of nulls (`_Shape`).

A value of a schema that passes may still be large in memory: an array of records takes 200 bytes
for each byte. So long values with more than `MAX_CONTAINERS` records, arrays and maps are refused.
Values of a recursive schema may be as deep as they are long: those deeper than `MAX_DEPTH` are
refused too.

A field is read under its name and its aliases. Logical types are left out: a timestamp is its
number. A decimal brings its scale.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from io import BytesIO
from typing import Any, Final, NamedTuple

import msgspec

from worker.errors import SetupError
from worker.events.codec import FRAME_BYTES
from worker.events.reasons import BadEvent, Reason
from worker.extras import install_command
from worker.registry.containers import Scan, Unbounded, skip_of

try:
    import fastavro
except ImportError:
    fastavro = None

MAX_DEPTH: Final = 100  # deepest nesting of types, through names too
VALUES_PER_BYTE: Final = 16
"""Most values that a byte may stand for in the long run; ordinary records have one or two."""
MAX_VALUES: Final = 10_000
"""Most values beyond that in one message: those of types that take no bytes."""

MAX_CONTAINERS: Final = 250_000  # most records, arrays and maps in one value
COUNTED_BYTES: Final = MAX_CONTAINERS // VALUES_PER_BYTE
"""Longest value whose containers are not counted: it cannot have many more."""

_MIN_BYTES: Final = {
    "null": 0,
    "boolean": 1,
    "int": 1,
    "long": 1,
    "float": 4,
    "double": 8,
    "bytes": 1,
    "string": 1,
}
"""By primitive type, the fewest bytes of a value."""
_RECORDS: Final = ("record", "error")
_NAMED: Final = (*_RECORDS, "enum", "fixed")
_KEPT: Final = ("type", "symbols", "size", "aliases")
"""What reading needs of a named type besides its name and fields."""


_DECIMAL: Final = "coversumm-decimal"
"""The logical type that `_decimal` reads; fastavro's own takes numbers of any length."""


class BadSchema(Exception):
    """A schema that is no Avro, or that is refused. The message says why."""


def check_fastavro() -> None:
    """Raise SetupError without the library that reads Avro."""
    if fastavro is None:
        raise SetupError(f"Avro needs the extra `avro`: {install_command('avro')}")


class AvroSchema:
    """Reads the values of one writer's schema.

    Args:
        text: the schema.
        referred: schemas whose names it uses, each after those that it uses itself.
        known: names of records by which one is named that has them as an alias.

    Raises:
        BadSchema: the schema is refused.
    """

    def __init__(self, text: str, referred: Sequence[str] = (), known: Container[str] = ()) -> None:
        try:
            shape = _Shape()
            for reference in referred:
                shape.define(msgspec.json.decode(reference))
            schema = msgspec.json.decode(text)
            shape.define(schema)
            shape.check(schema)
            branches = schema if isinstance(schema, list) else [schema]
            alone = [shape.alone(branch) for branch in branches]
            parsed = [fastavro.parse_schema(schema) for schema in alone]
            skips = [skip_of(schema, {}) for schema in alone]
            names = [_name(schema, known) for schema in alone]
        except (msgspec.DecodeError, RecursionError) as error:
            raise BadSchema(f"it is not JSON: {error}") from None
        except BadSchema:
            raise
        except Exception as error:  # fastavro has many of its own
            raise BadSchema(f"it is not Avro: {error}") from None
        self._is_union = isinstance(schema, list)
        self._branches: list[tuple[str, Any]] = list(zip(names, parsed, strict=True))
        self._skips = skips
        self._counted_bytes = 0 if shape.recursive else COUNTED_BYTES
        self._aliases = shape.aliases

    def read(self, value: bytes) -> tuple[str, Any]:
        """The type's name, without namespace, and the framed value decoded. Raises BadEvent."""
        stream = BytesIO(value)
        stream.seek(FRAME_BYTES)
        try:
            branch = fastavro.schemaless_reader(stream, "int") if self._is_union else 0
            name, schema = self._branches[branch] if branch >= 0 else ("", None)
            if len(value) > self._counted_bytes:
                self._skips[branch](Scan(value, stream.tell(), MAX_CONTAINERS, MAX_DEPTH))
            decoded = fastavro.schemaless_reader(stream, schema)
        except Unbounded as unbounded:
            raise _bad(str(unbounded)) from None
        except Exception as error:  # of many kinds, by what the bytes happen to mean
            raise _bad(f"it does not fit its schema ({type(error).__name__})") from None
        if rest := len(value) - stream.tell():
            raise _bad(f"{rest} bytes follow the value that its schema describes")
        if self._aliases:
            _add_aliases(decoded, self._aliases)
        return name, decoded


class _Measure(NamedTuple):
    """The measure of a type: see `_Shape`; `height` is how deep its values may be."""

    excess: int
    height: int


class _Shape:
    """The named types of a schema, and how many values few bytes may stand for.

    A type's *excess* is the most values that one value of it may decode to, minus `VALUES_PER_BYTE`
    for each byte that it takes. An array or a map whose items have an excess above 0 could hold
    values without end, and so could a record that has such ones of its own type.

    Attributes:
        recursive: the types that contain themselves.
        aliases: by the names of a record's fields: the names by their aliases.
    """

    def __init__(self) -> None:
        self._definitions: dict[str, tuple[dict[str, Any], str]] = {}
        self._measured: dict[str, _Measure | None] = {}  # None: under way
        self.recursive: set[str] = set()
        self.aliases: dict[tuple[str, ...], dict[str, str]] = {}

    def define(self, schema: Any, namespace: str = "", level: int = 0) -> None:
        """Note the named types in a schema. Raises BadSchema."""
        _check_depth(level)
        if isinstance(schema, list):
            for part in schema:
                self.define(part, namespace, level + 1)
        if not isinstance(schema, dict):
            return
        kind = schema.get("type")
        if kind in _NAMED:
            name = _full_name(schema, namespace)
            namespace = name.rpartition(".")[0]
            self._definitions.setdefault(name, (schema, namespace))
        for part in (kind, schema.get("items"), schema.get("values"), *_types(schema)):
            self.define(part, namespace, level + 1)

    def check(self, schema: Any) -> None:
        """Raise BadSchema unless its values are bounded by their bytes."""
        if self._measure(schema, "", 0).excess > MAX_VALUES:
            raise BadSchema(f"a few bytes may become more than {MAX_VALUES} values")

    def _measure(self, schema: Any, namespace: str, level: int) -> _Measure:
        _check_depth(level)
        if isinstance(schema, list) and schema:
            parts = [self._measure(branch, namespace, level + 1) for branch in schema]
            most = max(part.excess for part in parts)
            return _Measure(most - VALUES_PER_BYTE, 1 + max(part.height for part in parts))
        if isinstance(schema, str):
            least = _MIN_BYTES.get(schema)
            if least is not None:
                return _Measure(1 - VALUES_PER_BYTE * least, 0)
            return self._measure_named(schema, namespace, level)
        if not isinstance(schema, dict):
            raise BadSchema(f"{schema!r:.40} is not a type")
        kind = schema.get("type")
        if kind in _NAMED:
            return self._measure_named(_full_name(schema, namespace), "", level)
        if kind not in ("array", "map"):
            return self._measure(kind, namespace, level + 1)
        item = self._measure(schema.get("items" if kind == "array" else "values"), namespace, level)
        key = 1 - VALUES_PER_BYTE if kind == "map" else 0
        if item.excess + key > 0:
            raise BadSchema(f"items of its {kind} may take too few bytes for their values, or none")
        return _Measure(1 - VALUES_PER_BYTE, 1 + item.height)

    def _measure_named(self, name: str, namespace: str, level: int) -> _Measure:
        name = self._resolved(name, namespace)
        if name in self._measured:
            known = self._measured[name]
            if known is None:
                self.recursive.add(name)
                return _Measure(0, 0)  # no less than its excess, or it is refused below
            _check_depth(level + known.height)
            return known
        self._measured[name] = None
        schema, inside = self._definitions[name]
        parts = [self._measure(branch, inside, level + 1) for branch in _types(schema)]
        least = {"enum": 1, "fixed": schema.get("size", 0)}.get(schema["type"], 0)
        self._measured[name] = found = _Measure(
            1 - VALUES_PER_BYTE * least + sum(part.excess for part in parts) + _aliased(schema),
            1 + max((part.height for part in parts), default=0),
        )
        if name in self.recursive and found.excess > 0:
            raise BadSchema(f"{name} contains itself, and may take too few bytes for its values")
        return found

    def _resolved(self, name: str, namespace: str) -> str:
        for candidate in (f"{namespace}.{name}", name):
            if candidate in self._definitions:
                return candidate
        raise BadSchema(f"there is no type {name!r:.80}")

    def alone(self, schema: Any, namespace: str = "", used: set[str] | None = None) -> Any:
        """A checked schema without anything else around it: names are defined where they are used
        first; logical types, defaults and texts are left out.
        """
        used = set() if used is None else used
        if isinstance(schema, list):
            return [self.alone(branch, namespace, used) for branch in schema]
        if isinstance(schema, str):
            return schema if schema in _MIN_BYTES else self._alone_named(schema, namespace, used)
        kind = schema["type"]
        if kind in _NAMED:
            return self._alone_named(_full_name(schema, namespace), "", used)
        if kind == "array":
            return {"type": "array", "items": self.alone(schema["items"], namespace, used)}
        if kind == "map":
            return {"type": "map", "values": self.alone(schema["values"], namespace, used)}
        if kind == "bytes" and (scale := _scale(schema)):
            return {"type": kind, **scale}
        return self.alone(kind, namespace, used)

    def _alone_named(self, name: str, namespace: str, used: set[str]) -> Any:
        name = self._resolved(name, namespace)
        if name in used:
            return name
        used.add(name)
        schema, inside = self._definitions[name]
        kept: dict[str, Any] = {name: schema[name] for name in _KEPT if name in schema}
        if schema["type"] in _RECORDS:
            kept["fields"] = [
                {key: field[key] for key in ("name", "aliases") if key in field}
                | {"type": self.alone(field["type"], inside, used)}
                for field in schema["fields"]
            ]
            names = tuple(field["name"] for field in schema["fields"])
            for field in schema["fields"]:
                for alias in field.get("aliases", ()):
                    if alias not in names:
                        self.aliases.setdefault(names, {}).setdefault(alias, field["name"])
        return {"name": name, **kept, **(_scale(schema) if schema["type"] == "fixed" else {})}


def _check_depth(level: int) -> None:
    if level > MAX_DEPTH:
        raise BadSchema(f"it is nested deeper than {MAX_DEPTH} levels")


def _full_name(schema: Mapping[str, Any], namespace: str) -> str:
    name, own = schema.get("name"), schema.get("namespace", namespace)
    if not isinstance(name, str) or not isinstance(own, str):
        raise BadSchema("a type has no name")
    return name if "." in name or not own else f"{own}.{name}"


def _types(schema: Mapping[str, Any]) -> list[Any]:
    """The types of a record's fields; empty for other types."""
    if schema.get("type") not in _RECORDS:
        return []
    return [field["type"] for field in schema["fields"]]


def _aliased(schema: Mapping[str, Any]) -> int:
    """The number of values of a record that are read under a second name."""
    return sum(len(field.get("aliases", ())) for field in schema.get("fields", ()))


def _add_aliases(value: Any, aliases: Mapping[tuple[str, ...], Mapping[str, str]]) -> None:
    """Let each record in a decoded value have its fields' aliases as members too."""
    left = [value]
    while left:
        part = left.pop()
        if type(part) is list:
            left += part
        elif type(part) is dict:
            left += part.values()
            for alias, name in aliases.get(tuple(part), {}).items():
                part[alias] = part[name]


def _scale(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The scale that reading a decimal needs beside its type; nothing for other types."""
    scale = schema.get("scale", 0)
    is_decimal = schema.get("logicalType") == "decimal" and type(scale) is int
    return {"logicalType": _DECIMAL, "scale": scale} if is_decimal else {}


def _decimal(raw: bytes, schema: Mapping[str, Any], *_: object) -> dict[str, Any]:
    """A decimal as Kafka Connect writes one with a scale of its own."""
    return {"scale": schema["scale"], "value": raw}


if fastavro is not None:
    for _kind in ("bytes", "fixed"):
        fastavro.read.LOGICAL_READERS[f"{_kind}-{_DECIMAL}"] = _decimal


def _name(schema: Any, known: Container[str]) -> str:
    """A record's name or the first alias that is known, without namespace; empty for others."""
    if not isinstance(schema, dict) or schema["type"] not in _RECORDS:
        return ""
    names: list[str] = [
        full.rpartition(".")[2] for full in (schema["name"], *schema.get("aliases", ()))
    ]
    return next((name for name in names if name in known), names[0])


def _bad(detail: str) -> BadEvent:
    return BadEvent(Reason.BAD_WIRE_FORMAT, f"the Avro value: {detail}")
