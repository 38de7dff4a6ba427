"""Another codec needs no change in the rules: what it reads is refused for the same reasons, in the
same words.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given as holds_for
from hypothesis import settings
from hypothesis import strategies as st
from msgspec import UNSET, structs

from tests.events.examples import (
    LIMITS,
    assert_same_event,
    decode_one,
    given,
    packed,
    record,
    upsert,
    vector,
)
from worker.events import (
    Cause,
    Event,
    FacetsChanged,
    RankedChange,
    RatingCounts,
    Rejected,
    ReviewDetails,
    SummaryChanged,
    decode,
    summary_sentence,
)
from worker.events.codec import OUTPUTS, InputCodec, OutputCodec
from worker.events.inputs import EVENT_TYPES, Body
from worker.events.json_codec import unknown_type, wrong_field
from worker.events.reasons import BadEvent, Reason
from worker.registry.output import AvroOutput


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


AVRO = AvroOutput({SummaryChanged: 7, FacetsChanged: 8})
FORMATS: dict[str, OutputCodec] = {**OUTPUTS, "avro": AVRO}
OTHER: InputCodec = MessagePack()


def decode_other(event: Any, key: bytes | None = b"e") -> Event | Rejected:
    (result,) = decode([record(msgspec.msgpack.encode(event), key)], LIMITS, OTHER)
    return result


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
    decoded, other = decode_one(event), decode_other(event)
    assert_same_event(decoded, other)


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
    decoded = decode_one(event)
    assert isinstance(decoded, Rejected)
    assert decoded.reason == reason
    assert decode_other(event) == decoded


@pytest.mark.parametrize("rating", [float("nan"), float("-inf")])
def test_a_rating_that_json_has_not_is_refused(rating: float) -> None:
    refused = decode_other(upsert(rating=rating))
    assert isinstance(refused, Rejected)
    assert (refused.reason, refused.detail) == ("bad_field", f"rating: {rating} is not a number")


def test_what_is_not_in_the_format_is_the_codecs_own_reason() -> None:
    (result,) = decode([record(b"\xc1")], LIMITS, OTHER)
    assert isinstance(result, Rejected)
    assert result.reason == "bad_wire_format"


# -- changes encoded together ----------------------------------------------------------------------

TEXTS = st.text(max_size=30)
SENTENCES = st.lists(
    st.tuples(
        TEXTS,
        TEXTS,
        TEXTS,
        st.builds(
            ReviewDetails,
            st.none() | st.floats(allow_nan=False, allow_infinity=False),
            st.none() | TEXTS,
            st.none() | TEXTS,
        ),
        st.integers(0, 2 * 10**6).map(lambda micros: micros / 10**6) | st.floats(0, 1e11),
        st.just(1) | st.integers(1, 10**6),
    ),
    max_size=25,
)
CHANGES = st.lists(st.tuples(TEXTS, st.lists(TEXTS, max_size=3), SENTENCES), max_size=4)


@settings(deadline=None)
@holds_for(CHANGES)
@pytest.mark.parametrize("codec", FORMATS.values(), ids=FORMATS)
def test_changes_encoded_together_have_the_bytes_of_each_body(codec, changes):
    whole = [
        SummaryChanged(
            entity_id,
            1,
            7,
            None,
            [summary_sentence(rank, *sentence) for rank, sentence in enumerate(sentences)],
            added,
            [],
            2,
            3,
            20,
            Cause("review.upserted", "reviews", 0, 7, entity_id),
            None,
            None,
            ratings=RatingCounts({9: len(sentences)}).ratings() if sentences else UNSET,
        )
        for entity_id, added, sentences in changes
    ]
    ranked = [
        RankedChange(
            structs.replace(body, sentences=[]),
            [codec.quote(*quoted) for *quoted, _, _ in sentences],
            [sentence.distance for sentence in body.sentences],
            [sentence.support for sentence in body.sentences],
        )
        for body, (_, _, sentences) in zip(whole, changes, strict=True)
    ]
    assert codec.encode_ranked(ranked) == [codec.encode(body) for body in whole]


@pytest.mark.parametrize("codec", FORMATS.values(), ids=FORMATS)
def test_a_set_may_have_more_sentences_than_ranks_are_prepared_for(codec):
    body = SummaryChanged(
        "e",
        1,
        7,
        None,
        [],
        [],
        [],
        1,
        1500,
        1500,
        Cause("review.upserted", "r", 0, 7, None),
        None,
        None,
    )
    details = ReviewDetails(verified=False, country="NL", author_id="é")
    quotes = [codec.quote(f"r#{i}", "r", '"sentences":[]', details) for i in range(1500)]
    (value,) = codec.encode_ranked([RankedChange(body, quotes, [0.5] * 1500, [1] * 1500)])
    sentences = [
        summary_sentence(i, f"r#{i}", "r", '"sentences":[]', details, 0.5, 1) for i in range(1500)
    ]
    assert value == codec.encode(structs.replace(body, sentences=sentences))
