"""The SG tree (paper, section 2.2; Stable Greedy tree, Zaheer et al. 2019) and its lazy index.

`SGTreeIndex` is the index of one entity. Nodes, insertion and deletion are in `sgtree_nodes.py`.

Insertion goes from a node to the nearest of its children that cover the new vector (d <= R(level of
the child)) and are nearer than the node itself, of any level: any such child keeps the invariants,
and the nearest makes the tightest subtrees. Without one, the vector becomes a child: one of its own
level within R(level) would have covered it.

Queries process a frontier, nearest first, many nodes' children in one matrix product. They prune a
subtree only if a lower bound of d(mu, c) - c.max is above an upper bound of the radius; exact keys
decide what is inside. Depth is bounded by the number of levels, and nothing recurses.
"""

from collections.abc import Callable, Iterable
from math import inf

import numpy as np
from numpy.typing import NDArray

from worker.coversumm import certificate
from worker.coversumm.copies import Copies
from worker.coversumm.fixed_point import DuplicateSentence, UnknownSentence
from worker.coversumm.index import TILE, Block, Neighborhood, Totals, first_beyond
from worker.coversumm.index.sgtree_nodes import (
    BASE,
    BATCH,
    UP,
    Floats,
    Nodes,
    Numbers,
    Sentences,
    delete_node,
    insert_subtrees,
)
from worker.coversumm.points import Points, check

WIDTH = 64  # nodes of the frontier whose children are looked at together


class Query:
    """A centroid total/n: exact keys around it, and bounds of distances to it from keys.

    It is of integers with 3*n*q < 2^53 (`fixed_point.exact`), q the largest squared norm of the
    vectors and of the centroid: then keys n*|x|^2 - 2*x.S are exact, and keys decide what is
    inside.
    """

    def __init__(self, nodes: Nodes, n: int, total: Floats) -> None:
        self.nodes = nodes
        self.n = n
        self.total = np.asarray(total, np.float64)
        self.mean_squared = float(self.total @ self.total) / (n * n)
        # The slack's derivation needs |mu|^2 <= q: true of a centroid of what is in the tree, not
        # of any other.
        q = max(nodes.max_squared_norm, self.mean_squared * UP)
        self.error = certificate.slack(len(self.total), q)

    def keys(self, nodes: Numbers) -> Floats:
        """The exact keys (m,) of nodes."""
        keys = self.nodes.dots(nodes, self.total)
        keys *= -2.0
        keys += self.nodes.squared_norms.rows[nodes] * self.n
        return keys

    def lowers(self, keys: Floats) -> Floats:
        """Distances not above the true ones."""
        return certificate.lowers(keys / self.n + self.mean_squared, self.error)

    def upper(self, key: float) -> float:
        """A distance not below the true one; infinite for an infinite key."""
        return certificate.upper(key / self.n + self.mean_squared, self.error) * UP


def traverse(nodes: Nodes, query: Query, search: "Nearest") -> None:
    """Offer every vector that can be within `search.radius`, subtrees nearest first.

    Line numbers are those of Algorithm 2; the paper's queries differ from it only in `search`.
    """
    if nodes.root < 0:
        return
    # line 3's Q, of it the nodes with children: those with a reach
    queue: Numbers = np.empty(0, np.int32)
    # lower bounds of the distances of what is below them: d(mu, q) - q.max
    lows: Floats = np.empty(0)
    found = np.array([nodes.root], np.int32)
    while len(found):
        keys = query.keys(found)
        search.offer(found, keys)  # lines 7-13
        reach = nodes.reach.rows[found]
        bounds = query.lowers(keys) - reach
        inner = (reach > 0.0) & (bounds <= search.radius)  # lines 16, 17
        queue, lows = np.concatenate([queue, found[inner]]), np.concatenate([lows, bounds[inner]])
        near = lows <= search.radius  # line 14: r has fallen since
        queue, lows = queue[near], lows[near]
        if len(queue) > WIDTH:  # line 5: pop the nearest
            order = lows.argpartition(WIDTH)
            queue, lows = queue[order], lows[order]
        found = nodes.children_of(queue[:WIDTH])
        queue, lows = queue[WIDTH:], lows[WIDTH:]


