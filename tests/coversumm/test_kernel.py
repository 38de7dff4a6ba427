"""The inner loops, compiled and in NumPy: both say what integers say."""

from __future__ import annotations

import math
from fractions import Fraction
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.coversumm.scripts import Script, one_by_one, scripts
from worker.coversumm import kernel, portable

compiled: ModuleType | None = None
if find_spec("worker.coversumm.compiled"):  # there was a C compiler when it was installed
    compiled = import_module("worker.coversumm.compiled")

KERNELS = [portable] if compiled is None else [portable, compiled]
each_kernel = pytest.mark.parametrize(
    "one", KERNELS, ids=lambda one: one.__name__.rpartition(".")[2]
)
DIMENSIONS = st.sampled_from([1, 3, 15, 16, 17, 33, 64, 384])


def test_it_is_compiled() -> None:
    if compiled is None:
        pytest.skip("no C compiler when the worker was installed: its inner loops run in NumPy")
    assert kernel.nearest is compiled.nearest


@st.composite
def vectors(draw: st.DrawFn, dimension: int, most: int = 40) -> NDArray[np.int16]:
    count = draw(st.integers(0, most))
    largest = draw(st.sampled_from([1, 3, 32767]))  # small ones have equal keys
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    return rng.integers(-largest, largest + 1, (count, dimension)).astype(np.int16)


def integers(array: NDArray[np.generic]) -> list[int]:
    return [int(number) for number in array.tolist()]


def dot(x: NDArray[np.generic], y: NDArray[np.generic]) -> int:
    return sum(a * b for a, b in zip(integers(x), integers(y), strict=True))


