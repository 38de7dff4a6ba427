"""What comes out: the k sentences nearest to the centroid, in order, with distances exact to the last digit shown."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

MICRO = 10**6


class Ranking:
    """A summary: `ids` in rank order, `support` (how many live sentences share the vector), `n` (live sentences then)."""

    __slots__ = ("_distances", "_keys", "_scale", "_sum", "ids", "n", "support")

    def __init__(
        self,
        ids: tuple[bytes, ...],
        support: tuple[int, ...],
        n: int,
        keys: Sequence[float],
        total: NDArray[np.float64],
        scale: int,
    ) -> None:
        """`keys` (one an id) and `total` (the sum S, kept, not copied) are what the distances are made from."""
        self.ids = ids
        self.support = support
        self.n = n
        self._keys = keys
        self._sum = total
        self._scale = scale
        self._distances: tuple[float, ...] | None = None

    def distances(self) -> tuple[float, ...]:
        """Distances to the centroid in units of the normalised vectors, rounded to six decimals; made at the first call."""
        if self._distances is None:
            sum_squared = squared_length(self._sum)
            per_key = {key: distance(int(key), self.n, sum_squared, self._scale) for key in self._keys}
            self._distances = tuple([per_key[key] for key in self._keys])
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

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Ranking(n={self.n}, ids={self.ids!r})"


def squared_length(total: NDArray[np.float64]) -> int:
    """|S|^2 exactly: coordinates are split at 2^20, so that no partial sum of the three products leaves 2^53.

    Sums or dimensions too large for that (none below 4096 dimensions and 10^9 a coordinate) are added in Python integers.
    """
    if total.size > 4096 or float(np.abs(total).max(initial=0.0)) * total.size >= 2.0**42:
        return sum(int(s) ** 2 for s in total.tolist())
    high = np.floor(total * 2.0**-20)
    low = total - high * 2.0**20
    return (int(high @ high) << 40) + (int(high @ low) << 21) + int(low @ low)


def distance(key: int, n: int, sum_squared: int, scale: int) -> float:
    """sqrt((n*key + |S|^2) / (n^2 * scale^2)), rounded to six decimals, halves up, in integers."""
    numerator = n * key + sum_squared
    denominator = (n * scale) ** 2
    approximate = math.sqrt(numerator / denominator) * MICRO
    nearest = math.floor(approximate + 0.5)
    # Two correctly rounded operations and a product err by less than 1e-3 here unless the distance is beyond all use;
    # only next to a half do the integers have to decide.
    if abs(abs(approximate - nearest) - 0.5) < 1e-3 or nearest > 10**11:
        nearest = (math.isqrt(4 * MICRO * MICRO * numerator // denominator) + 1) // 2
    return nearest / MICRO


def expand(
    rows: Sequence[int],
    keys: Sequence[float],
    low: Sequence[list[bytes]],
    k: int,
    distinct: bool,
) -> tuple[list[bytes], list[int], list[float]]:
    """Turn distinct vectors in key order into at most k sentences: (ids, the row of each, the key of each).

    `rows` ascend by `keys`, and no row whose key equals the last one's is missing. `low[row]` are the lowest ids of a
    vector's copies, ascending, at least min(k, copies) of them (distinct: one). Equal keys are merged by the bytes of the ids.
    """
    take = 1 if distinct else k
    ids: list[bytes] = []
    owners: list[int] = []
    values: list[float] = []
    at = 0
    while at < len(rows) and len(ids) < k:
        end = at + 1
        while end < len(rows) and keys[end] == keys[at]:
            end += 1
        room = k - len(ids)
        if end == at + 1:
            tied = [(id_, rows[at]) for id_ in low[rows[at]][: min(take, room)]]
        else:
            tied = sorted((id_, row) for row in rows[at:end] for id_ in low[row][: min(take, room)])[:room]
        ids += [id_ for id_, _ in tied]
        owners += [row for _, row in tied]
        values += [keys[at]] * len(tied)
        at = end
    return ids, owners, values
