"""Framed values: Avro or JSON Schema by the id of their schema; values without a frame are JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from worker.events import json_codec
from worker.events.frame import FRAME_BYTES, check_frame, is_framed, schema_id
from worker.events.inputs import (
    Body,
    EntityDeleted,
    ReviewDeleted,
    SentencesDeleted,
    UpsertBody,
)
from worker.events.reasons import BadEvent, Reason, shown
from worker.registry.avro import AvroSchema

RECORDS: Final[dict[str, type[Body]]] = {
    "ReviewUpserted": UpsertBody,
    "ReviewDeleted": ReviewDeleted,
    "SentencesDeleted": SentencesDeleted,
    "EntityDeleted": EntityDeleted,
}
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
        """See `InputCodec`."""
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
        """What a framed key or value has, for a mapping. Raises BadEvent."""
        schema = self._schema(value)
        if isinstance(schema, JsonSchema):
            return json_codec.parse(value[FRAME_BYTES:])
        return schema.read(value)[1]

    def _schema(self, value: bytes) -> UsableSchema:
        check_frame(value)
        identifier = schema_id(value)
        schema = self._schemas.get(identifier) or UnusableSchema("it was not looked up")
        if isinstance(schema, UnusableSchema):
            raise BadEvent(Reason.BAD_WIRE_FORMAT, f"schema id {identifier}: {schema.why}")
        return schema
