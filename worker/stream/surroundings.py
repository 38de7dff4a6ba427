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
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, NoReturn, Protocol, TypeVar

from worker.clock import Clock
from worker.errors import CoversummError, Crash, SetupError
from worker.events import Record
from worker.kafka.clients import Clients
from worker.kafka.transactions import within
from worker.limits import Limit
from worker.processing.embed import VectorStore
from worker.processing.processor import ProcessedBatch, Processor
from worker.processing.stats import Stats
from worker.storage.databases import PartitionDatabases

log = logging.getLogger(__name__)


def die(cause: BaseException, advised: Callable[[str], str] = str) -> NoReturn:
    """End the process with the exit code of `cause`; 3 if it is no `CoversummError`.

    The last line is the message of the cause, after `advised`. A crash logs its traceback first.
    """
    expected = isinstance(cause, CoversummError) and not isinstance(cause, Crash)
    if cause.__traceback__ is not None and not expected:
        log.critical("crashed at", exc_info=cause)
    message = " ".join(advised(str(cause) or repr(cause)).split())
    sys.stderr.write(f"coversumm-worker: error: {message}\n")
    for stream in (sys.stdout, sys.stderr, *(handler for handler in logging.getLogger().handlers)):
        stream.flush()
    os._exit(cause.exit_code if isinstance(cause, CoversummError) else Crash.exit_code)


def leaving_first(
    die: Callable[[BaseException], NoReturn], leave: Callable[[], None]
) -> Callable[[BaseException], NoReturn]:
    """`die`, but a refused worker leaves its group first, within the bound of `leave`.

    A restart would be refused again, and its partitions would wait for the end of its session. A
    crash ends at once: the restarted process takes its place in the group.
    """

    def end(cause: BaseException) -> NoReturn:
        if isinstance(cause, SetupError):
            with suppress(Exception):
                leave()
        die(cause)

    return end


T = TypeVar("T")


class OneThread:
    """One thread that does one piece of work after another."""

    def __init__(self, name: str) -> None:
        self._executor = ThreadPoolExecutor(1, thread_name_prefix=name)

    async def run(self, work: Callable[[], T]) -> T:
        """The result of `work`, which waits for its turn."""
        return await asyncio.get_running_loop().run_in_executor(self._executor, work)


class Threads:
    """Work beside the event loop: threads of the operating system, and tasks."""

    def __init__(self) -> None:
        self._tasks: set[Any] = set()  # the event loop itself keeps no task alive

    def lock(self) -> AbstractContextManager[Any]:
        """A lock between threads."""
        return threading.Lock()

    def start(self, name: str, work: Callable[[], None]) -> threading.Thread:
        """Begin work in a thread of its own, which does not keep the process alive."""
        thread = threading.Thread(target=work, name=name, daemon=True)
        thread.start()
        return thread

    def in_order(self, name: str) -> OneThread:
        """A thread for one piece of work after another."""
        return OneThread(name)

    def within(self, seconds: float, work: Callable[[], T], /) -> T:
        """The result of `work`, which may hang. Raises Hung after `seconds`."""
        return within(seconds, work)

    async def beside(self, work: Callable[[], T]) -> T:
        """The result of work that may block, in any thread."""
        return await asyncio.to_thread(work)

    def task(self, name: str, work: Callable[[], Coroutine[Any, Any, None]]) -> Any:
        """Run a coroutine on the event loop, without waiting for it."""
        task = asyncio.create_task(work(), name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def ended(self, task: Any) -> None:
        """Wait for the end of a task, also of a failed one."""
        await asyncio.wait({task})


Contexts = Mapping[tuple[int, int], bytes]
"""By partition and offset: the W3C trace context (`traceparent`) of a record."""
NO_CONTEXTS: Final[Contexts] = MappingProxyType({})


class Span:
    """The processing and committing of records, from beginning to end."""

    def processed(
        self, batch: ProcessedBatch, records: Sequence[Record], contexts: Contexts
    ) -> None:
        """The first `batch.taken` of these records were processed. May add headers to messages."""

    def in_doubt(self) -> None:
        """The commit is in doubt."""

    def dropped(self) -> None:
        """Nothing of it was sent: the assignment ended first."""


class Tracing:
    """Makes empty spans, which cost nothing; `worker.telemetry.spans` exports spans."""

    def contexts(self, fetched: Iterable[Any]) -> Contexts:
        """The trace contexts of these records of the consumer's client."""
        return NO_CONTEXTS

    def micro_batch(self) -> AbstractContextManager[Span]:
        """A span that begins now, and ends with the block."""
        return nullcontext(Span())

    def close(self) -> None:
        """Export the remaining spans, within seconds."""


NO_TRACING: Final = Tracing()


@dataclass(frozen=True)
class Surroundings:
    """Everything outside of a worker."""

    clients: Clients
    databases: PartitionDatabases
    vectors: VectorStore | None = None  # stored vectors of its engine; None: it makes each one
    clock: Clock = time
    threads: Threads = field(default_factory=Threads)
    die: Callable[[BaseException], NoReturn] = die
    started: float | None = None  # `clock.monotonic()` when its process began; None: now
    tracing: Tracing = NO_TRACING

    async def pause(self, seconds: float) -> None:
        """Wait by the clock, beside the event loop."""
        await self.threads.beside(lambda: self.clock.sleep(seconds))


class WorkerMetrics(Protocol):
    """A worker's reports of its work."""

    def observe_form(self, is_native: bool) -> None:
        """Native code takes usual events, or Python takes all."""

    def observe_batch(self, stats: Stats) -> None:
        """A part of a micro-batch was committed."""

    def observe_commit(self, seconds: float) -> None:
        """A commit took this long."""

    def observe_doubt(self, committed: bool) -> None:
        """A commit was in doubt, and it had happened or not."""

    def observe_limit(self, limit: Limit) -> None:
        """A limit was hit."""

    def observe_restore(self, rows: int, remaining: int) -> None:
        """A restore has read these rows, and has these changelog offsets to go."""


@dataclass(eq=False)
class ProcessorThread:
    """A processor that one thread alone may use."""

    processor: Processor
    thread: OneThread

    async def run(self, work: Callable[[Processor], T]) -> T:
        """The result of `work`, which waits for its turn."""
        return await self.thread.run(lambda: work(self.processor))
