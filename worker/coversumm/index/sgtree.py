"""The SG tree (paper, section 3; Stable Greedy tree, Zaheer et al. 2019) and the index that builds it lazily.

R(l) = base^(l-1), l = 0, 1, ... are the radii of the levels. Each distinct vector is one node, its copies are ids at
that node. A node of level l stands for itself at every level below too (nesting, by representative points, so it is
stored once); a child of level l hangs below its parent's standing at level l + 1:

- nesting: a child's level is below its parent's;
- covering: d(parent, child) <= R(level of the child + 1);
- separation: d(parent, child) > R(level of the child), and two children of one parent with the same level l are more
  than R(l) apart.

So a child's level is fixed by its distance to the parent. All three compare squared distances, which are integers
that float64 holds exactly, with one table of squared radii: insertion, deletion and `check` cannot disagree.

Insertion goes from a node to the nearest of its children that cover the new vector (d <= R(level of the child)) and
are nearer than the node itself, whatever their level: any such child keeps the invariants, and the nearest makes the
tightest subtrees. Without any, the vector becomes a child: one of its own level within R(level) would have covered it.
Each node knows `reach`, an upper bound of its distance to everything below it (Algorithm 2: q.max).

Queries process a frontier, nearest first, many nodes' children in one matrix product. They prune a subtree only if
a lower bound of d(mu, c) - c.max is above an upper bound of the radius; what is inside is decided by exact keys.

Depth is bounded by the number of levels, and nothing recurses. Deletion leaves `reach` as it was, too large perhaps:
that costs visits, never a result.

Why BASE is 1.3 (10,000 vectors inserted as one batch, one thread, seconds; share visited by a kNN with k = 20):

    base                   1.15           1.3           1.5             2             3
    uniform, 100     0.25  100%    0.24  100%    0.19  100%    0.25  100%    0.47  100%
    LDA, 100         0.28  100%    0.25  100%    0.24  100%    0.35  100%    0.50  100%
    clusters, 384    0.24  100%    0.22  100%    0.48  100%    0.27  100%    1.00  100%
    clusters, 8      0.40   12%    0.42   13%    0.36   14%    0.34   13%    0.24   19%
    uniform, 3       0.49   12%    0.44   10%    0.47   11%    0.47   12%    0.51   17%

A large base makes one family of nearly everything where distances are alike, as they are in many dimensions, and
prunes less in few. In many dimensions no base prunes: a centroid is nearer to every vector than the vectors are to one
another, so every ball around a node holds it. There the tree is a scan in another order.
"""

import heapq
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from math import inf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from worker.coversumm import certificate
from worker.coversumm.errors import DuplicateSentence, UnknownSentence
from worker.coversumm.index import TILE, Block, Neighborhood, Totals, lowest
from worker.coversumm.points import Points, check

BASE = 1.3
BATCH = 4096  # vectors inserted together: enough to fill the products, few enough to hold as float64
WIDTH = 64  # nodes of the frontier whose children are looked at together
CENTERS = 256  # vectors of a batch that may become children of one node at a time
UP = 1 + 2.0**-50  # a computed root, or a sum of two, times this is not below the true one

Nodes = NDArray[np.int32]
Floats = NDArray[np.float64]


class Found(NamedTuple):
    """Sentences a query found, copies expanded, ascending by (key, id bytes)."""

    ids: list[bytes]
    vectors: NDArray[np.int16]  # (m, D)
    keys: Floats  # (m,) exact integer keys n*|x|^2 - 2*x.S


class _Query:
    """A centroid total/n: bounds of distances to it from exact keys."""

    def __init__(self, n: int, total: Floats, dimension: int, longest: float) -> None:
        self.n = n
        self.total = np.asarray(total, np.float64)
        self.mean_squared = float(self.total @ self.total) / (n * n)
        # the slack's derivation needs |mu|^2 <= q: true of a centroid of what is in the tree, not of any other
        self.error = certificate.slack(dimension, max(longest, self.mean_squared * UP))

    def lowers(self, keys: Floats) -> Floats:
        """Distances not above the true ones."""
        return certificate.lowers(keys / self.n + self.mean_squared, self.error)

    def uppers(self, keys: Floats) -> Floats:
        """Distances not below the true ones."""
        return certificate.uppers(keys / self.n + self.mean_squared, self.error) * UP

    def upper(self, key: float) -> float:
        """A distance not below the true one; infinite for an infinite key."""
        return certificate.upper(key / self.n + self.mean_squared, self.error) * UP

    def squared(self, key: float) -> Fraction:
        """The squared distance itself."""
        total = [int(s) for s in self.total.tolist()]
        return Fraction(int(key), self.n) + Fraction(sum([s * s for s in total]), self.n * self.n)


