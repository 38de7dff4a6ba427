"""The lines about a worker's life: one for each start, takeover, rebalance and stop, and their
facts.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.harness.fake_clients import FakeClock
from worker.kafka.group import Membership
from worker.settings import Settings
from worker.stream.assignment import Assignment
from worker.stream.journal import Journal, log_start


class Logged:
    """What was logged since the last look."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        self._caplog = caplog
        caplog.set_level(logging.INFO, logger="worker")

    def __call__(self) -> list[tuple[str, dict[str, Any]]]:
        found = [(record.getMessage(), record.facts) for record in self._caplog.records]  # type: ignore[attr-defined]
        self._caplog.clear()
        return found


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> Logged:
    return Logged(caplog)


@pytest.fixture
def held(clock: FakeClock) -> Assignment:
    return Assignment(clock, Journal(clock, 6, started=clock.now_s - 3))


def take(held: Assignment, actives: set[int], standbys: set[int] = frozenset()) -> None:  # type: ignore[assignment]
    """A takeover, as consumer and takeover go through it."""
    held.assign(Membership(1, "m"), frozenset(actives))
    held.end()
    held.begin(actives, standbys)
    held.positions = dict.fromkeys(actives, 10)
    held.flow()


def test_ready_then_each_rebalance_once(held: Assignment, clock: FakeClock, logged: Logged) -> None:
    clock.now_s += 2
    held.journal.restored(7, 4, 0.5)
    take(held, {0, 1, 2, 5}, {4})
    ((line, facts),) = logged()
    assert line == (
        "ready after 5.00 s: processes partitions 0-2, 5 and a copy of 4 of 6; restored 7 rows of "
        "4 partitions in 0.50 s"
    )
    assert facts == {
        "partitions": [0, 1, 2, 5],
        "standbys": [4],
        "seconds": 5.0,
        "restored_rows": 7,
        "restore_seconds": 0.5,
    }
    held.flow()  # Faust seeks twice
    assert logged() == []

    held.revoke()
    held.revoke()  # the group began again before the takeover was over: it is one interruption
    clock.now_s += 1.25
    assert logged() == []
    take(held, {0, 1})
    ((line, facts),) = logged()
    assert line == "rebalanced in 1.25 s: had partitions 0-2, 5 and a copy of 4, has 0-1 of 6"
    assert (facts["had_partitions"], facts["had_standbys"], facts["partitions"]) == (
        [0, 1, 2, 5],
        [4],
        [0, 1],
    )

    held.revoke()
    take(held, set())
    assert [line for line, _ in logged()] == [
        "rebalanced in 0.00 s: had partitions 0-1, has none of 6"
    ]


@pytest.mark.parametrize(
    ("happened", "outcome"), [(True, "it had happened"), (False, "it had not, and is done again")]
)
def test_a_doubt_has_a_line_when_it_begins_and_one_when_it_is_decided(
    held: Assignment,
    clock: FakeClock,
    logged: Logged,
    caplog: pytest.LogCaptureFixture,
    happened: bool,
    outcome: str,
) -> None:
    take(held, {0, 1}, {2})
    logged()
    held.suspend("_TIMED_OUT: no answer")
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert logged() == [
        (
            "a commit is in doubt (_TIMED_OUT: no answer): nothing is lost; the worker determines "
            "whether it happened",
            {"doubt": "_TIMED_OUT: no answer", "partitions": [0, 1]},
        )
    ]
    clock.now_s += 2.5
    held.journal.restored(1, 1, 0.25)
    held.end()
    held.begin({0, 1}, {2})
    held.positions = {0: 10, 1: 10}
    held.journal.settled(happened)
    held.flow()
    ((line, facts),) = logged()
    assert line == (
        "continues after 2.50 s with partitions 0-1 and a copy of 2: the commit in doubt is "
        f"decided, {outcome}; "
        "restored 1 row of 1 partition in 0.25 s"
    )
    assert (facts["doubt"], facts["committed"], facts["seconds"]) == (
        "_TIMED_OUT: no answer",
        happened,
        2.5,
    )
    held.flow()
    assert logged() == []


def test_a_takeover_that_ends_after_a_signal_begins_nothing(
    held: Assignment, logged: Logged
) -> None:
    """The group rebalances while the worker stops: what it assigns is for the next worker."""
    take(held, {0, 1})
    held.leave_off()
    assert held.tenure is None
    logged()
    take(held, {0, 1, 2})
    assert held.tenure is None
    assert not held.is_flowing
    assert logged() == []


def test_a_stop_says_what_was_committed(held: Assignment, logged: Logged) -> None:
    take(held, {0, 3})
    held.positions[3] = 44
    held.end()
    logged()
    held.journal.stopped("SIGTERM", 0.123)
    assert logged() == [
        (
            "stopped by SIGTERM in 0.12 s; committed: 0 to 10, 3 to 44",
            {"signal": "SIGTERM", "seconds": 0.123, "committed": {"0": 10, "3": 44}},
        )
    ]
    held.end()  # nothing is held any more
    held.journal.stopped("SIGINT", 1)
    assert (
        logged()[0][0] == "stopped by SIGINT in 1.00 s; committed: nothing, no partition was held"
    )


def test_the_start_names_everything_and_no_secret(logged: Logged, tmp_path: Path) -> None:
    settings = Settings(
        bootstrap_servers="broker:9092",
        k=5,
        data_dir=tmp_path,
        instance_id="one",
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="PLAIN",
        sasl_username="worker",
        sasl_password="MARKER",
    )
    log_start(settings, 6, None)
    lines = logged()
    text = "\n".join(line for line, _ in lines)
    for word in (
        "broker:9092",
        "group coversumm-worker",
        "instance one",
        "web http://127.0.0.1:8080",
        f"data {tmp_path}",
        "\nthe page, once it is ready: http://127.0.0.1:8080/\n",
        "topics of 6 partitions: input marketplace.reviews.v1, output "
        "marketplace.review-summaries.v1, "
        "dead letters marketplace.reviews.v1.dlq, changelog coversumm-worker-entities-changelog",
        "summaries of 5 sentences, epoch 1; model none: events bring their embeddings, 384 "
        "dimensions",
        "COVERSUMM_K=5",
        "COVERSUMM_SASL_PASSWORD=***",
    ):
        assert word in text
    assert "COVERSUMM_EPOCH" not in text
    assert "MARKER" not in str(lines)
    log_start(replace(settings, web_page=False), 6, None)
    assert "the page" not in "".join(line for line, _ in logged())
    facts = {name: fact for _, more in lines for name, fact in more.items()}
    assert facts["topics"]["input"] == "marketplace.reviews.v1"
    assert (facts["topic_partitions"], facts["k"], facts["group"]) == (6, 5, "coversumm-worker")
    assert facts["settings"]["COVERSUMM_SASL_PASSWORD"] == "***"
