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
            self._distances = distances(self._keys, self.n, self._sum, self._scale)
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


def distances(keys: Sequence[float], n: int, total: NDArray[np.float64], scale: int) -> tuple[float, ...]:
    """sqrt((n*key + |S|^2) / (n^2 * scale^2)) for each key, rounded to six decimals, halves up: exactly, in integers.

    Float64 decides where it can: with m = max|key|/n + |S|^2/n^2 the computed square is off by less than (D+8) * 2^-52 * m
    (compare `certificate`). Where that moves the root by less than 5e-4 of the sixth decimal, and the root is farther than
    1e-3 of it from a half, the integers would round the same way.
    """
    if not keys:
        return ()
    unit = MICRO / scale
    mean_squared = float(total @ total) / (n * n)
    error = (total.size + 8) * 2.0**-52 * (max(abs(keys[0]), abs(keys[-1])) / n + mean_squared)
    safe = (1e3 * unit * error) ** 2
    result: list[float] = []
    sum_squared: int | None = None
    for key in keys:
        squared = key / n + mean_squared
        micros = math.sqrt(squared) * unit if squared > safe else 0.5
        nearest = math.floor(micros + 0.5)
        if abs(micros - nearest) > 0.499 or nearest > 10**11:
            if sum_squared is None:
                sum_squared = sum(int(s) ** 2 for s in total.tolist())
            nearest = _micros(n * int(key) + sum_squared, (n * scale) ** 2)
        result.append(nearest / MICRO)
    return tuple(result)


def _micros(numerator: int, denominator: int) -> int:
    """sqrt(numerator / denominator) in millionths, rounded, halves up."""
    return (math.isqrt(4 * MICRO * MICRO * numerator // denominator) + 1) // 2


def expand(
    rows: Sequence[int],
    keys: Sequence[float],
    low: Sequence[list[bytes]],
    k: int,
    distinct: bool,
) -> tuple[list[bytes], list[int], list[float]]:
    """Turn distinct vectors in key order into at most k sentences: (ids, the row of each, the key of each).

    `rows` ascend by `keys`, and no row whose key equals the last one's is missing. `low[row]` are the lowest ids of a
    vector's copies, ascending, at least min(k, copies) of them (distinct: one). Equal keys are merged by the bytes of
    the ids.
    """
    take = 1 if distinct else k
    ids: list[bytes] = []
    owners: list[int] = []
    values: list[float] = []
    if len(set(keys)) == len(keys):  # nothing equal: most often
        first = [low[row] for row in rows[:k]]
        if distinct or max(map(len, first), default=1) == 1:  # no copies either
            return [copies[0] for copies in first], list(rows[:k]), list(keys[:k])
        for row, key in zip(rows, keys, strict=True):
            copies = low[row]
            room = min(take, len(copies), k - len(ids))
            if room == 1:
                ids.append(copies[0])
                owners.append(row)
                values.append(key)
            else:
                ids += copies[:room]
                owners += [row] * room
                values += [key] * room
        return ids, owners, values
    at = 0
    while at < len(rows) and len(ids) < k:
        end = at + 1
        while end < len(rows) and keys[end] == keys[at]:
            end += 1
        room = k - len(ids)
        tied = sorted((id_, row) for row in rows[at:end] for id_ in low[row][: min(take, room)])[:room]
        ids += [id_ for id_, _ in tied]
        owners += [row for _, row in tied]
        values += [keys[at]] * len(tied)
        at = end
    return ids, owners, values
