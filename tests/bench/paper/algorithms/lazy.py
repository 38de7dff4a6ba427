"""CoverSumm (lazy reservoir): insertion into the tree waits until the tree is searched."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.bench.paper.algorithms.reservoir import CoverSummReservoir
from tests.bench.paper.algorithms.tree import QueryResult
from worker.coversumm.fixed_point import DuplicateSentence
from worker.coversumm.points import Points


class CoverSummLazy(CoverSummReservoir):
    """Section 3, end: line 6 of Algorithm 1 waits until line 9 holds, and then inserts in a batch.

    A deletion takes a sentence that the tree has not seen from the batch. Answers are those of
    CoverSumm (reservoir).
    """

    def __init__(self, k: int, dimension: int, **parameters: Any) -> None:
        """`parameters` are those of `ReservoirState`."""
        super().__init__(k, dimension, **parameters)
        self.pending: dict[bytes, NDArray[np.int16]] = {}  # sentences that the tree has not seen

    def insert_into_tree(self, id_: bytes, vector: NDArray[np.int16]) -> None:
        """Line 6, later."""
        if id_ in self.tree or self.pending.setdefault(id_, vector) is not vector:
            raise DuplicateSentence(f"sentence {id_!r} is live already")

    def delete_from_tree(self, id_: bytes) -> None:
        """Algorithm 3, line 4, unless the tree has not seen it."""
        if self.pending.pop(id_, None) is None:
            self.tree.delete(id_)

    def search(self) -> QueryResult:
        """Line 6 for all that wait, then line 14."""
        if self.pending:
            vectors = np.array(list(self.pending.values()), np.int16)
            self.tree.insert_batch(Points(list(self.pending), vectors))
            self.pending.clear()
        return super().search()
