"""The site of a storm: a cluster behind proxies, workers with disks and clocks of their own, a
replay and its successor.

`look` is called all the time: it starts again whatever ended by itself, as a platform does, and
remembers why it ended.
"""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException

from tests.harness.clock import Clock
from tests.harness.cluster import KafkaCluster
from tests.harness.damage import Disk
from tests.harness.eventually import eventually
from tests.harness.load import HashedVectors, Sent, rounds
from tests.harness.node import BrokerError
from tests.harness.patience import PATIENCE_SECONDS
from tests.harness.replays import ReplayProcess, promote
from tests.harness.storm_schedule import ADDED, REPLAY, WORKERS
from tests.harness.topics import end_offsets, producer
from tests.harness.workers import Pipeline, WorkerError, WorkerProcess

RESTART_SECONDS = 2.0
"""Between the end of a worker and its next start."""
DISK_MEBIBYTES = 512
NAME = "storm"
EPOCH = "2"
FOREIGN_TIMEOUT_MS = 20_000
ENDS_IN_ORDER = {
    "disk full": (3, "is full"),
    "started without a broker": (2, "no answer from KAFKA_BOOTSTRAP_SERVERS"),
}
"""Ends that a fault brings about as documented: their exit code, and what the last lines of the log
say.
"""


@dataclass
class Resumed(Pipeline):
    """The pipeline that resumes from the replay of another one: same input, another epoch."""

    live: Pipeline | None = None

    @property
    def input_topic(self) -> str:
        """That of the live pipeline."""
        assert self.live is not None
        return self.live.input_topic

    @property
    def output_topic(self) -> str:
        """Where the replay published."""
        assert self.live is not None
        return f"{self.live.output_topic}.epoch-{EPOCH}"

    @property
    def dlq_topic(self) -> str:
        """Where the replay put its dead letters."""
        return f"{self.name}-dlq"


