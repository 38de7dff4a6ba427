"""Whatever the bytes, decoding gives one result a record and never raises; what is accepted is what
was meant.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from hypothesis import example, settings
from hypothesis import given as given_data
from hypothesis import strategies as st

from tests.events.examples import LIMITS, decode, decode_one, record, strict_json
from tests.events.mutations import JSON, OPTIONAL, OTHERS, UPSERTS, mutated
from worker.coversumm.fixed_point import quantize
from worker.events import Reason, Record, Rejected, ReviewUpserted, read_line


@given_data(
    st.lists(
        st.tuples(st.none() | st.binary(max_size=8), st.none() | st.binary() | mutated()),
        max_size=6,
    )
)
@settings(deadline=None, max_examples=500)
def test_decode_never_raises(pairs: list[tuple[bytes | None, bytes | None]]) -> None:
    records = [record(value, key) for key, value in pairs]
    results = decode(records, LIMITS)
    assert len(results) == len(records)
    for one, result in zip(records, results, strict=True):
        if isinstance(result, Rejected):
            assert result.reason in Reason
            assert result.detail.isprintable()
        else:
            assert result.entity_id.encode() == one.key


HALF = rb"\ud83d udc00"
"""A pair of surrogates with one damaged byte."""


@given_data(mutated())
@example(b'{"type":"sentences.deleted","entity_id":"e","sentence_ids":[{"%b":null}]}' % HALF)
@example(b'{"type":"review.upserted","entity_id":"e","review_id":"r","text":"Good. %b"}' % HALF)
@example(b'{"type":"review.deleted","entity_id":"e","review_id":"%b"}' % HALF)
@example(b'{"type":"entity.deleted","entity_id":"e","%b":1}' % HALF)
@settings(deadline=None, max_examples=300)
def test_another_parser_agrees_on_what_is_json(value: bytes) -> None:
    result = decode_one(value)
    try:
        strict_json(value)
    except ValueError:
        assert isinstance(result, Rejected)
        assert result.reason == Reason.BAD_JSON
    else:
        assert not isinstance(result, Rejected) or result.reason != Reason.BAD_JSON, result


@given_data(UPSERTS)
@settings(deadline=None, max_examples=300)
def test_valid_upserts_come_through(event: dict[str, Any]) -> None:
    result = decode_one(event, event["entity_id"].encode())
    assert isinstance(result, ReviewUpserted), result
    for name in ("entity_id", "review_id", "text", *OPTIONAL):
        assert getattr(result if hasattr(result, name) else result.details, name) == event.get(name)
    items = event.get("sentences")
    if items is None:
        assert result.sentences is None
        return
    assert result.sentences is not None
    for item, sentence in zip(items, result.sentences, strict=True):
        text, embedding = (
            (item, None) if isinstance(item, str) else (item["text"], item.get("embedding"))
        )
        assert sentence.text == text
        if embedding is None or not text.strip():
            assert sentence.vector is None
        elif isinstance(embedding, list):
            np.testing.assert_array_equal(sentence.vector, quantize([embedding])[0])
        else:
            assert sentence.vector is not None


@given_data(OTHERS)
@settings(deadline=None)
def test_valid_deletions_come_through(event: dict[str, Any]) -> None:
    result = decode_one(event, event["entity_id"].encode())
    assert not isinstance(result, Rejected), result
    for name, value in event.items():
        if name not in ("type", "rating"):
            assert getattr(result, name) == value


@given_data(st.binary() | mutated() | JSON.map(lambda value: json.dumps(value).encode()))
@settings(deadline=None, max_examples=300)
def test_any_line_can_be_read(line: bytes) -> None:
    key, value = read_line(line)
    (result,) = decode([Record("file", 0, 0, 0, key, value)], LIMITS)
    assert isinstance(result, Rejected) or result.entity_id.encode() == key
