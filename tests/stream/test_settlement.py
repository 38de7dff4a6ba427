"""A commit in doubt, from the doubt to the seek: what is asked, what is waited for, and what ends
it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from tests.harness.fake_clients import FakeClock
from tests.harness.stream import die
from worker.errors import Crash, Fenced, InDoubt, Overtaken, TooSlow, Unanswered
from worker.kafka.contact import Contact
from worker.kafka.group import Membership
from worker.stream.assignment import Assignment
from worker.stream.journal import Journal
from worker.stream.settlement import PAUSE_SECONDS, Settlement
from worker.stream.surroundings import Surroundings, T, Threads

MEMBER = Membership(5, "member")
DOUBT = InDoubt("no answer")
UNANSWERED = Unanswered("the group is not described")
LIMIT_SECONDS = 300.0
NEXT = {0: 7, 1: 9}
"""What the commit in doubt would have committed."""


class AtOnce(Threads):
    """What may block does not: no thread is needed for it."""

    async def beside(self, work: Callable[[], T]) -> T:
        return work()


class Rig:
    """A settlement between a producer with given answers and a takeover that finds `committed`."""

    def __init__(self) -> None:
        self.log: list[Any] = []
        self.clock = FakeClock()
        self.contact = Contact(10.0, self.clock)
        self.contact.heard("consumer")
        self.answers: list[BaseException | None] = []  # of the next decisions; then each is one
        self.meanwhile: Callable[[], None] = lambda: None  # happens at each decision
        self.committed = {0: 5, 1: 9}
        self.is_found = True
        self.assignment = Assignment(self.clock, Journal(self.clock, 2))
        self.assignment.assign(MEMBER, frozenset({0, 1}))
        self.flow()
        settings: Any = SimpleNamespace(stall_timeout_ms=1000 * LIMIT_SECONDS)
        producer: Any = SimpleNamespace(decide=self._decide)
        takeover: Any = SimpleNamespace(again=self._again)
        surroundings = Surroundings(
            clients=None,  # type: ignore[arg-type]
            databases=None,  # type: ignore[arg-type]
            clock=self.clock,
            threads=AtOnce(),
            die=die,
        )
        self.settlement = Settlement(
            settings, self.assignment, producer, takeover, self.contact, surroundings
        )

    def flow(self) -> None:
        """A takeover has ended."""
        self.assignment.positions = dict(self.committed)
        self.assignment.flow()

    def _decide(self) -> None:
        assert not self.assignment.is_flowing, "nothing may be handed over meanwhile"
        self.log.append("decide")
        self.meanwhile()
        answer = self.answers.pop(0) if self.answers else None
        if answer is not None:
            raise answer

    async def _again(self, found: Callable[[Mapping[int, int]], None]) -> None:
        self.log.append("again")
        if self.is_found:
            found(self.committed)
            self.flow()

    def settle(self, doubt: InDoubt = DOUBT) -> bool:
        return asyncio.run(self.settlement.settle(doubt, NEXT))

    def decisions(self) -> int:
        return self.log.count("decide")


@pytest.fixture
def rig() -> Rig:
    return Rig()


# -- the order -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("committed", "happened"),
    [
        ({0: 5, 1: 9}, False),  # what was processed of partition 1 alone ended there already
        ({0: 7, 1: 9}, True),
        ({0: 8, 1: 9}, True),
        ({0: 7}, False),
        ({}, False),
    ],
)
def test_it_is_decided_and_then_the_committed_offsets_say_whether_it_happened(
    rig: Rig, caplog: pytest.LogCaptureFixture, committed: dict[int, int], happened: bool
) -> None:
    caplog.set_level(logging.INFO, logger="worker")
    rig.committed = committed
    assert rig.settle() is happened
    assert rig.log == ["decide", "again"]
    outcome = "it had happened" if happened else "it had not, and is done again"
    assert outcome in caplog.messages[-1]


def test_the_assignment_is_suspended_first_and_flows_again_at_the_end(rig: Rig) -> None:
    doubts: list[str | None] = []
    rig.meanwhile = lambda: doubts.append(rig.assignment.doubt)
    rig.settle()
    assert doubts == ["no answer"]
    assert rig.assignment.is_flowing
    assert rig.assignment.doubt is None


@pytest.mark.parametrize("cause", [Fenced("another one"), Crash("refused")])
def test_a_decision_that_is_refused_ends_it(rig: Rig, cause: Exception) -> None:
    rig.answers = [UNANSWERED, cause]
    with pytest.raises(type(cause)) as end:
        rig.settle()
    assert end.value is cause
    assert "again" not in rig.log


# -- the group -------------------------------------------------------------------------------------


def test_whoever_was_overtaken_is_decided_and_waits_for_the_group(rig: Rig) -> None:
    """Its partitions are being given to others: to take them over again would put both to work on
    them.
    """
    assert not rig.settle(Overtaken("UNKNOWN_MEMBER_ID"))
    assert rig.log == ["decide"]
    assert not rig.assignment.is_flowing


def test_partitions_that_the_group_takes_back_meanwhile_are_not_waited_for(rig: Rig) -> None:
    """It waits for this very micro-batch to end."""
    rig.answers = [UNANSWERED] * 100
    rig.meanwhile = lambda: rig.assignment.revoke() if rig.decisions() == 3 else None
    assert not rig.settle()
    assert rig.log == ["decide"] * 3


def test_partitions_that_were_taken_back_before_are_not_decided_about(rig: Rig) -> None:
    rig.assignment.revoke()
    assert not rig.settle()
    assert rig.log == []
    assert rig.assignment.doubt is None


def test_a_worker_that_ends_asks_no_more(rig: Rig) -> None:
    rig.answers = [UNANSWERED] * 100
    rig.meanwhile = rig.assignment.leave_off
    assert not rig.settle()
    assert rig.decisions() == 1


def test_what_the_takeover_did_not_find_out_counts_as_not_happened(rig: Rig) -> None:
    """A rebalance went first."""
    rig.is_found, rig.committed = False, {0: 7, 1: 9}
    assert not rig.settle()
    assert rig.log == ["decide", "again"]


# -- the limit -------------------------------------------------------------------------------------


def hear(rig: Rig) -> None:
    rig.contact.heard("consumer")


def test_brokers_that_answer_and_do_not_tell_end_it_at_the_limit(rig: Rig) -> None:
    rig.answers = [UNANSWERED] * 10_000
    rig.meanwhile = lambda: hear(rig)
    began_s = rig.clock.now_s
    with pytest.raises(
        Crash, match="no commit was answered for 300 s, though brokers answer: the group"
    ) as end:
        rig.settle()
    assert not isinstance(end.value, Unanswered | InDoubt)
    assert LIMIT_SECONDS < rig.clock.now_s - began_s <= LIMIT_SECONDS + 2 * PAUSE_SECONDS


def test_while_no_broker_answers_no_time_counts(rig: Rig) -> None:
    """A restart would not bring one back."""
    hours = round(2 * 3600 / PAUSE_SECONDS)
    rig.answers = [UNANSWERED] * hours
    rig.settle()
    assert rig.decisions() == hours + 1


def test_when_brokers_are_back_the_time_begins(rig: Rig) -> None:
    silent = round(3600 / PAUSE_SECONDS)
    rig.answers = [UNANSWERED] * 100_000
    rig.meanwhile = lambda: hear(rig) if rig.decisions() > silent else None
    began_s = rig.clock.now_s
    with pytest.raises(Crash, match="no commit was answered"):
        rig.settle()
    assert 3600 + LIMIT_SECONDS <= rig.clock.now_s - began_s <= 3600 + LIMIT_SECONDS + 15


def doubts_for(
    rig: Rig, seconds: float, between: Callable[[], None] = lambda: None, doubt: InDoubt = DOUBT
) -> None:
    """One commit after another is in doubt after 10 s, and each is decided at once, for so long."""
    for _ in range(round(seconds / 10)):
        rig.settlement.commit_begins()
        rig.clock.now_s += 10
        hear(rig)
        rig.settle(doubt)
        between()


def test_time_in_which_no_commit_was_tried_does_not_count(rig: Rig) -> None:
    """The topic was idle for an hour after a doubt that turned out not to have happened."""
    doubts_for(rig, LIMIT_SECONDS)
    rig.clock.now_s += 3600
    doubts_for(rig, 10)
    with pytest.raises(Crash, match="no commit was answered"):
        doubts_for(rig, 20)


def test_doubts_of_an_assignment_that_is_over_do_not_count(rig: Rig) -> None:
    """The next assignment has taken everything over: what failed before says nothing about its
    commits.
    """
    doubts_for(rig, LIMIT_SECONDS)
    rig.assignment.revoke()
    rig.assignment.assign(Membership(6, "member"), frozenset({0, 1}))
    rig.flow()
    doubts_for(rig, LIMIT_SECONDS)
    with pytest.raises(Crash, match="no commit was answered"):
        doubts_for(rig, 20)


def test_a_commit_that_is_answered_restarts_the_time(rig: Rig) -> None:
    doubts_for(rig, 3 * LIMIT_SECONDS, between=rig.settlement.commit_answered)


def test_a_commit_that_had_happened_restarts_the_time(rig: Rig) -> None:
    """The next one may be hours away."""
    rig.committed = dict(NEXT)
    doubts_for(rig, 3 * LIMIT_SECONDS)


def test_a_rebalance_restarts_the_time(rig: Rig) -> None:
    hear(rig)
    rig.settle(Overtaken("UNKNOWN_MEMBER_ID"))
    rig.clock.now_s += 3600
    rig.assignment.assign(Membership(6, "member"), frozenset({0, 1}))
    rig.flow()
    hear(rig)
    rig.settle()


def test_transactions_that_become_smaller_do_not_end_it_and_one_that_does_not_begins_the_time(
    rig: Rig,
) -> None:
    doubts_for(
        rig, 3 * LIMIT_SECONDS, doubt=TooSlow("it had 1000000 bytes, the next has at most 250000")
    )
    doubts_for(rig, LIMIT_SECONDS - 10)
    with pytest.raises(Crash, match="no commit was answered"):
        doubts_for(rig, 30)
