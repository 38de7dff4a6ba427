"""The watch asks the idle clients, listens to the consumer, and says what there is to tell."""

from __future__ import annotations

import logging
import threading
from typing import Any

import pytest

from tests.harness.eventually import eventually
from tests.harness.patience import PATIENCE_SECONDS
from worker.errors import SetupError
from worker.kafka.contact import Contact
from worker.stream.watchdog import ContactWatch, IdleClient


class World:
    """A clock, a broker that answers or does not, and a consumer that heard of it at some time."""

    def __init__(self) -> None:
        self.now, self.answers, self.heard_at = 0.0, True, 0.0
        self.asked: list[float] = []
        self.suspected = 0

    def monotonic(self) -> float:
        return self.now

    def ask(self, seconds: float) -> None:
        self.asked.append(seconds)
        if not self.answers:
            raise TimeoutError

    def suspect(self) -> None:
        self.suspected += 1


@pytest.fixture
def world() -> Any:
    return World()


@pytest.fixture
def contact(world: Any) -> Contact:
    return Contact(10.0, world)


@pytest.fixture
def watch(world: Any, contact: Contact) -> ContactWatch:
    client = IdleClient(world.ask, world.suspect)
    return ContactWatch(
        contact, lambda: world.heard_at, {"producer": client, "admin": client}, world
    )


def test_a_look_asks_each_idle_client_and_waits_a_fraction_of_the_time_that_counts(
    watch: ContactWatch, world: World, contact: Contact
) -> None:
    world.now = 5.0
    watch.look()
    assert world.asked == [2.0, 2.0]
    assert contact.silent_seconds() == {"admin": 0.0, "consumer": 5.0, "producer": 0.0}


def test_a_frozen_broker_under_an_idle_worker_is_reported_and_so_is_its_return(
    watch: ContactWatch, world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    watch.look()
    world.answers = False
    for world.now in range(2, 100, 2):
        watch.look()
    lost = [(record.levelname, record.getMessage()) for record in caplog.records]
    assert [level for level, _ in lost] == ["WARNING", "WARNING"]
    assert lost[0][1].startswith("no broker for 10 s (no answer)")
    world.answers, world.heard_at = True, world.now
    watch.look()
    watch.look()
    assert [(record.levelname, record.getMessage()) for record in caplog.records[2:]] == [
        ("INFO", "a broker answers again, after 98 s")
    ]


def test_a_producer_that_alone_hears_nothing_is_found_out(
    world: World, contact: Contact, caplog: pytest.LogCaptureFixture
) -> None:
    """The consumer's connection lives, and nothing is published that would notice the other one."""

    def frozen(seconds: float) -> None:
        if world.now:
            raise TimeoutError

    watch = ContactWatch(
        contact, lambda: world.now, {"producer": IdleClient(frozen, world.suspect)}, world
    )  # type: ignore[arg-type]
    watch.look()
    world.now = 12.0
    watch.look()
    assert [record.getMessage()[:35] for record in caplog.records] == [
        "no broker for 12 s for the producer"
    ]
    assert world.suspected == 1


def test_clients_that_are_about_to_lose_contact_are_to_begin_again_and_no_others(
    watch: ContactWatch, world: World
) -> None:
    """In time: of several brokers it may be only the one that is asked which does not answer."""
    watch.look()
    world.answers, world.now = False, 4.0
    watch.look()
    assert world.suspected == 0
    world.now = 5.0
    watch.look()
    assert world.suspected == 2
    world.answers = True
    watch.look()
    assert world.suspected == 2  # the consumer is not asked for a while, and looks after itself


def test_clients_log_in_with_changed_credentials_once_a_broker_accepts_those(
    world: World, contact: Contact
) -> None:
    logins, accepted = [object()], False

    def log_in(seconds: float) -> None:
        if not accepted:
            raise TimeoutError

    client = IdleClient(world.ask, world.suspect)
    watch = ContactWatch(
        contact, lambda: world.now, {"admin": client}, world, lambda: logins[-1], log_in
    )
    watch.look()
    logins.append(object())
    watch.look()
    assert world.suspected == 0  # the old connections are good
    accepted = True
    watch.look()
    watch.look()
    assert world.suspected == 1


def test_a_login_that_stays_refused_is_the_end(world: World, contact: Contact) -> None:
    ended: list[BaseException] = []
    watch = ContactWatch(contact, lambda: 0.0, {}, world, refused_seconds=60.0, end=ended.append)
    for world.now in range(0, 61, 20):
        assert ended == []
        contact.failed("consumer", "wrong password", is_refusal=True)
        watch.look()
    (refused,) = ended
    assert isinstance(refused, SetupError)
    assert "wrong password" in str(refused)


def test_it_looks_by_itself_until_it_is_stopped(world: World) -> None:
    contact = Contact(0.05, world)  # type: ignore[arg-type]
    watch = ContactWatch(
        contact, lambda: None, {"producer": IdleClient(world.ask, world.suspect)}, world
    )  # type: ignore[arg-type]
    watch.start()
    eventually(lambda: len(world.asked) >= 3, every_s=0.01)
    watch.stop()
    watch.join(PATIENCE_SECONDS)
    assert not watch.is_alive()


def test_nothing_is_reported_of_brokers_in_an_orderly_stop(
    watch: ContactWatch, world: World, caplog: pytest.LogCaptureFixture
) -> None:
    watch.look()
    world.answers, world.now = False, 50.0
    watch.stop()
    watch.look()
    assert caplog.records == []


def test_a_look_that_fails_is_reported_and_is_not_the_last(
    world: World, contact: Contact, caplog: pytest.LogCaptureFixture
) -> None:
    """Else every client would seem silent from then on: not ready for ever, and the watchdog
    asleep.
    """
    heard: list[int] = []

    def heard_at() -> float:
        heard.append(1)
        if len(heard) == 1:
            raise RuntimeError("dictionary changed size during iteration")
        again.set()
        return 1.0

    again = threading.Event()
    watch = ContactWatch(Contact(0.05, world), heard_at, {}, world)
    watch.start()
    try:
        assert again.wait(PATIENCE_SECONDS)
    finally:
        watch.stop()
        watch.join(PATIENCE_SECONDS)
    assert "dictionary changed size" in caplog.text