class _Nearest:
    """The nearest seen so far: `want` by weight, and all that are as near as the last of them.

    With `beyond` also the nearest after those.
    """

    def __init__(self, query: _Query, weights: Floats, want: int, *, beyond: bool = False) -> None:
        self.query = query
        self.nodes: Nodes = np.empty(0, np.int32)
        self.keys: Floats = np.empty(0)
        self.kth = inf  # the key of the last of them; infinite while there are not enough
        self.limit = inf  # sentences with a greater key are of no interest
        self.radius = inf  # the same as a distance, not below the true one
        self._weights = weights
        self._want = want
        self._beyond = beyond

    def offer(self, nodes: Nodes, keys: Floats) -> None:
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
            if self._beyond:
                self.limit = float(keys[end]) if end < len(keys) else inf
                end = int(keys.searchsorted(self.limit, side="right"))
            nodes, keys = nodes[:end], keys[:end]
            self.radius = self.query.upper(self.limit)
        self.nodes, self.keys = nodes, keys


class _Ball:
    """All seen so far that can be within `radius`, an upper bound."""

    def __init__(self, query: _Query, radius: float) -> None:
        self.query = query
        self.radius = radius
        self._nodes: list[Nodes] = []
        self._keys: list[Floats] = []

    def offer(self, nodes: Nodes, keys: Floats) -> None:
        near = self.query.lowers(keys) <= self.radius
        self._nodes.append(nodes[near])
        self._keys.append(keys[near])

    def inside(self, certain: float, exactly: Callable[[float], bool]) -> tuple[Nodes, Floats]:
        """Those that are within: by `certain`, a lower bound of the radius, and where that cannot tell, `exactly`."""
        nodes = np.concatenate([np.empty(0, np.int32), *self._nodes])
        keys = np.concatenate([np.empty(0), *self._keys])
        within = self.query.uppers(keys) <= certain
        doubtful = np.flatnonzero(~within & (self.query.lowers(keys) <= self.radius))
        within[doubtful] = [exactly(key) for key in keys[doubtful].tolist()]
        return nodes[within], keys[within]


class _Reservoir(_Ball):
    """Algorithm 2's N and R."""

    def __init__(self, query: _Query, weights: Floats, k: int, lam: float) -> None:
        super().__init__(query, inf)
        self.nearest = _Nearest(query, weights, k)
        self.lam = lam

    def offer(self, nodes: Nodes, keys: Floats) -> None:
        self.nearest.offer(nodes, keys)  # lines 7-11: into N if d <= N.max; d_k = N.max
        self.radius = (self.nearest.radius + self.lam) * UP  # line 12: r = d_k + lambda
        super().offer(nodes, keys)  # line 13: into R if d <= r


