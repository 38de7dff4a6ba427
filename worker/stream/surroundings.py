"""Everything outside of a worker: Kafka, databases, time, threads, and the end of its process.

`worker.app` passes the real ones. The simulation passes a broker in memory, a simulated clock,
fibers in place of threads, and an end that tests can inspect.
"""

import asyncio
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from typing import Any, NoReturn, Protocol, TypeVar

from worker.clock import Clock
from worker.errors import CoversummError, Crash, SetupError
from worker.kafka.clients import Clients
from worker.kafka.transaction import within
from worker.processing.embed import VectorStore
from worker.processing.processor import Processor
from worker.storage.databases import PartitionDatabases
from worker.stream.tracing import NO_TRACING, Tracing

log = logging.getLogger(__name__)


def die(cause: BaseException, told: Callable[[str], str] = str) -> NoReturn:
    """End the process with the exit code of `cause` (3 for anything that is not a
    `CoversummError`).

    The last line has the cause, as `told` puts it. The traceback of a crash comes before it.
    """
    expected = isinstance(cause, CoversummError) and not isinstance(cause, Crash)
    if cause.__traceback__ is not None and not expected:
        log.critical("crashed at", exc_info=cause)
    sys.stderr.write(
        f"coversumm-worker: error: {' '.join(told(str(cause) or repr(cause)).split())}\n"
    )
    for stream in (sys.stdout, sys.stderr, *(handler for handler in logging.getLogger().handlers)):
        stream.flush()
    os._exit(cause.exit_code if isinstance(cause, CoversummError) else Crash.exit_code)


class LeavingFirst:
    """Ends a process that is refused after it left its group: a restart would be refused again, and
    its partitions would wait for the end of its session. A crash ends at once: the restarted
    process takes its place in the group.

    Args:
        die: ends the process.
        leave: leaves the group if the process is a member, and returns within a bound.
    """

    def __init__(self, die: Callable[[BaseException], NoReturn], leave: Callable[[], None]) -> None:
        self._die = die
        self._leave = leave

    def __call__(self, cause: BaseException) -> NoReturn:
        """End with this cause."""
        if isinstance(cause, SetupError):
            with suppress(Exception):
                self._leave()
        self._die(cause)


T = TypeVar("T")


class Joinable(Protocol):
    """Work in a thread of its own."""

    def join(self) -> None:
        """Wait for its end."""


class InOrder(Protocol):
    """One thread that does one piece of work after another."""

    async def run(self, work: Callable[[], T]) -> T:
        """The result of `work`, once it was its turn."""


class Threads(Protocol):
    """Work beside the event loop."""

    def lock(self) -> AbstractContextManager[Any]:
        """A lock between threads."""

    def start(self, name: str, work: Callable[[], None]) -> Joinable:
        """Begin work in a thread of its own, which does not keep the process alive."""

    def in_order(self, name: str) -> InOrder:
        """A thread for one piece of work after another."""

    def within(self, seconds: float, work: Callable[[], T], /) -> T:
        """See `worker.kafka.transaction.Within`."""

    async def beside(self, work: Callable[[], T]) -> T:
        """The result of work that may block, in any thread."""

    def task(self, name: str, work: Callable[[], Coroutine[Any, Any, None]]) -> Any:
        """Run a coroutine on the event loop, without waiting for it."""

    async def ended(self, task: Any) -> None:
        """Wait for the end of a task, however it ends."""


class RealThreads:
    """The operating system's threads and the running event loop; see `Threads`."""

    def __init__(self) -> None:
        self._tasks: set[Any] = set()  # an event loop keeps none alive

    def lock(self) -> AbstractContextManager[Any]:
        """See `Threads`."""
        return threading.Lock()

    def start(self, name: str, work: Callable[[], None]) -> Joinable:
        """See `Threads`."""
        thread = threading.Thread(target=work, name=name, daemon=True)
        thread.start()
        return thread

    def in_order(self, name: str) -> InOrder:
        """See `Threads`."""
        return _OneThread(ThreadPoolExecutor(1, thread_name_prefix=name))

    def within(self, seconds: float, work: Callable[[], T], /) -> T:
        """See `Threads`."""
        return within(seconds, work)

    async def beside(self, work: Callable[[], T]) -> T:
        """See `Threads`."""
        return await asyncio.to_thread(work)

    def task(self, name: str, work: Callable[[], Coroutine[Any, Any, None]]) -> Any:
        """See `Threads`."""
        task = asyncio.create_task(work(), name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def ended(self, task: Any) -> None:
        """See `Threads`."""
        await asyncio.wait({task})


class _OneThread:
    def __init__(self, executor: ThreadPoolExecutor) -> None:
        self._executor = executor

    async def run(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._executor, work)


@dataclass(frozen=True)
class Surroundings:
    """Everything outside of a worker.

    Attributes:
        clients: reach its Kafka.
        databases: of its partitions.
        vectors: that were made before, of its engine; None: each is made again.
        clock: what it measures and waits by.
        threads: what runs beside its event loop.
        die: ends its process.
        started: `clock.monotonic()` when its process began; None: now.
        tracing: is told of its micro-batches.
    """

    clients: Clients
    databases: PartitionDatabases
    vectors: VectorStore | None = None
    clock: Clock = time
    threads: Threads = field(default_factory=RealThreads)
    die: Callable[[BaseException], NoReturn] = die
    started: float | None = None
    tracing: Tracing = NO_TRACING


class ProcessorThread:
    """A processor that one thread alone may use."""

    def __init__(self, processor: Processor, thread: InOrder) -> None:
        self._processor = processor
        self._thread = thread

    async def run(self, work: Callable[[Processor], T]) -> T:
        """The result of `work`, once it was its turn."""
        return await self._thread.run(lambda: work(self._processor))
