"""One step at a time: what a worker mostly does, a micro-batch bringing an entity one event (paper, Algorithms 1 and 3).

The gap certificate: let d be measured from the centroid of the last evaluation, d_k the distance of its farthest
member, and `limit` a lower bound for every other sentence: the smaller of d_{k+1} and what the certificate says of
those outside the reservoir. While the centroid has drifted less than half of `limit - d_k`, members are within d_k +
drift of it and all others beyond limit - drift: the set cannot have changed. A sentence added meanwhile lowers
`limit` to its own distance; a removed one never lowers it; the removal of a member forces an evaluation. Such a step
costs O(D), any other one product with the reservoir.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from worker.coversumm import certificate
from worker.coversumm.points import Points, Step, check
from worker.coversumm.ranking import Ranking
from worker.coversumm.state import Gap, State, View


def apply_step(state: State, step: Step) -> Ranking | None:
    """Apply one step; the ranking after it if its set changed."""
    removed, added = step
    check(removed, state.dimension)
    check(added, state.dimension)
    x = added.vectors.astype(np.float64)
    squared = [float(x[0] @ x[0])] if len(x) == 1 else np.einsum("ij,ij->i", x, x).tolist()
    n = state.n - len(removed.ids) + len(added.ids)
    if squared:
        state.admit(n, max(squared))
    state.index.update(removed, added)
    state.n = n
    state.counters.steps += 1
    state.since_refill += 1
    if removed.ids:
        _take_out(state, removed)
    if squared:
        _take_in(state, added, x, squared)
    if state.gap is not None and _unchanged(state, state.gap):
        state.counters.proved_gap += 1
        return None
    view = state.view()
    if view is not None and state.proves(view):
        state.counters.proved_reservoir += 1
    else:
        view = state.refill()
    ranking = state.show(view, added.ids, n, state.sum)
    state.gap = _gap(state, view)
    state.trim()
    return ranking


def _take_out(state: State, removed: Points) -> None:
    """Subtract from the sum, and from the reservoir what is inside; a member gone forces an evaluation."""
    reservoir = state.reservoir
    for id_, vector in zip(removed.ids, removed.vectors, strict=True):
        state.sum -= vector
        row = reservoir.slots.get(vector.tobytes())
        if row is not None:
            reservoir.remove(row, id_)
            if not reservoir.counts[row]:
                reservoir.drop(row)
    if not state.members.isdisjoint(removed.ids):
        state.gap = None


def _take_in(state: State, added: Points, x: NDArray[np.float64], squared: list[float]) -> None:
    """Add to the sum, to the reservoir what is inside, and to the gap's limit."""
    reservoir, gap = state.reservoir, state.gap
    for row in x:
        state.sum += row
    inside: Sequence[int] = range(len(squared))
    if reservoir.radius_key is not None:
        products = (x @ reservoir.anchor_sum).tolist()
        n, radius_key = reservoir.anchor_n, reservoir.radius_key
        inside = [i for i in inside if n * squared[i] - 2.0 * products[i] < radius_key]
    if len(inside) == len(squared):
        rows = reservoir.rows(added.vectors, squared)
    else:
        rows = reservoir.rows(added.vectors[inside], [squared[i] for i in inside]) if inside else []
    for i, row in zip(inside, rows, strict=True):
        reservoir.add(row, added.ids[i])
    if gap is not None:
        nearest = min(map(float.__sub__, squared, (2.0 * (x @ gap.mean)).tolist())) + gap.mean_squared
        error = 4 * certificate.slack(state.dimension, state.longest)
        gap.limit = min(gap.limit, certificate.lower(nearest, error))


def _unchanged(state: State, gap: Gap) -> bool:
    """The gap certificate."""
    if state.reservoir.starved or state.n == 0:
        return False
    way = state.sum / state.n
    way -= gap.mean
    drift = certificate.upper(float(way @ way), 4 * certificate.slack(state.dimension, state.longest))
    return 2.0 * drift < (gap.limit - gap.kth) * certificate.ROOTS


def _gap(state: State, view: View) -> Gap | None:
    """What to remember of an evaluation; nothing where the next step alone is likely to move the centroid too far.

    A step moves it by about d_k / n, and half the gap is (next key - key) / (4 n d_k).
    """
    n = state.n
    if len(view.ids) < state.k:
        return None
    kth, following = view.keys[-1], view.next_key
    mean_squared = float(state.sum @ state.sum) / (n * n)
    squared = kth / n + mean_squared
    if following - kth <= 4.0 * squared:
        return None
    error = certificate.slack(state.dimension, state.longest)
    limit = state.outside(mean_squared)
    if following < np.inf:
        limit = min(limit, certificate.lower(following / n + mean_squared, error))
    return Gap(state.sum / n, mean_squared, certificate.upper(squared, error), limit)
