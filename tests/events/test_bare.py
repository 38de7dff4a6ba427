"""Lines of files: events as they are, bare reviews as unversioned upserts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.events.examples import LIMITS, upsert
from worker.events import Record, Rejected, ReviewUpserted, decode, json_codec, read_line
from worker.events.bare import read_json, read_review, read_row
from worker.events.notes import NOTES


def line(**fields: object) -> bytes:
    return json.dumps(fields).encode()


def test_a_bare_review_becomes_an_unversioned_upsert() -> None:
    key, value = read_line(
        line(
            entity_id="é", review_id="r", text="Ünï", rating=4, created_at="2016-02-05T00:00:00Z",
            title="t",
            review_version=7,
        )
    )  # fmt: skip
    assert key == "é".encode()
    assert json.loads(value) == {
        "type": "review.upserted",
        "entity_id": "é",
        "review_id": "r",
        "text": "Ünï",
        "rating": 4,
        "occurred_at": "2016-02-05T00:00:00Z",
    }


@pytest.mark.parametrize(
    "created_at", [None, "03/04/2019", "yesterday", 20190304, "", "2016-02-30T00:00:00Z"]
)
def test_a_creation_date_that_is_no_timestamp_is_left_out(created_at: object) -> None:
    key, value = read_line(line(entity_id="e", review_id="r", text="a", created_at=created_at))
    (result,) = decode([Record("file", 0, 0, 0, key, value)], LIMITS)
    assert isinstance(result, ReviewUpserted)
    assert result.occurred_at is None


def test_events_go_on_byte_for_byte() -> None:
    raw = json.dumps(upsert(), indent=None, separators=(" , ", " : ")).encode()
    assert read_line(raw + b"\r\n") == (b"e", raw)


@pytest.mark.parametrize(
    "raw", [b"{", b"[]", b"null", b"\xff", b"[" * 9000, b'{"type":"x"}', b'{"entity_id":5}']
)
def test_broken_lines_go_on_to_be_dead_letters(raw: bytes) -> None:
    key, value = read_line(raw)
    (result,) = decode([Record("file", 0, 0, 0, key, value)], LIMITS)
    assert isinstance(result, Rejected)


@pytest.mark.parametrize(
    ("more", "is_bare"),
    [
        ({"type": "review"}, True),
        ({"type": 7, "sentences": []}, True),
        ({"type": None}, True),
        ({"type": "review.upsertd"}, False),
        ({"type": "review", "review_version": 3}, False),
        ({"type": "review", "entity_id": None}, True),
    ],
)
def test_a_type_of_the_sources_own_makes_no_event(more: dict[str, object], is_bare: bool) -> None:
    row = {"entity_id": "e", "review_id": "r", "text": "a"} | more
    for reading in (read_json(json.dumps(row).encode()), read_row(row)):
        assert (json.loads(reading.line.value)["type"] == "review.upserted") is is_bare
    lacking = {name: value for name, value in row.items() if name != "text" and more != "sentences"}
    if "sentences" not in lacking:
        assert json.loads(read_row(lacking).line.value)["type"] == more["type"]


@pytest.mark.parametrize("type_", [{}, {"type": "review.upserted"}])
def test_half_of_an_emoji_is_counted(type_: dict[str, str]) -> None:
    whole = read_json(line(**type_, entity_id="e", review_id="r", text="a\N{SLICE OF PIZZA}"))
    half = read_json(line(**type_, entity_id="e", review_id="r", text="a\ud83d"))
    assert (list(whole.left_out), list(half.left_out)) == ([], ["halves"])


NINES = "9" * 5000
"""More digits than Python parses as an integer."""


def judged(key: bytes | None, value: bytes) -> Rejected | ReviewUpserted:
    (result,) = decode([Record("file", 0, 0, 0, key, value)], LIMITS)
    assert isinstance(result, Rejected | ReviewUpserted)
    return result


@pytest.mark.parametrize("number", [NINES, "9" * 400, "-1e999", f"1e{NINES}", f"0.{NINES}e999"])
def test_a_bare_number_out_of_range_is_bad_in_an_id_and_left_out_elsewhere(number: str) -> None:
    bare = b'{"entity_id":"e","review_id":"r","text":"a","%%s":%s}' % number.encode()
    for name in (b"rating", b"occurred_at", b"helpful_votes"):
        reading = read_json(bare % name)
        assert list(reading.left_out) == [name.decode()][: name != b"helpful_votes"]
        assert isinstance(judged(*reading.line), ReviewUpserted)
    if number != "9" * 400:
        key, value = read_line(bare.replace(b'"r"', number.encode()) % b"x")
        assert isinstance(judged(key, value), Rejected)


@pytest.mark.parametrize("name", ["entity_id", "review_id", "text", "language", "author_id"])
def test_a_row_with_a_lone_surrogate_is_bad_in_an_id_and_whole_elsewhere(name: str) -> None:
    row = {"entity_id": "e", "review_id": "r", "text": "a", name: "a\ud800b"}
    for key, value in (read_row(row).line, read_row({"type": "review.upserted", **row}).line):
        result = judged(key, value)
        if name in ("entity_id", "review_id"):
            assert isinstance(result, Rejected)
        else:
            assert isinstance(result, ReviewUpserted)
            assert (result.text if name == "text" else getattr(result.details, name)) == "a\ufffdb"
        for body in (row, {"type": "review.upserted", **row}):  # the same as a line of JSON
            assert judged(*read_json(json.dumps(body).encode()).line) == result


@pytest.mark.parametrize("name", ["entity_id", "text"])
def test_a_row_with_an_integer_that_nobody_can_write_is_a_bad_line(name: str) -> None:
    row = {"entity_id": "e", "review_id": "r", "text": "a", name: 10**5000}
    for reading in (read_row(row), read_row({"type": "review.upserted", **row})):
        assert isinstance(judged(*reading.line), Rejected)


@pytest.mark.parametrize(
    ("name", "given", "meant"),
    [
        ("verified", True, True),
        ("verified", 0, False),
        ("verified", 1.0, True),
        ("verified", " Yes ", True),
        ("verified", "N", False),
        ("verified", None, None),
        ("verified", "", None),
        ("country", "NL", "NL"),
        ("country", "", None),
        ("author_id", 4711, "4711"),
        ("author_id", 7.0, "7"),
        ("author_id", "u", "u"),
        ("author_id", None, None),
    ],
)
def test_who_wrote_a_bare_review_is_read(name: str, given: Any, meant: Any) -> None:
    reading = read_review({"entity_id": "e", "review_id": "r", "text": "a", name: given})
    result = judged(*reading.line)
    assert isinstance(result, ReviewUpserted)
    assert getattr(result.details, name) == meant
    assert reading.left_out == {}


@pytest.mark.parametrize(
    ("name", "given", "reported"),
    [
        ("verified", "bought", "bought"),
        ("verified", 2, 2),
        ("country", ["NL"], "list"),
        ("author_id", {"name": "Jo"}, "dict"),
        ("author_id", True, "bool"),
    ],
)
def test_what_does_not_say_who_wrote_it_is_left_out(name: str, given: Any, reported: Any) -> None:
    """The value of an author is never shown."""
    reading = read_review({"entity_id": "e", "review_id": "r", "text": "a", name: given})
    assert isinstance(judged(*reading.line), ReviewUpserted)
    assert reading.left_out == {name: reported}


@pytest.mark.parametrize(
    ("name", "given"),
    [
        *(("rating", value) for value in ("n/a", "FIVE", [5], True, float("inf"), "1e999")),
        *(("language", value) for value in (["en"], 7)),
        ("occurred_at", "0000-00-00"),
    ],
)
def test_an_optional_member_that_cannot_be_read_is_left_out(name: str, given: Any) -> None:
    reading = read_review({"entity_id": "e", "review_id": "r", "text": "a", name: given})
    assert list(reading.left_out) == [name]
    result = judged(*reading.line)
    assert isinstance(result, ReviewUpserted)
    assert getattr(result.details, name) is None


def test_a_review_of_stars_alone_is_a_review() -> None:
    reading = read_review({"entity_id": "e", "review_id": "r", "rating": 4})
    result = judged(*reading.line)
    assert isinstance(result, ReviewUpserted)
    assert (result.text, result.details.rating) == (None, 4.0)
    assert reading.left_out == {"text": None}
    assert isinstance(judged(*read_line(line(entity_id="e", review_id="r"))), Rejected)


@pytest.mark.parametrize("missing", ["NaN", "Infinity", "-Infinity"])
def test_what_programs_write_for_a_missing_number_is_null(missing: str) -> None:
    raw = '{"entity_id": "e", "review_id": "r", "text": "NaN", "rating": %s, "votes": [%s]}'
    reading = read_json((raw % (missing, missing)).encode())
    assert reading.left_out == {}
    result = judged(*reading.line)
    assert isinstance(result, ReviewUpserted)
    assert (result.text, result.details.rating) == ("NaN", None)


def test_a_byte_order_mark_in_a_message_is_skipped() -> None:
    mark = b"\xef\xbb\xbf"
    raw = json.dumps(upsert()).encode()
    assert json_codec.decode(mark + raw) == json_codec.decode(raw)
    assert json_codec.parse(mark + b"[1]") == [1]
    before = NOTES.records, NOTES.values
    json_codec.decode(mark + raw)
    assert (NOTES.records, NOTES.values) == before
