"""The SG tree as an index: what the flat index says, built when it is first searched."""

from __future__ import annotations

from contextlib import nullcontext
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.coversumm.index.sgtree.invariants import check
from tests.coversumm.index.sgtree.truth import (
    Truth,
    agree_on_neighborhood,
    centroid,
    random_live,
    small_constants,
)
from tests.coversumm.scripts import Disk, Script, points, scripts
from worker.coversumm import DuplicateSentence, UnknownSentence, no_points
from worker.coversumm.copies import Copies
from worker.coversumm.index.sgtree import SGTree, SGTreeIndex

SPARE = st.sampled_from([None, 0, 1, 3])  # rows of the reservoir beyond k


@settings(max_examples=100, deadline=None)
@given(scripts(), SPARE, st.data())
def test_batches_commits_and_reloading_change_nothing(
    script: Script, spare: int | None, data: st.DataObject
) -> None:
    with small_constants() if data.draw(st.booleans()) else nullcontext():
        committed_and_reloaded(script, spare, data)


def committed_and_reloaded(script: Script, spare: int | None, data: st.DataObject) -> None:
    disk, results = Disk(script.dimension), []
    index = SGTreeIndex(script.dimension, disk.scan)
    core = script.core(spare, index)
    while len(results) < len(script.steps):
        at = len(results)
        steps = script.steps[at : at + data.draw(st.sampled_from([1, 2, 5, 13, 40]))]
        results += core.apply(steps)
        check(index._tree)
        live = script.live[len(results) - 1]
        if data.draw(st.booleans()):  # stored
            disk.live = live
            index.on_rows_written()
            if data.draw(st.booleans()):  # evicted or restarted
                index = SGTreeIndex(script.dimension, disk.scan)
                core = script.loaded(spare, index)
        if data.draw(st.booleans()):
            copies = Copies() if script.by_text else None
            totals = index.totals(copies)
            assert totals.n == core.n
            assert index.totals().n == len(live) == core.live
            assert totals.total.tolist() == core.total.tolist()
            norms = [float(v.astype(float) @ v.astype(float)) for v in live.values()]
            assert totals.max_squared_norm == max(norms, default=0.0)
    assert results == script.expected()
    assert core.ranking() == script.oracle(-1)


def test_stored_rows_are_read_once_and_updates_come_as_one_batch() -> None:
    live = random_live(8, 500, 2, 1000)
    disk = Disk(2)
    disk.live = {id_: np.array(v, np.int16) for id_, v in live.items()}
    index = SGTreeIndex(2, disk.scan)
    index.totals()
    index.on_rows_written()
    disk.live = {}  # not read again
    small = index.memory_bytes
    index.update(points([(b"0", live.pop(b"0"))], 2), points([(b"new", (1, 2))], 2))
    live[b"new"] = (1, 2)
    with mock.patch.object(
        SGTree, "insert_batch", autospec=True, side_effect=SGTree.insert_batch
    ) as inserted:
        for i in range(300):
            index.update(no_points(2), points([(b"more %d" % i, (i, -i))], 2))
            live[b"more %d" % i] = (i, -i)
        assert inserted.call_count == 0
        assert index.memory_bytes > small + 300 * 100
        n, total = centroid(live, 2)
        found = index.nearest(n, np.array(total, float), 5, 2)
        assert inserted.call_count == 1
    assert len(found.counts) >= 5
    check(index._tree)
    agree_on_neighborhood(index._tree, Truth(live, n, total), n, np.array(total, float), 5)


def test_a_failing_read_leaves_the_index_as_it_was() -> None:
    disk = Disk(1)
    disk.live = {b"%d" % i: np.array([i], np.int16) for i in range(9)}
    reads = iter([lambda: [*[*disk.scan()][:2], None], disk.scan])
    index = SGTreeIndex(1, lambda: next(reads)())  # type: ignore[arg-type]
    with pytest.raises(AttributeError):
        index.totals()
    assert index.totals().n == 9


def test_the_index_refuses_what_it_can_tell() -> None:
    x = points([(b"a", (1, 1))], 2)
    index = SGTreeIndex(2, Disk(2).scan)
    index.update(no_points(2), x)
    for _ in range(2):
        with pytest.raises(DuplicateSentence, match="b'a'"):
            index.update(no_points(2), x)
        assert index.nearest(1, np.ones(2), 1, 1).counts == [1]  # now in the tree
    index.update(x, no_points(2))
    for _ in range(2):
        with pytest.raises(UnknownSentence, match="b'a'"):
            index.update(x, no_points(2))
        assert index.totals().n == 0
    index.update(no_points(2), x)
    assert index.totals().n == 1