class SGTree:
    """An SG tree over int16 vectors (D,), identical ones as one node.

    Queries take a centroid total/n of integers with 3*n*q < 2^53 (`fixed_point.exact`), q the largest squared norm of
    the vectors and of the centroid: then keys are exact.
    """

    def __init__(self, dimension: int, base: float = BASE) -> None:
        if not 1.01 <= base <= 16:
            raise ValueError(f"base must be between 1.01 and 16, not {base}")
        self.base = base
        self.n = 0  # live sentences, copies counted
        self.visited = 0  # vectors whose distance to a centroid was computed by a query
        self._dimension = dimension
        radii = [1.0 / (base * base)]  # R(l)^2; R(0) < 1 covers nothing
        while radii[-1] < dimension * 65535.0**2:
            radii.append(base ** (2 * (len(radii) - 1)))
        self._radii = np.array(radii)
        self._root = -1
        self._points = np.empty((0, dimension), np.int16)
        self._norms: Floats = np.empty(0)
        self._reach: Floats = np.empty(0)
        self._weights: Floats = np.empty(0)  # copies
        self._level: Nodes = np.empty(0, np.int32)
        self._parent: Nodes = np.empty(0, np.int32)
        self._children: list[array[int]] = []
        self._copies: list[bytes | set[bytes]] = []  # one id, or more
        self._free: list[int] = []  # nodes that were deleted
        self._node_of: dict[bytes, int] = {}  # by id
        self._node_at: dict[bytes, int] = {}  # by the vector's bytes
        self._longest = 0.0  # the largest squared norm ever seen

    def __len__(self) -> int:
        """Distinct vectors."""
        return len(self._node_at)

    def __contains__(self, id_: bytes) -> bool:
        """Whether a sentence is live."""
        return id_ in self._node_of

    @property
    def memory_bytes(self) -> int:
        """Roughly what it holds: arrays, and what Python needs around nodes, vectors and ids."""
        arrays = (self._points, self._norms, self._reach, self._weights, self._level, self._parent)
        nodes = len(self._children) * (80 + 8 + 8) + 8 * len(self._node_at)
        vectors = len(self._node_at) * (self._dimension * 2 + 33 + 104 + 32)
        return sum([a.nbytes for a in arrays]) + nodes + vectors + 210 * self.n

    # ---- changing

    def insert(self, id_: bytes, vector: NDArray[np.int16]) -> None:
        """One sentence. Raises DuplicateSentence if the id is live, VectorError unless the vector is int16 (D,)."""
        vectors = np.asarray(vector)[None]
        check(Points([id_], vectors), self._dimension)
        self._refuse_duplicates([id_])
        node = self._node_at.get(vectors.tobytes())
        if node is None:
            node = int(self._new_nodes(vectors)[0])
            if self._root < 0:
                self._root = node
            else:
                self._descend(node)
        self._add_copy(node, id_)

    def insert_batch(self, points: Points) -> None:
        """Many sentences at once, much faster than one by one; the tree may differ, its invariants are the same."""
        check(points, self._dimension)
        self._refuse_duplicates(points.ids)
        datas = [vector.tobytes() for vector in points.vectors]
        fresh: dict[bytes, int] = {}
        for row, data in enumerate(datas):
            if data not in self._node_at:
                fresh.setdefault(data, row)
        if fresh:
            nodes = self._new_nodes(points.vectors[list(fresh.values())])
            if self._root < 0:
                self._root, nodes = int(nodes[0]), nodes[1:]
            self._place(nodes)
        for id_, data in zip(points.ids, datas, strict=True):
            self._add_copy(self._node_at[data], id_)

    def delete(self, id_: bytes) -> None:
        """One sentence. Raises UnknownSentence if it is not live.

        A node without copies goes; the subtrees of its children are inserted again, whole where their level allows.
        """
        node = self._node_of.pop(id_, None)
        if node is None:
            raise UnknownSentence(f"sentence {id_!r} is not live")
        self.n -= 1
        self._weights[node] -= 1
        copies = self._copies[node]
        if isinstance(copies, set):
            copies.remove(id_)
            if len(copies) == 1:
                self._copies[node] = copies.pop()
            return
        orphans = np.array(self._children[node], np.int32)
        if node == self._root:
            orphans = self._replace_root(orphans)
        else:
            parent = int(self._parent[node])
            self._children[parent].remove(node)
            if not self._children[parent]:
                self._reach[parent] = 0.0
        del self._node_at[self._points[node].tobytes()]
        self._children[node] = array("i")
        self._copies[node] = b""
        self._free.append(node)
        self._place(orphans)

    def _replace_root(self, children: Nodes) -> Nodes:
        """The child of the highest level, of those the nearest to the old root, is the new one; returns the others."""
        if not len(children):
            self._root = -1
            return children
        highest = children[self._level[children] == self._level[children].max()]
        nearest = self._squared(highest, self._root).argmin()
        self._root = int(highest[nearest])
        self._parent[self._root] = -1
        others: Nodes = children[children != self._root]
        return others

    def _refuse_duplicates(self, ids: Sequence[bytes]) -> None:
        seen: set[bytes] = set()
        for id_ in ids:
            if id_ in self._node_of or id_ in seen:
                raise DuplicateSentence(f"sentence {id_!r} is live already")
            seen.add(id_)

    def _add_copy(self, node: int, id_: bytes) -> None:
        copies = self._copies[node]
        if self._weights[node] == 0:
            self._copies[node] = id_
        elif isinstance(copies, set):
            copies.add(id_)
        else:
            self._copies[node] = {copies, id_}
        self._weights[node] += 1
        self._node_of[id_] = node
        self.n += 1

    def _new_nodes(self, vectors: NDArray[np.int16]) -> Nodes:
        """Nodes for new vectors, not in the tree yet."""
        reused = self._free[len(self._free) - min(len(vectors), len(self._free)) :]
        del self._free[len(self._free) - len(reused) :]
        start, more = len(self._children), len(vectors) - len(reused)
        if start + more > len(self._norms):
            self._grow(max(8, 2 * len(self._norms), start + more))
        self._children += [array("i") for _ in range(more)]
        self._copies += [b""] * more
        nodes = np.array([*reused, *range(start, start + more)], np.int32)
        norms = np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64)
        self._points[nodes] = vectors
        self._norms[nodes] = norms
        self._reach[nodes] = 0.0
        self._weights[nodes] = 0.0
        self._level[nodes] = 0
        self._parent[nodes] = -1
        self._node_at.update(zip([vector.tobytes() for vector in vectors], nodes.tolist(), strict=True))
        self._longest = max(self._longest, float(norms.max()))
        return nodes

    def _grow(self, capacity: int) -> None:
        for name in ("_points", "_norms", "_reach", "_weights", "_level", "_parent"):
            old = getattr(self, name)
            grown = np.empty((capacity, *old.shape[1:]), old.dtype)
            grown[: len(old)] = old
            setattr(self, name, grown)

    # ---- distances

    def _dots(self, nodes: Nodes, vector: Floats) -> Floats:
        """Products (m,) of nodes with a vector of integers, exact."""
        if len(nodes) <= TILE:
            product: Floats = self._points[nodes] @ vector
            return product
        return np.concatenate(
            [self._points[nodes[at : at + TILE]] @ vector for at in range(0, len(nodes), TILE)]
        )

    def _squared(self, nodes: Nodes, other: int) -> Floats:
        """Squared distances (m,) of nodes to another, exact."""
        dots = self._dots(nodes, self._points[other].astype(np.float64))
        dots *= -2.0
        dots += self._norms[nodes]
        dots += self._norms[other]
        return dots

    def _levels(self, squared: Floats) -> Nodes:
        """The level l of a child at each of these distances: R(l) < d <= R(l + 1)."""
        return (self._radii.searchsorted(squared) - 1).astype(np.int32)

    # ---- insertion

    def _attach(self, node: int, parent: int, level: int) -> None:
        self._children[parent].append(node)
        self._parent[node] = parent
        self._level[node] = level
        if self._level[parent] <= level:  # only the root: any other covers what comes to it
            self._level[parent] = level + 1

    def _descend(self, node: int) -> None:
        """Insert one leaf."""
        at, squared = self._root, float(self._squared(np.array([self._root]), node)[0])
        while True:
            self._reach[at] = max(self._reach[at], squared**0.5 * UP)
            child, nearer = self._nearest_child(at, node)
            if not nearer < squared:
                return self._attach(node, at, int(self._levels(np.array([squared]))[0]))
            at, squared = child, nearer

    def _nearest_child(self, parent: int, node: int) -> tuple[int, float]:
        """The nearest of a node's children that cover another node, and its squared distance; infinite without any."""
        if not self._children[parent]:
            return -1, inf
        children = np.frombuffer(self._children[parent], np.int32)
        squared = self._squared(children, node)
        squared[squared > self._radii[self._level[children]]] = inf
        best = squared.argmin()
        return int(children[best]), float(squared[best])

    def _place(self, items: Nodes) -> None:
        """Insert nodes that are no part of the tree, each with the subtree that hangs on it."""
        stack = [(self._root, items[at : at + BATCH]) for at in range(0, len(items), BATCH)]
        while stack:
            at, items = stack.pop()
            group = _Group(self, at, items)
            group.route()
            stack += group.onward

    def _dissolve(self, node: int) -> Nodes:
        """Take the children off a node that is no part of the tree; returns them."""
        children = np.array(self._children[node], np.int32)
        self._children[node] = array("i")
        self._reach[node] = 0.0
        return children

    # ---- queries

    def knn(self, n: int, total: Floats, k: int) -> Found:
        """The min(k, self.n) sentences nearest to total/n, ties by id."""
        if k < 1:
            raise ValueError(f"k must be at least 1, not {k}")
        query = self._query(n, total)
        nearest = _Nearest(query, self._weights, k)
        self._traverse(query, nearest)
        return self._found(nearest.nodes, nearest.keys, k)

    def range(self, n: int, total: Floats, radius: float) -> Found:
        """The sentences x with d(x, total/n) <= radius, decided exactly."""
        query = self._query(n, total)
        ball = _Ball(query, radius)
        self._traverse(query, ball)
        return self._found(*ball.inside(radius, lambda key: query.squared(key) <= Fraction(radius) ** 2))

    def reservoir_search(self, n: int, total: Floats, lam: float, k: int) -> Found:
        """Algorithm 2: the sentences with d <= d_k + lam by one traversal, d_k that of the k-th nearest; decided exactly.

        N.max is infinite while N has less than k: read literally, as the largest distance in N, the first vector would
        shut out the second. So fewer than k sentences are all found.
        """
        if k < 1 or not lam >= 0.0:
            raise ValueError(f"k must be at least 1 and lam not negative, not {k} and {lam}")
        query = self._query(n, total)
        reservoir = _Reservoir(query, self._weights, k, lam)
        self._traverse(query, reservoir)
        kth = reservoir.nearest.kth
        if kth == inf or lam == inf:
            return self._found(*reservoir.inside(inf, lambda key: True))
        certain = float(query.lowers(np.array([kth]))[0] + lam) * certificate.ROOTS

        def within(key: float) -> bool:  # sqrt(a) <= sqrt(b) + lam, in fractions
            b = query.squared(kth)
            excess = query.squared(key) - b - Fraction(lam) ** 2
            return excess <= 0 or excess * excess <= 4 * Fraction(lam) ** 2 * b

        return self._found(*reservoir.inside(certain, within))  # line 18: filter

    def nearest_distinct(self, n: int, total: Floats, count: int, ids_kept: int) -> Neighborhood:
        """What `Index.nearest` returns: the `count` nearest vectors, and those as near as the last of them."""
        query = self._query(n, total)
        nearest = _Nearest(query, np.ones(len(self._norms)), count, beyond=True)
        self._traverse(query, nearest)
        inside = nearest.keys < nearest.limit
        nodes = nearest.nodes[inside]
        copies = [self._copies_of(node) for node in nodes.tolist()]
        return Neighborhood(
            self._points[nodes],
            [len(ids) for ids in copies],
            [lowest(ids, ids_kept) for ids in copies],
            None if nearest.limit == inf else nearest.limit,
        )

    def totals(self) -> Totals:
        """Count and sum of the live sentences, and the largest squared norm, by a pass over the nodes."""
        total, longest = np.zeros(self._dimension), 0.0
        nodes = np.array(list(self._node_at.values()), np.int32)
        for at in range(0, len(nodes), TILE):
            some = nodes[at : at + TILE]
            total = total + self._weights[some] @ self._points[some].astype(np.float64)
            longest = max(longest, float(self._norms[some].max()))
        return Totals(self.n, total, longest)

    def _query(self, n: int, total: Floats) -> _Query:
        return _Query(n, total, self._dimension, self._longest)

    def _traverse(self, query: _Query, search: _Nearest | _Ball) -> None:
        """Offer every vector that can be within `search.radius` (which falls as it goes), subtrees nearest first."""
        if self._root < 0:
            return
        queue: Nodes = np.empty(0, np.int32)  # line 3's Q, of it the nodes with children: those with a reach
        lows: Floats = np.empty(0)  # lower bounds of the distances of what is below them: d(mu, q) - q.max
        found = np.array([self._root], np.int32)
        while len(found):
            keys = self._keys(query, found)
            search.offer(found, keys)  # lines 7-13
            bounds = query.lowers(keys) - self._reach[found]
            inner = (self._reach[found] > 0.0) & (bounds <= search.radius)  # lines 16, 17
            queue, lows = np.concatenate([queue, found[inner]]), np.concatenate([lows, bounds[inner]])
            near = lows <= search.radius  # line 14: r has fallen since
            queue, lows = queue[near], lows[near]
            if len(queue) > WIDTH:  # line 5: pop the nearest
                order = lows.argpartition(WIDTH)
                queue, lows = queue[order], lows[order]
            found = self._children_of(queue[:WIDTH])
            queue, lows = queue[WIDTH:], lows[WIDTH:]

    def _children_of(self, nodes: Nodes) -> Nodes:
        children = self._children
        return np.frombuffer(b"".join([children[node] for node in nodes.tolist()]), np.int32)

    def _keys(self, query: _Query, nodes: Nodes) -> Floats:
        self.visited += len(nodes)
        keys = self._dots(nodes, query.total)
        keys *= -2.0
        keys += self._norms[nodes] * query.n
        return keys

    def _copies_of(self, node: int) -> Sequence[bytes]:
        copies = self._copies[node]
        return list(copies) if isinstance(copies, set) else (copies,)

    def _found(self, nodes: Nodes, keys: Floats, most: int | None = None) -> Found:
        """The sentences at these nodes, the first `most` of them."""
        equals: dict[float, list[int]] = {}
        order = keys.argsort(kind="stable")
        for node, key in zip(nodes[order].tolist(), keys[order].tolist(), strict=True):
            equals.setdefault(key, []).append(node)
        ids: list[bytes] = []
        for of_key in equals.values():
            tied = [id_ for node in of_key for id_ in self._copies_of(node)]
            ids += sorted(tied) if most is None else heapq.nsmallest(most - len(ids), tied)
        rows = [self._node_of[id_] for id_ in ids]
        key_of = dict(zip(nodes.tolist(), keys.tolist(), strict=True))
        return Found(ids, self._points[rows], np.array([key_of[row] for row in rows], np.float64))

    # ---- what holds

    def check(self) -> None:
        """Raise AssertionError naming the first invariant that does not hold."""
        live = self._reachable()
        _require(len(live) == len(set(live.tolist())), "tree: a node is reached twice")
        _require(
            sorted(live.tolist()) == sorted(self._node_at.values()), "tree: not the nodes of the vectors"
        )
        _require(
            sorted([*live.tolist(), *self._free]) == list(range(len(self._children))), "tree: a node is lost"
        )
        self._check_copies(live)
        for node in live.tolist():
            children = np.array(self._children[node], np.int32)
            if len(children):
                self._check_family(node, children)
        self._check_reach(live)

    def _reachable(self) -> Nodes:
        level = np.array([self._root] if self._root >= 0 else [], np.int32)
        _require(bool((self._parent[level] == -1).all()), "tree: the root has a parent")
        levels = [level]
        while len(level):
            level = self._children_of(level)
            levels.append(level)
            _require(sum(map(len, levels)) <= len(self._children), "tree: a cycle")
        return np.concatenate(levels)

    def _check_copies(self, live: Nodes) -> None:
        ids: dict[bytes, int] = {}
        for node in live.tolist():
            copies = self._copies_of(node)
            _require(len(copies) == self._weights[node] >= 1, "copies: a count")
            _require(not isinstance(self._copies[node], set) or len(copies) > 1, "copies: a set of one")
            _require(self._node_at.get(self._points[node].tobytes()) == node, "copies: a vector's node")
            ids.update(dict.fromkeys(copies, node))
        _require(ids == self._node_of and len(ids) == self.n, "copies: the sentences")
        x = self._points[live].astype(np.float64)
        _require(bool((np.einsum("ij,ij->i", x, x) == self._norms[live]).all()), "norms")
        _require(bool((self._norms[live] <= self._longest).all()), "norms: the longest")

    def _check_family(self, node: int, children: Nodes) -> None:
        levels = self._level[children]
        squared = self._squared(children, node)
        _require(bool((self._parent[children] == node).all()), "nesting: a child knows another parent")
        _require(bool((levels < self._level[node]).all() and (levels >= 0).all()), "nesting: a child's level")
        _require(
            bool((squared <= self._radii[levels + 1]).all()), "covering: a child is too far from its parent"
        )
        _require(bool((squared > self._radii[levels]).all()), "separation: a child is too near to its parent")
        for level in set(levels.tolist()):
            siblings = children[levels == level]
            x = self._points[siblings].astype(np.float64)
            for at, sibling in enumerate(siblings[:-1].tolist()):
                apart = self._norms[siblings[at + 1 :]] + self._norms[sibling] - 2.0 * (x[at + 1 :] @ x[at])
                _require(bool((apart > self._radii[level]).all()), "separation: siblings are too near")

    def _check_reach(self, live: Nodes) -> None:
        leaves = [not self._children[node] for node in live.tolist()]
        _require(bool(((self._reach[live] == 0.0) == leaves).all()), "reach: of a leaf")
        below = above = live[live != self._root]
        while len(below):
            above = self._parent[above]
            apart = self._points[below].astype(np.float64) - self._points[above]
            distances = np.sqrt(np.einsum("ij,ij->i", apart, apart))
            _require(bool((distances <= self._reach[above]).all()), "reach: a descendant is farther")
            below, above = below[above != self._root], above[above != self._root]


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise AssertionError(what)


