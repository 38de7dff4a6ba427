"""The SG tree (paper, section 2.2; Stable Greedy tree, Zaheer et al. 2019) and its lazy index.

`SGTreeIndex` is the index of one entity and builds its `SGTree` at the first search. The nodes,
insertion and deletion are in `sgtree_nodes.py`, queries in `sgtree_search.py`.

Insertion goes from a node to the nearest of its children that cover the new vector (d <= R(level of
the child)) and are nearer than the node itself, of any level: any such child keeps the invariants,
and the nearest makes the tightest subtrees. Without one, the vector becomes a child: one of its own
level within R(level) would have covered it.

Queries process a frontier, nearest first, many nodes' children in one matrix product. They prune a
subtree only if a lower bound of d(mu, c) - c.max is above an upper bound of the radius; exact keys
decide what is inside. Depth is bounded by the number of levels, and nothing recurses.

Why BASE is 1.3 (10,000 vectors inserted as one batch, one thread, seconds; share visited by a kNN
with k = 20):

    base                   1.15           1.3           1.5             2             3
    uniform, 100     0.25  100%    0.24  100%    0.19  100%    0.25  100%    0.47  100%
    LDA, 100         0.28  100%    0.25  100%    0.24  100%    0.35  100%    0.50  100%
    clusters, 384    0.24  100%    0.22  100%    0.48  100%    0.27  100%    1.00  100%
    clusters, 8      0.40   12%    0.42   13%    0.36   14%    0.34   13%    0.24   19%
    uniform, 3       0.49   12%    0.44   10%    0.47   11%    0.47   12%    0.51   17%

In many dimensions distances are alike: a large base then makes one family of nearly everything. In
few dimensions a large base prunes less. In many dimensions no base prunes: a centroid is nearer to
every vector than the vectors are to one another, so every ball around a node holds it. There the
tree is a scan in another order.
"""

import heapq
from collections.abc import Callable, Iterable, Iterator
from math import inf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from worker.coversumm.fixed_point import DuplicateSentence, UnknownSentence
from worker.coversumm.index import TILE, Block, Neighborhood, Totals, lowest
from worker.coversumm.index.sgtree_nodes import (
    BASE,
    BATCH,
    Floats,
    Nodes,
    Numbers,
    Sentences,
    delete_node,
    insert_leaf,
    insert_subtrees,
)
from worker.coversumm.index.sgtree_search import (
    Nearest,
    Query,
    range_search,
    reservoir_search,
    traverse,
)
from worker.coversumm.points import Points, check


class QueryResult(NamedTuple):
    """The result of a query, copies expanded, ascending by (key, id bytes)."""

    ids: list[bytes]
    vectors: NDArray[np.int16]  # (m, D)
    keys: Floats  # (m,) exact integer keys n*|x|^2 - 2*x.S


