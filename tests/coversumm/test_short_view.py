"""The short view is the walk its definition describes, in Python's integers, whatever order and
blocks sentences come in.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.coversumm.naive_short_view import Live, group_of, naive
from tests.coversumm.scripts import Review
from tests.harness.oracle import brute_force
from worker.coversumm.fixed_point import quantize
from worker.coversumm.short_view import choose, read_once, stands_for


class Stored:
    """Sentences in order of id, in blocks of some size; how often they are read is counted."""

    def __init__(self, live: Live, size: int = 3) -> None:
        self.live, self.size, self.reads = live, size, 0

    def __call__(self) -> Iterator[Review]:
        self.reads += 1
        ids = sorted(self.live)
        for at in range(0, len(ids), self.size):
            chunk = ids[at : at + self.size]
            yield Review(chunk, np.array([self.live[id_] for id_ in chunk], np.int16))


@st.composite
def lives(draw: st.DrawFn) -> tuple[Live, int]:
    """Coarse grids, so that equal vectors, equal keys and equal cosines abound; full-sized vectors
    too.
    """
    dimension = draw(st.integers(1, 3))
    grid = draw(st.sampled_from([1, 2, 5, 40, 32767]))
    some = st.tuples(*[st.integers(-grid, grid)] * dimension).filter(any)
    vectors = draw(st.lists(some, max_size=40))
    quantized = draw(st.booleans())
    rows = (
        quantize(vectors)
        if quantized and vectors
        else [np.array(vector, np.int16) for vector in vectors]
    )
    return {b"r%d#%d" % (at // 3, at % 3): row for at, row in enumerate(rows)}, dimension


@settings(max_examples=300, deadline=None)
@given(
    lives(),
    st.sampled_from([0.0, 0.3, 0.5, 0.8, 0.99, 1 - 2**-53]),
    st.integers(1, 12),
    st.integers(1, 9),
    st.integers(1, 50),
    st.booleans(),
)
def test_it_is_the_walk_of_the_definition(
    made: tuple[Live, int], threshold: float, count: int, candidates: int, size: int, by_text: bool
) -> None:
    live, dimension = made
    scan = Stored(live, size)
    chosen = choose(scan, dimension, threshold, count, candidates, by_text=by_text)
    expected, counts = naive(live, threshold, count, by_text=by_text)
    assert chosen.ids == expected
    assert [vector.tolist() for vector in chosen.vectors] == [
        live[id_].tolist() for id_ in expected
    ]
    assert stands_for(scan, chosen.vectors, threshold, group_of) == counts
    everything = brute_force(live, len(live), by_text=by_text)
    by_id = dict(zip(everything.ids, everything.distances(), strict=True))
    assert chosen.distances == tuple(by_id[id_] for id_ in expected)
    assert all(count.sentences >= count.groups >= 1 for count in counts)
    assert sum(count.sentences for count in counts) <= len(live)


@settings(max_examples=100, deadline=None)
@given(lives(), st.integers(0, 2000))
def test_reading_them_once_is_reading_them_often(made: tuple[Live, int], most_bytes: int) -> None:
    live, dimension = made
    scan = Stored(live)
    once = read_once(scan, most_bytes)
    for _ in range(3):
        assert [(block.ids, block.vectors.tolist()) for block in once()] == [
            (block.ids, block.vectors.tolist()) for block in Stored(live)()
        ]
    assert scan.reads == (1 if 2 * dimension * len(live) <= most_bytes else 3)


def test_near_copies_beyond_what_a_pass_keeps_are_walked_past() -> None:
    """Twins crowd the centre, far more than candidates are kept: the next pass leaves
    them all out.
    """
    rng = np.random.default_rng(0)
    centre = np.array([1.0, 0.0, 0.0]) + 0.01 * rng.normal(size=(500, 3))
    away = np.array([[0.6, 0.8, 0.0], [0.6, -0.8, 0.0], [0.0, 0.0, 1.0]])
    rows = quantize(np.concatenate((centre, away)))
    live = {b"r%03d#0" % at: row for at, row in enumerate(rows)}
    scan = Stored(live, 64)
    chosen = choose(scan, 3, 0.8, 4, candidates=8)
    assert scan.reads <= 5
    expected, counts = naive(live, 0.8, 4)
    assert (chosen.ids, stands_for(scan, chosen.vectors, 0.8, group_of)) == (expected, counts)
    assert set(expected[1:]) == {b"r500#0", b"r501#0", b"r502#0"}
