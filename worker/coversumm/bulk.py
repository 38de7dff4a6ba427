"""Many steps of one entity at once: all centroids by running sums, all keys as one matrix product, the set after every step.

A run of m steps is laid out as an m x r matrix of keys, r the rows of the reservoir and those the run adds to it; a
vector without copies at a step is infinitely far there. Sorting each line gives the k-th key; the certificate is
asked for all steps together. Up to the first step it fails at, only the steps whose set can have changed are ranked;
at that step the reservoir is refilled.
"""

from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from itertools import accumulate
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from worker.coversumm import certificate
from worker.coversumm.errors import UnknownSentence
from worker.coversumm.fixed_point import exact
from worker.coversumm.points import Points, Step, check, no_points
from worker.coversumm.ranking import Ranking, expand
from worker.coversumm.reservoir import Reservoir
from worker.coversumm.single import apply_step
from worker.coversumm.state import State, View

BULK = 12  # steps from which on the matrix product pays
LONGEST = 512  # points in a run: the matrix of running sums stays in the cache
BLOCK = 32
LARGEST = float(np.finfo(np.float64).max)


class _Event(NamedTuple):
    """A step's effect on the reservoir."""

    step: int
    row: int
    id: bytes
    vector: NDArray[np.int16] | None  # of a removed sentence


class _Run(NamedTuple):
    """The steps of a run as matrices."""

    steps: Sequence[Step]
    n: NDArray[np.float64]  # (m,) live sentences after each step
    sums: NDArray[np.float64]  # (m, D + 1) S and n after each step
    points: NDArray[np.int16]  # (p, D) of all steps in order, of each the removed first
    squared: NDArray[np.float64]  # (p,) |x|^2
    anchored: NDArray[np.float64]  # (p,) x.S0
    ends: list[int]  # (m,) where each step's points end


class _Lines(NamedTuple):
    """What the reservoir says of each step."""

    keys: NDArray[np.float64]  # (m, r), infinite where a row has no copies
    kth: NDArray[np.float64]  # (m,) key of the k-th sentence, infinite if there are fewer
    weights: NDArray[np.int32]  # (m, r) how many places a row can take


def apply_steps(state: State, steps: Sequence[Step]) -> list[Ranking | None]:
    """Apply steps in order; the same results as `apply_step` one by one."""
    results: list[Ranking | None] = []
    while len(results) < len(steps):
        at = len(results)
        end = _run_end(state, steps, at)
        if end - at < 4 or state.reservoir.starved:
            results.append(apply_step(state, steps[at]))
        else:
            results += _apply_run(state, steps[at:end])
    return results


def _run_end(state: State, steps: Sequence[Step], at: int) -> int:
    """How many steps to take at once: as many as the last runs went without a refill, and not too many points.

    A reservoir that holds everything takes in every point: it must not swell before it is trimmed.
    """
    room = LONGEST
    if state.reservoir.radius_key is None:
        room = max(2 * state.target - len(state.reservoir), state.target)
    last = min(len(steps), at + state.stride)
    end = at
    while end < last and room > 0:
        room -= len(steps[end].removed.ids) + len(steps[end].added.ids)
        end += 1
    return end


def _apply_run(state: State, steps: Sequence[Step]) -> list[Ranking | None]:
    run = _lay_out(state, steps)
    most, longest = int(run.n.max()), float(run.squared.max(initial=0.0))
    if not exact(most, max(longest, state.longest)):  # some step will be refused: up to it, one by one
        return [apply_step(state, steps[0])]
    state.admit(most, longest)
    if state.reservoir.starved:  # `admit` found the anchor beyond exact comparison
        return [apply_step(state, steps[0])]
    events = _events(state, run)
    lines = _lines(state, run, events)
    end = _first_unproved(state, run, lines, events)
    results, end = _rank(state, run, lines, events, end)
    _commit(state, run, end, results)
    return results


def _lay_out(state: State, steps: Sequence[Step]) -> _Run:
    """The points of all steps as one matrix, and what runs along it."""
    removing = any(step.removed.ids for step in steps)
    batches = [batch for step in steps for batch in step] if removing else [step[1] for step in steps]
    lengths = [len(batch[0]) for batch in batches]
    points = _join(batches, lengths, state.dimension)
    x = np.empty((len(points), state.dimension + 1))  # the last column counts: its running sum is n
    x[:, :-1] = points
    squared = np.einsum("ij,ij->i", x[:, :-1], x[:, :-1])
    anchored = x[:, :-1] @ state.reservoir.anchor_sum
    x[:, -1] = 1.0
    if removing:
        x *= np.repeat([-1.0, 1.0] * len(steps), lengths)[:, None]
    start = np.append(state.sum, state.n)
    sums = running_sums(x, start)
    ends = list(accumulate(lengths))
    if removing:
        ends = ends[1::2]
    if ends != list(range(1, len(points) + 1)):
        sums = np.concatenate((start[None], sums))[ends]
    return _Run(steps, sums[:, -1].copy(), sums, points, squared, anchored, ends)


