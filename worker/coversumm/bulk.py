"""Many steps of one entity at once: all keys as one matrix product, the set after every step.

A run of steps is laid out, its events are found (points inside the reservoir's ball), and the keys after every step are
computed for all places that can be among the nearest (see `places`). The certificate is asked for all steps together. Up
to the first it fails at, only the steps whose set can have changed are ranked; at that step the reservoir is refilled.
"""

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from worker.coversumm import certificate
from worker.coversumm.fixed_point import exact
from worker.coversumm.places import SPAN, Events, Lines, Places, Spans, contest
from worker.coversumm.points import Points, Step, no_points
from worker.coversumm.ranking import Ranking
from worker.coversumm.reservoir import Reservoir
from worker.coversumm.run import Run, lay_out, take
from worker.coversumm.single import apply_step
from worker.coversumm.state import State

BULK = 12  # steps from which on the matrix product pays
LONGEST = 2048  # points laid out at once,
VALUES = 400_000  # but no more values than that: the matrix of running sums stays near
LARGEST = float(np.finfo(np.float64).max)


class _Nearest(NamedTuple):
    """The nearest at some steps."""

    places: list[list[int]]  # (s, w) up to the k-th key, ascending
    keys: list[list[float]]  # (s, w)
    counts: list[int]  # (s,) how many they are, the first of each line
    tied: list[bool]  # (s,) whether any of the keys are equal
    n: list[int]  # (s,)
    sums: NDArray[np.float64]  # (s, D) S


