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

    def narrow(self, facts: list[tuple[float, float, float]], error: float) -> None:
        """Take note of sentences added since, of each `(|x|^2, anything, x.centroid)`."""
        nearest = min([squared_norm - 2.0 * product for squared_norm, _, product in facts])
        self.limit = min(self.limit, certificate.lower(nearest + self.centroid_squared, error))

    def proves(self, squared_way: float, error: float) -> bool:
        """Whether the set is still the one last evaluated, the centroid having moved by the root of `squared_way`."""
        drift = certificate.upper(squared_way, error)
        return 2.0 * drift < (self.limit - self.kth_distance) * certificate.ROOTS
