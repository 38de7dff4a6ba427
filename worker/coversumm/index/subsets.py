"""Subsets of the same stored sentences, counted and searched together.

A pass reads every sentence once for all subsets, and computes its products with all of their sums
at once.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial

import numpy as np
from numpy.typing import NDArray

from worker.coversumm.index import TILE, Block, Neighborhood, Search, Totals
from worker.coversumm.index.flat import SearchCandidates, keys_of


class Subsets:
    """Subsets, numbered, of the sentences that `scan` reads."""

    def __init__(
        self,
        count: int,
        dimension: int,
        scan: Callable[[], Iterable[Block]],
        inside: Callable[[Block], NDArray[np.bool_]],
    ) -> None:
        """`scan` reads the same blocks each time; `inside` says of a block's rows in which of the
        `count` subsets they are, (m, count), and is asked once for each block.
        """
        self._count = count
        self._dimension = dimension
        self._scan = scan
        self._inside_of = inside
        self._inside: list[NDArray[np.bool_]] = []  # by block

    def totals(self) -> list[Totals]:
        """Count and sum of each subset."""
        n = np.zeros(self._count, np.int64)
        total = np.zeros((self._count, self._dimension))
        largest = np.zeros(self._count)
        for block in self._scan():
            inside = self._inside_of(block)
            self._inside.append(inside)
            n += inside.sum(axis=0)
            for at in range(0, len(inside), TILE):
                x = block.vectors[at : at + TILE].astype(np.float64)
                chosen = inside[at : at + TILE].astype(np.float64)
                total += chosen.T @ x  # integers below 2^53: exact
                norms = chosen * np.vecdot(x, x)[:, None]
                np.maximum(largest, norms.max(axis=0), out=largest)
        return [
            Totals(count, one.copy(), norm)
            for count, one, norm in zip(n.tolist(), total, largest.tolist(), strict=True)
        ]

    def nearest(self, searches: Mapping[int, Search]) -> list[Neighborhood]:
        """The results of a search in each of these subsets, in their order; after `totals`."""
        chosen = list(searches)
        n = np.array([one.n for one in searches.values()], np.float64)
        totals = np.array([one.total for one in searches.values()]).reshape(-1, self._dimension).T
        found = [SearchCandidates(one.wanted, one.ids_kept) for one in searches.values()]
        for block, inside in zip(self._scan(), self._inside, strict=True):
            of_all = np.where(inside[:, chosen], keys_of(block.vectors, n, totals), np.inf)
            ids_of = partial(_ids, block)
            for one, own in zip(found, np.ascontiguousarray(of_all.T), strict=True):
                one.offer(own, block.vectors, ids_of, stored=True)
        return [one.neighborhood(self._dimension) for one in found]


def _ids(block: Block, rows: NDArray[np.int64]) -> list[bytes]:
    return [block.id(row) for row in rows.tolist()]
