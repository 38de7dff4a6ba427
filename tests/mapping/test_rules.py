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
    ReviewDetails,
    ReviewUpserted,
    SentencesDeleted,
    decode,
)
from worker.events.notes import LEFT_OUT, NOTES
from worker.events.reasons import BadEvent

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
    (found,) = decode([Record("t", 0, 7, 9, key, raw, headers)], LIMITS, mapping=rules)
    return found


def review(**members: Any) -> dict[str, Any]:
    return {"product": "B0", "id": "r", "body": "Good.", **members}


# -- Debezium


def test_a_table_captured_by_debezium(tmp_path: Path) -> None:
    rules = mapping(tmp_path)
    review = row(5, 3)
    hidden = row(5, 3, status="hidden")
    values = [
        change("r", review, 10),
        change("c", row(6, 3, status="draft"), 11),
        change("u", {**review, "body": None}, 12, schemas=False),
        change("u", hidden, 13),
        change("d", review, 14),
        None,
    ]
    records = [Record(TOPIC, 0, i, 0, key(review), value) for i, value in enumerate(values)]
    snapshot, draft, edited, unpublished, deleted, tombstone = decode(
        records, LIMITS, mapping=rules
    )
    assert snapshot == ReviewUpserted(
        "3", "5", 10, "A title. The words of 5. Good value.", None,
        ReviewDetails(4.0, "2025-11-20T12:00:00.000005Z"),
    )  # fmt: skip
    assert draft is tombstone is Ignored.BY_MAPPING
    assert isinstance(edited, ReviewUpserted)
    assert (edited.text, edited.review_version) == ("A title", 12)
    assert unpublished == ReviewDeleted("3", "5", 13)
    assert deleted == ReviewDeleted("3", "5", 14)


LEFT_OUT_BY_DEBEZIUM = "__debezium_unavailable_value"


@pytest.mark.parametrize(
    ("fields", "members"),
    [
        ('text = "body"', {"body": LEFT_OUT_BY_DEBEZIUM}),
        ('text = { join = ["body"] }', {"body": LEFT_OUT_BY_DEBEZIUM}),
        ('text = { join = ["parts"] }', {"parts": ["One.", LEFT_OUT_BY_DEBEZIUM]}),
        ('sentences = "parts"', {"parts": ["One.", LEFT_OUT_BY_DEBEZIUM]}),
        (
            'sentences = "parts"',
            {"parts": [{"text": LEFT_OUT_BY_DEBEZIUM, "embedding": [0.5, 1.0]}]},
        ),
        ('text = "body"\nlanguage = "lang"', {"lang": LEFT_OUT_BY_DEBEZIUM}),
        ('text = "body"\nverified = "lang"', {"lang": LEFT_OUT_BY_DEBEZIUM}),
        ('text = "body"\nauthor_id = "lang"', {"lang": LEFT_OUT_BY_DEBEZIUM}),
        ('text = "body"', {"id": LEFT_OUT_BY_DEBEZIUM}),
        (
            'text = "body"\nrating = { path = "stars", decimal = 1 }',
            {"stars": LEFT_OUT_BY_DEBEZIUM},
        ),
        ('text = "body"\nrating = "more.stars"', {"more": LEFT_OUT_BY_DEBEZIUM}),
        ('text = "body"\nrating = "more.a.stars"', {"more": LEFT_OUT_BY_DEBEZIUM}),
        (
            'text = "body"\nrating = "more.stars"',
            {"more": {LEFT_OUT_BY_DEBEZIUM: LEFT_OUT_BY_DEBEZIUM}},
        ),
        ('text = "body"\nlanguage = "parts.1"', {"parts": [LEFT_OUT_BY_DEBEZIUM]}),
    ],
)
def test_a_column_that_debezium_left_out_is_no_value(
    tmp_path: Path, fields: str, members: Any
) -> None:
    found = taken(tmp_path, review(**members), fields)
    assert isinstance(found, Rejected), found
    assert "REPLICA IDENTITY FULL" in found.detail


