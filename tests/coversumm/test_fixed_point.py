"""Quantizing, its refusals, and the bound of exactness."""

from __future__ import annotations

from fractions import Fraction
from math import isqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tests.coversumm.scripts import adds
from worker.coversumm import (
    EntityCore,
    EntityFull,
    FlatIndex,
    Points,
    Step,
    VectorError,
    max_sentences,
    no_points,
    quantize,
    quantize_rows,
)
from worker.coversumm.fixed_point import EXACT, _squared_norms
from worker.coversumm.index.flat import keys_of


def test_is_the_formula() -> None:
    v = np.random.default_rng(0).normal(size=(50, 384)).astype(np.float32)
    x = quantize(v)
    v64 = v.astype(np.float64)
    assert x.dtype == np.int16
    assert (x == np.rint(32767 * v64 / np.linalg.norm(v64, axis=1)[:, None])).all()


def test_halves_go_to_even() -> None:
    # |v| = 2 * 32767: 5/2 = 2.5 -> 2 and 15/2 = 7.5 -> 8
    v = [[5.0, 15.0, np.sqrt(4 * 32767.0**2 - 250.0), 0.0]]
    assert quantize(v)[0, :2].tolist() == [2, 8]


@given(
    hnp.arrays(np.float64, (3, 5), elements=st.floats(-1e300, 1e300, allow_subnormal=True)),
    st.integers(-3, 3),
)
def test_extremes_are_scaled_not_lost(v: np.ndarray, power: int) -> None:
    x, invalid = quantize_rows(v)
    assert invalid.tolist() == (v == 0).all(axis=1).tolist()
    lengths = [sum(int(c) ** 2 for c in row) for row in x]
    for length, bad in zip(lengths, invalid, strict=True):
        assert length == 0 if bad else abs(isqrt(length) - 32767) <= 3


def test_a_signalling_nan_is_no_vector() -> None:
    v = np.frombuffer(bytes.fromhex("0100807f0000803f"), np.float32)[None]
    assert quantize_rows(v)[1].tolist() == [True]


def test_batch_does_not_matter() -> None:
    v = np.random.default_rng(1).normal(size=(64, 129))
    together = quantize(v)
    assert all((quantize(v[i : i + 1])[0] == together[i]).all() for i in range(64))


def test_squares_are_added_in_one_order() -> None:
    """By folding halves; another order would differ in the last place, and with it now and then a
    rounding.
    """
    v = np.random.default_rng(2).normal(size=(50, 129))
    for row, norm in zip(v.tolist(), _squared_norms(v).tolist(), strict=True):
        squares = [c * c for c in row]
        while len(squares) > 1:
            half = (len(squares) + 1) // 2
            folded = squares[half:] + [0.0] * (2 * half - len(squares))
            squares = [a + b for a, b in zip(squares[:half], folded, strict=True)]
        assert norm == squares[0]


@pytest.mark.parametrize(
    ("bad", "word"), [(0.0, "zero"), (np.nan, "not finite"), (np.inf, "not finite")]
)
def test_names_the_bad_row(bad: float, word: str) -> None:
    v = np.ones((4, 3))
    v[2] = [bad, 0.0, 0.0]
    with pytest.raises(VectorError, match=f"embedding 2 is {word}"):
        quantize(v)
    x, invalid = quantize_rows(v)
    assert invalid.tolist() == [False, False, True, False]
    assert not x[2].any()
    assert x[3].any()


@pytest.mark.parametrize("bad", [[1.0, 2.0], [[1.0], [1.0, 2.0]], [["a"]], np.ones((2, 0))])
def test_refuses_what_is_no_matrix(bad: object) -> None:
    with pytest.raises(VectorError):
        quantize(bad)  # type: ignore[arg-type]


def test_no_rows() -> None:
    assert quantize(np.empty((0, 4))).shape == (0, 4)


@pytest.mark.parametrize("d", [1, 2, 3, 100, 384, 8192])
def test_max_sentences_covers_the_longest_vector(d: int) -> None:
    """Its n keeps n|x|^2 + 2|x||S| below 2^53 for the longest possible x, and is not far from the
    largest that does.
    """
    longest = Fraction(32767) + Fraction(isqrt(d * 10**12) + 1, 2 * 10**6)
    n = max_sentences(d)
    assert 3 * n * longest**2 < EXACT
    assert 3 * n * Fraction(1001, 1000) * longest**2 > EXACT
    if d == 384:
        assert 2_780_000 < n < 2_800_000


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32))
def test_longest_vector_is_as_long_as_claimed(seed: int) -> None:
    v = np.random.default_rng(seed).normal(size=(20, 384))
    x = quantize(v).astype(np.int64)
    assert ((x**2).sum(axis=1) <= (32767 + isqrt(384) // 2 + 2) ** 2).all()


def test_full_entity_refuses_and_stays() -> None:
    """|x|^2 = 2 * 32767^2: full at the n where 3n|x|^2 would reach 2^53; removals always apply."""
    limit = (EXACT - 1) // (3 * 2 * 32767**2)
    x = np.full((1, 2), 32767, np.int16)
    core = EntityCore(2, 2, FlatIndex(2))
    core.n, core.total = limit - 1, np.full(2, (limit - 1) * 32767.0)
    core.apply([Step(no_points(2), Points([b"last"], x))])
    assert core.n == limit
    for more in (1, 20):  # alone, and among others
        with pytest.raises(EntityFull, match=str(limit + 1)):
            core.apply([Step(no_points(2), Points([b"%d" % i], x)) for i in range(more)])
        assert core.n == limit
    core.apply([Step(Points([b"last"], x), no_points(2))])
    assert core.n == limit - 1


def test_keys_are_exact_just_below_the_bound() -> None:
    """The products a float64 must hold: with the longest sums allowed, BLAS and Python integers
    agree.
    """
    rng = np.random.default_rng(3)
    d = 384
    n = max_sentences(d)
    x = quantize(rng.normal(size=(40, d)) + 1.0)
    total = np.rint(n * (x.astype(np.float64).mean(axis=0)))
    exact = [
        n * sum(c * c for c in row) - 2 * sum(c * int(s) for c, s in zip(row, total, strict=True))
        for row in x.tolist()
    ]
    assert [int(key) for key in keys_of(x, n, total)] == exact


def test_an_anchor_beyond_the_bound_is_moved() -> None:
    """Keys around the anchor are exact up to |x|^2 = 100; the first longer vector has the reservoir
    refilled.
    """
    core = EntityCore(2, 1, FlatIndex(1))
    core.apply(adds(np.array([[1], [2]], np.int16)))
    reservoir = core.reservoir
    reservoir.anchor_n = anchor_n = (EXACT - 1) // (3 * 10**2)
    core.apply(adds(np.full((20, 1), 10, np.int16), [b"a%d" % i for i in range(20)]))
    assert (reservoir.anchor_n, core.counters.refilled) == (anchor_n, 0)
    core.apply(adds(np.full((20, 1), 11, np.int16), [b"b%d" % i for i in range(20)]))
    assert core.counters.refilled == 1
    assert reservoir.anchor_n < anchor_n
