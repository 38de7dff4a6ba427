"""The surroundings of a simulated worker: what `worker.app.assemble` gets in place of Kafka,
RocksDB, threads, clock and exit.

Nothing of the worker itself is replaced.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, NoReturn, TypeVar

from tests.simulation import clients
from tests.simulation.broker import Clock
from tests.simulation.fibers import Fiber, Killed, drive
from worker.kafka.topics import DELETE_RETENTION_MS
from worker.kafka.transactions import Hung
from worker.stream.surroundings import Surroundings

T = TypeVar("T")


class Ended(Exception):
    """The process ended itself; its cause is the argument."""

    @property
    def cause(self) -> BaseException:
        """What it would have said, and the exit code's error."""
        cause: BaseException = self.args[0]
        return cause


def die(cause: BaseException) -> NoReturn:
    """Stands for `worker.stream.surroundings.die`; a second call keeps the first cause."""
    raise cause if isinstance(cause, (Ended, Killed)) else Ended(cause)


def surroundings_of(process: clients.Caller, databases: clients.Databases) -> Surroundings:
    """What a process is put together over."""
    return Surroundings(
        clients=Clients(process),
        databases=databases,
        clock=process.broker.clock,
        threads=Threads(process.broker.clock),
        die=die,
    )


class Clients:
    """Clients of the broker in memory; see `worker.kafka.clients`."""

    def __init__(self, process: clients.Caller) -> None:
        self._process = process

    def standalone_consumer(
        self, group: str, isolation: str, options: Mapping[str, Any] | None = None
    ) -> Any:
        """A consumer of explicit assignments."""
        return clients.Consumer(self._process, committed=isolation == "read_committed")

    def producer(self, options: Mapping[str, Any]) -> Any:
        """A transactional producer."""
        return clients.Producer(self._process, options["transactional.id"])

    def admin(self, on_error: Any = None) -> Any:
        """Tells of topics, which stay what they are."""
        return Admin(self._process)


class _Answer(SimpleNamespace):
    def result(self, timeout: float | None = None) -> Any:
        return self.answer


class Admin:
    """What the worker asks about its topics: each has an id, and keeps tombstones as long as it was
    created to.
    """

    def __init__(self, process: clients.Caller) -> None:
        self._process = process

    def poll(self, timeout: float) -> int:
        """Nothing to log."""
        return 0

    def list_topics(self, timeout: float) -> Any:
        """A cluster with topic ids."""
        return SimpleNamespace(cluster_id="simulated")

    def describe_topics(self, topics: Any, request_timeout: float) -> dict[str, _Answer]:
        """The id of the one topic there is of a name; no partition is ever added."""
        self._process.call("ids", lambda: None)
        return {
            name: _Answer(answer=SimpleNamespace(topic_id=f"the id of {name}", partitions=[None]))
            for name in topics.topic_names
        }

    def describe_configs(self, resources: Any, request_timeout: float) -> dict[Any, _Answer]:
        """How long tombstones live."""
        config = {"delete.retention.ms": SimpleNamespace(value=str(DELETE_RETENTION_MS))}
        return {resource: _Answer(answer=config) for resource in resources}


# -- one event loop for all of a process: what is awaited runs at once, or its fiber is parked -----


class _Lock:
    """A lock that parks who waits for it."""

    def __init__(self) -> None:
        self._held = False

    def __enter__(self) -> None:
        Fiber.wait_while(lambda: self._held)
        self._held = True

    def __exit__(self, *_: Any) -> None:
        self._held = False


class _InOrder:
    """One thread: work waits until the work before it is done."""

    def __init__(self) -> None:
        self._lock = _Lock()

    async def run(self, work: Callable[[], T]) -> T:
        with self._lock:
            return work()


def _raising(error: BaseException) -> Callable[[], Any]:
    def again() -> Any:
        raise error

    return again


class _Thread:
    """A thread that is one more fiber of the process that starts it; it begins whenever the
    scheduler comes to it.
    """

    def __init__(self, name: str, work: Callable[[], None]) -> None:
        assert Fiber.current is not None
        self._fiber = Fiber(name, work, Fiber.current.siblings)

    def join(self) -> None:
        Fiber.wait_while(lambda: not self._fiber.done)


class Threads:
    """Fibers in place of threads and tasks; see `worker.stream.surroundings`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def lock(self) -> _Lock:
        """A lock that parks who waits for it."""
        return _Lock()

    def start(self, name: str, work: Callable[[], None]) -> _Thread:
        """One more fiber."""
        return _Thread(name, work)

    def in_order(self, name: str) -> _InOrder:
        """Work that waits for the work before it."""
        return _InOrder()

    def within(self, seconds: float, work: Callable[[], T], /) -> T:
        """In a fiber of its own: one that is parked for longer is left there, and does its work
        when nobody waits for it.
        """
        outcomes: list[Callable[[], T]] = []

        def run() -> None:
            try:
                result = work()
            except BaseException as raised:
                outcomes.append(_raising(raised))
            else:
                outcomes.append(lambda: result)

        assert Fiber.current is not None
        until = self._clock.now + seconds
        Fiber("call", run, Fiber.current.siblings).resume()
        Fiber.wait_while(lambda: not outcomes and self._clock.now < until)
        if not outcomes:
            raise Hung
        return outcomes[0]()

    async def beside(self, work: Callable[[], T]) -> T:
        """At once: whatever blocks in it parks the fiber."""
        return work()

    def task(self, name: str, work: Callable[[], Coroutine[Any, Any, None]]) -> Fiber:
        """One more fiber; it begins whenever the scheduler comes to it."""
        assert Fiber.current is not None
        return Fiber(name, lambda: drive(work()), Fiber.current.siblings)

    async def ended(self, task: Fiber) -> None:
        """Wait until it is done."""
        Fiber.wait_while(lambda: not task.done)


@contextmanager
def silence() -> Iterator[None]:
    """No log meanwhile: simulated workers crash by the thousand, and nobody wants to read each
    one's.
    """
    loggers = [logging.getLogger(name) for name in ("worker", "faust", "aiokafka", "mode")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
