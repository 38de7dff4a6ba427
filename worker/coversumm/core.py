"""The core of one entity: its summary, exact after every step (Algorithms 1 and 3).

The cheapest proof comes first: the gap certificate costs O(D), the reservoir certificate one
product with the reservoir. Only if both fail is the index searched.
"""

from collections.abc import Sequence
from math import inf

import numpy as np
from numpy.typing import NDArray

from worker.coversumm import certificate, kernel
from worker.coversumm.certificate import Gap
from worker.coversumm.copies import digest
from worker.coversumm.fixed_point import SCALE, max_exact_squared_norm
from worker.coversumm.index import Index
from worker.coversumm.index.subsets import Subsets
from worker.coversumm.kernel import Joined
from worker.coversumm.knn import Neighbors, knn
from worker.coversumm.points import Points, Step, check
from worker.coversumm.ranking import Ranking
from worker.coversumm.state import Counters, EntityState


class EntityCore(EntityState):
    """The k sentences nearest to the centroid of an entity's live sentences (paper: CoverSumm).

    The result is a function of the *set* of live sentences. It does not depend on their order, on
    how steps are grouped into calls, or on when the object was created. UnknownSentence and
    DuplicateSentence mean that the caller's state is broken: discard the object. EntityFull and
    VectorError leave the object as it was before the failing step.

    >>> core = EntityCore(k=2, dimension=2, index=FlatIndex(2))
    >>> good, great, bad = quantize([[4, 3], [4, 4], [-1, 0]])
    >>> def one(id_, vector): return Points([id_], vector[None])
    >>> nothing = no_points(2)
    >>> core.apply([Step(nothing, one(b"r1#0", good)), Step(nothing, one(b"r2#0", great))])
    [Ranking(n=1, ids=(b'r1#0',)), Ranking(n=2, ids=(b'r1#0', b'r2#0'))]

    The third sentence is the farthest from the centroid, so the set does not change:

    >>> core.apply([Step(nothing, one(b"r3#0", bad))])
    [None]
    >>> core.apply([Step(one(b"r1#0", good), nothing)])
    [Ranking(n=2, ids=(b'r2#0', b'r3#0'))]
    """

    @classmethod
    def load(
        cls,
        k: int,
        dimension: int,
        index: Index,
        *,
        distinct: bool = False,
        by_text: bool = False,
        scale: int = SCALE,
    ) -> "EntityCore":
        """An entity with the sentences in `index`, which is read twice: for count and sum, then the
        reservoir.

        Raises EntityFull if there are too many sentences, and ValueError like the constructor.
        """
        core = cls(k, dimension, index, distinct=distinct, by_text=by_text, scale=scale)
        core.read()
        return core

    def read(self) -> None:
        """Take in the sentences of the index, for a new core; see `load`."""
        self.begin(self.index.totals(self.copies))
        self.loaded(self.refill())

    def loaded(self, neighbors: Neighbors) -> None:
        """Begin with these as the set, for a new core."""
        self.ranking_if_changed(neighbors, ())
        self.counters = Counters()

    def apply(self, steps: Sequence[Step]) -> list[Ranking | None]:
        """Apply steps in order; for each its ranking if the set of ids changed or a member was
        added, or None.

        The results are the same to the bit for any grouping of steps into calls. Raises
        VectorError, EntityFull, UnknownSentence or DuplicateSentence; see the class for the state
        after an error.
        """
        return [_apply_step(self, step) for step in steps]

    def ranking(self) -> Ranking:
        """The current summary."""
        neighbors, centroid_squared = self.knn(), self.centroid_squared()
        outside = self.outside(centroid_squared)
        if neighbors is None or not self.proves(neighbors, centroid_squared, outside):
            neighbors = self.refill()
        return self.ranking_of(neighbors, centroid_squared)

    def look(self) -> Ranking | None:
        """The current summary by the reservoir alone, or None; changes no state and no counter."""
        if self.reservoir.exhausted:
            return None
        neighbors = knn(self.reservoir, self.n, self.total, self.k, self.distinct)
        # The set is known from the last step; what is not known is its order and its distances now.
        if self.members != set(self.reservoir.ids_of(neighbors.rows)):
            return None
        return self.ranking_of(neighbors)

    @property
    def reservoir_size(self) -> int:
        """Number of distinct vectors in the reservoir."""
        return len(self.reservoir)

    @property
    def memory_bytes(self) -> int:
        """Approximate memory of this object and its index, in bytes."""
        arrays = 1 + (self.gap is not None)
        if self.reservoir.radius_key is not None:
            arrays += 3  # anchor, ball
        return (
            self.reservoir.memory_bytes
            + self.index.memory_bytes
            + arrays * self.total.nbytes
            + (0 if self.copies is None else self.copies.memory_bytes)
            + 2000
        )


