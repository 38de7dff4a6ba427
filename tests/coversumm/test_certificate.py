"""The stated slack covers what float64 does, checked against exact arithmetic; and where integers
decide, nothing is lost.
"""

from __future__ import annotations

from fractions import Fraction
from math import isqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.coversumm.scripts import Script, adds, tight
from tests.harness.oracle import brute_force
from worker.coversumm import EntityCore, FlatIndex, Points, Step, certificate, no_points, quantize
from worker.coversumm.reservoir import Neighbors


def root(value: Fraction, *, up: bool) -> Fraction:
    """A square root within 2^-200, on the asked side."""
    scaled = value * 4**200
    floor = isqrt(scaled.numerator // scaled.denominator)
    return Fraction(floor + (1 if up else 0), 2**200)


def exact_squared(x: np.ndarray, total: np.ndarray, n: int) -> Fraction:
    return sum(
        ((Fraction(int(a)) - Fraction(int(s), n)) ** 2 for a, s in zip(x, total, strict=True)),
        Fraction(0),
    )


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([1, 3, 384]), st.sampled_from([0, 1, 300, 30000]))
def test_outside_and_kth_err_on_the_safe_side(seed: int, d: int, spread: int) -> None:
    """`outside` is below the true radius - delta, and a proof's d_k above the true one, also where
    all points almost coincide.
    """
    rng = np.random.default_rng(seed)
    center = rng.integers(-30000, 30000, d)
    vectors = np.clip(
        center + rng.integers(-spread - 2, spread + 3, (30, d)), -32767, 32767
    ).astype(np.int16)
    core = EntityCore(2, d, FlatIndex(d))
    tight(core, 1)
    core.apply(adds(vectors))
    state, reservoir = core, core.reservoir
    if state.complete():
        return
    total, n = state.total, state.n
    centroid_squared = float(total @ total) / (n * n)
    anchor = [Fraction(int(s), reservoir.anchor_n) for s in reservoir.anchor_total]
    radius = Fraction(int(reservoir.radius_key), reservoir.anchor_n) + sum(a * a for a in anchor)
    drift = sum(
        ((Fraction(int(s), n) - a) ** 2 for s, a in zip(total, anchor, strict=True)), Fraction(0)
    )
    assert Fraction(state.outside(centroid_squared)) <= root(radius, up=False) - root(
        drift, up=True
    )
    error = certificate.slack(d, state.max_squared_norm)
    for x in vectors[:5]:
        key = n * sum(int(c) ** 2 for c in x) - 2 * sum(
            int(c) * int(s) for c, s in zip(x, total, strict=True)
        )
        true = exact_squared(x, total, n)
        assert abs(Fraction(key / n + centroid_squared) - true) <= Fraction(error) / 2
        assert Fraction(certificate.upper(key / n + centroid_squared, error)) >= root(true, up=True)
        assert Fraction(certificate.lower(key / n + centroid_squared, error)) <= root(
            true, up=False
        )


def test_authors_counterexample() -> None:
    """30 points on radius 1, 72 on radius 5, then (1.001, 0): admission by `dist < d_k` loses a
    true neighbour.
    """
    angle = [2 * np.pi * np.arange(m) / m for m in (30, 72)]
    unit = 6000
    ring = [
        radius * unit * np.stack((np.cos(a), np.sin(a)), axis=1)
        for radius, a in zip((1, 5), angle, strict=True)
    ]
    vectors = np.rint(np.concatenate([*ring, [[1.001 * unit, 0]]])).astype(np.int16)
    rest = np.rint(np.random.default_rng(0).normal(size=(40, 2)) * unit).astype(np.int16)
    vectors = np.concatenate((vectors, rest))
    steps = adds(vectors)
    for k in (20, 30, 31):
        core = EntityCore(k, 2, FlatIndex(2))
        tight(core, 1)
        results = core.apply(steps)
        live: dict[bytes, np.ndarray] = {}
        before: set[bytes] = set()
        for step, result in zip(steps, results, strict=True):
            live[step.added.ids[0]] = step.added.vectors[0]
            expected = brute_force(live, k)
            changed = set(expected.ids) != before or step.added.ids[0] in expected.ids
            assert result == (expected if changed else None)
            before = set(expected.ids)