def test_a_condition_on_a_column_that_debezium_left_out_is_not_false(tmp_path: Path) -> None:
    found = taken(tmp_path, review(state=LEFT_OUT_BY_DEBEZIUM), when='when = { state = "live" }')
    assert isinstance(found, Rejected)
    assert "when: the source left out state" in found.detail
    when = "when = { state = { differs = 'before' } }"
    found = taken(tmp_path, review(state=[LEFT_OUT_BY_DEBEZIUM], before=["live"]), when=when)
    assert "when: the source left out state" in found.detail
    found = taken(tmp_path, review(more=LEFT_OUT_BY_DEBEZIUM), head='parse = ["more"]')
    assert found.detail.startswith("more: the source left out")


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
        ('text = { join = "parts", with = ". " }', {"parts": ["A", None, " ", "B", 5]}, "text",
         "A. B. 5"),
        ('text = { join = "parts", with = ". " }', {"parts": ["A!", "“B.” ", "C。", "D", "E."]},
         "text", "A! “B.”  C。 D. E."),
        ('text = { join = ["a", { const = "-" }, "body"] }', {}, "text", "- Good."),
        ('text = { join = ["a", "parts"], with = "-" }', {"a": 9.0, "parts": [1.0]}, "text", "9-1"),
        ('text = ["blank", "body"]', {"blank": " \n"}, "text", "Good."),
        ('text = ["blank"]', {"blank": ""}, "text", None),
        ('text = "nil"', {"nil": None}, "text", None),
        ('text = "body"\nlanguage = { const = "en" }', {}, "text", "Good."),
        ('text = "body"\nrating = "stars"', {"stars": 4}, "rating", 4.0),
        ('text = "body"\nrating = "stars"', {"stars": "4.5"}, "rating", 4.5),
        ('text = "body"\nrating = "stars"', {}, "rating", None),
        ('text = "body"\nverified = "bought"', {"bought": 1}, "verified", True),
        ('text = "body"\nverified = "bought"', {"bought": "f"}, "verified", False),
        ('text = "body"\nverified = "bought"', {"bought": None}, "verified", None),
        ('text = "body"\ncountry = { join = ["state", "land"] }', {"land": "DE"}, "country", "DE"),
        ('text = "body"\nauthor_id = "user"', {"user": 4711}, "author_id", "4711"),
        ('text = "body"\nauthor_id = { join = ["shop", "user"], with = "/" }',
         {"shop": 3, "user": 7}, "author_id", "3/7"),
        ('text = "body"\nauthor_id = { join = ["shop", "user"], with = "." }',
         {"shop": "x.", "user": 7}, "author_id", "x..7"),
        ('text = "body"\nauthor_id = { join = ["shop", "user"], with = "/" }',
         {"shop": 3, "user": None}, "author_id", None),
        ('text = "body"\nreview_version = "v"', {"v": 2**63 - 1}, "review_version", 2**63 - 1),
        ('text = "body"\nreview_version = "v"', {"v": "42"}, "review_version", 42),
        ('text = "body"', {"id": 81}, "review_id", "81"),
        ('text = "body"', {"id": -(10**18)}, "review_id", "-1000000000000000000"),
        ('text = "body"', {"id": 81.0}, "review_id", "81"),
        ('text = "body"\nreview_version = "v"', {"v": "2026-11-20T12:00:00.000001Z"},
         "review_version", 1795176000000001),
        ('text = "body"\nreview_version = { path = "v", epoch = "ms", add = 7 }', {"v": 5},
         "review_version", 5007),
        ('text = "body"\nreview_version = { path = "v", epoch = "us" }', {"v": 5},
         "review_version", 5),
        ('text = "body"\nreview_version = { path = "v", add = 1000 }', {"v": "5"},
         "review_version", 1005),
        ('text = "body"\nreview_version = { record = "offset", add = 1 }', {}, "review_version", 8),
        ('text = "body"\nreview_version = { record = "timestamp" }', {}, "review_version", 9000),
        ('text = "body"\noccurred_at = { record = "timestamp" }', {}, "occurred_at",
         "1970-01-01T00:00:00.009Z"),
        ('text = "body"\nreview_version = { parts = ["f", "p"] }', {"f": "binlog.000003", "p": 4},
         "review_version", 3 * 2**32 + 4),
        ('text = "body"\nrating = { path = "r", decimal = 1 }', {"r": "LQ=="}, "rating", 4.5),
        ('text = "body"\nrating = { path = "r", decimal = 1 }',
         {"r": {"scale": 2, "value": "AcI="}}, "rating", 4.5),
        ('text = "body"\nrating = { path = "r", decimal = 1 }', {"r": 4.5}, "rating", 4.5),
        ('text = "body"\nrating = { path = "r", decimal = 1, scale = [-9, 9] }', {"r": "pg=="},
         "rating", 1.0),
        ('text = "body"\nrating = { path = "r", scale = [0, 10] }', {"r": "7.5"}, "rating", 4.0),
        ('text = { path = "t", unescape = true }', {"t": r"One.\n\"Two.\""}, "text",
         'One.\n"Two."'),
        ('text = { join = ["t", { path = "parts", unescape = true }] }',
         {"t": r"A\n", "parts": [r"b\tc", None, r"d\\n"]}, "text", "A\\n b\tc d\\n"),
        ('text = { path = "t", unescape = false }', {"t": r"One.\n"}, "text", "One.\\n"),
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
    assert getattr(found if hasattr(found, name) else found.details, name) == value


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
        ('text = { join = ["x"] }', {"x": [["A"]]}, "text: a part is neither"),
        ('text = { join = ["x", { const = " - " }, "y"] }', {}, "text: the record has no x, y"),
        ('text = "body"', {"id": 2.0**53}, "review_id: Expected"),
        ('text = "body"\nreview_version = "x"', {"x": "soon"}, "review_version: Expected"),
        ('text = "body"\nreview_version = { parts = ["x", "id"] }', {"x": "binlog", "id": 1},
         "'binlog' does not end with a number"),
        ('text = "body"\nreview_version = { parts = ["x", "id"] }', {"x": "b.1", "id": 2**32},
         "too large for one number"),
        ('text = "body"\nreview_version = "x"', {"x": 1.0}, "review_version: Expected"),
        ('text = "body"\nreview_version = "x"', {"x": -1}, "review_version: Expected"),
        ('text = "body"\nreview_version = "x"', {"x": 2**63}, "2^63-1"),
        ('text = "body"\nreview_version = "x"', {"x": "4421584500000000017450439091"},
         "'4421584500000000017450439091' is larger than 2^63-1"),
        ('text = "body"\nreview_version = { path = "x", epoch = "d" }', {"x": -1e305}, "of d sin"),
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


