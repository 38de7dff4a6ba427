"""Which copies of which rows of the reservoir can be among the k nearest at some step of a run.

Seen from the centroid in the middle of a span, with the farthest that it moves from there, most rows are beyond d_k + 2 *
drift and never among the nearest (docs/algorithm.md, Lemma 6). Of each other row the copies in the order of their ids are
candidates: as many as there can be at some step, at most k, or one if a vector is shown once.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from worker.coversumm import certificate
from worker.coversumm.bulk.changes import RowChanges
from worker.coversumm.bulk.run import Run
from worker.coversumm.bulk.spans import SPAN, Spans
from worker.coversumm.state import EntityState


class Candidates(NamedTuple):
    """c copies of rows; those of a row lie side by side, by id."""

    rows: NDArray[np.int64]  # (c,) the row of each
    first: NDArray[np.int64]  # (r,) the first candidate of each row, -1 if it has none
    most: NDArray[np.int64]  # (r,) how many it has
    since: NDArray[np.int64] | None  # (r,) see `_since`


def choose(
    state: EntityState,
    run: Run,
    changes: RowChanges,
    spans: Spans,
    columns: NDArray[np.float64],
    counts: NDArray[np.int64],
) -> Candidates:
    """The candidates among the reservoir's rows: (D + 1, r) `columns` that make their keys, and their copies now."""
    starts, middles, drift = spans
    squared = run.totals[middles] @ columns  # (s, r): the keys, then d^2 from the middle of each span
    squared /= np.maximum(run.n[middles], 1.0)[:, None]
    squared += run.centroid_squared[middles, None]
    slack = state.slack
    since = _since(run, changes, counts)
    if since is None:
        least, most = _copies(counts, changes, len(starts))
    else:
        least, most = (since <= starts[:, None]).astype(np.float64), np.ones(len(counts), np.int64)
    cap = 1 if state.distinct else state.k
    kth_distance = certificate.uppers(_kth_of_copies(squared, np.minimum(least, cap), state.k), slack)
    chosen = certificate.is_candidate(squared, kth_distance[:, None], drift[:, None], slack).any(axis=0)
    most = np.where(chosen, np.minimum(most, cap), 0)
    first = np.where(most > 0, most.cumsum() - most, -1)
    return Candidates(np.repeat(np.arange(len(counts)), most), first, most, since)


def _since(run: Run, changes: RowChanges, counts: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """The step that brings each row, 0 if it was there before; None if some vector may have two copies, or lose one."""
    if run.removing or (counts + np.bincount(changes.rows, minlength=len(counts))).max(initial=0) > 1:
        return None
    since = np.where(counts > 0, 0, len(run.steps))
    since[changes.rows] = changes.steps
    return since


def _copies(
    counts: NDArray[np.int64], changes: RowChanges, spans: int
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """How many copies each row has: throughout a span at least (spans, r), and at some step at most (r,)."""
    shape = (spans, len(counts))
    cells = changes.steps // SPAN * shape[1] + changes.rows
    change = np.bincount(cells, changes.change, spans * shape[1]).reshape(shape)
    after = change.cumsum(axis=0) + counts.astype(np.float64)
    gone = changes.change < 0
    if not gone.any():
        return after - change, after.max(axis=0).astype(np.int64)
    removed = np.bincount(cells[gone], minlength=spans * shape[1]).reshape(shape)
    return np.maximum(after - change - removed, 0.0), (after + removed).max(axis=0).astype(np.int64)


def _kth_of_copies(squared: NDArray[np.float64], copies: NDArray[np.float64], k: int) -> NDArray[np.float64]:
    """(s,) the k-th lowest of each line, each value counting for as many copies; infinite if there are fewer."""
    if copies.max(initial=0) <= 1:
        return kth_lowest(np.where(copies > 0, squared, np.inf), k)
    order = squared.argsort(axis=1)
    enough = np.take_along_axis(copies, order, axis=1).cumsum(axis=1) >= k
    kth: NDArray[np.float64] = np.where(enough, np.take_along_axis(squared, order, axis=1), np.inf).min(
        axis=1, initial=np.inf
    )
    return kth


def kth_lowest(values: NDArray[np.float64], k: int) -> NDArray[np.float64]:
    """(m,) the k-th lowest of each line; infinite if there are fewer."""
    if values.shape[1] < k:
        return np.full(len(values), np.inf)
    return np.partition(values, k - 1, axis=1)[:, k - 1]
