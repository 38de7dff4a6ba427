"""The model of the commit protocol: small, with each rule taken out, and beside the simulator."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest

from tests.harness.long import one_of
from tests.model.run import PROGRAM, accepted, build
from tests.model.traces import trace
from tests.simulation.mutations import FOCUS, MUTATIONS
from tests.simulation.world import Violation

pytestmark = [pytest.mark.cargo, pytest.mark.model]

RULES = 16
REFUSED = (
    "membership_read_live",
    "sent_before_what_comes_before_it",
    "doubts_not_decided",
    "doubtful_commits_retried",
    "takeover_of_what_is_committed_by_then",
)


@pytest.fixture(autouse=True, scope="module")
def _built() -> None:
    build()


def test_every_invariant_holds_and_none_without_a_rule() -> None:
    done = subprocess.run([PROGRAM, "small"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    kept, *without = done.stdout.split("without ")
    assert "not so" not in kept
    assert [("not so" in said) for said in without] == [True] * RULES


def test_it_accepts_the_runs_of_the_simulator() -> None:
    is_accepted, said = accepted(trace(seed) for seed in range(40))
    assert is_accepted, said
    assert said.startswith("40 runs")


def runs(focus: str) -> Iterator[list[str]]:
    """Those that the simulator itself does not end."""
    for seed in range(60):
        try:
            yield trace(seed, focus)
        except Violation:
            continue


@pytest.mark.parametrize("name", one_of(REFUSED))
def test_it_refuses_runs_of_a_worker_without_a_rule(name: str) -> None:
    with MUTATIONS[name]():
        is_accepted, said = accepted(runs(FOCUS[name]))
    assert not is_accepted
    assert "the model" in said or "does not hold" in said, said


@pytest.mark.parametrize("lines", [["seed 0 1 1", "dance 0"], ["seed 0 1 1", "begin 0"], []])
def test_what_is_no_run_is_refused(lines: list[str]) -> None:
    assert not accepted([lines])[0]
