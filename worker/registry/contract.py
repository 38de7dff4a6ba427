"""The contract's Avro schemas, made from the same types as its JSON Schemas.

Fields have JSON's names and order. The record's name stands for `type`. A field that may be missing
or null is a union with null, and null is its default.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any, Final

from msgspec import NODEFAULT, Struct, inspect

from worker.events.inputs import (
    EVENT_TYPES,
    Body,
    EntityDeleted,
    Event,
    ReviewDeleted,
    ReviewUpserted,
    SentenceBody,
    SentencesDeleted,
    UpsertBody,
)
from worker.events.outputs import (
    FACETS_CHANGED,
    SUMMARY_CHANGED,
    FacetsChanged,
    FacetSummary,
    SummaryChanged,
)

NAMESPACE: Final = "coversumm"
INPUTS: Final[dict[type[Event], type[Body]]] = {
    ReviewUpserted: UpsertBody,
    ReviewDeleted: ReviewDeleted,
    SentencesDeleted: SentencesDeleted,
    EntityDeleted: EntityDeleted,
}
TYPES: Final[dict[str, type[Struct]]] = {
    **{EVENT_TYPES[event]: body for event, body in INPUTS.items()},
    SUMMARY_CHANGED: SummaryChanged,
    FACETS_CHANGED: FacetsChanged,
}
"""The published types by the contract's name."""

_NAMES: Final = {UpsertBody: "ReviewUpserted", SentenceBody: "Sentence"}
_PRIMITIVES: Final = {
    inspect.StrType: "string",
    inspect.BoolType: "boolean",
    inspect.IntType: "long",
    inspect.FloatType: "double",
    inspect.BytesType: "bytes",
}
VECTOR: Final = "The vector as little-endian float32."
_STRINGS: Final = {"type": "array", "items": "string"}


def record_name(kind: type[Struct]) -> str:
    """The name of a type's record, without namespace."""
    return _NAMES.get(kind, kind.__name__)


def avro_schema(kind: type[Struct], unused: Collection[str] = ()) -> dict[str, Any]:
    """The schema of a type, which needs no other; without the unused fields of facets."""
    schema: dict[str, Any] = _schema(inspect.type_info(kind), set())
    if unused:
        _leave_out(schema, unused)
    name = schema.pop("name")
    return {"type": schema.pop("type"), "name": name, "namespace": NAMESPACE, **schema}


def _leave_out(schema: Any, unused: Collection[str]) -> None:
    """Remove these fields from the record of facets, wherever that is."""
    if isinstance(schema, dict):
        if schema.get("name") == record_name(FacetSummary):
            schema["fields"] = [field for field in schema["fields"] if field["name"] not in unused]
        for part in schema.values():
            _leave_out(part, unused)
    elif isinstance(schema, list):
        for part in schema:
            _leave_out(part, unused)


def schema_text(kind: type[Struct], unused: Collection[str] = ()) -> str:
    """The schema of a type as a file has it; see `avro_schema`."""
    return json.dumps(avro_schema(kind, unused), indent=2, ensure_ascii=False) + "\n"


def _schema(kind: inspect.Type, defined: set[str]) -> Any:
    if isinstance(kind, inspect.Metadata):
        return _schema(kind.type, defined)
    if isinstance(kind, inspect.StructType):
        return _record(kind, defined)
    if isinstance(kind, inspect.ListType):
        return {"type": "array", "items": _schema(kind.item_type, defined)}
    if isinstance(kind, inspect.DictType):  # names are strings
        return {"type": "map", "values": _schema(kind.value_type, defined)}
    if isinstance(kind, inspect.RawType):
        return _STRINGS  # labels, which JSON checks late
    if isinstance(kind, inspect.UnionType):
        return _union(kind, defined)
    return _PRIMITIVES[type(kind)]


def _union(kind: inspect.UnionType, defined: set[str]) -> Any:
    """Null first. A vector is bytes: an array of numbers takes eight times as long to read."""
    kinds = [_bare(branch) for branch in kind.types]
    is_vector = any(isinstance(branch, inspect.BytesType) for branch in kinds)
    parts = [
        _schema(branch, defined)
        for branch in kinds
        if not isinstance(branch, inspect.NoneType)
        and not (is_vector and isinstance(branch, inspect.ListType))
    ]
    is_nullable = any(isinstance(branch, inspect.NoneType) for branch in kinds)
    parts.sort(key=lambda part: not isinstance(part, str))  # a union's order has no meaning here
    union = ["null", *parts] if is_nullable else parts
    return union if len(union) > 1 else union[0]


def _bare(kind: inspect.Type) -> inspect.Type:
    return kind.type if isinstance(kind, inspect.Metadata) else kind


def _record(kind: inspect.StructType, defined: set[str]) -> Any:
    name = record_name(kind.cls)
    if name in defined:
        return name
    defined.add(name)
    doc = " ".join((kind.cls.__doc__ or "").split())
    fields = [_field(field, defined) for field in kind.fields]
    return {"type": "record", "name": name, "doc": doc, "fields": fields}


def _field(given: inspect.Field, defined: set[str]) -> dict[str, Any]:
    kind = _schema(given.type, defined)
    if not given.required and given.default in (NODEFAULT, None) and not _is_nullable(kind):
        kind = ["null", kind]  # it may be missing
    field: dict[str, Any] = {"name": given.encode_name, "type": kind}
    if text := VECTOR if "bytes" in kind else _description(given.type):
        field["doc"] = text
    if _is_nullable(kind):
        field["default"] = None
    elif isinstance(given.default, str):
        field["default"] = given.default
    return field


def _is_nullable(kind: Any) -> bool:
    return isinstance(kind, list) and "null" in kind


def _description(kind: inspect.Type) -> str:
    """The text of a field's type, or of the only one besides null that has one."""
    if isinstance(kind, inspect.UnionType):
        texts = [text for branch in kind.types if (text := _description(branch))]
        return texts[-1] if texts else ""
    if isinstance(kind, inspect.Metadata):
        own = (kind.extra_json_schema or {}).get("description", "")
        return " ".join(own.split()) or _description(kind.type)
    return ""