@each_kernel
@settings(max_examples=100, deadline=None)
@given(st.data())
def test_products_are_exact(one: ModuleType, data: st.DataObject) -> None:
    dimension = data.draw(DIMENSIONS)
    x = data.draw(vectors(dimension))
    rng = np.random.default_rng(len(x))
    anchor = rng.integers(-(2**37) // dimension, 2**37 // dimension, dimension) / 1.0
    centroid = data.draw(st.sampled_from([None, np.floor(anchor / 2)]))
    assert one.products(x, anchor, centroid) == [
        (dot(v, v), dot(v, anchor), 0 if centroid is None else dot(v, centroid)) for v in x
    ]


@each_kernel
@settings(max_examples=60, deadline=None)
@given(st.data())
def test_vectors_are_added_and_taken_away(one: ModuleType, data: st.DataObject) -> None:
    dimension = data.draw(DIMENSIONS)
    x = data.draw(vectors(dimension))
    total = np.arange(dimension) * 1.0
    one.add(total, x, 1.0)
    assert integers(total) == integers(np.arange(dimension) + x.astype(np.int64).sum(axis=0))
    one.add(total, x, -1.0)
    assert integers(total) == list(range(dimension))


@each_kernel
@settings(max_examples=100, deadline=None)
@given(st.data())
def test_the_drift_is_off_by_no_more_than_the_slack(one: ModuleType, data: st.DataObject) -> None:
    dimension = data.draw(DIMENSIONS)
    x = data.draw(vectors(dimension).filter(len))
    n, total = len(x), x.sum(axis=0, dtype=np.float64)
    centroid = total / n + data.draw(st.sampled_from([0.0, 0.25, 3.0]))
    squared_total, squared_way = one.drift(total, n, centroid)
    assert squared_total == dot(total, total)  # small enough to be exact
    way = sum(
        (Fraction(s) / n - Fraction(c)) ** 2
        for s, c in zip(total.tolist(), centroid.tolist(), strict=True)
    )
    largest = max(dot(v, v) for v in x)
    assert abs(Fraction(squared_way) - way) <= 4 * Fraction(dimension + 16) * Fraction(2) ** -52 * (
        largest + 9 * dimension
    )
    assert one.drift(total, n, None) == (squared_total, 0.0)


@each_kernel
@settings(max_examples=200, deadline=None)
@given(st.data())
def test_the_nearest_have_the_lowest_keys(one: ModuleType, data: st.DataObject) -> None:
    dimension = data.draw(DIMENSIONS)
    x = data.draw(vectors(dimension))
    n, total = len(x) + data.draw(st.integers(0, 5)), x.sum(axis=0, dtype=np.float64)
    squared_norms = np.array([dot(v, v) for v in x], np.float64)
    keys = [n * dot(v, v) - 2 * dot(v, total) for v in x]
    count = data.draw(st.integers(0, 45))
    rows, found = one.nearest(x, squared_norms, n, total, count)
    assert [keys[row] for row in rows] == found == sorted(keys)[:count]
    assert len(set(rows)) == len(rows)


@each_kernel
@settings(max_examples=200, deadline=None)
@given(st.data())
def test_a_vector_joins_as_integers_say(one: ModuleType, data: st.DataObject) -> None:
    dimension = data.draw(DIMENSIONS)
    x = np.unique(data.draw(vectors(dimension).filter(len)), axis=0)
    r, k, most = len(x) - 1, data.draw(st.integers(1, 45)), float(2**40)
    room, squared_norms = np.zeros((r + 3, dimension), np.int16), np.zeros(r + 3)
    room[:r], squared_norms[:r] = x[:r], [dot(v, v) for v in x[:r]]
    before, total = room.copy(), x[:r].sum(axis=0, dtype=np.float64)
    given = room, squared_norms, r
    if r:
        held = x[data.draw(st.integers(0, r - 1))]
        assert one.join(*given, held[None], r + 1, total, k, most, None) is None
    assert one.join(*given, x[r:], r + 1, total, k, dot(x[r], x[r]) - 1.0, None) is None
    assert (room == before).all()
    assert integers(total) == integers(x[:r].sum(axis=0, dtype=int))

    whole = x.astype(np.int64).sum(axis=0)
    keys = [(r + 1) * dot(v, v) - 2 * dot(v, whole) for v in x]
    order = sorted(range(r + 1), key=keys.__getitem__)[: k + 1]
    nearest = order[:k]
    known = data.draw(st.sampled_from([None, nearest[::-1], nearest[1:], [*nearest[1:], r + 1]]))
    found = one.join(*given, x[r:], r + 1, total, k, most, known)
    assert integers(total) == integers(whole)
    assert (room[: r + 1] == x).all()
    assert squared_norms[r] == dot(x[r], x[r])
    next_key = keys[order[k]] if len(order) > k else math.inf
    assert found[:4] == (dot(x[r], x[r]), dot(whole, whole), keys[nearest[-1]], next_key)
    if len({keys[row] for row in order}) < len(order):
        assert found[4] == ([], [])
    elif known == nearest[::-1]:
        assert found[4] is None
    else:
        assert found[4] == (nearest, [keys[row] for row in nearest])


@pytest.mark.skipif(compiled is None, reason="no C compiler when the worker was installed")
@settings(max_examples=100, deadline=None)
@given(st.data())
def test_both_say_the_same_of_distances(data: st.DataObject) -> None:
    """What is right is the business of `test_ranking`; here, that both leave the same to
    integers.
    """
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    scale = data.draw(st.sampled_from([1, 1000, 32767]))
    measured = []
    for _ in range(data.draw(st.integers(0, 4))):
        n = data.draw(st.sampled_from([1, 7, 2_000_000]))
        total = rng.integers(-n, n + 1, 8) * 1.0
        squared = math.fsum(total * total) / (n * n)
        keys = sorted((n * rng.integers(-3, 30, data.draw(st.integers(0, 5)))).tolist())
        measured.append(kernel.Measured([float(key) for key in keys], n, total, squared))
    assert compiled.distances(measured, scale) == portable.distances(measured, scale)


@pytest.mark.parametrize("one", KERNELS[1:], ids=["compiled"] * len(KERNELS[1:]))
def test_what_does_not_fit_is_refused(one: ModuleType) -> None:
    x, total = np.ones((3, 4), np.int16), np.ones(4)
    with pytest.raises(TypeError, match="vectors must have items of 2 bytes, not 8"):
        one.add(total, total, 1.0)
    with pytest.raises(ValueError, match="must be \\(m, D\\)"):
        one.products(x, np.ones(5), None)
    with pytest.raises(ValueError, match="centroid must have 4 items, not 3"):
        one.products(x, total, np.ones(3))
    with pytest.raises(ValueError, match="centroid must have 4 items, not 3"):
        one.drift(total, 1, np.ones(3))
    with pytest.raises(ValueError, match="vectors must have 8 items, not 12"):
        one.nearest(x, np.ones(2), 1, total, 2)
    with pytest.raises(ValueError, match="there must be room for one more of the r rows"):
        one.join(x, np.ones(3), 3, x[:1], 4, total, 2, 1e9, None)
    with pytest.raises(ValueError, match="vector must have 4 items, not 8"):
        one.join(x, np.ones(3), 2, x[:2], 3, total, 2, 1e9, None)
    with pytest.raises(ValueError, match="not C-contiguous"):
        one.products(x[:, ::2], np.ones(2), None)
    with pytest.raises(TypeError):
        one.distances([1], 3)
    with pytest.raises(TypeError):
        one.distances([([1], "n", total, 0.0)], 3)
    readonly = total.copy()
    readonly.setflags(write=False)
    with pytest.raises(ValueError, match="read-only"):
        one.add(readonly, x, 1.0)
    assert total.tolist() == [1.0] * 4


@settings(max_examples=60, deadline=None)
@given(scripts())
def test_the_core_is_exact_over_numpy_too(script: Script) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for name in ("add", "distances", "drift", "join", "nearest", "products"):
            patch.setattr(kernel, name, getattr(portable, name))
        assert one_by_one(script.core(None), script.steps) == script.expected()
