"""The watchdog barks for each way a worker can stand still, once it lasts, and never at an idle
one.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import defaultdict, deque
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from jsonschema import Draft202012Validator

from docs.build.openapi import document
from tests.harness.fake_clients import FakeClock
from tests.harness.patience import PATIENCE_SECONDS
from worker.errors import Crash
from worker.events import Record
from worker.kafka.contact import Contact
from worker.kafka.group import Membership
from worker.kafka.offsets import Start
from worker.kafka.topics import partition_of
from worker.settings import Settings
from worker.stream import watchdog as module
from worker.stream.assignment import Assignment
from worker.stream.journal import DeadLetterLog, Journal
from worker.stream.run_bounds import ENDLESS
from worker.stream.status import WorkerStatus
from worker.stream.surroundings import Threads
from worker.stream.watchdog import Watchdog

LIMIT_S = 15.0


class Checks:
    """Stands for the event that ends the watchdog: between two checks no time passes but what the
    test lets pass.
    """

    def __init__(self) -> None:
        self._next, self._done = threading.Semaphore(0), threading.Semaphore(0)
        self._over = False

    def wait(self, seconds: float) -> bool:
        """The dog is through with one check and waits for the next."""
        self._done.release()
        self._next.acquire()
        return self._over

    def set(self) -> None:
        self._over = True
        self._next.release()

    def one(self) -> None:
        """Return when the dog has looked once more."""
        assert self._done.acquire(timeout=PATIENCE_SECONDS)
        self._next.release()
        assert self._done.acquire(timeout=PATIENCE_SECONDS)
        self._done.release()


class Worker:
    """What the watchdog watches, and what it said, on its own clock: it looks once a second."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 1e6
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: self.now_s))
        monkeypatch.setattr(module, "CHECK_SECONDS", 0)  # the event loop beats whenever it can
        self.stall: str | None = None
        self.progressed_at = self.now_s
        self.said: list[str] = []
        self.dog = Watchdog(lambda: self.stall, lambda: self.progressed_at, LIMIT_S, self._bark)
        self.checks = Checks()
        monkeypatch.setattr(self.dog, "_done", self.checks)
        self.dog.start()

    def _bark(self, cause: BaseException) -> None:
        assert isinstance(cause, Crash)
        self.said.append(str(cause))

    def live(self, seconds: float, progress: bool = False) -> bool:
        """Let the event loop run so long; whether the dog barked."""

        async def run() -> None:
            beating = asyncio.ensure_future(self.dog.beat())
            for _ in range(round(seconds)):
                self.now_s += 1
                if progress:
                    self.progressed_at = self.now_s
                await asyncio.sleep(0)
                self.checks.one()
            beating.cancel()

        asyncio.run(run())
        return bool(self.said)

    def stand_still(self, seconds: float) -> bool:
        """So long the event loop does nothing; whether the dog barked."""
        for _ in range(round(seconds)):
            self.now_s += 1
            self.checks.one()
        return bool(self.said)


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> Iterator[Worker]:
    made = Worker(monkeypatch)
    yield made
    made.dog.stop()
    made.dog.join(PATIENCE_SECONDS)
    assert not made.dog.is_alive()


def test_an_idle_worker_is_left_alone_however_long_ago_it_did_something(worker: Worker) -> None:
    worker.progressed_at -= 3600
    assert not worker.live(3 * LIMIT_S)


def test_a_hindrance_that_lasts_makes_it_bark_and_is_named(worker: Worker) -> None:
    worker.stall = "the group is rebalancing"
    assert not worker.live(LIMIT_S)
    assert worker.live(2)
    assert "the group is rebalancing" in worker.said[0]
    assert f"{LIMIT_S:g} s" in worker.said[0]


def test_of_a_micro_batch_that_hangs_it_says_what_helps(worker: Worker) -> None:
    worker.stall = module.BUSY
    assert worker.live(LIMIT_S + 2)
    assert "no part of it was finished" in worker.said[0]
    assert {"COVERSUMM_EMBEDDER_THREADS", "COVERSUMM_STALL_TIMEOUT_MS"} <= set(
        worker.said[0].replace(",", "").split()
    )


