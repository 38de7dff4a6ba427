"""The keys of all candidates after every step of a run: one product with the running sums."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from worker.coversumm import certificate
from worker.coversumm.bulk.candidates import Candidates, choose, kth_lowest
from worker.coversumm.bulk.changes import RowChanges
from worker.coversumm.bulk.run import Run
from worker.coversumm.bulk.spans import Spans, cut
from worker.coversumm.reservoir import Reservoir
from worker.coversumm.state import EntityState


class KeyMatrix(NamedTuple):
    """What the reservoir says of each step."""

    keys: NDArray[np.float64]  # (m, c), infinite where there is no such copy
    kth_key: NDArray[np.float64]  # (m,) the k-th lowest of them, infinite if there are fewer
    kth_distance: NDArray[np.float64]  # (m,) an upper bound of its distance, d_k
    spans: Spans


def candidate_keys(state: EntityState, run: Run, changes: RowChanges) -> tuple[Candidates, KeyMatrix]:
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
    keys: NDArray[np.float64], candidates: Candidates, counts: NDArray[np.int64], changes: RowChanges
) -> None:
    """Make keys infinite at the steps at which there is no such copy."""
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
    columns = changes.steps[which], rows, candidates.first[rows], candidates.most[rows], changes.change[which]
    for step, row, first, most, change in zip(*[column.tolist() for column in columns], strict=True):
        nth = held[row] - (change < 0)
        held[row] += change
        if nth < most:
            if change > 0:
                keys[missing.pop(first + nth) : step, first + nth] = np.inf
            else:
                missing[first + nth] = step
    for candidate, step in missing.items():
        keys[step:, candidate] = np.inf
