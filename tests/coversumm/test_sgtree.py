"""The SG tree: its invariants hold after every change, and every query says what brute force in integers says."""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Sequence
from contextlib import nullcontext
from fractions import Fraction
from math import inf, nextafter, sqrt
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.coversumm.scripts import Disk, Script, in_bulk, in_small_runs, one_by_one, points, scripts, tight
from worker.coversumm import (
    CoverSumm,
    DuplicateSentence,
    FlatIndex,
    Points,
    UnknownSentence,
    VectorError,
    no_points,
)
from worker.coversumm.index import sgtree
from worker.coversumm.index.sgtree import Found, SGTree, SGTreeIndex

Vector = tuple[int, ...]
Live = dict[bytes, Vector]
SMALL = {"TILE": 3, "WIDTH": 2, "CENTERS": 2, "BATCH": 5}  # so that few vectors fill many of them


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
        return [id_ for id_ in self.order if radius >= 0 and self.squared[id_] <= Fraction(radius) ** 2]

    def reservoir(self, k: int, lam: float) -> list[bytes]:
        if len(self.order) < k:
            return self.order
        kth = self.squared[self.order[k - 1]]

        def inside(a: Fraction) -> bool:
            excess = a - kth - Fraction(lam) ** 2
            return excess <= 0 or excess**2 <= 4 * Fraction(lam) ** 2 * kth

        return [id_ for id_ in self.order if inside(self.squared[id_])]

    def agrees(self, found: Found, ids: list[bytes], dimension: int) -> None:
        assert found.ids == ids
        assert found.keys.tolist() == [self.key[id_] for id_ in ids]
        assert found.vectors.dtype == np.int16
        assert found.vectors.shape == (len(ids), dimension)
        assert [tuple(v) for v in found.vectors.tolist()] == [self.live[id_] for id_ in ids]


def agree(tree: SGTree, live: Live, n: int, total: Sequence[int], k: int) -> None:
    """Every query at total/n says the truth; radii and lambdas are drawn from the distances there are."""
    d, truth, at = tree._dimension, Truth(live, n, total), np.array(total, np.float64)
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


def agree_on_neighborhood(tree: SGTree, truth: Truth, n: int, total: np.ndarray, count: int) -> None:
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


def planted(live: Live, base: float = sgtree.BASE, *, one_at_a_time: bool = False) -> SGTree:
    dimension = len(next(iter(live.values())))
    tree = SGTree(dimension, base)
    if one_at_a_time:
        for id_, v in live.items():
            tree.insert(id_, np.array(v, np.int16))
    else:
        tree.insert_batch(batch(live, dimension))
    tree.check()
    return tree


@st.composite
def vectors(draw: st.DrawFn, dimension: int) -> st.SearchStrategy[Vector]:
    """Grids with many copies and ties, a line, far outliers, clusters of several scales."""
    kind = draw(st.sampled_from(["grid", "line", "outliers", "scales"]))
    grid = st.integers(*draw(st.sampled_from([(-1, 1), (-4, 4), (-50, 50), (-32767, 32767)])))
    near = st.tuples(*[grid] * dimension)
    if kind == "line":
        return st.integers(-32767, 32767).map(lambda x: (x,) * dimension)
    if kind == "outliers":
        return near | st.tuples(*[st.sampled_from([-32767, 32767])] * dimension)
    if kind == "scales":
        return st.tuples(
            *[st.tuples(st.integers(0, 13), st.integers(-2, 2)).map(lambda e: e[1] * 2 ** e[0])] * dimension
        )
    return near


