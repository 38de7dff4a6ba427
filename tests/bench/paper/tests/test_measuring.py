"""Streams, turns and fits: what the evaluation's figures rest on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from tests.bench import streams
from tests.bench.judge import added, brute_force
from tests.bench.paper.experiments import fitted, intervals
from tests.bench.paper.measure import run_in_turns
from tests.bench.paper.methods import IN_TABLE, METHODS, Setting
from tests.bench.paper.record import row

SETTING = Setting(5, 20, 32_767.0)


def test_drift_stays_ahead_of_the_mean() -> None:
    """By beta, give or take the spread, and always in one direction."""
    x = streams.drift(400, 25, beta=2.0, spread=1e-6).vectors.astype(float)
    before = np.cumsum(x, axis=0)[:-1] / np.arange(1, 400)[:, None]
    ahead = x[1:] - before
    beta = np.linalg.norm(x[0])  # the first mean is the origin
    assert np.linalg.norm(ahead, axis=1) == pytest.approx(beta, rel=0.01)
    assert ahead @ np.full(25, 0.2) == pytest.approx(beta, rel=0.01)


@pytest.mark.parametrize("exponent", [0.5, 1.0])
def test_the_exponent_of_intervals(exponent: float) -> None:
    at = [100]
    while at[-1] < 10_000_000:
        at.append(at[-1] + round(at[-1] ** exponent))
    found = fitted(at)
    assert found["exponent"] == pytest.approx(exponent, abs=0.01)
    assert (found["off_t"] == 1.0) == (exponent == 1.0)
    assert found["off_sqrt_t_log_t"] > 1.05


def test_a_drifting_mean_is_searched_for_more_often() -> None:
    makers = (streams.uniform, streams.drift)
    rest, drift = (
        intervals(METHODS["coversumm-lazy"].make(SETTING), make(1_500, 20).vectors, lambda n: None)
        for make in makers
    )
    assert isinstance(rest["intervals"], int)
    assert isinstance(drift["intervals"], int)
    assert 3 <= rest["intervals"] < drift["intervals"]
    assert fitted([200, 300])["exponent"] is None


def test_turns() -> None:
    """Every contender once before one is seen again; slow ones are not."""
    order = []

    class Contender:
        reservoir_searches = reservoir_size = 0

        def __init__(self, name: str) -> None:
            self.name = name

        def take(self, steps: Sequence[object]) -> Sequence[object]:
            order.append(self.name)
            return steps

    steps = added(np.ones((3, 2), np.int16))
    make = {name: lambda name=name: Contender(name) for name in "ab"}
    runs = run_in_turns(make, [steps, steps], 3)
    assert order == list("aabb" * 3)
    assert [len(of.us_per_event) for of in runs.values()] == [3, 3]
    assert [len(of.seconds) for of in run_in_turns(make, [steps], 3, again=-1.0).values()] == [1, 1]


@pytest.mark.native
def test_a_row_counts_all_entities() -> None:
    """Native code is right after every event of both; one wrong answer would show."""
    entities = [streams.uniform(n, 20, seed=n).vectors for n in (300, 100)]
    oracles = [brute_force(vectors, 5) for vectors in entities]
    native = METHODS["native"]
    runs = run_in_turns({"native": lambda: native.make(SETTING)}, [added(v) for v in entities], 2)[
        "native"
    ]
    found = row("uniform", native, SETTING, runs, oracles)
    assert (found["n"], found["entities"], found["runs"]) == (400, 2, 2)
    assert found["accuracy"] == 100.0
    assert found["seconds"] == pytest.approx(sum(runs.seconds) / 4, abs=1e-4)
    runs.first[1].said[-1] = ()
    assert row("uniform", native, SETTING, runs, oracles)["accuracy"] == 99.75


def test_tuned_constants_are_used() -> None:
    """A coin that always falls right loses nothing where the published one does."""
    vectors = streams.uniform(500, 20).vectors
    oracle = brute_force(vectors, 5)
    wrong = {}
    for name, values in (
        ("coversumm-random", {"p": 1.0, "c1": 0.0}),
        ("coversumm-random, tuned", {"p": 0.0}),
        ("coversumm-decay, tuned", {"c1": 10.0}),
    ):
        contender = IN_TABLE[name].make(SETTING._replace(**values))
        said = contender.take(added(vectors))
        wrong[name] = sum(
            [int(id_) for id_ in ids] != right.tolist()  # type: ignore[attr-defined]
            for ids, right in zip(said, oracle, strict=True)
        )
    assert wrong["coversumm-decay, tuned"] < wrong["coversumm-random"]
    assert wrong["coversumm-random"] < wrong["coversumm-random, tuned"]
