"""What a refill asks: of all live sentences, those nearest to the centroid. The answer is the same whichever index gives it.

flat        looks at every sentence; stored ones stay where they are
sgtree      searches a tree in memory
graphgrove  searches a tree of the graphgrove library in memory
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from worker.coversumm.points import Points


class Block(Protocol):
    """Stored sentences, a review's say: vectors (m, D) int16, and the id of each, made only when it is asked for."""

    @property
    def vectors(self) -> NDArray[np.int16]:
        """The vectors, (m, D) int16."""
        ...

    def id(self, row: int) -> bytes:
        """The id of one of them."""
        ...


class Totals(NamedTuple):
    """What a pass over all live sentences adds up to."""

    n: int
    sum: NDArray[np.float64]  # S, (D,), integers
    longest: float  # the largest squared norm, 0 without any


class Neighborhood(NamedTuple):
    """Every live sentence with a key below `radius_key`, identical vectors as one row."""

    vectors: NDArray[np.int16]  # (r, D), distinct
    counts: list[int]  # live sentences of each vector
    low: list[list[bytes]]  # the lowest ids of each, ascending: `hold` of them, or all
    radius_key: float | None  # None: nothing is left out


class Index(Protocol):
    """All live sentences of one entity."""

    scan_cost: float  # what visiting a sentence costs, in units of a row of the reservoir

    @property
    def memory_bytes(self) -> int:
        """What it holds in memory, roughly."""
        ...

    def totals(self) -> Totals:
        """Count and sum of the live sentences, by a pass over all of them."""
        ...

    def update(self, removed: Points, added: Points) -> None:
        """Removals, then additions. Raises UnknownSentence or DuplicateSentence where it can tell."""
        ...

    def nearest(self, n: int, total: NDArray[np.float64], count: int, hold: int) -> Neighborhood:
        """The sentences nearest to the centroid total/n: at least `count` distinct vectors if there are as many.

        Equal keys are never cut: all sentences below some key, none at or above it.
        """
        ...

    def settle(self) -> None:
        """The stored rows now include every update so far."""
        ...


class NewIndex(Protocol):
    """Makes the index of one entity. `scan`: the stored sentences as of the last `settle`; None: there are none."""

    def __call__(self, dimension: int, scan: Callable[[], Iterable[Block]] | None = None, /) -> Index:
        """An index of vectors of this dimension."""
        ...


class IndexUnavailable(Exception):
    """An index needs a library that is not there. The message says why and what to do."""


NAMES = ("flat", "sgtree", "graphgrove")


def index_class(name: str) -> NewIndex:
    """The index of this name, one of NAMES. Raises IndexUnavailable."""
    if name == "flat":
        from worker.coversumm.index.flat import FlatIndex

        return FlatIndex
    if name == "sgtree":
        from worker.coversumm.index.sgtree import SGTreeIndex

        return SGTreeIndex
    if name == "graphgrove":
        from worker.coversumm.index.graphgrove import GraphgroveIndex, library

        library()
        return GraphgroveIndex
    raise ValueError(f"no index is named {name!r}: one of {', '.join(NAMES)}")


def lowest(ids: Sequence[bytes], hold: int) -> list[bytes]:
    """The `hold` lowest of the ids, ascending."""
    return sorted(ids)[:hold]
