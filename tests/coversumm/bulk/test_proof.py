"""The certificate for a span covers each of its steps, not the middle alone."""

from __future__ import annotations

import numpy as np

from tests.coversumm.scripts import adds
from worker.coversumm import EntityCore, FlatIndex
from worker.coversumm.bulk.apply import first_unproved
from worker.coversumm.bulk.candidates import KeyMatrix, cut
from worker.coversumm.bulk.run import RowChanges, lay_out, take


def test_a_centroid_that_leaves_and_is_back_in_the_middle() -> None:
    """One sentence at the anchor 0, radius 10: the fourth step has the centroid at 12, the fifth
    back at 0.
    """
    state = EntityCore(1, 1, FlatIndex(1))._state
    reservoir = state.reservoir
    reservoir.anchor_n, reservoir.radius_key, reservoir.live = 1, 10.0**2, 1
    state.n, state.max_squared_norm = 1, 60.0**2
    m = 40
    vectors = np.zeros((m, 1), np.int16)
    vectors[3:5, 0] = 60, -60
    run = lay_out(1, np.zeros(1), take(adds(vectors), m))
    nothing = np.empty(0, np.int64)
    changes = RowChanges(nothing, nothing, nothing.astype(np.int32), [])
    matrix = KeyMatrix(np.empty((m, 0)), np.zeros(m), np.zeros(m), cut(run, state.slack))
    assert first_unproved(state, run, matrix, changes) == 3