def test_progress_excuses_a_hindrance(worker: Worker) -> None:
    """Lag that is being worked off is not a stall."""
    worker.stall = "there is lag and nothing arrives: {0: 5}"
    assert not worker.live(3 * LIMIT_S, progress=True)


def test_an_event_loop_that_does_not_answer_makes_it_bark(worker: Worker) -> None:
    assert not worker.live(LIMIT_S)
    assert not worker.stand_still(LIMIT_S)
    assert worker.stand_still(1)
    assert "event loop" in worker.said[0]


# -- what hinders ----------------------------------------------------------------------------------


class Consumer:
    """The guarded consumer as the status asks it."""

    def __init__(self) -> None:
        self.cursors = {0: 10}
        self.ends: dict[int, int | None] = {0: 10}
        self.fetched: dict[int, int | None] = {0: 10}
        self.times: defaultdict[int, deque[tuple[int, int]]] = defaultdict(deque)

    def stable_end(self, partition: int) -> int | None:
        return self.ends[partition]

    def fetch_position(self, partition: int) -> int | None:
        return self.fetched[partition]


@pytest.fixture
def app() -> Any:
    watch = SimpleNamespace(listen=lambda: None)
    return SimpleNamespace(
        consumer=Consumer(),
        is_leaving=False,
        rebalancing=False,
        in_recovery=False,
        started=True,
        contact_watch=watch,
    )


@pytest.fixture
def contact(clock: FakeClock) -> Contact:
    made = Contact(10.0, clock)
    made.heard("consumer")
    made.heard("producer")
    return made


@pytest.fixture
def assignment() -> Assignment:
    made = Assignment(time, Journal(time, 2))
    made.assign(Membership(1, "member"), frozenset({0}))
    made.positions, made.is_flowing = {0: 10}, True
    return made


@pytest.fixture
def status(app: Any, assignment: Assignment, contact: Contact, clock: FakeClock) -> WorkerStatus:
    logs = SimpleNamespace(changelog=SimpleNamespace(topic="changelog"))
    surroundings = SimpleNamespace(databases=SimpleNamespace(memory_bytes=7), clock=clock)
    worker: Any = SimpleNamespace(
        assignment=assignment,
        summaries=None,
        entities=None,
        surroundings=surroundings,
        logs=logs,
        partitions=2,
        contact=contact,
        settings=SimpleNamespace(stall_timeout_ms=300_000),
        schemas=SimpleNamespace(waiting=None),
        why_python="",
        dead_letters=DeadLetterLog(Threads()),
        bounds=ENDLESS,
    )
    return WorkerStatus(app, worker)


def test_it_is_as_documented(status: WorkerStatus, app: Any) -> None:
    """By the schema of `/status`, with no member more."""
    worker: Any = status._worker
    worker.settings = Settings(instance_id="one", facets="preset:stays")
    app.conf = SimpleNamespace(canonical_url="http://127.0.0.1:8080")
    others = {"http://other:8080": {"changelog": [1]}}
    app.router = SimpleNamespace(tables_metadata=lambda: others)
    components = document()["components"]
    schema = {**components["schemas"]["Status"], "additionalProperties": False}
    for lag in ({0: 12}, {0: None}):
        app.consumer.ends = lag
        found = msgspec.json.decode(msgspec.json.encode(status.describe()))
        Draft202012Validator({**schema, "components": components}).validate(found)
        assert found["lag"] == {"0": None if lag[0] is None else 2}
    assert found["others"] == {"http://other:8080": [1]}


def test_a_registry_that_does_not_answer_is_said_and_is_no_hindrance(
    status: WorkerStatus, app: Any, assignment: Assignment
) -> None:
    """A restart would not end its outage."""
    app.consumer.ends = {0: 12}
    assert status.stall() == "there is lag and nothing arrives: {0: 2}"
    schemas: Any = status._worker.schemas
    schemas.waiting = "no answer of the schema registry for 5 s"
    assert status.ready() == (False, "no answer of the schema registry for 5 s")
    assert status.stall() is None
    assignment.doubt = "a doubt"
    assert status.stall() == "a commit is in doubt: a doubt"


