"""Who can be among the nearest in a run of steps, and their keys after each.

The copies of a vector have a place each, in the order of their ids: as many as there can be at some step, at most k (or
one, if a vector is shown once). Seen from the centroid in the middle of every SPAN steps, with the drift being the
farthest it moves within the span, most rows of the reservoir are beyond d_k + 2 * drift and never among the nearest. The
places of the others make a run of m steps m lines of keys, m x c, one product with the running sums. Where there is no
such copy at a step, the key is infinite.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from worker.coversumm import certificate
from worker.coversumm.reservoir import Reservoir
from worker.coversumm.run import Run
from worker.coversumm.state import State

SPAN = 64  # steps seen from one centroid: shorter ones cost more products than the rows they leave out save


class Events(NamedTuple):
    """What a run does to the reservoir, in order."""

    steps: NDArray[np.int64]
    rows: NDArray[np.int64]
    change: NDArray[np.int32]  # one copy more or less
    ids: list[bytes]

    def one_by_one(self) -> Iterator[tuple[int, int, int, bytes]]:
        """Step, row, change and id of each."""
        return zip(self.steps.tolist(), self.rows.tolist(), self.change.tolist(), self.ids, strict=True)


class Places(NamedTuple):
    """Those that can be among the nearest at some step."""

    owner: NDArray[np.int64]  # (c,) the row of each, a row's places side by side
    first: NDArray[np.int64]  # (r,) the first place of a row, -1 if it has none
    most: NDArray[np.int64]  # (r,) how many it has
    since: NDArray[np.int64] | None  # (r,) see `_since`


class Spans(NamedTuple):
    """A run, SPAN steps at a time."""

    starts: NDArray[np.int64]  # (s,)
    middles: NDArray[np.int64]  # (s,)
    drift: NDArray[np.float64]  # (s,) how far the centroid moves from where it is in the middle, at most


class Lines(NamedTuple):
    """What the reservoir says of each step."""

    keys: NDArray[np.float64]  # (m, c), infinite where there is no such copy
    kth: NDArray[np.float64]  # (m,) the k-th lowest of them, infinite if there are fewer
    spans: Spans


def contest(state: State, run: Run, events: Events) -> tuple[Places, Lines]:
    """The places of the reservoir's rows that matter in a run with these events, and their keys."""
    columns, counts = _columns(state.reservoir), np.array(state.reservoir.counts, np.int64)
    spans = _spans(run, certificate.slack(state.dimension, state.longest))
    places = _places(state, run, events, spans, columns, counts)
    keys = run.sums @ columns[:, places.owner]
    state.counters.evaluations += len(keys)
    _leave_out(keys, places, counts, events)
    return places, Lines(keys, _kth_lowest(keys, state.k), spans)


