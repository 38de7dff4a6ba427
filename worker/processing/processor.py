"""The processor: a micro-batch of records and the committed rows in, rows and messages out. No
broker, no writes.

1. *Decode* the records that are not applied yet; one that holds no valid event becomes a dead
   letter.
2. *BatchPlan* what each event does, by versions and stored rows (`plan`).
3. *Embed* all new sentences of the micro-batch at once (`embed`). A record with a text for which
   the engine has no usable vector becomes a dead letter after all: the micro-batch is planned again
   without it.
4. *Publish*: rank all events of each entity at once, a message for each change of its set
   (`publish`).
5. *Rows*: each changed row once, in its last state, and the applied offset (`row_writer`).

A micro-batch is cut where it passes a limit (`BatchLimits`): only its first records are processed
then, at least one, and the caller comes again with the others. Sentences are counted while the plan
is made; records and bytes of the transaction while messages and rows are made, and past a limit
(`load`) the work is thrown away and done again for the first half. Bytes are limited too by what is
likely to be written in time (`pace`).

The messages and rows of a record depend on the records before it alone, not on how they were cut
into micro-batches (but for `emit=coalesced`, whose changes are those of micro-batches), on what is
cached, or on restarts. After an exception, or when a batch cannot be committed, the processor must
not be used again: its caches may be ahead.

What is processed counts for what comes next at once, by rows that are laid over the committed ones
(`Overlay`): so a micro-batch may be processed while the one before it is committed. Others see it
when it is committed, and not before (`Summaries`).
"""

import gc
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

from worker.events import EVENT_TYPES, Event, Ignored, Message, Record, Rejected, decode
from worker.limits import Limit
from worker.processing.config import ProcessorConfig
from worker.processing.embed import Embedder, VectorStore
from worker.processing.entities import Entities
from worker.processing.entity_cache import EntityKey
from worker.processing.pace import MOST, Load, Pace, TooMuch
from worker.processing.partitions import Partitions, RowWriter
from worker.processing.plan import BatchPlan, Outcome
from worker.processing.publish import Outbox, kept_message, publish, publish_dead_letters
from worker.processing.stats import UNREADABLE, Stats
from worker.processing.summaries import Summaries
from worker.state import Rows, SummaryView
from worker.state.errors import CorruptRow
from worker.state.keys import describe, last_change_key
from worker.state.last_change import LastChange
from worker.state.partition import last_changes, put_last_change
from worker.state.rows import Output
from worker.text.engine import EmbeddingEngine

FINISHED_AT_ONCE = 500
"""Summaries that are published in one transaction at the end of a replay, at most."""


@dataclass(slots=True)
class ProcessedBatch:
    """The results of a micro-batch's first `taken` records; they must become visible together, or
    not at all.
    """

    messages: list[Message]
    rows: dict[int, dict[bytes, bytes | None]]
    """By partition: changed rows, None for removed ones."""
    next_offsets: dict[int, int]
    """By partition: everything below is in the rows once these are committed."""
    stats: Stats
    touched: list[EntityKey]
    """Entities that are waiting for the commit."""
    taken: int
    """Records that went in; the others are to be processed next."""
    is_end: bool = False
    """After it nothing of its partition is left to be done (`Processor.finish`)."""
    size: int = 0
    """Bytes of messages and rows."""


class _Planned(NamedTuple):
    """A plan with all vectors in place, and each record's outcome and event type."""

    plan: BatchPlan
    outcomes: list[Outcome]
    types: list[str]


