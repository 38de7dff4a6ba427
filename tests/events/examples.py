"""Events for the suites, and a worker's limits small enough to reach."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.harness.limits import event_limits
from worker.events import Event, Limits, Reason, Record, Rejected, ReviewUpserted
from worker.events import decode as decode_any
from worker.events.decode import Decoded

LIMITS = event_limits(
    dimension=2,
    model="tiny",
    max_event_bytes=100_000,
    max_text_bytes=1000,
    max_sentence_chars=100,
    max_sentences_per_review=5,
)
NO_ENGINE = event_limits(dimension=2, embeds=False)


def packed(*numbers: float) -> str:
    """Base64 of little-endian float32."""
    return base64.b64encode(struct.pack(f"<{len(numbers)}f", *numbers)).decode()


def upsert(**changes: Any) -> dict[str, Any]:
    """A valid `review.upserted`; a change to `...` takes the field away."""
    event = {
        "type": "review.upserted",
        "entity_id": "e",
        "review_id": "r",
        "text": "Good.",
        **changes,
    }
    return {name: value for name, value in event.items() if value is not ...}


def given(*sentences: Any, **changes: Any) -> dict[str, Any]:
    """A valid `review.upserted` with given sentences."""
    return upsert(text=..., sentences=list(sentences), **changes)


def vector(embedding: Any, text: str = "Good.") -> dict[str, Any]:
    """One given sentence with its embedding."""
    return {"text": text, "embedding": embedding}


def record(value: Any, key: bytes | None = b"e", offset: int = 0) -> Record:
    """A record of raw bytes, of None, or of anything that becomes JSON."""
    if value is not None and not isinstance(value, bytes):
        value = json.dumps(value).encode()
    return Record("reviews", 3, offset, 1_700_000_000_123, key, value)


def decode(records: Sequence[Record], *given: Any, **more: Any) -> list[Decoded]:
    """What becomes of records, none of which may be an internal error."""
    found = decode_any(records, *given, **more)
    for event in found:
        assert not isinstance(event, Rejected) or event.reason is not Reason.INTERNAL_ERROR, event
    return found


def decode_one(value: Any, key: bytes | None = b"e", limits: Limits = LIMITS) -> Event | Rejected:
    """What becomes of one record."""
    (result,) = decode([record(value, key)], limits)
    return result


def strict_json(raw: bytes) -> Any:
    """Python's own parser without NaN and Infinity, which are no JSON; ValueError for what is none.
    A lone surrogate is JSON.
    """

    def refuse(constant: str) -> None:
        raise ValueError(constant)

    return json.loads(raw.decode(), parse_constant=refuse)


def assert_same_event(event: Any, other: Any) -> None:
    """`other`, read from another format, is the event `one`; their vectors are views of different
    arrays.
    """
    assert not isinstance(event, Rejected)
    if isinstance(event, ReviewUpserted) and event.sentences is not None:
        assert isinstance(other, ReviewUpserted)
        assert other.sentences is not None
        for mine, theirs in zip(event.sentences, other.sentences, strict=True):
            assert mine.text == theirs.text
            np.testing.assert_array_equal(mine.vector, theirs.vector)
    else:
        assert event == other