def test_nothing_hinders_a_worker_that_is_at_the_end(status: WorkerStatus) -> None:
    assert status.stall() is None
    assert status.lag() == {0: 0}
    assert status.ready() == (True, "processing 1 of 2 partitions")


def test_the_oldest_record_waits_since_its_timestamp(
    status: WorkerStatus, app: Any, assignment: Assignment, clock: FakeClock
) -> None:
    consumer, start_ms = app.consumer, int(clock.now_s * 1000)

    def oldest(position: int, end: int | None, **passed: float) -> dict[int, float]:
        clock.now_s += passed.get("seconds", 0.0)
        assignment.positions, consumer.cursors, consumer.ends = {0: position}, {}, {0: end}
        return status.oldest_unprocessed_seconds()

    assert oldest(10, None) == {}
    # One event a second, in micro-batches of two, to a worker that takes longer for them.
    consumer.times[0].extend([(10, start_ms - 60_000), (12, start_ms - 58_000)])
    assert oldest(10, 70) == {0: 60.0}
    assert oldest(10, 75, seconds=5) == {0: 65.0}
    assert oldest(12, 80, seconds=5) == {0: 68.0}
    assert oldest(14, 80) == {0: 68.0}  # until the next micro-batch tells
    consumer.times[0].append((14, start_ms - 56_000))
    assert oldest(14, 80) == {0: 66.0}
    assert oldest(80, 80) == {0: 0.0}
    # A record of 2015, and one of a clock that is ahead: it was seen that none waited before them.
    for stamp, seconds in ((start_ms - 10**11, 7.0), (start_ms + 10**11, 0.0)):
        assert oldest(80, 80, seconds=600) == {0: 0.0}
        consumer.times[0].append((80, stamp))
        assert oldest(80, 81, seconds=7) == {0: seconds}
        consumer.times.clear()


def test_an_entity_may_still_come_while_its_partition_is_behind(
    status: WorkerStatus, app: Any, clock: FakeClock
) -> None:
    """But not because of a record that came a moment ago."""
    entity_id = next(name for name in "abcdefgh" if partition_of(name, 2) == 0)
    said = {}
    for end, seconds in ((10, 0), (4010, None), (4010, 30), (11, 1), (None, None)):
        app.consumer.ends = {0: end}
        app.consumer.times[0].clear()
        if seconds is not None:
            status._empty_at.clear()
            app.consumer.times[0].append((10, int((clock.now_s - seconds) * 1000)))
        said[end, seconds] = status.not_yet(entity_id)
    assert said == {
        (10, 0): "",
        (4010, None): "not yet: 4,000 records behind",
        (4010, 30): "not yet: 4,000 records behind",
        (11, 1): "",
        (None, None): "not yet: reading is to begin",
    }
    app.consumer.ends, status._assignment.positions = {0: 0}, {0: 0}
    assert status.not_yet(entity_id) == ""  # nothing is to come


