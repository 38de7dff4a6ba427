"""Consecutive steps as matrices: all centroids by running sums. Nothing here knows the reservoir."""

from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from worker.coversumm.points import Points, Step, check

BLOCK = 16
TRIANGLE = np.tri(BLOCK)


class Run(NamedTuple):
    """m steps with p points."""

    steps: Sequence[Step]
    n: NDArray[np.float64]  # (m,) live sentences after each step
    sums: NDArray[np.float64]  # (m, D + 1) S and n after each step
    mean_squared: NDArray[np.float64]  # (m,) |S/n|^2
    points: NDArray[np.int16]  # (p, D) of all steps in order, of each the removed first
    squared: NDArray[np.float64]  # (p,) |x|^2
    ends: NDArray[np.int64]  # (m,) where each step's points end
    removing: bool  # whether any step removes

    def part(self, start: int, stop: int) -> "Run":
        """The steps from `start` to before `stop`."""
        if start == 0 and stop == len(self.steps):
            return self
        first, last = (int(self.ends[start - 1]) if start else 0), int(self.ends[stop - 1])
        return Run(
            self.steps[start:stop],
            self.n[start:stop],
            self.sums[start:stop],
            self.mean_squared[start:stop],
            self.points[first:last],
            self.squared[first:last],
            self.ends[start:stop] - first,
            self.removing,
        )

    def drift_squared(
        self, centroids: NDArray[np.float64], squared: NDArray[np.float64] | float
    ) -> NDArray[np.float64]:
        """(m,) |S/n - c|^2, of one centroid (D,) or of one each (m, D); `squared` is |c|^2."""
        totals = self.sums[:, :-1]
        products = totals @ centroids if centroids.ndim == 1 else np.einsum("ij,ij->i", totals, centroids)
        products *= -2.0
        products /= np.maximum(self.n, 1.0)
        products += self.mean_squared
        products += squared
        return products


def lay_out(
    n: int, total: NDArray[np.float64], steps: Sequence[Step], batches: list[Points], lengths: list[int]
) -> Run:
    """One step or more from a state (n, S) on. `batches`: what each removes and adds, or what each adds if none removes.

    Raises VectorError if a batch is not well formed.
    """
    removing = len(batches) > len(steps)
    points = _join(batches, lengths, len(total))
    p = len(points)
    x = np.empty((-(-p // BLOCK) * BLOCK, len(total) + 1))
    x[:p, :-1] = points
    x[:p, -1] = 1.0  # the last column counts: its running sum is n
    x[p:] = 0.0
    squared = np.einsum("ij,ij->i", x[:p, :-1], x[:p, :-1])
    if removing:
        x[:p] *= np.repeat([-1.0, 1.0] * len(steps), lengths)[:, None]
    start = np.append(total, n)
    sums = _running_sums(x, start)[:p]
    ends = np.arange(1, p + 1)
    if removing or lengths.count(1) < len(lengths):
        ends = np.cumsum(lengths)[removing :: 1 + removing]
        sums = np.concatenate((start[None], sums))[ends]
    live, totals = sums[:, -1].copy(), sums[:, :-1]
    mean_squared = np.einsum("ij,ij->i", totals, totals) / np.maximum(live * live, 1.0)
    return Run(steps, live, sums, mean_squared, points, squared, ends, removing)


def _join(batches: list[Points], lengths: list[int], dimension: int) -> NDArray[np.int16]:
    """All vectors as one matrix; raises VectorError like `check`."""
    parts = [batch.vectors for batch in batches]
    if list(map(len, parts)) == lengths:
        with suppress(ValueError, TypeError):
            joined = np.concatenate(parts, dtype=np.int16, casting="no")
            if joined.ndim == 2 and joined.shape[1] == dimension:
                return joined
    for batch in batches:
        check(batch, dimension)
    raise AssertionError("each batch is well formed, together they are not")


def _running_sums(x: NDArray[np.float64], start: NDArray[np.float64]) -> NDArray[np.float64]:
    """start + x[0], start + x[0] + x[1], ...: (p, D), p a multiple of BLOCK.

    By blocks of a triangular product, which BLAS does several times as fast as `cumsum` walks down columns; sums of
    integers are exact either way.
    """
    sums = TRIANGLE @ x.reshape(-1, BLOCK, x.shape[1])
    before = sums[:, -1].cumsum(axis=0)
    before -= sums[:, -1]
    before += start
    sums += before[:, None]
    return sums.reshape(x.shape)