@settings(max_examples=200, deadline=None)
@given(st.data(), st.integers(1, 3), st.sampled_from([1.1, 1.3, 2.0, 4.0]), st.booleans())
def test_any_history_is_brute_force(data: st.DataObject, dimension: int, base: float, small: bool) -> None:
    vector = data.draw(vectors(dimension))
    tree, live, fresh = SGTree(dimension, base), {}, iter(range(10**6))
    with mock.patch.multiple(sgtree, **SMALL) if small else nullcontext():
        for _ in range(data.draw(st.integers(1, 12))):
            how = data.draw(st.sampled_from(["insert", "batch", "batch", "delete", "delete"]))
            if how == "insert":
                id_, v = b"%d" % next(fresh), data.draw(vector)
                tree.insert(id_, np.array(v, np.int16))
                live[id_] = v
            elif how == "batch":
                more = {b"%d" % next(fresh): v for v in data.draw(st.lists(vector, max_size=25))}
                tree.insert_batch(batch(more, dimension))
                live |= more
            else:
                for id_ in data.draw(
                    st.lists(st.sampled_from(sorted(live) or [b""]), unique=True, max_size=8)
                ):
                    if id_:
                        tree.delete(id_)
                        del live[id_]
            tree.check()
            assert (tree.n, len(tree)) == (len(live), len(set(live.values())))
            agree(tree, live, *centroid(live, dimension), data.draw(st.integers(1, 6)))
        n, total = (
            data.draw(st.integers(1, 9)),
            data.draw(st.lists(st.integers(-9, 9), min_size=dimension, max_size=dimension)),
        )
        agree(tree, live, n, [s * 3000 for s in total], 3)  # any centroid, not that of these sentences alone


def random_live(seed: int, size: int, dimension: int, grid: int) -> Live:
    rng = np.random.default_rng(seed)
    rows = rng.integers(-grid, grid + 1, (size, dimension)).tolist()
    return {b"%d" % i: tuple(row) for i, row in enumerate(rows)}


@pytest.mark.parametrize("one_at_a_time", [False, True])
@pytest.mark.parametrize(("dimension", "grid"), [(1, 32767), (2, 7), (3, 32767), (16, 32767)])
def test_deleting_the_root_or_inner_nodes_until_none_is_left(
    dimension: int, grid: int, one_at_a_time: bool
) -> None:
    live = random_live(dimension, 150, dimension, grid)
    tree = planted(live, one_at_a_time=one_at_a_time)
    for turn in range(1000):
        if not live:
            break
        inner = [node for node in tree._node_at.values() if tree._children[node] and node != tree._root]
        node = inner[turn % len(inner)] if inner and turn % 3 else tree._root
        for id_ in tree._copies_of(node):
            tree.delete(id_)
            del live[id_]
        tree.check()
        if turn % 10 == 0:
            agree(tree, live, *centroid(live, dimension), 5)
    assert (tree.n, len(tree), tree._root) == (0, 0, -1)
    assert tree.knn(1, np.zeros(dimension), 3).ids == []
    tree.insert(b"again", np.ones(dimension, np.int16))
    tree.check()
    assert len(tree._children) <= 150  # nodes are used again


@pytest.mark.parametrize("base", [1.1, 1.3, 2.0])
def test_a_subtree_without_its_parent_stays_together(base: float) -> None:
    """Far clusters hang below a node in the middle; when it goes, they are hung elsewhere, not inserted anew."""
    rng = np.random.default_rng(2)
    centers = [(20_000, 0), (-20_000, 0), (0, 20_000), (0, -20_000)]
    live = {b"middle": (0, 0)} | {b"center %d" % i: c for i, c in enumerate(centers)}
    for i, center in enumerate(centers):
        for j, v in enumerate((center + rng.integers(-300, 300, (30, 2))).tolist()):
            live[b"%d %d" % (i, j)] = tuple(v)
    tree = planted(live, base, one_at_a_time=True)
    before = tree._parent.copy()
    tree.delete(b"middle")
    del live[b"middle"]
    tree.check()
    nodes = np.array(list(tree._node_at.values()))
    assert (tree._parent[nodes] == before[nodes]).sum() >= 120
    agree(tree, live, *centroid(live, 2), 7)


def test_the_new_root_keeps_what_hangs_below_its_siblings() -> None:
    """A leaf is nearer to the root, and so near to a sibling with a subtree that this could not hang below it."""
    live = {b"root": (0, 0), b"leaf": (9500, 0), b"inner": (20_000, 0)}
    live |= {b"%d" % i: (20_000 + 10_600 + 60 * i, 37 * i) for i in range(30)}
    tree = planted(live, one_at_a_time=True)
    inner = tree._node_of[b"inner"]
    assert tree._parent[[inner, tree._node_of[b"leaf"]]].tolist() == [tree._root] * 2
    children = list(tree._children[inner])
    assert children
    tree.delete(b"root")
    tree.check()
    assert list(tree._children[inner])[: len(children)] == children


