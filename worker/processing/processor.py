"""The processor: a micro-batch of records and the committed rows in, rows and messages out. No broker, no clock, no writes.

1. *Decode* the records that are not applied yet; what is no event becomes a dead letter.
2. *Plan* what each event does, by versions and stored rows (`processing.plan`).
3. *Embed* all new sentences of the micro-batch at once (`processing.embed`). A record the engine has no vector for
   becomes a dead letter after all: then the micro-batch is planned again without it.
4. *Publish*: rank each entity's events in one run, a message for each change of its set (`processing.publish`).
5. *Rows*: each changed row once, in its last state, and the applied offset.

A micro-batch is cut where it passes a limit (`BatchLimits`): only its first records are processed then, at least one, and
the caller comes again with the others. Sentences are counted while the plan is made; records and bytes of the transaction
when messages and rows are there, and then the work is thrown away and done again for the first half.

The messages and rows of a record depend on the records before it alone, not on how they were cut into micro-batches
(but for `emit=coalesced`, whose changes are those of micro-batches), on what is cached, or on restarts. After an
exception, or when a batch cannot be committed, the processor must not be used again: its caches may be ahead.
"""

import gc
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Literal

from worker.coversumm import Counters as CoreCounters
from worker.coversumm import CoverSumm
from worker.coversumm.index import index_class
from worker.events import (
    EVENT_TYPES,
    TRUNCATED_HEADERS,
    Ignored,
    Limits,
    Message,
    Record,
    Rejected,
    dead_letter_message,
    decode,
)
from worker.limits import Limit
from worker.processing.embed import Embedder
from worker.processing.entity_cache import Cache, EntityKey, HotEntity
from worker.processing.plan import Outcome, Plan, Run
from worker.processing.publish import Emission, Output, publish
from worker.state import Applied, Fingerprint, Rows, SummaryView, check_fingerprint, read_applied, read_view
from worker.state.entity import EntityRows, read_header
from worker.state.partition import GARBAGE_ROWS, collect_garbage, put_applied, put_fingerprint, put_garbage
from worker.state.rows import Header, Published
from worker.state.store import Pending
from worker.state.view import view_sentences
from worker.text import SPLITTER, EmbeddingEngine

__all__ = ["Batch", "BatchLimits", "Processor", "ProcessorConfig", "Stats", "SummaryView"]

MOST = 2**30
"""More records than any micro-batch has."""

UNREADABLE = "unreadable"
"""Stands for the event type of a record that is no event."""


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """What a micro-batch of several records may come to; a single one always passes. The defaults are the settings'.

    A transaction has besides two rows for each partition, and at most `GARBAGE_ROWS` rows of deleted entities.
    """

    sentences: int = 20_000
    """Sentences added, edited away or read with their vectors."""
    transaction_records: int = 50_000
    """Messages and rows."""
    transaction_bytes: int = 64 * 2**20
    """Bytes of their keys and values."""


@dataclass(frozen=True, slots=True)
class ProcessorConfig:
    """What the results depend on besides records and rows, and how much may be cached."""

    input_topic: str
    output_topic: str
    dlq_topic: str
    epoch: int
    k: int
    distinct: bool
    emit: Literal["every", "coalesced"]
    limits: Limits
    cache_bytes: int
    dimension: int
    model: str
    """Name of the model, for the fingerprint; messages carry `limits.model`."""
    partitions: int
    """Of the input topic."""
    worker_version: str
    max_message_bytes: int = 1_000_000
    """Largest message the dead-letter topic takes."""
    batch: BatchLimits = BatchLimits()
    index: str = "flat"
    """Of `worker.coversumm.index.NAMES`. The results do not depend on it, nor do the rows."""

    @property
    def fingerprint(self) -> Fingerprint:
        """What stored rows must have been made with."""
        return Fingerprint(
            model=self.model,
            dimension=self.dimension,
            splitter=SPLITTER,
            k=self.k,
            distinct=self.distinct,
            partitions=self.partitions,
            topic=self.input_topic,
        )


