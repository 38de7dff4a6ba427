"""A run: consecutive steps as matrices, with running sums, and their changes to the reservoir."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import accumulate, chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from worker.coversumm.points import Points, Step, check
from worker.coversumm.reservoir import Reservoir

BLOCK = 16
TRIANGLE = np.tri(BLOCK)


class Batches(NamedTuple):
    """The batches of consecutive steps: removed and added in turn, or only added if no step
    removes.
    """

    steps: Sequence[Step]
    batches: list[Points]
    ids: list[Sequence[bytes]]
    lengths: list[int]
    removing: bool  # whether any step removes


class StepRun(NamedTuple):
    """m steps with p points."""

    steps: Sequence[Step]
    n: NDArray[np.float64]  # (m,) live sentences after each step
    totals: NDArray[np.float64]  # (m, D + 1) S and n after each step
    centroid_squared: NDArray[np.float64]  # (m,) |S/n|^2
    ids: list[bytes]  # (p,) of all steps in order, of each the removed first
    vectors: NDArray[np.int16]  # (p, D)
    # (p, D + 1) the vectors and 1 where they are added, negative where removed
    signed: NDArray[np.float64]
    squared_norms: NDArray[np.float64]  # (p,) |x|^2
    change: NDArray[np.int32]  # (p,) 1 if added, -1 if removed
    ends: NDArray[np.int64]  # (m,) where each step's points end
    removing: bool  # whether any step removes

    def part(self, start: int, stop: int) -> "StepRun":
        """The steps from `start` to before `stop`."""
        if start == 0 and stop == len(self.steps):
            return self
        first, last = (int(self.ends[start - 1]) if start else 0), int(self.ends[stop - 1])
        return StepRun(
            self.steps[start:stop],
            self.n[start:stop],
            self.totals[start:stop],
            self.centroid_squared[start:stop],
            self.ids[first:last],
            self.vectors[first:last],
            self.signed[first:last],
            self.squared_norms[first:last],
            self.change[first:last],
            self.ends[start:stop] - first,
            self.removing,
        )

    def drift_squared(
        self,
        origin: NDArray[np.float64],
        origin_squared: float,
        steps: slice | NDArray[np.int64] = slice(None),
    ) -> NDArray[np.float64]:
        """(m,) |S/n - origin|^2 after each step, or after some; `origin_squared` is |origin|^2."""
        products = self.totals[steps, :-1] @ origin
        return _distance_squared(
            products, self.n[steps], self.centroid_squared[steps], origin_squared
        )

    def drift_squared_in_spans(
        self, origins: NDArray[np.float64], origins_squared: NDArray[np.float64], span: int
    ) -> NDArray[np.float64]:
        """(m,) `drift_squared` with an origin for every `span` steps.

        `origins` is (ceil(m / span), D), `origins_squared` has the |origin|^2 of each.
        """
        totals, products = self.totals[:, :-1], np.empty(len(self.n))
        whole = len(products) // span
        end = whole * span
        spans = totals[:end].reshape(whole, span, totals.shape[1])
        np.matmul(spans, origins[:whole, :, None], out=products[:end].reshape(whole, span, 1))
        products[end:] = totals[end:] @ origins[-1]
        squared = np.repeat(origins_squared, span)[: len(products)]
        return _distance_squared(products, self.n, self.centroid_squared, squared)


def _distance_squared(
    products: NDArray[np.float64],
    n: NDArray[np.float64],
    centroid_squared: NDArray[np.float64],
    origin_squared: NDArray[np.float64] | float,
) -> NDArray[np.float64]:
    """|S/n - origin|^2 from S.origin, |S/n|^2 and |origin|^2; overwrites the products."""
    products *= -2.0
    products /= np.maximum(n, 1.0)
    products += centroid_squared
    products += origin_squared
    return products


def take(steps: Sequence[Step], most: int) -> Batches:
    """The first steps that have at most `most` points together, but at least one step."""
    gone = [step[0][0] for step in steps]
    removing = any(gone)
    batches = (
        [batch for step in steps for batch in step] if removing else [step[1] for step in steps]
    )
    ids = [batch[0] for batch in batches]
    lengths = list(map(len, ids))
    if sum(lengths) <= most:
        return Batches(steps, batches, ids, lengths, removing)
    each = 1 + removing
    stop = max(bisect_right(list(accumulate(lengths))[each - 1 :: each], most), 1)
    end = stop * each
    return Batches(steps[:stop], batches[:end], ids[:end], lengths[:end], removing)


def lay_out(n: int, total: NDArray[np.float64], batches: Batches) -> StepRun:
    """The run of these steps from a state (n, S). Raises VectorError for a malformed batch."""
    steps, removing, lengths = batches.steps, batches.removing, batches.lengths
    vectors = _join(batches.batches, lengths, len(total))
    p = len(vectors)
    x = np.empty((-(-p // BLOCK) * BLOCK, len(total) + 1))
    x[:p, :-1] = vectors
    x[:p, -1] = 1.0  # the last column counts: its running sum is n
    x[p:] = 0.0
    squared_norms = np.vecdot(x[:p, :-1], x[:p, :-1])
    change = np.ones(p, np.int32)
    if removing:
        change = np.repeat(np.array([-1, 1] * len(steps), np.int32), lengths)
        x[:p] *= change[:, None]
    start = np.append(total, n)
    totals = _running_sums(x, start)[:p]
    ends = np.arange(1, p + 1)
    if not removing and lengths.count(1) == len(lengths):
        ids = [one[0] for one in batches.ids]
    else:
        ids = list(chain.from_iterable(batches.ids))
        ends = np.cumsum(lengths)[removing :: 1 + removing]
        totals = np.concatenate((start[None], totals))[ends]
    live, sums = totals[:, -1].copy(), totals[:, :-1]
    centroid_squared = np.vecdot(sums, sums) / np.maximum(live * live, 1.0)
    return StepRun(
        steps,
        live,
        totals,
        centroid_squared,
        ids,
        vectors,
        x[:p],
        squared_norms,
        change,
        ends,
        removing,
    )


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

    A triangular product within each block is several times as fast in BLAS as `cumsum` down
    columns; only the sums of the blocks are left to `cumsum`. Sums of integers are exact either
    way.
    """
    sums = TRIANGLE @ x.reshape(-1, BLOCK, x.shape[1])
    sums += np.concatenate((start[None], sums[:-1, -1])).cumsum(axis=0)[:, None]
    return sums.reshape(x.shape)


class RowChanges(NamedTuple):
    """Copies inside the reservoir that are added or removed, in order."""

    steps: NDArray[np.int64]
    rows: NDArray[np.int64]
    change: NDArray[np.int32]  # one copy more or less
    ids: list[bytes]

    def one_by_one(self) -> Iterator[tuple[int, int, int, bytes]]:
        """Step, row, change and id of each."""
        return zip(
            self.steps.tolist(), self.rows.tolist(), self.change.tolist(), self.ids, strict=True
        )


def row_changes(reservoir: Reservoir, run: StepRun) -> RowChanges:
    """The points of the run inside the reservoir; new vectors get rows without copies."""
    inside = np.arange(len(run.vectors))
    if reservoir.radius_key is not None:
        products = run.signed[:, :-1] @ reservoir.anchor_total
        if run.removing:
            products *= run.change
        keys = reservoir.anchor_n * run.squared_norms - 2.0 * products
        inside = np.flatnonzero(keys < reservoir.radius_key)
    rows = reservoir.rows(run.vectors[inside], run.squared_norms[inside])
    steps = run.ends.searchsorted(inside, side="right")
    ids = [run.ids[i] for i in inside.tolist()]
    return RowChanges(steps, np.array(rows, np.int64), run.change[inside], ids)
