"""The inner loops of a step.

Products of fixed-point coordinates are exact in float64 in any order of addition
(docs/algorithm.md, Lemma 1). `drift` is not exact, and its slack holds for every order.
"""

from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

MICRO = 10**6


class Measured(NamedTuple):
    """The input of a distance computation."""

    keys: list[float]
    n: int
    total: NDArray[np.float64]  # S
    centroid_squared: float  # |S/n|^2, summed in any order


Ranked = tuple[list[int], list[float]]  # rows and their keys, ascending

# |x|^2 of the vector; |total|^2; the key of the last of the nearest, and the next one or infinity;
# the nearest, None if they are the known set, and none at all where keys are equal.
Joined = tuple[float, float, float, float, Ranked | None]


def products(
    vectors: NDArray[np.int16], anchor: NDArray[np.float64], centroid: NDArray[np.float64] | None
) -> list[tuple[float, float, float]]:
    """`(|x|^2, x.anchor, x.centroid)` of each vector x of (m, D); 0 last without a centroid."""
    x = vectors.astype(np.float64)
    others = np.zeros(len(x)) if centroid is None else x @ centroid
    return list(zip(np.vecdot(x, x).tolist(), (x @ anchor).tolist(), others.tolist(), strict=True))


def add(total: NDArray[np.float64], vectors: NDArray[np.int16], sign: float) -> None:
    """Add the vectors (m, D) to `total` (D,), or subtract them if sign is -1."""
    for vector in vectors:
        total += sign * vector


def drift(
    total: NDArray[np.float64], n: int, centroid: NDArray[np.float64] | None
) -> tuple[float, float]:
    """`(|total|^2, |total/n - centroid|^2)`; the latter is 0 without a centroid."""
    if centroid is None:
        return float(total @ total), 0.0
    way = total / n
    way -= centroid
    return float(total @ total), float(way @ way)


def nearest(
    vectors: NDArray[np.int16],
    squared_norms: NDArray[np.float64],
    n: int,
    total: NDArray[np.float64],
    count: int,
) -> tuple[list[int], list[float]]:
    """The rows of (r, D) with the lowest keys `n*|x|^2 - 2*x.total`, at most `count`, ascending;
    their keys.

    Rows with equal keys may come in any order, and any of them may be left out.
    """
    keys = vectors @ total
    keys *= -2.0
    keys += squared_norms * n
    rows = keys.argsort()[:count]
    return rows.tolist(), keys[rows].tolist()


def join(
    room: NDArray[np.int16],
    squared_norms: NDArray[np.float64],
    r: int,
    vector: NDArray[np.int16],
    n: int,
    total: NDArray[np.float64],
    k: int,
    most: float,
    known: list[int] | None,
) -> Joined | None:
    """Add one vector, (1, D), to `total` and as row `r` of the room, whose first r rows are
    distinct; then find the k nearest of these rows, n being the count after it.

    None, and nothing is changed, if a row is the same vector, or if |x|^2 is above `most`. `known`
    are the rows of the ranking before, if their rows have not moved since.
    """
    x = vector.reshape(-1)
    squared_norm = float(np.vecdot(x, x, dtype=np.float64))
    equal = np.flatnonzero(squared_norms[:r] == squared_norm)
    if squared_norm > most or (room[equal] == x).all(axis=1).any():
        return None
    total += x
    room[r], squared_norms[r] = x, squared_norm
    rows, keys = nearest(room[: r + 1], squared_norms[: r + 1], n, total, k + 1)
    next_key = keys[k] if len(keys) > k else np.inf
    ranked: Ranked | None = (rows[:k], keys[:k])
    if len(set(keys)) < len(keys):
        ranked = [], []
    elif known is not None and set(known) == set(rows[:k]):
        ranked = None
    return squared_norm, float(total @ total), keys[:k][-1], next_key, ranked


def distances(centroids: Sequence[Measured], scale: int) -> list[list[float | None]]:
    """sqrt(key/n + |S/n|^2) / scale of each key, to six decimals; None where float64 cannot decide.

    Keys ascend. With m = max|key|/n + |S/n|^2 the computed square is off by less than (D+8) * 2^-52
    * m (compare `certificate`). If that moves the root by less than 5e-4 of the sixth decimal, and
    the root is farther than 1e-3 of it from a half, integers would round to the same value.
    """
    unit, facts = MICRO / scale, []
    for keys, n, total, centroid_squared in centroids:
        largest = max(abs(keys[0]), abs(keys[-1])) / n if keys else 0.0
        error = (total.size + 8) * 2.0**-52 * (largest + centroid_squared)
        facts.append((n, centroid_squared, (1e3 * unit * error) ** 2))
    lengths = [len(one.keys) for one in centroids]
    n_, centroids_squared, safe = np.array(facts).reshape(-1, 3).repeat(lengths, axis=0).T
    squared = np.array([key for one in centroids for key in one.keys]) / n_ + centroids_squared
    micros = np.sqrt(np.maximum(squared, 0.0)) * unit
    nearest = np.floor(micros + 0.5)
    unsure = (squared <= safe) | (np.abs(micros - nearest) > 0.499) | (nearest > 10**11)
    rounded: list[float | None] = (nearest / MICRO).tolist()
    for at in np.flatnonzero(unsure).tolist():
        rounded[at] = None
    numbers = iter(rounded)
    return [list(islice(numbers, length)) for length in lengths]
