"""Workers with different settings in one group, simulated: whatever happens, the group's state and
output are of one kind.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest

from tests.simulation.plan import draw_plan
from tests.simulation.process import Process
from tests.simulation.surroundings import Ended, silence
from tests.simulation.world import World, settings_of
from worker.settings import Settings
from worker.state.errors import FingerprintMismatch
from worker.state.keys import FINGERPRINT
from worker.state.rows import decode_fingerprint
from worker.stream.commit import Commit
from worker.stream.group_fingerprint import GroupFingerprint

SEEDS = 60


class SplitWorld(World):
    """The workers of odd numbers have another k; such a group need not catch up, for one kind is
    refused.
    """

    def settings_of_worker(self, number: int) -> Settings:
        return replace(self.settings, k=self.settings.k + number % 2)

    def _is_overtaken(self, process: Process) -> bool:
        if isinstance(process.end, Ended) and isinstance(process.end.cause, FingerprintMismatch):
            self.seen["refused"] += 1
            return True
        return super()._is_overtaken(process)

    def calm(self, is_done: Callable[[], bool]) -> None:
        """Nothing: it ends with its last step."""


def kinds(seed: int, seen: Counter[str]) -> set[str]:
    """Every k in what a committed reader finds in changelog and output after the steps
    of a seed.
    """
    plan = draw_plan(seed)
    world = SplitWorld(plan, settings_of(plan.setup))
    with silence():
        try:
            world.run()
        finally:
            world.close()
    found = set()
    for partition in world.partitions:
        for entry in world.broker.log(world.changelog, partition).committed():
            if entry.key == FINGERPRINT and entry.value is not None:
                found.add(decode_fingerprint(FINGERPRINT, entry.value)["k"])
        for entry in world.broker.log(world.settings.output_topic, partition).committed():
            if entry.value is not None:
                found.add(str(json.loads(entry.value)["k"]))
    seen.update(refused=world.seen["refused"], committed=len(found), seeds=1)
    return found


@pytest.mark.long
def test_there_is_one_kind_of_state_and_of_output() -> None:
    seen: Counter[str] = Counter()
    for seed in range(SEEDS):
        assert len(kinds(seed, seen)) <= 1, f"seed {seed}"
    assert seen["refused"] > seen["seeds"]
    assert seen["committed"] > seen["seeds"] / 2


def _without_first_commits() -> AbstractContextManager[Any]:
    """Only a takeover looks: two that take over an empty group at once see nothing of
    each other.
    """
    return patch.object(Commit, "_check", lambda self, check_ids, batch, last_offsets: check_ids())


def _without_any() -> AbstractContextManager[Any]:
    return patch.object(GroupFingerprint, "check", lambda self: None)


def _committed_alone() -> AbstractContextManager[Any]:
    """What others are about to commit does not count."""
    check = GroupFingerprint.check

    def blind(self: GroupFingerprint) -> None:
        first_rows = self.changelog.first_rows
        committed = lambda partitions: [row for row in first_rows(partitions) if row.is_committed]  # noqa: E731
        with patch.object(self.changelog, "first_rows", committed):
            check(self)

    return patch.object(GroupFingerprint, "check", blind)


@pytest.mark.parametrize(
    ("mutation", "first"),
    [
        (_without_any, 0),
        (_without_first_commits, 0),
        (_committed_alone, 800),  # two commits at once in an empty group: two seeds in a thousand
    ],
)
def test_a_check_taken_out_is_found(mutation: Any, first: int) -> None:
    with mutation():
        assert any(len(kinds(seed, Counter())) > 1 for seed in range(first, first + 8 * SEEDS))
