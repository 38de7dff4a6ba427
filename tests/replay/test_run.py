"""A replay as one process takes part in it: its bounds, and how far all are, over a group that a
test makes up.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from msgspec import json

from tests.harness.fake_clients import FakeClients, FakeClock
from worker.errors import SetupError
from worker.kafka.agreement import AgreedRecord
from worker.kafka.errors import broker_errors
from worker.parts import Parts
from worker.replay.ledger import Account
from worker.replay.plan import ReplayPlan
from worker.replay.ranges import Range
from worker.replay.request import ReplayIdentity, Request
from worker.replay.run import Replay, check_resumable
from worker.settings import Settings

LIVE = Settings(
    app_id="live", input_topic="in", output_topic="out", dlq_topic="dead", data_dir=Path("data")
)
REQUEST = Request(
    name="two", topic="in", to_topic="out.two", emit="final", entities=frozenset({"e"})
)
RANGES = {0: Range(0, 10, 0), 1: Range(5, 9, 5), 2: Range(4, 4, 4)}


class Group:
    """What is committed: by partition an offset and a note."""

    def __init__(self) -> None:
        self.committed_: dict[int, tuple[int, str]] = {}

    def committed(self, asked: list[Any], timeout: float) -> list[Any]:
        return [
            SimpleNamespace(partition=tp.partition, offset=offset, metadata=note, error=None)
            for tp in asked
            for offset, note in [self.committed_.get(tp.partition, (-1001, ""))]
        ]

    def close(self) -> None:
        pass


@pytest.fixture
def group() -> Group:
    return Group()


@pytest.fixture
def clients(group: Group) -> FakeClients:
    return FakeClients(consumer=lambda: group, admin=lambda: None)


@pytest.fixture
def replay(clients: FakeClients) -> Replay:
    made = Replay(ReplayIdentity(LIVE, REQUEST), clients=clients, clock=FakeClock())
    made.keep_to(plan_of(made))
    return made


def plan_of(replay: Replay, **changes: Any) -> ReplayPlan:
    request = replay.names.request
    fields: dict[str, Any] = {
        "begun": "today",
        "request": request.facts(),
        "made_with": {},
        "whole": True,
        "topic": "in",
        "topic_id": "",
        "output_topic": "out.two",
        "ranges": {str(partition): span for partition, span in RANGES.items()},
    }
    return ReplayPlan(**{**fields, **changes})


def note(**counts: Any) -> str:
    return json.encode(Account(**counts)).decode()


def test_the_course_is_that_of_plan_and_request(replay: Replay) -> None:
    bounds = replay.keep_to(plan_of(replay))
    assert (bounds.first, bounds.ends) == ({0: 0, 1: 5, 2: 4}, {0: 10, 1: 9, 2: 4})
    assert (bounds.emit, bounds.selection) == ("final", REQUEST.selection)
    assert not bounds.throttle.is_on
    assert set(bounds.open_partitions()) == {0, 1, 2}
    assert bounds.ledger is not replay.keep_to(plan_of(replay)).ledger


def test_it_asks_for_what_is_decided_under_its_own_name(
    replay: Replay, clients: FakeClients
) -> None:
    replay.open_partitions()
    assert [(client.group, client.isolation) for client in clients.asked] == [
        ("live-replay-two", "read_committed")
    ]


def test_how_far_all_are_together(replay: Replay, group: Group) -> None:
    assert replay.progress() == (0, 14, Account())
    group.committed_ = {
        0: (4, note(read=3, changes=2)),
        1: (9, note(read=4, over=True)),
        2: (4, note(over=True)),
    }
    assert replay.progress() == (8, 14, Account(read=7, changes=2))
    assert replay.open_partitions() == [0]
    group.committed_[0] = (10, note(read=9, over=True))
    assert replay.progress() == (14, 14, Account(read=13, over=True))
    assert replay.open_partitions() == []


def test_read_to_its_end_is_not_over_while_something_is_to_be_published(
    replay: Replay, group: Group
) -> None:
    group.committed_ = {0: (10, note(read=9)), 1: (9, note(over=True)), 2: (4, note(over=True))}
    assert replay.open_partitions() == [0]


@pytest.mark.parametrize("committed", [(11, ""), (10, ""), (11, note(read=1))])
def test_what_a_worker_has_gone_on_with_is_over(
    replay: Replay, group: Group, committed: tuple[int, str]
) -> None:
    group.committed_ = {0: committed, 1: (9, note(over=True)), 2: (4, note(over=True))}
    assert replay.open_partitions() == []
    assert replay.progress().done == 14


def test_a_plan_of_something_else_is_refused(replay: Replay) -> None:
    replay.plan = plan_of(replay, request=replace(REQUEST, emit="every").facts())
    with pytest.raises(SetupError, match="--emit was every and is final"):
        replay.check_plan(Parts(LIVE))


def test_a_plan_that_is_gone_on_with_is_held_against_the_topic_as_it_is_now(
    replay: Replay, group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its id, and its ends in the log; lines of files lie in no log."""
    checked: list[Any] = []
    monkeypatch.setattr(Replay, "_topic_ids", lambda self, planned: checked.append(planned))
    monkeypatch.setattr("worker.replay.run.check_ends", lambda *asked: checked.append(asked[1:4]))
    monkeypatch.setattr(Replay, "_made_with", lambda *_: {})
    monkeypatch.setattr(Replay, "_read_with", lambda *_: {})
    replay.plan = plan_of(replay, topic_id="one")
    replay.check_plan(Parts(LIVE))
    assert checked == [{"in": "one"}, ("live-replay-two", "in", {0: 10, 1: 9, 2: 4})]
    history = SimpleNamespace(
        read_with={}, partitions=lambda: {0: range(10), 1: range(5)}, name="in"
    )
    replay.names = ReplayIdentity(LIVE, replace(REQUEST, history=history))  # type: ignore[arg-type]
    replay.plan = plan_of(replay)
    replay.check_plan(Parts(LIVE))
    assert checked[-1][-1] == {1: 9, 2: 4}
    assert replay.keep_to(plan_of(replay, topic_id="one")).topic_id == "one"


