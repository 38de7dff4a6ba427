"""Which copies of which rows of the reservoir can be among the k nearest at some step of a run.

Seen from the centroid in the middle of a span, with its largest move from there, most rows are
beyond d_k + 2 * drift and never among the nearest (docs/algorithm.md, Lemma 6). Of each other row
the copies with the lowest ids are candidates: as many as exist at some step, at most k, or one with
`distinct`.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from worker.coversumm import certificate
from worker.coversumm.bulk.run import RowChanges, StepRun
from worker.coversumm.reservoir import Reservoir
from worker.coversumm.state import EntityState

SPAN = 64  # steps: shorter spans cost more products than the rows they leave out save


class Spans(NamedTuple):
    """A run, SPAN steps at a time."""

    starts: NDArray[np.int64]  # (s,)
    middles: NDArray[np.int64]  # (s,)
    drift: NDArray[np.float64]  # (s,) largest distance of the centroid from the middle's


def cut(run: StepRun, slack: float) -> Spans:
    """The spans of a run; `slack` is that of `certificate`."""
    m = len(run.steps)
    starts = np.arange(0, m, SPAN)
    middles = np.minimum(starts + SPAN // 2, m - 1)
    centroids = run.totals[middles, :-1] / np.maximum(run.n[middles], 1.0)[:, None]
    drift_squared = run.drift_squared_in_spans(centroids, run.centroid_squared[middles], SPAN)
    drift = certificate.uppers(np.maximum.reduceat(drift_squared, starts), 4 * slack)
    return Spans(starts, middles, drift)


class Candidates(NamedTuple):
    """c copies of rows; the copies of a row are adjacent, by id."""

    rows: NDArray[np.int64]  # (c,) the row of each
    first: NDArray[np.int64]  # (r,) the first candidate of each row, -1 if it has none
    most: NDArray[np.int64]  # (r,) how many it has
    since: NDArray[np.int64] | None  # (r,) see `_since`


def choose(
    state: EntityState,
    run: StepRun,
    changes: RowChanges,
    spans: Spans,
    columns: NDArray[np.float64],
    counts: NDArray[np.int64],
) -> Candidates:
    """The candidates, from (D + 1, r) `columns` that give the rows' keys and their `counts` of
    copies now.
    """
    starts, middles, drift = spans
    # (s, r): the keys, then d^2 from the middle of each span
    squared = run.totals[middles] @ columns
    squared /= np.maximum(run.n[middles], 1.0)[:, None]
    squared += run.centroid_squared[middles, None]
    slack = state.slack
    since = _since(run, changes, counts)
    if since is None:
        least, most = _copies(counts, changes, len(starts))
    else:
        least, most = (since <= starts[:, None]).astype(np.float64), np.ones(len(counts), np.int64)
    cap = 1 if state.distinct else state.k
    kth_distance = certificate.uppers(
        _kth_of_copies(squared, np.minimum(least, cap), state.k), slack
    )
    chosen = certificate.is_candidate(squared, kth_distance[:, None], drift[:, None], slack).any(
        axis=0
    )
    most = np.where(chosen, np.minimum(most, cap), 0)
    first = np.where(most > 0, most.cumsum() - most, -1)
    return Candidates(np.repeat(np.arange(len(counts)), most), first, most, since)


def _since(
    run: StepRun, changes: RowChanges, counts: NDArray[np.int64]
) -> NDArray[np.int64] | None:
    """The step that brings each row, 0 if it was there; None if a vector may have two copies or
    lose one.
    """
    if (
        run.removing
        or (counts + np.bincount(changes.rows, minlength=len(counts))).max(initial=0) > 1
    ):
        return None
    since = np.where(counts > 0, 0, len(run.steps))
    since[changes.rows] = changes.steps
    return since


def _copies(
    counts: NDArray[np.int64], changes: RowChanges, spans: int
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Copies of each row: the least throughout a span (spans, r), the most at any step (r,)."""
    shape = (spans, len(counts))
    cells = changes.steps // SPAN * shape[1] + changes.rows
    change = np.bincount(cells, changes.change, spans * shape[1]).reshape(shape)
    after = change.cumsum(axis=0) + counts.astype(np.float64)
    gone = changes.change < 0
    if not gone.any():
        return after - change, after.max(axis=0).astype(np.int64)
    removed = np.bincount(cells[gone], minlength=spans * shape[1]).reshape(shape)
    return np.maximum(after - change - removed, 0.0), (after + removed).max(axis=0).astype(np.int64)


