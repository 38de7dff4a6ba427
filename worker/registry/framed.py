"""Framed values: Avro or JSON Schema by the id of their schema; values without a frame are JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import msgspec
from msgspec import NODEFAULT, Struct, inspect

from worker.events import json_codec
from worker.events.codec import FRAME_BYTES, check_frame, is_framed, schema_id
from worker.events.inputs import Body
from worker.events.outputs import FacetsChanged, SummaryChanged
from worker.events.reasons import BadEvent, Reason, shown
from worker.registry.avro import AvroSchema
from worker.registry.contract import INPUTS, record_name

RECORDS: Final[dict[str, type[Body]]] = {record_name(body): body for body in INPUTS.values()}
"""The contract's Avro records, in any namespace."""


@dataclass(frozen=True)
class JsonSchema:
    """Payloads of this schema are JSON. The worker checks them by the contract or a mapping."""


@dataclass(frozen=True)
class UnusableSchema:
    """Values of this schema become dead letters."""

    why: str


UsableSchema = AvroSchema | JsonSchema
KnownSchema = UsableSchema | UnusableSchema


class FramedCodec:
    """Reads framed values, and JSON without a frame. `schemas` has the schema of every id."""

    def __init__(self, schemas: Mapping[int, KnownSchema]) -> None:
        self._schemas = schemas

    def decode(self, value: bytes) -> Body:
        if not is_framed(value):
            return json_codec.decode(value)
        schema = self._schema(value)
        if isinstance(schema, JsonSchema):
            return json_codec.decode(value[FRAME_BYTES:])
        name, members = schema.read(value)
        kind = RECORDS.get(name)
        if kind is None:
            what = f"the Avro record {shown(name.encode())}" if name else "the Avro value"
            raise BadEvent(
                Reason.UNKNOWN_TYPE,
                f"type: {what} is none of {', '.join(RECORDS)}; COVERSUMM_MAPPING reads others",
            )
        return json_codec.body_of(members, kind)

    def unframe(self, value: bytes) -> Any:
        """The content of a framed key or value, for a mapping. Raises BadEvent."""
        schema = self._schema(value)
        if isinstance(schema, JsonSchema):
            return json_codec.parse(value[FRAME_BYTES:])
        return schema.read(value)[1]

    def to_json(self, value: bytes) -> bytes:
        """The JSON form of a published message. Raises BadEvent and ValueError."""
        schema = self._schema(value)
        if isinstance(schema, JsonSchema):
            return value[FRAME_BYTES:]
        return change_in_json(*schema.read(value))

    def _schema(self, value: bytes) -> UsableSchema:
        check_frame(value)
        identifier = schema_id(value)
        schema = self._schemas.get(identifier) or UnusableSchema("it was not looked up")
        if isinstance(schema, UnusableSchema):
            raise BadEvent(Reason.BAD_WIRE_FORMAT, f"schema id {identifier}: {schema.why}")
        return schema


# -- published messages

CHANGES: Final[dict[str, type[SummaryChanged] | type[FacetsChanged]]] = {
    "SummaryChanged": SummaryChanged,
    "FacetsChanged": FacetsChanged,
}


def change_in_json(name: str, members: dict[str, Any]) -> bytes:
    """A decoded record of a published message in its JSON form. Raises ValueError for others."""
    kind = CHANGES.get(name)
    if kind is None:
        raise ValueError(f"the Avro record {name!r} is neither of {', '.join(CHANGES)}")
    return json_codec.encode(msgspec.convert(_pruned(members, kind), kind))


def _pruned(members: dict[str, Any], kind: type[Struct]) -> dict[str, Any]:
    """Without the nulls that stand for absent fields."""
    optional, nested = _shape(kind)
    found = {}
    for name, value in members.items():
        if value is None and name in optional:
            continue
        inner = nested.get(name)
        if inner is not None and value is not None:
            value = (
                [_pruned(item, inner) for item in value]
                if isinstance(value, list)
                else _pruned(value, inner)
            )
        found[name] = value
    return found


@cache
def _shape(kind: type[Struct]) -> tuple[frozenset[str], dict[str, type[Struct]]]:
    """The fields that may be absent and not null, and those that are structs or lists of them."""
    fields = inspect.type_info(kind).fields  # type: ignore[attr-defined]
    optional = frozenset(
        field.encode_name
        for field in fields
        if not field.required and field.default is NODEFAULT and not _may_be_null(field.type)
    )
    nested = {}
    for field in fields:
        inner = field.type
        while isinstance(inner, inspect.Metadata | inspect.ListType):
            inner = inner.type if isinstance(inner, inspect.Metadata) else inner.item_type
        if isinstance(inner, inspect.StructType):
            nested[field.encode_name] = inner.cls
    return optional, nested


def _may_be_null(kind: inspect.Type) -> bool:
    if isinstance(kind, inspect.UnionType):
        return any(isinstance(branch, inspect.NoneType) for branch in kind.types)
    return False