class _Group:
    """Nodes on their way down that have come to one node of the tree, `at`; all of them are routed together.

    An item with children must hang above them: farther than `need`, a squared radius, from whatever it hangs on. Where
    it cannot, its children are taken off and inserted on their own.
    """

    def __init__(self, tree: SGTree, at: int, items: Nodes) -> None:
        self.tree = tree
        self.at = at
        self.items = items
        self.x = tree._points[items].astype(np.float64)
        self.best = tree._squared(items, at)  # to the owner
        self.owner = np.full(len(items), at, np.int32)  # the node it goes to, so far; -1: it has come to rest
        self.level = tree._levels(self.best)  # its level as a child of `at`
        self.need = np.full(len(items), -1.0)
        for row, item in enumerate(items.tolist()):
            if tree._children[item]:
                highest = max([tree._level[child] for child in tree._children[item]])
                self.need[row] = tree._radii[highest + 1]
        self.blocked = self.best <= self.need
        self.onward: list[tuple[int, Nodes]] = []  # where to go next, and who

    def route(self) -> None:
        """Each item comes to rest as a child of `at`, or goes on to one."""
        tree, at = self.tree, self.at
        farthest = np.sqrt(self.best) * UP + tree._reach[self.items]
        tree._reach[at] = max(tree._reach[at], float(farthest.max()) * UP)
        rows = np.arange(len(self.items))
        for row in rows[self.blocked].tolist():
            self._dissolve(row)
        rows = np.flatnonzero(self.owner == at)
        self._consider(rows, np.array(tree._children[at], np.int32))
        while len(rows := rows[self.owner[rows] == at]):
            head, rows = rows[:CENTERS], rows[CENTERS:]
            self._consider(rows, self._settle(head))
        self._send_on()

    def _dissolve(self, row: int) -> None:
        """An item that cannot keep its children here comes again without them, and they from the root."""
        self.owner[row] = -1
        self.onward.append((self.at, self.items[row : row + 1]))
        self.onward.append((self.tree._root, self.tree._dissolve(int(self.items[row]))))

    def _consider(self, rows: NDArray[np.int64], nodes: Nodes) -> None:
        """Let items go to the nearest of these children of `at` that covers them, if it is nearer than their owner."""
        tree = self.tree
        for start in range(0, len(nodes), TILE):
            block = nodes[start : start + TILE]
            y = tree._points[block].astype(np.float64).T * -2.0
            for first in range(0, len(rows), TILE):
                part = rows[first : first + TILE]
                squared = self.x[part] @ y
                squared += tree._norms[self.items[part], None]
                squared += tree._norms[block]
                self._go(part, block, squared)

    def _go(self, rows: NDArray[np.int64], nodes: Nodes, squared: Floats) -> None:
        levels = self.tree._level[nodes]
        covered = self.tree._radii[levels]
        need = self.need[rows]
        if (need >= 0.0).any():
            near = (levels == self.level[rows, None]) & (squared <= covered)
            self.blocked[rows] |= near.any(axis=1)  # unless it finds an owner
            np.putmask(squared, squared <= need[:, None], inf)
        np.putmask(squared, squared > covered, inf)
        choice = squared.argmin(axis=1)
        nearest = squared[np.arange(len(rows)), choice]
        better = nearest < self.best[rows]
        self.best[rows[better]] = nearest[better]
        self.owner[rows[better]] = nodes[choice[better]]

    def _settle(self, rows: NDArray[np.int64]) -> Nodes:
        """One after another becomes a child of `at`, unless one before it covers it; returns the new children."""
        tree = self.tree
        items, x = self.items[rows], self.x[rows]
        apart = x @ (x.T * -2.0)
        apart += tree._norms[items, None]
        apart += tree._norms[items]
        settled: list[int] = []
        for i, row in enumerate(rows.tolist()):
            if self.owner[row] != self.at:
                continue
            if self.blocked[row]:
                self._dissolve(row)
                continue
            node = int(items[i])
            tree._attach(node, self.at, int(self.level[row]))
            self.owner[row] = -1
            settled.append(node)
            self._go(rows[i + 1 :], items[i : i + 1], apart[i + 1 :, i : i + 1])
        return np.array(settled, np.int32)

    def _send_on(self) -> None:
        rows = np.flatnonzero(self.owner >= 0)
        if not len(rows):
            return
        rows = rows[self.owner[rows].argsort(kind="stable")]
        owners = self.owner[rows]
        cuts = np.flatnonzero(owners[1:] != owners[:-1]) + 1
        for part in np.split(rows, cuts):
            self.onward.append((int(self.owner[part[0]]), self.items[part]))


