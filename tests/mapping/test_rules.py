"""What rules make of records: fields, roots, forms of keys, tombstones, CloudEvents, rejections."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from tests.harness.debezium import TOPIC, change, key, mapping, row
from tests.harness.limits import event_limits
from worker.events import (
    EntityDeleted,
    GivenSentence,
    Ignored,
    Record,
    Rejected,
    ReviewDeleted,
    ReviewUpserted,
    SentencesDeleted,
    decode,
)

LIMITS = event_limits()
UPSERT = """
[topic.t]
{head}
[[topic.t.rule]]
{when}
emit = "review.upserted"
entity_id = "product"
review_id = "id"
{fields}
"""


def taken(
    folder: Path,
    value: Any,
    fields: str = 'text = "body"',
    when: str = "",
    head: str = "",
    key: bytes | None = b"B0",
    headers: tuple[tuple[str, bytes], ...] = (),
) -> Any:
    """The event, rejection or Ignored of a record of one rule."""
    rules = mapping(folder, UPSERT.format(head=head, when=when, fields=fields), "t")
    raw = value if value is None or isinstance(value, bytes) else json.dumps(value).encode()
    (found,) = decode([Record("t", 0, 7, 0, key, raw, headers)], LIMITS, mapping=rules)
    return found


def review(**members: Any) -> dict[str, Any]:
    return {"product": "B0", "id": "r", "body": "Good.", **members}


# -- Debezium


def test_a_table_captured_by_debezium(tmp_path: Path) -> None:
    rules = mapping(tmp_path)
    one = row(5, 3)
    hidden = row(5, 3, status="hidden")
    values = [
        change("r", one, 10),
        change("c", row(6, 3, status="draft"), 11),
        change("u", {**one, "body": None}, 12, schemas=False),
        change("u", hidden, 13),
        change("d", one, 14),
        None,
    ]
    records = [Record(TOPIC, 0, i, 0, key(one), value) for i, value in enumerate(values)]
    snapshot, draft, edited, unpublished, deleted, tombstone = decode(
        records, LIMITS, mapping=rules
    )
    assert snapshot == ReviewUpserted(
        "3", "5", 10, 4.0, "2025-11-20T12:00:00.000005Z",
        "A title. The words of 5. Good value.", None,
    )  # fmt: skip
    assert draft is tombstone is Ignored.BY_MAPPING
    assert isinstance(edited, ReviewUpserted)
    assert (edited.text, edited.review_version) == ("A title", 12)
    assert unpublished == ReviewDeleted("3", "5", 13)
    assert deleted == ReviewDeleted("3", "5", 14)


def test_a_column_that_debezium_left_out_does_not_become_the_text(tmp_path: Path) -> None:
    for fields in ('text = "body"', 'text = { join = ["body"] }'):
        found = taken(tmp_path, review(body="__debezium_unavailable_value"), fields)
        assert isinstance(found, Rejected)
        assert "REPLICA IDENTITY FULL" in found.detail


# -- fields


@pytest.mark.parametrize(
    ("fields", "members", "name", "value"),
    [
        ('text = "a.b.c"', {"a": {"b": {"c": "Deep."}}}, "text", "Deep."),
        ("text = \"'a.b'.c\"", {"a.b": {"c": "Dot."}}, "text", "Dot."),
        ("text = \"'key'.c\"", {"key": {"c": "Not the key."}}, "text", "Not the key."),
        ('text = "a.1.b"', {"a": [{}, {"b": "Second."}]}, "text", "Second."),
        ('text = ["no", "body"]', {}, "text", "Good."),
        ('text = ["nil", { const = "-" }]', {"nil": None}, "text", "-"),
        ('text = { join = ["a", "nil", "blank", "n"] }',
         {"a": "A", "nil": None, "blank": " ", "n": 5}, "text", "A 5"),
        ('text = "nil"', {"nil": None}, "text", None),
        ('text = "body"\nlanguage = { const = "en" }', {}, "text", "Good."),
        ('text = "body"\nrating = "stars"', {"stars": 4}, "rating", 4.0),
        ('text = "body"\nrating = "stars"', {"stars": "4.5"}, "rating", 4.5),
        ('text = "body"\nrating = "stars"', {}, "rating", None),
        ('text = "body"\nreview_version = "v"', {"v": 2**63 - 1}, "review_version", 2**63 - 1),
        ('text = "body"\nreview_version = "v"', {"v": "42"}, "review_version", 42),
        ('text = "body"', {"id": 81}, "review_id", "81"),
        ('text = "body"', {"id": -(10**18)}, "review_id", "-1000000000000000000"),
        ('sentences = "parts"', {"parts": ["One.", {"text": "Two."}]}, "sentences",
         (GivenSentence("One.", None), GivenSentence("Two.", None))),
        ('text = "body"\noccurred_at = "at"', {"at": "2026-11-20T12:00:00Z"}, "occurred_at",
         "2026-11-20T12:00:00Z"),
        ('text = "body"\noccurred_at = "at"', {"at": "2026-11-20 12:00"}, "occurred_at",
         "2026-11-20T12:00:00Z"),
        ('text = "body"\noccurred_at = { path = "at", epoch = "s" }', {"at": 1763640000},
         "occurred_at", "2025-11-20T12:00:00Z"),
        ('text = "body"\noccurred_at = { path = "at", epoch = "s" }', {"at": 1763640000.25},
         "occurred_at", "2025-11-20T12:00:00.250Z"),
        ('text = "body"\noccurred_at = { path = "at", epoch = "ms" }', {"at": "1763640000001"},
         "occurred_at", "2025-11-20T12:00:00.001Z"),
        ('text = "body"\noccurred_at = { path = "at", epoch = "us" }', {"at": 1763640000000001},
         "occurred_at", "2025-11-20T12:00:00.000001Z"),
        ('text = "body"\noccurred_at = { path = "at", epoch = "ns" }', {"at": 1763640000000001999},
         "occurred_at", "2025-11-20T12:00:00.000001Z"),
        ('text = "body"\noccurred_at = { path = "at", epoch = "d" }', {"at": 20412},
         "occurred_at", "2025-11-20T00:00:00Z"),
        ('text = "body"\noccurred_at = ["no", { path = "at", epoch = "ms" }]', {"at": -1},
         "occurred_at", "1969-12-31T23:59:59.999Z"),
    ],
)  # fmt: skip
def test_a_field(tmp_path: Path, fields: str, members: Any, name: str, value: Any) -> None:
    found = taken(tmp_path, review(**members), fields)
    assert isinstance(found, ReviewUpserted), found
    assert getattr(found, name) == value


@pytest.mark.parametrize(
    ("fields", "members", "part"),
    [
        ('text = "bodi"', {}, "text: the record has no bodi"),
        ('text = ["x", "y.z"]', {"y": {}}, "text: the record has no x, y.z"),
        ('text = "body"', {"body": 5}, "text: Expected"),
        ('text = "body"', {"id": None}, "review_id: nothing at id"),
        ('text = "body"', {"id": 1.5}, "review_id: Expected"),
        ('text = "body"', {"id": True}, "review_id: Expected"),
        ('text = "body"', {"id": ""}, "review_id"),
        ('text = "body"', {"product": {"id": 5}}, "entity_id: Expected"),
        ('text = { join = ["x"] }', {"x": 1.5}, "text: a part is neither"),
        ('text = "body"\nrating = "x"', {"x": "good"}, "rating: Expected"),
        ('text = "body"\nrating = "x"', {"x": True}, "rating: Expected"),
        ('text = "body"\nreview_version = "x"', {"x": 1.0}, "review_version: Expected"),
        ('text = "body"\nreview_version = "x"', {"x": -1}, "review_version: Expected"),
        ('text = "body"\nreview_version = "x"', {"x": 2**63}, "review_version: Expected"),
        ('text = "body"\noccurred_at = "x"', {"x": 1763640000}, "occurred_at: a number needs"),
        ('text = "body"\noccurred_at = "x"', {"x": "1763640000"}, "occurred_at: '1763640000'"),
        ('text = "body"\noccurred_at = "x"', {"x": "03/04/2019"}, "with one meaning"),
        ('text = "body"\noccurred_at = "x"', {"x": "2026-02-30T12:00:00Z"}, "with one meaning"),
        ('text = "body"\noccurred_at = { path = "x", epoch = "s" }', {"x": 10**15}, "not a date"),
        ('text = "body"\noccurred_at = { path = "x", epoch = "s" }', {"x": 10**300}, "not a date"),
        ('text = "body"\noccurred_at = { path = "x", epoch = "s" }', {"x": True}, "a number of s"),
        ('text = "body"\noccurred_at = { path = "x", epoch = "s" }', {"x": "soon"}, "not a number"),
        ('sentences = "x"', {"x": "One. Two."}, "sentences: Expected"),
        ('sentences = "x"', {"x": [5]}, "sentences[0]: Expected"),
        ('sentences = "x"', {"x": [{"text": "A.", "embedding": [1, 0]}]}, "2 numbers"),
        ('text = "body"', {"body": "x" * 300_000}, "text: 300000 bytes"),
    ],
)  # fmt: skip
def test_what_does_not_fit_names_the_rule_and_the_field(
    tmp_path: Path, fields: str, members: Any, part: str
) -> None:
    found = taken(tmp_path, review(**members), f'name = "mine"\n{fields}')
    assert isinstance(found, Rejected), found
    assert found.detail.startswith("rule 'mine': ")
    assert part in found.detail


def test_an_id_is_joined_only_if_it_has_all_of_its_parts(tmp_path: Path) -> None:
    text = """
        [topic.t]
        [[topic.t.rule]]
        emit = "entity.deleted"
        entity_id = { join = ["shop", "product"], with = ":" }
        """
    rules = mapping(tmp_path, text, "t")
    values = [b'{"shop": "de", "product": 5}', b'{"shop": null, "product": 5}']
    records = [Record("t", 0, i, 0, None, value) for i, value in enumerate(values)]
    whole, half = decode(records, LIMITS, mapping=rules)
    assert whole == EntityDeleted("de:5")
    assert isinstance(half, Rejected)
    assert half.detail == "rule 1: entity_id: nothing at shop, product"


def test_the_other_events(tmp_path: Path) -> None:
    text = """
        [topic.t]
        [[topic.t.rule]]
        when.kind = "cut"
        emit = "sentences.deleted"
        entity_id = "product"
        sentence_ids = "ids"
        [[topic.t.rule]]
        when.kind = "gone"
        emit = "entity.deleted"
        entity_id = "product"
        """
    rules = mapping(tmp_path, text, "t")
    values = [{"kind": "cut", "product": 5, "ids": ["a#0"]}, {"kind": "gone", "product": 5}, {}]
    records = [Record("t", 0, i, 0, b"5", json.dumps(v).encode()) for i, v in enumerate(values)]
    cut, gone, other = decode(records, LIMITS, mapping=rules)
    assert cut == SentencesDeleted("5", ["a#0"])
    assert gone == EntityDeleted("5")
    assert other == Rejected(other.reason, "no rule of the mapping applies")
    assert other.reason == "unknown_type"


# -- conditions


@pytest.mark.parametrize(
    ("when", "members", "applies"),
    [
        ("when = { a = 1 }", {"a": 1}, True),
        ("when = { a = 1 }", {"a": 1.0}, True),
        ("when = { a = 1 }", {"a": True}, False),
        ("when = { a = true }", {"a": True}, True),
        ("when = { a = true }", {"a": 1}, False),
        ("when = { a = [1, 'x'] }", {"a": "x"}, True),
        ("when = { a = 'x' }", {"a": ["x"]}, False),
        ("when = { a = 'x' }", {"a": {"x": 1}}, False),
        ("when = { a = 'x' }", {}, False),
        ("when = { 'a.b' = 'x' }", {"a": {"b": "x"}}, True),
        ("when = { a.b = 'x' }", {"a": {"b": "x"}}, True),
        ("when = { a = 1, b = 2 }", {"a": 1, "b": 3}, False),
        ("when_present = ['a']", {"a": None}, False),
        ("when_present = ['a']", {"a": False}, True),
        ("when_present = ['a']", {}, False),
        ("when = { key = 'B0' }", {}, True),
        ("when = { 'header:kind' = 'review' }", {}, True),
        ("when = { 'header:kind' = 'x' }", {}, False),
    ],
)
def test_a_condition(tmp_path: Path, when: str, members: Any, applies: bool) -> None:
    headers = (("kind", b"other"), ("kind", b"review"))  # of one name the last counts
    found = taken(tmp_path, review(**members), when=when, headers=headers)
    assert isinstance(found, ReviewUpserted if applies else Rejected)


def test_the_first_rule_that_matches_decides(tmp_path: Path) -> None:
    text = """
        [topic.t]
        [[topic.t.rule]]
        when_present = ["deleted_at"]
        emit = "review.deleted"
        entity_id = "product"
        review_id = "id"
        [[topic.t.rule]]
        emit = "review.upserted"
        entity_id = "product"
        review_id = "id"
        text = "body"
        """
    rules = mapping(tmp_path, text, "t")
    values = [review(deleted_at=None), review(deleted_at="now")]
    records = [Record("t", 0, i, 0, b"B0", json.dumps(v).encode()) for i, v in enumerate(values)]
    kinds = [type(one) for one in decode(records, LIMITS, mapping=rules)]
    assert kinds == [ReviewUpserted, ReviewDeleted]


# -- keys, values, tombstones

FROM_KEY = """
[topic.t]
{head}
[[topic.t.rule]]
emit = "entity.deleted"
entity_id = "{path}"
"""


@pytest.mark.parametrize(
    ("head", "path", "key", "entity"),
    [
        ("", "key", "Käse".encode(), "Käse"),
        ('key = "json"', "key", b'"B0"', "B0"),
        ('key = "json"', "key", b"7", "7"),
        ('key = "json"', "key.id", b'{"id": 7}', "7"),
        ('key = "json"\nunwrap = "payload"', "key.id", b'{"payload": {"id": 7}}', "7"),
        ('key = "json"\nunwrap = "payload"', "key.id", b'{"id": 7}', "7"),
        ('key = "framed"', "key.id", b'\0\0\0\0\x05{"id": 7}', "7"),
    ],
)
def test_a_key(tmp_path: Path, head: str, path: str, key: bytes, entity: str) -> None:
    rules = mapping(tmp_path, FROM_KEY.format(head=head, path=path), "t")
    (found,) = decode([Record("t", 0, 0, 0, key, b"{}")], LIMITS, mapping=rules)
    assert found == EntityDeleted(entity)


@pytest.mark.parametrize(
    ("head", "key", "reason", "part"),
    [
        ("", b"\xff", "bad_field", "key: not UTF-8"),
        ("", None, "bad_field", "rule 1: entity_id: nothing at key"),
        ('key = "json"', b"{", "bad_json", "key: "),
        ('key = "json"', b'{"id": 7}', "bad_field", "entity_id: Expected"),
        ('key = "framed"', b'{"id": 7}', "bad_wire_format", "key: "),
        ('key = "framed"', b"\0\0\0\0", "bad_wire_format", "key: "),
        ('key = "framed"', b"\0\0\0\0\x05\x02ab", "bad_json", "key: "),
    ],
)
def test_a_wrong_key(tmp_path: Path, head: str, key: bytes | None, reason: str, part: str) -> None:
    rules = mapping(tmp_path, FROM_KEY.format(head=head, path="key"), "t")
    (found,) = decode([Record("t", 0, 0, 0, key, b"{}")], LIMITS, mapping=rules)
    assert isinstance(found, Rejected)
    assert found.reason == reason
    assert part in found.detail


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"", "bad_json"),
        (b"{", "bad_json"),
        (b"\xff", "bad_json"),
        (b'{"id": "\xff"}', "bad_json"),
        (b'{"n": ' + b"9" * 5000 + b"}", "bad_json"),
        (b"[" * 100_000, "bad_json"),
        (b"[1]", "bad_field"),
        (b'{"product": "B0", "id": "\\ud800", "body": "x"}', "bad_json"),
        (b"x" * 5_000_000, "too_large"),
    ],
)
def test_a_value_that_is_no_object(tmp_path: Path, value: bytes, reason: str) -> None:
    found = taken(tmp_path, value)
    assert isinstance(found, Rejected)
    assert found.reason == reason


def test_a_framed_value(tmp_path: Path) -> None:
    raw = json.dumps(review()).encode()
    assert isinstance(taken(tmp_path, b"\0\0\0\0\1" + raw, head='value = "framed"'), ReviewUpserted)
    found = taken(tmp_path, raw, head='value = "framed"')
    assert isinstance(found, Rejected)
    assert found.reason == "bad_wire_format"


@pytest.mark.parametrize(
    ("head", "key", "becomes"),
    [
        ("", b"B0", EntityDeleted("B0")),
        ('tombstone = "ignore"', b"B0", Ignored.BY_MAPPING),
        ('unwrap = "payload"', b"B0", Ignored.BY_MAPPING),
        ('unwrap = "payload"\ntombstone = "entity.deleted"', b"B0", EntityDeleted("B0")),
        ('key = "json"', b'"B0"', EntityDeleted("B0")),
        ('key = "json"\ntombstone = { entity_id = "key.p" }', b'{"p": 7}', EntityDeleted("7")),
    ],
)
def test_a_tombstone(tmp_path: Path, head: str, key: bytes, becomes: Any) -> None:
    assert taken(tmp_path, None, head=head, key=key) == becomes


def test_a_tombstone_without_an_entity_is_rejected(tmp_path: Path) -> None:
    found = taken(tmp_path, None, head='key = "json"', key=b'{"p": 7}')
    assert isinstance(found, Rejected)
    assert found.detail.startswith("tombstone: entity_id: ")
    assert isinstance(taken(tmp_path, None, key=None), Rejected)


def test_a_payload_of_null_is_a_tombstone(tmp_path: Path) -> None:
    assert taken(tmp_path, {"payload": None}, head='unwrap = "payload"') is Ignored.BY_MAPPING


# -- CloudEvents

CLOUD = """
[topic.t]
[[topic.t.rule]]
when = { "ce.type" = "com.shop.review.updated" }
emit = "review.upserted"
entity_id = "ce.subject"
review_id = "reviewId"
text = "body"
occurred_at = "ce.time"
[[topic.t.rule]]
when = { "ce.type" = "com.shop.review.deleted" }
emit = "review.deleted"
entity_id = "ce.subject"
review_id = ["reviewId", "ce.reviewid"]
"""
ATTRIBUTES = {
    "specversion": "1.0",
    "id": "1",
    "source": "/shop",
    "type": "com.shop.review.updated",
    "subject": "B0",
    "time": "2026-11-20T12:00:00Z",
}
DATA = {"reviewId": "r", "body": "Good."}


def cloud(folder: Path, value: Any, attributes: dict[str, str], **headers: str) -> Any:
    rules = mapping(folder, CLOUD, "t")
    assert rules.needs_headers
    named = {f"ce_{name}": text for name, text in attributes.items()}
    named |= {name.replace("_", "-"): text for name, text in headers.items()}
    pairs = tuple((name, text.encode()) for name, text in named.items())
    raw = None if value is None else json.dumps(value).encode()
    (found,) = decode([Record("t", 0, 0, 0, b"B0", raw, pairs)], LIMITS, mapping=rules)
    return found


def test_both_modes_of_cloudevents_mean_the_same(tmp_path: Path) -> None:
    packed = base64.b64encode(json.dumps(DATA).encode()).decode()
    events = [
        cloud(tmp_path, DATA, ATTRIBUTES),
        cloud(tmp_path, {**ATTRIBUTES, "data": DATA}, {}),
        cloud(tmp_path, {**ATTRIBUTES, "data_base64": packed}, {}),
        cloud(
            tmp_path,
            {**ATTRIBUTES, "data": DATA},
            {"specversion": "1.0"},
            content_type="application/cloudevents+json; charset=UTF-8",
        ),
    ]
    assert isinstance(events[0], ReviewUpserted)
    assert events == [events[0]] * 4
    assert events[0].occurred_at == ATTRIBUTES["time"]


def test_an_event_without_data_is_no_tombstone(tmp_path: Path) -> None:
    deleted = {**ATTRIBUTES, "type": "com.shop.review.deleted", "reviewid": "r"}
    assert cloud(tmp_path, None, deleted) == ReviewDeleted("B0", "r")
    assert cloud(tmp_path, deleted, {}) == ReviewDeleted("B0", "r")
    assert cloud(tmp_path, None, {}) == EntityDeleted("B0")


def test_what_is_no_cloudevent_is_rejected(tmp_path: Path) -> None:
    for value in (DATA, {**ATTRIBUTES, "type": "other"}):
        assert isinstance(cloud(tmp_path, value, {}), Rejected)
    for packed in ("%", "é", "e30", "W10=="):
        rejected = cloud(tmp_path, {**ATTRIBUTES, "data_base64": packed}, {})
        assert rejected.reason == "bad_json"
        assert "data_base64" in rejected.detail


def test_only_what_the_rules_read_is_decoded(tmp_path: Path) -> None:
    assert not mapping(tmp_path).needs_headers
    assert isinstance(taken(tmp_path, review(), key=b"\xff"), ReviewUpserted)
    with_header = 'text = "header:words"'
    headers = (("words", b"From a header."),)
    assert taken(tmp_path, review(), with_header, headers=headers).text == "From a header."
    bad = taken(tmp_path, review(), with_header, headers=(("words", b"\xff"),))
    assert bad.detail == "rule 1: header:words: not UTF-8"
