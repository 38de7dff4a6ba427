"""Many steps of one entity at once: all keys as one matrix product, the set after every step.

A run of m steps becomes m lines of keys, m x c, one product of the running sums with those rows of the reservoir that
can be among the nearest at all: seen from the centroid in the middle of every SPAN steps, those within d_k + 2 *
drift, the drift being the farthest the centroid moves within the span. A vector without copies at a step is infinitely
far there. The certificate is asked for all steps together. Up to the first it fails at, only the steps whose set can
have changed are ranked; at that step the reservoir is refilled.
"""

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from worker.coversumm import certificate
from worker.coversumm.fixed_point import exact
from worker.coversumm.points import Points, Step, no_points
from worker.coversumm.ranking import Ranking, expand
from worker.coversumm.reservoir import Reservoir
from worker.coversumm.run import Run, lay_out, take
from worker.coversumm.single import apply_step
from worker.coversumm.state import State, View

BULK = 12  # steps from which on the matrix product pays
LONGEST = 1024  # points laid out at once: the matrix of running sums stays near
SPAN = 32  # steps seen from one centroid: shorter ones cost more products than the rows they leave out save
LARGEST = float(np.finfo(np.float64).max)

_Event = tuple[int, int, int, bytes]  # step, row, change, id


class _Events(NamedTuple):
    """What a run does to the reservoir, in order."""

    steps: NDArray[np.int64]
    rows: NDArray[np.int64]
    change: NDArray[np.int32]  # one copy more or less
    ids: list[bytes]

    def pending(self) -> deque[_Event]:
        """One by one."""
        return deque(
            zip(self.steps.tolist(), self.rows.tolist(), self.change.tolist(), self.ids, strict=True)
        )


class _Lines(NamedTuple):
    """What the reservoir says of each step, in the rows that contend."""

    rows: NDArray[np.int64]  # (c,)
    column: NDArray[np.int64]  # (r,) the column of each row, -1 if it has none
    keys: NDArray[np.float64]  # (m, c), infinite where a row has no copies
    kth: NDArray[np.float64]  # (m,) key of the k-th sentence, infinite if there are fewer
    weights: NDArray[np.int32] | None  # (m, c) how many places a row can take; None: one, once it is there


class _Nearest(NamedTuple):
    """The columns nearest at some steps, up to the k-th key, ascending."""

    columns: NDArray[np.int64]  # (s, w)
    keys: NDArray[np.float64]  # (s, w)
    counts: NDArray[np.int64]  # (s,) how many they are, the first of each line

    def tied(self) -> list[bool]:
        """(s,) whether any of the keys are equal."""
        keys = self.keys
        equal: list[bool] = np.any((keys[:, 1:] == keys[:, :-1]) & (keys[:, 1:] < np.inf), axis=1).tolist()
        return equal


def apply_steps(state: State, steps: Sequence[Step]) -> list[Ranking | None]:
    """Apply steps in order; the same results as `apply_step` one by one."""
    results: list[Ranking | None] = []
    while len(results) < len(steps):
        at = len(results)
        batches = take(steps[at : at + LONGEST], LONGEST)
        if len(batches.steps) < 4:
            results.append(apply_step(state, steps[at]))
        else:
            results += _apply_laid_out(state, lay_out(state.n, state.sum, batches))
    return results


def _apply_laid_out(state: State, laid_out: Run) -> list[Ranking | None]:
    """By runs as long as the last ones went without a refill."""
    results: list[Ranking | None] = []
    m = len(laid_out.steps)
    while len(results) < m:
        at = len(results)
        end = _run_end(state, laid_out, at)
        if end - at < 4 or state.reservoir.starved:
            results.append(apply_step(state, laid_out.steps[at]))
        else:
            results += _apply_run(state, laid_out.part(at, end))
    return results


def _run_end(state: State, laid_out: Run, at: int) -> int:
    """As far as the last runs went without a refill, but not beyond where the next one is likely to be due.

    A reservoir that holds everything takes in every point: it must not swell before it is trimmed.
    """
    end = min(len(laid_out.steps), at + state.stride)
    if state.reservoir.radius_key is None:
        room = max(2 * state.target - len(state.reservoir), state.target)
        before = laid_out.ends[at - 1] if at else 0
        return min(end, int(laid_out.ends.searchsorted(before + room)) + 1)
    if state.complete():
        return end
    ball = state.ball()
    drift_squared = laid_out.drift_squared(ball.anchor, ball.anchor_squared, slice(at, end, SPAN))
    due = np.flatnonzero(state.kth + certificate.uppers(drift_squared, 0.0) >= ball.radius)
    return at + SPAN * int(due[0]) if len(due) else end


