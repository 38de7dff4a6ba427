"""Writers' schemas: what is read with them, and which are refused before anything is read."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.registry.framing import CONTRACT, avro_record, framed
from worker.events import Record
from worker.events.reasons import BadEvent
from worker.mapping.numbers import decimal
from worker.mapping.paths import Get, Roots, getter, parse_path
from worker.registry import avro
from worker.registry.avro import COUNTED_BYTES, MAX_CONTAINERS, MAX_DEPTH, AvroSchema, BadSchema

ROW = avro_record(
    "Row",
    id="long",
    changed=["null", {"type": "long", "logicalType": "timestamp-millis"}],
    price={"type": "bytes", "logicalType": "money"},
    state={"type": "enum", "name": "State", "symbols": ["ON", "OFF"]},
    hash={"type": "fixed", "name": "Hash", "size": 2},
    tags={"type": "map", "values": {"type": "array", "items": "string"}},
)
VALUE = {
    "id": 3,
    "changed": 1_763_640_000_000,
    "price": b"\x01",
    "state": "OFF",
    "hash": b"ab",
    "tags": {"a": ["b"]},
}
CHANGE = {**avro_record("Change", before=["null", ROW], after=["null", "Row"]), "namespace": "shop"}


def test_values_are_those_that_json_would_have_and_bytes() -> None:
    schema = AvroSchema(json.dumps(CHANGE))
    value = {"before": None, "after": VALUE}
    plain = json.loads(json.dumps(CHANGE).replace('"logicalType"', '"was"'))
    assert schema.read(framed(1, plain, value)) == ("Change", value)


def decimal_at(name: str) -> Get:
    """Reads a decimal as a mapping does."""
    path = parse_path(name)
    return decimal("rating", getter(path), path, None, False)


def test_decimals_are_read_by_their_scale() -> None:
    kinds = ({"type": "bytes"}, {"type": "fixed", "name": "F", "size": 70})
    scales = {"logicalType": "decimal", "precision": 4, "scale": 1}
    price, long = ({**kind, **scales} for kind in kinds)
    schema = AvroSchema(json.dumps(avro_record("R", price=["null", price], long=long)))
    plain = avro_record("R", price=["null", kinds[0]], long=kinds[1])
    for raw, value in ((b"\xd3", -4.5), (None, None), (b"", 0)):
        read = schema.read(framed(1, plain, {"price": raw, "long": bytes(70)}))[1]
        roots = Roots(read, None, {}, {}, None, Record("t", 0, 0, 0, None, None), {})
        assert decimal_at("price")(roots) == value
        with pytest.raises(BadEvent, match="too large"):
            decimal_at("long")(roots)


def test_names_come_from_referred_schemas_and_a_union_says_which() -> None:
    other = avro_record("Other", row="shop.Row")
    row = {**ROW, "namespace": "shop"}
    union = AvroSchema('["shop.Row", "Other"]', [json.dumps(row), json.dumps(other)])
    plain = [json.loads(json.dumps(row).replace('"logicalType"', '"was"')), other]
    assert union.read(framed(1, plain, ("Other", {"row": VALUE}))) == ("Other", {"row": VALUE})
    assert union.read(framed(1, plain, ("shop.Row", VALUE))) == ("Row", VALUE)


def nested(depth: int) -> Any:
    schema: Any = "int"
    for _ in range(depth):
        schema = {"type": "array", "items": schema}
    return schema


DOUBLING = [
    avro_record(
        f"R{level}", **dict.fromkeys("abcdefghij", f"R{level + 1}" if level < 8 else "null")
    )
    for level in range(9)
]
CHAIN = [
    avro_record(f"R{level}", a=f"R{level + 1}" if level < 2 * MAX_DEPTH else "int")
    for level in range(2 * MAX_DEPTH + 1)
]
FLAG = avro_record("Flag", on="boolean")
MANY_NAMES = {"name": "on", "type": "boolean", "aliases": [f"a{n}" for n in range(30)]}
REFUSED = [
    (avro_record("Node", next="Node"), "Node contains itself, and may take too few bytes"),
    ([avro_record("A", b="B"), avro_record("B", a="A")], "A contains itself"),
    (
        avro_record("Node", next=["null", "Node"], **{f"f{n}": "null" for n in range(16)}),
        "Node contains itself",
    ),
    ({"type": "array", "items": {**FLAG, "fields": [MANY_NAMES]}}, "too few bytes"),
    ({**FLAG, "fields": [{**MANY_NAMES, "aliases": "a"}]}, "not Avro"),
    ({"type": "array", "items": "null"}, "too few bytes"),
    ({"type": "array", "items": avro_record("Empty")}, "too few bytes"),
    ({"type": "array", "items": {"type": "fixed", "name": "F", "size": 0}}, "too few bytes"),
    (
        {"type": "map", "values": avro_record("N", **{f"f{n}": "null" for n in range(40)})},
        "too few bytes",
    ),
    (DOUBLING, "more than 10000 values"),
    (nested(MAX_DEPTH + 1), "deeper"),
    (CHAIN, "deeper"),
    ("Missing", "no type 'Missing'"),
    ([], "not a type"),
    (7, "not a type"),
    ({}, "not a type"),
    ({"type": "record"}, "no name"),
    (avro_record("R", a="int") | {"fields": [{"type": "int"}]}, "not Avro"),
    ({"type": "enum", "name": "E"}, "not Avro"),
    ({"type": "fixed", "name": "F", "size": "x"}, "not Avro"),
]


@pytest.mark.parametrize(("schema", "words"), REFUSED)
def test_a_schema_is_refused(schema: Any, words: str) -> None:
    with pytest.raises(BadSchema, match=words):
        AvroSchema(json.dumps(schema))


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, b"\xff".decode("latin-1")])
def test_what_is_no_json_is_refused(text: str) -> None:
    with pytest.raises(BadSchema, match="not JSON"):
        AvroSchema(text)


def test_a_nullable_record_of_many_fields_may_be_an_item() -> None:
    """The bound is on what takes no bytes, not on large records."""
    wide = avro_record("Wide", **{f"f{n}": ["null", "string"] for n in range(200)})
    AvroSchema(json.dumps({"type": "array", "items": ["null", wide]}))


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (b"\0\0\0\0\1", "EOFError"),
        (b"\0\0\0\0\1\x08ab", "EOFError"),
        (b"\0\0\0\0\1\x04\xff\xfe", "UnicodeDecodeError"),
        (b"\0\0\0\0\1\x04ab!", "1 bytes follow"),
        (b"\0\0\0\0\1\x03ab", "EOFError"),  # a negative length
        (b"\0\0\0\0\1" + b"\xff" * 9 + b"\x01ab", "EOFError"),  # of 2**62 bytes
    ],
)
def test_bytes_that_do_not_fit_are_refused(value: bytes, words: str) -> None:
    with pytest.raises(BadEvent) as refused:
        AvroSchema('"string"').read(value)
    assert refused.value.rejected.reason == "bad_wire_format"
    assert words in refused.value.rejected.detail


def test_a_count_without_items_takes_no_memory() -> None:
    """Counts of 2**60 items, of which there are none."""
    many = b"\0\0\0\0\1" + b"\x80" * 8 + b"\x20"
    for schema in ({"type": "array", "items": "string"}, {"type": "map", "values": "int"}):
        with pytest.raises(BadEvent):
            AvroSchema(json.dumps(schema)).read(many)


BOMBS = [
    avro_record("Flag", **{f"f{n}": "null" for n in range(14)}, on="boolean"),
    avro_record("A", a=avro_record("B", b=avro_record("C", c="boolean"))),
    {"type": "array", "items": "long"},
    avro_record("M", m=["null", {"type": "map", "values": "long"}], n="null"),
]


@pytest.mark.parametrize("item", BOMBS)
def test_a_value_of_more_containers_than_memory_may_take_is_refused(item: Any) -> None:
    """Each byte of these would take hundreds of bytes of memory."""
    schema = avro_record("T", some={"type": "array", "items": item}, rest="bytes")
    block = b"\xbf\x01" + b"\xc0\x01" + bytes(96)  # minus 96 items, 96 bytes, the items
    bomb = b"\0\0\0\0\1" + block * (MAX_CONTAINERS // 96 + 1) + b"\0\0"
    assert len(bomb) > COUNTED_BYTES
    with pytest.raises(BadEvent, match="more than 250,000 records, arrays and maps"):
        AvroSchema(json.dumps(schema)).read(bomb)


def test_a_long_value_of_few_containers_is_read() -> None:
    schema = avro_record("T", floats={"type": "array", "items": "float"}, text="string")
    value = {"floats": [0.5] * MAX_CONTAINERS * 2, "text": "a" * COUNTED_BYTES}
    assert AvroSchema(json.dumps(schema)).read(framed(1, schema, value)) == ("T", value)


def test_a_number_of_more_than_64_bits_is_refused() -> None:
    """Its value would take time that grows with the square of its length."""
    schema = avro_record("T", some={"type": "array", "items": "long"})
    with pytest.raises(BadEvent, match="IndexError"):
        AvroSchema(json.dumps(schema)).read(b"\0\0\0\0\1\x02" + b"\xff" * 2**17 + b"\1\0")


def test_containers_are_counted_where_the_value_has_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """The count goes through a value as decoding does: one fewer is refused, the same is read."""
    plain = json.loads(json.dumps(CHANGE).replace('"logicalType"', '"was"'))
    tags = {"a": ["b", "c"], "d": []}
    value = {"before": {**VALUE, "tags": tags}, "after": VALUE}
    monkeypatch.setattr(avro, "COUNTED_BYTES", 0)
    schema = AvroSchema(json.dumps([CHANGE, "double", avro_record("E", e="shop.Row")]))
    union = [plain, "double", avro_record("E", e="shop.Row")]
    monkeypatch.setattr(avro, "MAX_CONTAINERS", 8)
    for branch in (value, 0.5):
        assert schema.read(framed(1, union, branch))[1] == branch
    monkeypatch.setattr(avro, "MAX_CONTAINERS", 7)
    with pytest.raises(BadEvent, match="more than 7 records"):
        schema.read(framed(1, union, value))


TREE = avro_record(
    "Comment",
    text="string",
    replies={"type": "array", "items": "Comment"},
    first=["null", "Comment"],
    named={"type": "map", "values": "Comment"},
)
THREAD = avro_record("Thread", id="long", top="Comment", rest=["Comment", "string"])
THREAD["fields"][1]["type"] = TREE


def comment(depth: int) -> dict[str, Any]:
    """Nested so deep, in each of the three ways in turn."""
    found: dict[str, Any] = {"text": "a", "replies": [], "first": None, "named": {}}
    for level in range(1, depth):
        inner = [{"replies": [found]}, {"first": found}, {"named": {"b": found}}][level % 3]
        found = {"text": "a", "replies": [], "first": None, "named": {}, **inner}
    return found


def test_values_of_a_recursive_schema_are_read_as_deep_as_others() -> None:
    schema = AvroSchema(json.dumps(THREAD))
    depth = 1 + (MAX_DEPTH - 3) // 5 * 3  # of 3 levels one is in an array and one in a map
    value = {"id": 3, "top": comment(depth), "rest": "none"}
    assert schema.read(framed(1, THREAD, value)) == ("Thread", value)
    for deeper in (depth + 3, 400):
        with pytest.raises(BadEvent, match="nested deeper than 100 levels"):
            schema.read(framed(1, THREAD, {**value, "rest": comment(deeper)}))


def test_values_of_a_recursive_schema_are_bounded_before_they_are_decoded() -> None:
    """By depth, where two bytes are a level, and by their number."""
    node = AvroSchema(json.dumps(avro_record("Node", next=["null", "Node"])))
    assert node.read(b"\0\0\0\0\1" + b"\2" * (MAX_DEPTH - 1) + b"\0")[0] == "Node"
    for levels in (MAX_DEPTH, 5_000_000):
        with pytest.raises(BadEvent, match="nested deeper than 100 levels"):
            node.read(b"\0\0\0\0\1" + b"\2" * levels + b"\0")
    wide = AvroSchema(json.dumps(avro_record("W", some={"type": "array", "items": "W"})))
    assert wide.read(b"\0\0\0\0\1\4" + bytes(3))[1] == {"some": [{"some": []}, {"some": []}]}
    few = (MAX_CONTAINERS // 2 + 1) * 2  # twice as many bytes as records, and each has an array
    with pytest.raises(BadEvent, match="more than 250,000"):
        wide.read(b"\0\0\0\0\1" + b"\x80\x89\x7a" + bytes(few))


def test_a_field_is_read_under_its_aliases_too() -> None:
    """Wherever the record is. A field's own name comes first."""
    part = avro_record("Part", label="string")
    part["fields"][0]["aliases"] = ["name"]
    row = avro_record("Row", body="string", id="long", parts={"type": "array", "items": part})
    row["fields"][0]["aliases"] = ["text", "id"]
    row["fields"][1]["aliases"] = ["number", "text"]
    change = avro_record("Change", after=["null", row], by={"type": "map", "values": "Part"})
    labelled = {"label": "a"}
    value = {"after": {"body": "b", "id": 3, "parts": [labelled]}, "by": {"x": labelled}}
    both = {**labelled, "name": "a"}
    wanted = {"body": "b", "text": "b", "id": 3, "number": 3, "parts": [both]}
    schema = AvroSchema(json.dumps(change))
    assert schema.read(framed(1, change, value))[1] == {"after": wanted, "by": {"x": both}}


@given(st.binary(max_size=200), st.sampled_from([CHANGE, *CONTRACT, CONTRACT, THREAD]))
def test_any_bytes_are_read_or_refused(payload: bytes, schema: Any) -> None:
    reader = AvroSchema(json.dumps(schema))
    with suppress(BadEvent):
        reader.read(b"\0\0\0\0\1" + payload)