def test_its_bounds_are_asked_for_again_while_brokers_are_away(
    replay: Replay, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit code 2 would say that a restart does not help."""
    failures = [KafkaError._TIMED_OUT, KafkaError._DESTROY_BROKER]

    def agree(*_: Any) -> bytes:
        with broker_errors("the topic of the plan cannot be read"):
            if failures:
                raise KafkaException(KafkaError(failures.pop(0)))
        return plan_of(replay).encode()

    monkeypatch.setattr(AgreedRecord, "agree", agree)
    monkeypatch.setattr(Replay, "check_plan", lambda *_: None)
    assert replay.bounds(3, Parts(LIVE)).ends == {0: 10, 1: 9, 2: 4}
    assert failures == []


def test_a_plan_is_compared_with_others_once_it_is_written(
    replay: Replay, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []

    def agree(_record: AgreedRecord, _make: object, check: Any) -> bytes:
        check()
        return plan_of(replay).encode()

    monkeypatch.setattr(AgreedRecord, "agree", agree)
    monkeypatch.setattr(Replay, "check_plan", lambda *_: None)
    monkeypatch.setattr("worker.replay.run.refuse_shared", lambda *asked: seen.append(asked))
    replay.bounds(3, Parts(LIVE))
    assert seen == [(replay.names, replay.clients)]


@pytest.mark.parametrize(
    ("committed", "says"),
    [
        ({0: (11, ""), 1: (9, note(over=True)), 2: (4, "")}, None),
        (
            {0: (4, note(read=3)), 1: (9, note(over=True))},
            r"not over \(partitions 0, 2\): let `replay` end first",
        ),
        (
            {},
            r"no account of the partitions 0, 1, 2: .*offsets were reset.*the same `replay` "
            r"command again",
        ),
        ({0: (2, ""), 1: (9, note(over=True)), 2: (4, "")}, "no account of the partitions 0: "),
    ],
)
def test_a_worker_goes_on_from_what_is_over_and_knows_why_it_does_not(
    replay: Replay,
    group: Group,
    clients: FakeClients,
    monkeypatch: pytest.MonkeyPatch,
    committed: dict[int, tuple[int, str]],
    says: str | None,
) -> None:
    monkeypatch.setattr(AgreedRecord, "read", lambda self: plan_of(replay).encode())
    group.committed_ = committed
    if says is None:
        check_resumable(replay.settings, clients)
        return
    with pytest.raises(SetupError, match=says):
        check_resumable(replay.settings, clients)
