"""The processor: from a micro-batch of records and the committed rows to rows and messages.

1. *Decode* the records that are not applied yet; one without a valid event becomes a dead letter.
2. *Plan* each event, by versions and stored rows (`plan`).
3. *Embed* all new sentences at once (`embed`). A record without usable vectors becomes a dead
   letter, and the micro-batch is planned again without it.
4. *Publish*: rank all events of each entity at once; one message per change of its set (`publish`).
5. *Rows*: each changed row once, in its last state, and the applied offset (`changed_rows`).

Usual events of small entities go through native code instead, if it is installed (`native`).

At a limit (`BatchLimits`, and `pace` for the time of processing and of writing) a micro-batch is
cut to its first records, at least one, and the caller processes the others next. It is cut once
before the work (`Pace.first_part`) and where the plan passes a limit (`Load.check_plan`). What it
reads and writes is known only as it is made (`Load`): past a limit that work is discarded, and
repeated for fewer records.

The messages and rows of a record depend only on the records before it: not on the cutting into
micro-batches (except for `emit=coalesced`), on caches, or on restarts. After an exception, or if a
batch cannot be committed, discard the processor: its caches may be ahead.

Processed rows are laid over the committed ones (`Overlay`), so a micro-batch may be processed while
the one before it is committed. Queries read the committed rows (`entity_view`).
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from worker.events import EVENT_TYPES, Event, Ignored, Message, Record, Rejected, decode
from worker.events.internal_errors import internal_errors
from worker.events.notes import NOTES
from worker.events.publishing import FACETS, SUMMARIES, OutputTopic
from worker.limits import Limit
from worker.processing.changed_rows import changed_rows
from worker.processing.changes import Outcome
from worker.processing.config import ProcessorConfig
from worker.processing.embed import Embedder, VectorStore
from worker.processing.entities import Entities, EntityKey
from worker.processing.facets import ReviewMove, classify
from worker.processing.known_texts import count_known
from worker.processing.native import count_native, open_native
from worker.processing.outbox import Outbox, last_message
from worker.processing.pace import Load, Pace, TooMuch
from worker.processing.partitions import Partitions
from worker.processing.plan import BatchPlan
from worker.processing.publish import publish, publish_dead_letters
from worker.processing.stats import NO_EVENT, SEVERAL, UNREADABLE, Stats
from worker.state import Rows
from worker.state.errors import CorruptRow
from worker.state.keys import describe, last_change_key
from worker.state.partition import last_changes, put_last_change, read_last_change
from worker.state.rows import LastChange, Output
from worker.text.declared import facts_of
from worker.text.engine import EmbeddingEngine

if TYPE_CHECKING:
    from worker._native import Processed

FINISHED_AT_ONCE = 500  # most summaries published in one transaction at the end of a replay


@dataclass(slots=True)
class ProcessedBatch:
    """The results of a micro-batch's first `taken` records, to be committed together."""

    messages: list[Message]
    rows: dict[int, dict[bytes, bytes | None]]  # by partition: changed rows, None for removed ones
    next_offsets: dict[int, int]  # by partition: everything below is in the rows
    stats: Stats
    touched: list[EntityKey]  # entities that wait for the commit
    taken: int  # records processed; the others are next
    is_end: bool = False  # the last one of `Processor.finish`
    size: int = 0  # bytes of messages and rows
    loaded: int = 0  # bytes of entities that were read into memory


class _Planned(NamedTuple):
    """A plan with all vectors, and each record's outcome and event type."""

    plan: BatchPlan
    outcomes: list[Outcome]
    types: list[str]