def test_deletion_dissolves_few_subtrees() -> None:
    live = random_live(6, 2000, 3, 32767)
    tree = planted(live)
    with mock.patch.object(SGTree, "_dissolve", autospec=True, side_effect=SGTree._dissolve) as dissolved:
        for id_ in list(live)[1:1000]:
            tree.delete(id_)
    tree.check()
    assert 0 < dissolved.call_count < 220


def test_a_deep_chain_needs_no_recursion() -> None:
    """A spiral inwards, each step 0.7 of the last: a long path of single children."""
    live: Live = {}
    at, step = 0j, 30_000 + 0j
    while abs(step) > 1:
        live[b"%d" % len(live)] = (round(at.real), round(at.imag))
        at, step = at + step, step * 0.7j
    frames, frame = 0, sys._getframe()
    while frame:
        frames, frame = frames + 1, frame.f_back
    limit = sys.getrecursionlimit()
    try:
        sys.setrecursionlimit(frames + 18)
        tree = planted(live, 1.1, one_at_a_time=True)
        depth, level = 0, np.array([tree._root], np.int32)
        while len(level):
            depth, level = depth + 1, tree._children_of(level)
        assert tree.knn(1, np.array(list(live.values())[-1], float), 1).ids == [b"%d" % (len(live) - 1)]
        tree.delete(b"0")
        tree.check()
    finally:
        sys.setrecursionlimit(limit)
    assert depth > 20


def test_collinear_vectors_in_order() -> None:
    live = {b"%05d" % i: (3 * i - 30_000, 30_000 - 3 * i) for i in range(2000)}
    for one_at_a_time in (False, True):
        tree = planted(live, one_at_a_time=one_at_a_time)
        agree(tree, live, *centroid(live, 2), 4)
        for id_ in sorted(live)[:60]:  # among them the root, again and again
            tree.delete(id_)
        tree.check()


def test_copies_are_one_node() -> None:
    tree = SGTree(2)
    x = np.array([5, -7], np.int16)
    tree.insert_batch(Points([b"%04d" % i for i in range(1000)], np.tile(x, (1000, 1))))
    tree.insert(b"0000x", x)
    tree.insert(b"a", np.array([5, -8], np.int16))
    assert (tree.n, len(tree)) == (1002, 2)
    totals = tree.totals()
    assert (totals.n, totals.total.tolist(), totals.max_squared_norm) == (1002, [5010.0, -7015.0], 89.0)
    found = tree.nearest_distinct(*totals[:2], 1, ids_kept=3)
    assert (found.counts, found.lowest_ids) == ([1001], [[b"0000", b"0000x", b"0001"]])
    assert tree.knn(*totals[:2], 2).ids == [b"0000", b"0000x"]
    for i in range(1, 1000):
        tree.delete(b"%04d" % i)
        if i % 250 == 0:
            tree.check()
    tree.delete(b"0000")
    tree.check()
    assert tree.knn(1, np.zeros(2), 9).ids == [b"0000x", b"a"]


def test_equal_keys_go_by_id_and_none_is_cut() -> None:
    ring = [(3, 4), (4, 3), (-3, 4), (5, 0), (0, -5), (-4, -3)]
    live = {b"%d" % i: v for i, v in zip([4, 9, 2, 7, 1, 5], ring, strict=True)} | {
        b"0": (6, 0),
        b"3": (1, 1),
    }
    tree = planted(live)
    assert tree.knn(1, np.zeros(2), 3).ids == [b"3", b"1", b"2"]
    assert tree.range(1, np.zeros(2), 5.0).ids == [b"3", b"1", b"2", b"4", b"5", b"7", b"9"]
    found = tree.nearest_distinct(1, np.zeros(2), 2, ids_kept=1)
    assert (len(found.counts), found.radius_key) == (7, 36.0)


def test_exact_where_float64_cannot_tell() -> None:
    """Squared distances that differ in the 17th digit: radii and lambdas just inside, at, and just outside."""
    n, total = 3 * 10**5 + 1, [10**9 + 7, -(10**9) + 9, 12345]
    live = random_live(7, 60, 3, 32767)
    live |= {
        b"twin %d" % i: v for i, v in enumerate([(32767, -32766, 1), (32766, -32767, 1), (32767, -32767, 0)])
    }
    tree = planted(live)
    for k in (1, 2, 5):
        agree(tree, live, n, total, k)
    truth, at = Truth(live, n, total), np.array(total, np.float64)
    for id_ in truth.order:
        radius = sqrt(truth.squared[id_])
        for r in (nextafter(radius, 0.0), radius, nextafter(radius, inf)):
            assert tree.range(n, at, r).ids == truth.within(r)