def _join(batches: list[Points], lengths: list[int], dimension: int) -> NDArray[np.int16]:
    """All vectors as one matrix; raises VectorError like `check`."""
    parts = [batch.vectors for batch in batches]
    if not parts:
        return no_points(dimension).vectors
    if list(map(len, parts)) == lengths:
        with suppress(ValueError):
            joined = np.concatenate(parts)
            if joined.dtype == np.int16 and joined.ndim == 2 and joined.shape[1] == dimension:
                return joined
    for batch in batches:
        check(batch, dimension)
    raise AssertionError("each batch is well formed, together they are not")


def running_sums(x: NDArray[np.float64], start: NDArray[np.float64]) -> NDArray[np.float64]:
    """start + x[0], start + x[0] + x[1], ...: (p, D).

    By blocks of a triangular product, which BLAS does three times as fast as `cumsum` walks down columns; sums of
    integers are exact either way.
    """
    p, d = x.shape
    blocks = -(-p // BLOCK)
    padded = np.zeros((blocks, BLOCK, d))
    padded.reshape(-1, d)[:p] = x
    sums = np.tri(BLOCK) @ padded
    before = start.copy()
    for block in sums:
        total = block[-1].copy()
        block += before
        before += total
    return sums.reshape(-1, d)[:p]


def _events(state: State, run: _Run) -> list[_Event]:
    """What the run does to the reservoir, in order; new vectors get rows without copies."""
    reservoir = state.reservoir
    if reservoir.radius_key is None:
        inside: Sequence[int] = range(len(run.points))
    else:
        keys = reservoir.anchor_n * run.squared - 2.0 * run.anchored
        inside = np.flatnonzero(keys < reservoir.radius_key).tolist()
    step, start = 0, 0
    events = []
    for i in inside:
        while run.ends[step] <= i:
            start = run.ends[step]
            step += 1
        vector = run.points[i]
        removed, added = run.steps[step]
        at = i - start
        if at >= len(removed.ids):
            row = reservoir.row(vector, float(run.squared[i]))
            events.append(_Event(step, row, added.ids[at - len(removed.ids)], None))
        else:
            known = reservoir.slots.get(vector.tobytes())
            if known is None:
                raise UnknownSentence(f"sentence {removed.ids[at]!r} is not live with this vector")
            events.append(_Event(step, known, removed.ids[at], vector))
    return events


def _lines(state: State, run: _Run, events: list[_Event]) -> _Lines:
    reservoir, k = state.reservoir, state.k
    keys = run.sums @ _columns(reservoir)
    weights = _weights(reservoir, events, len(keys))
    if events:  # without any, every row has copies
        np.copyto(keys, np.inf, where=weights == 0)
    if state.distinct:
        np.minimum(weights, 1, out=weights)
    if keys.shape[1] < k:
        return _Lines(keys, np.full(len(keys), np.inf), weights)
    if weights.max() <= 1:  # no copies
        return _Lines(keys, np.partition(keys, k - 1, axis=1)[:, k - 1], weights)
    order = keys.argsort(axis=1)[:, :k]
    places = np.take_along_axis(weights, order, axis=1).cumsum(axis=1)
    last = (places < k).sum(axis=1)
    kth = np.full(len(keys), np.inf)
    full = np.flatnonzero(last < k)
    kth[full] = keys[full, order[full, last[full]]]
    return _Lines(keys, kth, weights)


def _weights(reservoir: Reservoir, events: list[_Event], m: int) -> NDArray[np.int32]:
    """(m, r): copies of each row's vector after each step."""
    weights = np.empty((m, len(reservoir)), np.int32)
    weights[:] = reservoir.counts
    for event in events:
        weights[event.step :, event.row] += 1 if event.vector is None else -1
    return weights


def _columns(reservoir: Reservoir) -> NDArray[np.float64]:
    """(D + 1, r): (S, n) times a column is the row's key -2*x.S + |x|^2*n."""
    columns = np.empty((len(reservoir), reservoir.matrix.shape[1] + 1))
    np.multiply(reservoir.matrix, -2.0, out=columns[:, :-1])
    columns[:, -1] = reservoir.norms
    return columns.T


def _first_unproved(state: State, run: _Run, lines: _Lines, events: list[_Event]) -> int:
    """The first step at which the certificate fails; m if none."""
    reservoir = state.reservoir
    m = len(run.steps)
    state.counters.evaluations += m
    if reservoir.radius_key is None:
        return m
    live = np.zeros(m)
    for event in events:
        live[event.step] += 1 if event.vector is None else -1
    complete = reservoir.live + live.cumsum() == run.n
    n, sums, ball = np.maximum(run.n, 1.0), run.sums[:, :-1], state.ball()
    mean_squared = np.einsum("ij,ij->i", sums, sums) / (n * n)
    drift_squared = mean_squared - 2.0 * (sums @ ball.anchor) / n + ball.anchor_squared
    proved = certificate.proved(lines.kth / n + mean_squared, drift_squared, ball.radius, ball.error)
    failed = np.flatnonzero(~(proved | complete))
    return int(failed[0]) if len(failed) else m


def _suspects(lines: _Lines, events: list[_Event], k: int, end: int) -> list[int]:
    """The steps before `end` after which the set may differ from the one before.

    The set is a function of the rows up to the k-th key and of their ids; where those rows hold more than k
    sentences, also of which of them have the k-th key itself, the ones that are cut. The first step of a run is
    always a suspect.
    """
    keys, kth = lines.keys[:end], lines.kth[:end, None]
    shown = (keys <= kth) & (keys < np.inf)
    suspect = np.ones(end, np.bool_)
    np.any(shown[1:] != shown[:-1], axis=1, out=suspect[1:])
    cut = np.einsum("ij,ij->i", lines.weights[:end], shown) > k
    if cut.any():
        edge = keys == kth
        suspect[1:] |= cut[1:] & (np.any(edge[1:] != edge[:-1], axis=1) | ~cut[:-1])
    for event in events:
        if event.step < end and shown[event.step, event.row]:
            suspect[event.step] = True
    return np.flatnonzero(suspect).tolist()


def _rank(
    state: State, run: _Run, lines: _Lines, events: list[_Event], end: int
) -> tuple[list[Ranking | None], int]:
    """Apply the events before `end` and rank the suspects among them; ends earlier where the reservoir starves."""
    results: list[Ranking | None] = [None] * end
    pending = deque(events)
    for step in _suspects(lines, events, state.k, end):
        starved = _advance(state, pending, step)
        if starved is not None:
            return results[:starved], starved
        view = _view(state, lines, step)
        results[step] = state.show(view, run.steps[step].added.ids, int(run.n[step]), run.sums[step, :-1])
    starved = _advance(state, pending, end - 1)
    return (results, end) if starved is None else (results[:starved], starved)


def _advance(state: State, pending: deque[_Event], step: int) -> int | None:
    """Apply the events up to a step; the step at which the reservoir starves, if it does."""
    reservoir = state.reservoir
    while pending and pending[0].step <= step:
        event = pending.popleft()
        if event.vector is None:
            reservoir.add(event.row, event.id)
        else:
            reservoir.remove(event.vector, event.id)
        if reservoir.starved:
            return event.step
    return None


def _view(state: State, lines: _Lines, step: int) -> View:
    """What the reservoir ranks at a step, whose events have been applied."""
    keys = lines.keys[step]
    rows = np.flatnonzero(keys <= min(lines.kth[step], LARGEST))
    order = rows[keys[rows].argsort()]
    low = state.reservoir.low
    ids, owners, chosen = expand(order.tolist(), keys[order].tolist(), low, state.k, state.distinct)
    return View(ids, owners, chosen, np.inf)


def _commit(state: State, run: _Run, end: int, results: list[Ranking | None]) -> None:
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
        results.append(state.show(state.refill(), step.added.ids, state.n, state.sum))
        state.stride = max(16, 2 * end)
        return
    for row in range(len(reservoir) - 1, -1, -1):
        if not reservoir.counts[row]:
            reservoir.drop(row)
    state.stride = min(LONGEST, 2 * state.stride)
    state.trim()


def _update(state: State, run: _Run, stop: int) -> None:
    """Tell the index of the steps before `stop`: at once if they only add."""
    steps = run.steps[:stop]
    if any(step.removed.ids for step in steps):
        for step in steps:
            state.index.update(*step)
    else:
        ids = [id_ for step in steps for id_ in step.added.ids]
        state.index.update(no_points(state.dimension), Points(ids, run.points[: run.ends[stop - 1]]))