class Processor:
    """Processes micro-batches of any partitions, one at a time; `committed` must follow each one,
    in the same order, before the next but one.
    """

    def __init__(
        self,
        config: ProcessorConfig,
        rows: Callable[[int], Rows],
        engine: EmbeddingEngine | None,
        pace: Pace | None = None,
        vectors: VectorStore | None = None,
    ) -> None:
        """`rows` gives the committed rows of a partition, `pace` bounds how long micro-batches
        take; without one they take as long as they do. Texts that are in `vectors` are not embedded
        again. Raises IndexUnavailable.
        """
        self.config = config
        self._pace = pace or Pace()
        self._engine = engine
        self._vectors = vectors
        self._partitions = Partitions(rows, config.fingerprint)
        self._entities = Entities(config, self._partitions)
        self._row_writer = RowWriter(config, self._partitions)
        self.summaries = Summaries(config, self._entities.cache)
        """As of the last commit, for any thread."""
        self._max_records = (
            MOST  # after a cut as many as went through, then twice as many, and so on
        )

    # -- partitions
    # ------------------------------------------------------------------------------------------

    def check_partition(self, partition: int) -> int | None:
        """The partition's next source offset by its rows, None for empty ones. Raises
        FingerprintMismatch, CorruptRow.
        """
        return self._partitions[partition].next_offset

    def begin(self, partition: int) -> None:
        """The partition's rows are whole, as of a commit, and its own: whoever asks is told of them
        from here on.
        """
        self.summaries.begin(partition, self._partitions[partition].next_offset or 0)

    def topic_id(self, partition: int) -> str:
        """The id of the input topic that the partition's rows were made from; empty where they do
        not tell.
        """
        return self._partitions[partition].topic_id

    def reads_from(self, partition: int, topic_id: str) -> None:
        """Note in this partition's rows, from the next write on, which topic they are made from; an
        empty id says nothing.
        """
        self._partitions[partition].topic_id = topic_id or self._partitions[partition].topic_id

    def output(self, partition: int) -> Output | None:
        """Where the partition's summaries were published so far; None where its rows do
        not tell.
        """
        return self._partitions[partition].output

    def publishes_to(self, partition: int, topic_id: str) -> None:
        """Note in this partition's rows, with the next write, where its summaries are published; an
        empty id says nothing.
        """
        held, config = self._partitions[partition], self.config
        stored = held.output
        if not topic_id and stored is not None and stored.topic == config.output_topic:
            topic_id = stored.topic_id
        held.output = Output(config.epoch, config.output_topic, topic_id)
        held.has_output = held.output == stored

    def summary(self, partition: int, entity_id: str) -> SummaryView | None:
        """The entity as of the last commit, None where it is unknown; for whoever has the processor
        to himself.
        """
        key = EntityKey(partition, entity_id)
        return self.summaries.from_memory(key) or self.summaries.from_rows(
            self._partitions[partition].rows, key
        )

    def forget(self, partitions: Iterable[int]) -> None:
        """These partitions are others' now: drop all that is cached of them."""
        gone = set(partitions)
        self._entities.cache.forget(gone)
        self.summaries.forget(gone)
        self._partitions.forget(gone)

    # -- a micro-batch
    # ---------------------------------------------------------------------------------------

    def process(self, records: Sequence[Record]) -> ProcessedBatch:
        """The results of the first of these records (`ProcessedBatch.taken`); they are in offset
        order within each partition.

        Raises StateError; never for bad input.
        """
        started = self._pace.clock.monotonic()
        embedder = Embedder(self._engine, self._pace, self._vectors)
        cuts: Counter[Limit] = Counter()
        records = records[: self._max_records]
        is_slow = len(records) > (likely := self._pace.most_records())
        records = records[:likely]
        with _no_collection():
            while True:
                try:
                    batch = self._process(records, embedder)
                except TooMuch as cut:
                    cuts[cut.limit] += 1
                    records = records[: cut.keep]
                else:
                    self._max_records = batch.taken if cuts else min(2 * self._max_records, MOST)
                    cuts[Limit.BATCH_TIME] += is_slow
                    batch.stats.limits += cuts
                    batch.stats.process_seconds = seconds = self._pace.clock.monotonic() - started
                    self._pace.processed(batch.taken, seconds - embedder.seconds, batch.size)
                    return self._go_on_from(batch)

    def _process(self, records: Sequence[Record], embedder: Embedder) -> ProcessedBatch:
        """The results of all of these records. Raises TooMuch, and then it is as if they had never
        come.
        """
        next_offsets = self._partitions.next_offsets(records)
        load = Load(self.config.batch, self._pace, len(records))
        planned = self._plan(records, load, embedder)
        changes = planned.plan.changes
        try:
            messages = self._publish(planned, records, load)
            rows = self._row_writer.write(changes, next_offsets, load)
        except TooMuch:
            self._entities.discard(changes)
            raise
        self._entities.keep(changes)
        stats = self._count(records, planned, messages, embedder)
        touched = [one.key for one in changes]
        return ProcessedBatch(
            messages, rows, next_offsets, stats, touched, len(records), size=load.size
        )

    # -- the end of a replay
    # ---------------------------------------------------------------------------------

    def finish(self, partition: int, end: int) -> ProcessedBatch:
        """What is left to be done when the partition's records below `end` are processed: of the
        summaries that are published once, as many as go into a transaction; with the last of them
        the partition's offset becomes `end`.

        Raises CorruptRow.
        """
        held = self._partitions[partition]
        limits = self.config.batch
        most_bytes = min(limits.transaction_bytes, self._pace.transaction.most)
        # a message and a row each
        most = max(1, min(FINISHED_AT_ONCE, limits.transaction_records // 2))
        rows: dict[bytes, bytes | None] = {}
        messages: list[Message] = []
        touched: list[EntityKey] = []
        size, is_last = 0, True
        # From the start the scan would pass the tombstones of all that was published.
        last = held.finished
        for name, change in last_changes(held.rows, after=last):
            key = EntityKey(partition, name.decode())
            message = self._finished(key, change)
            length = len(message.value or b"")
            if messages and (len(messages) == most or size + length > most_bytes):
                is_last = False
                break
            size += length
            messages.append(message)
            touched.append(key)
            put_last_change(rows, name, None)
            last = name
        next_offset = max(end, held.next_offset or 0) if is_last else held.next_offset or 0
        pending = self._row_writer.write(
            [], {partition: next_offset}, Load(self.config.batch, self._pace, 1)
        )
        finished = ProcessedBatch(
            messages,
            {partition: pending[partition] | rows},
            {partition: next_offset},
            Stats(changes=len(messages)),
            touched,
            0,
            is_last,
            size,
        )
        self._go_on_from(finished)
        held.finished = None if is_last else last
        return finished

    def _finished(self, key: EntityKey, change: LastChange) -> Message:
        """The message of an entity's last change."""
        entity = self._entities.find(key)
        if entity is None:
            raise CorruptRow(
                describe(last_change_key(key.entity_id.encode())), "of an entity without rows"
            )
        self.summaries.touch(key)
        return kept_message(entity, change, key.partition, self.config)

    def _go_on_from(self, batch: ProcessedBatch) -> ProcessedBatch:
        """What comes next is processed on top of this one. Keeps what is cached within
        its bytes.
        """
        self._partitions.on_processed(batch.rows, batch.next_offsets)
        cache = self._entities.cache
        if evicted := cache.on_processed(batch.touched):
            batch.stats.limits[Limit.CACHE_BYTES] = evicted
        self.summaries.processed(batch.touched)
        batch.stats.cached_entities = len(cache)
        batch.stats.cache_bytes = cache.memory_bytes
        return batch

    def committed(self, batch: ProcessedBatch) -> None:
        """The batch's rows are stored. From any thread, also while the next one is processed."""
        self.summaries.commit(batch.touched, batch.next_offsets)
        self._partitions.on_stored(batch.rows)

    def _plan(self, records: Sequence[Record], load: Load, embedder: Embedder) -> _Planned:
        limits, entities = self.config.limits, self._entities
        outcomes: list[Outcome] = [Ignored.ALREADY_APPLIED] * len(records)
        types = [UNREADABLE] * len(records)
        new = [i for i, record in enumerate(records) if self._partitions.is_new(record)]
        events = self._select(records, new, outcomes)
        for i, event in events.items():
            types[i] = UNREADABLE if isinstance(event, Rejected) else EVENT_TYPES[type(event)]
        while True:
            plan = BatchPlan(limits, entities.find, entities.create, embedder.missing)
            for i, event in events.items():
                outcomes[i] = (
                    event if isinstance(event, Rejected) else plan.take(i, records[i], event)
                )
                load.check_plan(plan.sentences, plan.new_characters, i)
            rejected = embedder.fill_in(plan)
            if not rejected:
                return _Planned(plan, outcomes, types)
            events |= rejected

    def _select(
        self, records: Sequence[Record], new: list[int], outcomes: list[Outcome]
    ) -> dict[int, Event | Rejected]:
        """What the new records hold, by index; those that are not selected are left out, and have
        their outcome.
        """
        limits, selection = self.config.limits, self.config.selection
        if selection.is_all:
            return dict(zip(new, decode([records[i] for i in new], limits), strict=True))
        of_entity = [i for i in new if selection.has_entity(records[i])]
        decoded = zip(of_entity, decode([records[i] for i in of_entity], limits), strict=True)
        events = {i: event for i, event in decoded if selection.has_time(records[i], event)}
        for i in new:
            if i not in events:
                outcomes[i] = Ignored.NOT_SELECTED
        return events

    def _publish(self, planned: _Planned, records: Sequence[Record], load: Load) -> list[Message]:
        """All messages, in the order of the records that caused them."""
        outbox = Outbox(load, self.config.output_topic)
        for changes in planned.plan.changes:
            self.summaries.touch(changes.key)
            publish(changes, records, self.config, outbox)
            self._pace.on_progress()
        publish_dead_letters(records, planned.outcomes, self.config, outbox)
        return outbox.messages()

    def _count(
        self,
        records: Sequence[Record],
        planned: _Planned,
        messages: Sequence[Message],
        embedder: Embedder,
    ) -> Stats:
        stats = Stats(sentences_embedded=embedder.given, embed_seconds=embedder.seconds)
        if self._vectors is not None:
            stats.vectors_found, stats.vectors_missed = embedder.found, embedder.given
            stats.vector_store_bytes = self._vectors.disk_bytes
        stats.count_outcomes(records, planned.types, planned.outcomes)
        stats.count_messages(messages, self.config.output_topic)
        stats.count_plan(planned.plan)
        if self.config.selection.is_by_time:
            stats.count_late(records, planned.outcomes, self.config.selection)
        return stats


@contextmanager
def _no_collection() -> Iterator[None]:
    """No garbage collection meanwhile: a micro-batch makes many objects, next to no cycles, and the
    collector would walk them again and again, for a fifth of the time.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
