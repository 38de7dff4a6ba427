"""Many steps of one entity at once: all keys as one matrix product, the set after every step.

A run of steps is laid out, its changes to the reservoir are found, and the keys after every step
are computed for all candidates. The reservoir certificate is tested for all steps together. Of the
steps before the first failure, only those that can have changed the set are ranked; at the failing
step the reservoir is refilled.
"""

from collections.abc import Sequence

import numpy as np

from worker.coversumm import certificate, kernel
from worker.coversumm.bulk.candidates import SPAN, KeyMatrix, candidate_keys
from worker.coversumm.bulk.rank import rank
from worker.coversumm.bulk.run import RowChanges, StepRun, lay_out, row_changes, take
from worker.coversumm.fixed_point import exact
from worker.coversumm.points import Points, Step, no_points
from worker.coversumm.ranking import Ranking
from worker.coversumm.single import apply_step
from worker.coversumm.state import EntityState


def first_unproved(state: EntityState, run: StepRun, matrix: KeyMatrix, changes: RowChanges) -> int:
    """The first step at which the certificate fails; m if none.

    Tested by spans first, with the drift to the middle plus the drift from there; then by steps.
    """
    reservoir, spans = state.reservoir, matrix.spans
    m = len(run.steps)
    if reservoir.radius_key is None:
        return m
    ball = state.ball()
    drift_squared = run.drift_squared(ball.anchor, ball.anchor_squared, spans.middles)
    drift = certificate.uppers(drift_squared, 4 * ball.slack) + spans.drift
    if certificate.proved(
        np.maximum.reduceat(matrix.kth_distance, spans.starts), drift, ball.radius
    ).all():
        return m
    drift = certificate.uppers(run.drift_squared(ball.anchor, ball.anchor_squared), 4 * ball.slack)
    failed = ~certificate.proved(matrix.kth_distance, drift, ball.radius)
    if failed.any():  # a reservoir that holds every sentence needs no proof
        live = (
            reservoir.live
            + np.bincount(changes.steps, weights=changes.change, minlength=m).cumsum()
        )
        failed &= live != run.n
    return int(failed.argmax()) if failed.any() else m


MIN_STEPS = 24 if kernel.IS_COMPILED else 12  # from which on the matrix product pays
MAX_POINTS = 2048  # laid out at once,
MAX_VALUES = 400_000  # but no more values than that: the matrix of running sums stays near


def apply_steps(state: EntityState, steps: Sequence[Step]) -> list[Ranking | None]:
    """Apply steps in order, with the results of `apply_step` one by one."""
    results: list[Ranking | None] = []
    state.ranked_rows = None
    most = min(MAX_POINTS, max(MAX_VALUES // state.dimension, 4 * MIN_STEPS))
    while len(results) < len(steps):
        at = len(results)
        batches = take(steps[at : at + most], most)
        if len(batches.steps) < 4:
            results.append(apply_step(state, steps[at]))
        else:
            results += _apply_laid_out(state, lay_out(state.n, state.total, batches))
    return results


def _apply_laid_out(state: EntityState, laid_out: StepRun) -> list[Ranking | None]:
    """Cut into runs as long as the last ones went without a refill."""
    results: list[Ranking | None] = []
    m = len(laid_out.steps)
    while len(results) < m:
        at = len(results)
        end = _run_end(state, laid_out, at)
        if end - at < 4 or state.reservoir.exhausted:
            results.append(apply_step(state, laid_out.steps[at]))
        else:
            results += _apply_run(state, laid_out.part(at, end))
    return results


def _run_end(state: EntityState, laid_out: StepRun, at: int) -> int:
    """The end of the next run: as far as the last runs went, but not beyond the next likely refill.

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
    due = np.flatnonzero(state.kth_distance + certificate.uppers(drift_squared, 0.0) >= ball.radius)
    return at + SPAN * int(due[0]) if len(due) else end


def _apply_run(state: EntityState, run: StepRun) -> list[Ranking | None]:
    most, largest = int(run.n.max()), float(run.squared_norms.max(initial=0.0))
    if not exact(most, max(largest, state.max_squared_norm)):
        # Some step will be refused: up to it, one by one.
        return [apply_step(state, run.steps[0])]
    state.admit(most, largest)
    if state.reservoir.exhausted:  # `admit` found the anchor beyond exact comparison
        return [apply_step(state, run.steps[0])]
    changes = row_changes(state.reservoir, run)
    candidates, matrix = candidate_keys(state, run, changes)
    end = first_unproved(state, run, matrix, changes)
    results, end = rank(state, run, changes, candidates, matrix, end)
    if end:
        state.kth_distance = float(matrix.kth_distance[end - 1])
    _commit(state, run, end, results)
    return results


def _commit(state: EntityState, run: StepRun, end: int, results: list[Ranking | None]) -> None:
    """Make the steps before `end` the state, and the step `end` by a refill if there is one."""
    counters = state.counters
    m = len(run.steps)
    stop = min(end + 1, m)
    _update_index(state, run, stop)
    state.n, state.total = int(run.n[stop - 1]), run.totals[stop - 1, :-1].copy()
    state.gap = None
    state.since_refill += stop
    counters.steps += stop
    counters.proved_reservoir += end
    if end < m:
        state.stride = min(MAX_POINTS, max(16, state.since_refill))
        centroid_squared = float(run.centroid_squared[end])
        ids = run.steps[end].added.ids
        results.append(state.ranking_if_changed(state.refill(), ids, centroid_squared))
        return
    state.reservoir.drop_empty()
    state.stride = min(MAX_POINTS, 2 * state.stride)
    state.trim()


def _update_index(state: EntityState, run: StepRun, stop: int) -> None:
    """Apply the steps before `stop` to the index, in one call if they only add."""
    if run.removing:
        for step in run.steps[:stop]:
            state.index.update(*step)
    else:
        end = int(run.ends[stop - 1])
        state.index.update(no_points(state.dimension), Points(run.ids[:end], run.vectors[:end]))
