"""Each distinct vector counts once: copies come in large numbers and go one by one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from unittest import mock

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.coversumm.scripts import Disk, Script, points, tight
from worker.coversumm import (
    EntityCore,
    FlatIndex,
    Index,
    Points,
    UnknownSentence,
    copies,
    no_points,
)
from worker.coversumm.copies import Copies
from worker.coversumm.index.sgtree import SGTreeIndex


@pytest.mark.parametrize("fewest", [1, 5, 256])
def test_counts_are_those_of_a_counter(fewest: int) -> None:
    rng = np.random.default_rng(fewest)
    ours, live, held = Copies(), dict[bytes, tuple[int, int]](), Counter[tuple[int, int]]()
    with mock.patch.object(copies, "FEWEST", fewest):
        for at in range(1500):
            ids = list(live)
            rng.shuffle(ids)
            gone = {id_: live.pop(id_) for id_ in ids[: rng.integers(0, 4)]}
            come = {
                b"%d.%d" % (at, i): (int(rng.zipf(1.3)) % 500, int(rng.integers(0, 2)))
                for i in range(rng.integers(0, 4 if at < 1000 else 2))
            }
            before = held.copy()
            held.subtract(gone.values())
            held.update(come.values())
            live |= come
            added = points(come.items(), 2)
            net = ours.net(points(gone.items(), 2), added)
            ours.apply(net)
            left = [tuple(vector) for vector in net.left.tolist()]
            joined = [tuple(vector) for vector in added.vectors[net.joined].tolist()]
            assert sorted(left) == sorted(v for v in held if before[v] and not held[v])
            assert sorted(joined) == sorted(v for v in held if held[v] and not before[v])
            firsts = {vector: row for row, vector in reversed(list(enumerate(come.values())))}
            assert net.joined == [firsts[vector] for vector in joined]
            assert ours.live == len(live)
    with pytest.raises(UnknownSentence):
        ours.net(points([(b"x", (-1, -1))], 2), no_points(2))


def test_digests_may_end_in_zeros() -> None:
    def ends_in_zeros(vector: NDArray[np.int16]) -> bytes:
        return bytes([int(vector[0])]) + bytes(14) + bytes([int(vector[1])])

    vectors = np.array([[x, y] for x in range(9) for y in range(2)], np.int16)
    with mock.patch.object(copies, "digest", ends_in_zeros):
        ours = Copies()
        ours.take(vectors)
        ours.settle()
        assert ours.memory_bytes == 16 * len(vectors)
        for at in range(len(vectors)):
            assert len(ours.net(Points([b"x"], vectors[at : at + 1]), no_points(2)).left) == 1
            other = vectors[at : at + 1] + np.array([[0, 7]], np.int16)
            assert ours.net(no_points(2), Points([b"x"], other)).joined == [0]


def test_a_vector_of_one_copy_takes_few_bytes() -> None:
    vectors = np.arange(60_000, dtype=np.int64).reshape(-1, 2).astype(np.int16)
    ours = Copies()
    assert ours.take(vectors) == list(range(30_000))
    ours.settle()
    assert ours.memory_bytes == 16 * 30_000
    core = EntityCore(3, 2, FlatIndex(2), by_text=True)
    small = core.memory_bytes
    core.copies = ours
    assert core.memory_bytes == small + ours.memory_bytes


def _history(seed: int, grid: int) -> Script:
    """Copies of few vectors among many others come, and then all go one by one."""
    rng = np.random.default_rng(seed)
    script = Script(3, 4, False, by_text=True)
    pool = rng.integers(-grid, grid, (25, 3))
    for at in range(180):
        center = grid * np.array([at / 180, 0, -at / 360])
        vector = pool[rng.integers(25)]
        if rng.random() > 0.7:
            vector = center + grid * rng.normal(size=3)
        id_ = b"%04d" % rng.permutation(10_000)[0] + b".%d" % at
        script.add([], {id_: tuple(np.rint(vector).astype(int))})
        if rng.random() < 0.1:  # an edit: to another vector, perhaps a copy
            id_ = list(script.live[-1])[rng.integers(len(script.live[-1]))]
            script.add([id_], {id_: tuple(pool[rng.integers(25)])})
    while script.live[-1]:
        live = script.live[-1]
        shown = [id_ for id_ in script.oracle(-1).ids if rng.random() < 0.5]  # representatives
        script.add(shown[:1] or [list(live)[rng.integers(len(live))]], {})
    return script


@pytest.mark.parametrize("new_index", [FlatIndex, SGTreeIndex])
@pytest.mark.parametrize("seed", range(4))
def test_copies_that_go_one_by_one(new_index: Callable[..., Index], seed: int) -> None:
    """After every event the set, order, support and distances of the first copies alone."""
    script = _history(seed, [3, 40, 2000, 9000][seed])
    expected, disk, results = script.expected(), Disk(3), []
    assert len(script.steps) > 350
    changed = [ranking for ranking in expected if ranking is not None]
    assert max(max(ranking.support) for ranking in changed if ranking.ids) > 5
    index = new_index(3, disk.scan)
    core, rng = tight(script.loaded(None, index), 1), np.random.default_rng(seed)
    while len(results) < len(script.steps):
        steps = script.steps[len(results) : len(results) + rng.integers(1, 30)]
        with mock.patch.object(copies, "FEWEST", 8):
            results += core.apply(steps)
        live = script.live[len(results) - 1]
        assert core.ranking() == script.oracle(len(results) - 1)
        assert (core.live, core.n) == (len(live), len({v.tobytes() for v in live.values()}))
        disk.live = live
        index.on_rows_written()
        if rng.random() < 0.2:  # evicted or restarted
            index = new_index(3, disk.scan)
            core = tight(script.loaded(None, index), 1)
    assert results == expected
