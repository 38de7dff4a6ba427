"""One step at a time: what a worker mostly does, a micro-batch bringing an entity one event (paper, Algorithms 1 and 3).

The gap certificate: let d be measured from the centroid of the last evaluation, d_k the distance of its farthest member, and `limit` a
lower bound for every other sentence: the smaller of d_{k+1} and what the certificate says of those outside the reservoir. While the
centroid has drifted less than half of `limit - d_k`, members are within d_k + drift of it and all others beyond limit - drift: the set cannot have
changed. A sentence added meanwhile lowers `limit` to its own distance; a removed one never lowers it; the removal of
a member forces an evaluation. Such a step costs O(D), any other one product with the reservoir.
"""

import numpy as np
from numpy.typing import NDArray

from worker.coversumm import certificate
from worker.coversumm.points import Points, Step, check
from worker.coversumm.ranking import Ranking
from worker.coversumm.state import Gap, State, View


def apply_step(state: State, step: Step) -> Ranking | None:
    """Apply one step; the ranking after it if its set changed."""
    removed, added = step
    if removed.ids:
        check(removed, state.dimension)
    check(added, state.dimension)
    x = added.vectors.astype(np.float64)
    squared = np.einsum("ij,ij->i", x, x)
    n = state.n - len(removed.ids) + len(added.ids)
    if added.ids:
        state.admit(n, float(squared.max()))
    state.index.update(removed, added)
    state.n = n
    state.counters.steps += 1
    state.since_refill += 1
    if removed.ids:
        _take_out(state, removed)
    if added.ids:
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
    reservoir = state.reservoir
    for id_, vector in zip(removed.ids, removed.vectors, strict=True):
        state.sum -= vector
        if vector.tobytes() in reservoir.slots:
            row = reservoir.remove(vector, id_)
            if not reservoir.counts[row]:
                reservoir.drop(row)
    if not state.members.isdisjoint(removed.ids):
        state.gap = None


def _take_in(state: State, added: Points, x: NDArray[np.float64], squared: NDArray[np.float64]) -> None:
    """Add to the sum, to the reservoir what is inside, and to the gap's limit."""
    reservoir, gap = state.reservoir, state.gap
    state.sum += x[0] if len(x) == 1 else x.sum(axis=0)
    if reservoir.radius_key is None:
        inside = range(len(x))
    else:
        keys = reservoir.anchor_n * squared - 2.0 * (x @ reservoir.anchor_sum)
        inside = np.flatnonzero(keys < reservoir.radius_key).tolist()
    for i in inside:
        reservoir.add(reservoir.row(added.vectors[i], squared[i]), added.ids[i])
    if gap is not None:
        nearest = float((squared - 2.0 * (x @ gap.mean)).min()) + gap.mean_squared
        error = 4 * certificate.slack(state.dimension, state.longest)
        gap.limit = min(gap.limit, certificate.lower(nearest, error))


def _unchanged(state: State, gap: Gap) -> bool:
    """The gap certificate."""
    if state.reservoir.starved or state.n == 0:
        return False
    way = state.sum / state.n - gap.mean
    drift = certificate.upper(float(way @ way), 4 * certificate.slack(state.dimension, state.longest))
    return 2.0 * drift < (gap.limit - gap.kth) * certificate.ROOTS


def _gap(state: State, view: View) -> Gap | None:
    """What to remember of an evaluation; nothing where a step moves the centroid about as far as the gap is wide."""
    n, k = state.n, state.k
    if len(view.ids) < k:
        return None
    kth, following = view.keys[-1], view.next_key
    mean_squared = float(state.sum @ state.sum) / (n * n)
    squared = kth / n + mean_squared
    if (
        following - kth <= 8.0 * squared
    ):  # a step moves the centroid by about d_k / n; the gap is (following - kth) / (2 n d_k)
        return None
    error = certificate.slack(state.dimension, state.longest)
    limit = state.outside()
    if following < np.inf:
        limit = min(limit, certificate.lower(following / n + mean_squared, error))
    return Gap(state.sum / n, mean_squared, certificate.upper(squared, error), limit)
