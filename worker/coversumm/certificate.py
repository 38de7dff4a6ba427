"""Squared distances in float64 with a stated slack, and what they prove.

Keys are exact; distances to a centroid are not. With u = 2^-53, q the largest |x|^2 and D the
dimension, the computed `d(x, mu)^2 = key/n + |mu|^2` is off by less than (D+10)uq, the squared
drift by less than 4(D+8)uq. An error to one side costs a refill, to the other a wrong summary, so
bounds are rounded away from the proof. Proofs: docs/algorithm.md, Lemmas 2 to 5.
"""

from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import NDArray

ROOTS = 1 - 2.0**-50  # pays for the rounding of square roots and their sums


def slack(dimension: int, max_squared_norm: float) -> float:
    """The largest error of a computed squared distance; four times this for a squared drift."""
    return (dimension + 16) * 2.0**-52 * max_squared_norm


def upper(distance_squared: float, error: float) -> float:
    """A distance not below the true one, whose square is `distance_squared` within `error`."""
    return sqrt(max(distance_squared, 0.0) + error)


def lower(distance_squared: float, error: float) -> float:
    """A distance not above the true one, whose square is `distance_squared` within `error`."""
    return sqrt(max(distance_squared - error, 0.0)) * ROOTS


def uppers(distance_squared: NDArray[np.float64], error: float) -> NDArray[np.float64]:
    """`upper` of many."""
    return np.sqrt(np.maximum(distance_squared, 0.0) + error)


def lowers(distance_squared: NDArray[np.float64], error: float) -> NDArray[np.float64]:
    """`lower` of many."""
    return np.sqrt(np.maximum(distance_squared - error, 0.0)) * ROOTS


@dataclass(slots=True)
class Gap:
    """The distances on both sides of the gap, from the centroid of the last evaluation."""

    centroid: NDArray[np.float64]
    centroid_squared: float
    kth_distance: float  # an upper bound of d_k then
    limit: float  # a lower bound of the distance of every sentence that is not in the ranking

    def narrow(self, facts: list[tuple[float, float, float]], error: float) -> None:
        """Lower the limit for sentences added since, each `(|x|^2, unused, x.centroid)`."""
        nearest = min([squared_norm - 2.0 * product for squared_norm, _, product in facts])
        self.limit = min(self.limit, lower(nearest + self.centroid_squared, error))

    def proves(self, squared_way: float, error: float) -> bool:
        """Whether the set is still the last one after the centroid moved sqrt(`squared_way`)."""
        drift = upper(squared_way, error)
        return 2.0 * drift < (self.limit - self.kth_distance) * ROOTS
