"""The exact variants say what the definition says; the paper's err where its lines do, and nowhere else."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import cache
from math import inf, log, nextafter, sqrt
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.bench.paper.naive import NaiveFaiss, NaiveHnsw, library
from tests.coversumm.scripts import Script, adds, points, scripts, tight
from worker.coversumm import (
    DuplicateSentence,
    EntityFull,
    Points,
    Step,
    UnknownSentence,
    VectorError,
    brute_force,
    no_points,
)
from worker.coversumm.index.sgtree import SGTree
from worker.coversumm.paper.brute_force import BruteForce
from worker.coversumm.paper.centroid import Variant
from worker.coversumm.paper.decay import CoverSummDecay
from worker.coversumm.paper.exact import Ours
from worker.coversumm.paper.knn_range import CoverSummKnnRange
from worker.coversumm.paper.lazy import CoverSummLazy
from worker.coversumm.paper.random_admission import CoverSummRandom
from worker.coversumm.paper.reservoir import CoverSummReservoir
from worker.coversumm.paper.variants import NAMES, make_variant

Ids = tuple[bytes, ...]
PRINTED: dict[str, type[CoverSummReservoir]] = {
    "coversumm-knn-range": CoverSummKnnRange,
    "coversumm-reservoir": CoverSummReservoir,
    "coversumm-lazy": CoverSummLazy,
}
ALPHAS = st.sampled_from([0.0, 1e-4, 0.01, 0.3, 10.0])
CAPACITIES = st.sampled_from([1, 6, 100])


HNSW = pytest.param("naive-hnsw", marks=pytest.mark.hnsw)  # hnswlib is compiled when it is installed


EXACT: dict[str, Callable[[int, int], Variant]] = {
    "brute-force": lambda k, d: make_variant("brute-force", k=k, dimension=d, b=2.0),
    "naive-cover-tree": lambda k, d: make_variant("naive-cover-tree", k=k, dimension=d, b=2.0),
    "naive-faiss": NaiveFaiss,
    "exact": lambda k, d: make_variant("exact", k=k, dimension=d, b=2.0),
}


def play(variant: Variant, steps: Sequence[Step]) -> list[Ids]:
    return [variant.apply(step) for step in steps]


def oracle(script: Script) -> list[Ids]:
    return [brute_force(live, script.k).ids for live in script.live]


def width(script: Script) -> float:
    """The b of a script's vectors."""
    return 2.0 * max((int(np.abs(v).max()) for live in script.live for v in live.values()), default=1)


def paper(make: type[CoverSummReservoir], script: Script, **parameters: Any) -> CoverSummReservoir:
    return make(script.k, script.dimension, b=width(script), **parameters)


def without_removals(script: Script) -> Script:
    """The same sentences, each added where it first comes and never removed."""
    kept = Script(script.dimension, script.k, False)
    for step in script.steps:
        live = kept.live[-1] if kept.live else {}
        fresh = zip(step.added.ids, step.added.vectors, strict=True)
        kept.add([], {id_: tuple(vector.tolist()) for id_, vector in fresh if id_ not in live})
    return kept


def drifting(seed: int) -> Script:
    """300 events around a moving mean: copies, ties, edits, removals, now and then of half of everything."""
    rng = np.random.default_rng(seed)
    script = Script(3, 5, False)
    grid = [2, 8, 40, 2000, 30000][seed]
    for t in range(300):
        live = list(script.live[-1]) if script.live else []
        removed = [live[rng.integers(len(live))]] if live and rng.random() < 0.3 else []
        if t in (120, 200):
            removed = live[::2]
        center = grid * np.array([t / 600, 0, -t / 1200])
        fresh = {b"%d" % (1000 + t): tuple(np.rint(center + grid / 4 * rng.normal(size=3)).astype(int))}
        if removed and rng.random() < 0.3:
            fresh[removed[0]] = tuple(np.rint(center).astype(int))
        script.add(removed, fresh)
    return script


@cache
def uniform(dimension: int) -> tuple[NDArray[np.int16], list[Step], list[Ids]]:
    """2,000 vectors of a cube, as steps, and the 20 nearest after each."""
    vectors = np.random.default_rng(7).integers(-16000, 16001, (2000, dimension)).astype(np.int16)
    steps = adds(vectors)
    return vectors, steps, play(BruteForce(20, dimension), steps)