class Nearest:
    """The `count` nearest nodes so far, all as near as the last of them, and the next nearest."""

    def __init__(self, query: Query, count: int) -> None:
        self.query = query
        self.nodes: Numbers = np.empty(0, np.int32)
        self.keys: Floats = np.empty(0)
        self.limit = inf  # nodes with a greater key are not wanted
        self.radius = inf  # the same as a distance, not below the true one; falls as nodes come
        self._count = count

    def offer(self, nodes: Numbers, keys: Floats) -> None:
        """Take in nodes."""
        near = keys <= self.limit
        nodes = np.concatenate([self.nodes, nodes[near]])
        keys = np.concatenate([self.keys, keys[near]])
        limit = first_beyond(keys, self._count)
        if limit is not None:
            self.limit, self.radius = limit, self.query.upper(limit)
            nodes, keys = nodes[keys <= limit], keys[keys <= limit]
        self.nodes, self.keys = nodes, keys


class SGTree:
    """An SG tree over int16 vectors (D,), identical ones as one node.

    >>> tree = SGTree(2)
    >>> tree.insert_batch(Points([b"a", b"b", b"c"], np.array([[0, 0], [3, 4], [9, 9]], np.int16)))
    >>> n, total, _ = tree.totals()
    >>> tree.nearest_distinct(n, total, count=1, ids_kept=1).lowest_ids
    [[b'b']]
    """

    def __init__(self, dimension: int, base: float = BASE) -> None:
        """Raises ValueError for a base that is not between 1.01 and 16."""
        self.dimension = dimension
        self.nodes = Nodes(dimension, base)
        self.sentences = Sentences()

    def __contains__(self, id_: bytes) -> bool:
        """True if a sentence is live."""
        return id_ in self.sentences.node_of

    @property
    def memory_bytes(self) -> int:
        """Approximate bytes in memory."""
        return self.nodes.memory_bytes + self.sentences.memory_bytes

    def insert_batch(self, points: Points) -> None:
        """Add sentences. Raises VectorError or DuplicateSentence."""
        check(points, self.dimension)
        self.sentences.refuse_duplicates(points.ids)
        of_vector = self.nodes.of_vector
        datas = [vector.tobytes() for vector in points.vectors]
        fresh: dict[bytes, int] = {}
        for row, data in enumerate(datas):
            if data not in of_vector:
                fresh.setdefault(data, row)
        if fresh:
            insert_subtrees(self.nodes, self.add_nodes(points.vectors[list(fresh.values())]))
        for id_, data in zip(points.ids, datas, strict=True):
            self.sentences.add(of_vector[data], id_)

    def add_nodes(self, vectors: NDArray[np.int16]) -> Numbers:
        """Nodes for new vectors (m, D), distinct; they are not attached yet."""
        nodes = self.nodes.add(vectors)
        self.sentences.make_room(len(self.nodes.children))
        return nodes

    def delete(self, id_: bytes) -> None:
        """Remove a sentence, and its node if empty. Raises UnknownSentence if it is not live."""
        node = self.sentences.remove(id_)
        if self.sentences.counts.rows[node] == 0:
            delete_node(self.nodes, node)

    def nearest_distinct(self, n: int, total: Floats, count: int, ids_kept: int) -> Neighborhood:
        """The result of `Index.nearest`."""
        query = Query(self.nodes, n, total)
        nearest = Nearest(query, count)
        traverse(self.nodes, query, nearest)
        nodes = nearest.nodes[nearest.keys < nearest.limit]
        copies = [self.sentences.at(node) for node in nodes.tolist()]
        return Neighborhood(
            self.nodes.vectors.rows[nodes],
            [len(ids) for ids in copies],
            [sorted(ids)[:ids_kept] for ids in copies],
            None if nearest.limit == inf else nearest.limit,
        )

    def totals(self, copies: Copies | None = None) -> Totals:
        """Count and sum of the live sentences, and the largest squared norm; see `Index`."""
        total, max_squared_norm = np.zeros(self.dimension), 0.0
        live = np.array(list(self.nodes.of_vector.values()), np.int32)
        for at in range(0, len(live), TILE):
            some = live[at : at + TILE]
            counts = self.sentences.counts.rows[some]
            if copies is not None:
                copies.take(self.nodes.vectors.rows[some], counts.astype(int).tolist())
                counts = np.ones(len(some))
            total = total + counts @ self.nodes.vectors.rows[some].astype(np.float64)
            max_squared_norm = max(
                max_squared_norm, float(self.nodes.squared_norms.rows[some].max())
            )
        n = len(self.sentences.node_of) if copies is None else len(live)
        return Totals(n, total, max_squared_norm)


