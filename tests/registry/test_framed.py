"""Framed values: the same events as in JSON, refused for the same reasons."""

from __future__ import annotations

import json
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient, header_schema_id_serializer
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from docs.build.render import ROOT
from tests.events.examples import LIMITS, assert_same_event, given, packed, record, upsert, vector
from tests.harness.debezium import mapping as mapped
from tests.registry.framing import (
    CONTRACT,
    GONE,
    JSON,
    ONE,
    UNION,
    avro_record,
    codec,
    frame,
    framed,
)
from worker.events import Event, Record, Rejected, ReviewUpserted, decode
from worker.events.reasons import Reason
from worker.mapping import TopicMapping
from worker.registry.avro import AvroSchema
from worker.registry.client import SchemaTexts
from worker.registry.contract import INPUTS, TYPES, avro_schema, record_name
from worker.registry.framed import FramedCodec
from worker.registry.lookup import usable

CODEC = codec()
NAMES = {name: record_name(kind) for name, kind in TYPES.items()}


def read(value: bytes | None, key: bytes | None = b"e") -> Event | Rejected | Any:
    (found,) = decode([record(value, key)], LIMITS, CODEC)
    return found


def as_avro(event: dict[str, Any], identifier: int) -> bytes:
    """An event of the contract in Avro; its vectors are float32."""
    event = json.loads(json.dumps(event))
    name = NAMES[event.pop("type")]
    for sentence in event.get("sentences") or ():
        if isinstance(sentence, dict) and isinstance(sentence.get("embedding"), list):
            sentence["embedding"] = struct.pack(
                f"<{len(sentence['embedding'])}f", *sentence["embedding"]
            )
    if identifier == UNION:
        return framed(UNION, CONTRACT, (f"coversumm.{name}", event))
    schema = next(schema for schema in CONTRACT if schema["name"] == name)
    return framed(ONE[name], schema, event)


EVENTS = [
    upsert(),
    upsert(review_version=3, rating=4.5, language="en", occurred_at="2026-11-20T12:00:00Z"),
    upsert(text=None),
    given("Good.", vector([3, 4]), vector([0, 0], " "), embedding_model="tiny"),
    {"type": "review.deleted", "entity_id": "e", "review_id": "r", "reason": "spam"},
    {"type": "sentences.deleted", "entity_id": "e", "sentence_ids": ["r#0"]},
    {"type": "entity.deleted", "entity_id": "e"},
]


@pytest.mark.parametrize("identifier", [0, UNION])
@pytest.mark.parametrize("event", EVENTS)
def test_an_event_in_avro_is_the_event_in_json(event: dict[str, Any], identifier: int) -> None:
    other = read(as_avro(event, identifier))
    for plain in (json.dumps(event).encode(), frame(JSON) + json.dumps(event).encode()):
        decoded = read(plain)
        assert_same_event(decoded, other)


NAN = struct.pack("<2f", 1, float("nan"))


@pytest.mark.parametrize(
    ("value", "reason", "words"),
    [
        (as_avro(upsert(review_version=-1), 0), "bad_field", "review_version: "),
        (as_avro(upsert(occurred_at="2026-11-20"), 0), "bad_field", "occurred_at: "),
        (as_avro(upsert(rating=float("nan")), 0), "bad_field", "rating: nan"),
        (as_avro(upsert(entity_id="f"), 0), "key_mismatch", "key 'e'"),
        (as_avro(given(vector([1])), 0), "wrong_dimension", "sentences[0].embedding"),
        (as_avro(upsert(), 0) + b"!", "bad_wire_format", "1 bytes follow"),
        (frame(GONE), "bad_wire_format", "schema id 3: it is gone"),
        (frame(99), "bad_wire_format", "schema id 99: "),
        (b"\0\0\1", "bad_wire_format", "not a zero byte and a schema id"),
        (bytes(9), "bad_wire_format", "not a zero byte and a schema id"),
        (frame(JSON) + b"{", "bad_json", ""),
        (frame(JSON) + b'{"type":"no"}', "unknown_type", "type: "),
        (b"{", "bad_json", ""),
    ],
)
def test_what_is_refused_says_why(value: bytes, reason: str, words: str) -> None:
    found = read(value)
    assert isinstance(found, Rejected)
    assert found.reason == reason
    assert words in found.detail


# -- formats that are known and not read

PLAIN = avro_record("Plain", none="null", id="long", product="string")
"""The payload of one begins with a small number, as an id of four bytes does."""
MEMBERS = {"none": None, "id": 0, "product": "B00X"}
PAYLOAD = framed(5, PLAIN, MEMBERS)[5:]
GLOBAL_ID = (7).to_bytes(8, "big")
AS_CONFLUENT = "apicurio.registry.as-confluent=true and apicurio.registry.use-id=contentId at the"
NO_FRAME = b'{"none": null, "id": 0, "product": "B00X"}'


