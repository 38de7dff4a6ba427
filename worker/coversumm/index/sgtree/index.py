"""The SG tree as the index of one entity, built when it is first searched."""

from collections.abc import Callable, Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from worker.coversumm.errors import DuplicateSentence, UnknownSentence
from worker.coversumm.index import Block, Neighborhood, Totals
from worker.coversumm.index.sgtree.insertion import BATCH
from worker.coversumm.index.sgtree.nodes import Floats
from worker.coversumm.index.sgtree.tree import SGTree
from worker.coversumm.points import Points


class SGTreeIndex:
    """All live sentences of one entity in an SG tree that is built when it is first searched, and then kept.

    Before the first `nearest` this holds what the flat index holds: stored rows behind `scan`, as of the last `on_commit`,
    and the updates since. The first `nearest` builds the tree from both; from then on all sentences are in memory, updates
    are noted, and the next `nearest` brings them in as one batch (the paper's lazy variant).

    >>> index = SGTreeIndex(2)
    >>> vectors = np.array([[0, 0], [3, 4], [3, 4], [9, 9]], np.int16)
    >>> index.update(Points([], vectors[:0]), Points([b"a", b"b", b"c", b"d"], vectors))
    >>> n, total, _ = index.totals()
    >>> found = index.nearest(n, total, count=1, ids_kept=5)
    >>> found.vectors.tolist(), found.counts, found.lowest_ids
    ([[3, 4]], [2], [[b'b', b'c']])
    """

    def __init__(self, dimension: int, scan: Callable[[], Iterable[Block]] | None = None) -> None:
        self.scan_cost = 1.0  # all in memory, in the end
        self._dimension = dimension
        self._scan = scan
        self._tree: SGTree | None = None
        self._added: dict[bytes, bytes] = {}  # vectors by id that the tree, or stored rows, do not have
        self._removed: set[bytes] = set()  # ids that they still have

    @property
    def memory_bytes(self) -> int:
        """Roughly what the tree and the noted updates take."""
        noted = len(self._added) * (self._dimension * 2 + 240) + 120 * len(self._removed)
        return noted + (self._tree.memory_bytes if self._tree is not None else 0)

    def update(self, removed: Points, added: Points) -> None:
        """See `Index`. While there are only stored rows, an id cannot be told to be unknown, or live already."""
        for id_ in removed.ids:
            if self._added.pop(id_, None) is not None:
                continue
            if not self._may_have(id_):
                raise UnknownSentence(f"sentence {id_!r} is not live")
            self._removed.add(id_)
        for id_, vector in zip(added.ids, added.vectors, strict=True):
            if id_ in self._added or (self._tree is not None and self._may_have(id_)):
                raise DuplicateSentence(f"sentence {id_!r} is live already")
            self._added[id_] = vector.tobytes()

    def _may_have(self, id_: bytes) -> bool:
        """Whether the tree has it, or stored rows can have it."""
        if id_ in self._removed:
            return False
        return self._scan is not None if self._tree is None else id_ in self._tree

    def on_commit(self) -> None:
        """See `Index`. Once the tree exists, stored rows are not read again and noted updates are kept for it."""
        if self._scan is not None and self._tree is None:
            self._added.clear()
            self._removed.clear()

    def totals(self) -> Totals:
        """See `Index`."""
        if self._tree is not None:
            return self._current(self._tree).totals()
        n, total, max_squared_norm = 0, np.zeros(self._dimension), 0.0
        for _, vectors in self._live(named=bool(self._removed)):
            n += len(vectors)
            total = total + vectors.sum(axis=0, dtype=np.float64)
            squared_norms = np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64)
            max_squared_norm = max(max_squared_norm, float(squared_norms.max(initial=0.0)))
        return Totals(n, total, max_squared_norm)

    def nearest(self, n: int, total: Floats, count: int, ids_kept: int) -> Neighborhood:
        """See `Index`. Raises UnknownSentence or DuplicateSentence where stored rows show it only now."""
        if self._tree is None:
            self._tree = self._build()
        return self._current(self._tree).nearest_distinct(n, total, count, ids_kept)

    def _build(self) -> SGTree:
        tree = SGTree(self._dimension)
        for points in self._live(named=True):
            tree.insert_batch(points)
        self._added.clear()
        self._removed.clear()
        return tree

    def _current(self, tree: SGTree) -> SGTree:
        """The tree with every noted update in it."""
        for id_ in self._removed:
            tree.delete(id_)
        self._removed.clear()
        tree.insert_batch(self._noted())
        self._added.clear()
        return tree

    def _noted(self) -> Points:
        vectors = np.frombuffer(b"".join(self._added.values()), np.int16)
        return Points(list(self._added), vectors.reshape(-1, self._dimension))

    def _live(self, *, named: bool) -> Iterator[Points]:
        """All sentences while there is no tree, in batches; with ids only if `named`."""
        missing = set(self._removed)
        ids: list[bytes] = []
        parts: list[NDArray[np.int16]] = []
        rows = 0
        for block in self._scan() if self._scan is not None else ():
            vectors = block.vectors
            if named:
                names = [block.id(row) for row in range(len(vectors))]
                if not missing.isdisjoint(names):
                    keep = [row for row, id_ in enumerate(names) if id_ not in missing]
                    missing.difference_update(names)
                    vectors, names = vectors[keep], [names[row] for row in keep]
                ids += names
            parts.append(vectors)
            rows += len(vectors)
            if rows >= BATCH:
                yield Points(ids, np.concatenate(parts))
                ids, parts, rows = [], [], 0
        if missing:
            raise UnknownSentence(f"sentence {min(missing)!r} is not live")
        if parts:
            yield Points(ids, np.concatenate(parts))
        yield self._noted()
