"""Subsets: counted and searched together as an index of each one does it."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.coversumm.scripts import Review
from worker.coversumm import EntityCore, FlatIndex, Points, Step, Subsets, load_all, no_points


@settings(max_examples=100, deadline=None)
@given(
    st.integers(0, 2**32),
    st.sampled_from([1, 3, 50]),
    st.sampled_from([0, 1, 4, 40, 1500]),
    st.integers(1, 4),
    st.integers(1, 5),
    st.booleans(),
)
def test_each_core_is_that_of_its_subset_alone(
    seed: int, grid: int, size: int, count: int, k: int, distinct: bool
) -> None:
    chance = np.random.default_rng(seed)
    vectors = chance.integers(-grid, grid + 1, (size, 3)).astype(np.int16)
    inside = chance.random((size, count)) < chance.random(count)
    ends = sorted(chance.integers(0, size + 1, 3).tolist())
    cuts = [slice(a, b) for a, b in zip([0, *ends], [*ends, size], strict=True) if a < b]
    blocks = [Review([b"%d" % i for i in range(size)][cut], vectors[cut]) for cut in cuts]
    rows = {
        id(block): [None if one.all() else np.flatnonzero(one) for one in inside[cut].T]
        for block, cut in zip(blocks, cuts, strict=True)
    }
    scans: list[int] = []

    def scan() -> list[Review]:
        scans.append(1)
        return blocks

    subsets = Subsets(3, scan, lambda block: rows.pop(id(block)))
    cores = [EntityCore(k, 3, FlatIndex(3), distinct=distinct) for _ in range(count)]
    load_all(cores, subsets)
    assert len(scans) == 2
    more = Step(no_points(3), Points([b"new"], np.array([[1, 2, 3]], np.int16)))
    for number, core in enumerate(cores):
        own = [
            Review([block.id(row) for row in chosen], block.vectors[chosen])
            for block, cut in zip(blocks, cuts, strict=True)
            if len(chosen := np.flatnonzero(inside[cut, number]).tolist())
        ]
        index = FlatIndex(3, lambda own=own: own)  # type: ignore[misc]
        alone = EntityCore.load(k, 3, index, distinct=distinct)
        assert core.ranking() == alone.ranking()
        assert core.apply([more]) == alone.apply([more])  # and no other core changes
        assert core.n == alone.n
        assert core.total.tolist() == alone.total.tolist()
        assert core.max_squared_norm == alone.max_squared_norm
        one, other = core.reservoir, alone.reservoir
        assert len(one) >= min(len(other), core.target)
