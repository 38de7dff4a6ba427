"""Subsets of the same stored sentences, counted and searched together: a pass reads each sentence
once for all subsets.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from worker.coversumm.copies import Copies
from worker.coversumm.index import Block, BlockPart, Neighborhood, Search, Totals
from worker.coversumm.index.flat import SearchCandidates, add_up, keys_of

Rows = NDArray[np.int64] | None
"""Rows of a block; None: all."""


class Subsets:
    """Subsets, numbered, of the sentences that `scan` reads."""

    def __init__(
        self,
        dimension: int,
        scan: Callable[[], Iterable[Block]],
        rows_of: Callable[[Block], Sequence[Rows]],
    ) -> None:
        """`scan` reads the same blocks each time; `rows_of` gives the rows of a block that are in
        each subset, and is asked once for each block.
        """
        self._dimension = dimension
        self._scan = scan
        self._rows_of = rows_of
        self._rows: list[Sequence[Rows]] = []  # by block

    def totals(self, copies: Sequence[Copies | None]) -> list[Totals]:
        """Count and sum of each subset, as `Index.totals`."""
        found = [Totals(0, np.zeros(self._dimension), 0.0) for _ in copies]
        self._rows = []
        for block in self._scan():
            self._rows.append(self._rows_of(block))
            for number, vectors, _ in _parts(block, self._rows[-1], range(len(copies))):
                found[number] = add_up(found[number], vectors, copies[number])
        return found

    def nearest(self, searches: Mapping[int, Search]) -> list[Neighborhood]:
        """The results of a search in each of these subsets, in their order; after `totals`."""
        found = {
            number: SearchCandidates(search.wanted, search.ids_kept)
            for number, search in searches.items()
        }
        for block, rows in zip(self._scan(), self._rows, strict=True):
            for number, vectors, own in _parts(block, rows, searches):
                n, total = searches[number].n, searches[number].total
                ids_of = partial(_ids, block, own)
                found[number].offer(keys_of(vectors, n, total), vectors, ids_of, stored=True)
        return [subset.neighborhood(self._dimension) for subset in found.values()]

    def scan(self, number: int) -> Iterator[Block]:
        """Reads the sentences of a subset; after `totals`."""
        for block, rows in zip(self._scan(), self._rows, strict=True):
            if (own := rows[number]) is None:
                yield block
            elif len(own):
                yield BlockPart(block, own)


def _parts(
    block: Block, rows: Sequence[Rows], numbers: Iterable[int]
) -> Iterator[tuple[int, NDArray[np.int16], Rows]]:
    """The subsets with rows in the block, with their vectors."""
    for number in numbers:
        own = rows[number]
        if own is None:
            yield number, block.vectors, own
        elif len(own):
            yield number, block.vectors[own], own


def _ids(block: Block, rows: Rows, chosen: NDArray[np.int64]) -> list[bytes]:
    return [block.id(row) for row in (chosen if rows is None else rows[chosen]).tolist()]
