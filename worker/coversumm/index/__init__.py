"""The search of a refill: of all live sentences, those nearest to the centroid.

flat        scans every sentence; stored ones stay where they are
sgtree      searches an SG tree in memory, the paper's structure
graphgrove  searches an SG tree of the graphgrove library in memory

All give the same answer. `flat` is the default because refills are rare: over 10,000 sentences, 2
to 4 of them on a uniform or an LDA stream, about 15 on one whose mean drifts, 5 on 27,000 sentences
of real reviews, where the paper's lambda, tuned, searches about a hundred times on 10,000 uniform
ones. The cost of a search hardly shows; the cost of a structure to search does. In 100 dimensions
and more a tree prunes nothing (see `sgtree`), its construction costs more than all the scans it
replaces (the uniform stream takes over twice as long, the drifting one seven times, the LDA
one nine times), and it keeps every vector in memory, where `flat` behind stored rows keeps none. In
few dimensions the tree visits a tenth.

The reservoir is sized by rank and not by the paper's lambda because the certificate tests the data
itself, `d_k + drift < radius`; lambda bounds the drift of independent draws and needs a factor,
alpha, found on held-out data. A reservoir of a few times k rows that doubles while refills come
often costs a little more at each step than the paper's (about 90 rows against 30 for k = 20 on
uniform data) and saves nearly all searches. `make bench` and `make paper` print these figures.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from worker.coversumm.copies import Copies
from worker.coversumm.points import Points

TILE = 512  # rows computed at once: small enough for the cache, large enough to forget the overhead


class Block(Protocol):
    """Stored sentences, such as a review's, with ids made on demand."""

    @property
    def vectors(self) -> NDArray[np.int16]:
        """The vectors, (m, D) int16."""

    def id(self, row: int) -> bytes:
        """The id of a row."""


class BlockPart(NamedTuple):
    """Some rows of a block."""

    block: Block
    rows: NDArray[np.int64]

    @property
    def vectors(self) -> NDArray[np.int16]:
        return self.block.vectors[self.rows]

    def id(self, row: int) -> bytes:
        return self.block.id(int(self.rows[row]))


class Totals(NamedTuple):
    """The sums over all live sentences."""

    n: int
    total: NDArray[np.float64]  # S, (D,), integers
    max_squared_norm: float  # the largest |x|^2, 0 without any


class Search(NamedTuple):
    """A search of `Index.nearest`."""

    n: int
    total: NDArray[np.float64]
    wanted: int  # distinct vectors
    ids_kept: int


class Neighborhood(NamedTuple):
    """Every live sentence with a key below `radius_key`, identical vectors as one row."""

    vectors: NDArray[np.int16]  # (r, D), distinct
    counts: list[int]  # live sentences of each vector
    lowest_ids: list[list[bytes]]  # the `ids_kept` lowest of each, ascending, or all
    radius_key: float | None  # None: nothing is left out


class Index(Protocol):
    """All live sentences of one entity."""

    scan_cost: float  # what visiting a sentence costs, in units of a row of the reservoir

    @property
    def memory_bytes(self) -> int:
        """Approximate bytes in memory."""

    def totals(self, copies: Copies | None = None) -> Totals:
        """Count and sum of the live sentences, by a pass over all of them; with `copies`, which
        are empty and take them in, of their distinct vectors.
        """

    def update(self, removed: Points, added: Points) -> None:
        """Removals, then additions. Raises UnknownSentence or DuplicateSentence if noticed."""

    def nearest(
        self, n: int, total: NDArray[np.float64], count: int, ids_kept: int
    ) -> Neighborhood:
        """The sentences nearest to the centroid total/n: at least `count` distinct vectors if there
        are.

        Equal keys are never cut: all sentences below some key, none at or above it.
        """

    def on_rows_written(self) -> None:
        """Every update so far is in the rows that `scan` reads, committed or about to be."""


NewIndex = Callable[[int, Callable[[], Iterable[Block]]], Index]
"""Makes the index of one entity, of a dimension and a scan of its rows as of the last
`on_rows_written`.
"""


class IndexUnavailable(Exception):
    """An index needs a library that is not installed. The message says why and what to do."""


def first_beyond(keys: NDArray[np.float64], count: int) -> float | None:
    """The lowest key above the `count` lowest ones and all equal to the last of these, or None."""
    if len(keys) <= count:
        return None
    beyond = keys[keys > np.partition(keys, count - 1)[count - 1]]
    return float(beyond.min()) if len(beyond) else None