class SGTree:
    """An SG tree over int16 vectors (D,), identical ones as one node. Queries take a centroid
    total/n.

    >>> tree = SGTree(2)
    >>> tree.insert_batch(Points([b"a", b"b", b"c"], np.array([[0, 0], [3, 4], [9, 9]], np.int16)))
    >>> n, total, _ = tree.totals()
    >>> tree.knn(n, total, k=1).ids
    [b'b']
    >>> tree.range(n, total, radius=6.0).ids
    [b'b', b'a']
    >>> tree.delete(b"b")
    >>> tree.knn(n, total, k=3).ids
    [b'a', b'c']
    """

    def __init__(self, dimension: int, base: float = BASE) -> None:
        """Raises ValueError for a base that is not between 1.01 and 16."""
        self.dimension = dimension
        self.nodes = Nodes(dimension, base)
        self.sentences = Sentences()

    @property
    def n(self) -> int:
        """Live sentences, copies counted."""
        return len(self.sentences.node_of)

    def __len__(self) -> int:
        """Distinct vectors."""
        return len(self.nodes)

    def __contains__(self, id_: bytes) -> bool:
        """Whether a sentence is live."""
        return id_ in self.sentences.node_of

    @property
    def memory_bytes(self) -> int:
        """Approximate bytes in memory."""
        return self.nodes.memory_bytes + self.sentences.memory_bytes

    def insert(self, id_: bytes, vector: NDArray[np.int16]) -> None:
        """Add a sentence, int16 (D,). Raises DuplicateSentence or VectorError."""
        vectors = np.asarray(vector)[None]
        check(Points([id_], vectors), self.dimension)
        self.sentences.refuse_duplicates([id_])
        node = self.nodes.of_vector.get(vectors.tobytes())
        if node is None:
            node = int(self._add_nodes(vectors)[0])
            insert_leaf(self.nodes, node)
        self.sentences.add(node, id_)

    def insert_batch(self, points: Points) -> None:
        """Add many sentences, faster than one by one; the tree may differ."""
        check(points, self.dimension)
        self.sentences.refuse_duplicates(points.ids)
        of_vector = self.nodes.of_vector
        datas = [vector.tobytes() for vector in points.vectors]
        fresh: dict[bytes, int] = {}
        for row, data in enumerate(datas):
            if data not in of_vector:
                fresh.setdefault(data, row)
        if fresh:
            insert_subtrees(self.nodes, self._add_nodes(points.vectors[list(fresh.values())]))
        for id_, data in zip(points.ids, datas, strict=True):
            self.sentences.add(of_vector[data], id_)

    def _add_nodes(self, vectors: NDArray[np.int16]) -> Numbers:
        nodes = self.nodes.add(vectors)
        self.sentences.make_room(len(self.nodes.children))
        return nodes

    def delete(self, id_: bytes) -> None:
        """Remove a sentence, and its node if empty. Raises UnknownSentence if it is not live."""
        node = self.sentences.remove(id_)
        if self.sentences.counts.rows[node] == 0:
            delete_node(self.nodes, node)

    def knn(self, n: int, total: Floats, k: int) -> QueryResult:
        """The min(k, self.n) sentences nearest to total/n, ties by id. ValueError for k < 1."""
        if k < 1:
            raise ValueError(f"k must be at least 1, not {k}")
        nearest = self._nearest(n, total, self.sentences.counts.rows, k)
        return self._found(nearest.nodes, nearest.keys, k)

    def range(self, n: int, total: Floats, radius: float) -> QueryResult:
        """The sentences x with d(x, total/n) <= radius, decided exactly."""
        return self._found(*range_search(self.nodes, Query(self.nodes, n, total), radius))

    def reservoir_search(self, n: int, total: Floats, lam: float, k: int) -> QueryResult:
        """Algorithm 2: the sentences with d <= d_k + lam, d_k that of the k-th nearest; all of
        fewer than k.

        Raises ValueError for k < 1 and for a lam below 0.
        """
        if k < 1 or not lam >= 0.0:
            raise ValueError(f"k must be at least 1 and lam not negative, not {k} and {lam}")
        query = Query(self.nodes, n, total)
        return self._found(*reservoir_search(self.nodes, query, self.sentences.counts.rows, lam, k))

    def nearest_distinct(self, n: int, total: Floats, count: int, ids_kept: int) -> Neighborhood:
        """The result of `Index.nearest`."""
        nearest = self._nearest(n, total, np.ones(len(self.nodes.children)), count, beyond=True)
        nodes = nearest.nodes[nearest.keys < nearest.limit]
        copies = [self.sentences.at(node) for node in nodes.tolist()]
        return Neighborhood(
            self.nodes.vectors.rows[nodes],
            [len(ids) for ids in copies],
            [lowest(ids, ids_kept) for ids in copies],
            None if nearest.limit == inf else nearest.limit,
        )

    def totals(self) -> Totals:
        """Count and sum of the live sentences, and the largest squared norm."""
        total, max_squared_norm = np.zeros(self.dimension), 0.0
        live = np.array(list(self.nodes.of_vector.values()), np.int32)
        for at in range(0, len(live), TILE):
            some = live[at : at + TILE]
            counts = self.sentences.counts.rows[some]
            total = total + counts @ self.nodes.vectors.rows[some].astype(np.float64)
            max_squared_norm = max(
                max_squared_norm, float(self.nodes.squared_norms.rows[some].max())
            )
        return Totals(self.n, total, max_squared_norm)

    def _nearest(
        self, n: int, total: Floats, weights: Floats, want: int, *, beyond: bool = False
    ) -> Nearest:
        query = Query(self.nodes, n, total)
        nearest = Nearest(query, weights, want, beyond=beyond)
        traverse(self.nodes, query, nearest)
        return nearest

    def _found(self, nodes: Numbers, keys: Floats, most: int | None = None) -> QueryResult:
        """The sentences at these nodes, the first `most` of them."""
        equals: dict[float, list[int]] = {}
        order = keys.argsort(kind="stable")
        for node, key in zip(nodes[order].tolist(), keys[order].tolist(), strict=True):
            equals.setdefault(key, []).append(node)
        ids: list[bytes] = []
        for of_key in equals.values():
            tied = [id_ for node in of_key for id_ in self.sentences.at(node)]
            ids += sorted(tied) if most is None else heapq.nsmallest(most - len(ids), tied)
        rows = [self.sentences.node_of[id_] for id_ in ids]
        key_of = dict(zip(nodes.tolist(), keys.tolist(), strict=True))
        return QueryResult(
            ids, self.nodes.vectors.rows[rows], np.array([key_of[row] for row in rows], np.float64)
        )


class SGTreeIndex:
    """All live sentences of one entity in an SG tree, built at the first search and then kept.

    Before the first `nearest` this holds what the flat index holds: stored rows behind `scan`, as
    of the last `on_commit`, and the updates since. The first `nearest` builds the tree from both.
    From then on all sentences are in memory; updates are noted, and the next `nearest` inserts them
    as one batch (the paper's lazy variant).

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
        # vectors by id that the tree, or stored rows, do not have
        self._added: dict[bytes, bytes] = {}
        self._removed: set[bytes] = set()  # ids that they still have

    @property
    def memory_bytes(self) -> int:
        """Approximate bytes of the tree and the noted updates."""
        noted = len(self._added) * (self._dimension * 2 + 240) + 120 * len(self._removed)
        return noted + (self._tree.memory_bytes if self._tree is not None else 0)

    def update(self, removed: Points, added: Points) -> None:
        """See `Index`. With stored rows alone, unknown or duplicate ids cannot be noticed."""
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
        """See `Index`. Once the tree exists, stored rows are not read again."""
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
        """See `Index`. Raises UnknownSentence or DuplicateSentence if stored rows show one now."""
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
