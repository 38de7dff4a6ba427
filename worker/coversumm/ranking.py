"""What comes out: the k sentences nearest to the centroid, in order, with distances exact to the last digit shown."""

import math
from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

MICRO = 10**6


class Measured(NamedTuple):
    """What distances are computed from."""

    keys: Sequence[float]
    n: int
    total: NDArray[np.float64]  # S
    centroid_squared: float  # |S/n|^2, summed in whatever order


def measured(keys: Sequence[float], n: int, total: NDArray[np.float64]) -> Measured:
    """With |S/n|^2 computed."""
    return Measured(keys, n, total, float(total @ total) / (n * n) if n else 0.0)


class Ranking:
    """A summary: `ids` in rank order, `support` (how many live sentences share the vector), `n` (live sentences then).

    >>> import numpy as np
    >>> ranking = Ranking((b"r1#0",), (1,), n=2, keys=[0.0], total=np.array([6.0, 8.0]), scale=10)
    >>> ranking.distances()  # sqrt(2*0 + 6*6 + 8*8) / (2*10)
    (0.5,)
    """

    __slots__ = ("_distances", "_measured", "_scale", "ids", "n", "support")

    def __init__(
        self,
        ids: tuple[bytes, ...],
        support: tuple[int, ...],
        n: int,
        keys: Sequence[float],
        total: NDArray[np.float64],
        scale: int,
        centroid_squared: float | None = None,
    ) -> None:
        """`keys` (one an id) and `total` (S, kept, not copied) are what the distances are computed from; |S/n|^2 may be known."""
        self.ids = ids
        self.support = support
        self.n = n
        self._measured = (
            measured(keys, n, total)
            if centroid_squared is None
            else Measured(keys, n, total, centroid_squared)
        )
        self._scale = scale
        self._distances: tuple[float, ...] | None = None

    def distances(self) -> tuple[float, ...]:
        """Distances to the centroid in units of the normalised vectors, rounded to six decimals; computed at the first call."""
        if self._distances is None:
            (self._distances,) = _distances([self._measured], self._scale)
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


def measure(rankings: Sequence[Ranking]) -> list[tuple[float, ...]]:
    """The distances of each of these rankings; of all that have none yet at once. They are of one scale."""
    new = [ranking for ranking in rankings if ranking._distances is None]
    if new:  # one pass for all: numpy's overhead is that of one
        scale = new[0]._scale
        for ranking, found in zip(new, _distances([one._measured for one in new], scale), strict=True):
            ranking._distances = found
    return [ranking.distances() for ranking in rankings]


def distances(keys: Sequence[float], n: int, total: NDArray[np.float64], scale: int) -> tuple[float, ...]:
    """The distances from total/n of the sentences of these keys, which ascend."""
    return _distances([measured(keys, n, total)], scale)[0]


def _distances(centroids: Sequence[Measured], scale: int) -> list[tuple[float, ...]]:
    """sqrt((n*key + |S|^2) / (n^2 * scale^2)) for each key, rounded to six decimals, halves up: exactly, in integers.

    Keys ascend. Float64 decides where it can: with m = max|key|/n + |S|^2/n^2 the computed square is off by less than
    (D+8) * 2^-52 * m (compare `certificate`). Where that moves the root by less than 5e-4 of the sixth decimal, and the root
    is farther than 1e-3 of it from a half, the integers would round the same way.
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
    rounded = (nearest / MICRO).tolist()
    ends = np.cumsum(lengths)
    for at in np.flatnonzero(unsure).tolist():
        owner = int(ends.searchsorted(at, side="right"))
        keys, n, total, _ = centroids[owner]
        key = int(keys[at - int(ends[owner])])  # from the end of its own
        total_squared = sum(int(s) ** 2 for s in total.tolist())
        rounded[at] = _micros(n * key + total_squared, (n * scale) ** 2) / MICRO
    numbers = iter(rounded)
    return [tuple(islice(numbers, length)) for length in lengths]


def _micros(numerator: int, denominator: int) -> int:
    """sqrt(numerator / denominator) in millionths, rounded, halves up."""
    return (math.isqrt(4 * MICRO * MICRO * numerator // denominator) + 1) // 2
