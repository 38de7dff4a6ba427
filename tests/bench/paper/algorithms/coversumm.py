"""CoverSumm, the paper's Algorithm 1, for one sentence; line 23, the summary, is formed once a step
(see `reservoir`).
"""

from math import log, sqrt

import numpy as np
from numpy.typing import NDArray

from tests.bench.paper.algorithms.state import ReservoirState
from worker.coversumm.points import Points


def cover_summ(state: ReservoirState, id_: bytes, x: NDArray[np.int16]) -> None:
    """Take in x_t, (1, D)."""
    state.join(Points((id_,), x))  # lines 3, 4
    state.insert_into_tree(id_, x[0])  # line 6
    t, drift = state.n, state.drift()  # line 8
    if drift >= state.lam / 2 or len(state.reservoir) >= state.c_max:  # line 9
        delta = 1 / t  # line 10
        # line 12
        state.lam = sqrt(2 * state.alpha * state.dimension * state.b**2 * log(2 / delta) / t)
        state.radius_key = state.reinitialise_reservoir()  # lines 14, 16, 17
    elif state.admits(x[0].astype(np.float64), drift):  # line 20
        state.reservoir.add(id_, x[0])