def _apply_run(state: State, run: Run) -> list[Ranking | None]:
    most, longest = int(run.n.max()), float(run.squared.max(initial=0.0))
    if not exact(most, max(longest, state.longest)):  # some step will be refused: up to it, one by one
        return [apply_step(state, run.steps[0])]
    state.admit(most, longest)
    if state.reservoir.starved:  # `admit` found the anchor beyond exact comparison
        return [apply_step(state, run.steps[0])]
    events = _events(state, run)
    lines = _lines(state, run, events)
    end = _first_unproved(state, run, lines, events)
    results, end = _rank(state, run, lines, events, end)
    if end:
        last = end - 1
        state.kth = certificate.upper(lines.kth[last] / max(run.n[last], 1.0) + run.mean_squared[last], 0.0)
    _commit(state, run, end, results)
    return results


def _events(state: State, run: Run) -> _Events:
    """The points inside; new vectors get rows without copies."""
    reservoir = state.reservoir
    inside = np.arange(len(run.points))
    if reservoir.radius_key is not None:
        keys = reservoir.anchor_n * run.squared - 2.0 * (run.points @ reservoir.anchor_sum)
        inside = np.flatnonzero(keys < reservoir.radius_key)
    rows = reservoir.rows(run.points[inside], run.squared[inside])
    steps = run.ends.searchsorted(inside, side="right")
    ids = [run.ids[i] for i in inside.tolist()]
    return _Events(steps, np.array(rows, np.int64), run.change[inside], ids)