@pytest.mark.parametrize(
    ("fields", "members", "part"),
    [
        ('text = "body"\nrating = { path = "x", decimal = 1 }', {"x": "4.5 "}, "decimal in base64"),
        ('text = "body"\nrating = { path = "x", decimal = 1 }', {"x": {"value": "LQ=="}},
         "decimal in base64"),
        ('text = "body"\nrating = { path = "x", decimal = 1 }', {"x": "A" * 400}, "too large"),
        ('text = "body"\nrating = { path = "x", decimal = "schema" }', {"x": "LQ=="},
         "no schema of x: set decimal"),
        ('text = "body"\nrating = { path = "x", scale = [0, 10] }', {"x": 11}, "scale = [0, 10]"),
        ('text = "body"\nrating = "x"', {"x": "good"}, "rating: Expected"),
        ('text = "body"\nrating = "x"', {"x": True}, "rating: Expected"),
        ('text = "body"\noccurred_at = "x"', {"x": 1763640000}, "occurred_at: a number needs"),
        ('text = "body"\noccurred_at = "x"', {"x": "1763640000"}, "occurred_at: '1763640000'"),
        ('text = "body"\noccurred_at = "x"', {"x": "03/04/2019"}, "with one meaning"),
        ('text = "body"\noccurred_at = "x"', {"x": "2026-02-30T12:00:00Z"}, "with one meaning"),
        ('text = "body"\noccurred_at = { path = "x", epoch = "s" }', {"x": 10**15}, "not a date"),
        ('text = "body"\noccurred_at = { path = "x", epoch = "s" }', {"x": 10**300}, "not a date"),
        ('text = "body"\noccurred_at = { path = "x", epoch = "s" }', {"x": 1e305}, "a number of s"),
        ('text = "body"\noccurred_at = { path = "x", epoch = "s" }', {"x": True}, "a number of s"),
        ('text = "body"\noccurred_at = { path = "x", epoch = "s" }', {"x": "soon"}, "not a number"),
        ('text = "body"\nrating = { path = "x", decimal = 1 }', {"x": "1234"},
         "'1234' looks like a number, not like base64: leave decimal"),
        ('text = "body"\nrating = { path = "x", decimal = 1 }', {"x": "4"}, "looks like a number"),
        ('text = "body"\nrating = "x"', {"x": "n/a"}, "rating: Expected a number, got 'n/a'"),
        ('text = "body"\nrating = "x"', {"x": [5]}, "rating: Expected a number"),
        ('text = "body"\nlanguage = "x"', {"x": ["en"]}, "Expected a text, got list"),
        ('text = "body"\ncountry = "x"', {"x": {"code": "NL"}}, "Expected a text, got dict"),
        ('text = "body"\nverified = "x"', {"x": "bought"}, "'bought' is neither yes nor no"),
        ('text = "body"\nauthor_id = "x"', {"x": True}, "Expected a text, got bool"),
        ('text = "body"\noccurred_at = "x"', {"x": "0000-00-00"}, "with one meaning"),
        ('text = "body"\noccurred_at = "x"', {"x": "10.01.2025 07:33"},
         'with one meaning: set { path = "...", format = "%d.%m.%Y %H:%M" }'),
        ('text = "body"\noccurred_at = "x"', {"x": "03/04/2019"},
         'format = "%d/%m/%Y" or format = "%m/%d/%Y"'),
        ('text = "body"\noccurred_at = { path = "x", format = "%d.%m.%Y" }', {"x": "soon"},
         "'soon' is not a date like \"%d.%m.%Y\""),
    ],
)  # fmt: skip
def test_an_optional_member_that_cannot_be_read_is_left_out_and_noted(
    tmp_path: Path, fields: str, members: Any, part: str
) -> None:
    NOTES.take()
    found = taken(tmp_path, review(**members), fields)
    assert isinstance(found, ReviewUpserted), found
    assert (found.text, found.details) == ("Good.", ReviewDetails())
    counts, details = NOTES.counts, NOTES.details
    name = fields.split("\n")[1].split()[0]
    assert counts == {(LEFT_OUT, name): 1}
    assert part in details[LEFT_OUT, name]