@dataclass
class StormSite:
    """Two workers, one more that comes and goes, and a replay.

    Attributes:
        ends: of workers and of the replay, that nobody ordered, in words.
        ends_in_order: how often a fault ended one as documented.
    """

    cluster: KafkaCluster
    live: Pipeline
    resumed: Resumed
    seed: int
    reviews: Sequence[Any]
    rate: float
    workers: dict[str, WorkerProcess] = field(default_factory=dict)
    disks: dict[str, Disk] = field(default_factory=dict)
    worker_clocks: dict[str, Clock] = field(default_factory=dict)
    broker_clocks: list[Clock] = field(default_factory=list)
    ends: list[str] = field(default_factory=list)
    ends_in_order: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)
    _watched: set[WorkerProcess] = field(default_factory=set)
    _ended_s: dict[object, float] = field(default_factory=dict)
    _replaying: ReplayProcess | None = None
    _replay_held: bool = False
    _replay_report: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        self.began_s = time.monotonic()
        self.foreign_events: Iterator[Sent] = rounds(
            self.reviews, HashedVectors(), seed=self.seed + 1
        )

    def note(self, what: str) -> None:
        """Print what happened, and when."""
        line = f"{time.monotonic() - self.began_s:7.1f} s: {what}"
        self.notes.append(line)
        print(line, flush=True)

    # -- workers -----------------------------------------------------------------------------------

    def add_workers(self, folder: Path, stack: ExitStack) -> None:
        """Make all workers of the live pipeline, and start those that are there from the
        beginning.
        """
        for client in (*WORKERS, ADDED):
            disk = Disk(folder / f"disk-{client}", DISK_MEBIBYTES)
            stack.callback(disk.unmount)
            worker = self.live.worker(client, instance_id=client, data_dir=str(disk.path / "data"))
            clock = Clock(folder / f"clock-{client}")
            worker.environment |= clock.environment
            self.disks[client], self.workers[client], self.worker_clocks[client] = (
                disk,
                worker,
                clock,
            )
        for client in WORKERS:
            self.start(self.workers[client])
        for client in WORKERS:
            self.workers[client].wait_ready()

    def start(self, worker: WorkerProcess) -> None:
        """Start it, and from now on start it again when it ends."""
        worker.start()
        self._watched.add(worker)

    def stop(self, worker: WorkerProcess) -> None:
        """SIGTERM; to end with anything but 0 was not ordered. One that starts has no handler yet,
        and is waited for.
        """
        give_up_s = time.monotonic() + PATIENCE_SECONDS
        while not worker.ready() and time.monotonic() < give_up_s:
            time.sleep(0.2)
        self._watched.discard(worker)
        if worker.alive and worker.terminate() == 0:
            return
        self._ended(worker.directory.name, worker.exit_code, worker.log_text())

    @contextmanager
    def killed(self, worker: WorkerProcess) -> Iterator[None]:
        """Killed, by order; started after the block."""
        self._watched.discard(worker)
        try:
            worker.kill()
        except WorkerError:  # it has just ended by itself
            self._ended(worker.directory.name, worker.exit_code, worker.log_text())
        yield
        self.start(worker)

    # -- looking after them ------------------------------------------------------------------------

    def look(self) -> None:
        """Start again whatever ended by itself; BrokerError where a broker did."""
        for node in self.cluster.nodes:
            if node.crashed:
                raise BrokerError(f"node {node.number} ended by itself\n{node.log_end()}")
        for worker in list(self._watched):
            if worker.exit_code is not None and worker in self._watched:
                self._again(
                    worker, worker.directory.name, worker.exit_code, worker.log_text, worker.start
                )
        self._look_after_replay()

    def _again(
        self,
        who: object,
        name: str,
        code: int | None,
        log: Callable[[], str],
        start: Callable[[], Any],
    ) -> None:
        """Remember an end, and start it again a moment later."""
        if who not in self._ended_s:
            self._ended_s[who] = time.monotonic()
            self._ended(name, code, log())
        elif time.monotonic() - self._ended_s[who] > RESTART_SECONDS:
            del self._ended_s[who]
            start()

    def _ended(self, name: str, code: int | None, log: str) -> None:
        last = "\n".join(log.splitlines()[-5:])
        for fault, (its_code, says) in ENDS_IN_ORDER.items():
            if code == its_code and says in last:
                self.ends_in_order[fault] += 1
                self.note(f"{name} ended with {code}: {fault}")
                return
        self.ends.append(f"{name} with {code}")
        self.note(f"{name} ENDED with {code}\n{last}")

    # -- the replay --------------------------------------------------------------------------------

    def begin_replay(self) -> None:
        """Start the replay of what is in the input now, about as fast as the input grows."""
        proxied = {**self.live.settings, "KAFKA_BOOTSTRAP_SERVERS": self.cluster.servers_of(REPLAY)}
        self._replaying = ReplayProcess(
            replace(self.live, settings=proxied),
            "--max-events-per-s",
            f"{self.rate:g}",
            epoch=EPOCH,
        ).start()
        self.note("the replay begins")

    def _look_after_replay(self) -> None:
        """Start it again when it ended too early, and a worker in its place when it is over."""
        process = self._replaying
        if process is None or process.alive or self._replay_held or REPLAY in self.workers:
            return
        if process.exit_code:
            self._again(process, REPLAY, process.exit_code, lambda: process.errors, process.start)
            return
        self._replay_report = process.report()
        self.note(f"the replay is over: {self._replay_report}")
        worker = self.resumed.worker(
            "resumed", data_dir=str(self.live.directory / "replay" / f"replay-epoch-{EPOCH}")
        )
        self.workers[REPLAY] = worker
        self.start(worker)

    @contextmanager
    def replay_killed(self) -> Iterator[None]:
        """The replay, or the worker that resumed from it, is killed, and started after
        the block.
        """
        eventually(lambda: self._replaying is not None, lambda: "the replay has not begun")
        process = self._replaying
        assert process is not None
        self._replay_held = True
        try:
            if (worker := self.workers.get(REPLAY)) is not None:
                with self.killed(worker):
                    yield
                return
            with contextlib.suppress(WorkerError):  # it has just ended by itself
                process.kill()
            yield
            process.start()
        finally:
            self._replay_held = False

    def wait_for_replay(self) -> None:
        """Return when a worker has resumed from it."""

        def resumed() -> bool:
            self.look()
            return REPLAY in self.workers

        eventually(resumed, lambda: "the replay does not end", timeout_s=4 * PATIENCE_SECONDS)

    def promote(self) -> list[dict[str, Any]]:
        """What `promote` says of the resumed build, the verdict last."""
        return promote(
            self.live, self.resumed.name, self.resumed.output_topic, "--max-changed", "0"
        )

    # -- the input ---------------------------------------------------------------------------------

    def foreign_producer(self) -> Any:
        """A transactional producer of somebody else; it aborts what the one before it left open."""
        return producer(
            self.cluster.bootstrap_servers,
            **{"transactional.id": f"{NAME}-foreign", "transaction.timeout.ms": FOREIGN_TIMEOUT_MS},
        )

    def end_foreign(self) -> None:
        """Abort what a foreign transaction left open."""

        def aborted() -> bool:
            with contextlib.suppress(KafkaException):
                self.foreign_producer().init_transactions(10)
                return True
            return False

        eventually(aborted, lambda: "a foreign transaction stays open")

    # -- after it ----------------------------------------------------------------------------------

    def settle(self, timeout_s: float = 2 * PATIENCE_SECONDS) -> None:
        """Return when all workers are ready, and what is in the log now is committed by both
        groups.
        """
        targets = end_offsets(self.cluster.bootstrap_servers, self.live.input_topic)
        sites = [self.live, *([self.resumed] if REPLAY in self.workers else [])]

        def caught_up() -> bool:
            self.look()
            with contextlib.suppress(KafkaException):
                return all(worker.ready() for worker in self._watched) and not any(
                    site.lag(targets) for site in sites
                )
            return False

        logs = chain(self.live.workers, self.resumed.workers)
        eventually(
            caught_up,
            lambda: "not ready, or behind\n" + "\n".join(worker.log_end() for worker in logs),
            timeout_s=timeout_s,
            every_s=0.5,
        )

    def stop_all(self) -> None:
        """SIGTERM to all."""
        for worker in list(self._watched):
            self.stop(worker)