def _spans(run: Run, error: float) -> Spans:
    m = len(run.steps)
    starts = np.arange(0, m, SPAN)
    middles = np.minimum(starts + SPAN // 2, m - 1)
    centroids = run.sums[middles, :-1] / np.maximum(run.n[middles], 1.0)[:, None]
    drift_squared = run.drifts_squared(centroids, run.mean_squared[middles], SPAN)
    return Spans(starts, middles, certificate.uppers(np.maximum.reduceat(drift_squared, starts), 4 * error))


def _columns(reservoir: Reservoir) -> NDArray[np.float64]:
    """(D + 1, r): (S, n) times a column is the row's key -2*x.S + |x|^2*n."""
    columns = np.empty((len(reservoir), reservoir.matrix.shape[1] + 1))
    np.multiply(reservoir.matrix, -2.0, out=columns[:, :-1])
    columns[:, -1] = reservoir.norms
    return columns.T


def _places(
    state: State,
    run: Run,
    events: Events,
    spans: Spans,
    columns: NDArray[np.float64],
    counts: NDArray[np.int64],
) -> Places:
    """The rows within d_k + 2 * drift of the centroid in the middle of some span."""
    starts, middles, drift = spans
    squared = run.sums[middles] @ columns
    squared /= np.maximum(run.n[middles], 1.0)[:, None]
    squared += run.mean_squared[middles, None]
    error = certificate.slack(state.dimension, state.longest)
    since = _since(run, events, counts)
    if since is None:
        least, most = _copies(counts, events, len(starts))
    else:
        least, most = (since <= starts[:, None]).astype(np.float64), np.ones(len(counts), np.int64)
    cap = 1 if state.distinct else state.k
    kth = certificate.uppers(_kth(squared, np.minimum(least, cap), state.k), error)
    contends = certificate.contends(squared, kth[:, None], drift[:, None], error).any(axis=0)
    places = np.where(contends, np.minimum(most, cap), 0)
    first = np.where(places > 0, places.cumsum() - places, -1)
    return Places(np.repeat(np.arange(len(counts)), places), first, places, since)


def _since(run: Run, events: Events, counts: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """The step that brings each row, 0 if it was there before; None if some vector may have two copies, or lose one."""
    if run.removing or (counts + np.bincount(events.rows, minlength=len(counts))).max(initial=0) > 1:
        return None
    since = np.where(counts > 0, 0, len(run.steps))
    since[events.rows] = events.steps
    return since


def _copies(
    counts: NDArray[np.int64], events: Events, spans: int
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """How many copies each row has: throughout a span at least (spans, r), and at some step at most (r,)."""
    shape = (spans, len(counts))
    cells = events.steps // SPAN * shape[1] + events.rows
    change = np.bincount(cells, events.change, spans * shape[1]).reshape(shape)
    after = change.cumsum(axis=0) + counts.astype(np.float64)
    gone = events.change < 0
    if not gone.any():
        return after - change, after.max(axis=0).astype(np.int64)
    removed = np.bincount(cells[gone], minlength=spans * shape[1]).reshape(shape)
    return np.maximum(after - change - removed, 0.0), (after + removed).max(axis=0).astype(np.int64)


def _kth(squared: NDArray[np.float64], places: NDArray[np.float64], k: int) -> NDArray[np.float64]:
    """(s,) the k-th lowest of each line, each counting for as many places; infinite if there are fewer."""
    if places.max(initial=0) <= 1:
        return _kth_lowest(np.where(places > 0, squared, np.inf), k)
    order = squared.argsort(axis=1)
    enough = np.take_along_axis(places, order, axis=1).cumsum(axis=1) >= k
    kth: NDArray[np.float64] = np.where(enough, np.take_along_axis(squared, order, axis=1), np.inf).min(
        axis=1, initial=np.inf
    )
    return kth


def _leave_out(keys: NDArray[np.float64], places: Places, counts: NDArray[np.int64], events: Events) -> None:
    """Make keys infinite at the steps at which there is no such copy."""
    if places.since is not None:
        since = places.since[places.owner]
        late = int(since.max(initial=0))
        if late:
            begin = int((since > 0).argmax())
            keys[:late, begin:][np.arange(late)[:, None] < since[begin:]] = np.inf
        return
    copy = np.arange(len(places.owner)) - places.first[places.owner]
    absent = np.flatnonzero(copy >= counts[places.owner])
    missing = dict.fromkeys(absent.tolist(), 0)  # a place -> since which step
    held = counts.tolist()
    which = np.flatnonzero(places.first[events.rows] >= 0)
    rows = events.rows[which]
    columns = events.steps[which], rows, places.first[rows], places.most[rows], events.change[which]
    for step, row, first, most, change in zip(*[column.tolist() for column in columns], strict=True):
        nth = held[row] - (change < 0)
        held[row] += change
        if nth < most:
            if change > 0:
                keys[missing.pop(first + nth) : step, first + nth] = np.inf
            else:
                missing[first + nth] = step
    for place, step in missing.items():
        keys[step:, place] = np.inf


def _kth_lowest(values: NDArray[np.float64], k: int) -> NDArray[np.float64]:
    """(m,) the k-th lowest of each line; infinite if there are fewer."""
    if values.shape[1] < k:
        return np.full(len(values), np.inf)
    return np.partition(values, k - 1, axis=1)[:, k - 1]
