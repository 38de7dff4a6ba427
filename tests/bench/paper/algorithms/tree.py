"""The paper's queries of an SG tree: kNN, range, and Algorithm 2; and insertion one by one.

The worker's index inserts in batches and asks for the nearest distinct vectors alone.
"""

import heapq
from collections.abc import Callable
from fractions import Fraction
from math import inf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from worker.coversumm import certificate
from worker.coversumm.index.sgtree import Query, SGTree, traverse
from worker.coversumm.index.sgtree_nodes import UP, Floats, Nodes, Numbers
from worker.coversumm.points import Points, check


class QueryResult(NamedTuple):
    """The result of a query, copies expanded, ascending by (key, id bytes)."""

    ids: list[bytes]
    vectors: NDArray[np.int16]  # (m, D)
    keys: Floats  # (m,) exact integer keys n*|x|^2 - 2*x.S


class PaperTree(SGTree):
    """An SG tree with the queries of the paper. They take a centroid total/n.

    >>> tree = PaperTree(2)
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

    @property
    def n(self) -> int:
        """Live sentences, copies counted."""
        return len(self.sentences.node_of)

    def __len__(self) -> int:
        """Distinct vectors."""
        return len(self.nodes)

    def insert(self, id_: bytes, vector: NDArray[np.int16]) -> None:
        """Add a sentence, int16 (D,). Raises DuplicateSentence or VectorError."""
        vectors = np.asarray(vector)[None]
        check(Points([id_], vectors), self.dimension)
        self.sentences.refuse_duplicates([id_])
        node = self.nodes.of_vector.get(vectors.tobytes())
        if node is None:
            node = int(self.add_nodes(vectors)[0])
            _insert_leaf(self.nodes, node)
        self.sentences.add(node, id_)

    def knn(self, n: int, total: Floats, k: int) -> QueryResult:
        """The min(k, self.n) sentences nearest to total/n, ties by id. ValueError for k < 1."""
        if k < 1:
            raise ValueError(f"k must be at least 1, not {k}")
        query = Query(self.nodes, n, total)
        nearest = _Nearest(query, self.sentences.counts.rows, k)
        traverse(self.nodes, query, nearest)
        return self._found(nearest.nodes, nearest.keys, k)

    def range(self, n: int, total: Floats, radius: float) -> QueryResult:
        """The sentences x with d(x, total/n) <= radius, decided exactly."""
        return self._found(*_range_search(self.nodes, Query(self.nodes, n, total), radius))

    def reservoir_search(self, n: int, total: Floats, lam: float, k: int) -> QueryResult:
        """Algorithm 2: the sentences with d <= d_k + lam, d_k that of the k-th nearest; all of
        fewer than k.

        Raises ValueError for k < 1 and for a lam below 0.
        """
        if k < 1 or not lam >= 0.0:
            raise ValueError(f"k must be at least 1 and lam not negative, not {k} and {lam}")
        query = Query(self.nodes, n, total)
        return self._found(
            *_reservoir_search(self.nodes, query, self.sentences.counts.rows, lam, k)
        )

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


def _insert_leaf(nodes: Nodes, leaf: int) -> None:
    """Insert a node without children."""
    if nodes.root < 0:
        nodes.root = leaf
        return
    at, squared = nodes.root, float(nodes.squared_distances(np.array([nodes.root]), leaf)[0])
    while True:
        nodes.reach.rows[at] = max(nodes.reach.rows[at], squared**0.5 * UP)
        child, nearer = _nearest_covering_child(nodes, at, leaf)
        if not nearer < squared:
            return nodes.attach(leaf, at, int(nodes.level_of_child(np.array([squared]))[0]))
        at, squared = child, nearer


def _nearest_covering_child(nodes: Nodes, parent: int, node: int) -> tuple[int, float]:
    """The nearest child that covers another node, and its squared distance, or infinity."""
    if not nodes.children[parent]:
        return -1, inf
    children = np.frombuffer(nodes.children[parent], np.int32)
    squared = nodes.squared_distances(children, node)
    squared[squared > nodes.squared_radii[nodes.level.rows[children]]] = inf
    best = squared.argmin()
    return int(children[best]), float(squared[best])


def _squared(query: Query, key: float) -> Fraction:
    """The squared distance itquery."""
    total = [int(s) for s in query.total.tolist()]
    return Fraction(int(key), query.n) + Fraction(sum([s * s for s in total]), query.n * query.n)


def _uppers(query: Query, keys: Floats) -> Floats:
    """Distances not below the true ones."""
    return certificate.uppers(keys / query.n + query.mean_squared, query.error) * UP


class _Nearest:
    """The nearest so far: `want` by weight, and all as near as the last."""

    def __init__(self, query: Query, weights: Floats, want: int) -> None:
        self.query = query
        self.nodes: Numbers = np.empty(0, np.int32)
        self.keys: Floats = np.empty(0)
        self.kth = inf  # the key of the last of them; infinite while there are not enough
        self.limit = inf  # nodes with a greater key are not wanted
        self.radius = inf  # the same as a distance, not below the true one
        self._weights = weights
        self._want = want

    def offer(self, nodes: Numbers, keys: Floats) -> None:
        """Take in nodes."""
        near = keys <= self.limit
        if not near.any():
            return
        nodes = np.concatenate([self.nodes, nodes[near]])
        keys = np.concatenate([self.keys, keys[near]])
        order = keys.argsort(kind="stable")
        nodes, keys = nodes[order], keys[order]
        at = int(self._weights[nodes].cumsum().searchsorted(self._want))
        if at < len(keys):
            self.kth = self.limit = float(keys[at])
            end = int(keys.searchsorted(self.limit, side="right"))
            nodes, keys = nodes[:end], keys[:end]
            self.radius = self.query.upper(self.limit)
        self.nodes, self.keys = nodes, keys


class _Ball:
    """All nodes so far that can be within `radius`, an upper bound."""

    def __init__(self, query: Query, radius: float) -> None:
        self.query = query
        self.radius = radius
        self._nodes: list[Numbers] = []
        self._keys: list[Floats] = []

    def offer(self, nodes: Numbers, keys: Floats) -> None:
        """Take in nodes."""
        near = self.query.lowers(keys) <= self.radius
        self._nodes.append(nodes[near])
        self._keys.append(keys[near])

    def inside(self, certain: float, exactly: Callable[[float], bool]) -> tuple[Numbers, Floats]:
        """Nodes and keys within `certain`, a lower bound of the radius; `exactly` decides the
        others.
        """
        nodes = np.concatenate([np.empty(0, np.int32), *self._nodes])
        keys = np.concatenate([np.empty(0), *self._keys])
        within = _uppers(self.query, keys) <= certain
        doubtful = np.flatnonzero(~within & (self.query.lowers(keys) <= self.radius))
        within[doubtful] = [exactly(key) for key in keys[doubtful].tolist()]
        return nodes[within], keys[within]


def _range_search(nodes: Nodes, query: Query, radius: float) -> tuple[Numbers, Floats]:
    """The nodes x with d(x, total/n) <= radius, decided exactly, and their keys."""
    ball = _Ball(query, radius)
    traverse(nodes, query, ball)
    return ball.inside(radius, lambda key: _squared(query, key) <= Fraction(radius) ** 2)


class _Reservoir(_Ball):
    """N and R of the algorithm."""

    def __init__(self, query: Query, weights: Floats, k: int, lam: float) -> None:
        super().__init__(query, inf)
        self.nearest = _Nearest(query, weights, k)
        self.lam = lam

    def offer(self, nodes: Numbers, keys: Floats) -> None:
        self.nearest.offer(nodes, keys)  # lines 7-11: into N if d <= N.max; d_k = N.max
        self.radius = (self.nearest.radius + self.lam) * UP  # line 12: r = d_k + lambda
        super().offer(nodes, keys)  # line 13: into R if d <= r


def _reservoir_search(
    nodes: Nodes, query: Query, weights: Floats, lam: float, k: int
) -> tuple[Numbers, Floats]:
    """The nodes with d <= d_k + lam, decided exactly, and their keys; `weights` count sentences."""
    reservoir = _Reservoir(query, weights, k, lam)
    traverse(nodes, query, reservoir)
    kth = reservoir.nearest.kth
    if kth == inf or lam == inf:
        return reservoir.inside(inf, lambda key: True)
    certain = float(query.lowers(np.array([kth]))[0] + lam) * certificate.ROOTS

    def within(key: float) -> bool:  # sqrt(a) <= sqrt(b) + lam, in fractions
        b = _squared(query, kth)
        excess = _squared(query, key) - b - Fraction(lam) ** 2
        return excess <= 0 or excess * excess <= 4 * Fraction(lam) ** 2 * b

    return reservoir.inside(certain, within)  # line 18: filter