@pytest.mark.parametrize("name", ["rating", "occurred_at", "language", "verified", "author_id"])
def test_a_blank_optional_member_is_none(tmp_path: Path, name: str) -> None:
    NOTES.take()
    found = taken(tmp_path, review(x=" "), f'text = "body"\n{name} = "x"')
    assert isinstance(found, ReviewUpserted), found
    assert found.details == ReviewDetails()
    option = {"rating": "decimal = 1", "occurred_at": 'epoch = "ms"'}.get(name, "")
    if option:
        fields = f'text = "body"\n{name} = {{ path = "x", {option} }}'
        assert taken(tmp_path, review(x=""), fields).details == ReviewDetails()
    assert not NOTES.take()


def test_of_alternatives_the_next_one_counts_if_one_is_blank_or_cannot_be_read(
    tmp_path: Path,
) -> None:
    """MongoDB's connector writes a date as a number in `after`, as a text in updates."""
    fields = """text = "body"
        occurred_at = [{ path = "at.$date", epoch = "ms" }, "at.$date"]
        language = ["langs", "lang", { const = "en" }]"""
    for at in (1763640000000, "2025-11-20T12:00:00Z"):
        found = taken(tmp_path, review(at={"$date": at}, langs=["fr"], lang=""), fields)
        assert found.details == ReviewDetails(None, "2025-11-20T12:00:00Z", "en")
    found = taken(tmp_path, review(at={"$date": "soon"}, langs=["fr"], lang="fr"), fields)
    assert found.details == ReviewDetails(language="fr")
    assert "not a number of ms" in NOTES.details[LEFT_OUT, "occurred_at"]
    found = taken(tmp_path, review(at=LEFT_OUT_BY_DEBEZIUM), fields)
    assert "REPLICA IDENTITY FULL" in found.detail
    found = taken(tmp_path, review(product={"no": "text"}), 'text = "body"')
    assert found.detail == "rule 1: entity_id: Expected a text, got dict"


