"""The SG tree: its invariants hold after every change, and every query says what brute force in
integers says.
"""

from __future__ import annotations

import sys
import tracemalloc
from contextlib import nullcontext
from math import inf, nextafter, sqrt
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.bench.paper.algorithms.tree import PaperTree
from tests.coversumm.index.sgtree.invariants import check
from tests.coversumm.index.sgtree.truth import (
    Live,
    Truth,
    Vector,
    agree,
    batch,
    centroid,
    planted,
    random_live,
    small_constants,
    visits,
)
from worker.coversumm import DuplicateSentence, Points, UnknownSentence, VectorError
from worker.coversumm.index import sgtree_nodes as insertion


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
            *[st.tuples(st.integers(0, 13), st.integers(-2, 2)).map(lambda e: e[1] * 2 ** e[0])]
            * dimension
        )
    return near


@settings(max_examples=100, deadline=None)
@given(st.data(), st.integers(1, 3), st.sampled_from([1.1, 1.3, 2.0, 4.0]), st.booleans())
def test_any_history_is_brute_force(
    data: st.DataObject, dimension: int, base: float, small: bool
) -> None:
    vector = data.draw(vectors(dimension))
    tree, live, fresh = PaperTree(dimension, base), {}, iter(range(10**6))
    with small_constants() if small else nullcontext():
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
            check(tree)
            assert (tree.n, len(tree)) == (len(live), len(set(live.values())))
            agree(tree, live, *centroid(live, dimension), data.draw(st.integers(1, 6)))
        n, total = (
            data.draw(st.integers(1, 9)),
            data.draw(st.lists(st.integers(-9, 9), min_size=dimension, max_size=dimension)),
        )
        # any centroid, not that of these sentences alone
        agree(tree, live, n, [s * 3000 for s in total], 3)


@pytest.mark.parametrize("one_at_a_time", [False, True])
@pytest.mark.parametrize(("dimension", "grid"), [(1, 32767), (2, 7), (3, 32767), (16, 32767)])
def test_deleting_the_root_or_inner_nodes_until_none_is_left(
    dimension: int, grid: int, one_at_a_time: bool
) -> None:
    live = random_live(dimension, 90, dimension, grid)
    tree = planted(live, one_at_a_time=one_at_a_time)
    for turn in range(1000):
        if not live:
            break
        inner = [
            node
            for node in tree.nodes.of_vector.values()
            if tree.nodes.children[node] and node != tree.nodes.root
        ]
        node = inner[turn % len(inner)] if inner and turn % 3 else tree.nodes.root
        for id_ in tree.sentences.at(node):
            tree.delete(id_)
            del live[id_]
        check(tree)
        if turn % 10 == 0:
            agree(tree, live, *centroid(live, dimension), 5)
    assert (tree.n, len(tree), tree.nodes.root) == (0, 0, -1)
    assert tree.knn(1, np.zeros(dimension), 3).ids == []
    tree.insert(b"again", np.ones(dimension, np.int16))
    check(tree)
    assert len(tree.nodes.children) <= 90  # nodes are used again


def test_deletion_dissolves_few_subtrees() -> None:
    live = random_live(6, 2000, 3, 32767)
    tree = planted(live)
    routing = insertion._Routing
    with mock.patch.object(
        routing, "_dissolve", autospec=True, side_effect=routing._dissolve
    ) as dissolved:
        for id_ in list(live)[1:1000]:
            tree.delete(id_)
    check(tree)
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
        depth, level = 0, np.array([tree.nodes.root], np.int32)
        while len(level):
            depth, level = depth + 1, tree.nodes.children_of(level)
        assert tree.knn(1, np.array(list(live.values())[-1], float), 1).ids == [
            b"%d" % (len(live) - 1)
        ]
        tree.delete(b"0")
        check(tree)
    finally:
        sys.setrecursionlimit(limit)
    assert depth > 20


def test_exact_where_float64_cannot_tell() -> None:
    """Squared distances that differ in the 17th digit: radii and lambdas just inside, at, and just
    outside.
    """
    n, total = 3 * 10**5 + 1, [10**9 + 7, -(10**9) + 9, 12345]
    live = random_live(7, 60, 3, 32767)
    live |= {
        b"twin %d" % i: v
        for i, v in enumerate([(32767, -32766, 1), (32766, -32767, 1), (32767, -32767, 0)])
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
    """Differences between the vectors are lost in the squared distance: its rounding goes by the
    centroid's length.
    """
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
            with visits() as visited:
                query(n, at, *arguments)
            shares.append(sum(visited) / len(tree))
        assert max(shares) < 0.4
        tree.insert_batch(
            Points(
                [b"copy %d" % i for i in range(2000)],
                np.tile(tree.knn(n, at, 1).vectors, (2000, 1)),
            )
        )
        with visits() as visited:
            tree.knn(n, at, 2000)  # copies count
        assert sum(visited) < 0.4 * len(tree)
        with visits() as visited:
            tree.range(n, at, inf)
        assert sum(visited) == len(tree)  # each vector once


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
    check(tree)
    assert tree.n == 20
    with pytest.raises(ValueError, match="k must be"):
        tree.knn(1, np.zeros(2), 0)
    for k, lam in ((0, 1.0), (1, -1.0), (1, float("nan"))):
        with pytest.raises(ValueError, match="k must be"):
            tree.reservoir_search(1, np.zeros(2), lam, k)
    with pytest.raises(ValueError, match="base"):
        PaperTree(2, 1.0)


def test_memory_is_what_it_says() -> None:
    rng = np.random.default_rng(0)
    vectors = rng.integers(-32767, 32768, (3000, 64)).astype(np.int16)
    tracemalloc.start()
    try:
        tree = PaperTree(64)
        tree.insert_batch(Points([b"review-%06d#0" % i for i in range(3000)], vectors))
        held = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert 0.75 < tree.memory_bytes / held < 1.3
