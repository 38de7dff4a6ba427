"""ReservoirSearch, the paper's Algorithm 2: all within d_k + lambda of a centroid, by one traversal.

d_k is the distance of the k-th nearest. N.max is infinite while N has less than k: read literally, as the largest distance
in N, the first vector would shut out the second. So fewer than k sentences are all found.
"""

from fractions import Fraction
from math import inf

import numpy as np

from worker.coversumm import certificate
from worker.coversumm.index.sgtree.nodes import UP, Floats, Nodes, Numbers
from worker.coversumm.index.sgtree.search import BallSearch, Nearest, Query, traverse


class _Reservoir(BallSearch):
    """The algorithm's N and R."""

    def __init__(self, query: Query, weights: Floats, k: int, lam: float) -> None:
        super().__init__(query, inf)
        self.nearest = Nearest(query, weights, k)
        self.lam = lam

    def offer(self, nodes: Numbers, keys: Floats) -> None:
        self.nearest.offer(nodes, keys)  # lines 7-11: into N if d <= N.max; d_k = N.max
        self.radius = (self.nearest.radius + self.lam) * UP  # line 12: r = d_k + lambda
        super().offer(nodes, keys)  # line 13: into R if d <= r


def reservoir_search(
    nodes: Nodes, query: Query, weights: Floats, lam: float, k: int
) -> tuple[Numbers, Floats]:
    """The nodes with d <= d_k + lam, decided exactly, and their keys; `weights` are the sentences at each node."""
    reservoir = _Reservoir(query, weights, k, lam)
    traverse(nodes, query, reservoir)
    kth = reservoir.nearest.kth
    if kth == inf or lam == inf:
        return reservoir.inside(inf, lambda key: True)
    certain = float(query.lowers(np.array([kth]))[0] + lam) * certificate.ROOTS

    def within(key: float) -> bool:  # sqrt(a) <= sqrt(b) + lam, in fractions
        b = query.squared(kth)
        excess = query.squared(key) - b - Fraction(lam) ** 2
        return excess <= 0 or excess * excess <= 4 * Fraction(lam) ** 2 * b

    return reservoir.inside(certain, within)  # line 18: filter
