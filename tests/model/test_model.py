"""The model of the commit protocol: small, with each rule taken out, and beside the simulator."""

from __future__ import annotations

import subprocess

import pytest

from tests.model.run import PROGRAM, accepted, build
from tests.model.traces import trace
from tests.simulation.mutations import FOCUS, MUTATIONS
from tests.simulation.world import Violation

pytestmark = [pytest.mark.cargo, pytest.mark.long]

RULES = 16


@pytest.fixture(autouse=True, scope="module")
def _built() -> None:
    build()


def test_every_invariant_holds_and_none_without_a_rule() -> None:
    done = subprocess.run([PROGRAM, "small"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    kept, *without = done.stdout.split("without ")
    assert "not so" not in kept
    assert [("not so" in said) for said in without] == [True] * RULES


def test_it_accepts_the_runs_of_the_simulator() -> None:
    is_accepted, said = accepted(trace(seed) for seed in range(40))
    assert is_accepted, said
    assert said.startswith("40 runs")


@pytest.mark.parametrize(
    "name",
    [
        "membership_read_live",
        "sent_before_what_comes_before_it",
        "doubts_not_decided",
        "doubtful_commits_retried",
        "takeover_of_what_is_committed_by_then",
    ],
)
def test_it_refuses_runs_of_a_worker_without_a_rule(name: str) -> None:
    def runs() -> list[list[str]]:
        found = []
        for seed in range(60):
            try:
                found.append(trace(seed, FOCUS[name]))
            except Violation:
                continue  # the simulator ended it before the model could
        return found

    with MUTATIONS[name]():
        is_accepted, said = accepted(runs())
    assert not is_accepted
    assert "the model" in said or "does not hold" in said, said


def test_a_line_that_is_no_step_is_refused() -> None:
    assert not accepted([["seed 0 1 1", "dance 0"]])[0]
    assert not accepted([])[0]