def apply_steps(state: State, steps: Sequence[Step]) -> list[Ranking | None]:
    """Apply steps in order; the same results as `apply_step` one by one."""
    results: list[Ranking | None] = []
    longest = min(LONGEST, max(VALUES // state.dimension, 4 * BULK))
    while len(results) < len(steps):
        at = len(results)
        batches = take(steps[at : at + longest], longest)
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
    places, lines = contest(state, run, events)
    kth = certificate.uppers(
        lines.kth / np.maximum(run.n, 1.0) + run.mean_squared,
        certificate.slack(state.dimension, state.longest),
    )
    end = _first_unproved(state, run, lines.spans, kth, events)
    results, end = _rank(state, run, events, places, lines, end)
    if end:
        state.kth = float(kth[end - 1])
    _commit(state, run, end, results)
    return results


def _events(state: State, run: Run) -> Events:
    """The points inside; new vectors get rows without copies."""
    reservoir = state.reservoir
    inside = np.arange(len(run.points))
    if reservoir.radius_key is not None:
        products = run.signed[:, :-1] @ reservoir.anchor_sum
        if run.removing:
            products *= run.change
        keys = reservoir.anchor_n * run.squared - 2.0 * products
        inside = np.flatnonzero(keys < reservoir.radius_key)
    rows = reservoir.rows(run.points[inside], run.squared[inside])
    steps = run.ends.searchsorted(inside, side="right")
    ids = [run.ids[i] for i in inside.tolist()]
    return Events(steps, np.array(rows, np.int64), run.change[inside], ids)


def _first_unproved(state: State, run: Run, spans: Spans, kth: NDArray[np.float64], events: Events) -> int:
    """The first step at which the certificate fails; m if none.

    By spans first, the drift being that to the middle and from there; by steps where that does not do.
    """
    reservoir = state.reservoir
    m = len(run.steps)
    if reservoir.radius_key is None:
        return m
    ball = state.ball()
    drift_squared = run.drift_squared(ball.anchor, ball.anchor_squared, spans.middles)
    drift = certificate.uppers(drift_squared, 4 * ball.error) + spans.drift
    if certificate.proved(np.maximum.reduceat(kth, spans.starts), drift, ball.radius).all():
        return m
    drift = certificate.uppers(run.drift_squared(ball.anchor, ball.anchor_squared), 4 * ball.error)
    failed = ~certificate.proved(kth, drift, ball.radius)
    if failed.any():  # a reservoir that holds every sentence needs no proof
        live = reservoir.live + np.bincount(events.steps, weights=events.change, minlength=m).cumsum()
        failed &= live != run.n
    return int(failed.argmax()) if failed.any() else m


def _suspects(state: State, places: Places, lines: Lines, events: Events, end: int) -> list[int]:
    """The steps before `end` after which the set may differ from the one before.

    The set is a function of the places up to the k-th key and of their ids; where those are more than k, also of which of
    them have the k-th key itself, the ones that are cut. The first step of a run is always a suspect.
    """
    keys, kth = lines.keys[:end], lines.kth[:end, None]
    shown = keys <= np.minimum(kth, LARGEST)
    suspect = np.zeros(end, np.bool_)
    suspect[:1] = True
    suspect[1 + np.flatnonzero(shown[1:] != shown[:-1]) // max(keys.shape[1], 1)] = True
    # k at least are shown where there are k: more than that in all where any are cut
    if lines.kth[:end].max(initial=0.0) == np.inf or np.count_nonzero(shown) > end * state.k:
        cut = np.einsum("ij->i", shown, dtype=np.int32) > state.k
        edge = keys == kth
        suspect[1:] |= cut[1:] & (np.any(edge[1:] != edge[:-1], axis=1) | ~cut[:-1])
    first = places.first[events.rows]
    before = np.flatnonzero((first >= 0) & (events.steps < end))
    steps = events.steps[before]
    suspect[steps[shown[steps, first[before]]]] = True
    return np.flatnonzero(suspect).tolist()


class _Board:
    """The reservoir while the events of a run happen, and who has each place."""

    def __init__(self, reservoir: Reservoir, events: Events, places: Places) -> None:
        self._reservoir = reservoir
        self._places = places
        self._pending = deque(events.one_by_one() if places.since is None else ())
        self._owner = places.owner.tolist()
        self._seats: dict[int, tuple[int, int]] = {}  # a row -> its first place, and how many
        if places.since is not None:  # who has a place is the same whenever anybody has: let all happen first
            # Those after the last step do no harm: a refill follows then, and makes another reservoir.
            reservoir.add_new(events.rows.tolist(), events.ids)
            low = reservoir.low
            self.ids = [low[row][0] if low[row] else b"" for row in self._owner]
            return
        self.ids = [b""] * len(self._owner)
        rows = np.flatnonzero(places.most)
        seats = zip(places.first[rows].tolist(), places.most[rows].tolist(), strict=True)
        self._seats = dict(zip(rows.tolist(), seats, strict=True))
        for row in self._seats:
            self._seat(row)

    def _seat(self, row: int) -> None:
        first, most = self._seats[row]
        ids = self._reservoir.low[row][:most]
        self.ids[first : first + len(ids)] = ids

    def advance(self, step: int) -> int | None:
        """Let the events up to a step happen; the step at which the reservoir starves, if it does."""
        reservoir, pending = self._reservoir, self._pending
        while pending and pending[0][0] <= step:
            at, row, change, id_ = pending.popleft()
            if change > 0:
                reservoir.add(row, id_)
            else:
                reservoir.remove(row, id_)
            if reservoir.starved:
                return at
            if row in self._seats:
                self._seat(row)
        return None

    def support(self, places: list[int]) -> tuple[int, ...]:
        """The copies of the vector in each place."""
        if self._places.since is not None:
            return (1,) * len(places)
        counts, owner = self._reservoir.counts, self._owner
        return tuple([counts[owner[place]] for place in places])


def _rank(
    state: State, run: Run, events: Events, places: Places, lines: Lines, end: int
) -> tuple[list[Ranking | None], int]:
    """Apply the events before `end` and rank the suspects among them; ends earlier where the reservoir starves."""
    results: list[Ranking | None] = [None] * end
    board = _Board(state.reservoir, events, places)
    suspects = _suspects(state, places, lines, events, end)
    nearest, ids = _nearest(run, lines, suspects), state.shown
    # without copies and equal keys each suspect but the first did change the set, or adds a member
    sure = places.since is not None and not any(nearest.tied)
    for step, shown, keys, count, tied, n, total in zip(suspects, *nearest, strict=True):
        starved = board.advance(step)
        if starved is not None:
            return results[:starved], starved
        del shown[count:], keys[count:]
        ids = tuple(map(board.ids.__getitem__, shown))
        if tied:
            ranked = sorted(zip(keys, ids, shown, strict=True))[: state.k]
            keys, shown = [key for key, _, _ in ranked], [place for _, _, place in ranked]
            ids = tuple(id_ for _, id_, _ in ranked)
        if (sure and step) or state.news(ids, run.steps[step].added.ids):
            results[step] = Ranking(ids, board.support(shown), n, keys, total, state.scale)
    state.news(ids, ())
    starved = board.advance(end - 1)
    return (results, end) if starved is None else (results[:starved], starved)


def _nearest(run: Run, lines: Lines, steps: list[int]) -> _Nearest:
    keys = lines.keys[steps]
    counts = (keys <= np.minimum(lines.kth[steps], LARGEST)[:, None]).sum(axis=1)
    order = keys.argsort(axis=1)[:, : counts.max(initial=0)]
    keys = keys[np.arange(len(keys))[:, None], order]
    tied = np.any((keys[:, 1:] == keys[:, :-1]) & (keys[:, 1:] < np.inf), axis=1)
    n, sums = run.n[steps].astype(np.int64), run.sums[steps, :-1]
    return _Nearest(order.tolist(), keys.tolist(), counts.tolist(), tied.tolist(), n.tolist(), sums)


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
