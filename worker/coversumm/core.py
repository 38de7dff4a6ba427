"""The core of one entity: its summary, exact after every step (Algorithms 1 and 3).

The reservoir certificate costs one product with the reservoir. Only if it fails is the index
searched.
"""

from collections.abc import Sequence

import numpy as np

from worker.coversumm.fixed_point import SCALE
from worker.coversumm.index import Index
from worker.coversumm.index.subsets import Subsets
from worker.coversumm.knn import Neighbors
from worker.coversumm.points import Step, check
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
        neighbors = self.knn()
        if neighbors is None or not self.proves(neighbors):
            neighbors = self.refill()
        return self.ranking_of(neighbors)

    @property
    def reservoir_size(self) -> int:
        """Number of distinct vectors in the reservoir."""
        return len(self.reservoir)

    @property
    def memory_bytes(self) -> int:
        """Approximate memory of this object and its index, in bytes."""
        arrays = 1 if self.reservoir.radius_key is None else 2  # the sum, the anchor's
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
    copies, gone, come = state.copies, removed.vectors, added.vectors
    net = None if copies is None else copies.net(removed, added)
    if net is not None:
        gone, come = net.left, come[net.joined]
    n = state.n - len(gone) + len(come)
    x = added.vectors.astype(np.float64)
    squared_norms = np.vecdot(x, x)
    if added.ids:
        state.admit(n, float(squared_norms.max()))
    state.index.update(removed, added)
    if copies is not None and net is not None:
        copies.apply(net)
    state.n = n
    state.total += come.sum(axis=0) - gone.sum(axis=0)
    state.counters.steps += 1
    state.since_refill += 1
    state.reservoir.remove(removed)
    if added.ids:
        state.reservoir.insert(added, x, squared_norms)
    neighbors = state.knn()
    if neighbors is not None and state.proves(neighbors):
        state.counters.proved_reservoir += 1
    else:
        neighbors = state.refill()
    ranking = state.ranking_if_changed(neighbors, added.ids)
    state.trim()
    return ranking


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