class SGTreeIndex:
    """All live sentences of one entity in an SG tree in memory.

    Stored rows are read once, at the first use. Updates are noted, and the next search inserts them
    as one batch (the paper's lazy variant).

    >>> index = SGTreeIndex(2)
    >>> vectors = np.array([[0, 0], [3, 4], [3, 4], [9, 9]], np.int16)
    >>> index.update(Points([], vectors[:0]), Points([b"a", b"b", b"c", b"d"], vectors))
    >>> n, total, _ = index.totals()
    >>> found = index.nearest(n, total, count=1, ids_kept=5)
    >>> found.vectors.tolist(), found.counts, found.lowest_ids
    ([[3, 4]], [2], [[b'b', b'c']])
    """

    scan_cost = 1.0

    def __init__(self, dimension: int, scan: Callable[[], Iterable[Block]] | None = None) -> None:
        self._dimension = dimension
        self._scan = scan
        self._tree = SGTree(dimension)
        self._added: dict[bytes, bytes] = {}  # vectors by id that the tree does not have
        self._removed: set[bytes] = set()  # ids that it still has

    @property
    def memory_bytes(self) -> int:
        """Approximate bytes of the tree and the noted updates."""
        noted = len(self._added) * (self._dimension * 2 + 240) + 120 * len(self._removed)
        return noted + self._tree.memory_bytes

    def update(self, removed: Points, added: Points) -> None:
        self._read()
        for id_ in removed.ids:
            if self._added.pop(id_, None) is not None:
                continue
            if not self._is_in_tree(id_):
                raise UnknownSentence(f"sentence {id_!r} is not live")
            self._removed.add(id_)
        for id_, vector in zip(added.ids, added.vectors, strict=True):
            if id_ in self._added or self._is_in_tree(id_):
                raise DuplicateSentence(f"sentence {id_!r} is live already")
            self._added[id_] = vector.tobytes()

    def _is_in_tree(self, id_: bytes) -> bool:
        return id_ in self._tree and id_ not in self._removed

    def on_rows_written(self) -> None:
        """See `Index`. Everything is in memory, so there is nothing to release."""

    def totals(self, copies: Copies | None = None) -> Totals:
        return self._current().totals(copies)

    def nearest(self, n: int, total: Floats, count: int, ids_kept: int) -> Neighborhood:
        return self._current().nearest_distinct(n, total, count, ids_kept)

    def _current(self) -> SGTree:
        """The tree with every noted update in it."""
        self._read()
        for id_ in self._removed:
            self._tree.delete(id_)
        self._removed.clear()
        vectors = np.frombuffer(b"".join(self._added.values()), np.int16)
        self._tree.insert_batch(Points(list(self._added), vectors.reshape(-1, self._dimension)))
        self._added.clear()
        return self._tree

    def _read(self) -> None:
        """Load the stored sentences into the tree, once: all of them, or none."""
        if self._scan is None:
            return
        tree, ids, parts = SGTree(self._dimension), list[bytes](), list[NDArray[np.int16]]()
        for block in self._scan():
            parts.append(block.vectors)
            ids += [block.id(row) for row in range(len(block.vectors))]
            if len(ids) >= BATCH:
                tree.insert_batch(Points(ids, np.concatenate(parts)))
                ids, parts = [], []
        if ids:
            tree.insert_batch(Points(ids, np.concatenate(parts)))
        self._tree, self._scan = tree, None
