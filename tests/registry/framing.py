"""Framed Avro values, written by fastavro."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro

from worker.registry.avro import AvroSchema
from worker.registry.contract import INPUTS, avro_schema
from worker.registry.framed import FramedCodec, JsonSchema, UnusableSchema

CONTRACT = [avro_schema(kind) for kind in INPUTS.values()]
"""The schemas of all events."""
UNION, JSON, GONE = 1, 2, 3
"""Ids: a union of all events, JSON Schema, and an unusable one. Others: one event each."""
ONE = {schema["name"]: number for number, schema in enumerate(CONTRACT, start=10)}


def avro_record(name: str, **fields: Any) -> dict[str, Any]:
    """The schema of a record with these fields and types."""
    made = [{"name": field, "type": kind} for field, kind in fields.items()]
    return {"type": "record", "name": name, "fields": made}


def frame(identifier: int) -> bytes:
    """What comes before a value of this schema."""
    return b"\0" + identifier.to_bytes(4, "big")


def framed(identifier: int, schema: Any, value: Any) -> bytes:
    """A value as a producer writes it."""
    stream = io.BytesIO()
    stream.write(frame(identifier))
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), value)
    return stream.getvalue()


def codec() -> FramedCodec:
    """A codec that knows the schemas above."""
    union = AvroSchema(
        json.dumps([f"coversumm.{schema['name']}" for schema in CONTRACT]),
        [json.dumps(schema) for schema in CONTRACT],
    )
    return FramedCodec(
        {UNION: union, JSON: JsonSchema(), GONE: UnusableSchema("it is gone")}
        | {ONE[schema["name"]]: AvroSchema(json.dumps(schema)) for schema in CONTRACT}
    )
