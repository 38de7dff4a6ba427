"""The SG tree as a whole: sentences in, sentences out."""

import heapq
from math import inf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from worker.coversumm.index import TILE, Neighborhood, Totals, lowest
from worker.coversumm.index.sgtree.deletion import delete_node
from worker.coversumm.index.sgtree.insertion import insert_leaf, insert_subtrees
from worker.coversumm.index.sgtree.nodes import BASE, Floats, Nodes, Numbers
from worker.coversumm.index.sgtree.reservoir_search import reservoir_search
from worker.coversumm.index.sgtree.search import Nearest, Query, range_search, traverse
from worker.coversumm.index.sgtree.sentences import Sentences
from worker.coversumm.points import Points, check


class Found(NamedTuple):
    """Sentences a query found, copies expanded, ascending by (key, id bytes)."""

    ids: list[bytes]
    vectors: NDArray[np.int16]  # (m, D)
    keys: Floats  # (m,) exact integer keys n*|x|^2 - 2*x.S


class SGTree:
    """An SG tree over int16 vectors (D,), identical ones as one node. Queries take a centroid total/n (see `search`).

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
        """Roughly what it holds."""
        return self.nodes.memory_bytes + self.sentences.memory_bytes

    def insert(self, id_: bytes, vector: NDArray[np.int16]) -> None:
        """One sentence. Raises DuplicateSentence if the id is live, VectorError unless the vector is int16 (D,)."""
        vectors = np.asarray(vector)[None]
        check(Points([id_], vectors), self.dimension)
        self.sentences.refuse_duplicates([id_])
        node = self.nodes.of_vector.get(vectors.tobytes())
        if node is None:
            node = int(self._add_nodes(vectors)[0])
            insert_leaf(self.nodes, node)
        self.sentences.add(node, id_)

    def insert_batch(self, points: Points) -> None:
        """Many sentences at once, much faster than one by one; the tree may differ, its invariants are the same."""
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
        """One sentence; a node without any goes. Raises UnknownSentence if it is not live."""
        node = self.sentences.remove(id_)
        if self.sentences.counts.rows[node] == 0:
            delete_node(self.nodes, node)

    def knn(self, n: int, total: Floats, k: int) -> Found:
        """The min(k, self.n) sentences nearest to total/n, ties by id. Raises ValueError for k < 1."""
        if k < 1:
            raise ValueError(f"k must be at least 1, not {k}")
        nearest = self._nearest(n, total, self.sentences.counts.rows, k)
        return self._found(nearest.nodes, nearest.keys, k)

    def range(self, n: int, total: Floats, radius: float) -> Found:
        """The sentences x with d(x, total/n) <= radius, decided exactly."""
        return self._found(*range_search(self.nodes, Query(self.nodes, n, total), radius))

    def reservoir_search(self, n: int, total: Floats, lam: float, k: int) -> Found:
        """Algorithm 2: the sentences with d <= d_k + lam, d_k that of the k-th nearest; all of fewer than k.

        Raises ValueError for k < 1 and for a lam below 0.
        """
        if k < 1 or not lam >= 0.0:
            raise ValueError(f"k must be at least 1 and lam not negative, not {k} and {lam}")
        query = Query(self.nodes, n, total)
        return self._found(*reservoir_search(self.nodes, query, self.sentences.counts.rows, lam, k))

    def nearest_distinct(self, n: int, total: Floats, count: int, ids_kept: int) -> Neighborhood:
        """What `Index.nearest` returns: the `count` nearest vectors, and those as near as the last of them."""
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
        """Count and sum of the live sentences, and the largest squared norm, by a pass over the nodes."""
        total, max_squared_norm = np.zeros(self.dimension), 0.0
        live = np.array(list(self.nodes.of_vector.values()), np.int32)
        for at in range(0, len(live), TILE):
            some = live[at : at + TILE]
            counts = self.sentences.counts.rows[some]
            total = total + counts @ self.nodes.vectors.rows[some].astype(np.float64)
            max_squared_norm = max(max_squared_norm, float(self.nodes.squared_norms.rows[some].max()))
        return Totals(self.n, total, max_squared_norm)

    def _nearest(self, n: int, total: Floats, weights: Floats, want: int, *, beyond: bool = False) -> Nearest:
        query = Query(self.nodes, n, total)
        nearest = Nearest(query, weights, want, beyond=beyond)
        traverse(self.nodes, query, nearest)
        return nearest

    def _found(self, nodes: Numbers, keys: Floats, most: int | None = None) -> Found:
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
        return Found(ids, self.nodes.vectors.rows[rows], np.array([key_of[row] for row in rows], np.float64))