def test_exact_around_a_far_centroid() -> None:
    """Differences between the vectors are lost in the squared distance: its rounding goes by the centroid's length."""
    live = random_live(9, 60, 2, 3)
    tree = planted(live)
    for n in (3, 7, 1001):
        total = [n * 30_000 + 1, -n * 29_000 - 1]
        truth, at = Truth(live, n, total), np.array(total, np.float64)
        agree(tree, live, n, total, 4)
        for id_ in truth.order:
            radius = sqrt(truth.squared[id_])
            for r in (nextafter(radius, 0.0), radius, nextafter(radius, inf)):
                assert tree.range(n, at, r).ids == truth.within(r)


@pytest.mark.parametrize("infinite", [inf, 1e300])
def test_everything_is_within_an_infinite_radius(infinite: float) -> None:
    live = random_live(1, 40, 2, 100)
    tree = planted(live)
    for found in (tree.range(1, np.zeros(2), infinite), tree.reservoir_search(1, np.zeros(2), infinite, 3)):
        assert sorted(found.ids) == sorted(live)
    assert tree.range(1, np.zeros(2), -1.0).ids == []


def test_queries_prune_and_the_reservoir_search_is_one_traversal() -> None:
    live = random_live(5, 4000, 3, 32767)
    n, total = centroid(live, 3)
    at = np.array(total, np.float64)
    for one_at_a_time in (False, True):
        tree = planted(live, one_at_a_time=one_at_a_time)
        shares = []
        for query, arguments in (
            (tree.knn, (20,)),
            (tree.range, (3000.0,)),
            (tree.reservoir_search, (1000.0, 20)),
            (tree.nearest_distinct, (20, 1)),
        ):
            tree.visited = 0
            query(n, at, *arguments)
            shares.append(tree.visited / len(tree))
        assert max(shares) < 0.4
        tree.insert_batch(
            Points([b"copy %d" % i for i in range(2000)], np.tile(tree.knn(n, at, 1).vectors, (2000, 1)))
        )
        tree.visited = 0
        tree.knn(n, at, 2000)  # copies count
        assert tree.visited < 0.4 * len(tree)
        tree.visited = 0
        tree.range(n, at, inf)
        assert tree.visited == len(tree)  # each vector once


def test_refusals_name_the_culprit_and_change_nothing() -> None:
    live = random_live(3, 20, 2, 9)
    tree = planted(live)
    with pytest.raises(DuplicateSentence, match="b'3'"):
        tree.insert(b"3", np.zeros(2, np.int16))
    for ids in ([b"new", b"3"], [b"new", b"new"]):
        with pytest.raises(DuplicateSentence, match=repr(ids[1])):
            tree.insert_batch(Points(ids, np.zeros((2, 2), np.int16)))
    with pytest.raises(UnknownSentence, match="b'new'"):
        tree.delete(b"new")
    for wrong in (np.zeros(2), np.zeros(3, np.int16)):
        with pytest.raises(VectorError):
            tree.insert(b"new", wrong)
    tree.check()
    assert tree.n == 20
    with pytest.raises(ValueError, match="k must be"):
        tree.knn(1, np.zeros(2), 0)
    for k, lam in ((0, 1.0), (1, -1.0), (1, float("nan"))):
        with pytest.raises(ValueError, match="k must be"):
            tree.reservoir_search(1, np.zeros(2), lam, k)
    with pytest.raises(ValueError, match="base"):
        SGTree(2, 1.0)


def an_inner_node(tree: SGTree) -> int:
    return next(n for n in tree._node_at.values() if len(tree._children[n]) > 1 and n != tree._root)


def break_level(tree: SGTree) -> None:
    tree._level[an_inner_node(tree)] = tree._level[tree._root]


def break_covering(tree: SGTree) -> None:
    tree._level[tree._children[an_inner_node(tree)][0]] -= 1


def break_separation(tree: SGTree) -> None:
    children = tree._children[tree._root]
    tree._level[next(c for c in children if tree._level[c] + 1 < tree._level[tree._root])] += 1


