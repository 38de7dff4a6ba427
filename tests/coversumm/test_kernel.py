"""The inner loops say what integers say."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from worker.coversumm import kernel

DIMENSIONS = st.sampled_from([1, 3, 15, 16, 17, 33, 64, 384])


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


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_products_are_exact(data: st.DataObject) -> None:
    dimension = data.draw(DIMENSIONS)
    x = data.draw(vectors(dimension))
    rng = np.random.default_rng(len(x))
    anchor = rng.integers(-(2**37) // dimension, 2**37 // dimension, dimension) / 1.0
    centroid = data.draw(st.sampled_from([None, np.floor(anchor / 2)]))
    assert kernel.products(x, anchor, centroid) == [
        (dot(v, v), dot(v, anchor), 0 if centroid is None else dot(v, centroid)) for v in x
    ]


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_vectors_are_added_and_taken_away(data: st.DataObject) -> None:
    dimension = data.draw(DIMENSIONS)
    x = data.draw(vectors(dimension))
    total = np.arange(dimension) * 1.0
    kernel.add(total, x, 1.0)
    assert integers(total) == integers(np.arange(dimension) + x.astype(np.int64).sum(axis=0))
    kernel.add(total, x, -1.0)
    assert integers(total) == list(range(dimension))


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_the_drift_is_off_by_no_more_than_the_slack(data: st.DataObject) -> None:
    dimension = data.draw(DIMENSIONS)
    x = data.draw(vectors(dimension).filter(len))
    n, total = len(x), x.sum(axis=0, dtype=np.float64)
    centroid = total / n + data.draw(st.sampled_from([0.0, 0.25, 3.0]))
    squared_total, squared_way = kernel.drift(total, n, centroid)
    assert squared_total == dot(total, total)  # small enough to be exact
    way = sum(
        (Fraction(s) / n - Fraction(c)) ** 2
        for s, c in zip(total.tolist(), centroid.tolist(), strict=True)
    )
    largest = max(dot(v, v) for v in x)
    assert abs(Fraction(squared_way) - way) <= 4 * Fraction(dimension + 16) * Fraction(2) ** -52 * (
        largest + 9 * dimension
    )
    assert kernel.drift(total, n, None) == (squared_total, 0.0)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_the_nearest_have_the_lowest_keys(data: st.DataObject) -> None:
    dimension = data.draw(DIMENSIONS)
    x = data.draw(vectors(dimension))
    n, total = len(x) + data.draw(st.integers(0, 5)), x.sum(axis=0, dtype=np.float64)
    squared_norms = np.array([dot(v, v) for v in x], np.float64)
    keys = [n * dot(v, v) - 2 * dot(v, total) for v in x]
    count = data.draw(st.integers(0, 45))
    rows, found = kernel.nearest(x, squared_norms, n, total, count)
    assert [keys[row] for row in rows] == found == sorted(keys)[:count]
    assert len(set(rows)) == len(rows)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_a_vector_joins_as_integers_say(data: st.DataObject) -> None:
    dimension = data.draw(DIMENSIONS)
    x = np.unique(data.draw(vectors(dimension).filter(len)), axis=0)
    r, k, most = len(x) - 1, data.draw(st.integers(1, 45)), float(2**40)
    room, squared_norms = np.zeros((r + 3, dimension), np.int16), np.zeros(r + 3)
    room[:r], squared_norms[:r] = x[:r], [dot(v, v) for v in x[:r]]
    before, total = room.copy(), x[:r].sum(axis=0, dtype=np.float64)
    given = room, squared_norms, r
    if r:
        held = x[data.draw(st.integers(0, r - 1))]
        assert kernel.join(*given, held[None], r + 1, total, k, most, None) is None
    assert kernel.join(*given, x[r:], r + 1, total, k, dot(x[r], x[r]) - 1.0, None) is None
    assert (room == before).all()
    assert integers(total) == integers(x[:r].sum(axis=0, dtype=int))

    whole = x.astype(np.int64).sum(axis=0)
    keys = [(r + 1) * dot(v, v) - 2 * dot(v, whole) for v in x]
    order = sorted(range(r + 1), key=keys.__getitem__)[: k + 1]
    nearest = order[:k]
    known = data.draw(st.sampled_from([None, nearest[::-1], nearest[1:], [*nearest[1:], r + 1]]))
    found = kernel.join(*given, x[r:], r + 1, total, k, most, known)
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
