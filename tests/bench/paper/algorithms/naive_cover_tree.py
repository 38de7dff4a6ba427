"""Naive cover tree: a k-NN query of a tree at every step."""

from tests.bench.paper.algorithms.centroid import Centroid
from tests.bench.paper.algorithms.tree import PaperTree
from worker.coversumm.points import Step


class NaiveCoverTree(Centroid):
    """Section 2.3, Naive Algorithm with Cover Tree: insert(x_t), then knn(mu_t); deletion by the
    tree's. Parameter: k.

    Exact always: the tree prunes conservatively, and what it returns is chosen by exact keys.
    """

    reservoir_size = 0

    def __init__(self, k: int, dimension: int) -> None:
        super().__init__(k, dimension)
        self._tree = PaperTree(dimension)

    def apply(self, step: Step) -> tuple[bytes, ...]:
        self.check(step)
        removed, added = step
        for id_ in removed.ids:
            self._tree.delete(id_)
        self.leave(removed)
        self.join(added)
        for id_, vector in zip(added.ids, added.vectors, strict=True):
            self._tree.insert(id_, vector)
        self.reservoir_searches += 1
        return tuple(self._tree.knn(self.n, self.total, self.k).ids) if self.n else ()