def on_uniform(
    make: type[CoverSummReservoir] = CoverSummReservoir, dimension: int = 20, **parameters: Any
) -> tuple[CoverSummReservoir, list[int]]:
    """CoverSumm on `uniform`, and the steps at which it errs."""
    _, steps, truth = uniform(dimension)
    variant = make(20, dimension, b=32000.0, **parameters)
    found = play(variant, steps)
    return variant, [at for at, (said, right) in enumerate(zip(found, truth, strict=True)) if said != right]


# ---- exact


@pytest.mark.parametrize("name", EXACT)
@settings(max_examples=150, deadline=None)
@given(script=scripts(), spare=st.sampled_from([None, 0, 3]))
def test_exact_variants_are_the_oracle(name: str, script: Script, spare: int | None) -> None:
    variant = EXACT[name](script.k, script.dimension)
    if isinstance(variant, Ours):
        tight(variant.core, spare)
    assert play(variant, script.steps) == oracle(script)


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("seed", range(5))
def test_exact_variants_on_drifting_streams(name: str, seed: int) -> None:
    script = drifting(seed)
    variant = EXACT[name](5, 3)
    if isinstance(variant, Ours):
        tight(variant.core, 1)
    assert play(variant, script.steps) == oracle(script)
    assert variant.reservoir_searches == 300 or (name == "exact" and 0 < variant.reservoir_searches < 300)
    assert (variant.reservoir_size > 0) == (name == "exact")


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("dimension", [20, 100])
def test_exact_variants_on_a_long_stream(name: str, dimension: int) -> None:
    vectors, steps, truth = uniform(dimension)
    assert play(EXACT[name](20, dimension), steps) == truth
    live = {b"s%06d" % i: v for i, v in enumerate(vectors)}
    assert truth[-1] == brute_force(live, 20).ids


@pytest.mark.parametrize("seed", range(4))
def test_faiss_where_float32_cannot_tell(seed: int) -> None:
    """A grain of sentences far from the origin: their distances drown in float32, the answer must not."""
    rng = np.random.default_rng(seed)
    around = rng.integers(28000, 30000, 40)
    vectors = (around + rng.integers(-1, 2, (150, 40))).astype(np.int16)
    vectors[100:130] = vectors[100]  # copies
    steps = adds(vectors, [b"%d" % i for i in rng.permutation(150)])
    variant = NaiveFaiss(4, 40)
    asked = []
    with mock.patch.object(
        variant, "_keys", side_effect=lambda labels: asked.append(len(labels)) or keys(labels)
    ):
        keys = type(variant)._keys.__get__(variant)
        assert play(variant, steps) == play(BruteForce(4, 40), steps)
    assert max(asked) == 150  # in doubt all of them
    assert min(asked) == 1


def test_faiss_asks_for_few_where_float32_can_tell() -> None:
    _, steps, _ = uniform(100)
    variant = NaiveFaiss(20, 100)
    play(variant, steps)
    with (
        mock.patch.object(variant, "_keys", side_effect=AssertionError) as keys,
        pytest.raises(AssertionError),
    ):
        variant.apply(Step(no_points(100), Points([b"one more"], np.ones((1, 100), np.int16))))
    assert len(keys.call_args.args[0]) == 40


# ---- Algorithm 1


