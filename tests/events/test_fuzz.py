"""Whatever the bytes, decoding gives one result a record and never raises; what is accepted is what
was meant.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from hypothesis import given as given_data
from hypothesis import settings
from hypothesis import strategies as st

from tests.events.examples import LIMITS, decode, decode_one
from tests.events.mutations import JSON, OPTIONAL, OTHERS, UPSERTS, mutated
from worker.coversumm.fixed_point import quantize
from worker.events import Record, Rejected, ReviewUpserted, read_line


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
