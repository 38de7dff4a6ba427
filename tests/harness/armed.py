"""The worker with traps at the steps of its protocol: `python -m tests.harness.armed run` in place
of `python -m worker run`.

Nothing of this is in the worker. The launcher imports it, wraps the named steps from outside, and
goes on as the command does. At each step it looks for an order in the file that `ARMED_ORDER`
names:

    {"step": "after the flush", "passage": 3, "signal": 9, "pid": null}

From then on the third time that this process comes there, the order is renamed to `*.struck` (the
note that the step was reached; an order strikes once, whatever restarts) and the signal is sent, to
this process or to `pid`. Where two steps have nothing but Python between them, one has the name of
both: before the offsets are sent is *after the flush*, before the commit *after the offsets*,
before the first local batch *after the commit*.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, NamedTuple

VARIABLE = "ARMED_ORDER"
COMMIT_SECONDS = 0.001
"""So long after its beginning a commit is struck: about a third of what it takes."""

Trigger = Literal["load", "rebalance", "restore"]
STEPS: dict[str, Trigger] = {
    "before the transaction": "load",
    "after a produce": "load",
    "before the flush": "load",
    "after the flush": "load",
    "after the offsets": "load",
    "during the commit": "load",
    "after the commit": "load",
    "between local batches": "load",
    "before the summaries": "load",
    "after the summaries": "load",
    "before a standby's batch": "load",
    "after a standby's batch": "load",
    "at a revocation": "rebalance",
    "at letting go": "rebalance",
    "after fetching the offsets": "rebalance",
    "after the restore": "rebalance",
    "before the seek": "rebalance",
    "after the seek": "rebalance",
    "inside a restore": "restore",
}
"""Every step, and what leads a running worker there: events, a rebalance, or a start without local
state.
"""

BRIDGE_STEPS: tuple[str, ...] = (
    "after fetching the offsets",
    "at a revocation",
    "before the transaction",
    "after a produce",
    "before the flush",
    "after the flush",
    "after the offsets",
    "during the commit",
    "after the commit",
)
"""Those of a bridge. The first two are steps of a rebalance."""


class Order(NamedTuple):
    """What is to happen: at the `passage`-th time a process comes to `step`, the signal goes to
    `pid` or to itself.
    """

    step: str
    passage: int
    signal: int
    pid: int | None = None

    def give(self, path: Path) -> None:
        """Put the order where a process with this path in its environment looks for it."""
        assert self.step in STEPS
        struck_path(path).unlink(missing_ok=True)
        partial = path.with_suffix(".partial")
        partial.write_text(json.dumps(self._asdict()))
        partial.rename(path)


def struck_path(path: Path) -> Path:
    """What the file of an order is called once it struck."""
    return path.with_suffix(".struck")


class Trap:
    """Counts passages of the ordered step and strikes; one for the process, used from several
    threads.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._counted: tuple[int, int] | None = None
        self._passed = 0

    def passes(self, step: str) -> None:
        """The process is at `step`."""
        with self._lock:
            order = self._due(step)
        if order is not None:
            os.kill(order.pid or os.getpid(), order.signal)
            if order.pid is not None and order.signal == signal.SIGSTOP:
                _wait_until_stopped(order.pid)

    def _due(self, step: str) -> Order | None:
        try:
            status = self._path.stat()
            order = Order(**json.loads(self._path.read_text()))
        except FileNotFoundError:
            return None
        if order.step != step:
            return None
        if self._counted != (status.st_ino, status.st_mtime_ns):
            self._counted, self._passed = (status.st_ino, status.st_mtime_ns), 0
        self._passed += 1
        if self._passed < order.passage:
            return None
        self._path.rename(struck_path(self._path))
        return order


def _wait_until_stopped(pid: int) -> None:
    """Until no thread of the process runs any more: the signal alone leaves those on other cores
    time for an answer.
    """
    tasks = Path("/proc", str(pid), "task")
    while any(_state(task) not in "TtZX" for task in tasks.iterdir()):
        time.sleep(0.001)