def _contenders(state: State, run: Run, events: _Events, columns: NDArray[np.float64]) -> NDArray[np.int64]:
    """The rows that can be among the nearest at some step."""
    m, reservoir = len(run.steps), state.reservoir
    starts = np.arange(0, m, SPAN)
    middles = np.minimum(starts + SPAN // 2, m - 1)
    n, mean_squared = np.maximum(run.n[middles], 1.0)[:, None], run.mean_squared[middles]
    keys = run.sums[middles] @ columns
    kept = _kept(reservoir, events, len(starts))
    if state.distinct:
        np.minimum(kept, 1, out=kept)
    kth = _kth_keys(np.where(kept > 0, keys, np.inf), kept, state.k)
    drift_squared = run.drifts_squared(run.sums[middles, :-1] / n, mean_squared, SPAN)
    error = certificate.slack(state.dimension, state.longest)
    contends = certificate.contends(
        certificate.lowers(keys / n + mean_squared[:, None], error),
        certificate.uppers(kth[:, None] / n + mean_squared[:, None], error),
        certificate.uppers(np.maximum.reduceat(drift_squared, starts)[:, None], 4 * error),
    )
    return np.flatnonzero(contends.any(axis=0))


def _kept(reservoir: Reservoir, events: _Events, spans: int) -> NDArray[np.int32]:
    """(spans, r): the copies that a row keeps throughout each span, at least."""
    kept = np.zeros((spans + 1, len(reservoir)), np.int32)
    kept[0] = reservoir.counts
    # what a span adds is there throughout from the next one on, what it removes is not even in this one
    since = events.steps // SPAN + (events.change > 0)
    np.add.at(kept, (since, events.rows), events.change)
    kept = kept.cumsum(axis=0, dtype=np.int32)[:spans]
    return np.maximum(kept, 0, out=kept)


def _lines(state: State, run: Run, events: _Events) -> _Lines:
    columns = _columns(state.reservoir)
    rows = _contenders(state, run, events, columns)
    keys = run.sums @ columns[:, rows]
    state.counters.evaluations += len(keys)
    column = np.full(len(state.reservoir), -1)
    column[rows] = np.arange(len(rows))
    columns_of = column[events.rows]
    changes = zip(events.steps.tolist(), columns_of.tolist(), events.change.tolist(), strict=True)
    weights = None
    if _no_copies(state.reservoir, events):
        for step, at, _ in changes:
            if at >= 0:
                keys[:step, at] = np.inf
    else:
        weights = np.empty(keys.shape, np.int32)
        weights[:] = np.array(state.reservoir.counts)[rows]
        for step, at, change in changes:
            if at >= 0:
                weights[step:, at] += change
        np.copyto(keys, np.inf, where=weights == 0)
        if state.distinct:
            np.minimum(weights, 1, out=weights)
    return _Lines(rows, column, keys, _kth_keys(keys, weights, state.k), weights)


def _no_copies(reservoir: Reservoir, events: _Events) -> bool:
    """Whether no vector has two copies at any step, and none is removed: one event at most a row, none if it has a copy."""
    touched = np.array(reservoir.counts) + np.bincount(events.rows, minlength=len(reservoir))
    return bool(touched.max(initial=0) <= 1)


def _kth_keys(keys: NDArray[np.float64], weights: NDArray[np.int32] | None, k: int) -> NDArray[np.float64]:
    """(m,) the k-th lowest key of each line, a key counting as often as it weighs; infinite if there are fewer."""
    if weights is None or weights.max(initial=0) <= 1:  # no copies
        if keys.shape[1] < k:
            return np.full(len(keys), np.inf)
        return np.partition(keys, k - 1, axis=1)[:, k - 1]
    order = keys.argsort(axis=1)[:, :k]
    places = np.take_along_axis(weights, order, axis=1).cumsum(axis=1)
    last = (places < k).sum(axis=1)
    kth = np.full(len(keys), np.inf)
    full = np.flatnonzero(last < order.shape[1])
    kth[full] = keys[full, order[full, last[full]]]
    return kth


def _columns(reservoir: Reservoir) -> NDArray[np.float64]:
    """(D + 1, r): (S, n) times a column is the row's key -2*x.S + |x|^2*n."""
    columns = np.empty((len(reservoir), reservoir.matrix.shape[1] + 1))
    np.multiply(reservoir.matrix, -2.0, out=columns[:, :-1])
    columns[:, -1] = reservoir.norms
    return columns.T


def _first_unproved(state: State, run: Run, lines: _Lines, events: _Events) -> int:
    """The first step at which the certificate fails; m if none."""
    reservoir = state.reservoir
    m = len(run.steps)
    if reservoir.radius_key is None:
        return m
    ball = state.ball()
    kth = certificate.uppers(lines.kth / np.maximum(run.n, 1.0) + run.mean_squared, ball.error)
    drift = certificate.uppers(run.drift_squared(ball.anchor, ball.anchor_squared), 4 * ball.error)
    failed = ~certificate.proved(kth, drift, ball.radius)
    if failed.any():  # a reservoir that holds every sentence needs no proof
        live = reservoir.live + np.bincount(events.steps, weights=events.change, minlength=m).cumsum()
        failed &= live != run.n
    return int(failed.argmax()) if failed.any() else m


def _suspects(lines: _Lines, events: _Events, k: int, end: int) -> list[int]:
    """The steps before `end` after which the set may differ from the one before.

    The set is a function of the rows up to the k-th key and of their ids; where those rows hold more than k
    sentences, also of which of them have the k-th key itself, the ones that are cut. The first step of a run is
    always a suspect.
    """
    keys, kth = lines.keys[:end], lines.kth[:end, None]
    shown = keys <= np.minimum(kth, LARGEST)
    suspect = np.zeros(end, np.bool_)
    suspect[:1] = True
    suspect[1 + np.flatnonzero(shown[1:] != shown[:-1]) // max(keys.shape[1], 1)] = True
    if lines.weights is None:
        cut = np.einsum("ij->i", shown, dtype=np.int32) > k
    else:
        cut = np.einsum("ij,ij->i", lines.weights[:end], shown) > k
    if cut.any():
        edge = keys == kth
        suspect[1:] |= cut[1:] & (np.any(edge[1:] != edge[:-1], axis=1) | ~cut[:-1])
    columns = lines.column[events.rows]
    before = np.flatnonzero((columns >= 0) & (events.steps < end))
    steps = events.steps[before]
    suspect[steps[shown[steps, columns[before]]]] = True
    return np.flatnonzero(suspect).tolist()


def _rank(
    state: State, run: Run, lines: _Lines, events: _Events, end: int
) -> tuple[list[Ranking | None], int]:
    """Apply the events before `end` and rank the suspects among them; ends earlier where the reservoir starves."""
    results: list[Ranking | None] = [None] * end
    pending = events.pending()
    suspects = _suspects(lines, events, state.k, end)
    nearest = _nearest(lines, suspects)
    if lines.weights is None:
        _advance(state, pending, end - 1)
        _rank_rows(state, run, lines, suspects, nearest, results)
        return results, end
    lists = lines.rows[nearest.columns].tolist(), nearest.keys.tolist(), nearest.counts.tolist()
    for step, rows, keys, count in zip(suspects, *lists, strict=True):
        starved = _advance(state, pending, step)
        if starved is not None:
            return results[:starved], starved
        ids, owners, chosen = expand(rows[:count], keys[:count], state.reservoir.low, state.k, state.distinct)
        view = View(ids, owners, chosen, np.inf)
        results[step] = state.show(view, run.steps[step].added.ids, int(run.n[step]), run.sums[step, :-1])
    starved = _advance(state, pending, end - 1)
    return (results, end) if starved is None else (results[:starved], starved)


def _rank_rows(
    state: State,
    run: Run,
    lines: _Lines,
    suspects: list[int],
    nearest: _Nearest,
    results: list[Ranking | None],
) -> None:
    """Rank the suspects where every row is one sentence.

    Without equal keys each but the first did change the set, or adds a member.
    """
    low = state.reservoir.low
    ids = np.array([(*low[row], b"")[0] for row in lines.rows.tolist()], object)  # b"": added later
    lists = ids[nearest.columns].tolist(), nearest.keys.tolist(), nearest.counts.tolist()
    tied = nearest.tied()
    sure, shown = not any(tied), state.shown
    for step, names, keys, count, equal in zip(suspects, *lists, tied, strict=True):
        del names[count:], keys[count:]
        if equal:
            ordered = sorted(zip(keys, names, strict=True))[: state.k]
            keys, names = [key for key, _ in ordered], [id_ for _, id_ in ordered]
        shown = tuple(names)
        if (sure and step) or state.news(shown, run.steps[step].added.ids):
            total = run.sums[step, :-1].copy()
            results[step] = Ranking(shown, (1,) * len(shown), int(run.n[step]), keys, total, state.scale)
    state.news(shown, ())


def _nearest(lines: _Lines, steps: list[int]) -> _Nearest:
    keys = lines.keys[steps]
    counts = (keys <= np.minimum(lines.kth[steps], LARGEST)[:, None]).sum(axis=1)
    columns = keys.argsort(axis=1)[:, : counts.max(initial=0)]
    return _Nearest(columns, keys[np.arange(len(keys))[:, None], columns], counts)


def _advance(state: State, pending: deque[_Event], step: int) -> int | None:
    """Apply the events up to a step; the step at which the reservoir starves, if it does."""
    reservoir = state.reservoir
    while pending and pending[0][0] <= step:
        at, row, change, id_ = pending.popleft()
        if change > 0:
            reservoir.add(row, id_)
        else:
            reservoir.remove(row, id_)
        if reservoir.starved:
            return at
    return None


def _commit(state: State, run: Run, end: int, results: list[Ranking | None]) -> None:
    """Make the steps before `end` the state, and that step by a refill if there is one."""
    reservoir, counters = state.reservoir, state.counters
    m = len(run.steps)
    stop = min(end + 1, m)
    _update(state, run, stop)
    state.n, state.sum = int(run.n[stop - 1]), run.sums[stop - 1, :-1].copy()
    state.gap = None
    state.since_refill += stop
    counters.steps += stop
    counters.proved_reservoir += end
    if end < m:
        step = run.steps[end]
        state.stride = min(LONGEST, max(16, state.since_refill))
        results.append(state.show(state.refill(), step.added.ids, state.n, state.sum))
        return
    if 0 in reservoir.counts:
        for row in range(len(reservoir) - 1, -1, -1):
            if not reservoir.counts[row]:
                reservoir.drop(row)
    state.stride = min(LONGEST, 2 * state.stride)
    state.trim()


def _update(state: State, run: Run, stop: int) -> None:
    """Tell the index of the steps before `stop`: at once if they only add."""
    steps = run.steps[:stop]
    if run.removing:
        for step in steps:
            state.index.update(*step)
    else:
        end = int(run.ends[stop - 1])
        state.index.update(no_points(state.dimension), Points(run.ids[:end], run.points[:end]))