def _kth_of_copies(
    squared: NDArray[np.float64], copies: NDArray[np.float64], k: int
) -> NDArray[np.float64]:
    """(s,) the k-th lowest of each line, each value counted `copies` times, or infinity."""
    if copies.max(initial=0) <= 1:
        return kth_lowest(np.where(copies > 0, squared, np.inf), k)
    order = squared.argsort(axis=1)
    enough = np.take_along_axis(copies, order, axis=1).cumsum(axis=1) >= k
    kth: NDArray[np.float64] = np.where(
        enough, np.take_along_axis(squared, order, axis=1), np.inf
    ).min(axis=1, initial=np.inf)
    return kth


def kth_lowest(values: NDArray[np.float64], k: int) -> NDArray[np.float64]:
    """(m,) the k-th lowest of each line; infinity if there are fewer."""
    if values.shape[1] < k:
        return np.full(len(values), np.inf)
    return np.partition(values, k - 1, axis=1)[:, k - 1]


class KeyMatrix(NamedTuple):
    """The keys of the candidates after each step."""

    keys: NDArray[np.float64]  # (m, c), infinite where there is no such copy
    kth_key: NDArray[np.float64]  # (m,) the k-th lowest of them, infinite if there are fewer
    kth_distance: NDArray[np.float64]  # (m,) an upper bound of its distance, d_k
    spans: Spans


def candidate_keys(
    state: EntityState, run: StepRun, changes: RowChanges
) -> tuple[Candidates, KeyMatrix]:
    """The candidates of a run with these changes, and their keys."""
    columns, counts = _columns(state.reservoir), np.array(state.reservoir.counts, np.int64)
    spans = cut(run, state.slack)
    candidates = choose(state, run, changes, spans, columns, counts)
    keys = run.totals @ columns[:, candidates.rows]
    state.counters.evaluations += len(keys)
    _blank_absent(keys, candidates, counts, changes)
    kth_key = kth_lowest(keys, state.k)
    squared = kth_key / np.maximum(run.n, 1.0) + run.centroid_squared
    return candidates, KeyMatrix(keys, kth_key, certificate.uppers(squared, state.slack), spans)


def _columns(reservoir: Reservoir) -> NDArray[np.float64]:
    """(D + 1, r): (S, n) times a column is the row's key -2*x.S + |x|^2*n."""
    columns = np.empty((len(reservoir), reservoir.vectors.shape[1] + 1))
    np.multiply(reservoir.vectors, -2.0, out=columns[:, :-1])
    columns[:, -1] = reservoir.squared_norms
    return columns.T


def _blank_absent(
    keys: NDArray[np.float64],
    candidates: Candidates,
    counts: NDArray[np.int64],
    changes: RowChanges,
) -> None:
    """Make keys infinite at the steps at which the copy does not exist."""
    if candidates.since is not None:
        since = candidates.since[candidates.rows]
        late = int(since.max(initial=0))
        if late:
            begin = int((since > 0).argmax())
            keys[:late, begin:][np.arange(late)[:, None] < since[begin:]] = np.inf
        return
    copy = np.arange(len(candidates.rows)) - candidates.first[candidates.rows]
    absent = np.flatnonzero(copy >= counts[candidates.rows])
    missing = dict.fromkeys(absent.tolist(), 0)  # a candidate -> since which step
    held = counts.tolist()
    which = np.flatnonzero(candidates.first[changes.rows] >= 0)
    rows = changes.rows[which]
    columns = (
        changes.steps[which],
        rows,
        candidates.first[rows],
        candidates.most[rows],
        changes.change[which],
    )
    for step, row, first, most, change in zip(
        *[column.tolist() for column in columns], strict=True
    ):
        nth = held[row] - (change < 0)
        held[row] += change
        if nth < most:
            if change > 0:
                keys[missing.pop(first + nth) : step, first + nth] = np.inf
            else:
                missing[first + nth] = step
    for candidate, step in missing.items():
        keys[step:, candidate] = np.inf