def _state(task: Path) -> str:
    """The letter that Linux has for what a thread does; X where it has ended."""
    try:
        return (task / "stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "X"


def arm(passes: Callable[[str], None]) -> None:
    """Wrap the worker's steps: each calls `passes` with its name."""
    _arm_transaction(passes)
    _arm_local_batches(passes)
    _arm_takeover(passes)
    _arm_changelog(passes)
    _arm_bridge(passes)


def _arm_transaction(passes: Callable[[str], None]) -> None:
    from confluent_kafka import Producer

    from worker.kafka import clients

    class ArmedProducer(Producer):
        def begin_transaction(self) -> None:
            passes("before the transaction")
            super().begin_transaction()

        def produce(self, *args: Any, **kwargs: Any) -> None:
            super().produce(*args, **kwargs)
            passes("after a produce")

        def produce_batch(self, topic: str, messages: list[dict[str, Any]], partition: int) -> int:
            queued = super().produce_batch(topic, messages, partition)
            for _ in range(queued):
                passes("after a produce")
            return queued

        def flush(self, *args: Any) -> int:
            passes("before the flush")
            left = super().flush(*args)
            passes("after the flush")
            return left

        def send_offsets_to_transaction(self, *args: Any) -> None:
            super().send_offsets_to_transaction(*args)
            passes("after the offsets")

        def commit_transaction(self, *args: Any) -> None:
            done = threading.Event()

            def meanwhile() -> None:
                if not done.wait(COMMIT_SECONDS):
                    passes("during the commit")

            threading.Thread(target=meanwhile, daemon=True).start()
            super().commit_transaction(*args)
            done.set()
            passes("after the commit")

    clients.Producer = ArmedProducer  # type: ignore[misc]


def _arm_local_batches(passes: Callable[[str], None]) -> None:
    from worker.processing.processor import ProcessedBatch, Processor
    from worker.stream.commit import Commit
    from worker.stream.gate import Gate

    commit, committed, write = Commit.__call__, Processor.committed, Gate.write
    to_write = 0

    @functools.wraps(commit)
    def armed_commit(self: Any, flight: Any) -> None:
        nonlocal to_write
        to_write = sum(bool(changes) for changes in flight.batch.rows.values())
        commit(self, flight)

    @functools.wraps(write)
    def armed_write(self: Any, *args: Any) -> None:
        nonlocal to_write
        write(self, *args)
        to_write -= 1
        if to_write:
            passes("between local batches")

    @functools.wraps(committed)
    def armed_committed(self: Processor, batch: ProcessedBatch) -> None:
        passes("before the summaries")
        committed(self, batch)
        passes("after the summaries")

    Processor.committed, Commit.__call__ = armed_committed, armed_commit  # type: ignore[method-assign]
    Gate.write = armed_write  # type: ignore[method-assign]


def _arm_takeover(passes: Callable[[str], None]) -> None:
    from worker.stream.assignment import Assignment
    from worker.stream.faust.consumer import GuardedConsumer
    from worker.stream.takeover import Takeover

    revoked, perform_seek = GuardedConsumer.on_partitions_revoked, GuardedConsumer.perform_seek
    fetch_starts, begin_processing = Takeover.fetch_starts, Takeover.begin_processing
    end = Assignment.end

    async def armed_revoked(self: Any, partitions: set[Any]) -> None:
        if partitions:
            passes("at a revocation")
        await revoked(self, partitions)

    async def armed_fetch_starts(self: Any) -> Any:
        starts = await fetch_starts(self)
        if starts:
            passes("after fetching the offsets")
        return starts

    async def armed_perform_seek(self: Any) -> None:
        passes("before the seek")
        await perform_seek(self)
        passes("after the seek")

    async def armed_begin_processing(self: Any, starts: Any) -> None:
        if starts:
            passes("after the restore")
        await begin_processing(self, starts)

    def armed_end(self: Any) -> list[int]:
        if self.positions:
            passes("at letting go")
        return end(self)

    GuardedConsumer.on_partitions_revoked = armed_revoked
    GuardedConsumer.perform_seek = armed_perform_seek
    Takeover.fetch_starts = armed_fetch_starts  # type: ignore[method-assign]
    Takeover.begin_processing = armed_begin_processing  # type: ignore[method-assign]
    Assignment.end = armed_end  # type: ignore[method-assign]


def _arm_changelog(passes: Callable[[str], None]) -> None:
    from worker.kafka import changelog

    class ArmedReader(changelog.ChangelogReader):
        """Whoever applies is a standby from `follow` on, before that a restore."""

        def __init__(self, *, apply: Any, **more: Any) -> None:
            self.follows = False

            def armed_apply(*args: Any) -> None:
                if self.follows:
                    passes("before a standby's batch")
                apply(*args)
                passes("after a standby's batch" if self.follows else "inside a restore")

            super().__init__(apply=armed_apply, **more)

        def follow(self) -> None:
            self.follows = True
            super().follow()

    changelog.ChangelogReader = ArmedReader  # type: ignore[misc]


def _arm_bridge(passes: Callable[[str], None]) -> None:
    from worker.bridge import Bridge

    assigned, revoked = Bridge._assigned, Bridge._revoked

    def armed_assigned(self: Bridge, *args: Any) -> None:
        assigned(self, *args)
        passes("after fetching the offsets")

    def armed_revoked(self: Bridge, *args: Any) -> None:
        passes("at a revocation")
        revoked(self, *args)

    Bridge._assigned = armed_assigned  # type: ignore[method-assign]
    Bridge._revoked = armed_revoked  # type: ignore[method-assign]


def main() -> None:
    """The worker's command line, armed where the variable is set."""
    from worker.cli import main as worker_main
    from worker.settings.environment import limit_native_threads

    limit_native_threads()  # before NumPy is loaded, as the command itself does
    with contextlib.suppress(KeyError):
        arm(Trap(Path(os.environ[VARIABLE])).passes)
    worker_main()


if __name__ == "__main__":
    main()