def break_siblings(tree: SGTree) -> None:
    """A grandchild near its parent becomes its sibling."""
    root = tree._root
    for node in tree._node_at.values():
        parent = tree._parent[node]
        if parent not in (-1, root):
            squared = tree._squared(np.array([node]), root)
            if tree._levels(squared)[0] == tree._level[parent] and tree._parent[parent] == root:
                tree._children[parent].remove(node)
                tree._attach(node, root, int(tree._level[parent]))
                return


def break_reach(tree: SGTree) -> None:
    node = an_inner_node(tree)
    tree._reach[node] = np.nextafter(tree._reach[node] / sgtree.UP / sgtree.UP, 0)


def break_reach_of_a_leaf(tree: SGTree) -> None:
    tree._reach[next(node for node in tree._node_at.values() if not tree._children[node])] = 1.0


def break_parent(tree: SGTree) -> None:
    tree._parent[tree._children[an_inner_node(tree)][0]] = tree._root


def break_cycle(tree: SGTree) -> None:
    tree._children[an_inner_node(tree)].append(tree._root)


def lose_a_node(tree: SGTree) -> None:
    tree._children[an_inner_node(tree)].pop()


def break_norm(tree: SGTree) -> None:
    tree._norms[an_inner_node(tree)] += 1


def break_copies(tree: SGTree) -> None:
    tree._weights[an_inner_node(tree)] += 1


def break_count(tree: SGTree) -> None:
    tree.n += 1


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (break_level, "nesting: a child's level"),
        (break_covering, "covering"),
        (break_separation, "separation: a child"),
        (break_siblings, "separation: siblings"),
        (break_reach, "reach: a descendant"),
        (break_reach_of_a_leaf, "reach: of a leaf"),
        (break_parent, "nesting: a child knows"),
        (break_cycle, "tree: a cycle"),
        (lose_a_node, "tree: not the nodes"),
        (break_norm, "norms"),
        (break_copies, "copies: a count"),
        (break_count, "copies: the sentences"),
    ],
)
def test_check_names_what_is_broken(damage: object, says: str) -> None:
    tree = planted(random_live(4, 300, 2, 32767))
    damage(tree)  # type: ignore[operator]
    with pytest.raises(AssertionError, match=says):
        tree.check()


def test_memory_is_what_it_says() -> None:
    rng = np.random.default_rng(0)
    vectors = rng.integers(-32767, 32768, (3000, 64)).astype(np.int16)
    tracemalloc.start()
    try:
        tree = SGTree(64)
        tree.insert_batch(Points([b"review-%06d#0" % i for i in range(3000)], vectors))
        held = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert 0.75 < tree.memory_bytes / held < 1.3


# ---- the index


SPARE = st.sampled_from([None, 0, 1, 3])  # rows of the reservoir beyond k


@settings(max_examples=150, deadline=None)
@given(scripts(), SPARE, st.sampled_from([one_by_one, in_bulk, in_small_runs]))
def test_the_core_over_the_tree_is_the_core_over_the_flat_index(
    script: Script, spare: int | None, path
) -> None:
    results = path(script.core(spare, SGTreeIndex(script.dimension)), script.steps)
    assert results == path(script.core(spare, FlatIndex(script.dimension)), script.steps)
    assert results == script.expected()


@settings(max_examples=200, deadline=None)
@given(scripts(), SPARE, st.data())
def test_batches_settling_and_reloading_change_nothing(
    script: Script, spare: int | None, data: st.DataObject
) -> None:
    with mock.patch.multiple(sgtree, **SMALL) if data.draw(st.booleans()) else nullcontext():
        settled_and_reloaded(script, spare, data)


def settled_and_reloaded(script: Script, spare: int | None, data: st.DataObject) -> None:
    disk, results = Disk(script.dimension), []
    index = SGTreeIndex(script.dimension, disk.scan)
    core = script.core(spare, index)
    while len(results) < len(script.steps):
        at = len(results)
        steps = script.steps[at : at + data.draw(st.sampled_from([1, 2, 5, 13, 40]))]
        results += data.draw(st.sampled_from([one_by_one, in_bulk, in_small_runs]))(core, steps)
        if index._tree is not None:
            index._tree.check()
        live = script.live[len(results) - 1]
        if data.draw(st.booleans()):  # stored
            disk.live = live
            index.settle()
            if data.draw(st.booleans()):  # evicted or restarted
                index = SGTreeIndex(script.dimension, disk.scan)
                core = CoverSumm.load(script.k, script.dimension, index, distinct=script.distinct)
                tight(core, spare)
        if data.draw(st.booleans()):
            totals = index.totals()
            assert totals.n == len(live) == core.n
            assert totals.total.tolist() == core._state.total.tolist()
            norms = [float(v.astype(float) @ v.astype(float)) for v in live.values()]
            assert totals.max_squared_norm == max(norms, default=0.0)
    assert results == script.expected()
    assert core.ranking() == script.oracle(-1)