def test_equality_is_no_proof() -> None:
    """d_k + delta = radius to the last bit: another sentence may be as near, and its id may be
    lower.
    """
    core = EntityCore(1, 1, FlatIndex(1))
    core.apply(adds(np.array([[0], [10], [-10], [20]], np.int16)))
    state = core
    state.reservoir.tighten(1, 3, np.zeros(1))  # anchor 0; the nearest alone, radius 10
    state.reservoir.anchor_n = 3
    # a k-th at distance 0 from the centroid 5
    nearest = Neighbors([float(4 * 5**2 - 2 * 5 * 20)], [b"s000000"], [0])
    # at distance 5, drift 5, radius 10
    at_five = nearest._replace(keys=[4.0 * 10**2 - 2 * 10 * 20])
    assert not state.proves(at_five)
    assert state.proves(nearest)


@pytest.mark.parametrize("seed", range(8))
def test_mirror_images_at_the_edge(seed: int) -> None:
    """Every vector comes with its negative, so that distances left and right of the centroid are
    equal, rank after rank: a certificate that took equality for proof, or a float for an integer,
    would lose the lower id.
    """
    rng = np.random.default_rng(seed)
    half = rng.integers(-4, 5, (60, 2)).astype(np.int16)
    vectors = np.concatenate([[v, -v] for v in half])
    order = rng.permutation(len(vectors))
    steps = adds(vectors, [b"%03d" % i for i in order])
    live: dict[bytes, np.ndarray] = {}
    core = EntityCore(3, 2, FlatIndex(2))
    tight(core, 0)
    before: set[bytes] = set()
    for step, result in zip(steps, core.apply(steps), strict=True):
        live[step.added.ids[0]] = step.added.vectors[0]
        expected = brute_force(live, 3)
        changed = set(expected.ids) != before or step.added.ids[0] in expected.ids
        assert result == (expected if changed else None)
        before = set(expected.ids)


def test_fewer_rows_than_k_with_copies_enough() -> None:
    """Two vectors of four copies each are the whole reservoir: the one nearer to the centroid is
    shown whole, and which one that is changes by sentences far outside.
    """
    near = [(-10, 0)] * 4 + [(10, 0)] * 4
    far = [(-20000, i) for i in range(201)] + [(20000, i) for i in range(200)]
    script = Script(2, 5, distinct=False)
    for i, vector in enumerate(near + far):
        script.add([], {b"%03d" % i: vector})
    for i in range(30):
        script.add([], {b"r%02d" % i: (20000 if 5 < i < 20 else -20000, 300 + i)})
    core, expected = script.core(0), script.expected()
    before = len(near + far)
    assert core.apply(script.steps[:before]) == expected[:before]
    core.target = 1
    core.refill()
    assert core.reservoir_size == 2
    refilled = core.counters.refilled
    assert core.apply(script.steps[before:]) == expected[before:]
    assert core.counters.refilled == refilled
    assert sum(ranking is not None for ranking in expected[before:]) >= 2


def test_copies_at_the_centre_cost_no_more() -> None:
    """Ten thousand copies: one row, few ids, and steps that touch neither all ids nor the index."""
    d = 16
    x = quantize(np.ones((1, d)))
    ids = [b"c%06d" % i for i in range(10_000)]
    core = EntityCore(20, d, FlatIndex(d))
    core.apply([Step(no_points(d), Points(ids, np.repeat(x, 10_000, axis=0)))])
    assert core.reservoir_size == 1
    assert core.ranking().ids == tuple(ids[:20])
    assert core.ranking().support == (10_000,) * 20
    assert sum(map(len, core.reservoir.lowest_ids)) <= 160
    core.apply([Step(Points([ids[5000]], x), no_points(d)), Step(no_points(d), Points([b"b"], x))])
    assert core.ranking().ids == (b"b", *ids[:19])
    for start in range(0, 10_000, 100):  # lowest first: the ids held run out again and again
        gone = [id_ for id_ in ids[start : start + 100] if id_ != ids[5000]]
        core.apply([Step(Points([id_], x), no_points(d)) for id_ in gone])
        left = [id_ for id_ in ids[start + 100 : start + 120] if id_ != ids[5000]]
        assert core.ranking().ids == (b"b", *left[:19])
    assert core.counters.refilled < 10
    core.apply([Step(Points([b"b"], x), no_points(d))])
    assert (core.n, core.ranking().ids, core.total.any()) == (0, (), False)


def test_a_reservoir_that_is_trimmed_often_keeps_its_size() -> None:
    """A trim brings no anchor of its own, so it is no sign that refills come too often."""
    random, d = np.random.default_rng(7), 48
    vectors = quantize(random.normal(size=d) + 1.5 * random.normal(size=(4000, d)))
    core = EntityCore(20, d, FlatIndex(d))
    sizes = []
    for i, vector in enumerate(vectors):
        core.apply([Step(no_points(d), Points([b"%06d" % i], vector[None]))])
        sizes.append(core.reservoir_size)
    assert max(sizes[1000:]) <= 4 * core.smallest_target