def repaired(make: type[CoverSummReservoir]) -> type[CoverSummReservoir]:
    """Algorithm 1 with line 16 put right: r = d_k + lambda, within which R is complete."""

    class Repaired(make):  # type: ignore[misc, valid-type]
        def reinitialise_reservoir(self) -> float:
            farthest = super().reinitialise_reservoir()
            if self.n < self.k:
                return inf
            d_k = self.distance_from_last(float(self.tree.knn(self.n, self.total, self.k).keys[-1]))
            self.set_radius(d_k + self.lam)
            return max(self.radius_key, farthest)

    return Repaired


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
def test_if_all_join_nothing_is_lost(script: Script, random: bool, alpha: float, c_max: int) -> None:
    script = without_removals(script)
    make, everyone = (CoverSummRandom, {"p": 1.0}) if random else (CoverSummDecay, {"c1": inf})
    assert play(paper(make, script, alpha=alpha, c_max=c_max, **everyone), script.steps) == oracle(script)


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
    """Line 16: r is small while few are known, line 9 is content, and line 20 turns sentences away that are needed."""
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
    """30 points at distance 1, 72 at 5, their mean searched at last; then one comes at 1.001 and is turned away.

    All of R, complete up to d_k + lambda > 1.001, lies at 1: so r = 1. But the newcomer draws the centroid to its side,
    farther from most of the 30 than from itself.
    """
    unit = 6000

    def ring(count: int, radius: int) -> NDArray[np.float64]:
        angles = 2 * np.pi * np.arange(count) / count
        return radius * unit * np.stack((np.cos(angles), np.sin(angles)), axis=1)

    vectors = np.rint(np.concatenate((ring(30, 1), ring(72, 5), [[1.001 * unit, 0]]))).astype(np.int16)
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


def copies(count: int) -> list[Step]:
    return adds(np.full((count, 2), 5, np.int16))


def test_line_9_at_its_edges() -> None:
    """`>=` twice: without lambda the least drift, 0, searches; a reservoir of c_max is full."""
    variant = CoverSummReservoir(1, 2, b=10.0, alpha=0.0)
    assert [play(variant, [step]) and variant.reservoir_searches for step in copies(5)] == [1, 2, 3, 4, 5]
    variant = CoverSummReservoir(1, 2, b=10.0, alpha=1.0, c_max=3)
    assert [play(variant, [step]) and variant.reservoir_searches for step in copies(6)] == [1, 1, 1, 2, 3, 4]
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


# ---- Algorithm 3, and the strategies that change no answer


@settings(max_examples=150, deadline=None)
@given(scripts(), ALPHAS, CAPACITIES)
def test_lazy_and_knn_range_answer_as_reservoir_does(script: Script, alpha: float, c_max: int) -> None:
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
        mock.patch.object(SGTree, "insert", autospec=True, side_effect=SGTree.insert) as one,
        mock.patch.object(SGTree, "insert_batch", autospec=True, side_effect=SGTree.insert_batch) as batch,
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
    """Algorithm 3 on 600 uniform points, one of three taken out again: whatever step searched last is right."""
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
    """k = 2 of a line: near ones go, R still has two, the drift is small, and a nearer one lies outside of R."""
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
    with mock.patch.object(SGTree, "delete", side_effect=AssertionError):
        assert variant.apply(Step(steps[2].added, no_points(2))) == (b"s000000",)
    assert (len(variant.pending), variant.reservoir_size) == (2, 3)
    assert variant.apply(Step(steps[0].added, no_points(2))) == (b"s000001",)
    assert (len(variant.pending), variant.tree.n, variant.reservoir_size) == (2, 0, 2)


@pytest.mark.parametrize("name", [*NAMES, "naive-faiss", HNSW])
def test_all_deleted_is_as_never_added(name: str) -> None:
    makers = EXACT | {"naive-hnsw": NaiveHnsw}
    make = makers.get(name)
    variant = make(2, 2) if make else make_variant(name, k=2, dimension=2, b=10.0, alpha=10.0)
    assert variant.apply(Step(no_points(2), no_points(2))) == ()
    steps = adds(np.array([[1, 2], [3, 4], [3, 5]], np.int16))
    for _ in range(2):
        play(variant, steps)
        gone = points([(step.added.ids[0], step.added.vectors[0]) for step in steps], 2)
        assert variant.apply(Step(gone, no_points(2))) == ()
        assert variant.apply(Step(no_points(2), points([(b"new", (9, 9))], 2))) == (b"new",)
        assert variant.apply(Step(points([(b"new", (9, 9))], 2), no_points(2))) == ()


# ---- all


