"""What comes out: the k sentences nearest to the centroid, in order, with distances exact to the last digit shown."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

MICRO = 10**6


class Ranking:
    """A summary: `ids` in rank order, `support` (how many live sentences share the vector), `n` (live sentences then).

    >>> import numpy as np
    >>> ranking = Ranking((b"r1#0",), (1,), n=2, keys=[0.0], total=np.array([6.0, 8.0]), scale=10)
    >>> ranking.distances()  # sqrt(2*0 + 6*6 + 8*8) / (2*10)
    (0.5,)
    """

    __slots__ = ("_distances", "_keys", "_scale", "_total", "ids", "n", "support")

    def __init__(
        self,
        ids: tuple[bytes, ...],
        support: tuple[int, ...],
        n: int,
        keys: Sequence[float],
        total: NDArray[np.float64],
        scale: int,
    ) -> None:
        """`keys` (one an id) and `total` (S, kept, not copied) are what the distances are computed from."""
        self.ids = ids
        self.support = support
        self.n = n
        self._keys = keys
        self._total = total
        self._scale = scale
        self._distances: tuple[float, ...] | None = None

    def distances(self) -> tuple[float, ...]:
        """Distances to the centroid in units of the normalised vectors, rounded to six decimals; computed at the first call."""
        if self._distances is None:
            self._distances = distances(self._keys, self.n, self._total, self._scale)
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


def distances(keys: Sequence[float], n: int, total: NDArray[np.float64], scale: int) -> tuple[float, ...]:
    """sqrt((n*key + |S|^2) / (n^2 * scale^2)) for each key, rounded to six decimals, halves up: exactly, in integers.

    Float64 decides where it can: with m = max|key|/n + |S|^2/n^2 the computed square is off by less than (D+8) * 2^-52 * m
    (compare `certificate`). Where that moves the root by less than 5e-4 of the sixth decimal, and the root is farther than
    1e-3 of it from a half, the integers would round the same way.
    """
    if not keys:
        return ()
    unit = MICRO / scale
    centroid_squared = float(total @ total) / (n * n)
    error = (total.size + 8) * 2.0**-52 * (max(abs(keys[0]), abs(keys[-1])) / n + centroid_squared)
    safe = (1e3 * unit * error) ** 2
    result: list[float] = []
    total_squared: int | None = None
    for key in keys:
        squared = key / n + centroid_squared
        micros = math.sqrt(squared) * unit if squared > safe else 0.5
        nearest = math.floor(micros + 0.5)
        if abs(micros - nearest) > 0.499 or nearest > 10**11:
            if total_squared is None:
                total_squared = sum(int(s) ** 2 for s in total.tolist())
            nearest = _micros(n * int(key) + total_squared, (n * scale) ** 2)
        result.append(nearest / MICRO)
    return tuple(result)


def _micros(numerator: int, denominator: int) -> int:
    """sqrt(numerator / denominator) in millionths, rounded, halves up."""
    return (math.isqrt(4 * MICRO * MICRO * numerator // denominator) + 1) // 2
