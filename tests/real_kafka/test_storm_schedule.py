"""The faults of a storm as they are drawn; no Kafka is needed to look at them."""

from __future__ import annotations

import json
import sys
from collections import Counter

import pytest

from tests.harness import clock
from tests.harness.acts import ACTS
from tests.harness.faults import Fault
from tests.harness.storm import ENOUGH, RESULTS, faults_of, main
from tests.harness.storm_schedule import (
    ADDED,
    AT_ONCE,
    KINDS,
    REPLAY,
    REPLAY_FROM,
    STEADY,
    busy_until_s,
    schedule,
    shown,
    with_replay,
)

SEEDS = range(20)
MOST_SECONDS = 35 * 60


def test_a_seed_is_one_schedule() -> None:
    assert schedule(300, 7) == schedule(300, 7)
    assert schedule(300, 7) != schedule(300, 8)


@pytest.mark.parametrize("seed", SEEDS)
def test_all_kinds_come_by_their_shares(seed: int) -> None:
    faults = schedule(300, seed)
    assert len(faults) == 300
    counted = Counter(fault.kind for fault in faults)
    total = sum(kind.share for kind in KINDS.values())
    assert all(abs(counted[name] - 300 * kind.share / total) <= 1 for name, kind in KINDS.items())
    assert {fault.kind for fault in schedule(len(KINDS), seed)} == KINDS.keys() <= ACTS.keys()
    for name in ("broker's clock stepped", "worker's clock stepped"):
        assert {fault.amount > 0 for fault in faults if fault.kind == name} == {False, True}


@pytest.mark.parametrize("seed", SEEDS)
def test_it_leaves_a_majority_and_ends_in_time(seed: int) -> None:
    """By plan: few at once, none that need the same at one time, and the whole short enough for one
    run.
    """
    faults = schedule(300, seed)
    assert faults == sorted(faults, key=lambda fault: fault.at)
    assert busy_until_s(faults[-1]) < MOST_SECONDS
    for number, fault in enumerate(faults):
        busy = [one for one in faults[:number] if busy_until_s(one) > fault.at + 0.05]
        assert len(busy) < AT_ONCE
        assert fault.may_strike_beside(busy)


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_happens_to_who_is_not_there(seed: int) -> None:
    faults = schedule(300, seed)
    early = faults[: int(REPLAY_FROM * len(faults))]
    assert REPLAY not in {fault.worker for fault in early}
    assert {fault.worker for fault in faults} == {"", *STEADY, ADDED, REPLAY}
    assert all(fault.kind == "worker added" for fault in faults if fault.worker == ADDED)
    (begun,) = set(with_replay(faults)) - set(faults)
    assert begun.at <= min(fault.at for fault in faults if fault.worker == REPLAY)


def test_some_kinds_alone() -> None:
    kinds = ("quota", "broker killed")
    assert Counter(fault.kind for fault in schedule(10, 1, kinds)) == {
        "quota": 5,
        "broker killed": 5,
    }


def test_a_fault_is_told_in_a_line() -> None:
    lost = Fault("answers lost", 3, 12.34, worker="one", reset=True)
    assert shown(lost) == "   12.3 s: answers lost (one all nodes) for 3 s, then reset"
    stepped = Fault("broker's clock stepped", 6, 1, nodes=(2,), amount=-120)
    assert shown(stepped) == "    1.0 s: broker's clock stepped (node 2) by -120 s for 6 s"
    slow = Fault("slow link", 4, 1, nodes=(2,), worker="two", amount=20_000)
    assert shown(slow) == "    1.0 s: slow link (two node 2) 20,000 B/s for 4 s"


def test_the_record_of_a_storm_that_is_kept_is_one_to_keep() -> None:
    """Enough faults of every kind, and nothing that must not be."""
    if not RESULTS.exists():
        return
    record = json.loads(RESULTS.read_text())
    assert record["faults_struck"] >= ENOUGH
    assert all(record["kinds"][kind] for kind in KINDS)
    assert faults_of(record) == record["faults"] == []


def test_what_must_not_be_is_told() -> None:
    good = {
        **dict.fromkeys(("lost", "repeated", "wrong"), 0),
        "unordered_ends": [],
        "complaints": [],
        "seconds_to_ready": 59.9,
        "promoted": True,
    }
    assert faults_of(good) == []
    bad = {
        "lost": 1,
        "repeated": 1,
        "wrong": 1,
        "unordered_ends": ["one with 3"],
        "seconds_to_ready": 60.0,
    }
    for name, value in {**bad, "promoted": False}.items():
        assert len(faults_of({**good, name: value})) == 1


def test_a_machine_without_libfaketime_is_told_what_it_lacks(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before anything is started."""
    monkeypatch.setattr(clock, "library", lambda: None)
    monkeypatch.setattr(sys, "argv", ["storm", "--faults", "3"])
    assert main() == 2
    assert "a storm needs libfaketime (apt-get install faketime)" in capsys.readouterr().err
