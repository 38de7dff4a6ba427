"""The flat index: exactly the sentences below a radius, ids for those alone, overlay and stored
rows as one set.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.coversumm.scripts import Disk, Review, points
from worker.coversumm import (
    DuplicateSentence,
    EntityCore,
    FlatIndex,
    Points,
    Step,
    UnknownSentence,
    no_points,
    quantize,
)
from worker.coversumm.index.flat import READ_ROWS, keys_of


@settings(max_examples=150, deadline=None)
@given(
    st.integers(0, 2**32),
    st.sampled_from([1, 3, 50]),
    st.sampled_from([1, 4, 400]),
    st.integers(1, 9),
)
def test_nearest_is_a_full_ball(seed: int, grid: int, size: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    disk = Disk(2)
    drawn = rng.integers(-grid, grid + 1, (size, 2)).astype(np.int16)
    disk.live = {b"%d" % i: vector for i, vector in enumerate(drawn)}
    live = dict(disk.live)
    index = FlatIndex(2, disk.scan)
    for i in rng.permutation(size)[: size // 3]:  # removed, edited, back again
        id_ = b"%d" % i
        index.update(points([(id_, live.pop(id_))], 2), no_points(2))
        if i % 3:
            live[id_] = rng.integers(-grid, grid + 1, 2).astype(np.int16)
            index.update(no_points(2), points([(id_, live[id_])], 2))
    total = sum((v.astype(float) for v in live.values()), np.zeros(2))
    totals = index.totals()
    assert (totals.n, totals.total.tolist()) == (len(live), total.tolist())
    found = index.nearest(len(live), total, count, ids_kept=3)
    keys = dict(
        zip(
            live,
            keys_of(
                np.array(list(live.values()), np.int16).reshape(-1, 2), len(live), total
            ).tolist(),
            strict=True,
        )
    )
    inside = {
        id_ for id_, key in keys.items() if found.radius_key is None or key < found.radius_key
    }
    groups: dict[bytes, list[bytes]] = {}
    for id_ in sorted(inside):
        groups.setdefault(live[id_].tobytes(), []).append(id_)
    assert {v.tobytes(): (c, low) for v, c, low in zip(*found[:3], strict=True)} == {
        data: (len(ids), ids[:3]) for data, ids in groups.items()
    }
    distinct = len({v.tobytes() for v in live.values()})
    assert len(groups) >= min(count, distinct)
    if found.radius_key is not None and grid == 50 and size == 400:
        assert len(groups) < distinct


def test_ids_are_made_for_the_selected_only() -> None:
    rng = np.random.default_rng(0)
    vectors = quantize(rng.normal(size=(5000, 8)))
    blocks = [Review([b"%d" % i], vectors[i : i + 1]) for i in range(5000)]
    core = EntityCore.load(5, 8, FlatIndex(8, lambda: blocks))
    assert core.n == 5000
    assert sum(block.asked for block in blocks) < 600
    assert core.memory_bytes < 200_000


@pytest.mark.parametrize(("rows", "passes"), [(300, 1), (READ_ROWS, 1), (READ_ROWS + 1, 2)])
def test_what_a_count_has_read_serves_the_search_after_it(rows: int, passes: int) -> None:
    vectors = np.random.default_rng(0).integers(-50, 50, (rows, 3)).astype(np.int16)
    scans: list[int] = []

    def scan() -> list[Review]:
        scans.append(1)
        return [Review([b"%d" % i], vectors[i : i + 1]) for i in range(rows)]

    def change(index: FlatIndex) -> None:
        index.update(Points([b"7"], vectors[7:8]), points([(b"new", vectors[8])], 3))

    index, unread = FlatIndex(3, scan), FlatIndex(3, scan)
    n, total, _ = index.totals()
    change(index)  # what changes in between counts
    found = index.nearest(n, total, 5, ids_kept=9)
    assert len(scans) == passes
    change(unread)
    expected = unread.nearest(n, total, 5, ids_kept=9)
    assert (found.vectors.tolist(), found.lowest_ids) == (
        expected.vectors.tolist(),
        expected.lowest_ids,
    )
    scans.clear()
    index.nearest(n, total, 5, ids_kept=9)
    assert len(scans) == 1  # it is kept for one search


def test_refusals_name_the_sentence() -> None:
    x = np.ones((1, 2), np.int16)
    index = FlatIndex(2)
    with pytest.raises(UnknownSentence, match="b'a'"):
        index.update(Points([b"a"], x), no_points(2))
    index.update(no_points(2), Points([b"a"], x))
    with pytest.raises(DuplicateSentence, match="b'a'"):
        index.update(no_points(2), Points([b"a"], x))
    stored = FlatIndex(2, lambda: [])
    stored.update(Points([b"a"], x), no_points(2))
    stored.update(Points([b"a"], x), no_points(2))
    with pytest.raises(UnknownSentence, match="b'a'"):
        stored.totals()
    core = EntityCore(3, 2, FlatIndex(2, lambda: []))
    core.apply([Step(no_points(2), Points([b"b"], x))])
    # stored rows are not asked, but the reservoir knows
    with pytest.raises(UnknownSentence, match="b'a'"):
        core.apply([Step(Points([b"a"], x), no_points(2))])
