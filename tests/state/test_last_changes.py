"""The rows of what is still to be published at the end of a replay."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.events.outputs import LastSummary
from worker.events.publishing import SUMMARIES
from worker.events.ratings import Ratings
from worker.state import CorruptRow, MemoryRows
from worker.state.keys import LAST_CHANGE, describe, last_change_key
from worker.state.partition import last_changes, put_last_change
from worker.state.rows import decode_last_change, encode_last_change, seal

entities = st.one_of(
    st.sampled_from([b"a", b"ab", b"a\0", b"\0"]), st.binary(min_size=1, max_size=5)
)
numbers = st.floats(allow_nan=False, allow_infinity=False)
texts = st.one_of(st.none(), st.text(max_size=5))
counts = st.integers(0, 2**63 - 1)
changes = st.builds(
    LastSummary,
    st.integers(-(2**63), 2**63 - 1),
    st.text(max_size=5),
    st.text(max_size=5),
    texts,
    texts,
    counts,
    counts,
    st.lists(st.one_of(st.none(), numbers), max_size=3),
    st.lists(numbers, max_size=3),
    st.lists(counts, max_size=3),
    st.lists(texts, max_size=3),
    st.lists(texts, max_size=3),
    st.none() | st.builds(Ratings, counts, st.none() | numbers, st.just({"4.5": 1})),
)
CHANGE = LastSummary(
    5, "reviews", "review.upserted", "r", None, 1, 2, [None, 4.0], [0.5, 0.25], [1, 1]
)


@given(st.lists(st.tuples(entities, st.one_of(st.none(), changes)), max_size=20))
def test_each_entity_has_its_last_one_until_it_is_published(puts):
    rows, wanted = MemoryRows({b"A": b"other", b"E\0\0\0\1a": b"other"}), {}
    for entity, change in puts:
        pending = {}
        put_last_change(pending, entity, SUMMARIES, change)
        rows.write(pending)
        wanted[entity] = change
    left = {entity: change for entity, change in wanted.items() if change is not None}
    assert list(last_changes(rows)) == sorted(
        left.items(), key=lambda change: last_change_key(change[0])
    )


@given(entities, changes)
def test_a_row_comes_back_as_it_was(entity, change):
    key = last_change_key(entity)
    assert decode_last_change(key, SUMMARIES, encode_last_change(key, change)) == change


def test_a_row_says_whose_it_is():
    assert describe(last_change_key("é".encode())) == "last change of entity 'é'"
    assert describe(LAST_CHANGE + b"\0")


@pytest.mark.parametrize(
    "damage", [lambda value: value[:-1], lambda value: value[:-1] + b"\xff", lambda _: b""]
)
def test_a_damaged_row_is_named(damage):
    key = last_change_key(b"one")
    rows = MemoryRows({key: damage(encode_last_change(key, CHANGE))})
    with pytest.raises(CorruptRow, match="last change of entity 'one'"):
        list(last_changes(rows))


@pytest.mark.parametrize("payload", [b"", b"\x05", b"\x91\x05", b"{}"])
def test_a_row_that_holds_something_else_is_named(payload):
    key = last_change_key(b"one")
    with pytest.raises(CorruptRow, match="last change of entity 'one'"):
        decode_last_change(key, SUMMARIES, seal(key, payload))