def test_a_review_of_stars_alone_is_a_review(tmp_path: Path) -> None:
    record = {"product": "B0", "id": "r", "stars": 2}
    found = taken(tmp_path, record, 'text = "body"\nrating = "stars"')
    assert found == ReviewUpserted("B0", "r", None, None, None, ReviewDetails(2.0))
    del record["stars"]
    found = taken(tmp_path, record, 'text = "body"\nrating = "stars"')
    assert found.detail == "rule 1: text: the record has no body, not even null"


def test_an_id_of_bytes_is_written_in_hexadecimal_digits_if_the_rule_says_so(
    tmp_path: Path,
) -> None:
    raw = bytes(range(16))
    text = UPSERT.format(head='value = "framed"', when="", fields='text = "body"')
    for entity, becomes in (
        ('"product"', None),
        ('{ path = "product", bytes = "hex" }', raw.hex()),
    ):
        rules = mapping(tmp_path, text.replace('"product"', entity), "t")
        rules = rules.unframing(lambda _: review(product=raw))
        (found,) = decode([Record("t", 0, 0, 0, None, b"\0\0\0\0\1")], LIMITS, mapping=rules)
        assert getattr(found, "entity_id", None) == becomes
    found = taken(
        tmp_path,
        review(stars="1234"),
        'text = "body"\nrating = { path = "stars", decimal = 0, bytes = "base64" }',
    )
    assert found.details.rating == -2658824.0


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
    blank = Record("t", 0, 0, 0, None, b'{"shop": "", "product": " "}')
    assert decode([blank], LIMITS, mapping=rules) == [EntityDeleted(": ")]


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
        (
            'key = "framed"',
            b"\0\0\0\0\x05\x02ab",
            "bad_json",
            "key: a frame with schema id 5: set COVERSUMM_SCHEMA_REGISTRY_URL",
        ),
        (
            "",
            b"\0\0\0\0\x05\x02ab",
            "bad_json",
            'schema id 5: set COVERSUMM_SCHEMA_REGISTRY_URL, and key = "framed"',
        ),
        ('key = "json"', b"\0\0\0\0\x05\x02ab", "bad_json", 'and key = "framed" in a map'),
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
        (b'{"product": "B0", "id": "\\ud800", "body": "x"}', "bad_field"),
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
    assert isinstance(taken(tmp_path, raw, head='value = "framed"'), ReviewUpserted)
    found = taken(tmp_path, b"\0\0\1", head='value = "framed"')
    assert isinstance(found, Rejected)
    assert found.reason == "bad_wire_format"


@pytest.mark.parametrize(
    ("head", "key", "becomes"),
    [
        ('tombstone = "entity.deleted"', b"B0", EntityDeleted("B0")),
        ('tombstone = "ignore"', b"B0", Ignored.BY_MAPPING),
        ('unwrap = "payload"', b"B0", Ignored.BY_MAPPING),
        ('unwrap = "payload"\ntombstone = "entity.deleted"', b"B0", EntityDeleted("B0")),
        ('key = "json"\ntombstone = "entity.deleted"', b'"B0"', EntityDeleted("B0")),
        ('key = "json"\ntombstone = { entity_id = "key.p" }', b'{"p": 7}', EntityDeleted("7")),
        (
            'key = "json"\ntombstone = { emit = "review.deleted", entity_id = "key.p", '
            'review_id = "key.id" }',
            b'{"p": 7, "id": 81}',
            ReviewDeleted("7", "81"),
        ),
    ],
)
def test_a_tombstone(tmp_path: Path, head: str, key: bytes, becomes: Any) -> None:
    assert taken(tmp_path, None, head=head, key=key) == becomes


@pytest.mark.parametrize(
    ("entity_ids", "becomes"),
    [
        (['"key"'], EntityDeleted("81")),
        (['{ path = "key" }', '"key"'], EntityDeleted("81")),
        (['"product"'], None),
        (['{ join = [{ const = "abnb" }, "key"], with = ":" }'], None),
        (['{ path = "key", decimal = 0 }'], None),
        (['["key", { const = "81" }]'], None),
        (['"key"', '{ const = "81" }'], None),
        (['"key.id"', '"key"'], None),
    ],
)
def test_a_null_value_deletes_by_default_only_if_the_key_is_the_id_in_every_rule(
    tmp_path: Path, entity_ids: list[str], becomes: EntityDeleted | None
) -> None:
    """An id that a rule makes of the key is that of another entity."""
    rule = '[[topic.t.rule]]\nwhen = {{ a = {} }}\nemit = "entity.deleted"\nentity_id = {}'
    rules = [rule.format(number, path) for number, path in enumerate(entity_ids)]
    text = "\n".join(["[topic.t]", *rules, '[[topic.t.rule]]\nemit = "ignore"'])
    record = Record("t", 0, 7, 9, b"81", None)
    (found,) = decode([record], LIMITS, mapping=mapping(tmp_path, text, "t"))
    if becomes is not None:
        assert found == becomes
        return
    assert isinstance(found, Rejected)
    assert "what a null value means: set tombstone" in found.detail


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


