"""Ratings counted while reviews come, are edited and go: always those of all that are live."""

from __future__ import annotations

from functools import reduce

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from tests.harness.model import ratings
from worker.events.ratings import NO_RATINGS, RatingCounts

RATINGS = st.one_of(
    st.none(),
    st.integers(0, 20).map(lambda half: half / 2),
    st.sampled_from([-0.0, 0.1, -0.5, 10.5, 9.999999, 5e-324, 1.7e308, -1.7e308]),
    st.floats(allow_nan=False, allow_infinity=False),
)
CHANGES = st.lists(st.tuples(st.integers(0, 9), st.booleans(), RATINGS), max_size=60)


@given(CHANGES)
def test_counts_equal_those_of_all_live_reviews(
    changes: list[tuple[int, bool, float | None]],
) -> None:
    live: dict[int, float | None] = {}
    counts = NO_RATINGS
    for review, is_deleted, rating in changes:
        before = live.pop(review, None)
        if is_deleted:
            counts = counts.plus(before, -1)
        else:
            live[review] = rating
            counts = counts.replaced(before, rating)
        assert msgspec.to_builtins(counts.ratings()) == ratings(live.values())
    assert counts == reduce(RatingCounts.plus, live.values(), NO_RATINGS)


def test_a_histogram_is_of_whole_and_half_numbers_and_ascending() -> None:
    counts = reduce(RatingCounts.plus, [10.0, 4.5, -0.0, 4.5, 5.0], NO_RATINGS)
    assert msgspec.json.encode(counts.ratings()) == (
        b'{"count":5,"mean":4.8,"histogram":{"0":1,"4.5":2,"5":1,"10":1}}'
    )
    assert (
        msgspec.json.encode(counts.plus(4.4).ratings()) == b'{"count":6,"mean":4.733333333333333}'
    )
    assert counts.plus(4.4).plus(4.4, -1) == counts
    assert msgspec.json.encode(NO_RATINGS.ratings()) == b'{"count":0,"mean":null,"histogram":{}}'
