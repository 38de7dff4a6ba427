"""This project's own way, a step a call, its ids put in order after every step."""

from worker.coversumm.core import EntityCore
from worker.coversumm.index.flat import FlatIndex
from worker.coversumm.native import native_module
from worker.coversumm.points import Step


class Ours:
    """`EntityCore` over the flat index. Parameters: k; no alpha, delta, b or c_max. Exact always.

    Source: `worker.coversumm.core`, after Algorithms 1 and 3 with a certificate in place of
    lambda/2. CoverSumm itself speaks only when the set changes; the order within an unchanged set,
    which the paper's accuracy asks for, is looked up here, at the price of one more evaluation.
    """

    def __init__(self, k: int, dimension: int) -> None:
        self.core = EntityCore(k, dimension, FlatIndex(dimension))

    @property
    def reservoir_searches(self) -> int:
        return self.core.counters.refilled

    @property
    def reservoir_size(self) -> int:
        return self.core.reservoir_size

    def apply(self, step: Step) -> tuple[bytes, ...]:
        ranking = self.core.apply((step,))[0]
        return (self.core.ranking() if ranking is None else ranking).ids


class OursNatively:
    """The same in native code, `worker.coversumm.EntityCore` in Rust."""

    def __init__(self, k: int, dimension: int) -> None:
        self.core = native_module().Core(k, dimension)

    @property
    def reservoir_searches(self) -> int:
        return self.core.searches  # type: ignore[no-any-return]

    @property
    def reservoir_size(self) -> int:
        return self.core.reservoir_size  # type: ignore[no-any-return]

    def apply(self, step: Step) -> tuple[bytes, ...]:
        (ids,) = self.core.apply((step,))
        return tuple([id_ for id_, _, _ in self.core.ranking()]) if ids is None else ids
