"""What CoverSumm keeps: the cover tree ct, the reservoir R with its radius r, mu_last
and lambda.
"""

from math import inf, sqrt

import numpy as np
from numpy.typing import NDArray

from tests.bench.paper.algorithms.centroid import Centroid
from tests.bench.paper.algorithms.sentence_set import SentenceSet
from tests.bench.paper.algorithms.tree import PaperTree, QueryResult

ALPHA = (
    0.001  # the paper tunes it on held-out data and prints no value; this one suits uniform data
)
C_MAX = 100  # not in the paper; the authors' published code has it as a constant


class ReservoirState(Centroid):
    """The state of Algorithms 1 and 3, and the four things that they do with it in one way or
    another.

    Parameters: k; `b`, the width of the support [-b/2, b/2]^D in units of the int16 vectors (where
    its middle lies does not matter to Hoeffding's inequality); `alpha` of equation 4; `c_max`, line
    9; delta = 1/t, as in the paper's experiments. The four are as printed here, variants have
    others:

    - `insert_into_tree`: Algorithm 1, line 6;
    - `delete_from_tree`: Algorithm 3, line 4;
    - `search`: Algorithm 1, line 14, and Algorithm 3, line 13;
    - `admits`: Algorithm 1, line 20.

    How the lines are read:

    - t is the number of live sentences: Algorithm 3 writes t - |x_del| for those left. t = 1 gives
      log(2/delta) = log 2.
    - The first step, mu_last being undefined, searches; so does the first after all were deleted.
    - d_k of fewer than k sentences is infinite (Algorithm 2, line 6: at start N.max is infinite):
      all join R.
    - Line 20 compares with mu_last, by integer keys; by float64 where Algorithm 3 moved mu_last.
    """

    def __init__(
        self, k: int, dimension: int, *, b: float, alpha: float = ALPHA, c_max: int = C_MAX
    ) -> None:
        super().__init__(k, dimension)
        self.b, self.alpha, self.c_max = b, alpha, c_max
        self.lam = 0.0  # lambda
        self.tree = PaperTree(dimension)  # ct
        self.reservoir = SentenceSet(dimension)  # R
        self.mu_last: NDArray[np.float64] | None = None  # and as sum and count:
        self.last_total, self.last_n = self.total, 0
        self.radius_key = -inf  # r as a key around mu_last

    @property
    def reservoir_size(self) -> int:
        return len(self.reservoir)

    def drift(self) -> float:
        """How far the centroid is from mu_last; infinite before the first search."""
        if self.mu_last is None:
            return inf
        way = self.total / self.n
        way -= self.mu_last
        return sqrt(way @ way)

    def radius(self) -> float:
        """The radius r, a distance from mu_last."""
        return self.distance_from_last(self.radius_key)

    def distance_from_last(self, key: float) -> float:
        """A key around mu_last as a distance."""
        assert self.mu_last is not None
        return sqrt(max(key / self.last_n + float(self.mu_last @ self.mu_last), 0.0))

    def set_radius(self, radius: float) -> None:
        """Make a distance from mu_last the radius r."""
        assert self.mu_last is not None
        self.radius_key = (radius * radius - float(self.mu_last @ self.mu_last)) * self.last_n

    def reinitialise_reservoir(self) -> float:
        """Search around the centroid, which becomes mu_last; returns the key of the
        farthest in R.
        """
        self.reservoir_searches += 1
        found = self.search()
        self.reservoir = SentenceSet(self.dimension, found.ids, found.vectors)
        self.mu_last, self.last_total, self.last_n = self.total / self.n, self.total.copy(), self.n
        return float(found.keys[-1])

    def insert_into_tree(self, id_: bytes, vector: NDArray[np.int16]) -> None:
        """Raises DuplicateSentence if it is live."""
        self.tree.insert(id_, vector)

    def delete_from_tree(self, id_: bytes) -> None:
        """Raises UnknownSentence if it is not live."""
        self.tree.delete(id_)

    def search(self) -> QueryResult:
        """All within d_k + lambda of the centroid (equation 4), by Algorithm 2."""
        return self.tree.reservoir_search(self.n, self.total, self.lam, self.k)

    def admits(self, x: NDArray[np.float64], drift: float) -> bool:
        """Whether a new sentence joins R: if it is within r of mu_last."""
        return self.last_n * float(x @ x) - 2.0 * float(x @ self.last_total) <= self.radius_key
