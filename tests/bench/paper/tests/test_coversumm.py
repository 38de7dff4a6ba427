"""Algorithm 1 as printed: right where its lines are, wrong where they are, and nowhere else."""

from __future__ import annotations

from math import inf, log, nextafter, sqrt
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.bench.paper.algorithms.brute_force import BruteForce
from tests.bench.paper.algorithms.decay import CoverSummDecay
from tests.bench.paper.algorithms.random_admission import CoverSummRandom
from tests.bench.paper.algorithms.reservoir import CoverSummReservoir
from tests.bench.paper.algorithms.variants import make_variant
from tests.bench.paper.tests.ways import (
    ALPHAS,
    CAPACITIES,
    PRINTED,
    copies,
    on_uniform,
    oracle,
    paper,
    play,
    repaired,
    uniform,
    without_removals,
)
from tests.coversumm.scripts import Script, adds, scripts
from worker.coversumm import Points, Step, no_points

pytestmark = pytest.mark.long


@settings(max_examples=200, deadline=None)
@given(scripts(), st.sampled_from(list(PRINTED)), ALPHAS, CAPACITIES)
def test_line_16_is_the_only_fault_of_algorithm_1(
    script: Script, name: str, alpha: float, c_max: int
) -> None:
    script = without_removals(script)
    variant = paper(repaired(PRINTED[name]), script, alpha=alpha, c_max=c_max)
    assert play(variant, script.steps) == oracle(script)


@settings(max_examples=100, deadline=None)
@given(scripts(), st.booleans(), ALPHAS, CAPACITIES)
def test_if_all_join_nothing_is_lost(
    script: Script, random: bool, alpha: float, c_max: int
) -> None:
    script = without_removals(script)
    make, everyone = (CoverSummRandom, {"p": 1.0}) if random else (CoverSummDecay, {"c1": inf})
    assert play(paper(make, script, alpha=alpha, c_max=c_max, **everyone), script.steps) == oracle(
        script
    )


@pytest.mark.parametrize("name", PRINTED)
def test_a_fitting_alpha_is_right_and_searches_seldom(name: str) -> None:
    variant, errors = on_uniform(PRINTED[name], alpha=0.002)
    assert not errors
    assert 20 < variant.reservoir_searches < 100
    assert 20 < variant.reservoir_size < 100


def test_a_tiny_alpha_is_right_and_searches_nearly_always() -> None:
    variant, errors = on_uniform(alpha=1e-5)
    assert not errors
    assert variant.reservoir_searches > 1700


def test_a_generous_alpha_errs_at_the_start() -> None:
    """Line 16: r is small while few are known, line 9 is content, and line 20 turns sentences away
    that are needed.
    """
    _, errors = on_uniform(alpha=0.01)
    assert 0 < len(errors) <= 20
    assert max(errors) < 30


def test_far_too_generous_an_alpha_never_sees_a_second_sentence() -> None:
    """At t = 1 line 16 makes r = 0, and no drift ever reaches half of lambda."""
    variant, errors = on_uniform(alpha=1.0)
    assert errors == list(range(1, 2000))
    assert (variant.reservoir_searches, variant.reservoir_size) == (1, 1)


def test_a_reservoir_that_is_always_full_searches_always() -> None:
    variant, errors = on_uniform(alpha=0.002, c_max=20)
    assert max(errors, default=0) <= 20
    assert variant.reservoir_searches >= 1980


@pytest.mark.parametrize("name", PRINTED)
def test_a_true_neighbour_that_line_16_loses(name: str) -> None:
    """30 points at distance 1, 72 at 5, their mean searched at last; then one comes at 1.001 and is
    turned away.

    All of R, complete up to d_k + lambda > 1.001, lies at 1: so r = 1. But the newcomer draws the
    centroid to its side, farther from most of the 30 than from itself.
    """
    unit = 6000

    def ring(count: int, radius: int) -> NDArray[np.float64]:
        angles = 2 * np.pi * np.arange(count) / count
        return radius * unit * np.stack((np.cos(angles), np.sin(angles)), axis=1)

    vectors = np.rint(np.concatenate((ring(30, 1), ring(72, 5), [[1.001 * unit, 0]]))).astype(
        np.int16
    )
    steps = adds(vectors)
    variant = PRINTED[name](20, 2, b=10.0 * unit, alpha=1e-4)
    play(variant, steps[:-1])
    assert variant.reservoir_size == 30
    searches, before = variant.reservoir_searches, variant.mu_last
    found = variant.apply(steps[-1])
    truth = play(BruteForce(20, 2), steps)[-1]
    newcomer = steps[-1].added.ids[0]
    assert (newcomer in truth, newcomer in found) == (True, False)
    assert variant.reservoir_searches == searches
    assert before is not None
    assert unit < np.linalg.norm(vectors[-1] - before) < unit + variant.lam
    assert play(repaired(PRINTED[name])(20, 2, b=10.0 * unit, alpha=1e-4), steps)[-1] == truth