def test_nothing_is_built_before_it_is_asked_and_then_in_one_batch() -> None:
    live = random_live(8, 500, 2, 1000)
    disk = Disk(2)
    disk.live = {id_: np.array(v, np.int16) for id_, v in live.items()}
    index = SGTreeIndex(2, disk.scan)
    index.totals()
    index.update(points([(b"0", live.pop(b"0"))], 2), points([(b"new", (1, 2))], 2))
    live[b"new"] = (1, 2)
    with mock.patch.object(
        SGTree, "insert_batch", autospec=True, side_effect=SGTree.insert_batch
    ) as inserted:
        index.totals()
        assert not inserted.called
        n, total = centroid(live, 2)
        first = index.nearest(n, np.array(total, float), 5, 2)
        calls = inserted.call_count
        small = index.memory_bytes
        for i in range(300):
            index.update(no_points(2), points([(b"more %d" % i, (i, -i))], 2))
            live[b"more %d" % i] = (i, -i)
        assert inserted.call_count == calls
        assert index.memory_bytes > small + 300 * 100
        index.settle()  # the tree has the earlier sentences in memory: stored rows are not read again
        disk.live = {}
        n, total = centroid(live, 2)
        second = index.nearest(n, np.array(total, float), 5, 2)
        assert inserted.call_count == calls + 1
    assert len(first.counts) >= 5 <= len(second.counts)
    assert index._tree is not None
    index._tree.check()
    agree(index._tree, live, n, total, 5)


def test_settled_notes_are_stored_rows() -> None:
    disk = Disk(1)
    index = SGTreeIndex(1, disk.scan)
    index.update(no_points(1), points([(b"a", (1,)), (b"b", (2,))], 1))
    index.update(points([(b"a", (1,))], 1), no_points(1))
    disk.live = {b"b": np.array([2], np.int16)}
    index.settle()
    assert index.memory_bytes == 0
    assert index.nearest(1, np.array([2.0]), 3, 1).lowest_ids == [[b"b"]]
    unsettled = SGTreeIndex(1)
    unsettled.update(no_points(1), points([(b"a", (1,))], 1))
    unsettled.settle()
    assert unsettled.totals().n == 1


def test_the_index_refuses_what_it_can_tell() -> None:
    x = points([(b"a", (1, 1))], 2)
    disk = Disk(2)
    for index in (SGTreeIndex(2), SGTreeIndex(2, disk.scan)):
        index.update(no_points(2), x)
        for _ in range(2):
            with pytest.raises(DuplicateSentence, match="b'a'"):
                index.update(no_points(2), x)
            assert index.nearest(1, np.ones(2), 1, 1).counts == [1]  # now in the tree
        index.update(x, no_points(2))
        for _ in range(2):
            with pytest.raises(UnknownSentence, match="b'a'"):
                index.update(x, no_points(2))
            assert index.totals().n == 0
        index.update(no_points(2), x)
        assert index.totals().n == 1
    with pytest.raises(UnknownSentence, match="b'a'"):
        SGTreeIndex(2).update(x, no_points(2))
    stored = SGTreeIndex(2, disk.scan)
    stored.update(x, no_points(2))  # cannot be told yet
    with pytest.raises(UnknownSentence, match="b'a'"):
        stored.update(x, no_points(2))
    with pytest.raises(UnknownSentence, match="b'a'"):
        stored.nearest(1, np.ones(2), 1, 1)
    disk.live = {b"a": np.ones(2, np.int16)}
    twice = SGTreeIndex(2, disk.scan)
    twice.update(no_points(2), x)
    with pytest.raises(DuplicateSentence, match="b'a'"):
        twice.nearest(2, np.ones(2), 1, 1)
