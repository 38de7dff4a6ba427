"""The watchdog barks for each way a worker can stand still, once it lasts, and never at an idle one."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from worker.errors import Crash
from worker.kafka.membership import Membership
from worker.stream import watchdog as module
from worker.stream.assignment import Assignment
from worker.stream.status import WorkerStatus
from worker.stream.watchdog import Watchdog

LIMIT_S = 0.15


class Worker:
    """What the watchdog watches, and what it said; its event loop is a thread that beats."""

    def __init__(self) -> None:
        self.stall: str | None = None
        self.progressed_at = time.monotonic()
        self.barked = threading.Event()
        self.said: list[str] = []
        self.dog = Watchdog(lambda: self.stall, lambda: self.progressed_at, LIMIT_S, self._bark)
        self.dog.start()

    def _bark(self, cause: BaseException) -> None:
        assert isinstance(cause, Crash)
        self.said.append(str(cause))
        self.barked.set()

    def live(self, seconds: float, progress: bool = False) -> bool:
        """Let the event loop run so long; whether the dog barked."""

        async def run() -> None:
            beating = asyncio.ensure_future(self.dog.beat())
            end = time.monotonic() + seconds
            while time.monotonic() < end and not self.barked.is_set():
                if progress:
                    self.progressed_at = time.monotonic()
                await asyncio.sleep(0.005)
            beating.cancel()

        asyncio.run(run())
        return self.barked.is_set()


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> Iterator[Worker]:
    monkeypatch.setattr(module, "CHECK_SECONDS", 0.01)
    made = Worker()
    yield made
    made.dog.stop()
    made.dog.join(5)
    assert not made.dog.is_alive()


def test_an_idle_worker_is_left_alone_however_long_ago_it_did_something(worker: Worker) -> None:
    worker.progressed_at -= 3600
    assert not worker.live(3 * LIMIT_S)


def test_a_hindrance_that_lasts_makes_it_bark_and_is_named(worker: Worker) -> None:
    worker.stall = "the group is rebalancing"
    assert worker.live(20 * LIMIT_S)
    assert "the group is rebalancing" in worker.said[0]
    assert f"{LIMIT_S:g} s" in worker.said[0]


def test_a_hindrance_counts_from_when_it_began_not_from_the_last_progress(worker: Worker) -> None:
    worker.progressed_at -= 3600
    worker.stall = "a micro-batch is being processed"
    assert not worker.live(LIMIT_S / 3)
    worker.stall = None
    assert not worker.live(LIMIT_S)


def test_progress_excuses_a_hindrance(worker: Worker) -> None:
    """Lag that is being worked off is no stall."""
    worker.stall = "there is lag and nothing arrives: {0: 5}"
    assert not worker.live(3 * LIMIT_S, progress=True)


def test_an_event_loop_that_does_not_answer_makes_it_bark(worker: Worker) -> None:
    assert not worker.live(LIMIT_S / 3)
    assert worker.barked.wait(20 * LIMIT_S)
    assert "event loop" in worker.said[0]


# -- what hinders -----------------------------------------------------------------------------------------------------


class Consumer:
    """The guarded consumer as the status asks it."""

    def __init__(self) -> None:
        self.cursors = {0: 10}
        self.ends: dict[int, int | None] = {0: 10}
        self.fetched: dict[int, int | None] = {0: 10}

    def stable_end(self, partition: int) -> int | None:
        return self.ends[partition]

    def fetch_position(self, partition: int) -> int | None:
        return self.fetched[partition]


@pytest.fixture
def app() -> Any:
    return SimpleNamespace(consumer=Consumer(), rebalancing=False, in_recovery=False, started=True)


@pytest.fixture
def assignment() -> Assignment:
    made = Assignment(time)
    made.assign(Membership(1, "member"), frozenset({0}))
    made.positions, made.is_flowing = {0: 10}, True
    return made


@pytest.fixture
def status(app: Any, assignment: Assignment) -> WorkerStatus:
    logs = SimpleNamespace(changelog=SimpleNamespace(topic="changelog"))
    surroundings = SimpleNamespace(databases=SimpleNamespace(memory_bytes=7))
    worker: Any = SimpleNamespace(
        assignment=assignment, processor=None, surroundings=surroundings, logs=logs, partitions=2
    )
    return WorkerStatus(app, worker)


def test_nothing_hinders_a_worker_that_is_at_the_end(status: WorkerStatus) -> None:
    assert status.stall() is None
    assert status.lag() == {0: 0}
    assert status.ready() == (True, "processing 1 of 2 partitions")


def test_a_rebalance_hinders(status: WorkerStatus, app: Any) -> None:
    app.rebalancing = True
    assert "rebalancing" in (status.stall() or "")
    assert status.ready() == (False, "rebalancing")


def test_a_micro_batch_in_hand_hinders(status: WorkerStatus, assignment: Assignment) -> None:
    with assignment.progress.busy():
        assert "micro-batch" in (status.stall() or "")
    assert status.stall() is None


def test_lag_hinders(status: WorkerStatus, app: Any) -> None:
    app.consumer.ends = {0: 17}
    assert status.stall() == "there is lag and nothing arrives: {0: 7}"


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


def test_an_open_transaction_upstream_is_no_hindrance(status: WorkerStatus, app: Any) -> None:
    """The last stable offset stands still, whatever lies behind it."""
    app.consumer.undecided = lambda partition: 1000
    assert status.stall() is None
    assert status.undecided() == {0: 1000}


def test_before_the_first_fetch_lag_is_unknown_and_nothing_hinders(
    status: WorkerStatus, app: Any, assignment: Assignment
) -> None:
    app.consumer.ends = {0: None}
    assert status.lag() == {0: None}
    assert status.stall() is None
    app.consumer.ends, assignment.is_flowing = {0: 17}, False
    assert status.stall() is None
    assert status.ready() == (False, "restoring the state from the changelog")


def test_a_worker_without_a_membership_is_starting(status: WorkerStatus, assignment: Assignment) -> None:
    assignment.membership = None
    assert status.ready() == (False, "starting: not yet a member of the consumer group")


def test_the_databases_memory_is_told(status: WorkerStatus) -> None:
    assert status.rocksdb_bytes() == 7
