"""Exactly once, one micro-batch at a time: the commit protocol.

1. *Guard*: a micro-batch of a past tenure is dropped (it will be read again); one of this tenure must begin where the
   last one ended.
2. *Process*: records and rows in, rows and messages out; nothing is visible yet.
3. *Transaction*: messages, changelog rows and source offsets become visible together, or not at all; and only while
   input and changelog are the topics of the takeover, not later ones of their names.
4. *Local batch*: the same rows with their changelog offset, atomically, one RocksDB batch per partition; so local state
   never runs ahead of the log, and a crash between 3 and 4 is mended by the restore.
5. *Caches*: entity caches may count the rows as stored.

A transaction whose outcome is not known is decided (`worker.stream.settlement`); any other failure ends the process. Steps 2 to
5 run in one thread of their own, off the event loop, which goes on heartbeating and serving HTTP; 3 to 5 are
`worker.stream.commit`.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence

from worker.errors import Crash, InDoubt
from worker.events import Record
from worker.limits import Limit
from worker.processing.processor import ProcessedBatch, Processor
from worker.settings import Settings
from worker.stream.assignment import Assignment, Tenure
from worker.stream.commit import Commit
from worker.stream.micro_batch import MicroBatch
from worker.stream.processor_thread import ProcessorThread
from worker.stream.settlement import Settlement
from worker.stream.surroundings import Surroundings
from worker.stream.tracing import NO_CONTEXTS, Contexts


class Delivery:
    """Takes micro-batches from the consumer through processor and commit, in order, one at a time.

    Args:
        settings: how large a part of a micro-batch may be.
        assignment: under which micro-batches are delivered.
        processor: step 2, and the thread of steps 2 to 5.
        commit: steps 3 to 5.
        settlement: of commits in doubt.
        on_limit: is told of each limit that is hit.
        surroundings: the end of the process, for whatever fails.
    """

    def __init__(
        self,
        settings: Settings,
        assignment: Assignment,
        processor: ProcessorThread,
        commit: Commit,
        settlement: Settlement,
        on_limit: Callable[[Limit], None],
        surroundings: Surroundings,
    ) -> None:
        self._input_topic = settings.input_topic
        self._batch_events = settings.batch_size
        self._batch_bytes = settings.batch_bytes
        self._assignment = assignment
        self._processor = processor
        self._commit = commit
        self._settlement = settlement
        self._on_limit = on_limit
        self._tracing = surroundings.tracing
        self._die = surroundings.die

    async def deliver(self, batch: MicroBatch) -> None:
        """Process and commit a micro-batch, or end the process."""
        try:
            if self._is_past(batch):
                return
            self._check_chain(batch)
            with self._assignment.progress.busy():
                if await self._deliver_all(batch):
                    self._assignment.positions.update(batch.ends)
        except asyncio.CancelledError:
            raise  # the app is stopping: what is under way commits or not, as a whole
        except BaseException as cause:
            self._die(cause)

    async def _deliver_all(self, batch: MicroBatch) -> bool:
        """Process and commit a micro-batch in parts; False where its tenure ended before all of it was committed."""
        for part in self._within_limits(batch) if batch.records else ():
            remaining = part
            while remaining:
                if self._is_past(batch):
                    return False
                processed = await self._deliver(
                    _processing(remaining), batch.tenure, remaining, batch.contexts
                )
                if processed is None:
                    return False
                remaining = remaining[processed.taken :]
        for partition in sorted(batch.finished):
            if not await self._finish(partition, batch):
                return False
        return True

    async def _finish(self, partition: int, batch: MicroBatch) -> bool:
        """Publish what a bounded run publishes at the end of a partition, and commit its end; False where the tenure ended."""
        end = batch.ends[partition]
        while not self._is_past(batch):
            processed = await self._deliver(lambda processor: processor.finish(partition, end), batch.tenure)
            if processed is None or processed.is_end:
                return processed is not None
        return False

    def _is_past(self, batch: MicroBatch) -> bool:
        """Whether its assignment is over or about to end: what of it is not committed will be read again."""
        return batch.tenure != self._assignment.tenure

    def _check_chain(self, batch: MicroBatch) -> None:
        for partition, start in batch.starts.items():
            expected = self._assignment.positions.get(partition)
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
                self._on_limit(full)
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

    async def _deliver(
        self,
        process: Callable[[Processor], ProcessedBatch],
        tenure: Tenure,
        records: Sequence[Record] = (),
        contexts: Contexts = NO_CONTEXTS,
    ) -> ProcessedBatch | None:
        """Process and commit something; what it came to, None where the commit was in doubt.

        `records` are what is processed, the first of them at least; `contexts` what they brought of traces.
        """
        with self._tracing.micro_batch() as span:
            processed = await self._processor.run(process)
            span.processed(processed, records, contexts)
            committed = await self._committed(processed, tenure)
            if committed is None:
                span.in_doubt()
            return committed

    async def _committed(self, processed: ProcessedBatch, tenure: Tenure) -> ProcessedBatch | None:
        """Commit what was processed; None where that was in doubt.

        It ended the tenure: where the next one begins says what was committed, and all that was not is read again.
        """
        try:
            await self._processor.run(lambda _: self._commit(processed, tenure))
        except InDoubt as doubt:
            happened = await self._settlement.settle(doubt, processed.next_offsets)
            self._commit.settled(processed, happened)
            return None
        self._settlement.nothing_open()
        self._assignment.progress.made()
        return processed


def _processing(records: Sequence[Record]) -> Callable[[Processor], ProcessedBatch]:
    return lambda processor: processor.process(records)
