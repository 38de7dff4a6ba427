"""The commit of a micro-batch: steps 3 to 5 of the protocol in `worker.stream.delivery`, one after
another.
"""

from collections.abc import Callable, Mapping
from typing import Protocol

from worker.clock import Clock
from worker.errors import InDoubt, Overtaken, TooSlow, Unanswered
from worker.kafka.changelog import Logs
from worker.kafka.producer import TransactionalProducer
from worker.processing.pace import TransactionSize
from worker.processing.processor import ProcessedBatch, Processor
from worker.processing.stats import Stats
from worker.stream.assignment import Tenure
from worker.stream.feed import ChangeFeed
from worker.stream.gate import Gate
from worker.stream.group_fingerprint import GroupFingerprint
from worker.stream.journal import DeadLetterLog
from worker.stream.run_bounds import NO_LEDGER, Ledger


class CommitMetrics(Protocol):
    """What commits report."""

    def observe_batch(self, stats: Stats) -> None:
        """A micro-batch was committed."""

    def observe_commit(self, seconds: float) -> None:
        """A transaction took so long."""

    def observe_doubt(self, committed: bool) -> None:
        """A commit was in doubt; whether it had happened."""


class Commit:
    """Makes what the processor found happen: visible on Kafka, then stored here, then told to
    whoever asks.

    Args:
        producer: the transactions.
        logs: the changelog, and the input whose offsets are committed.
        group: what the group's state was made with.
        gate: where the rows go.
        processor: is told when they are stored, whatever it does meanwhile.
        metrics: are told what was committed.
        dead_letters: is told too.
        feed: is told what was published.
        size: of the transactions; is told what they took.
        clock: times it.
        ledger: keeps account of a bounded run.
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
        self._topics = [
            logs.input.topic,
            *([logs.output] if logs.output else []),
            logs.changelog.topic,
        ]
        self._clock = clock
        self._ledger = ledger

    def __call__(self, batch: ProcessedBatch, tenure: Tenure) -> None:
        """Commit under a tenure.

        Raises InDoubt: then nothing was stored or told, and the caches are ahead. Raises Fenced and
        Crash, which are the end of the process.
        """
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
        self._size.written(batch.size, self._clock.monotonic() - started)
        self._group.agreed()
        for partition, changes in batch.rows.items():
            if changes:
                self._gate.write(tenure.epoch, partition, changes, last_offsets[partition])
        self._processor.committed(batch)
        self._ledger.committed(batch, notes)
        self._metrics.observe_commit(self._clock.monotonic() - started)
        self._count(batch)

    def _check_pace(self, batch: ProcessedBatch, seconds: float, doubt: InDoubt) -> None:
        """Raise TooSlow where the failed transaction may have been too large for its time."""
        if self._size.unwritten(batch.taken or len(batch.messages), batch.size, seconds):
            raise TooSlow(
                f"{doubt}; it had {batch.size} bytes and failed after {seconds:.1f} s, so the next has at most "
                f"{self._size.most} bytes"
            ) from doubt

    def settled(self, batch: ProcessedBatch, happened: bool) -> None:
        """It was in doubt whether it is committed, and now it is known."""
        self._metrics.observe_doubt(happened)
        if happened:
            self._count(batch)

    def _count(self, batch: ProcessedBatch) -> None:
        """It is committed: its events and dead letters count, and whoever looks on may know of its
        changes.
        """
        self._metrics.observe_batch(batch.stats)
        self._dead_letters.count(batch.stats)
        self._feed.committed(batch.messages)

    def _check(
        self, check_ids: Callable[[], None], batch: ProcessedBatch, last_offsets: Mapping[int, int]
    ) -> None:
        """Between flush and offsets: the topics are those of the takeover, and the group has one
        fingerprint.

        A changelog can be created again between the question and the flush. Its new rows then begin
        at offset 0, and not behind the stored ones: nobody else writes to these partitions.
        """
        check_ids()
        for partition, last in last_offsets.items():
            first, stored = (
                last - len(batch.rows[partition]) + 1,
                self._gate.stored_offset(partition),
            )
            if first <= stored:
                # Or rows were lost before the last one, and the transaction has failed: a takeover
                # asks for the changelog's id.
                raise Unanswered(
                    f"rows of {self._logs.changelog.topic}-{partition} seem to begin at offset {first}, and those up to {stored} "
                    "are stored: one was not written, or the topic was deleted and created again"
                )
        self._group.check()
