"""One step at a time: what a worker mostly does, a micro-batch bringing an entity one event (paper, Algorithms 1 and 3).

The cheapest proof first: the gap certificate costs O(D), the reservoir certificate one product with the reservoir, and only
where both fail is the index asked.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from worker.coversumm import certificate
from worker.coversumm.gap import Gap
from worker.coversumm.knn import Neighbors
from worker.coversumm.points import Points, Step, check
from worker.coversumm.ranking import Ranking
from worker.coversumm.state import EntityState


def apply_step(state: EntityState, step: Step) -> Ranking | None:
    """Apply one step; the ranking after it if its set changed or a member was added."""
    removed, added = step
    check(removed, state.dimension)
    check(added, state.dimension)
    x = added.vectors.astype(np.float64)
    squared_norms = [float(x[0] @ x[0])] if len(x) == 1 else np.einsum("ij,ij->i", x, x).tolist()
    n = state.n - len(removed.ids) + len(added.ids)
    if squared_norms:
        state.admit(n, max(squared_norms))
    state.index.update(removed, added)
    state.n = n
    state.counters.steps += 1
    state.since_refill += 1
    if removed.ids:
        _remove(state, removed)
    if squared_norms:
        _add(state, added, x, squared_norms)
    if _unchanged(state):
        state.counters.proved_gap += 1
        return None
    centroid_squared = state.centroid_squared()
    neighbors = state.knn()
    if neighbors is not None and state.proves(neighbors, centroid_squared):
        state.counters.proved_reservoir += 1
    else:
        neighbors = state.refill()
    ranking = state.ranking_if_changed(neighbors, added.ids, centroid_squared)
    state.gap = _gap(state, neighbors, centroid_squared)
    state.trim()
    return ranking


def _remove(state: EntityState, removed: Points) -> None:
    """Subtract from the sum, and from the reservoir what is inside; a member removed forces an evaluation."""
    reservoir = state.reservoir
    for id_, vector in zip(removed.ids, removed.vectors, strict=True):
        state.total -= vector
        row = reservoir.row_of.get(vector.tobytes())
        if row is not None:
            reservoir.remove(row, id_)
            if not reservoir.counts[row]:
                reservoir.drop(row)
    if not state.members.isdisjoint(removed.ids):
        state.gap = None


def _add(state: EntityState, added: Points, x: NDArray[np.float64], squared_norms: list[float]) -> None:
    """Add to the sum, to the reservoir what is inside (Algorithm 1, line 20), and narrow the gap."""
    if len(squared_norms) == 1:
        _add_one(state, added, x[0], squared_norms[0])
    else:
        _add_many(state, added, x, squared_norms)
    if state.gap is not None:
        state.gap.narrow(x, squared_norms, 4 * state.slack)


def _add_one(state: EntityState, added: Points, x: NDArray[np.float64], squared_norm: float) -> None:
    reservoir = state.reservoir
    state.total += x
    if reservoir.radius_key is not None:
        key = reservoir.anchor_n * squared_norm - 2.0 * float(x @ reservoir.anchor_total)
        if key >= reservoir.radius_key:
            return
    reservoir.insert(added.vectors[0], squared_norm, added.ids[0])


def _add_many(state: EntityState, added: Points, x: NDArray[np.float64], squared_norms: list[float]) -> None:
    reservoir = state.reservoir
    for row in x:
        state.total += row
    inside: Sequence[int] = range(len(squared_norms))
    if reservoir.radius_key is not None:
        products = (x @ reservoir.anchor_total).tolist()
        n, radius_key = reservoir.anchor_n, reservoir.radius_key
        inside = [i for i in inside if n * squared_norms[i] - 2.0 * products[i] < radius_key]
    if len(inside) == len(squared_norms):
        rows = reservoir.rows(added.vectors, squared_norms)
    else:
        rows = reservoir.rows(added.vectors[inside], [squared_norms[i] for i in inside]) if inside else []
    for i, row in zip(inside, rows, strict=True):
        reservoir.add(row, added.ids[i])


def _unchanged(state: EntityState) -> bool:
    """Whether the gap certificate holds."""
    if state.gap is None or state.reservoir.exhausted or state.n == 0:
        return False
    return state.gap.proves(state.n, state.total, 4 * state.slack)


def _gap(state: EntityState, neighbors: Neighbors, centroid_squared: float) -> Gap | None:
    """The gap of an evaluation; none where the next step alone is likely to move the centroid too far.

    A step moves it by about d_k / n, and half the gap is (next key - key) / (4 n d_k).
    """
    n = state.n
    if len(neighbors.ids) < state.k:
        return None
    kth_key, next_key = neighbors.keys[-1], neighbors.next_key
    distance_squared = kth_key / n + centroid_squared
    if next_key - kth_key <= 4.0 * distance_squared:
        return None
    slack = state.slack
    limit = state.outside(centroid_squared)
    if next_key < np.inf:
        limit = min(limit, certificate.lower(next_key / n + centroid_squared, slack))
    return Gap(state.total / n, centroid_squared, certificate.upper(distance_squared, slack), limit)
