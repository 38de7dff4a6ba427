"""What a worker holds, from the group's assignment over doubts to the next: under which tenure, and
for how long.
"""

from __future__ import annotations

import pytest

from tests.harness.fake_clients import FakeClock
from worker.kafka.group import Membership
from worker.stream.assignment import Assignment, Role, Tenure
from worker.stream.journal import Journal

MEMBER = Membership(5, "member")


@pytest.fixture
def held() -> Assignment:
    clock = FakeClock()
    made = Assignment(clock, Journal(clock, 2))
    take(made)
    return made


def take(held: Assignment, membership: Membership = MEMBER) -> None:
    """A whole rebalance."""
    held.assign(membership, frozenset({0}))
    take_over(held)


def take_over(held: Assignment) -> None:
    held.end()
    held.begin({0}, {1})
    held.positions = {0: 10}
    held.flow()


def test_a_doubt_ends_the_tenure_though_the_membership_stays(held: Assignment) -> None:
    before = held.tenure
    assert before == Tenure(1, MEMBER)
    held.suspend("no answer")
    assert held.tenure is None
    assert held.is_lasting
    assert held.roles == {0: Role.ACTIVE, 1: Role.STANDBY}  # for the takeover that settles it
    take_over(held)
    assert held.tenure == Tenure(2, MEMBER)
    assert held.doubt is None


def test_a_rebalance_ends_the_tenure_and_what_it_lasts(held: Assignment) -> None:
    held.revoke()
    assert held.tenure is None
    assert not held.is_lasting
    held.flow()  # a takeover that ends late
    assert held.tenure is None
    take(held, Membership(6, "member"))
    assert held.tenure == Tenure(2, Membership(6, "member"))


def test_a_rebalance_ends_a_doubt(held: Assignment) -> None:
    held.suspend("no answer")
    held.revoke()
    assert held.doubt is None
    assert not held.is_lasting


def test_a_doubt_after_a_rebalance_began_is_none_of_this_workers(held: Assignment) -> None:
    """The next owner's takeover finds out."""
    held.revoke()
    held.suspend("no answer")
    assert held.doubt is None
    assert not held.is_lasting


def test_a_worker_that_ends_holds_nothing_whatever_is_assigned(held: Assignment) -> None:
    held.leave_off()
    assert not held.is_lasting
    take(held, Membership(6, "member"))
    assert held.tenure is None
    assert not held.is_lasting


def test_before_the_first_assignment_nothing_lasts() -> None:
    clock = FakeClock()
    held = Assignment(clock, Journal(clock, 2))
    assert not held.is_lasting
    assert held.tenure is None