@pytest.mark.parametrize("prefix", ["ce-", "CE_", "Ce-"])
def test_attributes_in_headers_of_spring_are_those_of_a_cloudevent(
    tmp_path: Path, prefix: str
) -> None:
    """With a last rule that ignores all others they would be lost in silence."""
    rules = mapping(tmp_path, CATCH_ALL, "t")
    pairs = [(f"{prefix}{name.title()}", text.encode()) for name, text in ATTRIBUTES.items()]
    said = (*pairs, ("Content-Type", b"application/json"))
    (found,) = decode(
        [Record("t", 0, 0, 0, None, json.dumps(DATA).encode(), said)], LIMITS, mapping=rules
    )
    assert isinstance(found, ReviewUpserted)
    assert (found.entity_id, found.occurred_at) == ("B0", ATTRIBUTES["time"])


def test_an_attribute_that_is_no_text_refuses_the_record(tmp_path: Path) -> None:
    rules = mapping(tmp_path, CATCH_ALL, "t")
    said = tuple((f"ce_{name}", text.encode() + b"\xff") for name, text in ATTRIBUTES.items())
    (found,) = decode([Record("t", 0, 0, 0, None, b"{}", said[::-1])], LIMITS, mapping=rules)
    assert isinstance(found, Rejected)
    assert found.detail == "ce_time: not UTF-8"


def test_an_event_without_data_is_no_tombstone(tmp_path: Path) -> None:
    deleted = {**ATTRIBUTES, "type": "com.shop.review.deleted", "reviewid": "r"}
    assert cloud(tmp_path, None, deleted) == ReviewDeleted("B0", "r")
    assert cloud(tmp_path, deleted, {}) == ReviewDeleted("B0", "r")
    assert isinstance(cloud(tmp_path, None, {}), Rejected)


def test_what_is_no_cloudevent_is_rejected(tmp_path: Path) -> None:
    for value in (DATA, {**ATTRIBUTES, "type": "other"}):
        assert isinstance(cloud(tmp_path, value, {}), Rejected)
    for packed in ("%", "é", "e30", "W10=="):
        rejected = cloud(tmp_path, {**ATTRIBUTES, "data_base64": packed}, {})
        assert rejected.reason == "bad_json"
        assert "data_base64" in rejected.detail


CATCH_ALL = (
    CLOUD
    + """
[[topic.t.rule]]
emit = "ignore"
"""
)


def test_what_says_that_it_is_a_cloudevent_and_cannot_be_read_is_not_ignored(
    tmp_path: Path,
) -> None:
    rules = mapping(tmp_path, CATCH_ALL, "t")
    for said in (b"application/cloudevents+json", b"Application/CloudEvents-batch+json; a=b"):
        headers = (("content-type", said),)
        (found,) = decode(
            [Record("t", 0, 0, 0, b"B0", b'{"reviewId": "r"}', headers)], LIMITS, mapping=rules
        )
        assert isinstance(found, Rejected)
        assert found.detail.startswith("the value is not a CloudEvent")


