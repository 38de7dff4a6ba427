"""Squared distances in float64 with a stated slack, and what they prove.

Keys are exact; distances to a centroid are not. With u = 2^-53, q the largest |x|^2 and D the
dimension, the computed `d(x, mu)^2 = key/n + |mu|^2` is off by less than (D+10)uq, the squared
drift by less than 4(D+8)uq. An error to one side costs a refill, to the other a wrong summary, so
bounds are rounded away from the proof. Proofs: docs/algorithm.md, Lemmas 2 to 4.
"""

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
