"""Queries of an SG tree around a centroid: one traversal, and the collectors of kNN and range
queries.

Queries take a centroid total/n of integers with 3*n*q < 2^53 (`fixed_point.exact`), q the largest
squared norm of the vectors and of the centroid: then keys n*|x|^2 - 2*x.S are exact, and keys
decide what is inside.
"""

from collections.abc import Callable
from fractions import Fraction
from math import inf
from typing import Protocol

import numpy as np

from worker.coversumm import certificate
from worker.coversumm.index.sgtree_nodes import UP, Floats, Nodes, Numbers

WIDTH = 64  # nodes of the frontier whose children are looked at together


class Query:
    """A centroid total/n: exact keys around it, and bounds of distances to it from keys."""

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


class TreeSearch(Protocol):
    """Collects the results of a query."""

    @property
    def radius(self) -> float:
        """An upper bound of the wanted distances, which falls during the traversal."""
        ...

    def offer(self, nodes: Numbers, keys: Floats) -> None:
        """Take in nodes."""
        ...


def traverse(nodes: Nodes, query: Query, search: TreeSearch) -> None:
    """Offer every vector that can be within `search.radius`, subtrees nearest first.

    Line numbers are those of Algorithm 2; other queries differ from it only in `search`.
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
    """The nearest so far: `want` by weight, and all as near as the last; with `beyond` the next
    nearest too.
    """

    def __init__(self, query: Query, weights: Floats, want: int, *, beyond: bool = False) -> None:
        self.query = query
        self.nodes: Numbers = np.empty(0, np.int32)
        self.keys: Floats = np.empty(0)
        self.kth = inf  # the key of the last of them; infinite while there are not enough
        self.limit = inf  # nodes with a greater key are not wanted
        self.radius = inf  # the same as a distance, not below the true one
        self._weights = weights
        self._want = want
        self._beyond = beyond

    def offer(self, nodes: Numbers, keys: Floats) -> None:
        """See `TreeSearch`."""
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


class BallSearch:
    """All nodes so far that can be within `radius`, an upper bound."""

    def __init__(self, query: Query, radius: float) -> None:
        self.query = query
        self.radius = radius
        self._nodes: list[Numbers] = []
        self._keys: list[Floats] = []

    def offer(self, nodes: Numbers, keys: Floats) -> None:
        """See `TreeSearch`."""
        near = self.query.lowers(keys) <= self.radius
        self._nodes.append(nodes[near])
        self._keys.append(keys[near])

    def inside(self, certain: float, exactly: Callable[[float], bool]) -> tuple[Numbers, Floats]:
        """Nodes and keys within `certain`, a lower bound of the radius; `exactly` decides the
        others.
        """
        nodes = np.concatenate([np.empty(0, np.int32), *self._nodes])
        keys = np.concatenate([np.empty(0), *self._keys])
        within = self.query.uppers(keys) <= certain
        doubtful = np.flatnonzero(~within & (self.query.lowers(keys) <= self.radius))
        within[doubtful] = [exactly(key) for key in keys[doubtful].tolist()]
        return nodes[within], keys[within]


def range_search(nodes: Nodes, query: Query, radius: float) -> tuple[Numbers, Floats]:
    """The nodes x with d(x, total/n) <= radius, decided exactly, and their keys."""
    ball = BallSearch(query, radius)
    traverse(nodes, query, ball)
    return ball.inside(radius, lambda key: query.squared(key) <= Fraction(radius) ** 2)


class _Reservoir(BallSearch):
    """N and R of the algorithm."""

    def __init__(self, query: Query, weights: Floats, k: int, lam: float) -> None:
        super().__init__(query, inf)
        self.nearest = Nearest(query, weights, k)
        self.lam = lam

    def offer(self, nodes: Numbers, keys: Floats) -> None:
        self.nearest.offer(nodes, keys)  # lines 7-11: into N if d <= N.max; d_k = N.max
        self.radius = (self.nearest.radius + self.lam) * UP  # line 12: r = d_k + lambda
        super().offer(nodes, keys)  # line 13: into R if d <= r


def reservoir_search(
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
        b = query.squared(kth)
        excess = query.squared(key) - b - Fraction(lam) ** 2
        return excess <= 0 or excess * excess <= 4 * Fraction(lam) ** 2 * b

    return reservoir.inside(certain, within)  # line 18: filter
