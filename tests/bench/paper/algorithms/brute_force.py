"""Brute force: the k nearest of all live sentences at every step."""

from tests.bench.paper.algorithms.centroid import Centroid
from tests.bench.paper.algorithms.sentence_set import SentenceSet
from worker.coversumm.fixed_point import UnknownSentence
from worker.coversumm.points import Step


class BruteForce(Centroid):
    """Section 2.3, Brute Force Algorithm: S_t = knn(X_t, mu_t), equation 1. Parameter: k. Exact
    always.

    >>> import numpy as np
    >>> from worker.coversumm.points import Points, no_points
    >>> way = BruteForce(k=1, dimension=2)
    >>> vectors = np.array([[0, 0], [3, 4], [9, 9]], np.int16)
    >>> way.apply(Step(no_points(2), Points([b"a", b"b", b"c"], vectors)))
    (b'b',)
    >>> way.apply(Step(Points([b"b"], vectors[1:2]), no_points(2)))
    (b'a',)
    """

    reservoir_size = 0

    def __init__(self, k: int, dimension: int) -> None:
        super().__init__(k, dimension)
        self._live = SentenceSet(dimension)

    def apply(self, step: Step) -> tuple[bytes, ...]:
        self.check(step)
        removed, added = step
        for id_ in removed.ids:
            if not self._live.discard(id_):
                raise UnknownSentence(f"sentence {id_!r} is not live")
        self.leave(removed)
        self.join(added)
        for id_, vector in zip(added.ids, added.vectors, strict=True):
            self._live.add(id_, vector)
        self.reservoir_searches += 1
        return self._live.nearest(self.n, self.total, self.k)
