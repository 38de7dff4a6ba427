"""Contact is lost and found by time alone, and reported once, once a minute, and at its end."""

from __future__ import annotations

import pytest

from tests.harness.fake_clients import FakeClock
from worker.kafka.contact import REPEAT_SECONDS, STREAK_SECONDS, Announcer, Contact


@pytest.fixture
def contact(clock: FakeClock) -> Contact:
    made = Contact(10.0, clock)
    for client in ("consumer", "producer"):
        made.heard(client)
    return made


def test_a_client_that_was_never_heard_of_is_not_missed(clock: FakeClock) -> None:
    contact = Contact(10.0, clock)
    clock.now_s += 1000
    assert contact.silence() is None
    assert contact.silent_seconds() == {}


def test_an_older_answer_does_not_take_back_a_later_one(contact: Contact, clock: FakeClock) -> None:
    """Connections that were closed tell nothing any more."""
    clock.now_s += 30
    contact.heard("consumer")
    contact.heard("consumer", at=clock.now_s - 20)
    assert contact.silent_seconds()["consumer"] == 0.0


def test_the_reason_is_what_failed_since_the_last_answer(
    contact: Contact, clock: FakeClock
) -> None:
    contact.failed("consumer", "an old one")
    clock.now_s += 1
    contact.heard("consumer")
    clock.now_s += 10
    assert contact.silence().reason == ""  # type: ignore[union-attr]
    contact.failed("producer", "Connection refused")
    assert contact.silence().reason == "Connection refused"  # type: ignore[union-attr]


def test_a_refusal_counts_from_the_last_answer_and_while_it_is_repeated(
    contact: Contact, clock: FakeClock
) -> None:
    for _ in range(4):
        contact.failed("consumer", "wrong password", is_refusal=True)
        contact.failed("consumer", "Connection refused")  # by another broker
        clock.now_s += 25
    assert contact.refusal(90) == "wrong password"
    contact.heard("producer")  # another client
    assert contact.refusal(90) == "wrong password"
    contact.heard("consumer")
    assert contact.refusal() == "wrong password"  # by one of several brokers
    assert contact.refusal(1) is None
    clock.now_s += STREAK_SECONDS
    assert contact.refusal() is None


def test_a_refusal_is_reported_at_once(contact: Contact, clock: FakeClock) -> None:
    announcer = Announcer(contact, clock)
    clock.now_s += 11
    assert "no answer" in reported(announcer)[0]
    for _ in range(3):
        contact.failed("consumer", "wrong password", is_refusal=True)
        clock.now_s += 1
    assert [reported(announcer) for _ in range(2)] == [["no broker for 14 s (wrong password)"], []]


def reported(announcer: Announcer) -> list[str]:
    """What there is to tell at one look."""
    return [line for line in (announcer.lost(), announcer.back()) if line]


def test_an_outage_is_reported_once_once_a_minute_and_once_at_its_end(
    contact: Contact, clock: FakeClock
) -> None:
    announcer, began_s = Announcer(contact, clock), clock.now_s
    lines: list[tuple[float, str]] = []
    for second in range(200):
        clock.now_s = began_s + second
        contact.failed("consumer", "Connection refused")
        lines += [(second, line) for line in reported(announcer)]
    assert [second for second, _ in lines] == [
        10,
        10 + REPEAT_SECONDS,
        10 + 2 * REPEAT_SECONDS,
        190,
    ]
    assert "no broker for 10 s (Connection refused): not ready" in lines[0][1]
    assert lines[-1][1] == "no broker for 190 s (Connection refused)"
    contact.heard("consumer")
    assert reported(announcer) == []  # the producer still hears nothing
    contact.heard("producer")
    assert reported(announcer) == ["a broker answers again, after 199 s"]
    assert reported(announcer) == []


def test_one_of_several_brokers_that_is_not_reached_is_reported_once_a_minute(
    contact: Contact, clock: FakeClock
) -> None:
    """Contact is kept, so nothing else would say so: aiokafka's own messages about connections are
    left out.
    """
    announcer = Announcer(contact, clock)
    lines: list[tuple[float, str | None]] = []
    began_s = clock.now_s
    for second in range(200):
        clock.now_s = began_s + second
        contact.heard("consumer")
        contact.heard("producer")
        if second % 10 == 0:
            contact.failed("consumer", "Connection refused")
        assert reported(announcer) == []
        if line := announcer.trouble():
            lines.append((second, line))
    assert lines == [
        (at, "a broker has not been reached for a minute, while others answer (Connection refused)")
        for at in (60, 120, 180)
    ]


@pytest.mark.parametrize("pause", [STREAK_SECONDS + 1, 600.0])
def test_failures_that_are_far_apart_are_no_trouble(
    contact: Contact, clock: FakeClock, pause: float
) -> None:
    """Brokers close connections that are idle, and restart one after another."""
    announcer = Announcer(contact, clock)
    for _ in range(20):
        clock.now_s += pause
        contact.heard("consumer")
        contact.heard("producer")
        contact.failed("producer", "Disconnected")
        assert announcer.trouble() is None
