"""Algorithm 3 as printed, and the ways that change no answer: knn+range and lazy."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings

from tests.bench.paper.algorithms.brute_force import BruteForce
from tests.bench.paper.algorithms.lazy import CoverSummLazy
from tests.bench.paper.algorithms.reservoir import CoverSummReservoir
from tests.bench.paper.algorithms.tree import PaperTree
from tests.bench.paper.tests.ways import (
    ALPHAS,
    CAPACITIES,
    PRINTED,
    copies,
    on_uniform,
    paper,
    play,
    uniform,
)
from tests.coversumm.scripts import Script, adds, scripts
from worker.coversumm import Points, Step, no_points

pytestmark = pytest.mark.long


@settings(max_examples=150, deadline=None)
@given(scripts(), ALPHAS, CAPACITIES)
def test_lazy_and_knn_range_answer_as_reservoir_does(
    script: Script, alpha: float, c_max: int
) -> None:
    variants = [paper(make, script, alpha=alpha, c_max=c_max) for make in PRINTED.values()]
    for step, live in zip(script.steps, script.live, strict=True):
        assert len({variant.apply(step) for variant in variants}) == 1
        assert len({variant.reservoir_searches for variant in variants}) == 1
        assert len({variant.reservoir_size for variant in variants}) == 1
        for variant in variants:
            pending = len(variant.pending) if isinstance(variant, CoverSummLazy) else 0
            assert variant.n == variant.tree.n + pending == len(live)
            assert set(variant.reservoir.ids) <= live.keys()


def test_lazy_inserts_in_batches_and_only_to_search() -> None:
    with (
        mock.patch.object(PaperTree, "insert", autospec=True, side_effect=PaperTree.insert) as one,
        mock.patch.object(
            PaperTree, "insert_batch", autospec=True, side_effect=PaperTree.insert_batch
        ) as batch,
    ):
        eager, _ = on_uniform()
        assert one.call_count == 2000
        one.reset_mock()
        batch.reset_mock()
        lazy, _ = on_uniform(CoverSummLazy)
        assert (one.call_count, batch.call_count) == (0, lazy.reservoir_searches)
    assert lazy.reservoir_searches == eager.reservoir_searches < 200
    assert lazy.pending


@pytest.mark.parametrize("name", PRINTED)
@pytest.mark.parametrize("alpha", [1e-9, 0.003])
def test_deletion_is_right_wherever_it_searches(name: str, alpha: float) -> None:
    """Algorithm 3 on 600 uniform points, one of three taken out again: whatever step searched last
    is right.
    """
    vectors = uniform(20)[0][:600]
    variant = PRINTED[name](20, 20, b=32000.0, alpha=alpha)
    truth = BruteForce(20, 20)
    right = searched = 0
    for at, step in enumerate(adds(vectors)):
        for one in [step, Step(step.added, no_points(20))] if at % 3 == 1 else [step]:
            before = variant.reservoir_searches
            found, expected = variant.apply(one), truth.apply(one)
            right += found == expected
            if variant.reservoir_searches > before:
                searched += 1
                assert found == expected
    assert searched > 20
    assert right > 760  # of 800


def test_algorithm_3_errs_without_a_search() -> None:
    """k = 2 of a line: near ones go, R still has two, the drift is small, and a nearer one lies
    outside of R.
    """
    lost = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        vectors = np.rint(rng.normal(0, 3000, (40, 1))).astype(np.int16)
        variant, truth = CoverSummReservoir(2, 1, b=20000.0, alpha=0.01), BruteForce(2, 1)
        steps = adds(vectors)
        play(variant, steps)
        variant.apply(Step(no_points(1), Points([b"last"], vectors[:1])))
        play(truth, steps)
        truth.apply(Step(no_points(1), Points([b"last"], vectors[:1])))
        while variant.n > 5:
            gone = truth.apply(Step(no_points(1), no_points(1)))[0]
            vector = vectors[:1] if gone == b"last" else vectors[int(gone[1:]) : int(gone[1:]) + 1]
            step = Step(Points([gone], vector), no_points(1))
            before = variant.reservoir_searches
            found, expected = variant.apply(step), truth.apply(step)
            if found != expected:
                assert variant.reservoir_searches == before
                assert variant.reservoir_size >= 2  # line 11 is content
                assert variant.drift() <= variant.lam / 2
                assert set(expected) - set(variant.reservoir.ids)
                lost += 1
    assert lost > 10


def test_line_11_of_algorithm_3_at_its_edges() -> None:
    """`>` and `<`, where Algorithm 1 has `>=`: no drift at all and k left in R search nothing."""
    variant = CoverSummReservoir(2, 2, b=10.0, alpha=0.0)
    steps = copies(4)
    play(variant, steps)
    searches = variant.reservoir_searches
    for at, expected in ((0, 0), (1, 0), (2, 1)):  # three left, two, one
        variant.apply(Step(steps[at].added, no_points(2)))
        assert variant.reservoir_searches == searches + expected


def test_algorithm_3_leaves_r_as_it_was() -> None:
    rng = np.random.default_rng(3)
    vectors = rng.integers(-100, 101, (30, 3)).astype(np.int16)
    variant = CoverSummReservoir(4, 3, b=200.0, alpha=1e-6)
    steps = adds(vectors)
    play(variant, steps)
    before, mean = variant.radius(), variant.mu_last
    searches = variant.reservoir_searches
    variant.apply(Step(steps[3].added, no_points(3)))
    assert variant.reservoir_searches == searches + 1
    assert variant.mu_last is not mean
    assert variant.radius() == pytest.approx(before, rel=1e-12)


def test_what_a_lazy_tree_has_not_seen_can_be_deleted() -> None:
    variant = CoverSummLazy(1, 2, b=10.0, alpha=1.0)
    steps = copies(4)
    play(variant, steps)
    assert len(variant.pending) == 3
    with mock.patch.object(PaperTree, "delete", side_effect=AssertionError):
        assert variant.apply(Step(steps[2].added, no_points(2))) == (b"s000000",)
    assert (len(variant.pending), variant.reservoir_size) == (2, 3)
    assert variant.apply(Step(steps[0].added, no_points(2))) == (b"s000001",)
    assert (len(variant.pending), variant.tree.n, variant.reservoir_size) == (2, 0, 2)
