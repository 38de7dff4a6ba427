"""Who keeps a reset from its work: members of the group, once the sessions of those that were
stopped are over.
"""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest

from tests.harness.fake_clients import FakeClock
from worker.cli.reset import EXPIRY_SECONDS, refuse_members
from worker.errors import SetupError


class Group:
    """Has a member until some time."""

    def __init__(self, clock: FakeClock, seconds: float) -> None:
        self.clock, self.until = clock, clock.now_s + seconds

    def describe_consumer_groups(self, groups: list[str], request_timeout: float) -> dict[str, Any]:
        member = SimpleNamespace(client_id="worker-0", host="/10.0.0.7")
        answer: Future[Any] = Future()
        answer.set_result(
            SimpleNamespace(members=[member] if self.clock.now_s < self.until else [])
        )
        return dict.fromkeys(groups, answer)


def refuse(clock: FakeClock, seconds: float) -> list[str]:
    """With a member for so long; what was told."""
    told: list[str] = []
    group: Any = Group(clock, seconds)
    refuse_members(group, "hotels", 10.0, told.append, clock)
    return told


def test_a_group_without_members_is_waited_for_by_nobody(clock: FakeClock) -> None:
    began = clock.now_s
    assert refuse(clock, 0.0) == []
    assert clock.now_s == began


def test_a_stopped_worker_is_waited_for_until_its_session_is_over(clock: FakeClock) -> None:
    began = clock.now_s
    assert refuse(clock, 9.0) == [
        "waiting up to 10 s for the end of the sessions of worker-0 on /10.0.0.7"
    ]
    assert 9.0 <= clock.now_s - began < 10.0


def test_a_running_worker_is_named(clock: FakeClock) -> None:
    with pytest.raises(
        SetupError, match=r"group hotels .* has running workers: worker-0 on /10\.0\.0\.7"
    ):
        refuse(clock, 10.0 + EXPIRY_SECONDS + 1.0)
