"""Output: the k sentences nearest to the centroid, with distances exact to the last digit shown."""

import math
from collections import Counter
from collections.abc import Sequence
from itertools import groupby, islice
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from worker.coversumm.fixed_point import EXACT, SCALE

MICRO = 10**6
TILE = 2048  # rows of `brute_force` computed at once


class Measured(NamedTuple):
    """The input of a distance computation."""

    keys: list[float]
    n: int
    total: NDArray[np.float64]  # S
    centroid_squared: float  # |S/n|^2, summed in any order


class Ranking:
    """A summary: `ids` in rank order, `support` (live sentences per vector), `n` (sentences that
    count in the centroid).

    >>> import numpy as np
    >>> ranking = Ranking((b"r1#0",), (1,), n=2, keys=[0.0], total=np.array([32767.0, 0.0]))
    >>> ranking.distances()  # sqrt(2*0 + 32767*32767) / (2*32767)
    (0.5,)
    """

    __slots__ = ("_distances", "_measured", "ids", "n", "support")

    def __init__(
        self,
        ids: tuple[bytes, ...],
        support: tuple[int, ...],
        n: int,
        keys: list[float],
        total: NDArray[np.float64],
    ) -> None:
        """Distances are computed from `keys` (one per id) and `total` (S, not copied)."""
        self.ids = ids
        self.support = support
        self.n = n
        centroid_squared = float(total @ total) / max(1, n * n)
        self._measured = Measured(keys, n, total, centroid_squared)
        self._distances: tuple[float, ...] | None = None

    def distances(self) -> tuple[float, ...]:
        """Distances to the centroid in units of the normalised vectors, to six decimals; cached."""
        if self._distances is None:
            (self._distances,) = _distances([self._measured], SCALE)
        return self._distances

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Ranking):
            return NotImplemented
        return (self.ids, self.support, self.n, self.distances()) == (
            other.ids,
            other.support,
            other.n,
            other.distances(),
        )

    def __repr__(self) -> str:
        return f"Ranking(n={self.n}, ids={self.ids!r})"


def measure(rankings: Sequence[Ranking]) -> None:
    """Compute the distances of each ranking, in one pass."""
    new = [ranking for ranking in rankings if ranking._distances is None]
    if new:  # one pass for all: numpy's overhead is that of one
        all_found = _distances([ranking._measured for ranking in new], SCALE)
        for ranking, found in zip(new, all_found, strict=True):
            ranking._distances = found


def distances(
    keys: list[float], n: int, total: NDArray[np.float64], scale: int
) -> tuple[float, ...]:
    """Distances from total/n of the sentences with these keys, which ascend."""
    centroid = Measured(keys, n, total, float(total @ total) / max(1, n * n))
    return _distances([centroid], scale)[0]


def _distances(centroids: Sequence[Measured], scale: int) -> list[tuple[float, ...]]:
    """sqrt((n*key + |S|^2) / (n^2 * scale^2)) of each key, rounded to six decimals, halves up.

    Exact: computed in integers where float64 does not decide.
    """
    found = []
    for centroid, numbers in zip(centroids, _in_float64(centroids, scale), strict=True):
        if None in numbers:
            total_squared = _squared(centroid.total)
            for at, number in enumerate(numbers):
                if number is None:
                    numerator = centroid.n * int(centroid.keys[at]) + total_squared
                    numbers[at] = _micros(numerator, (centroid.n * scale) ** 2) / MICRO
        found.append(tuple(cast(list[float], numbers)))
    return found


def _in_float64(centroids: Sequence[Measured], scale: int) -> list[list[float | None]]:
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
    lengths = [len(centroid.keys) for centroid in centroids]
    n_, centroids_squared, safe = np.array(facts).reshape(-1, 3).repeat(lengths, axis=0).T
    squared = (
        np.array([key for centroid in centroids for key in centroid.keys]) / n_ + centroids_squared
    )
    micros = np.sqrt(np.maximum(squared, 0.0)) * unit
    nearest = np.floor(micros + 0.5)
    unsure = (squared <= safe) | (np.abs(micros - nearest) > 0.499) | (nearest > 10**11)
    rounded: list[float | None] = (nearest / MICRO).tolist()
    for at in np.flatnonzero(unsure).tolist():
        rounded[at] = None
    numbers = iter(rounded)
    return [list(islice(numbers, length)) for length in lengths]


def _squared(total: NDArray[np.float64]) -> int:
    """|S|^2 exactly. Below 2^53 every partial sum of a product is exact, in any order."""
    product = float(total @ total)
    return int(product) if product < EXACT else sum(int(s) ** 2 for s in total.tolist())


def _micros(numerator: int, denominator: int) -> int:
    """sqrt(numerator / denominator) in millionths, rounded, halves up."""
    return (math.isqrt(4 * MICRO * MICRO * numerator // denominator) + 1) // 2


def brute_force(
    ids: Sequence[bytes],
    vectors: NDArray[np.int16],
    k: int,
    *,
    distinct: bool = False,
    by_text: bool = False,
) -> Ranking:
    """The ranking of live sentences with these ids and vectors (m, D) by sorting all of them, in
    int64, independent of the core. With `by_text` it is that of the lowest ids of distinct vectors,
    but for the support.

    Keys `n*|x|^2 - 2*x.S` are below 2^63 for every entity the core accepts (its own bound is 2^53).

    >>> vectors = np.array([[9, 0], [1, 0], [2, 0]], np.int16)
    >>> brute_force([b"a", b"b", b"c"], vectors, k=2)  # the centroid is (4, 0)
    Ranking(n=3, ids=(b'c', b'b'))
    """
    copies = Counter(vector.tobytes() for vector in vectors)
    if by_text:
        down = sorted(range(len(ids)), key=ids.__getitem__, reverse=True)
        rows = list({vectors[row].tobytes(): row for row in down}.values())
        ids, vectors = [ids[row] for row in rows], vectors[rows]
    total = vectors.sum(axis=0, dtype=np.int64)
    keys = _keys(vectors, total).tolist()
    shown: list[int] = []
    support: list[int] = []
    for _, tied in groupby(sorted(range(len(ids)), key=keys.__getitem__), key=keys.__getitem__):
        if len(shown) >= k:
            break
        rows = sorted(tied, key=ids.__getitem__)
        if distinct:
            first = {vectors[row].tobytes(): row for row in reversed(rows)}
            rows = sorted(first.values(), key=ids.__getitem__)
        shown += rows
        support += [copies[vectors[row].tobytes()] for row in rows]
    shown, support = shown[:k], support[:k]
    named, chosen = tuple(ids[row] for row in shown), [keys[row] for row in shown]
    return Ranking(named, tuple(support), len(ids), chosen, total.astype(np.float64))


def _keys(vectors: NDArray[np.int16], total: NDArray[np.int64]) -> NDArray[np.int64]:
    keys = np.empty(len(vectors), np.int64)
    for at in range(0, len(vectors), TILE):
        x = vectors[at : at + TILE].astype(np.int64)
        keys[at : at + TILE] = len(vectors) * np.einsum("ij,ij->i", x, x) - 2 * (x @ total)
    return keys