class Processor:
    """Processes micro-batches of any partitions, one at a time.

    `committed` must follow each one, in order, before the next but one is processed.
    """

    def __init__(
        self,
        config: ProcessorConfig,
        rows: Callable[[int], Rows],
        engine: EmbeddingEngine | None,
        pace: Pace | None = None,
        vectors: VectorStore | None = None,
    ) -> None:
        """`rows` gives the committed rows of a partition, `vectors` known vectors of texts.

        `pace` limits the time of micro-batches; by default it does not. Raises IndexUnavailable,
        and SetupError if native code is required and not installed.
        """
        self.config = config
        self._pace = pace or Pace()
        self._engine = engine
        self._vectors = vectors
        self._partitions = Partitions(rows, config)
        self._entities = Entities(config, self._partitions)
        self._native = open_native(config, self._partitions, self._entities)
        self._internal_errors = 0  # in a row, at the end of what is processed

    @property
    def is_native(self) -> bool:
        """True if usual events go through native code."""
        return self._native is not None

    # -- partitions

    def check_partition(self, partition: int) -> int | None:
        """The next source offset, None without rows. Raises FingerprintMismatch, CorruptRow."""
        return self._partitions[partition].next_offset

    def begin(self, partition: int) -> None:
        """Answer queries of the partition: its rows are complete, as of a commit."""
        self._partitions[partition].begun = object()

    def begun(self, partition: int) -> object | None:
        """An object that identifies the partition's `begin`, None before it; from any thread."""
        return self._partitions.begun(partition)

    def topic_id(self, partition: int) -> str:
        """The id of the input topic that the rows were made from, or empty."""
        return self._partitions[partition].topic_id

    def reads_from(self, partition: int, topic_id: str) -> None:
        """Record the input topic's id, unless empty, with the partition's next write."""
        self._partitions[partition].topic_id = topic_id or self._partitions[partition].topic_id

    def output(self, partition: int, topic: OutputTopic = SUMMARIES) -> Output | None:
        """Where the topic was published so far, if the rows contain that."""
        return self._partitions[partition].outputs[topic]

    def publishes_to(self, partition: int, topic_id: str, topic: OutputTopic = SUMMARIES) -> None:
        """Record the id of the Kafka topic, unless empty, with the partition's next write."""
        held, name = self._partitions[partition], topic.of(self.config)
        stored = held.outputs[topic]
        if not topic_id and stored is not None and stored.topic == name:
            topic_id = stored.topic_id
        held.outputs[topic] = Output(self.config.epoch, name, topic_id)
        if held.outputs[topic] != stored:
            held.new_outputs.add(topic)

    def forget(self, partitions: Iterable[int]) -> None:
        """Drop the caches of these partitions, which are no longer held."""
        gone = set(partitions)
        self._entities.forget(gone)
        if self._native is not None:
            self._native.forget(gone)
        self._partitions.forget(gone)

    # -- a micro-batch

    def process(self, records: Sequence[Record]) -> ProcessedBatch:
        """The results of the first of these records, which are in offset order within each
        partition.

        Raises StateError, and Crash for too many internal errors in a row; never for bad input.
        """
        started = self._pace.clock.monotonic()
        embedder = Embedder(self._engine, self._pace, self._vectors)
        cuts: Counter[Limit] = Counter()
        records, reached = self._pace.first_part(records, self.config.batch)
        with _no_collection():
            while True:
                try:
                    batch = self._process(records, embedder)
                except TooMuch as cut:
                    cuts[cut.limit] += 1
                    records = records[: cut.keep]
                else:
                    break
            batch.stats.process_seconds = seconds = self._pace.clock.monotonic() - started
            seconds -= embedder.seconds
            is_cut = bool(cuts)
            self._pace.processed(batch.taken, seconds, batch.size, batch.loaded, is_cut=is_cut)
            cuts.update(() if reached is None else (reached,))
            batch.stats.limits += cuts
            return self._add_rows(batch)

    def _process(self, records: Sequence[Record], embedder: Embedder) -> ProcessedBatch:
        """The results of all of these records. Raises TooMuch without a trace in the state."""
        next_offsets = self._partitions.next_offsets(records)
        load = Load(self.config.batch, self._pace, len(records))
        new, before = self._partitions.new(records), NOTES.records
        usual, known = (
            ({}, []) if self._native is None else self._native.take(records, new, load, embedder)
        )
        NOTES.records = before  # events that native code left are read, and counted, below
        native, done = (self._native if usual else None), None
        new = [i for i in new if i not in usual]
        planned = self._plan(records, new, usual, load, embedder)
        count_known(known, planned.plan)
        is_suspect = UNREADABLE in planned.types
        in_a_row = internal_errors(self._internal_errors, planned.outcomes) if is_suspect else 0
        changes = planned.plan.changes
        try:
            if native is not None:
                done = native.process(self._pace.on_progress)
                number = len(done.messages) + sum(map(len, done.rows.values()))
                load.add(number, done.message_bytes + done.row_bytes)
                self._pace.on_progress()
            messages = self._publish(planned, records, load, done)
            rows = changed_rows(changes, next_offsets, self._partitions, self.config, load, done)
        except TooMuch:
            for change in changes:  # read again from the committed rows
                self._entities.drop(change.key)
            if native is not None and done is not None:
                native.drop(done.touched)
            raise
        for change in changes:
            if change.end is not None:
                self._entities.drop(change.key)
            elif change.is_new:
                self._entities.put(change.key, change.entity)
        stats = self._count(records, planned, messages, embedder, usual)
        stats.lone_surrogates = NOTES.records - before
        stats.mapping_notes = NOTES.take()
        touched = [change.key for change in changes]
        self._internal_errors = in_a_row
        if done is not None:
            count_native(stats, done)
            touched += [EntityKey(number, name.decode()) for number, name in done.touched]
        return ProcessedBatch(
            messages,
            rows,
            next_offsets,
            stats,
            touched,
            len(records),
            size=load.size,
            loaded=load.loaded,
        )

    # -- the end of a replay

    def finish(self, partition: int, end: int) -> ProcessedBatch:
        """The next last changes of a partition whose records below `end` are processed.

        They come in chunks of as many summaries as fit into a transaction. The last chunk moves the
        offset to `end`. Raises CorruptRow.
        """
        held, config = self._partitions[partition], self.config
        limits = config.batch
        most_bytes = min(limits.transaction_bytes, self._pace.transaction.most)
        each = 2 if config.facets is None else 4  # message and row of the summary, and of facets
        most = max(1, min(FINISHED_AT_ONCE, limits.transaction_records // each))
        rows: dict[bytes, bytes | None] = {}
        messages: list[Message] = []
        touched: list[EntityKey] = []
        size, is_last = 0, True
        last = held.finished  # a scan from the start would pass all tombstones
        for name, change in last_changes(held.rows, after=last):
            key = EntityKey(partition, name.decode())
            of_entity = {SUMMARIES: change}
            if config.facets is not None and (facets := read_last_change(held.rows, name, FACETS)):
                of_entity[FACETS] = facets
            own = self._last_messages(key, of_entity.values())
            length = sum(len(message.value or b"") for message in own)
            if messages and (len(touched) == most or size + length > most_bytes):
                is_last = False
                break
            size += length
            messages += own
            touched.append(key)
            for topic in of_entity:
                put_last_change(rows, name, topic, None)
            last = name
        next_offset = max(end, held.next_offset or 0) if is_last else held.next_offset or 0
        load = Load(limits, self._pace, 1)
        pending = changed_rows([], {partition: next_offset}, self._partitions, config, load)
        finished = ProcessedBatch(
            messages,
            {partition: pending[partition] | rows},
            {partition: next_offset},
            Stats(changes=len(touched)),
            touched,
            0,
            is_last,
            size,
        )
        self._add_rows(finished)
        held.finished = None if is_last else last
        return finished

    def _last_messages(self, key: EntityKey, last: Iterable[LastChange]) -> list[Message]:
        entity = self._entities.find(key)
        if entity is None:
            row = describe(last_change_key(key.entity_id.encode()))
            raise CorruptRow(row, "of an entity without rows")
        return [last_message(entity, key.partition, published, self.config) for published in last]

    def _add_rows(self, batch: ProcessedBatch) -> ProcessedBatch:
        """Lay the rows over the committed ones for the next micro-batch, and evict entities."""
        self._partitions.on_processed(batch.rows, batch.next_offsets)
        entities = self._entities
        entities.on_processed(batch.touched)
        native, stats = self._native, batch.stats
        evicted = entities.evict(self.config.cache_bytes) if native is None else native.evict()
        if evicted:
            stats.limits[Limit.CACHE_BYTES] = evicted
        stats.cached_entities, stats.cache_bytes = len(entities), entities.memory_bytes
        if native is not None:
            stats.cached_entities += len(native)
            stats.cache_bytes += native.memory_bytes
        return batch

    def committed(self, batch: ProcessedBatch) -> None:
        """The batch's rows are stored. Call it from any thread, also beside `process`."""
        self._partitions.on_stored(batch.rows)

    def _plan(
        self,
        records: Sequence[Record],
        new: list[int],
        usual: Mapping[int, int],
        load: Load,
        embedder: Embedder,
    ) -> _Planned:
        """`usual`: by index the sentences of the events that native code takes."""
        outcomes: list[Outcome] = [Ignored.ALREADY_APPLIED] * len(records)
        types = [NO_EVENT] * len(records)
        events = self._select(records, new, outcomes)
        for i, event in events.items():
            types[i] = _type_of(event)
        while True:
            plan = BatchPlan(self.config, self._entities, embedder)
            of_usual = 0
            for i in sorted([*usual, *events]):
                if i in usual:
                    of_usual += usual[i]
                elif isinstance(event := events[i], Rejected):
                    outcomes[i] = event
                elif isinstance(event, list):
                    outcomes[i] = plan.take_several(i, records[i], event)
                else:
                    outcomes[i] = plan.take(i, records[i], event)
                load.check_plan(of_usual + plan.sentences, plan.new_characters, i)
            rejected = embedder.fill_in(plan.unembedded)
            if not rejected:
                return _Planned(plan, outcomes, types)
            events |= rejected

    def _select(
        self, records: Sequence[Record], new: list[int], outcomes: list[Outcome]
    ) -> dict[int, Event | list[Event] | Rejected]:
        """The new records' events by index; other records get their outcome."""
        config, selection, mapping = self.config, self.config.selection, self.config.mapping
        # with a mapping the entity is known once the record is mapped
        of_entity = [i for i in new if mapping is not None or selection.has_entity(records[i])]
        taken = [records[i] for i in of_entity]
        decoded = decode(taken, config.limits, config.codec, mapping)
        events: dict[int, Event | list[Event] | Rejected] = {}
        for i in new:
            outcomes[i] = Ignored.NOT_SELECTED
        for i, event in zip(of_entity, decoded, strict=True):
            if isinstance(event, Ignored):
                outcomes[i] = event
            elif selection.is_all:
                events[i] = event
            elif isinstance(event, list):
                if own := [part for part in event if self._is_selected(records[i], part)]:
                    events[i] = own
            elif self._is_selected(records[i], event):
                events[i] = event
        return events

    def _is_selected(self, record: Record, event: Event | Rejected) -> bool:
        selection = self.config.selection
        is_of_entity = self.config.mapping is None or selection.has_entity(record, event)
        return is_of_entity and selection.has_time(record, event)

    def _publish(
        self, planned: _Planned, records: Sequence[Record], load: Load, done: Processed | None
    ) -> list[Message]:
        """All messages, in the order of the records that caused them."""
        self._classify(planned.plan)
        outbox = Outbox(records, self.config, load)
        if done is not None:
            outbox.put_counted(done.messages)
        for changes in planned.plan.changes:
            entity = changes.entity
            is_loaded = entity.is_loaded
            publish(changes, outbox)
            if not is_loaded and changes.steps:
                load.hold(entity.measure() - entity.memory_bytes, changes.steps[0].index)
            self._pace.on_progress()
        publish_dead_letters(planned.outcomes, outbox)
        return outbox.messages()

    def _classify(self, plan: BatchPlan) -> None:
        """Find the facets of all sentences by phrases, in one product for each partition."""
        if self.config.facets is None:
            return
        moves: dict[int, list[ReviewMove]] = {}
        for changes in plan.changes:
            for step in changes.steps:
                moves.setdefault(changes.key.partition, []).extend(step.moves)
        for partition, of_partition in moves.items():
            if facets := self._partitions[partition].criteria:
                classify(facets, of_partition)

    def _count(
        self,
        records: Sequence[Record],
        planned: _Planned,
        messages: Sequence[Message],
        embedder: Embedder,
        usual: Collection[int],
    ) -> Stats:
        """`usual`: indexes of the records that native code counts."""
        stats = Stats(sentences_embedded=embedder.given, embed_seconds=embedder.seconds)
        if self._vectors is not None:
            stats.vectors_found, stats.vectors_missed = embedder.found, embedder.given
            stats.vector_store_bytes = self._vectors.disk_bytes
        others = [i for i in range(len(records)) if i not in usual]
        stats.count_outcomes(
            [records[i] for i in others],
            [planned.types[i] for i in others],
            [planned.outcomes[i] for i in others],
        )
        facets_topic = None if self.config.facets is None else self.config.facets_topic
        stats.count_messages(messages, self.config.output_topic, facets_topic)
        stats.count_plan(planned.plan, facts_of(self._engine).languages)
        if self.config.selection.is_by_time:
            stats.count_late(records, planned.outcomes, self.config.selection)
        return stats


def _type_of(event: Event | list[Event] | Rejected) -> str:
    if isinstance(event, Rejected):
        return UNREADABLE
    return SEVERAL if isinstance(event, list) else EVENT_TYPES[type(event)]


@contextmanager
def _no_collection() -> Iterator[None]:
    """Disable garbage collection, which takes a fifth of the time and finds hardly any cycles."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
