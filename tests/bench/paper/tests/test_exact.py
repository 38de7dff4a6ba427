"""The exact ways say what the definition says, on every stream."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.bench.paper.algorithms.brute_force import BruteForce
from tests.bench.paper.algorithms.exact import Ours
from tests.bench.paper.naive import NaiveFaiss
from tests.bench.paper.tests.ways import EXACT, drifting, oracle, play, uniform
from tests.coversumm.scripts import Script, adds, scripts, tight
from tests.harness.oracle import brute_force
from worker.coversumm import Points, Step, no_points

pytestmark = pytest.mark.long
OURS = ("exact", "native")
NATIVE = pytest.param("native", marks=pytest.mark.native)
NAMES = pytest.mark.parametrize("name", [NATIVE if name == "native" else name for name in EXACT])


@NAMES
@settings(max_examples=150, deadline=None)
@given(script=scripts(), spare=st.sampled_from([None, 0, 3]))
def test_exact_variants_are_the_oracle(name: str, script: Script, spare: int | None) -> None:
    variant = EXACT[name](script.k, script.dimension)
    if isinstance(variant, Ours):
        tight(variant.core, spare)
    assert play(variant, script.steps) == oracle(script)


@NAMES
@pytest.mark.parametrize("seed", range(5))
def test_exact_variants_on_drifting_streams(name: str, seed: int) -> None:
    script = drifting(seed)
    variant = EXACT[name](5, 3)
    if isinstance(variant, Ours):
        tight(variant.core, 1)
    assert play(variant, script.steps) == oracle(script)
    searches = variant.reservoir_searches
    assert 0 < searches < 300 if name == "exact" else searches == (0 if name == "native" else 300)
    assert (variant.reservoir_size > 0) == (name in OURS)


@NAMES
@pytest.mark.parametrize("dimension", [20, 100])
def test_exact_variants_on_a_long_stream(name: str, dimension: int) -> None:
    vectors, steps, truth = uniform(dimension)
    assert play(EXACT[name](20, dimension), steps) == truth
    live = {b"s%06d" % i: v for i, v in enumerate(vectors)}
    assert truth[-1] == brute_force(live, 20).ids


@pytest.mark.parametrize("seed", range(4))
def test_faiss_where_float32_cannot_tell(seed: int) -> None:
    """A grain of sentences far from the origin: their distances drown in float32, the answer must
    not.
    """
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