@dataclass(slots=True)
class Stats:
    """What a micro-batch came to. Every record has exactly one outcome."""

    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)
    """By (event type, `applied` | `ignored:reason` | `dead_letter:reason`)."""
    changes: int = 0
    tombstones: int = 0
    sentences_embedded: int = 0
    """Distinct texts the engine was given."""
    embed_seconds: float = 0.0
    process_seconds: float = 0.0
    core: CoreCounters = field(default_factory=CoreCounters)
    """How steps were decided, and refills."""
    cached_entities: int = 0
    cache_bytes: int = 0
    limits: Counter[Limit] = field(default_factory=Counter)
    """How often each limit was hit."""

    @property
    def records(self) -> int:
        """Records of the micro-batch."""
        return self.outcomes.total()


@dataclass(slots=True)
class Batch:
    """The results of a micro-batch's first `taken` records; they must become visible together, or not at all."""

    messages: list[Message]
    rows: dict[int, dict[bytes, bytes | None]]
    """By partition: changed rows, None for removed ones."""
    next_offsets: dict[int, int]
    """By partition: everything below is in the rows once these are committed."""
    stats: Stats
    touched: list[EntityKey]
    """Entities in memory that are waiting for the commit."""
    taken: int
    """Records that went in; the others are to be processed after the commit."""


class _TooMuchError(Exception):
    """A micro-batch passes a limit: only its first `keep` records go on. Never leaves this module."""

    def __init__(self, limit: Limit, keep: int) -> None:
        self.limit = limit
        self.keep = keep


