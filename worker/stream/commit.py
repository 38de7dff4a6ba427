"""Commits: `InFlight` holds the stage of a part, `CommitQueue` the order, `Commit` does the work.

`worker.stream.delivery` describes the protocol.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from worker.clock import Clock
from worker.errors import Crash, InDoubt, Overtaken, TooSlow, Unanswered
from worker.events import Record
from worker.kafka.changelog import Logs
from worker.kafka.producer import TransactionalProducer
from worker.processing.pace import TransactionSize
from worker.processing.processor import ProcessedBatch, Processor
from worker.stream.assignment import Assignment, Progress, Tenure
from worker.stream.feed import ChangeFeed
from worker.stream.gate import Gate
from worker.stream.group_fingerprint import GroupFingerprint
from worker.stream.journal import DeadLetterLog
from worker.stream.run_bounds import NO_LEDGER, Ledger
from worker.stream.settlement import Settlement
from worker.stream.surroundings import Contexts, Surroundings, Tracing, WorkerMetrics

Afterwards = Callable[[bool], Awaitable[None]]
"""Called after a commit: with False if it was in doubt, which ends the tenure of its records."""


class Stage(IntEnum):
    """The stages of the commit protocol, in order."""

    PROCESSING = 0
    PROCESSED = 1
    IN_FLIGHT = 2
    DECIDED = 3
    STORED = 4
    ANNOUNCED = 5


class InFlight(ExitStack):
    """A part of a micro-batch in the stages of its commit. The worker is busy until its close."""

    batch: ProcessedBatch  # its results, from PROCESSED on

    def __init__(self, tenure: Tenure, progress: Progress, tracing: Tracing) -> None:
        super().__init__()
        self.tenure = tenure  # under which its records were fetched
        self.stage = Stage.PROCESSING  # the last stage it reached
        self.enter_context(progress.busy())
        self.span = self.enter_context(tracing.micro_batch())  # its trace

    def reach(self, stage: Stage) -> None:
        """Enter the next stage. Raises Crash if it is not the next one."""
        if stage != self.stage + 1:
            raise Crash(f"a part of a micro-batch went from {self.stage.name} to {stage.name}")
        self.stage = stage

    def processed(
        self, batch: ProcessedBatch, records: Sequence[Record], contexts: Contexts
    ) -> None:
        """The first `batch.taken` of these records were processed."""
        self.batch = batch
        self.span.processed(batch, records, contexts)
        self.reach(Stage.PROCESSED)

    def drop(self) -> None:
        """Its tenure ended before anything was sent: the next owner reads it again."""
        self.span.dropped()
        self.close()


@dataclass(eq=False)
class CommitQueue:
    """Commits one part after another, each beside the processing of the next one.

    At most one part is in flight and one waits for it. `commit` runs in a thread of its own.
    """

    commit: "Commit"
    settlement: Settlement
    assignment: Assignment
    surroundings: Surroundings

    def __post_init__(self) -> None:
        self._thread = self.surroundings.threads.in_order("commit")
        self._task: Any = None  # of the last commit that was begun
        self._is_under_way = False
        self._is_sure = True  # False: the last commit was in doubt, though it may have happened
        self._afterwards: list[Afterwards] = []

    async def begin(self, flight: InFlight) -> bool:
        """Begin its commit after the one before, and close it at the end.

        False: the tenure ended first, nothing was sent, and the caller still owns the part.
        """
        await self.over()
        if flight.tenure != self.assignment.tenure:
            return False
        flight.reach(Stage.IN_FLIGHT)
        self._is_under_way = True
        self._task = self.surroundings.threads.task("commit", lambda: self._see_through(flight))
        return True

    async def over(self) -> None:
        """Wait until no commit is under way."""
        if self._task is not None:
            await self.surroundings.threads.ended(self._task)

    async def then(self, work: Afterwards) -> None:
        """Run this after the commit under way, or at once if there is none."""
        if self._is_under_way:
            self._afterwards.append(work)
        else:
            await work(self._is_sure)

    async def _see_through(self, flight: InFlight) -> None:
        try:
            with flight:
                self._is_sure = await self._committed(flight)
            while self._afterwards:
                await self._afterwards.pop(0)(self._is_sure)
            self._is_under_way = False
        except asyncio.CancelledError:
            raise  # the app stops; the transaction in the thread may still happen
        except BaseException as cause:
            self.surroundings.die(cause)

    async def _committed(self, flight: InFlight) -> bool:
        """Commit it; False if the commit was in doubt.

        A doubt ends the tenure. The next one begins after the last commit that happened.
        """
        self.settlement.commit_begins()
        try:
            await self._thread.run(lambda: self.commit(flight))
        except InDoubt as doubt:
            flight.span.in_doubt()
            if isinstance(doubt, TooSlow):
                self.assignment.progress.made()  # the next one is smaller, which has an end
            happened = await self.settlement.settle(doubt, flight.batch.next_offsets)
            self.commit.settled(flight, happened)
            return False
        self.settlement.commit_answered()
        self.assignment.progress.made()
        return True


@dataclass(eq=False)
class Commit:
    """Takes one part from IN_FLIGHT to ANNOUNCED."""

    producer: TransactionalProducer
    logs: Logs
    group: GroupFingerprint
    gate: Gate
    processor: Processor
    metrics: WorkerMetrics
    dead_letters: DeadLetterLog
    feed: ChangeFeed
    size: TransactionSize
    clock: Clock
    ledger: Ledger = NO_LEDGER

    def __post_init__(self) -> None:
        outputs = [topic for topic in (self.logs.output, self.logs.facets) if topic]
        self._topics = [self.logs.input.topic, *outputs, self.logs.changelog.topic]

    def __call__(self, flight: InFlight) -> None:
        """Commit it. Raises InDoubt before anything is stored; Fenced and Crash end the process."""
        batch, tenure = flight.batch, flight.tenure
        started = self.clock.monotonic()
        notes = self.ledger.notes(batch)
        # Sent before the records: describing topics of many partitions takes long.
        check_ids = self.logs.ids.ask_ahead(self._topics)
        try:
            last_offsets = self.producer.commit(
                batch.messages,
                self.logs.changelog.topic,
                batch.rows,
                self.logs.input.topic,
                batch.next_offsets,
                tenure.membership,
                lambda last_offsets: self._check(check_ids, batch, last_offsets),
                notes,
            )
        except Overtaken:
            raise
        except InDoubt as doubt:
            self._check_pace(batch, self.clock.monotonic() - started, doubt)
            raise
        flight.reach(Stage.DECIDED)
        self.size.written(batch.size, self.clock.monotonic() - started)
        self.group.agreed()
        for partition, changes in batch.rows.items():
            if changes:
                self.gate.write(tenure.epoch, partition, changes, last_offsets[partition])
        flight.reach(Stage.STORED)
        self.processor.committed(batch)
        self.ledger.committed(batch, notes)
        self.metrics.observe_commit(self.clock.monotonic() - started)
        self._announce(flight)

    def settled(self, flight: InFlight, happened: bool) -> None:
        """Its commit in doubt is decided. If it happened, the takeover stored its rows."""
        flight.reach(Stage.DECIDED)
        self.metrics.observe_doubt(happened)
        if happened:
            flight.reach(Stage.STORED)
            self._announce(flight)

    def _announce(self, flight: InFlight) -> None:
        self.metrics.observe_batch(flight.batch.stats)
        self.dead_letters.count(flight.batch.stats)
        self.feed.committed(flight.batch.messages)
        flight.reach(Stage.ANNOUNCED)

    def _check_pace(self, batch: ProcessedBatch, seconds: float, doubt: InDoubt) -> None:
        """Raise TooSlow if the transaction may have been too large to be written in time."""
        if self.size.unwritten(batch.taken or len(batch.messages), batch.size, seconds):
            raise TooSlow(
                f"{doubt}; it had {batch.size} bytes and failed after {seconds:.1f} s, so the next "
                f"has at most {self.size.most} bytes"
            ) from doubt

    def _check(
        self, check_ids: Callable[[], None], batch: ProcessedBatch, last_offsets: Mapping[int, int]
    ) -> None:
        """Between flush and offsets: check the ids of the topics, and the group's fingerprint.

        A changelog may be created again between the request for its id and the flush. Its rows then
        begin at offset 0, not after the stored ones: nobody else writes to these partitions.
        """
        check_ids()
        for partition, last in last_offsets.items():
            first = last - len(batch.rows[partition]) + 1
            stored = self.gate.stored_offset(partition)
            if first <= stored:
                # If a row before the last one was not written, the transaction has failed. The
                # takeover then checks the changelog's id.
                raise Unanswered(
                    f"rows of {self.logs.changelog.topic}-{partition} seem to begin at offset "
                    f"{first}, and those up to {stored} are stored: one was not written, or the "
                    "topic was deleted and created again"
                )
        self.group.check()
