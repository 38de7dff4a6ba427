"""Workers on a cluster, taken through its faults one after the other, under a load.

A fault is one or more acts (`cluster_faults.py`) that last for some seconds; an act is a context,
entered when it strikes and left when it is over. Each fault waits until the last one is healed.
Workers that end by themselves are started again, as a platform does, and remembered.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any, Literal, NamedTuple

from confluent_kafka import KafkaException

from tests.harness.cluster import NODES, KafkaCluster
from tests.harness.eventually import eventually
from tests.harness.topics import end_offsets
from tests.harness.workers import Pipeline, WorkerProcess

CLIENTS = ("one", "two")
"""The workers' names and instance ids, and those of the cluster's proxies for them."""
ALL = tuple(range(1, NODES + 1))
RESTART_SECONDS = 2.0
"""So long after its end a worker is started again."""
CALM_SECONDS = 3.0
"""Between the end of one fault and the next: so no pause, however short before the next strikes,
belongs to both.
"""

Where = int | Literal["group coordinator", "transaction coordinator"]
Act = Callable[["Ride"], AbstractContextManager[None]]


class ClusterFault(NamedTuple):
    """So many seconds of some acts at once."""

    name: str
    seconds: float
    acts: tuple[Act, ...]


class Ridden(NamedTuple):
    """What became of a fault: its time, in milliseconds since 1970, up to when all was well again,
    and the workers that ended.
    """

    fault: str
    since_ms: int
    until_ms: int
    ready_s: float
    ends: tuple[str, ...]


class Ride:
    """Workers on a cluster, taken through faults; `ridden` is what became of each."""

    def __init__(self, cluster: KafkaCluster, site: Pipeline) -> None:
        self.cluster = cluster
        self.site = site
        self.ridden: list[Ridden] = []
        self._ends: list[str] = []
        self._ended_s: dict[WorkerProcess, float] = {}
        self._ordered: set[WorkerProcess] = set()

    def through(self, faults: Sequence[ClusterFault]) -> None:
        """One fault after the other, each from a cluster that is whole and workers that are ready
        and have caught up.
        """
        self.settle()
        for fault in faults:
            self._watch(CALM_SECONDS)
            self._ends = []
            since_ms = _now_ms()
            with ExitStack() as acts:
                for act in fault.acts:
                    acts.enter_context(act(self))
                self._watch(fault.seconds)
            ready_s = self.settle()
            self.ridden.append(Ridden(fault.name, since_ms, _now_ms(), ready_s, tuple(self._ends)))

    def settle(self) -> float:
        """Wait until all is well; the seconds until all workers were ready and had caught up."""
        started_s = time.monotonic()
        self.meanwhile(self._wait_until_caught_up)
        ready_s = time.monotonic() - started_s
        self.meanwhile(self.cluster.wait_until_whole)
        return ready_s

    def numbers(self, where: Sequence[Where]) -> list[int]:
        """The nodes that are meant, now."""
        return [self._number(one) for one in where]

    def meanwhile(self, call: Callable[..., Any], *arguments: Any) -> Any:
        """Make a call that takes a while, in another thread; workers that end meanwhile are started
        again.
        """
        with ThreadPoolExecutor(1) as pool:
            done = pool.submit(call, *arguments)
            while not done.done():
                self._keep_up()
                time.sleep(0.1)
            return done.result()

    def restart_in_order(self, worker: WorkerProcess) -> None:
        """SIGTERM, start, ready; to end with anything but 0 was not ordered."""
        with self.without(worker):
            if code := self.meanwhile(worker.terminate):
                self._ended(worker, code)

    @contextmanager
    def without(self, worker: WorkerProcess) -> Iterator[None]:
        """A ready worker, to be ended in the block: that was ordered. After it the worker is
        started, and ready again.
        """
        self._wait_for(worker.ready, "not ready for an ordered restart")
        self._ordered.add(worker)
        yield
        worker.start()
        self._ordered.discard(worker)
        self._wait_for(worker.ready, "not ready after an ordered restart")

    def _number(self, where: Where) -> int:
        if where == "group coordinator":
            return self.cluster.group_coordinator(self.site.name)
        if where == "transaction coordinator":
            return self.cluster.transaction_coordinator(f"{self.site.name}-{CLIENTS[0]}")
        assert isinstance(where, int)
        return where

    def _watch(self, seconds: float) -> None:
        until_s = time.monotonic() + seconds
        while time.monotonic() < until_s:
            self._keep_up()
            time.sleep(0.1)

    def _wait_for(self, condition: Callable[[], bool], complaint: str) -> None:
        def holds() -> bool:
            self._keep_up()
            return condition()

        eventually(holds, lambda: f"{complaint}\n{self.site.logs()}")

    def _keep_up(self) -> None:
        """Remember the workers that ended by themselves, and start them again a moment later."""
        for worker in self.site.workers:
            if worker.exit_code is None or worker in self._ordered:
                continue
            if worker not in self._ended_s:
                self._ended_s[worker] = time.monotonic()
                self._ended(worker, worker.exit_code)
            elif time.monotonic() - self._ended_s[worker] > RESTART_SECONDS:
                del self._ended_s[worker]
                self.site.restart(worker)

    def _ended(self, worker: WorkerProcess, code: int) -> None:
        self._ends.append(f"{worker.directory.name} with {code}")

    def _wait_until_caught_up(self) -> None:
        """Until all are ready, and what is in the log now is committed."""
        targets = end_offsets(self.site.broker.bootstrap_servers, self.site.input_topic)

        def caught_up() -> bool:
            with contextlib.suppress(KafkaException):
                return (
                    all(worker.ready() for worker in self.site.workers)
                    and self.site.lag(targets) == 0
                )
            return False

        eventually(caught_up, lambda: f"not ready, or behind\n{self.site.logs()}", every_s=0.5)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
