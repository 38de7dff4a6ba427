"""A consumer of the worker on a thread that a test fills."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from faust.types import TP

from tests.harness.consumer_thread import ConsumerThread, Fetched
from tests.harness.stream import CHANGELOG as CHANGELOG_TOPIC
from tests.harness.stream import INPUT, Parts
from worker.kafka.offsets import Start
from worker.stream.delivery import MicroBatch
from worker.stream.faust.application import GuardedTransport
from worker.stream.faust.consumer import GuardedConsumer
from worker.stream.run_bounds import ENDLESS, RunBounds

A, B, CHANGELOG = TP(INPUT, 0), TP(INPUT, 1), TP(CHANGELOG_TOPIC, 0)


def record(tp: TP, offset: int) -> Fetched:
    value = b"%d" % offset
    return Fetched(
        tp.topic, tp.partition, offset, 1_000 + offset, b"key", value, (("ce_type", value),)
    )


class FakeThread(ConsumerThread):
    """Over logs in memory, with what was done to it."""

    def __init__(self, logs: dict[TP, list[int]]) -> None:
        super().__init__()
        self.logs = logs
        self.seeks: list[tuple[TP, int]] = []
        self.fetched: list[set[TP]] = []
        self.commits: list[Any] = []
        self.generation, self.member_id = 1, "member"
        self.during: Callable[[], Awaitable[None]] | None = (
            None  # happens while a fetch is under way
        )
        self.after: Callable[[], Awaitable[None]] | None = None  # happens when it has its records

    def seek(self, tp: TP, offset: int) -> None:
        self.seeks.append((tp, offset))
        super().seek(tp, offset)

    async def commit(self, offsets: Any) -> bool:
        self.commits.append(offsets)
        return True

    async def getmany(self, tps: set[TP], timeout: float) -> dict[TP, list[Fetched]]:
        self.fetched.append(set(tps))
        await self._happen("during")
        found = {tp: records for tp in sorted(tps) if (records := self.read(tp))}
        await self._happen("after")
        return found

    def read(self, tp: TP) -> list[Fetched]:
        records = [record(tp, offset) for offset in self.logs[tp] if offset >= self.positions[tp]][
            :10
        ]
        if records:
            self.positions[tp] = records[-1].offset + 1
        return records

    async def _happen(self, when: str) -> None:
        action = getattr(self, when)
        setattr(self, when, None)
        if action is not None:
            await action()


class Rig:
    """A guarded consumer on a `FakeThread`, and the rebalances that Faust drives it through."""

    def __init__(
        self,
        app: Any,
        logs: dict[TP, list[int]],
        thread: FakeThread | None = None,
        bounds: RunBounds = ENDLESS,
    ) -> None:
        self.batches: list[MicroBatch] = []
        self.thread = made = thread or FakeThread(logs)
        self.parts = parts = Parts(Path(app.conf.datadir), bounds=bounds)
        self.held = parts.assignment
        transport = GuardedTransport(app.conf.broker_consumer, app, parts.worker())

        class Consumer(GuardedConsumer):
            def _new_consumer_thread(self) -> Any:
                return made

        self.consumer = Consumer(
            transport, self._take, self._nothing, self._nothing, loop=asyncio.get_running_loop()
        )
        self.reader: Any = self.consumer._reader

    async def _take(self, message: Any) -> None:
        self.batches.append(message.value)

    async def _nothing(self, *_: Any, **__: Any) -> None:
        pass

    async def revoke(self) -> None:
        self.consumer.stop_flow()
        await self.consumer.on_partitions_revoked(set(self.thread.assigned))

    async def assign(self, tps: set[TP]) -> None:
        self.thread.generation += 1
        self.thread.assigned = set(tps)
        await self.consumer.on_partitions_assigned(set(tps), self.thread.generation)

    async def seek(self, starts: dict[int, int]) -> None:
        """What Faust does when the table is restored."""
        self.held.starts = {p: Start(offset, True, 10**6) for p, offset in starts.items()}
        self.consumer.resume_partitions(self.thread.assigned)
        await self.consumer.perform_seek()
        self.consumer.resume_flow()

    async def doubt(self, starts: dict[int, int]) -> None:
        """A commit is in doubt, and settled: the partitions are taken over again, under the same
        membership.
        """
        self.held.suspend("no answer")
        self.held.end()
        await self.seek(starts)

    async def join(self, starts: dict[int, int], *others: TP) -> None:
        await self.assign({TP(INPUT, p) for p in starts} | set(others))
        await self.seek(starts)

    async def poll(self) -> MicroBatch | None:
        """One turn of the fetch loop."""
        return await self.reader.next()


def offsets(batch: MicroBatch | None, tp: TP = A) -> list[int]:
    return [r.offset for r in batch.records if r.partition == tp.partition] if batch else []