@pytest.mark.parametrize("d", [1, 7])
def test_lambda_as_printed(d: int) -> None:
    """Equation 4 with delta = 1/t; Algorithm 3's without b and with the 2 below."""
    vectors = (1000 * np.eye(12, d) + np.arange(12)[:, None]).astype(np.int16)
    variant = CoverSummReservoir(2, d, b=50.0, alpha=1e-12)  # so small that every step searches
    for t, step in enumerate(adds(vectors), 1):
        variant.apply(step)
        assert variant.lam == pytest.approx(sqrt(2 * 1e-12 * d * 2500 * log(2 * t) / t), rel=1e-12)
    variant.apply(Step(Points([b"s%06d" % i for i in range(3)], vectors[:3]), no_points(d)))
    assert variant.lam == pytest.approx(sqrt(1e-12 * d * log(2 * 12) / (2 * (12 - 3))), rel=1e-12)
    assert variant.reservoir_searches == 13


def test_line_9_at_its_edges() -> None:
    """`>=` twice: without lambda the least drift, 0, searches; a reservoir of c_max is full."""
    variant = CoverSummReservoir(1, 2, b=10.0, alpha=0.0)
    assert [play(variant, [step]) and variant.reservoir_searches for step in copies(5)] == [
        1,
        2,
        3,
        4,
        5,
    ]
    variant = CoverSummReservoir(1, 2, b=10.0, alpha=1.0, c_max=3)
    assert [play(variant, [step]) and variant.reservoir_searches for step in copies(6)] == [
        1,
        1,
        1,
        2,
        3,
        4,
    ]
    assert variant.reservoir_size == 6  # nothing cuts what a search brings


def test_line_20_at_its_edge() -> None:
    """At distance r, here 0, a sentence joins."""
    variant = CoverSummReservoir(1, 2, b=10.0, alpha=1.0)
    play(variant, copies(4))
    assert (variant.reservoir_size, variant.reservoir_searches) == (4, 1)


@pytest.mark.parametrize("name", ["coversumm-random", "coversumm-decay"])
def test_random_and_decay_miss(name: str) -> None:
    _, steps, truth = uniform(20)
    found = play(make_variant(name, dimension=20, b=32000.0, alpha=0.002), steps)
    right = sum(said == right for said, right in zip(found, truth, strict=True))
    assert 200 < right < 1600


def test_the_coin() -> None:
    """None join for p = 0; the seed decides who else; and a step that searches tosses none."""
    nobody, no_errors = on_uniform(CoverSummRandom, p=0.0)
    decayed, errors = on_uniform(CoverSummDecay, c1=-1.0)
    assert errors == no_errors
    assert nobody.reservoir_size == decayed.reservoir_size
    first, second, other = (on_uniform(CoverSummRandom, seed=seed) for seed in (1, 1, 2))
    assert first[1] == second[1] != other[1]
    assert first[1] != no_errors
    tossed = CoverSummRandom(1, 2, b=10.0, alpha=0.0)
    with mock.patch.object(tossed, "coin", side_effect=AssertionError):
        play(tossed, copies(3))


@pytest.mark.parametrize("c2", [0.0, 0.3])
def test_the_decaying_threshold(c2: float) -> None:
    """At t = 2 the drift is 50: it joins if that is at most c1 exp(-2 c2)."""
    edge = 50.0 / np.exp(-2 * c2)
    for c1, size in ((nextafter(edge, 0) * (1 - 1e-12), 1), (edge * (1 + 1e-12), 2)):
        variant = CoverSummDecay(1, 1, b=1000.0, alpha=1.0, c1=c1, c2=c2)
        play(variant, adds(np.array([[0], [100]], np.int16)))
        assert (variant.reservoir_size, variant.reservoir_searches) == (size, 1)
    assert CoverSummDecay(1, 1, b=1000.0).c1 == 1.5