@dataclass(slots=True)
class _Load:
    """What the transaction in the making comes to. Raises _TooMuchError past the limits."""

    limits: BatchLimits
    micro_batch: int
    """How many records make it; one alone passes."""
    records: int = 0
    size: int = 0

    def add(self, key: bytes | None, value: bytes | None) -> None:
        """Count one message or row."""
        self.records += 1
        self.size += len(key or b"") + len(value or b"")
        if self.micro_batch > 1:
            if self.records > self.limits.transaction_records:
                raise _TooMuchError(Limit.TRANSACTION_RECORDS, self.micro_batch // 2)
            if self.size > self.limits.transaction_bytes:
                raise _TooMuchError(Limit.TRANSACTION_BYTES, self.micro_batch // 2)


@dataclass(slots=True)
class _Partition:
    rows: Rows
    next_offset: int | None
    topic_id: str
    has_fingerprint: bool
    has_garbage: bool = True  # until a look at the rows says otherwise


class Processor:
    """Processes micro-batches of any partitions, one at a time; `committed` must follow each one before the next."""

    def __init__(
        self, config: ProcessorConfig, rows: Callable[[int], Rows], engine: EmbeddingEngine | None
    ) -> None:
        """`rows` gives the committed rows of a partition. Raises IndexUnavailable."""
        self.config = config
        self._rows = rows
        self._engine = engine
        self._new_index = index_class(config.index)
        self._cache = Cache(config.cache_bytes)
        self._partitions: dict[int, _Partition] = {}
        self._settled = True  # what is in memory is committed
        self._pace = (
            MOST  # records at a time: after a cut as many as went through, then twice as many, and so on
        )
        self._output = Output(
            config.output_topic,
            config.epoch,
            config.k,
            config.limits.model,
            coalesced=config.emit == "coalesced",
        )

    # -- partitions ------------------------------------------------------------------------------------------

    def check_partition(self, partition: int) -> int | None:
        """The partition's next source offset by its rows, None for empty ones. Raises FingerprintMismatch, CorruptRow."""
        return self._partition(partition).next_offset

    def topic_id(self, partition: int) -> str:
        """The id of the input topic that the partition's rows were made from; empty where they do not tell."""
        return self._partition(partition).topic_id

    def reads_from(self, partition: int, topic_id: str) -> None:
        """Note in this partition's rows, from the next write on, which topic they are made from; an empty id says nothing."""
        self._partition(partition).topic_id = topic_id or self._partition(partition).topic_id

    def forget(self, partitions: Iterable[int]) -> None:
        """These partitions are others' now: drop all that is cached of them."""
        gone = set(partitions)
        self._cache.forget(gone)
        for partition in gone:
            self._partitions.pop(partition, None)

    def _partition(self, number: int) -> _Partition:
        partition = self._partitions.get(number)
        if partition is None:
            rows = self._rows(number)
            has_fingerprint = check_fingerprint(rows, self.config.fingerprint)
            applied = read_applied(rows)
            partition = _Partition(
                rows,
                None if applied is None else applied.next_offset,
                "" if applied is None else applied.topic_id,
                has_fingerprint,
            )
            self._partitions[number] = partition
        return partition

    # -- a micro-batch ---------------------------------------------------------------------------------------

    def process(self, records: Sequence[Record]) -> Batch:
        """The results of the first of these records (`Batch.taken`), which are in offset order within each partition.

        Raises StateError; never for bad input.
        """
        self._settled = False
        started = time.perf_counter()
        embedder = Embedder(self._engine)
        hits: Counter[Limit] = Counter()
        records = records[: self._pace]
        with _no_collection():
            while True:
                try:
                    batch = self._process(records, embedder)
                except _TooMuchError as cut:
                    hits[cut.limit] += 1
                    records = records[: cut.keep]
                else:
                    self._pace = batch.taken if hits else min(2 * self._pace, MOST)
                    batch.stats.limits += hits
                    batch.stats.process_seconds = time.perf_counter() - started
                    return batch

    def _process(self, records: Sequence[Record], embedder: Embedder) -> Batch:
        next_offsets = self._next_offsets(records)
        fresh = [i for i, record in enumerate(records) if self._is_fresh(record)]
        plan, outcomes, types = self._plan(records, fresh, embedder)
        load = _Load(self.config.batch, len(records))
        try:
            emissions = self._emissions(plan, records, outcomes, load)
            rows = self._write(plan, next_offsets, load)
        except _TooMuchError:
            for run in plan.runs:  # as if it had never been: they are read again from the committed rows
                self._cache.drop(run.key)
            raise
        batch = Batch(
            [emission.message for emission in emissions],
            rows,
            next_offsets,
            Stats(),
            [run.key for run in plan.runs],
            len(records),
        )
        self._fill_in(batch.stats, outcomes, types, batch.messages, plan)
        batch.stats.sentences_embedded = len(embedder.vectors)
        batch.stats.embed_seconds = embedder.seconds
        return batch

    def committed(self, batch: Batch) -> None:
        """The batch's rows are stored. Keeps what is cached within its bytes."""
        for number, next_offset in batch.next_offsets.items():
            partition = self._partition(number)
            partition.next_offset = next_offset
            partition.has_fingerprint = True
        evicted = self._cache.evicted
        self._cache.settle(batch.touched)
        if self._cache.evicted > evicted:
            batch.stats.limits[Limit.CACHE_BYTES] = self._cache.evicted - evicted
        self._settled = True
        batch.stats.cached_entities = len(self._cache)
        batch.stats.cache_bytes = self._cache.memory_bytes

    def _next_offsets(self, records: Sequence[Record]) -> dict[int, int]:
        ends: dict[int, int] = {}
        for record in records:
            ends[record.partition] = record.offset + 1
        return {number: max(end, self._partition(number).next_offset or 0) for number, end in ends.items()}

    def _is_fresh(self, record: Record) -> bool:
        next_offset = self._partitions[record.partition].next_offset
        return next_offset is None or record.offset >= next_offset

    # -- planning --------------------------------------------------------------------------------------------

    def _plan(
        self, records: Sequence[Record], fresh: list[int], embedder: Embedder
    ) -> tuple[Plan, list[Outcome], list[str]]:
        """The plan with all vectors in place, and each record's outcome and event type."""
        outcomes: list[Outcome] = [Ignored.ALREADY_APPLIED] * len(records)
        types = [UNREADABLE] * len(records)
        events = dict(zip(fresh, decode([records[i] for i in fresh], self.config.limits), strict=True))
        for i, event in events.items():
            types[i] = UNREADABLE if isinstance(event, Rejected) else EVENT_TYPES[type(event)]
        while True:
            plan = Plan(self.config.limits, self._find, self._create)
            for i, event in events.items():
                outcomes[i] = event if isinstance(event, Rejected) else plan.take(i, records[i], event)
                if plan.sentences > self.config.batch.sentences and i:
                    raise _TooMuchError(Limit.BATCH_SENTENCES, i)
            refused = embedder.fill_in(plan)
            if not refused:
                return plan, outcomes, types
            events |= refused

    def _find(self, key: EntityKey) -> HotEntity | None:
        """The entity from memory or rows; None where it has no row."""
        entity = self._cache.get(key)
        if entity is not None:
            return entity
        rows = self._partition(key[0]).rows
        header = read_header(rows, key[1].encode())
        if header is None:
            return None
        entity = self._hot(key, header.incarnation, is_new=False)
        entity.reviews, entity.sentences = header.reviews, header.sentences
        published = entity.rows.published()
        if published is not None:
            entity.sequence, entity.published = published.sequence, published.digests
        self._cache.put(key, entity)
        return entity

    def _create(self, key: EntityKey, offset: int) -> HotEntity:
        return self._hot(key, offset, is_new=True)

    def _hot(self, key: EntityKey, incarnation: int, *, is_new: bool) -> HotEntity:
        config = self.config
        rows = EntityRows(self._partition(key[0]).rows, key[1].encode(), incarnation, config.dimension)
        make = CoverSumm if is_new else CoverSumm.load
        return HotEntity(
            key[1],
            rows,
            self._new_index,
            lambda index: make(config.k, config.dimension, index, distinct=config.distinct),
        )

    # -- results ---------------------------------------------------------------------------------------------

    def _emissions(
        self, plan: Plan, records: Sequence[Record], outcomes: list[Outcome], load: _Load
    ) -> list[Emission]:
        """All messages, in the order of the records that caused them."""
        emissions: list[Emission] = []
        for run in plan.runs:
            for emission in publish(run, records, self._output):
                load.add(emission.message.key, emission.message.value)
                emissions.append(emission)
        for emission in self._dead_letters(records, outcomes):
            load.add(emission.message.key, emission.message.value)
            emissions.append(emission)
        emissions.sort(key=lambda emission: emission.at)  # stable: one record's messages stay in order
        return emissions

    def _dead_letters(self, records: Sequence[Record], outcomes: list[Outcome]) -> Iterator[Emission]:
        config = self.config
        for i, outcome in enumerate(outcomes):
            if isinstance(outcome, Rejected):
                yield Emission(
                    i,
                    dead_letter_message(
                        config.dlq_topic, records[i], outcome, config.worker_version, config.max_message_bytes
                    ),
                )

    def _write(
        self, plan: Plan, next_offsets: dict[int, int], load: _Load
    ) -> dict[int, dict[bytes, bytes | None]]:
        """Changed rows by partition; brings the cache up to date with entities that came and went.

        Partitions are looked after when all that may be too much has been counted.
        """
        changes: dict[int, dict[bytes, bytes | None]] = {number: {} for number in next_offsets}
        for number, pending in changes.items():
            if not self._partitions[number].has_fingerprint:
                # The changelog's very first row: one that lost its beginning, however little, is told by its absence.
                put_fingerprint(pending, self.config.fingerprint)
        for run in plan.runs:
            own: dict[bytes, bytes | None] = {}
            self._write_run(run, own)
            for key, value in own.items():
                load.add(key, value)
            changes[run.key[0]].update(own)
        ended = {run.key[0] for run in plan.runs if run.end is not None}
        for number, next_offset in next_offsets.items():
            partition, pending = self._partitions[number], changes[number]
            if next_offset == partition.next_offset:
                continue
            if partition.has_garbage:
                each = max(1, GARBAGE_ROWS // len(next_offsets))
                partition.has_garbage = collect_garbage(partition.rows, pending, each)
            if number in ended:
                partition.has_garbage = True
            put_applied(pending, Applied(next_offset, self.config.input_topic, partition.topic_id))
        return changes

    def _write_run(self, run: Run, pending: Pending) -> None:
        entity, rows = run.entity, run.entity.rows
        if run.end is not None:
            self._cache.drop(run.key)
            if not run.is_new:
                pending[rows.header_key] = None
                put_garbage(pending, rows.entity, rows.incarnation)
            return
        if run.is_new:
            self._cache.put(run.key, entity)
        header = Header(entity.reviews, entity.sentences, rows.incarnation)
        if run.is_new or header != run.stored_header:
            rows.put_header(pending, header)
        if entity.sequence is not None and entity.sequence != run.stored_sequence:
            rows.put_published(pending, Published(entity.sequence, entity.published))
        for review_id, review in run.reviews.items():
            rows.put_review(pending, review_id, review)

    def _fill_in(
        self, stats: Stats, outcomes: list[Outcome], types: list[str], messages: list[Message], plan: Plan
    ) -> None:
        stats.outcomes.update(zip(types, map(_outcome_name, outcomes), strict=True))
        for message in messages:
            if message.topic == self.config.output_topic:
                stats.changes += message.value is not None
                stats.tombstones += message.value is None
            elif any(name in TRUNCATED_HEADERS for name, _ in message.headers):
                stats.limits[Limit.MESSAGE_BYTES] += 1
        stats.limits.update(
            outcome.limit for outcome in outcomes if isinstance(outcome, Rejected) and outcome.limit
        )
        if plan.cut_sentences:
            stats.limits[Limit.SENTENCE_CHARS] += plan.cut_sentences
        for run in plan.runs:
            run.entity.count(stats.core)

    # -- reading ---------------------------------------------------------------------------------------------

    def summary(self, partition: int, entity_id: str) -> SummaryView | None:
        """The entity as of the last commit, None where it is unknown; between micro-batches, in their thread.

        At once where the entity is in memory, else all of its vectors are read.
        """
        view = self._view(partition, entity_id)
        if view is None:
            return None
        return replace(view, partition=partition, next_offset=self._partition(partition).next_offset)

    def _view(self, partition: int, entity_id: str) -> SummaryView | None:
        config = self.config
        entity = self._cache.get((partition, entity_id)) if self._settled else None
        if entity is not None and entity.is_loaded:
            ranking = entity.core.ranking()
            members = map(entity.member, ranking.ids)
            return SummaryView(
                entity_id,
                entity.rows.incarnation,
                entity.reviews,
                entity.sentences,
                entity.sequence,
                view_sentences(ranking, ((member.text, member.rating) for member in members)),
                reservoir=entity.core.reservoir_size,
                refills=entity.core.counters.refilled,
            )
        rows = self._partition(partition).rows
        return read_view(rows, entity_id, dimension=config.dimension, k=config.k, distinct=config.distinct)


@contextmanager
def _no_collection() -> Iterator[None]:
    """No garbage collection meanwhile: a micro-batch makes many objects, next to no cycles, and the collector would walk
    them again and again, for a fifth of the time."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _outcome_name(outcome: Outcome) -> str:
    if outcome is None:
        return "applied"
    if isinstance(outcome, Rejected):
        return f"dead_letter:{outcome.reason}"
    return f"ignored:{outcome}"
