"""Exactly once, one micro-batch at a time: the commit protocol.

1. *Guard*: a micro-batch of a past assignment is dropped (it will be read again); one of this assignment must begin where the
   last one ended.
2. *Process*: records and rows in, rows and messages out; nothing is visible yet.
3. *Transaction*: messages, changelog rows and source offsets become visible together, or not at all; and only while
   input and changelog are the topics of the takeover, not later ones of their names.
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
from worker.kafka.transaction import Membership, TransactionalProducer
from worker.limits import Limit
from worker.processing.processor import ProcessedBatch, Processor
from worker.stream.consumer import MicroBatch, Start
from worker.stream.fatal import die

log = logging.getLogger(__name__)
T = TypeVar("T")


class Ledger(Protocol):
    """Where committed rows go: the table."""

    def write(self, partition: int, changes: Mapping[bytes, bytes | None], last_offset: int) -> None:
        """Apply a partition's rows with their changelog offset, atomically."""


class TopicIdentities(Protocol):
    """Which topics input and changelog are: `worker.kafka.topic_ids`."""

    def known(self, topic: str) -> str:
        """The topic's id at the takeover; empty where nobody told one."""

    def check(self) -> None:
        """Raise Crash where a topic is no longer that of the takeover."""


class DeliveryMetrics(Protocol):
    """What the delivery reports."""

    def observe_batch(self, stats: Any) -> None:
        """A micro-batch was committed."""

    def observe_commit(self, seconds: float) -> None:
        """A transaction took so long."""

    def observe_limit(self, limit: Limit) -> None:
        """A limit was hit."""


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
        batch_events: int,
        batch_bytes: int,
        deadline_seconds: float,
        membership: Callable[[], Membership | None],
        metrics: DeliveryMetrics,
        topic_ids: TopicIdentities,
    ) -> None:
        self._processor = processor
        self._producer = producer
        self._table = table
        self._changelog_topic = changelog_topic
        self._input_topic = input_topic
        self._batch_events = batch_events
        self._batch_bytes = batch_bytes
        self._deadline_seconds = deadline_seconds
        self._membership = membership
        self._metrics = metrics
        self._topic_ids = topic_ids
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="delivery")
        self.positions: dict[int, int] = {}  # by partition: the next source offset to commit
        self.busy_since: float | None = None
        self.progressed_at = time.monotonic()

    # -- assignment ---------------------------------------------------------------------------------------------------

    async def take_over(self, starts: Mapping[int, Start]) -> None:
        """Begin an assignment whose state is restored; raise SurroundingsError where state and input do not fit."""

        def check() -> None:
            topic_id = self._topic_ids.known(self._input_topic)
            self._processor.forget(starts)  # a look at a summary may have come between assignment and restore
            for partition, start in starts.items():
                self._check_topic(partition, topic_id)
                self._check_state(partition, start, topic_id)
                self._processor.reads_from(partition, topic_id)

        await self.run(check)
        self.positions = {partition: start.offset for partition, start in starts.items()}
        self.progressed_at = time.monotonic()

    def _check_topic(self, partition: int, topic_id: str) -> None:
        """Offsets of one topic say nothing about another of its name, however long its log is."""
        stored = self._processor.topic_id(partition)
        if stored and topic_id and stored != topic_id:
            raise SurroundingsError(
                f"the state of {self._input_topic}-{partition} was made from the topic with the id {stored}, which now has "
                f"the id {topic_id}: it was deleted and made anew, and its records would pass for applied ones; start over "
                "with `coversumm-worker reset`"
            )

    def _check_state(self, partition: int, start: Start, topic_id: str) -> None:
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
        # The end was seen before the restore. In the topic that the state was made from, a state beyond it is another worker's,
        # which took over while this one was paused: this assignment is past, and the broker refuses its commits.
        if applied > start.end and not (topic_id and self._processor.topic_id(partition) == topic_id):
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
            if self._is_past(batch):
                return
            self._check_chain(batch)
            self.busy_since = time.monotonic()
            for part in self._within_limits(batch):
                remaining = part
                while remaining:
                    if self._is_past(batch):
                        return
                    remaining = remaining[await self._commit(remaining, batch.membership) :]
                    self.progressed_at = time.monotonic()
            self.positions.update(batch.ends)
        except asyncio.CancelledError:
            raise  # the app is stopping: what is under way commits or not, as a whole
        except BaseException as cause:
            die(cause)
        finally:
            self.busy_since = None

    def _is_past(self, batch: MicroBatch) -> bool:
        """Whether its assignment is over or about to end: what of it is not committed will be read again."""
        return batch.membership != self._membership()

    def _check_chain(self, batch: MicroBatch) -> None:
        for partition, start in batch.starts.items():
            expected = self.positions.get(partition)
            if start != expected:
                raise Crash(
                    f"{self._input_topic}-{partition}: a micro-batch begins at {start}, not {expected}"
                )

    def _within_limits(self, batch: MicroBatch) -> Iterator[tuple[Record, ...]]:
        """Cut what two fetches brought so that each part keeps to its events and bytes (a larger record goes alone)."""
        part: list[Record] = []
        size = 0
        for record in batch.records:
            length = len(record.value or b"") + len(record.key or b"")
            full = self._full(len(part) + 1, size + length) if part else None
            if full is not None:
                self._metrics.observe_limit(full)
                yield tuple(part)
                part, size = [], 0
            part.append(record)
            size += length
        yield tuple(part)

    def _full(self, events: int, size: int) -> Limit | None:
        """The limit that a part of so many events and bytes would be beyond."""
        if events > self._batch_events:
            return Limit.BATCH_EVENTS
        return Limit.BATCH_BYTES if size > self._batch_bytes else None

    async def _commit(self, records: tuple[Record, ...], membership: Membership) -> int:
        """Process and commit the first of these records; how many they were."""
        processed = await self.run(lambda: self._processor.process(records))
        commit = self.run(lambda: self._commit_now(processed, membership))
        try:
            # librdkafka has been seen to block past its own timeouts after a broker was killed.
            await asyncio.wait_for(commit, self._deadline_seconds)
        except TimeoutError:
            raise Crash(f"a commit took longer than {self._deadline_seconds:g} s") from None
        return processed.taken

    def _commit_now(self, batch: ProcessedBatch, membership: Membership) -> None:
        started = time.monotonic()
        last_offsets = self._producer.commit(
            batch.messages,
            self._changelog_topic,
            batch.rows,
            self._input_topic,
            batch.next_offsets,
            membership,
            self._topic_ids.check,
        )
        for partition, changes in batch.rows.items():
            if changes:
                self._table.write(partition, changes, last_offsets[partition])
        self._processor.committed(batch)
        self._metrics.observe_commit(time.monotonic() - started)
        self._metrics.observe_batch(batch.stats)
