"""Squared distances in float64 with a stated slack, and what they prove.

Keys are exact; distances to a centroid are not. With u = 2^-53, q the largest |x|^2 and D the dimension (|mu|^2 <= q,
and |key|/n <= 3q):

- `|mu|^2 = fl(S.S) / n^2`: S is exact, all D terms are positive: relative error below (D+2)u, absolute below (D+2)uq.
- `d(x, mu)^2 = key/n + |mu|^2`: a division (3uq), that square, a sum of at most 4q (4uq): below (D+10)uq.
- `|mu - anchor|^2 = |mu|^2 - 2 S.a/n + |a|^2`, a the rounded anchor: (D+2)uq + 2(D+1)uq + Duq + 8uq for the two sums,
  and 4uq because a is within u*sqrt(q) of the anchor: below 4(D+8)uq.

`slack` is (D+16) * 2u * q: twice the second bound, and four times it is twice the third; the factor two covers every
term in u^2. Errors on this side cost a refill. The comparison of roots allows for their own rounding by a factor 1 -
2^-50.
"""

from math import sqrt

import numpy as np
from numpy.typing import NDArray

ROOTS = 1 - 2.0**-50


def slack(dimension: int, longest: float) -> float:
    """The most by which a computed squared distance can be wrong; four times this for the drift's."""
    return (dimension + 16) * 2.0**-52 * longest


def upper(squared: float, error: float) -> float:
    """A distance not below the true one."""
    return sqrt(max(squared, 0.0) + error)


def lower(squared: float, error: float) -> float:
    """A distance not above the true one."""
    return sqrt(max(squared - error, 0.0)) * ROOTS


def uppers(squared: NDArray[np.float64], error: float) -> NDArray[np.float64]:
    """`upper` of many."""
    return np.sqrt(np.maximum(squared, 0.0) + error)


def lowers(squared: NDArray[np.float64], error: float) -> NDArray[np.float64]:
    """`lower` of many."""
    return np.sqrt(np.maximum(squared - error, 0.0)) * ROOTS


def proved(kth: NDArray[np.float64], drift: NDArray[np.float64], radius: float) -> NDArray[np.bool_]:
    """Per step, whether `d_k + delta < radius`: every sentence left out is farther than the k-th inside.

    A sentence y outside has d(y, mu) >= d(y, anchor) - delta >= radius - delta. `kth` and `drift` are upper bounds,
    `radius` is a lower one.
    """
    return kth + drift < radius * ROOTS


def contends(
    squared: NDArray[np.float64], kth: NDArray[np.float64], drift: NDArray[np.float64], error: float
) -> NDArray[np.bool_]:
    """Whether `d <= d_k + 2 * drift`: a sentence can be as near as the k-th once the centroid has drifted so far.

    Any other is farther than d_k + drift from the new centroid, and the k nearest are within that. `squared` is d^2 but
    for `error`, the others are upper bounds.
    """
    return squared <= ((kth + 2.0 * drift) / ROOTS) ** 2 + error