def in_header(part: str) -> tuple[bytes, list[tuple[str, bytes]]]:
    """A part of a record, and its headers, as confluent-kafka writes them with ids in headers."""
    headers: list[tuple[str, bytes]] = []
    conf = {"schema.id.serializer": header_schema_id_serializer}
    with SchemaRegistryClient.new_client({"url": "mock://ids"}) as client:
        write = AvroSerializer(client, json.dumps(PLAIN), conf=conf)
        raw = write(MEMBERS, SerializationContext("t", MessageField[part.upper()], headers))
    assert raw is not None
    assert [name for name, _ in headers] == [f"__{part}_schema_id"]
    return raw, headers


def apicurio(part: str, name: str) -> list[tuple[str, bytes | None]]:
    """Headers of Apicurio's serializers: `SerdeHeaders` of apicurio-registry-serde-common 2.6."""
    return [(f"apicurio.{part}.encoding", b"BINARY"), (f"apicurio.{part}.{name}", GLOBAL_ID)]


SET_IT = f"as Apicurio's: set {AS_CONFLUENT}"
FORMATS = [
    # DefaultIdHandler of apicurio-registry-serde-common 2.6
    lambda part: (
        b"\0" + GLOBAL_ID + PAYLOAD,
        [],
        f"has eight bytes, {SET_IT}",
    ),
    lambda part: (PAYLOAD, apicurio(part, "globalId"), f"header apicurio.{part}.globalId: set "),
    lambda part: (PAYLOAD[1:], apicurio(part, "contentId"), "headers.enabled=false, apicurio."),
    lambda part: (frame(9) + PAYLOAD, apicurio(part, "globalId"), AS_CONFLUENT[:40]),
    lambda part: (*in_header(part), f"{part}.schema.id.serializer=io.confluent.kafka.serializers."),
    # AWSSchemaRegistryConstants of aws-glue-schema-registry
    lambda part: (b"\3\0" + bytes(range(16)) + PAYLOAD, [], "a frame of AWS Glue"),
    lambda part: (b"\3\5" + bytes(range(16)) + b"x\x9c", [], "a frame of AWS Glue"),
]


def plain_rules(folder: Path, part: str) -> TopicMapping:
    """Rules of records of which one part is framed."""
    text = f"""
        [topic.t]
        {part} = "framed"
        [[topic.t.rule]]
        emit = "review.upserted"
        entity_id = "{"key." if part == "key" else ""}product"
        review_id = "{"key." if part == "key" else ""}id"
        text = {{ const = "Good." }}
        """
    return mapped(folder, text, "t").unframing(PLAIN_CODEC.unframe)


PLAIN_CODEC = FramedCodec({5: AvroSchema(json.dumps(PLAIN)), 9: AvroSchema(json.dumps(PLAIN))})


@pytest.mark.parametrize("part", ["key", "value"])
@pytest.mark.parametrize("format_of", FORMATS)
def test_a_format_that_is_not_read_is_named_with_what_to_set(
    tmp_path: Path, format_of: Any, part: str
) -> None:
    raw, headers, words = format_of(part)
    key, value = (raw, b"{}") if part == "key" else (b"B00X", raw)
    record = Record("t", 0, 7, 9, key, value, headers)
    by_rules = decode([record], LIMITS, mapping=plain_rules(tmp_path, part))
    by_contract = decode([record], LIMITS, PLAIN_CODEC) if part == "value" else []
    for found in (*by_rules, *by_contract):
        assert isinstance(found, Rejected)
        assert found.reason == "bad_wire_format"
        assert words in found.detail


@pytest.mark.parametrize(
    ("value", "headers"),
    [
        (framed(5, PLAIN, MEMBERS), []),
        (b"\0\0\0\0\5" + PAYLOAD, [("apicurio.value.encoding", b"BINARY")]),
        (NO_FRAME, apicurio("value", "globalId")),  # of a JSON Schema
        (framed(5, PLAIN, MEMBERS), apicurio("key", "globalId")),
    ],
)
def test_a_frame_before_zeros_and_json_with_an_id_in_a_header_are_read(
    tmp_path: Path, value: bytes, headers: list[tuple[str, bytes | None]]
) -> None:
    rules = plain_rules(tmp_path, "value")
    record = Record("t", 0, 7, 9, b"B00X", value, headers)
    (found,) = decode([record], LIMITS, mapping=rules)
    assert isinstance(found, ReviewUpserted)
    assert (found.entity_id, found.review_id) == ("B00X", "0")


def test_headers_that_no_rule_reads_may_be_unreadable(tmp_path: Path) -> None:
    """A bridge asks for those of framed records, which may have ids in them."""
    rules = plain_rules(tmp_path, "value")
    assert (rules.needs_headers, rules.reads_headers) == (True, False)
    unread = Rejected(Reason.BAD_FIELD, "headers: the name of one is not UTF-8")
    value = framed(5, PLAIN, MEMBERS)
    (body,) = rules.read_all(Record("t", 0, 7, 9, b"B00X", value, (), unread))
    assert body.entity_id == "B00X"