def test_a_batch_of_cloudevents_has_the_events_of_its_members(tmp_path: Path) -> None:
    rules = mapping(tmp_path, CATCH_ALL, "t")
    deleted = {**ATTRIBUTES, "type": "com.shop.review.deleted", "subject": "B1", "reviewid": "s"}
    members = [{**ATTRIBUTES, "data": DATA}, {**ATTRIBUTES, "type": "other"}, deleted]
    record = Record("t", 0, 0, 0, None, json.dumps(members).encode())
    late = record._replace(value=json.dumps([{"x": 1}, *members]).encode())
    with pytest.raises(BadEvent, match="a member of the batch is not a CloudEvent"):
        rules.read_all(late)
    said = record._replace(headers=(("content-type", b"application/cloudevents-batch+json"),))
    for member in (record, said):
        first, second = rules.read_all(member)
        assert (first.entity_id, second.entity_id) == ("B0", "B1")
        (both,) = decode([member], LIMITS, mapping=rules)
        assert isinstance(both, list)
        assert [type(event) for event in both] == [ReviewUpserted, ReviewDeleted]
    assert rules.read_all(said._replace(value=b"[]")) == []
    with pytest.raises(BadEvent):
        rules.read_all(said._replace(value=json.dumps([members[0], 5]).encode()))


# -- texts that are JSON, decimals of a schema


def test_a_text_that_is_json_is_parsed_first(tmp_path: Path) -> None:
    inner = json.dumps(review(body="Inner."))
    fields = 'text = "after.body"'
    head = 'parse = ["after"]'
    moved = UPSERT.replace('"product"', '"after.product"').replace('"id"', '"after.id"')
    rules = mapping(tmp_path, moved.format(head=head, when="", fields=fields), "t")
    for value in ({"after": inner}, {"after": json.loads(inner)}):
        record = Record("t", 0, 7, 9, None, json.dumps(value).encode())
        (found,) = decode([record], LIMITS, mapping=rules)
        assert found.text == "Inner."
    (bad,) = decode([record._replace(value=b'{"after": "{"}')], LIMITS, mapping=rules)
    assert isinstance(bad, Rejected)
    assert bad.detail.startswith("after: ")
    whole = taken(tmp_path, json.dumps(inner).encode(), head='parse = ["value"]')
    assert whole.text == "Inner."
    twice = 'unwrap = "payload"\nparse = ["value", "parts"]'
    value = {"payload": json.dumps({**review(), "parts": '["One."]'})}
    assert taken(tmp_path, value, 'sentences = "parts"', head=twice).sentences[0].text == "One."
    value = review(parts=['{"words": "Listed."}'])
    assert (
        taken(tmp_path, value, 'text = "parts.0.words"', head='parse = ["parts.0"]').text
        == "Listed."
    )


def test_a_decimal_has_the_scale_of_the_records_schema(tmp_path: Path) -> None:
    stars = {"field": "stars", "type": "bytes", "parameters": {"scale": "1"}}
    text = {"field": "words", "type": "string"}
    value = {"schema": {"fields": [text, stars]}, "payload": review(stars="LQ==", words="4.5")}
    for path in ("stars", "words"):
        fields = f'text = "body"\nrating = {{ path = "{path}", decimal = "schema" }}'
        assert taken(tmp_path, value, fields, head='unwrap = "payload"').details.rating == 4.5
    fields = 'text = "body"\nrating = { path = "key.stars", decimal = "schema" }'
    head = 'key = "json"\nunwrap = "payload"'
    two = {"fields": [{**stars, "parameters": {"scale": "2"}}]}
    key = json.dumps({"schema": two, "payload": {"stars": "AcI="}}).encode()
    assert taken(tmp_path, value, fields, head=head, key=key).details.rating == 4.5
    NOTES.take()
    taken(tmp_path, value, fields, head=head, key=b'{"stars": "AcI="}')
    assert "no schema of key.stars" in NOTES.details[LEFT_OUT, "rating"]


# -- several events of a record

MOVED = """
[topic.t]
[[topic.t.rule]]
name = "moved"
when = { op = "u", "before.product" = { differs = "after.product" } }
[[topic.t.rule.event]]
emit = "review.deleted"
entity_id = "before.product"
review_id = "before.id"
review_version = "lsn"
[[topic.t.rule.event]]
emit = "review.upserted"
entity_id = "after.product"
review_id = "after.id"
review_version = "lsn"
text = "after.body"
[[topic.t.rule]]
name = "lines"
when = { op = "order" }
each = "lines"
[[topic.t.rule.event]]
emit = "review.upserted"
entity_id = "item.sku"
review_id = { join = ["order", "item.line"], with = "-" }
text = "item.review"
[[topic.t.rule]]
emit = "ignore"
"""


def several(folder: Path, value: Any) -> list[Any]:
    record = Record("t", 0, 7, 9, b"k", json.dumps(value).encode())
    return mapping(folder, MOVED, "t").read_all(record)