@pytest.mark.parametrize("name", [*NAMES, "naive-faiss", HNSW])
def test_refusals_name_the_culprit(name: str) -> None:
    makers = EXACT | {"naive-hnsw": NaiveHnsw}

    def make(dimension: int = 2) -> Variant:
        if name in makers:
            return makers[name](2, dimension)
        return make_variant(name, k=2, dimension=dimension, b=10.0)

    x = np.ones((1, 2), np.int16)
    with pytest.raises(UnknownSentence, match="b'a'"):
        make().apply(Step(Points([b"a"], x), no_points(2)))
    variant = make()
    variant.apply(Step(no_points(2), Points([b"a"], x)))
    with pytest.raises(DuplicateSentence, match="b'a'"):
        variant.apply(Step(no_points(2), Points([b"a"], x)))
    with pytest.raises(VectorError, match="int16"):
        make().apply(Step(no_points(2), Points([b"a"], x.astype(np.float32))))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="at least 1"):
        make(0)
    long = Points([b"%d" % i for i in range(40)], np.full((40, 4), 32767, np.int16))
    short = Points([b"s%d" % i for i in range(20)], np.ones((20, 4), np.int16))
    with mock.patch("worker.coversumm.fixed_point.EXACT", 3 * 4 * 32767**2 * 50):
        variant = make(4)
        variant.apply(Step(no_points(4), long))
        with pytest.raises(EntityFull, match="sentences"):
            variant.apply(Step(no_points(4), short))


def test_every_name_has_its_parameters() -> None:
    for name in NAMES:
        way = make_variant(name, k=3, dimension=5, b=7.0, alpha=0.5, c_max=9)
        if name.startswith("coversumm-"):
            assert isinstance(way, CoverSummReservoir)
            assert (way.k, way.dimension, way.b, way.alpha, way.c_max) == (3, 5, 7.0, 0.5, 9)
            assert isinstance(way, CoverSummLazy) == (name.split("-")[1] in ("lazy", "random", "decay"))
        else:
            assert not isinstance(way, CoverSummReservoir)
    with pytest.raises(KeyError):
        make_variant("unknown", dimension=5, b=7.0)


# ---- naive HNSW, and libraries that are not there


@settings(max_examples=60, deadline=None)
@given(script=scripts())
@pytest.mark.hnsw
def test_hnsw_ranks_what_it_finds(script: Script) -> None:
    """Live sentences alone, never more than k, in the order of exact keys; all of them while they are few."""
    variant = NaiveHnsw(script.k, script.dimension)
    for step, live in zip(script.steps, script.live, strict=True):
        found = variant.apply(step)
        assert set(found) <= live.keys()
        assert len(set(found)) == len(found) <= min(script.k, len(live))
        everything = brute_force(live, len(live) or 1).ids
        assert list(found) == [id_ for id_ in everything if id_ in set(found)]


@pytest.mark.hnsw
def test_hnsw_finds_most_but_not_all() -> None:
    _, steps, truth = uniform(20)  # beyond the 1,024 there is room for at first
    found = play(NaiveHnsw(20, 20), steps)
    shared = [len(set(said) & set(right)) for said, right in zip(found, truth, strict=True)]
    assert sum(shared) > 0.8 * sum(map(len, truth))
    assert found != truth
    assert found[:15] == truth[:15]


@pytest.mark.hnsw
def test_hnsw_that_reaches_few() -> None:
    variant = NaiveHnsw(3, 2)
    play(variant, copies(5))
    query = variant._index.knn_query

    def reaches_one(query_: Any, k: int, num_threads: int) -> Any:
        if k > 1:
            raise RuntimeError(
                "Cannot return the results in a contiguous 2D array. Probably ef or M is too small"
            )
        return query(query_, k=k, num_threads=num_threads)

    with mock.patch.object(variant, "_index", mock.Mock(wraps=variant._index, knn_query=reaches_one)):
        assert len(variant.apply(Step(no_points(2), no_points(2)))) == 1


def test_a_missing_library_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, package, method in (("faiss", "faiss-cpu", NaiveFaiss), ("hnswlib", "hnswlib", NaiveHnsw)):
        monkeypatch.setitem(sys.modules, module, None)
        with pytest.raises(ImportError, match=rf"^{package} is not installed: pip install '\.\[bench\]'$"):
            method(3, 2)
    assert library("json", "json").loads("1") == 1
