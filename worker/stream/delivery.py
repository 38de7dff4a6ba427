"""Exactly once, one micro-batch at a time: the commit protocol.

1. *Guard*: a micro-batch of a past assignment is dropped (it will be read again); one of this assignment must begin where the
   last one ended.
2. *Process*: records and rows in, rows and messages out; nothing is visible yet.
3. *Transaction*: messages, changelog rows and source offsets become visible together, or not at all.
4. *Local batch*: the same rows with their changelog offset, atomically, one RocksDB batch per partition; so local state
   never runs ahead of the log, and a crash between 3 and 4 is mended by the restore.
5. *Caches*: entity caches may count the rows as stored.

Any failure, and a commit that outlasts its deadline, ends the process. Steps 2 to 5 run in one thread of their own, off the
event loop, which goes on heartbeating and serving HTTP.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol, TypeVar

from worker.errors import Crash, SurroundingsError
from worker.events import Record
from worker.stream.consumer import Membership, MicroBatch, Start
from worker.stream.fatal import die
from worker.stream.processor import Batch, Processor
from worker.stream.transaction import TransactionalProducer

log = logging.getLogger(__name__)
T = TypeVar("T")


class Ledger(Protocol):
    """Where committed rows go: the table."""

    def write(self, partition: int, changes: Mapping[bytes, bytes | None], last_offset: int) -> None:
        """Apply a partition's rows with their changelog offset, atomically."""


class DeliveryMetrics(Protocol):
    """What the delivery reports."""

    def observe_batch(self, stats: Any) -> None:
        """A micro-batch was committed."""

    def observe_commit(self, seconds: float) -> None:
        """A transaction took so long."""


class Delivery:
    """Takes micro-batches from the consumer to the broker and the table, in order, one at a time."""

    def __init__(
        self,
        *,
        processor: Processor,
        producer: TransactionalProducer,
        table: Ledger,
        changelog_topic: str,
        input_topic: str,
        batch_bytes: int,
        deadline_seconds: float,
        membership: Callable[[], Membership | None],
        metrics: DeliveryMetrics,
    ) -> None:
        self._processor = processor
        self._producer = producer
        self._table = table
        self._changelog_topic = changelog_topic
        self._input_topic = input_topic
        self._batch_bytes = batch_bytes
        self._deadline_seconds = deadline_seconds
        self._membership = membership
        self._metrics = metrics
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="delivery")
        self.positions: dict[int, int] = {}  # by partition: the next source offset to commit
        self.busy_since: float | None = None
        self.progressed_at = time.monotonic()

    # -- assignment ---------------------------------------------------------------------------------------------------

    async def take_over(self, starts: Mapping[int, Start]) -> None:
        """Begin an assignment whose state is restored; raise SurroundingsError where state and offsets do not fit."""

        def check() -> None:
            self._processor.forget(starts)  # a look at a summary may have come between assignment and restore
            for partition, start in starts.items():
                self._check_state(partition, start)

        await self.run(check)
        self.positions = {partition: start.offset for partition, start in starts.items()}
        self.progressed_at = time.monotonic()

    def _check_state(self, partition: int, start: Start) -> None:
        """Offsets may lie behind the state (rewound: ignored), never before it: rows or records would be missing."""
        applied = self._processor.check_partition(partition)
        if applied is None and not start.committed:
            return
        if applied is None or applied < start.offset:
            raise SurroundingsError(
                f"{self._input_topic}-{partition} is to be read from offset {start.offset}, but the state ends at "
                f"{applied or 0}: records or rows of the changelog {self._changelog_topic} are gone, or offsets were moved "
                "forward; put the offsets back, or start over with `coversumm-worker reset`"
            )
        if applied > start.end:
            raise SurroundingsError(
                f"the state of {self._input_topic}-{partition} ends at offset {applied}, the topic at {start.end}: it was made "
                "anew, and its records would pass for applied ones; start over with `coversumm-worker reset`"
            )

    async def let_go(self) -> None:
        """End an assignment: forget positions and cached entities."""
        held, self.positions = list(self.positions), {}
        await self.run(lambda: self._processor.forget(held))

    async def run(self, work: Callable[[], T]) -> T:
        """Run something in the delivery's thread, between micro-batches."""
        return await asyncio.get_running_loop().run_in_executor(self._executor, work)

    # -- a micro-batch ------------------------------------------------------------------------------------------------

    async def deliver(self, batch: MicroBatch) -> None:
        """Process and commit a micro-batch, or end the process."""
        try:
            if batch.membership != self._membership():
                return
            self._check_chain(batch)
            self.busy_since = time.monotonic()
            for part in self._within_bytes(batch):
                await self._commit(part, batch.membership)
                self.progressed_at = time.monotonic()
            self.positions.update(batch.ends)
        except asyncio.CancelledError:
            raise  # the app is stopping: what is under way commits or not, as a whole
        except BaseException as cause:
            die(cause)
        finally:
            self.busy_since = None

    def _check_chain(self, batch: MicroBatch) -> None:
        for partition, start in batch.starts.items():
            expected = self.positions.get(partition)
            if start != expected:
                raise Crash(
                    f"{self._input_topic}-{partition}: a micro-batch begins at {start}, not {expected}"
                )

    def _within_bytes(self, batch: MicroBatch) -> Iterator[tuple[Record, ...]]:
        """Cut a micro-batch so that each part stays below the byte limit (a single larger record goes alone)."""
        part: list[Record] = []
        size = 0
        for record in batch.records:
            length = len(record.value or b"") + len(record.key or b"")
            if part and size + length > self._batch_bytes:
                yield tuple(part)
                part, size = [], 0
            part.append(record)
            size += length
        yield tuple(part)

    async def _commit(self, records: tuple[Record, ...], membership: Membership) -> None:
        processed = await self.run(lambda: self._processor.process(records))
        commit = self.run(lambda: self._commit_now(processed, membership))
        try:
            # librdkafka has been seen to block past its own timeouts after a broker was killed.
            await asyncio.wait_for(commit, self._deadline_seconds)
        except TimeoutError:
            raise Crash(f"a commit took longer than {self._deadline_seconds:g} s") from None

    def _commit_now(self, batch: Batch, membership: Membership) -> None:
        started = time.monotonic()
        last_offsets = self._producer.commit(
            batch.messages,
            self._changelog_topic,
            batch.rows,
            self._input_topic,
            batch.next_offsets,
            membership,
        )
        for partition, changes in batch.rows.items():
            if changes:
                self._table.write(partition, changes, last_offsets[partition])
        self._processor.committed(batch)
        self._metrics.observe_commit(time.monotonic() - started)
        self._metrics.observe_batch(batch.stats)