def test_a_rule_with_several_events(tmp_path: Path) -> None:
    before, after = review(), review(product="B1")
    change = {"op": "u", "lsn": 5, "before": before, "after": after}
    gone, come = several(tmp_path, change)
    assert (gone.entity_id, gone.review_id, gone.review_version) == ("B0", "r", 5)
    assert (come.entity_id, come.text, come.review_version) == ("B1", "Good.", 5)
    for same in (before, None):
        assert several(tmp_path, {**change, "before": same, "after": before}) == []
    with pytest.raises(BadEvent) as bad:
        several(tmp_path, {**change, "after": {"product": "B1", "id": "r"}})
    assert bad.value.rejected.detail.startswith("event 2: text: the record has no after.body")


def test_a_rule_for_each_member_of_a_list(tmp_path: Path) -> None:
    lines = [{"sku": sku, "line": line, "review": "Fine."} for line, sku in enumerate("AB")]
    found = several(tmp_path, {"op": "order", "order": 9, "lines": lines})
    assert [(event.entity_id, event.review_id) for event in found] == [("A", "9-0"), ("B", "9-1")]
    for empty in ([], None):
        assert several(tmp_path, {"op": "order", "lines": empty}) == []
    for wrong, detail in (
        ({"lines": "A"}, "each: the record has no list at lines"),
        ({}, "each: the record has no list at lines"),
        ({"order": 9, "lines": [*lines, {"sku": "C"}]}, "lines.2: text: the record has no item"),
        ({"lines": [{}] * 10_001}, "each: more than 10,000 events"),
    ):
        with pytest.raises(BadEvent) as bad:
            several(tmp_path, {"op": "order", **wrong})
        assert bad.value.rejected.detail.startswith(detail)


def test_conditions_on_items_choose_the_members(tmp_path: Path) -> None:
    chosen = MOVED.replace('each = "lines"', 'each = "lines"\nwhen_present = ["item.review"]')
    rules = mapping(tmp_path, chosen.replace('op = "order"', 'op = "order", "item.ok" = true'), "t")
    lines = [
        {"sku": "A", "line": 1, "ok": True},
        {"sku": "B", "line": 2, "ok": True, "review": "Fine."},
        {"sku": "C", "line": 3, "ok": False, "review": "Fine."},
    ]
    for some, entities in ((lines, ["B"]), (lines[:1], [])):
        value = json.dumps({"op": "order", "order": 9, "lines": some}).encode()
        found = rules.read_all(Record("t", 0, 7, 9, b"k", value))
        assert [event.entity_id for event in found] == entities


@pytest.mark.parametrize(("key", "differs"), [(b'{"p": "B1"}', True), (b'{"p": "B0"}', False)])
def test_a_value_may_differ_from_the_key(tmp_path: Path, key: bytes, differs: bool) -> None:
    when = "when = { product = { differs = 'key.p' } }"
    found = taken(tmp_path, review(), when=when, head='key = "json"', key=key)
    assert isinstance(found, ReviewUpserted) == differs


@pytest.mark.parametrize(
    ("before", "after", "differs"),
    [
        (1, 2, True), (1, 1, False), (1, 1.0, False), (1, True, True), ("a", None, False),
        (None, "a", False), ([1], [2], True), ("a", "A", True),
    ],
)  # fmt: skip
def test_two_paths_differ_if_both_have_values_that_are_not_equal(
    tmp_path: Path, before: Any, after: Any, differs: bool
) -> None:
    when = "when = { before = { differs = 'after' } }"
    found = taken(tmp_path, review(before=before, after=after), when=when)
    assert isinstance(found, ReviewUpserted) == differs


def test_only_what_the_rules_read_is_decoded(tmp_path: Path) -> None:
    assert not mapping(tmp_path).needs_headers
    assert isinstance(taken(tmp_path, review(), key=b"\xff"), ReviewUpserted)
    with_header = 'text = "header:words"'
    headers = (("words", b"From a header."),)
    assert taken(tmp_path, review(), with_header, headers=headers).text == "From a header."
    bad = taken(tmp_path, review(), with_header, headers=(("words", b"\xff"),))
    assert bad.detail == "rule 1: header:words: not UTF-8"
