"""The commit of what was processed: `InFlight` holds its stage, `CommitQueue` the order of commits,
`Commit` does the work. `worker.stream.delivery` describes the protocol.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack
from enum import IntEnum
from types import TracebackType
from typing import Any, Protocol

from worker.clock import Clock
from worker.errors import Crash, InDoubt, Overtaken, TooSlow, Unanswered
from worker.events import Record
from worker.kafka.changelog import Logs
from worker.kafka.producer import TransactionalProducer
from worker.processing.pace import TransactionSize
from worker.processing.processor import ProcessedBatch, Processor
from worker.processing.stats import Stats
from worker.stream.assignment import Assignment, Progress, Tenure
from worker.stream.feed import ChangeFeed
from worker.stream.gate import Gate
from worker.stream.group_fingerprint import GroupFingerprint
from worker.stream.journal import DeadLetterLog
from worker.stream.run_bounds import NO_LEDGER, Ledger
from worker.stream.settlement import Settlement
from worker.stream.surroundings import Surroundings
from worker.stream.tracing import Contexts, Tracing

Afterwards = Callable[[bool], Awaitable[None]]
"""Called after a commit with whether it happened."""


class Stage(IntEnum):
    """The stages of the commit protocol, in order."""

    PROCESSING = 0
    PROCESSED = 1
    IN_FLIGHT = 2
    DECIDED = 3
    STORED = 4
    ANNOUNCED = 5


class InFlight:
    """A part of a micro-batch on its way through the stages; the worker is busy until it is closed.

    Attributes:
        tenure: the tenure under which its records were fetched.
        batch: its rows, messages and next offsets, from PROCESSED on.
        span: its trace.
        stage: the last stage it reached.
    """

    batch: ProcessedBatch

    def __init__(self, tenure: Tenure, progress: Progress, tracing: Tracing) -> None:
        self.tenure = tenure
        self.stage = Stage.PROCESSING
        self._held = ExitStack()
        self._held.enter_context(progress.busy())
        self.span = self._held.enter_context(tracing.micro_batch())

    def reach(self, stage: Stage) -> None:
        """Enter the next stage. Raises Crash for any other: no stage is skipped or repeated."""
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
        """Nothing of it was sent, because its tenure ended: the next owner reads it again."""
        self.span.dropped()
        self._held.close()

    def __enter__(self) -> "InFlight":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        cause: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._held.__exit__(kind, cause, traceback)


class CommitQueue:
    """Commits one part after another, each beside the processing of the next one.

    At most one part is in flight and one waits for it.

    Args:
        commit: commits one part; runs in a thread of its own.
        settlement: settles commits in doubt.
        assignment: holds the tenure under which a commit may begin.
        surroundings: threads, and the end of the process.
    """

    def __init__(
        self,
        commit: "Commit",
        settlement: Settlement,
        assignment: Assignment,
        surroundings: Surroundings,
    ) -> None:
        self._commit = commit
        self._settlement = settlement
        self._assignment = assignment
        self._threads = surroundings.threads
        self._thread = surroundings.threads.in_order("commit")
        self._die = surroundings.die
        self._task: Any = None  # of the last commit that was begun
        self._is_under_way = False
        self._happened = True
        self._afterwards: list[Afterwards] = []

    async def begin(self, flight: InFlight) -> bool:
        """Begin its commit when the one before is over, and close it at the end.

        False: the tenure has ended by then, nothing was sent, and the caller still owns it.
        """
        await self.over()
        if flight.tenure != self._assignment.tenure:
            return False
        flight.reach(Stage.IN_FLIGHT)
        self._is_under_way = True
        self._task = self._threads.task("commit", lambda: self._see_through(flight))
        return True

    async def over(self) -> None:
        """Wait until no commit is under way."""
        if self._task is not None:
            await self._threads.ended(self._task)

    async def then(self, work: Afterwards) -> None:
        """Run this after the commit under way, or at once if there is none."""
        if self._is_under_way:
            self._afterwards.append(work)
        else:
            await work(self._happened)

    async def _see_through(self, flight: InFlight) -> None:
        try:
            with flight:
                self._happened = await self._committed(flight)
            while self._afterwards:
                await self._afterwards.pop(0)(self._happened)
            self._is_under_way = False
        except asyncio.CancelledError:
            raise  # the app stops: the transaction in the thread still happens or not
        except BaseException as cause:
            self._die(cause)

    async def _committed(self, flight: InFlight) -> bool:
        """Commit it; False if the commit was in doubt.

        A doubt ends the tenure: the next one begins after the last commit that happened, and
        everything beyond it is read again.
        """
        self._settlement.commit_begins()
        try:
            await self._thread.run(lambda: self._commit(flight))
        except InDoubt as doubt:
            flight.span.in_doubt()
            if isinstance(doubt, TooSlow):
                self._assignment.progress.made()  # the next one is smaller, which has an end
            happened = await self._settlement.settle(doubt, flight.batch.next_offsets)
            self._commit.settled(flight, happened)
            return False
        self._settlement.commit_answered()
        self._assignment.progress.made()
        return True


class CommitMetrics(Protocol):
    """What commits report."""

    def observe_batch(self, stats: Stats) -> None:
        """A part of a micro-batch was committed."""

    def observe_commit(self, seconds: float) -> None:
        """The duration of a commit."""

    def observe_doubt(self, committed: bool) -> None:
        """A commit was in doubt, and it had happened or not."""


class Commit:
    """Takes one part from IN_FLIGHT to ANNOUNCED.

    Args:
        producer: writes the transaction.
        logs: the changelog, and the input whose offsets are committed.
        group: the fingerprint of the group's state.
        gate: stores the rows.
        processor: removes the rows from its overlay once they are stored.
        metrics: count what was committed.
        dead_letters: logs dead letters.
        feed: shows recent changes.
        size: adapts the size of transactions to their duration.
        clock: measures the duration.
        ledger: keeps the account of a bounded run.
    """

    def __init__(
        self,
        producer: TransactionalProducer,
        logs: Logs,
        group: GroupFingerprint,
        gate: Gate,
        processor: Processor,
        metrics: CommitMetrics,
        dead_letters: DeadLetterLog,
        feed: ChangeFeed,
        size: TransactionSize,
        clock: Clock,
        ledger: Ledger = NO_LEDGER,
    ) -> None:
        self._producer = producer
        self._logs = logs
        self._group = group
        self._gate = gate
        self._processor = processor
        self._metrics = metrics
        self._dead_letters = dead_letters
        self._feed = feed
        self._size = size
        self._clock = clock
        self._ledger = ledger
        output = [logs.output] if logs.output else []
        self._topics = [logs.input.topic, *output, logs.changelog.topic]

    def __call__(self, flight: InFlight) -> None:
        """Commit it.

        Raises InDoubt before DECIDED: nothing was stored or announced. Raises Fenced and Crash,
        which end the process.
        """
        batch, tenure = flight.batch, flight.tenure
        started = self._clock.monotonic()
        notes = self._ledger.notes(batch)
        # Asked before the records are produced: describing topics of many partitions takes longer
        # than writing some rows.
        check_ids = self._logs.ids.ask_ahead(self._topics)
        try:
            last_offsets = self._producer.commit(
                batch.messages,
                self._logs.changelog.topic,
                batch.rows,
                self._logs.input.topic,
                batch.next_offsets,
                tenure.membership,
                lambda last_offsets: self._check(check_ids, batch, last_offsets),
                notes,
            )
        except Overtaken:
            raise
        except InDoubt as doubt:
            self._check_pace(batch, self._clock.monotonic() - started, doubt)
            raise
        flight.reach(Stage.DECIDED)
        self._size.written(batch.size, self._clock.monotonic() - started)
        self._group.agreed()
        for partition, changes in batch.rows.items():
            if changes:
                self._gate.write(tenure.epoch, partition, changes, last_offsets[partition])
        flight.reach(Stage.STORED)
        self._processor.committed(batch)
        self._ledger.committed(batch, notes)
        self._metrics.observe_commit(self._clock.monotonic() - started)
        self._announce(flight)

    def settled(self, flight: InFlight, happened: bool) -> None:
        """Its commit was in doubt, and is decided; if it happened, the takeover stored its rows."""
        flight.reach(Stage.DECIDED)
        self._metrics.observe_doubt(happened)
        if happened:
            flight.reach(Stage.STORED)
            self._announce(flight)

    def _announce(self, flight: InFlight) -> None:
        self._metrics.observe_batch(flight.batch.stats)
        self._dead_letters.count(flight.batch.stats)
        self._feed.committed(flight.batch.messages)
        flight.reach(Stage.ANNOUNCED)

    def _check_pace(self, batch: ProcessedBatch, seconds: float, doubt: InDoubt) -> None:
        """Raise TooSlow if the failed transaction may have been too large to be written in time."""
        if self._size.unwritten(batch.taken or len(batch.messages), batch.size, seconds):
            raise TooSlow(
                f"{doubt}; it had {batch.size} bytes and failed after {seconds:.1f} s, so the next "
                f"has at most {self._size.most} bytes"
            ) from doubt

    def _check(
        self, check_ids: Callable[[], None], batch: ProcessedBatch, last_offsets: Mapping[int, int]
    ) -> None:
        """Between flush and offsets: check that the topics are those of the takeover, and that the
        group has one fingerprint.

        A changelog can be created again between the question for its id and the flush. Its rows
        then begin at offset 0, not after the stored ones: nobody else writes to these partitions.
        """
        check_ids()
        for partition, last in last_offsets.items():
            first = last - len(batch.rows[partition]) + 1
            stored = self._gate.stored_offset(partition)
            if first <= stored:
                # Or a row before the last one was not written, and the transaction has failed: the
                # takeover asks for the changelog's id.
                raise Unanswered(
                    f"rows of {self._logs.changelog.topic}-{partition} seem to begin at offset "
                    f"{first}, and those up to {stored} are stored: one was not written, or the "
                    "topic was deleted and created again"
                )
        self._group.check()
