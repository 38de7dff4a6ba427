"""The core of one entity: its summary, exact after every step."""

from collections.abc import Sequence

from worker.coversumm.bulk.apply import MIN_STEPS, apply_steps
from worker.coversumm.fixed_point import SCALE
from worker.coversumm.index import Index
from worker.coversumm.index.subsets import Subsets
from worker.coversumm.knn import Neighbors, knn
from worker.coversumm.points import Step
from worker.coversumm.ranking import Ranking
from worker.coversumm.single import apply_step
from worker.coversumm.state import Counters, EntityState


class EntityCore:
    """The k sentences nearest to the centroid of an entity's live sentences (paper: CoverSumm).

    The result is a function of the *set* of live sentences. It does not depend on their order, on
    how steps are grouped into calls, or on when the object was created. UnknownSentence and
    DuplicateSentence mean that the caller's state is broken: discard the object. EntityFull and
    VectorError leave the object as it was before the failing step, or, in a call with many steps,
    some steps earlier.

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

    def __init__(
        self, k: int, dimension: int, index: Index, *, distinct: bool = False, scale: int = SCALE
    ) -> None:
        """An entity without sentences; `index` must be empty (see `load`).

        With `distinct` a vector is shown once, under the lowest id of its copies. `scale` is the
        unit of distances. Raises ValueError if k or dimension is below 1.
        """
        if k < 1 or dimension < 1:
            raise ValueError(f"k and dimension must be at least 1, not {k} and {dimension}")
        self._state = EntityState(k, dimension, index, distinct=distinct, scale=scale)

    @classmethod
    def load(
        cls, k: int, dimension: int, index: Index, *, distinct: bool = False, scale: int = SCALE
    ) -> "EntityCore":
        """An entity with the sentences in `index`, which is read twice: for count and sum, then the
        reservoir.

        Raises EntityFull if there are too many sentences, and ValueError like the constructor.
        """
        core = cls(k, dimension, index, distinct=distinct, scale=scale)
        core.read()
        return core

    def read(self) -> None:
        """Take in the sentences of the index, for a new core; see `load`."""
        self._state.begin(self._state.index.totals())
        self._loaded(self._state.refill())

    def _loaded(self, neighbors: Neighbors) -> None:
        state = self._state
        state.ranking_if_changed(neighbors, (), state.centroid_squared())
        state.counters = Counters()

    def apply(self, steps: Sequence[Step]) -> list[Ranking | None]:
        """Apply steps in order; for each its ranking if the set of ids changed or a member was
        added, or None.

        The results are the same to the bit for any grouping of steps into calls. Raises
        VectorError, EntityFull, UnknownSentence or DuplicateSentence; see the class for the state
        after an error.
        """
        state = self._state
        if len(steps) < MIN_STEPS:
            return [apply_step(state, step) for step in steps]
        return apply_steps(state, steps)

    def ranking(self) -> Ranking:
        """The current summary."""
        state = self._state
        neighbors, centroid_squared = state.knn(), state.centroid_squared()
        if neighbors is None or not state.proves(neighbors, centroid_squared):
            neighbors = state.refill()
        return state.ranking(neighbors, centroid_squared)

    def look(self) -> Ranking | None:
        """The current summary by the reservoir alone, or None; changes no state and no counter."""
        state = self._state
        if state.reservoir.exhausted:
            return None
        neighbors = knn(state.reservoir, state.n, state.total, state.k, state.distinct)
        # The set is known from the last step; what is not known is its order and its distances now.
        if state.members != set(neighbors.ids):
            return None
        return state.ranking(neighbors, state.centroid_squared())

    @property
    def n(self) -> int:
        """Number of live sentences."""
        return self._state.n

    @property
    def counters(self) -> Counters:
        """How steps were decided so far."""
        return self._state.counters

    @property
    def reservoir_size(self) -> int:
        """Number of distinct vectors in the reservoir."""
        return len(self._state.reservoir)

    @property
    def memory_bytes(self) -> int:
        """Approximate memory of this object and its index, in bytes."""
        state = self._state
        arrays = 1 + (state.gap is not None)
        if state.reservoir.radius_key is not None:
            arrays += 3  # anchor, ball
        return (
            state.reservoir.memory_bytes
            + state.index.memory_bytes
            + arrays * state.total.nbytes
            + 2000
        )


def load_all(cores: Sequence[EntityCore], subsets: Subsets) -> None:
    """Load new cores, each with a subset of the same stored sentences, which are read as often as
    for one of them. A core of an empty subset stays new.

    Raises EntityFull.
    """
    for core, totals in zip(cores, subsets.totals(len(cores)), strict=True):
        core._state.begin(totals)
    filled = [core for core in cores if core.n]
    searches = {at: core._state.search() for at, core in enumerate(cores) if core.n}
    for core, found in zip(filled, subsets.nearest(searches), strict=True):
        core._loaded(core._state.refilled(found))
