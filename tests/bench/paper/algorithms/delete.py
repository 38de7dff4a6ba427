"""Delete, the paper's Algorithm 3, for all that a step removes; line 16, the summary, is formed
once a step.

How it is read: lambda of Algorithm 1, line 12, is sqrt(2 alpha D b^2 log(2/delta) / t). Line 12
here prints sqrt(alpha D log(2/delta) / (2 (t - |x_del|))): a quarter of the constant, and no b^2.
Both are followed; t in its delta is the count before the deletion. In units of int16 the second is
next to nothing: after it any drift searches again. `ReservoirSearch(mu_t, r, lambda)` is read as
Algorithm 2's (mu_t, lambda, k). Its r is not set again.
"""

from math import log, sqrt

from tests.bench.paper.algorithms.state import ReservoirState
from worker.coversumm.points import Points


def delete(state: ReservoirState, removed: Points) -> None:
    """Take out x_del."""
    t, m = state.n, len(removed.ids)
    state.leave(removed)  # lines 2, 6
    for id_ in removed.ids:
        state.delete_from_tree(id_)  # line 4
        state.reservoir.discard(id_)  # line 9
    if state.n == 0:  # no centroid: as before the first step
        state.mu_last, state.lam = None, 0.0
    elif state.drift() > state.lam / 2 or len(state.reservoir) < state.k:  # lines 8, 11
        delta = 1 / t
        state.lam = sqrt(state.alpha * state.dimension * log(2 / delta) / (2 * (t - m)))  # line 12
        radius = state.radius()
        state.reinitialise_reservoir()  # lines 13, 14
        state.set_radius(radius)
