"""One step at a time, the usual case: a micro-batch has one event per entity (Algorithms 1 and 3).

The cheapest proof comes first: the gap certificate costs O(D), the reservoir certificate one
product with the reservoir. Only if both fail is the index searched.
"""

import numpy as np
from numpy.typing import NDArray

from worker.coversumm import certificate, kernel
from worker.coversumm.certificate import Gap
from worker.coversumm.fixed_point import max_exact_squared_norm
from worker.coversumm.kernel import Joined
from worker.coversumm.knn import Neighbors, knn
from worker.coversumm.points import Points, Step, check
from worker.coversumm.ranking import Ranking
from worker.coversumm.reservoir import digest
from worker.coversumm.state import EntityState


def apply_step(state: EntityState, step: Step) -> Ranking | None:
    """Apply one step; its ranking if the set changed or a member was added, or None."""
    removed, added = step
    check(removed, state.dimension)
    check(added, state.dimension)
    if len(added.ids) == 1 and not removed.ids and state.gap is None:
        joined = _joined(state, added) if state.reservoir.holds_each_once else None
        if joined is not None:
            return _after_joining(state, step, joined)
    state.ranked_rows = None
    facts = _facts(state, added.vectors) if added.ids else []
    n = state.n - len(removed.ids) + len(added.ids)
    if facts:
        state.admit(n, max(facts)[0])
    state.index.update(removed, added)
    state.n = n
    state.counters.steps += 1
    state.since_refill += 1
    if removed.ids:
        _remove(state, removed)
    if facts:
        _add(state, added, facts)
    squared_total, squared_way = kernel.drift(state.total, n, _centroid(state))
    if _unchanged(state, squared_way):
        state.counters.proved_gap += 1
        return None
    centroid_squared = squared_total / (n * n) if n else 0.0
    neighbors = state.knn()
    if neighbors is not None and state.proves(neighbors, centroid_squared):
        state.counters.proved_reservoir += 1
    else:
        neighbors = state.refill()
    ranking = state.ranking_if_changed(neighbors, added.ids, centroid_squared)
    state.gap = None
    if len(neighbors.ids) == state.k:
        state.gap = _gap(state, neighbors.keys[-1], neighbors.next_key, centroid_squared)
    state.trim()
    return ranking


def _joined(state: EntityState, added: Points) -> Joined | None:
    """Take in one sentence where nothing else has to be asked; None if that has to be done."""
    n, reservoir = state.n + 1, state.reservoir
    most = max_exact_squared_norm(n)
    if state.max_squared_norm > most:
        return None
    room, squared_norms = reservoir.room_for_one()
    r, total, known = len(reservoir), state.total, state.ranked_rows
    return kernel.join(room, squared_norms, r, added.vectors, n, total, state.k, most, known)


def _after_joining(state: EntityState, step: Step, joined: Joined) -> Ranking | None:
    """The ranking of such a step if the set changed, or None; see `apply_step`."""
    squared_norm, squared_total, kth_key, next_key, ranked = joined
    removed, added = step
    reservoir, counters = state.reservoir, state.counters
    state.index.update(removed, added)
    reservoir.take_in(added.ids[0])
    state.n = n = state.n + 1
    state.max_squared_norm = max(state.max_squared_norm, squared_norm)
    state.since_refill += 1
    counters.steps += 1
    counters.evaluations += 1
    counters.proved_reservoir += 1
    centroid_squared = squared_total / (n * n)
    ranking: Ranking | None = None
    if ranked is not None:
        rows, keys = ranked
        if rows:
            ids, state.ranked_rows = [reservoir.lowest_ids[row][0] for row in rows], rows
            neighbors = Neighbors(ids, rows, keys, next_key)
        else:  # equal keys
            neighbors = knn(reservoir, n, state.total, state.k, state.distinct)
            state.ranked_rows = None
            kth_key, next_key = neighbors.keys[-1], neighbors.next_key
        ranking = state.ranking_if_changed(neighbors, added.ids, centroid_squared)
    if n >= state.k:
        state.gap = _gap(state, kth_key, next_key, centroid_squared)
    state.trim()
    return ranking


def _facts(state: EntityState, vectors: NDArray[np.int16]) -> list[tuple[float, float, float]]:
    """`(|x|^2, x.S0, x.centroid)` of each added x: S0 is the anchor's, the centroid the gap's."""
    return kernel.products(vectors, state.reservoir.anchor_total, _centroid(state))


def _centroid(state: EntityState) -> NDArray[np.float64] | None:
    """Of the last evaluation; None without a gap certificate."""
    return None if state.gap is None else state.gap.centroid


def _remove(state: EntityState, removed: Points) -> None:
    """Subtract from sum and reservoir; a removed member forces an evaluation."""
    reservoir = state.reservoir
    kernel.add(state.total, removed.vectors, -1.0)
    for id_, vector in zip(removed.ids, removed.vectors, strict=True):
        row = reservoir.row_of.get(digest(vector))
        if row is not None:
            reservoir.remove(row, id_)
            if not reservoir.counts[row]:
                reservoir.drop(row)
    if not state.members.isdisjoint(removed.ids):
        state.gap = None


def _add(state: EntityState, added: Points, facts: list[tuple[float, float, float]]) -> None:
    """Add to sum and reservoir (Algorithm 1, line 20), and narrow the gap."""
    reservoir = state.reservoir
    kernel.add(state.total, added.vectors, 1.0)
    n, radius_key = reservoir.anchor_n, reservoir.radius_key
    for id_, vector, (squared_norm, product, _) in zip(
        added.ids, added.vectors, facts, strict=True
    ):
        if radius_key is None or n * squared_norm - 2.0 * product < radius_key:
            reservoir.insert(vector, squared_norm, id_)
    if state.gap is not None:
        state.gap.narrow(facts, 4 * state.slack)


def _unchanged(state: EntityState, squared_way: float) -> bool:
    if state.gap is None or state.reservoir.exhausted or state.n == 0:
        return False
    return state.gap.proves(squared_way, 4 * state.slack)


def _gap(
    state: EntityState, kth_key: float, next_key: float, centroid_squared: float
) -> Gap | None:
    """The gap of an evaluation; None if the next step alone is likely to move the centroid too far.

    A step moves it by about d_k / n, and half the gap is (next key - key) / (4 n d_k).
    """
    n = state.n
    distance_squared = kth_key / n + centroid_squared
    if next_key - kth_key <= 4.0 * distance_squared:
        return None
    slack = state.slack
    limit = state.outside(centroid_squared)
    if next_key < np.inf:
        limit = min(limit, certificate.lower(next_key / n + centroid_squared, slack))
    return Gap(state.total / n, centroid_squared, certificate.upper(distance_squared, slack), limit)
