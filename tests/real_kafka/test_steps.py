"""Killed at steps of the commit protocol, of a takeover, a restore and a standby: each is really
reached, and nothing is lost, repeated or wrong.
"""

from __future__ import annotations

import json
import os
import re
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from tests.harness import armed
from tests.harness.armed import STEPS, Order, Trap, struck_path
from tests.harness.broker import KafkaBroker
from tests.harness.faults import EVERYTHING, WORKERS, Fault, faults_at_steps, random_faults
from tests.harness.load import HashedVectors, read_reviews, rounds, send
from tests.harness.patience import TEST_SECONDS
from tests.harness.record import INVARIANTS, Recorder
from tests.harness.scenario import settings_for, under_faults
from tests.harness.workers import pipeline

WORKER = Path(__file__).parents[2] / "worker"
KILLED_AT = (
    *("during the commit", "between local batches", "after a standby's batch"),
    *("after fetching the offsets", "inside a restore"),
)


@pytest.mark.kafka
@pytest.mark.timeout(TEST_SECONDS)
@pytest.mark.long
def test_killed_at_steps(kafka: KafkaBroker, tmp_path: Path) -> None:
    """`kill -9` in a commit, behind one, in a standby, a takeover and a restore, two workers with
    standbys; an order that never strikes would be an error. `make faults` has every step, twice.

    And a zombie, which finds its successor's rows when it wakes up.
    """
    vectors = HashedVectors()
    kills = faults_at_steps("worker killed", 1, seed=1, steps=KILLED_AT)
    zombie = Fault("worker frozen", 9, 0, worker="one", step="after the flush")
    faults = [*(replace(fault, worker=WORKERS[n % 2]) for n, fault in enumerate(kills)), zombie]
    settings = settings_for(vectors, standby_replicas="1")
    with (
        Recorder().row("killed at steps") as row,
        pipeline(kafka, "steps", tmp_path, settings=settings, armed=True) as site,
    ):
        events = rounds(read_reviews(limit=400), vectors)
        run = under_faults(site, row, events, 600, faults, rate=60, how=send, chunk=50)
    assert run.struck == {"worker killed": len(kills), "worker frozen": 1}
    assert row.invariants == dict.fromkeys(INVARIANTS, True)


def test_the_worker_has_no_trace_of_it() -> None:
    """The traps are put on from outside, by a module that is not installed."""
    trace = re.compile(rf"{armed.VARIABLE}|\bSIGSTOP\b|\btests\.kafka\b")
    found = [path for path in WORKER.rglob("*.py") if trace.search(path.read_text())]
    assert found == []


def test_faults_are_drawn_by_seed() -> None:
    """Each worker at each step, those of a load first; of random ones every fourth is a burst over
    all workers.
    """
    at_steps = faults_at_steps("worker frozen", 3, seed=7, seconds=(8.0, 12.0))
    assert at_steps == faults_at_steps("worker frozen", 3, seed=7, seconds=(8.0, 12.0))
    assert {(fault.worker, fault.step) for fault in at_steps} == {
        (w, step) for w in WORKERS for step in STEPS
    }
    on_load = [STEPS[fault.step] == "load" for fault in at_steps]
    assert on_load == sorted(on_load, reverse=True)
    assert [fault.needs == EVERYTHING for fault in at_steps] == [not answer for answer in on_load]
    drawn = random_faults(8, 2, seed=7)
    assert drawn == random_faults(8, 2, seed=7) != random_faults(8, 2, seed=8)
    bursts = [
        at for at in {fault.at for fault in drawn} if [fault.at for fault in drawn].count(at) >= 2
    ]
    assert len(bursts) == 2
    assert all(0 <= fault.at <= 1 for fault in [*drawn, *at_steps])


def test_an_order_strikes_once_at_its_passage(tmp_path: Path) -> None:
    heard: list[int] = []
    signal.signal(signal.SIGUSR1, lambda number, _: heard.append(number))
    try:
        path = tmp_path / "order.json"
        trap = Trap(path)
        trap.passes("after the flush")
        Order("after the flush", 2, signal.SIGUSR1, os.getpid()).give(path)
        for step in ("after the flush", "after the commit", "after the commit"):
            trap.passes(step)
        assert heard == []
        trap.passes("after the flush")
        assert heard == [signal.SIGUSR1]
        assert json.loads(struck_path(path).read_text())["step"] == "after the flush"
        trap.passes("after the flush")
        assert len(heard) == 1
        Order("after the commit", 1, signal.SIGUSR1).give(path)
        assert not struck_path(path).exists()
        trap.passes("after the commit")
        assert len(heard) == 2
    finally:
        signal.signal(signal.SIGUSR1, signal.SIG_DFL)