def _apply_step(state: EntityState, step: Step) -> Ranking | None:
    """Apply one step; its ranking if the set changed or a member was added, or None."""
    removed, added = step
    check(removed, state.dimension)
    check(added, state.dimension)
    if len(added.ids) == 1 and not removed.ids and state.gap is None:
        joined = _joined(state, added) if state.reservoir.holds_each_once else None
        if joined is not None:
            return _after_joining(state, step, joined)
    facts = _facts(state, added.vectors) if added.ids else []
    copies, gone, come = state.copies, removed.vectors, added.vectors
    net = None if copies is None else copies.net(removed, added)
    if net is not None:
        gone, come = net.left, come if len(net.joined) == len(come) else come[net.joined]
    n = state.n - len(gone) + len(come)
    if facts:
        state.admit(n, max(facts)[0])
    state.index.update(removed, added)
    if copies is not None and net is not None:
        copies.apply(net)
    state.n = n
    state.counters.steps += 1
    state.since_refill += 1
    if removed.ids:
        _remove(state, removed, gone)
    if facts:
        _add(state, added, facts, come)
    squared_total, squared_way = kernel.drift(state.total, n, _centroid(state))
    if _unchanged(state, squared_way):
        state.counters.proved_gap += 1
        return None
    centroid_squared = squared_total / (n * n) if n else 0.0
    neighbors, outside = state.knn(), state.outside(centroid_squared)
    if neighbors is not None and state.proves(neighbors, centroid_squared, outside):
        state.counters.proved_reservoir += 1
    else:
        neighbors = state.refill()
        outside = state.outside(centroid_squared)
    ranking = state.ranking_if_changed(neighbors, added.ids, centroid_squared)
    state.gap = None
    if len(neighbors.keys) == state.k:
        kth_key, next_key = neighbors.keys[-1], neighbors.next_key
        state.gap = _gap(state, kth_key, next_key, centroid_squared, outside)
    state.trim()
    return ranking


def _joined(state: EntityState, added: Points) -> Joined | None:
    """Take in one sentence where nothing else has to be asked; None if that has to be done."""
    n, reservoir = state.n + 1, state.reservoir
    most = max_exact_squared_norm(n)
    if state.max_squared_norm > most:
        return None
    room, squared_norms = reservoir.room_for_one()
    r, total, known = len(reservoir), state.total, reservoir.ranked_rows
    return kernel.join(room, squared_norms, r, added.vectors, n, total, state.k, most, known)


def _after_joining(state: EntityState, step: Step, joined: Joined) -> Ranking | None:
    """The ranking of such a step if the set changed, or None; see `apply_step`."""
    squared_norm, squared_total, kth_key, next_key, ranked = joined
    removed, added = step
    reservoir, counters = state.reservoir, state.counters
    state.index.update(removed, added)
    if state.copies is not None:
        state.copies.apply(state.copies.net(removed, added))
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
            neighbors = Neighbors(rows, keys, next_key)
        else:  # equal keys
            neighbors = knn(reservoir, n, state.total, state.k, state.distinct)
            kth_key, next_key = neighbors.keys[-1], neighbors.next_key
        ranking = state.ranking_if_changed(neighbors, added.ids, centroid_squared)
    if n >= state.k:
        state.gap = _gap(
            state, kth_key, next_key, centroid_squared, state.outside(centroid_squared)
        )
    state.trim()
    return ranking