def test_a_record_of_another_name_that_had_the_contracts_is_one_of_the_contract() -> None:
    """Aliases of the record and of its fields."""
    other = avro_record("Row", reviewId="string", entity_id="string", body="string")
    other["aliases"] = ["shop.Old", "shop.ReviewUpserted"]
    other["fields"][0]["aliases"] = ["review_id"]
    other["fields"][2]["aliases"] = ["text", "entity_id"]
    schema = usable(SchemaTexts(json.dumps(other), "AVRO", ()))
    value = framed(5, other, {"reviewId": "r", "entity_id": "e", "body": "Good."})
    (found,) = decode([record(value)], LIMITS, FramedCodec({5: schema}))
    assert_same_event(found, read(json.dumps(upsert(text="Good.")).encode()))


def test_vectors_of_bytes_are_checked_as_others_are() -> None:
    schema = avro_schema(INPUTS[ReviewUpserted])
    event = {"entity_id": "e", "review_id": "r", "sentences": [{"text": "a", "embedding": NAN}]}
    found = read(framed(ONE["ReviewUpserted"], schema, event))
    assert isinstance(found, Rejected)
    assert found.reason == "bad_vector"


def test_labels_come_through() -> None:
    item = {"text": "a", "embedding": struct.pack("<2f", 1, 0), "labels": ["price"]}
    event = {"entity_id": "e", "review_id": "r", "sentences": [item, {**item, "labels": None}]}
    schema = avro_schema(INPUTS[ReviewUpserted])
    value = framed(ONE["ReviewUpserted"], schema, event)
    limits = replace(LIMITS, label_bits={"price": 4})
    (found,) = decode([record(value)], limits, CODEC)
    assert isinstance(found, ReviewUpserted)
    assert found.sentences is not None
    assert [sentence.label_bits for sentence in found.sentences] == [4, 0]


def test_a_record_of_another_name_names_the_remedy() -> None:
    other = avro_record("Row", id="long")
    mine = FramedCodec({5: AvroSchema(json.dumps(other))})
    (found,) = decode([record(framed(5, other, {"id": 1}))], LIMITS, mine)
    assert isinstance(found, Rejected)
    assert (found.reason, "'Row'" in found.detail) == ("unknown_type", True)
    assert "COVERSUMM_MAPPING" in found.detail


def test_any_record_is_read_through_a_mapping(tmp_path: Path) -> None:
    uuid = {"type": "string", "logicalType": "uuid"}
    part = avro_record("Part", text="string", labels={"type": "array", "items": "string"})
    row = avro_record(
        "Row",
        product="long",
        id=uuid,
        text=["null", "string"],
        at={"type": "long", "logicalType": "timestamp-millis"},
        parts={"type": "array", "items": part},
    )
    mine = FramedCodec({5: AvroSchema(json.dumps(row))})
    mapping = mapped(
        tmp_path,
        """
        [topic.t]
        key = "framed"
        value = "framed"
        [[topic.t.rule]]
        emit = "review.upserted"
        entity_id = "key.product"
        review_id = "id"
        text = "text"
        sentences = "parts"
        occurred_at = { path = "at", epoch = "ms" }
        """,
        "t",
    ).unframing(mine.unframe)
    plain = json.loads(json.dumps(row).replace('"logicalType"', '"was"'))
    parts = [{"text": "Good.", "labels": ["price"]}]
    value = {"product": 3, "id": "x", "text": None, "at": 1_763_640_000_000, "parts": parts}
    raw = framed(5, plain, value)
    (found,) = decode([Record("t", 0, 0, 0, raw, raw)], LIMITS, mapping=mapping)
    assert isinstance(found, ReviewUpserted)
    assert (found.entity_id, found.review_id) == ("3", "x")
    assert found.occurred_at == "2025-11-20T12:00:00Z"
    (bad,) = decode([Record("t", 0, 0, 0, raw, frame(99))], LIMITS, mapping=mapping)
    assert isinstance(bad, Rejected)
    assert bad.reason == "bad_wire_format"
    assert bad.detail.startswith("value: schema id 99")


def test_the_files_are_the_schemas() -> None:
    files = {path.name for path in Path(ROOT / "schemas" / "avro").iterdir()}
    assert files == {f"{name}.avsc" for name in TYPES}


def test_packed_vectors_are_the_same_in_both() -> None:
    event = given(vector(packed(3, 4)))
    raw = {"entity_id": "e", "review_id": "r"}
    item = {"text": "Good.", "embedding": struct.pack("<2f", 3, 4)}
    schema = avro_schema(INPUTS[ReviewUpserted])
    decoded = read(json.dumps(event).encode())
    other = read(framed(ONE["ReviewUpserted"], schema, {**raw, "sentences": [item]}))
    np.testing.assert_array_equal(decoded.sentences[0].vector, other.sentences[0].vector)
