"""The end of a bounded run: when everything is over by the group, and never by what is known here
alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from tests.harness.fake_clients import FakeClock
from tests.harness.stream import End, die
from worker.errors import Crash, SetupError
from worker.kafka.group import Membership
from worker.stream.assignment import Assignment
from worker.stream.journal import Journal
from worker.stream.run_bounds import ASK_SECONDS, IDLE_SECONDS, Ending, Ledger, RunBounds
from worker.stream.surroundings import Surroundings


class FinishedLedger(Ledger):
    """Says of these that they are over."""

    def __init__(self) -> None:
        self.over: set[int] = set()

    def is_over(self, partition: int) -> bool:
        return partition in self.over


class Rig:
    """An ending over a clock that a test's events come with; `answers` are the group's, one after
    another.
    """

    def __init__(self, *answers: Any) -> None:
        self.clock = Clock()
        self.ledger = FinishedLedger()
        self.assignment = Assignment(self.clock, Journal(self.clock, 2))
        self.answers = list(answers)
        self.asked: list[float] = []  # when
        self.ends = 0
        surroundings = Surroundings(clients=None, databases=None, clock=self.clock, die=die)  # type: ignore[arg-type]
        self.ending = Ending(
            RunBounds(ends={0: 5, 1: 5}, ledger=self.ledger, open_partitions=self._open_partitions),
            self.assignment,
            self._end,
            surroundings,
        )
        self.began = self.clock.now_s

    def take_over(self, *partitions: int) -> None:
        self.assignment.assign(Membership(1, "member"), frozenset(partitions))
        self.assignment.positions = dict.fromkeys(partitions, 5)
        self.assignment.flow()

    def _open_partitions(self) -> list[int]:
        self.asked.append(self.clock.now_s - self.began)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return list(answer)

    def _end(self) -> None:
        self.ends += 1

    def watch(self) -> None:
        asyncio.run(self.ending.watch())


class Clock(FakeClock):
    """What happens at which second."""

    def __init__(self) -> None:
        super().__init__()
        self.at: list[tuple[float, Callable[[], None]]] = []
        self.began_s = self.now_s

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        assert self.now_s < self.began_s + 100, "it does not end"
        while self.at and self.at[0][0] <= self.now_s - self.began_s:
            self.at.pop(0)[1]()


def test_it_ends_once_all_is_done_here_and_the_group_has_nothing_open() -> None:
    rig = Rig([])
    rig.take_over(0, 1)
    rig.ledger.over = {0}
    rig.clock.at = [(3.0, lambda: rig.ledger.over.add(1))]
    rig.watch()
    assert rig.ends == 1
    assert rig.asked == [pytest.approx(3.0, abs=2 * IDLE_SECONDS)]
    assert rig.clock.now_s - rig.began == pytest.approx(3.0, abs=2 * IDLE_SECONDS)


def test_nobody_is_asked_before_a_takeover_is_done() -> None:
    """Without a seek what is held is not known, whatever was over before."""
    rig = Rig([])
    rig.ledger.over = {0}
    rig.assignment.assign(Membership(1, "member"), frozenset({0}))
    rig.assignment.positions = {0: 5}
    rig.clock.at = [(2.0, rig.assignment.flow)]
    rig.watch()
    assert rig.asked == [pytest.approx(2.0, abs=2 * IDLE_SECONDS)]


def test_who_is_done_stays_while_others_are_not_and_asks_now_and_then() -> None:
    rig = Rig([1], [1], [1], [])
    rig.take_over(0)
    rig.ledger.over = {0}
    rig.watch()
    assert rig.asked == pytest.approx([0, 1, 2, 3], abs=0.1)
    # the others ask in between, and end before this one's partitions move to them
    assert rig.clock.now_s - rig.began == pytest.approx(3 + 2 * ASK_SECONDS, abs=0.1)
    assert ASK_SECONDS == 1.0


def test_a_process_without_partitions_takes_over_another_s() -> None:
    rig = Rig([0], [])
    rig.take_over()

    def given() -> None:
        rig.assignment.revoke()
        rig.take_over(0)

    rig.clock.at = [(1.0, given), (4.0, lambda: rig.ledger.over.add(0))]
    rig.watch()
    assert rig.asked == pytest.approx([0, 4], abs=0.3)
    assert rig.ends == 1


@pytest.mark.parametrize(
    "error", [KafkaException(KafkaError(KafkaError._TRANSPORT)), Crash("refused to tell")]
)
def test_a_broker_that_does_not_answer_is_asked_again(error: Exception) -> None:
    rig = Rig(error, error, [])
    rig.take_over()
    rig.watch()
    assert (len(rig.asked), rig.ends) == (3, 1)


@pytest.mark.parametrize(
    "error",
    [SetupError("no right"), KafkaException(KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED))],
)
def test_a_refusal_ends_the_process(error: Exception) -> None:
    rig = Rig(error)
    rig.take_over()
    with pytest.raises(End) as end:
        rig.watch()
    assert end.value.cause is error
    assert rig.ends == 0