class SGTreeIndex:
    """All live sentences of one entity in an SG tree that is built when it is first asked, and then kept.

    Before the first `nearest` this holds what the flat index holds: stored rows behind `scan`, as of the last `settle`,
    and the updates since. The first `nearest` builds the tree from both; from then on all sentences are in memory,
    updates are noted, and the next `nearest` brings them in as one batch (the paper's lazy variant).
    """

    def __init__(
        self, dimension: int, scan: Callable[[], Iterable[Block]] | None = None, base: float = BASE
    ) -> None:
        self.scan_cost = 1.0  # all in memory, in the end
        self._dimension = dimension
        self._scan = scan
        self._base = base
        self._tree: SGTree | None = None
        self._added: dict[bytes, bytes] = {}  # vectors that the tree, or stored rows, do not have
        self._gone: set[bytes] = set()  # sentences that they still have

    @property
    def memory_bytes(self) -> int:
        """Roughly what the tree and the notes take."""
        notes = len(self._added) * (self._dimension * 2 + 240) + 120 * len(self._gone)
        return notes + (self._tree.memory_bytes if self._tree is not None else 0)

    def update(self, removed: Points, added: Points) -> None:
        """See `Index`. Against stored rows, until they are in the tree, ids cannot be told to be unknown or live."""
        for id_ in removed.ids:
            if self._added.pop(id_, None) is not None:
                continue
            if not self._may_have(id_):
                raise UnknownSentence(f"sentence {id_!r} is not live")
            self._gone.add(id_)
        for id_, vector in zip(added.ids, added.vectors, strict=True):
            if id_ in self._added or (self._tree is not None and self._may_have(id_)):
                raise DuplicateSentence(f"sentence {id_!r} is live already")
            self._added[id_] = vector.tobytes()

    def _may_have(self, id_: bytes) -> bool:
        """Whether the tree has it, or stored rows can have it."""
        if id_ in self._gone:
            return False
        return self._scan is not None if self._tree is None else id_ in self._tree

    def settle(self) -> None:
        """See `Index`. Once the tree exists, stored rows are not read again and notes are kept for it."""
        if self._scan is not None and self._tree is None:
            self._added.clear()
            self._gone.clear()

    def totals(self) -> Totals:
        """See `Index`."""
        if self._tree is not None:
            return self._current(self._tree).totals()
        n, total, longest = 0, np.zeros(self._dimension), 0.0
        for _, vectors in self._live(named=bool(self._gone)):
            n += len(vectors)
            total = total + vectors.sum(axis=0, dtype=np.float64)
            norms = np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64)
            longest = max(longest, float(norms.max(initial=0.0)))
        return Totals(n, total, longest)

    def nearest(self, n: int, total: Floats, count: int, ids_kept: int) -> Neighborhood:
        """See `Index`. Raises UnknownSentence or DuplicateSentence where stored rows show it only now."""
        if self._tree is None:
            self._tree = self._build()
        return self._current(self._tree).nearest_distinct(n, total, count, ids_kept)

    def _build(self) -> SGTree:
        tree = SGTree(self._dimension, self._base)
        for points in self._live(named=True):
            tree.insert_batch(points)
        self._added.clear()
        self._gone.clear()
        return tree

    def _current(self, tree: SGTree) -> SGTree:
        """The tree with everything noted in it."""
        for id_ in self._gone:
            tree.delete(id_)
        self._gone.clear()
        tree.insert_batch(self._noted())
        self._added.clear()
        return tree

    def _noted(self) -> Points:
        vectors = np.frombuffer(b"".join(self._added.values()), np.int16)
        return Points(list(self._added), vectors.reshape(-1, self._dimension))

    def _live(self, *, named: bool) -> Iterator[Points]:
        """All sentences while there is no tree, in batches; with ids only if `named`."""
        missing = set(self._gone)
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
