"""CoverSumm: one entity's summary, exact after every step."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from worker.coversumm.bulk import BULK, apply_steps
from worker.coversumm.fixed_point import SCALE
from worker.coversumm.index import Index
from worker.coversumm.points import Step
from worker.coversumm.ranking import Ranking
from worker.coversumm.single import apply_step
from worker.coversumm.state import Counters, State


class CoverSumm:
    """The k sentences nearest to the centroid of an entity's live sentences (paper: CoverSumm; exact here).

    The result is a function of the *set* of live sentences: not of their order, of how steps are grouped into calls,
    nor of when the object was made. An UnknownSentence or DuplicateSentence means that the caller's state is broken:
    throw the object away. EntityFull leaves it as it was before the step; so does VectorError, or as it was some steps
    before in a call of many.
    """

    def __init__(
        self, k: int, dimension: int, index: Index, *, distinct: bool = False, scale: int = SCALE
    ) -> None:
        """An entity without any sentence; `index` must be empty (see `load`).

        With `distinct` a vector is shown once, under the lowest id of its copies. `scale` is the unit of distances.
        """
        if k < 1 or dimension < 1:
            raise ValueError(f"k and dimension must be at least 1, not {k} and {dimension}")
        self._state = State(k, dimension, index, distinct=distinct, scale=scale)

    @classmethod
    def load(
        cls, k: int, dimension: int, index: Index, *, distinct: bool = False, scale: int = SCALE
    ) -> "CoverSumm":
        """An entity with the sentences in `index`: sum, count and reservoir are made from two passes over it."""
        core = cls(k, dimension, index, distinct=distinct, scale=scale)
        state = core._state
        totals = index.totals()
        state.admit(totals.n, totals.max_squared_norm)
        state.n, state.sum = totals.n, totals.total
        state.show(state.refill(), (), state.n, state.sum)
        state.counters = Counters()
        return core

    def apply(self, steps: Sequence[Step]) -> list[Ranking | None]:
        """Apply steps in order; after each, its ranking if the set of ids changed or a member was added in it, else None.

        One step or a thousand: the results are the same to the bit.
        """
        state = self._state
        if len(steps) < BULK:
            return [apply_step(state, step) for step in steps]
        return apply_steps(state, steps)

    def ranking(self) -> Ranking:
        """The summary now."""
        state = self._state
        view = state.view()
        if view is None or not state.proves(view):
            view = state.refill()
        return state.ranking(view, state.n, state.sum)

    @property
    def n(self) -> int:
        """Live sentences."""
        return self._state.n

    @property
    def S(self) -> NDArray[np.int64]:
        """Their sum, exact."""
        return self._state.sum.astype(np.int64)

    @property
    def counters(self) -> Counters:
        """How steps were decided so far."""
        return self._state.counters

    @property
    def reservoir_size(self) -> int:
        """Distinct vectors in the reservoir."""
        return len(self._state.reservoir)

    @property
    def memory_bytes(self) -> int:
        """Roughly what this object and its index hold in memory."""
        return (
            self._state.reservoir.memory_bytes
            + self._state.index.memory_bytes
            + 8 * self._state.sum.nbytes
            + 2000
        )
