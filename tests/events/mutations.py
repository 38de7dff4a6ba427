"""Mutated events."""

from __future__ import annotations

import json

from hypothesis import strategies as st

from tests.events.examples import packed
from worker.events.fields import MAX_ID_CHARS

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
IDS = TEXT.filter(bool) | st.sampled_from(["\0", "e" * MAX_ID_CHARS, "🎉", '"\\'])
OPTIONAL = {
    "review_version": st.none() | st.integers(0, 2**63 - 1),
    "rating": st.none() | st.floats(allow_nan=False, allow_infinity=False),
    "occurred_at": st.none() | st.datetimes().map(lambda t: t.isoformat() + "Z"),
}
NUMBERS = st.floats(-1e6, 1e6, width=32).filter(lambda x: x == 0 or abs(x) > 1e-6)
VECTORS = st.tuples(NUMBERS, NUMBERS).filter(any)
SENTENCES = TEXT | st.fixed_dictionaries(
    {"text": TEXT},
    optional={"embedding": VECTORS.map(list) | VECTORS.map(lambda v: packed(*v)) | st.none()},
)
UPSERTS = st.fixed_dictionaries(
    {
        "type": st.just("review.upserted"),
        "entity_id": IDS,
        "review_id": IDS,
        "text": TEXT | st.none(),
    },
    optional={**OPTIONAL, "sentences": st.lists(SENTENCES, max_size=5)},
)
OTHERS = st.one_of(
    st.fixed_dictionaries(
        {"type": st.just("review.deleted"), "entity_id": IDS, "review_id": IDS}, optional=OPTIONAL
    ),
    st.fixed_dictionaries(
        {
            "type": st.just("sentences.deleted"),
            "entity_id": IDS,
            "sentence_ids": st.lists(IDS, max_size=3),
        }
    ),
    st.fixed_dictionaries({"type": st.just("entity.deleted"), "entity_id": IDS}),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=10,
)


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """A valid event with some fields replaced, then perhaps some of its bytes."""
    event = draw(UPSERTS | OTHERS)
    for name in draw(
        st.lists(st.sampled_from([*event, "more", "rating", "sentences"]), max_size=2)
    ):
        event[name] = draw(JSON)
    raw = bytearray(json.dumps(event, ensure_ascii=draw(st.booleans())).encode())
    for at, byte in draw(
        st.lists(st.tuples(st.integers(0, len(raw) - 1), st.integers(0, 255)), max_size=2)
    ):
        raw[at] = byte
    return bytes(raw[: draw(st.integers(0, len(raw)))] if draw(st.booleans()) else raw)