async def test_what_is_not_fetched_yet_is_read_but_not_in_a_bounded_run(
    status: WorkerStatus,
    assignment: Assignment,
    clock: FakeClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """During a restore there is no position yet, and the consumer fetches nothing."""
    assignment.positions, assignment.starts = {}, {0: Start(10, committed=True, end=12)}
    first = Record("in", 0, 10, int(clock.now_s * 1000) - 30_000, None, None)
    monkeypatch.setattr(status, "_first", lambda unknown: [first] if unknown == {0: 10} else [])
    watching = asyncio.ensure_future(status.watch_oldest())
    await asyncio.wait({watching}, timeout=0.1)
    assert status.oldest_unprocessed_seconds() == {0: 30.0}
    watching.cancel()
    worker: Any = status._worker
    worker.bounds = SimpleNamespace(ends={0: 100})
    await asyncio.wait_for(status.watch_oldest(), PATIENCE_SECONDS)


def test_a_commit_in_doubt_hinders_until_it_is_settled(
    status: WorkerStatus, assignment: Assignment
) -> None:
    assignment.suspend("no answer")
    with assignment.progress.busy():
        assert status.stall() == "a commit is in doubt: no answer"
    assert status.ready() == (False, "finding out whether a commit happened")
    assert status.partitions() == (0, 2)
    assignment.flow()
    assert status.stall() is None
    assert status.ready()[0]


def test_a_micro_batch_in_hand_hinders(status: WorkerStatus, assignment: Assignment) -> None:
    with assignment.progress.busy():
        assert "micro-batch" in (status.stall() or "")
    assert status.stall() is None


def test_lag_ends_behind_transaction_markers_where_no_committed_offset_gets_to(
    status: WorkerStatus, app: Any
) -> None:
    app.consumer.ends, app.consumer.fetched = {0: 11}, {0: 11}
    assert status.lag() == {0: 0}
    assert status.stall() is None


def test_what_is_fetched_and_not_committed_is_lag(
    status: WorkerStatus, app: Any, assignment: Assignment
) -> None:
    app.consumer.ends, app.consumer.fetched, app.consumer.cursors = {0: 20}, {0: 20}, {0: 20}
    assert status.lag() == {0: 10}
    assignment.positions = {0: 20}
    assert status.lag() == {0: 0}


def test_before_the_first_fetch_lag_is_unknown_and_nothing_hinders(
    status: WorkerStatus, app: Any, assignment: Assignment
) -> None:
    app.consumer.ends = {0: None}
    assert status.lag() == {0: None}
    assert status.stall() is None
    app.consumer.ends, assignment.is_flowing = {0: 17}, False
    assert status.stall() == "partitions are being taken over"
    assert status.ready() == (False, "restoring the state from the changelog")


def test_a_worker_without_a_membership_is_starting(
    status: WorkerStatus, assignment: Assignment
) -> None:
    assignment.membership = None
    assert status.ready() == (False, "starting: not yet a member of the consumer group")


# -- brokers that are away -------------------------------------------------------------------------


def test_one_client_without_a_broker_is_enough(
    status: WorkerStatus, contact: Contact, clock: FakeClock
) -> None:
    """An idle producer whose connection froze could not publish what comes next."""
    clock.now_s += 12
    contact.heard("consumer")
    assert status.ready() == (False, "no broker for 12 s for the producer")


@pytest.mark.parametrize("hindrance", ["lag", "rebalance"])
def test_a_hindrance_without_a_broker_is_no_reason_to_end(
    status: WorkerStatus, app: Any, contact: Contact, clock: FakeClock, hindrance: str
) -> None:
    """A restart would not bring the broker back; not being ready is the answer."""
    app.consumer.ends, app.rebalancing = {0: 17}, hindrance == "rebalance"
    assert status.stall() is not None
    clock.now_s += 10
    assert status.stall() is None
    contact.heard("consumer")
    contact.heard("producer")
    assert status.stall() is not None


def test_a_consumer_that_alone_hears_nothing_stands_still(
    status: WorkerStatus, app: Any, contact: Contact, clock: FakeClock
) -> None:
    app.consumer.ends = {0: 17}
    clock.now_s += 1000
    contact.heard("producer")
    assert status.stall() == "there is lag and nothing arrives: {0: 7}"


def test_addresses_that_are_more_than_host_and_port_are_ignored(
    app: Any, status: WorkerStatus, caplog: pytest.LogCaptureFixture
) -> None:
    held = {
        "http://w-1:8080/": {"changelog": [1]},
        "http://w-1:8080/page?x=": {"changelog": [0, 1]},
    }
    app.router = SimpleNamespace(tables_metadata=lambda: held)
    assert status.others() == {"http://w-1:8080": [1]}
    held["file:///etc/passwd"] = held.pop("http://w-1:8080/")
    entity_id = next(name for name in map(str, range(100)) if partition_of(name, 2) == 1)
    assert status.owner_of(entity_id) == (False, None)
    (line,) = [record.getMessage() for record in caplog.records]
    assert "'http://w-1:8080/page?x=' is not http(s)://HOST:PORT" in line
