"""Each kind of bad input has its reason; what is valid comes through unchanged."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from tests.events.examples import (
    LIMITS,
    NO_ENGINE,
    decode_one,
    given,
    packed,
    record,
    upsert,
    vector,
)
from tests.harness.limits import event_limits
from worker.coversumm.fixed_point import quantize
from worker.events import (
    EntityDeleted,
    Record,
    Rejected,
    ReviewDeleted,
    ReviewUpserted,
    SentencesDeleted,
    decode,
)
from worker.events.fields import MAX_ID_CHARS
from worker.events.json_codec import MAX_DEPTH
from worker.events.rules import CHUNK

VALID = json.dumps(upsert()).encode()


def nested(levels: int, inside: bytes = b"") -> bytes:
    """An upsert whose unknown field makes it `levels` deep."""
    return VALID[:-1] + b',"more":' + b"[" * (levels - 1) + inside + b"]" * (levels - 1) + b"}"


BAD: list[tuple[str, Any, str, str]] = [
    # what, value, reason, part of the detail
    ("empty", b"", "bad_json", ""),
    ("not JSON", b"hello", "bad_json", ""),
    ("cut off", VALID[:-1], "bad_json", ""),
    ("two values", VALID + VALID, "bad_json", ""),
    ("byte order mark", b"\xef\xbb\xbf" + VALID, "bad_json", ""),
    ("NaN", VALID.replace(b'"Good."', b"NaN"), "bad_json", ""),
    ("NaN in a field nobody knows", VALID[:-1] + b',"more":NaN}', "bad_json", ""),
    ("Infinity", b'{"type":"review.upserted","entity_id":"e","rating":Infinity}', "bad_json", ""),
    ("wrong field before bad syntax", b'{"type":"review.upserted","entity_id":5,"more":NaN}', "bad_json", ""),
    ("no type and bad syntax", b'{"entity_id":5,"more":NaN}', "bad_json", ""),
    ("lone high surrogate", VALID.replace(b"Good.", rb"\ud800"), "bad_json", ""),
    ("lone low surrogate", VALID.replace(b"Good.", rb"\udc00"), "bad_json", ""),
    ("lone surrogate, unknown field", VALID[:-1] + rb',"more":"\ud800 "}', "bad_json", ""),
    ("surrogate as UTF-8", VALID.replace(b"Good.", b"\xed\xa0\x80"), "bad_json", "UTF-8"),
    ("invalid UTF-8", VALID.replace(b"Good.", b"\xff"), "bad_json", "UTF-8"),
    ("invalid UTF-8, unknown field", VALID[:-1] + b',"more":"\xff"}', "bad_json", "UTF-8"),
    ("overlong UTF-8", VALID.replace(b"Good.", b"\xc0\x80"), "bad_json", "UTF-8"),
    ("raw control character", VALID.replace(b"Good.", b"a\nb"), "bad_json", ""),
    ("too deep", nested(MAX_DEPTH + 1), "bad_json", "deeper"),
    ("far too deep", nested(40_000), "bad_json", "deeper"),
    ("far too deep and unclosed", b'{"more":' + b"[" * 90_000, "bad_json", "deeper"),
    ("an array", [], "bad_field", "object"),
    ("a string", "review.upserted", "bad_field", "object"),
    ("null as JSON", b"null", "bad_field", "object"),
    ("no type", {"entity_id": "e"}, "unknown_type", "missing"),
    ("type null", upsert(type=None), "unknown_type", "null"),
    ("type a number", upsert(type=1), "unknown_type", "1"),
    ("type an object", upsert(type={"a": 1}), "unknown_type", ""),
    ("type too large a number", b'{"type":1e999}', "unknown_type", ""),
    ("unknown type", upsert(type="review.created"), "unknown_type", "review.created"),
    ("type in capitals", upsert(type="REVIEW.UPSERTED"), "unknown_type", ""),
    ("unknown type beats wrong field", upsert(type="x", entity_id=5), "unknown_type", ""),
    ("two types", b'{"type":"no\\nno","type":"entity.deleted","entity_id":"e"}', "bad_field", "type: given twice"),
    ("an output event", upsert(type="summary.changed"), "unknown_type", ""),
    ("no entity_id", upsert(entity_id=...), "bad_field", "entity_id: missing"),
    ("empty entity_id", upsert(entity_id=""), "bad_field", "entity_id"),
    ("entity_id null", upsert(entity_id=None), "bad_field", "entity_id"),
    ("entity_id a number", upsert(entity_id=7), "bad_field", "entity_id"),
    ("entity_id too long", upsert(entity_id="e" * (MAX_ID_CHARS + 1)), "bad_field", "entity_id"),
    ("no review_id", upsert(review_id=...), "bad_field", "review_id: missing"),
    ("empty review_id", upsert(review_id=""), "bad_field", "review_id"),
    ("review_id too long", upsert(review_id="r" * (MAX_ID_CHARS + 1)), "bad_field", "review_id"),
    ("version negative", upsert(review_version=-1), "bad_field", "review_version"),
    ("version too large", upsert(review_version=2**63), "bad_field", "review_version"),
    ("version far too large", upsert(review_version=10**400), "bad_field", "review_version"),
    ("version a boolean", upsert(review_version=True), "bad_field", "review_version"),
    ("version a fraction", upsert(review_version=1.5), "bad_field", "review_version"),
    ("version with a fraction", upsert(review_version=1.0), "bad_field", "review_version"),
    ("version a string", upsert(review_version="1"), "bad_field", "review_version"),
    ("text a number", upsert(text=1), "bad_field", "text"),
    ("text a list", upsert(text=["a"]), "bad_field", "text"),
    ("neither text nor sentences", upsert(text=...), "bad_field", "text: missing"),
    ("rating a string", upsert(rating="4"), "bad_field", "rating"),
    ("rating a boolean", upsert(rating=True), "bad_field", "rating"),
    ("rating too large", VALID[:-1] + b',"rating":1e999}', "bad_field", "rating"),
    ("language a number", upsert(language=1), "bad_field", "language"),
    ("occurred_at a number", upsert(occurred_at=1_700_000_000), "bad_field", "occurred_at"),
    ("occurred_at no time", upsert(occurred_at="2026-11-20"), "bad_field", "occurred_at: Expected an RFC 3339"),
    ("occurred_at no zone", upsert(occurred_at="2026-11-20T12:00:00"), "bad_field", "occurred_at"),
    ("occurred_at spaced", upsert(occurred_at="2026-11-20 12:00:00Z"), "bad_field", "occurred_at"),
    ("occurred_at + line", upsert(occurred_at="2026-11-20T12:00:00Z\n"), "bad_field", "occurred_at"),
    ("occurred_at no day", upsert(occurred_at="2026-02-29T12:00:00Z"), "bad_field", "occurred_at"),
    ("occurred_at hour 24", upsert(occurred_at="2026-02-20T24:00:00Z"), "bad_field", "occurred_at"),
    ("occurred_at foreign digits", upsert(occurred_at="２０２６-11-20T12:00:00Z"), "bad_field", "occurred_at"),
    ("occurred_at long", upsert(occurred_at=f"2026-11-20T12:00:00.{'0' * 60}Z"), "bad_field", "occurred_at"),
    ("sentences a string", upsert(sentences="a"), "bad_field", "sentences"),
    ("sentences an object", upsert(sentences={"text": "a"}), "bad_field", "sentences"),
    ("a sentence null", given("a", None), "bad_field", "sentences[1]"),
    ("a sentence a number", given(1), "bad_field", "sentences[0]"),
    ("a sentence without text", given({"embedding": [1, 0]}), "bad_field", "sentences[0].text: missing"),
    ("a sentence's text null", given({"text": None}), "bad_field", "sentences[0].text"),
    ("embedding an object", given(vector({})), "bad_field", "sentences[0].embedding"),
    ("embedding of strings", given(vector(["1", "0"])), "bad_field", "sentences[0].embedding[0]"),
    ("embedding with null", given(vector([1, None])), "bad_field", "sentences[0].embedding[1]"),
    ("embedding of booleans", given(vector([True, False])), "bad_field", "sentences[0].embedding"),
    ("embedding_model a number", upsert(embedding_model=1), "bad_field", "embedding_model"),
    ("deletion without review_id", {"type": "review.deleted", "entity_id": "e"}, "bad_field", "review_id"),
    ("deletion without ids", {"type": "sentences.deleted", "entity_id": "e"}, "bad_field", "sentence_ids"),
    (
        "an empty sentence id",
        {"type": "sentences.deleted", "entity_id": "e", "sentence_ids": ["a#0", ""]},
        "bad_field",
        "sentence_ids[1]",
    ),
    ("entity deletion without id", {"type": "entity.deleted"}, "bad_field", "entity_id: missing"),
    ("another entity's key", upsert(entity_id="f"), "key_mismatch", "'f'"),
    ("text too long", upsert(text="é" * 501), "text_too_long", "1002 bytes"),
    ("unused text too long", upsert(text="a" * 1001, sentences=["a"]), "text_too_long", "text"),
    ("a sentence too long", given("a", "b" * 1001), "text_too_long", "sentences[1].text"),
    ("a sentence with a vector too long to be whole", given(vector([1, 0], "b" * 101)), "text_too_long", "101 char"),
    ("too many sentences", given(*"abcdef"), "too_many_sentences", "6"),
    ("very many sentences", given(*["a"] * 19_000), "too_many_sentences", "19000"),
    ("too large", upsert(more="a" * 100_000), "too_large", "100000"),
    ("too large and no JSON", b"[" * 100_001, "too_large", "100001"),
    ("three dimensions", given(vector([1, 2, 3])), "wrong_dimension", "sentences[0].embedding: 3"),
    ("three dimensions, packed", given(vector(packed(1, 2, 3))), "wrong_dimension", "3"),
    ("no dimension", given(vector([])), "wrong_dimension", "0"),
    ("no dimension, packed", given(vector("")), "wrong_dimension", "0"),
    ("the second one", given(vector([1, 0]), vector([1])), "wrong_dimension", "sentences[1]"),
    ("zero", given(vector([0, 0])), "bad_vector", "sentences[0].embedding"),
    ("zero, packed", given("a", vector(packed(0, -0.0))), "bad_vector", "sentences[1].embedding"),
    ("packed NaN", given(vector(packed(1, float("nan")))), "bad_vector", "sentences[0]"),
    ("packed infinity", given(vector(packed(1, float("-inf")))), "bad_vector", "sentences[0]"),
    ("too large a number", b'{"type":"review.upserted","entity_id":"e","review_id":"r","sentences":'
     b'[{"text":"a","embedding":[1,1e999]}]}', "bad_vector", "sentences[0].embedding[1]"),
    ("no base64", given(vector("....")), "bad_vector", "sentences[0].embedding"),
    ("base64 without padding", given(vector("AAAAAAAAAA")), "bad_vector", ""),
    ("base64 with a space", given(vector("AACA PwAAAAA=")), "bad_vector", ""),
    ("base64 for URLs", given(vector("__-_AAAA")), "bad_vector", ""),
    ("half a number", given(vector("AACAPwAA")), "bad_vector", "6 bytes"),
    ("another model", given(vector([1, 0]), embedding_model="huge"), "wrong_model", "'huge'"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("value", "reason", "detail"), [row[1:] for row in BAD], ids=[row[0] for row in BAD]
)
def test_bad_input_has_one_reason(value: Any, reason: str, detail: str) -> None:
    result = decode_one(value)
    assert isinstance(result, Rejected)
    assert result.reason == reason, result
    assert detail in result.detail
    assert "\n" not in result.detail
    assert result.detail.isprintable()
    assert len(result.detail) < 300


def test_bad_input_leaves_its_neighbours_alone() -> None:
    good = given(vector([3, 4]), vector(packed(1, 0), "Fine."))
    values = [value for row in BAD for value in (row[1], good)]
    results = decode([record(value) for value in values], LIMITS)
    for i, result in enumerate(results):
        if i % 2:
            assert isinstance(result, ReviewUpserted)
            assert result.sentences is not None
            assert [s.vector.tolist() for s in result.sentences if s.vector is not None] == [
                [19660, 26214],
                [32767, 0],
            ]
        else:
            assert isinstance(result, Rejected)
            assert result.reason == BAD[i // 2][2]


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        (None, upsert(), "no_key"),
        (None, None, "no_key"),
        (None, b"{", "bad_json"),
        (b"f", upsert(), "key_mismatch"),
        (b"", upsert(), "key_mismatch"),
        (b"\xff", upsert(), "key_mismatch"),
        (b"", None, "bad_field"),
        (b"\xff", None, "bad_field"),
        (b"e" * (MAX_ID_CHARS + 1), None, "bad_field"),
    ],
)
def test_keys(key: bytes | None, value: Any, reason: str) -> None:
    result = decode_one(value, key)
    assert isinstance(result, Rejected)
    assert result.reason == reason


@pytest.mark.parametrize(
    "event",
    [upsert(), given("a"), given(vector([1, 0]), "a"), given({"text": "a", "embedding": None})],
    ids=["text", "string", "one of two", "null"],
)
def test_without_an_engine_every_sentence_needs_a_vector(event: dict[str, Any]) -> None:
    result = decode_one(event, limits=NO_ENGINE)
    assert isinstance(result, Rejected)
    assert result.reason == "no_embedding"
    assert isinstance(decode_one(event), ReviewUpserted)


@pytest.mark.parametrize(
    "event", [upsert(text=" \n"), upsert(text=""), upsert(text=None), given("", " "), given()]
)
def test_without_an_engine_blank_reviews_are_reviews(event: dict[str, Any]) -> None:
    assert isinstance(decode_one(event, limits=NO_ENGINE), ReviewUpserted)


def test_a_model_is_compared_only_with_vectors_and_only_if_the_worker_has_one() -> None:
    assert isinstance(decode_one(given("a", embedding_model="huge")), ReviewUpserted)
    assert isinstance(decode_one(given(vector([1, 0]), embedding_model="tiny")), ReviewUpserted)
    assert isinstance(decode_one(given(vector([1, 0]))), ReviewUpserted)
    event = given(vector([1, 0]), embedding_model="huge")
    assert isinstance(decode_one(event, limits=NO_ENGINE), ReviewUpserted)


def test_upsert_comes_through_whole() -> None:
    event = upsert(
        entity_id="e",
        review_version=2**63 - 1,
        rating=4,
        language="en",
        occurred_at="2026-11-20t12:00:60.123456789+01:00",
        text="Ünïcödé 🎉\u0000",
        sentences=["a", " ", vector([0, -2.5], "b"), vector(None, "c")],
        embedding_model="tiny",
        unknown={"nested": [1e5, None]},
    )
    result = decode_one(event)
    assert isinstance(result, ReviewUpserted)
    assert (result.entity_id, result.review_id, result.review_version) == ("e", "r", 2**63 - 1)
    assert (result.rating, result.occurred_at) == (4.0, "2026-11-20t12:00:60.123456789+01:00")
    assert result.text == "Ünïcödé 🎉\u0000"
    assert result.sentences is not None
    assert [s.text for s in result.sentences] == ["a", " ", "b", "c"]
    vectors = [s.vector for s in result.sentences]
    assert [v is None for v in vectors] == [True, True, False, True]
    assert vectors[2] is not None
    assert vectors[2].dtype == np.int16
    assert vectors[2].tolist() == [0, -32767]


def test_deletions_come_through_whole() -> None:
    at = "2024-02-29T00:00:00Z"
    deletion = {
        "type": "review.deleted",
        "entity_id": "e",
        "review_id": "r",
        "review_version": 0,
        "reason": "spam",
    }
    assert decode_one(deletion | {"occurred_at": at}) == ReviewDeleted("e", "r", 0, "spam", at)
    assert decode_one(
        {"type": "review.deleted", "entity_id": "e", "review_id": "r"}
    ) == ReviewDeleted("e", "r")
    ids = {"type": "sentences.deleted", "entity_id": "e", "sentence_ids": ["r#0", "no id at all"]}
    assert decode_one(ids) == SentencesDeleted("e", ["r#0", "no id at all"])
    assert decode_one(
        {"type": "entity.deleted", "entity_id": "e", "occurred_at": None}
    ) == EntityDeleted("e")
    assert decode_one(None) == EntityDeleted("e")


@pytest.mark.parametrize(
    "entity_id", ["\0", '"', "'; --", "🎉" * 256, "e" * 1024, "é" * 1024, "#", " ", "\\", "\x7f"]
)
def test_ids_are_just_ids(entity_id: str) -> None:
    for ensure_ascii in (True, False):
        value = json.dumps(
            upsert(entity_id=entity_id, review_id=entity_id), ensure_ascii=ensure_ascii
        ).encode()
        result = decode_one(value, entity_id.encode())
        assert isinstance(result, ReviewUpserted)
        assert (result.entity_id, result.review_id) == (entity_id, entity_id)
    assert decode_one(None, entity_id.encode()) == EntityDeleted(entity_id)


def test_null_text_or_null_sentences_are_no_sentences() -> None:
    for event in (
        upsert(text=None),
        upsert(text=..., sentences=None),
        upsert(text=None, sentences=None),
    ):
        result = decode_one(event)
        assert isinstance(result, ReviewUpserted)
        assert (result.text, result.sentences) == (None, None)
    empty = decode_one(upsert(sentences=[]))
    assert isinstance(empty, ReviewUpserted)
    assert empty.sentences == ()


def test_a_blank_sentence_keeps_its_place_and_loses_its_vector() -> None:
    result = decode_one(given(vector([0, 0], "  "), vector([1, 0])))
    assert isinstance(result, ReviewUpserted)
    assert result.sentences is not None
    assert result.sentences[0].vector is None
    assert result.sentences[1].vector is not None


@pytest.mark.parametrize("levels", [MAX_DEPTH - 1, MAX_DEPTH])
def test_deep_but_not_too_deep(levels: int) -> None:
    assert isinstance(decode_one(nested(levels)), ReviewUpserted)


def test_brackets_in_strings_are_not_depth() -> None:
    hostile = ("[{" * 1000) + '\\"[' + ("]" * 5)
    assert isinstance(
        decode_one(upsert(more=[hostile, {hostile: "\\"}], text='"[' * 300)), ReviewUpserted
    )
    flat = upsert(more=[[] for _ in range(MAX_DEPTH * 2)])
    assert isinstance(decode_one(flat), ReviewUpserted)
    assert isinstance(decode_one(nested(MAX_DEPTH, b'"[[[[\\\\"')), ReviewUpserted)
    result = decode_one(nested(MAX_DEPTH + 1, b'"]]]]\\""'))
    assert isinstance(result, Rejected)
    assert result.reason == "bad_json"


def test_limits_are_inclusive() -> None:
    exact = event_limits(dimension=2, max_event_bytes=len(VALID), max_text_bytes=5)
    assert isinstance(decode_one(VALID, limits=exact), ReviewUpserted)
    assert isinstance(decode_one(VALID + b" ", limits=exact), Rejected)
    assert isinstance(decode_one(given(*"abcde")), ReviewUpserted)


def test_vectors_are_those_of_the_core_whatever_their_form_and_company() -> None:
    rng = np.random.default_rng(7)
    count = 2 * CHUNK + 3
    vectors = rng.normal(size=(count, 2)).astype(np.float32)
    bodies = [
        given(vector(packed(*row) if i % 3 else row.astype(float).tolist()))
        for i, row in enumerate(vectors)
    ]
    expected = quantize(vectors)
    for size in (1, CHUNK, count):
        for start in range(0, count, size):
            results = decode([record(body) for body in bodies[start : start + size]], LIMITS)
            for result, row in zip(results, expected[start : start + size], strict=True):
                assert isinstance(result, ReviewUpserted)
                assert result.sentences is not None
                assert result.sentences[0].vector is not None
                np.testing.assert_array_equal(result.sentences[0].vector, row)


def test_no_records() -> None:
    assert decode([], LIMITS) == []


def test_results_do_not_depend_on_the_batch() -> None:
    records: list[Record] = [record(row[1], offset=i) for i, row in enumerate(BAD)]
    together = decode(records, LIMITS)
    assert together == [decode([one], LIMITS)[0] for one in records]
    assert all(a != b for a, b in pairwise(records))