def _facts(state: EntityState, vectors: NDArray[np.int16]) -> list[tuple[float, float, float]]:
    """`(|x|^2, x.S0, x.centroid)` of each added x: S0 is the anchor's, the centroid the gap's."""
    return kernel.products(vectors, state.reservoir.anchor_total, _centroid(state))


def _centroid(state: EntityState) -> NDArray[np.float64] | None:
    """Of the last evaluation; None without a gap certificate."""
    return None if state.gap is None else state.gap.centroid


def _remove(state: EntityState, removed: Points, gone: NDArray[np.int16]) -> None:
    """Subtract `gone` from the sum, and remove from the reservoir; a removed member forces an
    evaluation.
    """
    reservoir = state.reservoir
    kernel.add(state.total, gone, -1.0)
    for id_, vector in zip(removed.ids, removed.vectors, strict=True):
        row = reservoir.row_of.get(digest(vector))
        if row is not None:
            reservoir.remove(row, id_)
    if not state.members.isdisjoint(removed.ids):
        state.gap = None


def _add(
    state: EntityState,
    added: Points,
    facts: list[tuple[float, float, float]],
    come: NDArray[np.int16],
) -> None:
    """Add `come` to the sum, and to the reservoir (Algorithm 1, line 20), and narrow the gap."""
    reservoir = state.reservoir
    kernel.add(state.total, come, 1.0)
    n, radius_key = reservoir.anchor_n, reservoir.radius_key
    inside = [
        at
        for at, (squared_norm, product, _) in enumerate(facts)
        if radius_key is None or n * squared_norm - 2.0 * product < radius_key
    ]
    if inside:
        vectors, ids = added.vectors[inside], [added.ids[at] for at in inside]
        squared_norms = [facts[at][0] for at in inside]
        reservoir.insert(vectors, squared_norms, [digest(vector) for vector in vectors], ids)
    if state.gap is not None:
        state.gap.narrow(facts, 4 * state.slack)


def _unchanged(state: EntityState, squared_way: float) -> bool:
    if state.gap is None or state.reservoir.exhausted or state.n == 0:
        return False
    return state.gap.proves(squared_way, 4 * state.slack)


def _gap(
    state: EntityState, kth_key: float, next_key: float, centroid_squared: float, outside: float
) -> Gap | None:
    """The gap of an evaluation; None if the next step alone is likely to move the centroid too far.

    A step moves it by about d_k / n, and half the gap is (next key - key) / (4 n d_k).
    """
    n = state.n
    kth_squared = kth_key / n + centroid_squared
    if next_key - kth_key <= 4.0 * kth_squared:
        return None
    slack, limit = state.slack, outside
    if next_key < inf:
        limit = min(limit, certificate.lower(next_key / n + centroid_squared, slack))
    return Gap(state.total / n, centroid_squared, certificate.upper(kth_squared, slack), limit)


def load_all(cores: Sequence[EntityCore], subsets: Subsets) -> None:
    """Load new cores, each with a subset of the same stored sentences, which are read as often as
    for one of them. A core of an empty subset stays new.

    Raises EntityFull.
    """
    counted = subsets.totals([core.copies for core in cores])
    for core, totals in zip(cores, counted, strict=True):
        core.begin(totals)
    filled = [core for core in cores if core.n]
    searches = {at: core.search() for at, core in enumerate(cores) if core.n}
    for core, found in zip(filled, subsets.nearest(searches), strict=True):
        core.loaded(core.refilled(found))
