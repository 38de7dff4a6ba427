"""Every query of an SG tree held to its definition in Python integers, and trees to hold to it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from fractions import Fraction
from math import inf, nextafter, sqrt
from unittest import mock

import numpy as np

from tests.bench.paper.algorithms.tree import PaperTree, QueryResult
from tests.coversumm.index.sgtree.invariants import check
from tests.coversumm.scripts import points
from worker.coversumm import Points
from worker.coversumm.index import sgtree as tree
from worker.coversumm.index import sgtree_nodes as nodes
from worker.coversumm.index.sgtree_nodes import BASE

Vector = tuple[int, ...]
Live = dict[bytes, Vector]


class Truth:
    """The definition, in Python integers and fractions."""

    def __init__(self, live: Live, n: int, total: Sequence[int]) -> None:
        self.live = live
        self.key = {
            id_: n * sum(x * x for x in v) - 2 * sum(x * s for x, s in zip(v, total, strict=True))
            for id_, v in live.items()
        }
        mean_squared = Fraction(sum(s * s for s in total), n * n)
        self.squared = {id_: Fraction(key, n) + mean_squared for id_, key in self.key.items()}
        self.order = sorted(live, key=lambda id_: (self.key[id_], id_))

    def within(self, radius: float) -> list[bytes]:
        return [
            id_ for id_ in self.order if radius >= 0 and self.squared[id_] <= Fraction(radius) ** 2
        ]

    def reservoir(self, k: int, lam: float) -> list[bytes]:
        if len(self.order) < k:
            return self.order
        kth = self.squared[self.order[k - 1]]

        def inside(a: Fraction) -> bool:
            excess = a - kth - Fraction(lam) ** 2
            return excess <= 0 or excess**2 <= 4 * Fraction(lam) ** 2 * kth

        return [id_ for id_ in self.order if inside(self.squared[id_])]

    def agrees(self, found: QueryResult, ids: list[bytes], dimension: int) -> None:
        assert found.ids == ids
        assert found.keys.tolist() == [self.key[id_] for id_ in ids]
        assert found.vectors.dtype == np.int16
        assert found.vectors.shape == (len(ids), dimension)
        assert [tuple(v) for v in found.vectors.tolist()] == [self.live[id_] for id_ in ids]


def agree(tree: PaperTree, live: Live, n: int, total: Sequence[int], k: int) -> None:
    """Every query at total/n says the truth; radii and lambdas are drawn from the distances there
    are.
    """
    d, truth, at = tree.dimension, Truth(live, n, total), np.array(total, np.float64)
    truth.agrees(tree.knn(n, at, k), truth.order[:k], d)
    distances = [sqrt(truth.squared[id_]) for id_ in truth.order]
    middle = distances[len(distances) // 2] if distances else 1.0
    for radius in {0.0, middle, nextafter(middle, 0.0), nextafter(middle, inf), 1e6}:
        truth.agrees(tree.range(n, at, radius), truth.within(radius), d)
    kth = distances[k - 1] if len(distances) >= k else 0.0
    gap = max(0.0, distances[-1] - kth) if distances else 0.0
    for lam in {0.0, gap, gap / 2, max(0.0, nextafter(gap, 0.0)), nextafter(gap, inf), 1.0}:
        truth.agrees(tree.reservoir_search(n, at, lam, k), truth.reservoir(k, lam), d)
    agree_on_neighborhood(tree, truth, n, at, k)


def agree_on_neighborhood(
    tree: PaperTree, truth: Truth, n: int, total: np.ndarray, count: int
) -> None:
    found = tree.nearest_distinct(n, total, count, ids_kept=2)
    keys = sorted(truth.key[ids[0]] for ids in copies(truth.live).values())
    beyond = [key for key in keys[count:] if key > keys[count - 1]]
    assert found.radius_key == (beyond[0] if beyond else None)
    expected = {
        v: (len(ids), ids[:2])
        for v, ids in copies(truth.live).items()
        if not beyond or truth.key[ids[0]] < beyond[0]
    }
    rows = zip(found.vectors.tolist(), found.counts, found.lowest_ids, strict=True)
    assert {tuple(v): (count, low) for v, count, low in rows} == expected
    assert len(found.counts) == len(expected)


def copies(live: Live) -> dict[Vector, list[bytes]]:
    groups: dict[Vector, list[bytes]] = {}
    for id_ in sorted(live):
        groups.setdefault(live[id_], []).append(id_)
    return groups


def centroid(live: Live, dimension: int) -> tuple[int, list[int]]:
    return max(1, len(live)), [sum(v[i] for v in live.values()) for i in range(dimension)]


def batch(live: Live, dimension: int) -> Points:
    return points(live.items(), dimension)


def planted(live: Live, base: float = BASE, *, one_at_a_time: bool = False) -> PaperTree:
    dimension = len(next(iter(live.values())))
    tree = PaperTree(dimension, base)
    if one_at_a_time:
        for id_, v in live.items():
            tree.insert(id_, np.array(v, np.int16))
    else:
        tree.insert_batch(batch(live, dimension))
    check(tree)
    return tree


def random_live(seed: int, size: int, dimension: int, grid: int) -> Live:
    rng = np.random.default_rng(seed)
    rows = rng.integers(-grid, grid + 1, (size, dimension)).tolist()
    return {b"%d" % i: tuple(row) for i, row in enumerate(rows)}


@contextmanager
def small_constants() -> Iterator[None]:
    """So small that few vectors fill many tiles and batches."""
    with ExitStack() as stack:
        for module in (nodes, tree):
            stack.enter_context(mock.patch.object(module, "TILE", 3))
            stack.enter_context(mock.patch.object(module, "BATCH", 5))
        stack.enter_context(mock.patch.object(nodes, "CENTERS", 2))
        stack.enter_context(mock.patch.object(tree, "WIDTH", 2))
        yield


@contextmanager
def visits() -> Iterator[list[int]]:
    """How many vectors' distances to a centroid queries compute, a number for each look at the
    frontier.
    """
    visited: list[int] = []
    keys = tree.Query.keys

    def counted(query: tree.Query, numbers: nodes.Numbers) -> nodes.Floats:
        visited.append(len(numbers))
        return keys(query, numbers)

    with mock.patch.object(tree.Query, "keys", counted):
        yield visited
