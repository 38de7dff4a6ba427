"""Input that can never be applied, with the reason its dead letter must have. One table for the
tests and the load.

It is for a worker without an engine (`COVERSUMM_EMBEDDER=none`), which also refuses whatever it
would have to embed.
"""

from __future__ import annotations

import base64
import json
from typing import Any, NamedTuple

import numpy as np

ENTITY = "poisoned"
KEY = ENTITY.encode()


class Poison(NamedTuple):
    """One bad record: a name for people, key, value, reason code."""

    name: str
    key: bytes | None
    value: bytes
    reason: str


def packed(vector: Any) -> str:
    """A vector as events carry it: little-endian float32 in base64."""
    return base64.b64encode(np.asarray(vector, dtype="<f4").tobytes()).decode()


def poisons(dimension: int) -> list[Poison]:
    """The whole table, for a worker of `dimension` and default limits."""
    return [
        *_not_json(),
        *_wrong_identity(dimension),
        *_bad_fields(dimension),
        *_bad_vectors(dimension),
        *_too_much(),
    ]


def _upsert(**fields: Any) -> bytes:
    body = {
        "type": "review.upserted",
        "entity_id": ENTITY,
        "review_id": "r",
        "sentences": [],
    } | fields
    return json.dumps(body).encode()


def _one(embedding: Any) -> bytes:
    return _upsert(sentences=[{"text": "poison", "embedding": embedding}])


def _not_json() -> list[Poison]:
    return [
        Poison("no JSON", KEY, b"not json", "bad_json"),
        Poison("empty value", KEY, b"", "bad_json"),
        Poison("cut off", KEY, _upsert()[:-1], "bad_json"),
        Poison("no UTF-8", KEY, _upsert(text="#").replace(b"#", b"\xff"), "bad_json"),
        Poison("NaN literal", KEY, _upsert(rating=float("nan")), "bad_json"),
        Poison("deeply nested", KEY, b"[" * 100_000 + b"]" * 100_000, "bad_json"),
        Poison("an array", KEY, b"[]", "bad_field"),
        Poison("no type", KEY, b"{}", "unknown_type"),
        Poison("another type", KEY, _upsert(type="review.exploded"), "unknown_type"),
    ]


def _wrong_identity(dimension: int) -> list[Poison]:
    good = _one(packed(np.ones(dimension)))
    return [
        Poison("no key", None, good, "no_key"),
        Poison("key of another entity", b"someone else", good, "key_mismatch"),
        Poison("key that is no UTF-8", b"\xff\xfe", good, "key_mismatch"),
    ]


def _bad_fields(dimension: int) -> list[Poison]:
    wrong: dict[str, bytes] = {
        "empty entity id": _upsert(entity_id=""),
        "empty review id": _upsert(review_id=""),
        "review id is a number": _upsert(review_id=7),
        "negative version": _upsert(review_version=-1),
        "version beyond 63 bits": _upsert(review_version=2**63),
        "version is text": _upsert(review_version="3"),
        "no such day": _upsert(occurred_at="2026-02-30T00:00:00Z"),
        "sentences is text": _upsert(sentences="one. two."),
        "neither text nor sentences": json.dumps(
            {"type": "review.upserted", "entity_id": ENTITY, "review_id": "r"}
        ).encode(),
        "delete without review": json.dumps(
            {"type": "review.deleted", "entity_id": ENTITY}
        ).encode(),
        "sentence ids is text": json.dumps(
            {"type": "sentences.deleted", "entity_id": ENTITY, "sentence_ids": "r#0"}
        ).encode(),
    }
    return [Poison(name, KEY, value, "bad_field") for name, value in wrong.items()]


def _bad_vectors(dimension: int) -> list[Poison]:
    one_nan = np.ones(dimension)
    one_nan[-1] = np.nan
    odd = base64.b64encode(b"12345").decode()
    return [
        Poison("list of another dimension", KEY, _one([1.0] * (dimension + 1)), "wrong_dimension"),
        Poison(
            "base64 of another dimension",
            KEY,
            _one(packed(np.ones(dimension - 1))),
            "wrong_dimension",
        ),
        Poison("no whole number of floats", KEY, _one(odd), "bad_vector"),
        Poison("no base64", KEY, _one("***"), "bad_vector"),
        Poison("a NaN", KEY, _one(packed(one_nan)), "bad_vector"),
        Poison("an infinity", KEY, _one(packed(np.full(dimension, np.inf))), "bad_vector"),
        Poison("the zero vector", KEY, _one([0.0] * dimension), "bad_vector"),
        Poison(
            "nothing to embed with",
            KEY,
            _upsert(sentences=None, text="Text alone."),
            "no_embedding",
        ),
    ]


def _too_much() -> list[Poison]:
    return [
        Poison(
            "a long text", KEY, _upsert(sentences=None, text="x" * (300 << 10)), "text_too_long"
        ),
        Poison("many sentences", KEY, _upsert(sentences=[""] * 1001), "too_many_sentences"),
        Poison(
            "a million sentences", KEY, _upsert(sentences=[""] * 1_000_000), "too_many_sentences"
        ),
        Poison("ten megabytes", KEY, _upsert(text="x" * (10 << 20)), "too_large"),
    ]
