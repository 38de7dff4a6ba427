"""Laws of the keys: no two rows share one, and nothing of an entity lies between the rows of
another.
"""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.events.publishing import SUMMARIES
from worker.state import keys
from worker.state.keys import EntityRowKey, IncarnationKeys, describe, header_key, parse_entity_key

IDS = [b"a", b"ab", b"a\0", b"\0", b"#", b"a#0", b"\xff", b"\xff\xff", "é😀".encode(), b"x" * 1024]
ids = st.one_of(st.sampled_from(IDS), st.binary(min_size=1, max_size=6))
numbers = st.one_of(st.integers(0, 300), st.just(2**63))
chunks = st.integers(0, 2**32 - 1)


@st.composite
def entity_keys(draw):
    entity, incarnation, review = draw(ids), draw(numbers), draw(ids)
    made = IncarnationKeys(entity, incarnation)
    kind = draw(st.sampled_from(["header", "published", "review", "texts", "vectors"]))
    chunk = draw(chunks)
    return {
        "header": lambda: (header_key(entity), EntityRowKey(entity)),
        "published": lambda: (made.published[SUMMARIES], EntityRowKey(entity, incarnation, b"P")),
        "review": lambda: (made.review(review), EntityRowKey(entity, incarnation, b"R", review)),
        "texts": lambda: (
            made.text_chunk(review, chunk),
            EntityRowKey(entity, incarnation, b"T", review, chunk),
        ),
        "vectors": lambda: (
            made.vector_chunk(review, chunk),
            EntityRowKey(entity, incarnation, b"V", review, chunk),
        ),
    }[kind]()


@given(entity_keys(), entity_keys())
def test_a_key_tells_its_row_and_no_other(drawn, other):
    (key, parts), (other_key, other_parts) = drawn, other
    assert parse_entity_key(key) == parts
    assert (key == other_key) == (parts == other_parts)
    assert describe(key)


@given(entity_keys(), ids)
def test_an_entity_prefix_finds_its_own_rows_alone(made, entity):
    key, parts = made
    assert key.startswith(header_key(entity)) == (parts.entity == entity)


@given(entity_keys(), ids, numbers)
def test_an_incarnation_prefix_finds_its_own_rows_alone(made, entity, incarnation):
    key, parts = made
    own = parts.entity == entity and parts.incarnation == incarnation
    assert key.startswith(keys.incarnation_prefix(entity, incarnation)) == own


@given(st.lists(entity_keys(), max_size=20))
def test_rows_of_an_entity_are_neighbours_header_first(made):
    ordered = sorted(dict(made).items())
    entities = [parts.entity for _, parts in ordered]
    assert len([e for i, e in enumerate(entities) if i == 0 or entities[i - 1] != e]) == len(
        set(entities)
    )
    for (_, before), (_, after) in pairwise(ordered):
        assert not (before.entity == after.entity and after.incarnation is None)


@given(ids, numbers)
def test_garbage_keys(entity, incarnation):
    key = keys.garbage_key(entity, incarnation)
    assert keys.parse_garbage_key(key) == (entity, incarnation)
    assert "garbage" in describe(key)


@given(ids, ids, chunks)
def test_review_of_vector_key(entity, review, chunk):
    made = IncarnationKeys(entity, 5)
    assert made.review_of_vector_key(made.vector_chunk(review, chunk)) == review


@given(st.binary(max_size=40))
def test_any_bytes_are_described(raw):
    assert describe(raw)
    assert describe(b"E" + raw)


@pytest.mark.parametrize(
    "raw", [b"", b"E", b"X\0\0\0\1a", b"E\0\0\0\1a\0", b"E\0\0\0\1a" + bytes(8) + b"Q"]
)
def test_other_keys_do_not_parse(raw):
    with pytest.raises(ValueError, match="entity key"):
        parse_entity_key(raw)
