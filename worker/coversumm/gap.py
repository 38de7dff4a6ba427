"""The gap certificate: while the centroid has drifted less than half of a gap, the set is the one last evaluated.

Each sentence added meanwhile narrows the gap, a removed one never does, and a removed member ends it. docs/algorithm.md,
Lemma 5, has the proof. A step that it decides costs O(D).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from worker.coversumm import certificate


@dataclass(slots=True)
class Gap:
    """The distances left and right of the gap, seen from the centroid of the last evaluation."""

    centroid: NDArray[np.float64]
    centroid_squared: float
    kth_distance: float  # an upper bound of d_k then
    limit: float  # a lower bound of the distance of every sentence that is not in the ranking

    def narrow(self, vectors: NDArray[np.float64], squared_norms: list[float], error: float) -> None:
        """Take note of sentences added since, (m, D) with their |x|^2."""
        products = (2.0 * (vectors @ self.centroid)).tolist()
        nearest = min(map(float.__sub__, squared_norms, products)) + self.centroid_squared
        self.limit = min(self.limit, certificate.lower(nearest, error))

    def proves(self, n: int, total: NDArray[np.float64], error: float) -> bool:
        """Whether the set at the centroid total/n is still the one last evaluated."""
        way = total / n
        way -= self.centroid
        drift = certificate.upper(float(way @ way), error)
        return 2.0 * drift < (self.limit - self.kth_distance) * certificate.ROOTS
