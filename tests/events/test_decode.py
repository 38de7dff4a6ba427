"""Each kind of bad input has its reason; what is valid comes through unchanged."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from tests.events.bad import BAD, VALID, nested
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
from worker.events import EntityDeleted, Rejected, ReviewUpserted, decode
from worker.events.fields import MAX_ID_CHARS
from worker.events.json_codec import MAX_DEPTH
from worker.events.rules import CHUNK


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


@pytest.mark.parametrize(
    ("written", "text"),
    [
        (rb"a \ud83d b", "a \ufffd b"),
        (rb"\udc00\ud83d\ude00\\ud83d \uD83D", "\ufffd😀\\ud83d \ufffd"),
    ],
)
def test_half_of_a_pair_of_surrogates_is_a_lost_character(written: bytes, text: str) -> None:
    value = VALID.replace(b"Good.", written)
    for body in (value, value[:-1] + rb',"more":"\ud800"}'):
        result = decode_one(body)
        assert isinstance(result, ReviewUpserted)
        assert result.text == text


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


def test_a_model_is_compared_only_with_vectors_and_only_if_the_worker_has_one() -> None:
    assert isinstance(decode_one(given("a", embedding_model="huge")), ReviewUpserted)
    assert isinstance(decode_one(given(vector([1, 0]), embedding_model="tiny")), ReviewUpserted)
    assert isinstance(decode_one(given(vector([1, 0]))), ReviewUpserted)
    event = given(vector([1, 0]), embedding_model="huge")
    assert isinstance(decode_one(event, limits=NO_ENGINE), ReviewUpserted)


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


def test_labels_are_checked_only_where_facets_have_them() -> None:
    """Events with a field of this name in another form were valid before there were facets."""
    event = {"type": "review.upserted", "entity_id": "e", "review_id": "r"}
    good = event | {"sentences": [{"text": "a", "labels": ["x", "y", "z"]}, "b"]}
    taken = decode_one(good, limits=event_limits(dimension=2, label_bits={"x": 1, "y": 4}))
    assert isinstance(taken, ReviewUpserted)
    assert taken.sentences is not None
    assert [sentence.label_bits for sentence in taken.sentences] == [5, 0]
    bad = event | {"sentences": [{"text": "a", "labels": "x"}]}
    refused = decode_one(bad, limits=event_limits(dimension=2, label_bits={"x": 1}))
    assert isinstance(refused, Rejected)
    assert (refused.reason, refused.detail) == (
        "bad_field",
        "sentences[0].labels: Expected an array of strings",
    )
    assert isinstance(decode_one(bad, limits=event_limits(dimension=2)), ReviewUpserted)


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
