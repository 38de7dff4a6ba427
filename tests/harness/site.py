"""A site: the brokers, the workers of one group or several, and a supervisor that restarts
processes that ended, as a platform does, and remembers why each ended.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Self, TypeVar

from confluent_kafka import KafkaException

from tests.harness.clock import Clock
from tests.harness.damage import Disk
from tests.harness.eventually import eventually
from tests.harness.node import BrokerError, KafkaNode
from tests.harness.patience import PATIENCE_SECONDS
from tests.harness.topics import end_offsets
from tests.harness.workers import Pipeline, WorkerError, WorkerProcess

T = TypeVar("T")
Where = int | Literal["group coordinator", "transaction coordinator"]
"""A broker: its number, or what it coordinates at the moment."""

RESTART_SECONDS = 2.0
"""Between the end of a worker and its next start."""
IN_SYNC_SECONDS = 15.0
"""Longest wait for the replicas of a broker that is back; the next fault may come where they take
longer.
"""
DOCUMENTED_ENDS = {
    "disk full": (3, "is full"),
    "started without a broker": (2, "no answer from KAFKA_BOOTSTRAP_SERVERS"),
}
"""Ends that a fault brings about as documented: their exit code, and what the last lines of the log
say.
"""
ANY_CODE = range(-64, 256)
THREADS = ThreadPoolExecutor(32)
"""Faults run in these. A process is killed when the thread that started it ends: these never do."""


class End(NamedTuple):
    """An end of a worker that nobody ordered; `documented` names the fault that explains it."""

    worker: str
    code: int
    documented: str = ""

    def __str__(self) -> str:
        return f"{self.worker} with {self.code}"


@dataclass
class Site:
    """Workers of `pipelines` on one Kafka; a context in which faults may run.

    Attributes:
        ends: of workers, that nobody ordered.
        clocks: of workers and of brokers ("node 1") whose clock can be stepped.
        disks: of workers whose disk can be full.
    """

    pipelines: Sequence[Pipeline]
    restart_s: float = RESTART_SECONDS
    ends: list[End] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    clocks: dict[str, Clock] = field(default_factory=dict)
    disks: dict[str, Disk] = field(default_factory=dict)
    _held: set[object] = field(default_factory=set)
    _armed: set[WorkerProcess] = field(default_factory=set)
    _ended_s: dict[WorkerProcess, float] = field(default_factory=dict)
    _running: list[Future[Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.kafka: Any = self.pipelines[0].broker
        self._lock, self._over = threading.RLock(), threading.Event()
        self._began_s = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        wait(self._running)

    def run(self, work: Callable[..., T], *arguments: Any) -> Future[T]:
        """Let it run in a thread of its own; the site waits for it in the end."""
        self._running.append(THREADS.submit(work, *arguments))
        return self._running[-1]

    def sleep(self, seconds: float) -> None:
        """In a fault: wait so long, or until the site is closed."""
        self._over.wait(seconds)

    def note(self, what: str) -> None:
        """Print what happened, and when."""
        self.notes.append(f"{time.monotonic() - self._began_s:7.1f} s: {what}")
        print(self.notes[-1], file=sys.stderr, flush=True)

    # -- workers and brokers -----------------------------------------------------------------------

    @property
    def workers(self) -> list[WorkerProcess]:
        """Those of all pipelines."""
        return [worker for pipeline in self.pipelines for worker in pipeline.workers]

    def worker(self, name: str) -> WorkerProcess:
        """The worker of this name, the first one where it is empty."""
        return next(worker for worker in self.workers if name in ("", worker.name))

    def nodes(self, where: Sequence[Where]) -> list[KafkaNode]:
        """The brokers that are meant, now; all where none is named."""
        live, kafka = self.pipelines[0], self.kafka
        coordinators = {
            "group coordinator": lambda: kafka.group_coordinator(live.name),
            "transaction coordinator": lambda: kafka.transaction_coordinator(
                f"{live.name}-{live.workers[0].name}"
            ),
        }
        numbers = [
            coordinators[server]() if isinstance(server, str) else server for server in where
        ]
        return [kafka.node(number) for number in numbers] or list(kafka.nodes)

    def hold(self, *ended: Any) -> None:
        """Their ends are ordered from now on."""
        with self._lock:
            for process in ended:
                if (
                    not isinstance(process, KafkaNode)
                    and process not in self._held
                    and self.has_ended(process)
                ):
                    self._remember(process)  # by itself, just before
                self._held.add(process)

    def release(self, *started: object) -> None:
        """They run again: their ends are not ordered any more."""
        self._held.difference_update(started)

    def start(self, worker: WorkerProcess) -> None:
        """Start it, and from now on start it again when it ends."""
        with self._lock:
            self._ended_s.pop(worker, None)
            if not worker.alive:
                worker.start()
            self.release(worker)

    def stop(self, worker: WorkerProcess) -> None:
        """SIGTERM, once it is ready: to end with anything but 0 was not ordered."""
        with contextlib.suppress(AssertionError):  # never ready: its end says more
            self.wait_for(worker.ready, "not ready for an ordered end")
        self.hold(worker)
        if worker.alive and (code := worker.terminate()):
            self._ended(worker, code)

    def kill(self, worker: WorkerProcess) -> None:
        """`kill -9`, by order."""
        self.hold(worker)
        with contextlib.suppress(WorkerError):  # it has just ended by itself
            worker.kill()

    @contextlib.contextmanager
    def armed(self, worker: WorkerProcess) -> Any:
        """In the block an order of `armed.py` may end the worker; after it its end was ordered."""
        self._armed.add(worker)
        yield
        with self._lock:
            self._held.add(worker)
            self._armed.discard(worker)

    # -- the supervisor ----------------------------------------------------------------------------

    def look(self) -> None:
        """Restart processes that ended; BrokerError where a broker did."""
        with self._lock:
            for node in self.kafka.nodes:
                if node.crashed and node not in self._held:
                    raise BrokerError(f"node {node.number} ended by itself\n{node.log_end()}")
            for worker in self.workers:
                if not self.has_ended(worker) or worker in self._held:
                    continue
                if worker in self._armed and worker.struck():
                    continue
                self._remember(worker)
                if time.monotonic() - self._ended_s[worker] >= self.restart_s:
                    del self._ended_s[worker]
                    self.restart(worker)

    def has_ended(self, worker: WorkerProcess) -> bool:
        """Whether it runs no more, though it should."""
        return worker.exit_code is not None

    def restart(self, worker: WorkerProcess) -> None:
        """Start a worker again that ended by itself; WorkerError where it must not be."""
        next(pipeline for pipeline in self.pipelines if worker in pipeline.workers).restart(worker)

    def _remember(self, worker: WorkerProcess) -> None:
        """The end of a worker, once."""
        if worker not in self._ended_s:
            self._ended_s[worker] = time.monotonic()
            assert worker.exit_code is not None
            self._ended(worker, worker.exit_code)

    def _ended(self, worker: WorkerProcess, code: int) -> None:
        last = "\n".join(worker.log_text().splitlines()[-5:])
        fits = (why for why, (its, says) in DOCUMENTED_ENDS.items() if its == code and says in last)
        self.ends.append(End(worker.name, code, next(fits, "")))
        self.note(f"{worker.name} ENDED with {code}: {self.ends[-1].documented or last}")

    def wait_for(
        self,
        condition: Callable[[], object],
        complaint: str,
        *,
        timeout_s: float = PATIENCE_SECONDS,
        supervised: bool = False,
    ) -> None:
        """Return when it holds; WorkerError with all logs where it does not, or the site is closed.

        With `supervised`, which is for the main thread, workers that end are started again.
        """

        def holds() -> object:
            if self._over.is_set():
                raise WorkerError(f"given up: {complaint}")
            if supervised:
                self.look()
            return condition()

        eventually(holds, lambda: f"{complaint}\n{self.logs()}", timeout_s=timeout_s)

    def watch(self, seconds: float) -> None:
        """Let it run for so long."""
        until_s = time.monotonic() + seconds
        while time.monotonic() < until_s:
            self.look()
            time.sleep(0.1)

    def all_ready(self) -> bool:
        """Whether all workers that ought to run do, and are ready."""
        due = [worker for worker in self.workers if worker.started and worker not in self._held]
        return all(worker.alive and not worker.paused and worker.ready() for worker in due)

    def settle(self, since_s: float | None = None, *, under_load: bool = True) -> float:
        """Wait until all workers are ready, and what is in the log now is committed; the seconds
        since then, or `since_s`.
        """
        since_s = time.monotonic() if since_s is None else since_s
        live = self.pipelines[0]
        targets: dict[str, dict[int, int]] = {}

        def settled() -> bool:
            with contextlib.suppress(KafkaException):
                for pipeline in self.pipelines:
                    if pipeline.input_topic not in targets:
                        targets[pipeline.input_topic] = (
                            end_offsets(live.broker.bootstrap_servers, pipeline.input_topic)
                            if under_load  # else there may be aborted records behind the last one
                            else pipeline.targets()
                        )
                return self.all_ready() and not any(
                    pipeline.lag(targets[pipeline.input_topic])
                    for pipeline in self.pipelines
                    if pipeline.workers
                )
            return False

        self.wait_for(
            settled, "not ready, or behind", timeout_s=2 * PATIENCE_SECONDS, supervised=True
        )
        return time.monotonic() - since_s

    def wait_in_sync(self) -> None:
        """Return when every replica is in sync, or after a while."""
        with contextlib.suppress(AssertionError):
            self.wait_for(self.kafka.in_sync, "not in sync", timeout_s=IN_SYNC_SECONDS)

    def wait_until_whole(self) -> None:
        """Return when every replica is in sync, and each partition is led by its first: nothing is
        going to move.
        """
        self.wait_for(lambda: not self.kafka.displaced(), "not whole", supervised=True)

    def logs(self) -> str:
        """The ends of all workers' logs."""
        return "\n".join(worker.log_end() for worker in self.workers)
