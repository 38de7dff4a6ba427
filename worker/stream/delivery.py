"""Exactly once, micro-batch by micro-batch: the commit protocol.

1. *Guard*: a micro-batch of a past tenure is dropped (it will be read again); one of this tenure
   must begin where the last one ended.
2. *Process*: records and rows in, rows and messages out; nothing is visible yet, but to what is
   processed next.
3. *Transaction*: messages, changelog rows and source offsets become visible together, or not at
   all; and only while input and changelog are the topics of the takeover, not later ones of their
   names.
4. *Local batch*: the same rows with their changelog offset, atomically, one RocksDB batch per
   partition; so local state never runs ahead of the log, and a crash between 3 and 4 is mended by
   the restore.
5. *Summaries*: whoever asks for one is told of it from here on.

Steps 3 to 5 are `worker.stream.commit`. Step 2 of the next micro-batch runs beside them and no
further: what it comes to waits until they are over (`worker.stream.commits`). So nothing of a
micro-batch is sent before the one before it is decided, and its rows are in the local database; and
where the tenure ends meanwhile, by a rebalance, a stop or a doubt, what was processed ahead is
thrown away, and read again by whoever comes next.

A transaction whose outcome is not known is decided (`worker.stream.settlement`); any other failure
ends the process. Where step 2 fails, the commit beside it is seen through first: its transaction
would else stay open until the broker aborts it. Step 2 has a thread of its own, and so have 3 to 5,
off the event loop, which goes on heartbeating and serving HTTP.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from worker.errors import Crash
from worker.events import Record
from worker.limits import Limit
from worker.processing.processor import ProcessedBatch, Processor
from worker.settings import Settings
from worker.stream.assignment import Assignment, Tenure
from worker.stream.commits import CommitQueue
from worker.stream.surroundings import ProcessorThread, Surroundings
from worker.stream.tracing import NO_CONTEXTS, Contexts


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """One fetch over all partitions: the unit that is processed and committed.

    `starts` and `ends` are, per partition, the cursor before the first record and after the last: a
    gap between them is proven. `tenure` is the one under which it was fetched. `finished` are
    partitions of a bounded run that were read to their end. `contexts` are what its records brought
    of traces, where somebody traces.
    """

    records: tuple[Record, ...]
    starts: Mapping[int, int]
    ends: Mapping[int, int]
    tenure: Tenure
    finished: frozenset[int] = frozenset()
    contexts: Contexts = field(default_factory=lambda: NO_CONTEXTS)


class Delivery:
    """Takes micro-batches from the consumer through processor and commit, in order, the next one
    before the last is committed.

    Args:
        settings: how large a part of a micro-batch may be.
        assignment: under which micro-batches are delivered.
        processor: step 2, in its thread.
        commits: steps 3 to 5, in theirs.
        on_limit: is told of each limit that is hit.
        surroundings: the end of the process, for whatever fails.
    """

    def __init__(
        self,
        settings: Settings,
        assignment: Assignment,
        processor: ProcessorThread,
        commits: CommitQueue,
        on_limit: Callable[[Limit], None],
        surroundings: Surroundings,
    ) -> None:
        self._input_topic = settings.input_topic
        self._batch_events = settings.batch_size
        self._batch_bytes = settings.batch_bytes
        self._assignment = assignment
        self._processor = processor
        self._commits = commits
        self._on_limit = on_limit
        self._tracing = surroundings.tracing
        self._die = surroundings.die
        self._tenure: Tenure | None = None  # of the last micro-batch that was taken in
        self._ends: dict[int, int] = {}  # where the next one of this tenure has to begin
        self._latest: MicroBatch | None = None  # that was delivered

    def commit_started(self, batch: MicroBatch) -> bool:
        """Whether this is the last micro-batch that was taken in, and its last commit has begun:
        the next one may come.
        """
        return self._latest is batch

    async def deliver(self, batch: MicroBatch, done: Callable[[], Awaitable[Any]]) -> None:
        """Process a micro-batch and begin its last commit, or end the process; then the next one
        may come.

        `done` is called when nothing of it is under way any more: all is committed, or the rest
        will be read again.
        """
        try:
            is_whole = False
            if batch.tenure == self._assignment.tenure:  # else it will be read again
                self._check_chain(batch)
                is_whole = await self._deliver_all(batch)
            await self._commits.then(
                lambda happened: self._close(batch, done, is_committed=is_whole and happened)
            )
        except asyncio.CancelledError:
            raise  # the app is stopping: what is under way commits or not, as a whole
        except BaseException as cause:
            self._die(cause)
        finally:
            self._latest = batch

    async def _close(
        self, batch: MicroBatch, done: Callable[[], Awaitable[Any]], *, is_committed: bool
    ) -> None:
        if is_committed:
            self._assignment.positions.update(batch.ends)
        await done()

    async def _deliver_all(self, batch: MicroBatch) -> bool:
        """Process and commit a micro-batch in parts; False where its tenure ended before the last
        of them could be sent.
        """
        for part in self._within_limits(batch) if batch.records else ():
            remaining = part
            while remaining:
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
        """Publish what a bounded run publishes at the end of a partition, and commit its end; False
        where the tenure ended.
        """
        end = batch.ends[partition]
        while True:
            processed = await self._deliver(
                lambda processor: processor.finish(partition, end), batch.tenure
            )
            if processed is None or processed.is_end:
                return processed is not None

    def _check_chain(self, batch: MicroBatch) -> None:
        """Raise Crash where it does not follow the last one, which may not be committed yet."""
        if batch.tenure != self._tenure:
            self._tenure, self._ends = batch.tenure, dict(self._assignment.positions)
        for partition, start in batch.starts.items():
            expected = self._ends.get(partition)
            if start != expected:
                raise Crash(
                    f"{self._input_topic}-{partition}: a micro-batch begins at {start}, not {expected}"
                )
        self._ends.update(batch.ends)

    def _within_limits(self, batch: MicroBatch) -> Iterator[tuple[Record, ...]]:
        """Cut what two fetches brought so that each part keeps to its events and bytes (a larger
        record goes alone).
        """
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
        """Process something and begin its commit; what it came to, None where the tenure ended
        before anything of it was sent.

        `records` are what is processed, the first of them at least; `contexts` what they brought of
        traces.
        """
        with ExitStack() as in_hand:
            in_hand.enter_context(self._assignment.progress.busy())
            span = in_hand.enter_context(self._tracing.micro_batch())
            processed = await self._process(process)
            span.processed(processed, records, contexts)
            if await self._commits.begin(processed, tenure, span, in_hand):
                return processed
            span.dropped()
            return None

    async def _process(self, process: Callable[[Processor], ProcessedBatch]) -> ProcessedBatch:
        try:
            return await self._processor.run(process)
        except Exception:
            # The process ends: a transaction that it leaves open would keep all readers waiting.
            await self._commits.over()
            raise


def _processing(records: Sequence[Record]) -> Callable[[Processor], ProcessedBatch]:
    return lambda processor: processor.process(records)
