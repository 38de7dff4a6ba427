"""Whatever happens in whatever grouping, the core says what the definition says, byte for byte."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.coversumm.scripts import Disk, Script, scripts
from worker.coversumm import EntityCore, FlatIndex

SPARE = st.sampled_from([None, 0, 1, 3])  # rows of the reservoir beyond k


@settings(max_examples=200, deadline=None)
@given(scripts(), SPARE)
def test_steps_are_the_oracle(script: Script, spare: int | None) -> None:
    core = script.core(spare)
    assert core.apply(script.steps) == script.expected()
    _check_end(core, script)


@settings(max_examples=150, deadline=None)
@given(scripts(), SPARE, st.data())
def test_batches_settling_and_reloading_change_nothing(
    script: Script, spare: int | None, data: st.DataObject
) -> None:
    disk = Disk(script.dimension)
    index = FlatIndex(script.dimension, disk.scan)
    core = script.core(spare, index)
    expected, results = script.expected(), []
    while len(results) < len(script.steps):
        at = len(results)
        steps = script.steps[at : at + data.draw(st.sampled_from([1, 2, 5, 13, 40]))]
        results += core.apply(steps)
        if data.draw(st.booleans()):  # stored: the overlay goes
            disk.live = script.live[len(results) - 1]
            index.on_rows_written()
            assert index.memory_bytes == FlatIndex(script.dimension, disk.scan).memory_bytes or len(
                steps
            )
            if data.draw(st.booleans()):  # evicted or restarted
                index = FlatIndex(script.dimension, disk.scan)
                core = script.loaded(spare, index)
    assert results == expected
    _check_end(core, script)


def _check_end(core: EntityCore, script: Script) -> None:
    live = script.live[-1] if script.live else {}
    ranking = core.ranking()
    assert ranking == script.oracle(-1)
    assert core.live == len(live)
    vectors = list(live.values())
    if script.by_text:
        vectors = list({v.tobytes(): v for v in vectors}.values())
    assert core.n == len(vectors)
    total = sum((v.astype(np.int64) for v in vectors), np.zeros(script.dimension, np.int64))
    assert core.total.tolist() == total.tolist()


@pytest.mark.parametrize("shown", ["all", "distinct", "by_text"])
@pytest.mark.parametrize(("seed", "grid"), [(0, 3), (2, 40), (4, 2000), (5, 30_000)])
def test_long_streams_with_refills(shown: str, seed: int, grid: int) -> None:
    """A drifting stream of rounded vectors with copies, edits and removals: every certificate and
    refill at work.
    """
    rng = np.random.default_rng(seed)
    script = Script(3, 5, shown == "distinct", by_text=shown == "by_text")
    for t in range(500):
        live = list(script.live[-1]) if script.live else []
        removed = [live[rng.integers(len(live))]] if live and rng.random() < 0.3 else []
        center = grid * np.array([t / 1000, 0, -t / 2000])
        fresh = {
            b"%d" % (1000 + t): tuple(np.rint(center + grid / 4 * rng.normal(size=3)).astype(int))
        }
        if removed and rng.random() < 0.3:
            fresh[removed[0]] = tuple(np.rint(center).astype(int))
        script.add(removed, fresh)
    core = script.core(1)
    assert core.apply(script.steps) == script.expected()
    counters = core.counters
    assert counters.steps == 500 == counters.proved_reservoir + counters.refilled
    assert counters.refilled >= 2
