"""The commit protocol: every record of the input exactly once.

A *micro-batch* is one fetch over all partitions. The processor takes the first part of it that fits
the limits, then the next. Each part passes these stages (`worker.stream.commit.Stage`):

guard       A micro-batch of a past tenure is dropped: the next owner reads it again. One of this
            tenure begins where the last one ended, or the process ends.
processed   Records and rows went in; rows and messages came out. Only the processing of the next
            part sees them.
in flight   One transaction writes messages, changelog rows and source offsets. It begins when the
            part before is announced, and only if the tenure still lasts. Before the offsets are
            sent, the commit checks that input, output and changelog are still the topics of the
            takeover.
decided     The transaction is committed: everything in it became visible at once. A commit without
            a reliable answer is *in doubt*: `worker.stream.settlement` determines whether it
            happened, ends the tenure and takes the partitions over again.
stored      The same rows and their changelog offset are in the local database, in one atomic batch
            per partition. So local state never runs ahead of the log. After a crash between
            *decided* and *stored* the restore reads these rows from the log.
announced   Summaries, metrics and subscribers show the changes.

While one part is in flight the next one is processed, and waits (`CommitQueue`). If the tenure ends
by a rebalance, a stop or a doubt, the waiting part is dropped and read again.

Any failure except a doubt ends the process. If processing fails, the commit in flight finishes
first: a transaction left open would keep all readers waiting until the broker aborts it.
Processing and commits each have a thread of their own, so the event loop keeps sending heartbeats
and serving HTTP.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import methodcaller
from typing import Any, Protocol

from worker.errors import Crash
from worker.events import Record
from worker.processing.processor import ProcessedBatch, Processor
from worker.settings import Settings
from worker.stream.assignment import Assignment, Tenure
from worker.stream.commit import CommitQueue, InFlight
from worker.stream.surroundings import NO_CONTEXTS, Contexts, ProcessorThread, Surroundings

SCHEMA_PAUSE_SECONDS = 0.5  # pause between two requests for a schema that could not be fetched


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """One fetch over all partitions."""

    records: tuple[Record, ...]  # in order within each partition
    starts: Mapping[int, int]  # by partition, the cursor before its first record
    ends: Mapping[int, int]
    """By partition, the cursor after its last record; gaps between the two are proven."""
    tenure: Tenure  # under which it was fetched
    finished: frozenset[int] = frozenset()
    """Partitions of a bounded run that were read to their end."""
    contexts: Contexts = field(default_factory=lambda: NO_CONTEXTS)
    """The trace contexts that came with its records."""


class SchemaSource(Protocol):
    """Fetches the schemas that records need before they are decoded."""

    @property
    def waiting(self) -> str | None:
        """Why no schema can be fetched, in words; None while one can."""

    def missing(self, records: Sequence[Record]) -> list[int]:
        """The ids in these records that have to be fetched."""

    def fetch(self, ids: Sequence[int]) -> None:
        """Try once to fetch these; `waiting` says if it takes long."""


@dataclass(eq=False)
class Delivery:
    """Takes micro-batches from the consumer, in order, through processing and commit."""

    settings: Settings
    assignment: Assignment
    processor: ProcessorThread
    commits: CommitQueue
    surroundings: Surroundings
    schemas: SchemaSource | None = None  # None: records need no schemas

    def __post_init__(self) -> None:
        self._tenure: Tenure | None = None  # of the last micro-batch
        self._ends: dict[int, int] = {}  # where the next one of this tenure has to begin
        self._latest: MicroBatch | None = None  # the last one that was delivered

    def commit_started(self, batch: MicroBatch) -> bool:
        """True if the last commit of this micro-batch has begun, and none came after it."""
        return self._latest is batch

    async def deliver(self, batch: MicroBatch, done: Callable[[], Awaitable[Any]]) -> None:
        """Process a micro-batch and begin its last commit, or end the process.

        `done` is called when nothing of it is under way: it is committed, or will be read again.
        """
        try:
            is_complete = False
            if batch.tenure == self.assignment.tenure:
                self._check_chain(batch)
                is_complete = await self._schemas_known(batch) and await self._deliver_all(batch)
            await self.commits.then(
                lambda is_sure: self._close(batch, done, is_committed=is_complete and is_sure)
            )
        except asyncio.CancelledError:
            raise  # the app stops; the commit under way may still happen
        except BaseException as cause:
            self.surroundings.die(cause)
        finally:
            self._latest = batch

    async def _close(
        self, batch: MicroBatch, done: Callable[[], Awaitable[Any]], *, is_committed: bool
    ) -> None:
        if is_committed:
            self.assignment.committed(batch.ends)
        await done()

    def _check_chain(self, batch: MicroBatch) -> None:
        """Raise Crash unless it follows the last one, which may still be in flight."""
        if batch.tenure != self._tenure:
            self._tenure, self._ends = batch.tenure, dict(self.assignment.positions)
        for partition, start in batch.starts.items():
            expected = self._ends.get(partition)
            if start != expected:
                raise Crash(
                    f"{self.settings.input_topic}-{partition}: a micro-batch begins at {start}, "
                    f"not at {expected}"
                )
        self._ends.update(batch.ends)

    async def _schemas_known(self, batch: MicroBatch) -> bool:
        """Wait for the schemas of its records; False if the tenure ended first.

        The requests have a thread of their own: processing must be free to let partitions go.
        """
        schemas = self.schemas
        if schemas is None:
            return True
        while ids := schemas.missing(batch.records):
            await self.surroundings.threads.beside(lambda: schemas.fetch(ids))
            if batch.tenure != self.assignment.tenure:
                return False
            if schemas.missing(batch.records):
                await self.surroundings.pause(SCHEMA_PAUSE_SECONDS)
        return True

    async def _deliver_all(self, batch: MicroBatch) -> bool:
        """Process and commit all parts; False if the tenure ended before the last one was sent."""
        remaining = batch.records
        while remaining:
            process = methodcaller("process", remaining)
            processed = await self._deliver(process, batch.tenure, remaining, batch.contexts)
            if processed is None:
                return False
            remaining = remaining[processed.taken :]
        for partition in sorted(batch.finished):
            if not await self._finish(partition, batch):
                return False
        return True

    async def _finish(self, partition: int, batch: MicroBatch) -> bool:
        """Publish the rest of a partition and commit its end; False if the tenure ended."""
        end = batch.ends[partition]
        while True:
            processed = await self._deliver(
                lambda processor: processor.finish(partition, end), batch.tenure
            )
            if processed is None or processed.is_end:
                return processed is not None

    async def _deliver(
        self,
        process: Callable[[Processor], ProcessedBatch],
        tenure: Tenure,
        records: Sequence[Record] = (),
        contexts: Contexts = NO_CONTEXTS,
    ) -> ProcessedBatch | None:
        """Process one part and begin its commit; None, with nothing sent, if the tenure ended."""
        flight = InFlight(tenure, self.assignment.progress, self.surroundings.tracing)
        try:
            flight.processed(await self._process(process), records, contexts)
            is_begun = await self.commits.begin(flight)
        except BaseException:
            with flight:  # closes it, and its span with the error
                raise
        if not is_begun:
            flight.drop()
            return None
        return flight.batch

    async def _process(self, process: Callable[[Processor], ProcessedBatch]) -> ProcessedBatch:
        try:
            return await self.processor.run(process)
        except Exception:
            # The process ends, and an open transaction would keep all readers waiting.
            await self.commits.over()
            raise
