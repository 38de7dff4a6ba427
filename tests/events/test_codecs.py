"""Another codec needs no change in the rules: what it reads is refused for the same reasons, in the same words."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import numpy as np
import pytest

from tests.events.examples import LIMITS, decode_one, given, packed, record, upsert, vector
from worker.events import Event, Rejected, ReviewUpserted, SummaryChanged, decode
from worker.events.codecs import CODECS, Codec
from worker.events.codecs.faults import unknown_type, wrong_field
from worker.events.inputs import EVENT_TYPES, Body
from worker.events.reasons import BadEvent, Reason


class MessagePack:
    """A codec that reads a mapping first, as one for Avro does."""

    CONTENT_TYPE = b"application/msgpack"

    def decode(self, value: bytes) -> Body:
        try:
            mapping = msgspec.msgpack.decode(value, type=dict[str, Any])
        except msgspec.DecodeError as error:
            raise BadEvent(Reason.BAD_WIRE_FORMAT, str(error)) from None
        name = mapping.get("type")
        if name not in EVENT_TYPES.values():
            raise unknown_type(b"" if name is None else json.dumps(name).encode())
        try:
            body: Body = msgspec.convert(mapping, Body)
        except msgspec.ValidationError as error:
            raise wrong_field(error) from None
        return body

    def encode(self, body: SummaryChanged) -> bytes:
        return msgspec.msgpack.encode(body)


OTHER: Codec = MessagePack()


def decode_other(event: Any, key: bytes | None = b"e") -> Event | Rejected:
    (result,) = decode([record(msgspec.msgpack.encode(event), key)], LIMITS, OTHER)
    return result


def test_the_json_codec_is_registered() -> None:
    assert CODECS["json"].CONTENT_TYPE == b"application/json"


@pytest.mark.parametrize(
    "event",
    [
        upsert(),
        upsert(review_version=3, rating=4.5, occurred_at="2026-11-20T12:00:00Z"),
        given("Good.", vector([3, 4]), vector(packed(1, 0)), vector([0, 0], " ")),
        {"type": "review.deleted", "entity_id": "e", "review_id": "r", "reason": "spam"},
        {"type": "sentences.deleted", "entity_id": "e", "sentence_ids": ["r#0"]},
        {"type": "entity.deleted", "entity_id": "e"},
    ],
)
def test_an_event_is_the_same_in_another_format(event: dict[str, Any]) -> None:
    one, other = decode_one(event), decode_other(event)
    assert not isinstance(one, Rejected)
    if isinstance(one, ReviewUpserted) and one.sentences is not None:
        assert isinstance(other, ReviewUpserted)
        assert other.sentences is not None
        for mine, theirs in zip(one.sentences, other.sentences, strict=True):
            assert mine.text == theirs.text
            np.testing.assert_array_equal(mine.vector, theirs.vector)
    else:
        assert one == other


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        (upsert(type="review.created"), "unknown_type"),
        (upsert(type=...), "unknown_type"),
        (upsert(review_id=...), "bad_field"),
        (upsert(review_version=-1), "bad_field"),
        (upsert(occurred_at="2026-11-20"), "bad_field"),
        (upsert(occurred_at="2026-02-29T12:00:00Z"), "bad_field"),
        (upsert(text=...), "bad_field"),
        (given({"embedding": [1, 0]}), "bad_field"),
        (upsert(entity_id="f"), "key_mismatch"),
        (upsert(text="a" * 1001), "text_too_long"),
        (given(*"abcdef"), "too_many_sentences"),
        (given(vector([1])), "wrong_dimension"),
        (given(vector("....")), "bad_vector"),
        (given(vector("AACAPwAA")), "bad_vector"),
        (given(vector([0, 0])), "bad_vector"),
        (given(vector([1, 0]), embedding_model="huge"), "wrong_model"),
    ],
)
def test_a_refusal_is_the_same_in_another_format(event: dict[str, Any], reason: str) -> None:
    one = decode_one(event)
    assert isinstance(one, Rejected)
    assert one.reason == reason
    assert decode_other(event) == one


def test_what_is_not_in_the_format_is_the_codecs_own_reason() -> None:
    (result,) = decode([record(b"\xc1")], LIMITS, OTHER)
    assert isinstance(result, Rejected)
    assert result.reason == "bad_wire_format"
