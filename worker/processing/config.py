"""What the processor's results depend on besides records and rows, and how the settings say it."""

from dataclasses import dataclass, replace
from typing import Literal

from worker import __version__
from worker.coversumm.index import IndexUnavailable, index_class
from worker.errors import SetupError
from worker.events import Event, Limits, Record, Rejected
from worker.events.dates import milliseconds
from worker.settings import Settings
from worker.state import Fingerprint
from worker.text.engine import EmbeddingEngine
from worker.text.splitting import SPLITTER


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordSelection:
    """Records of these entities, from `since_ms` to before `until_ms` by `occurred_at`; None:
    whatever it is.

    An event that does not say when it occurred, and a record that holds no event, counts as of the
    record's timestamp.
    """

    entities: frozenset[bytes] | None = None
    since_ms: int | None = None
    until_ms: int | None = None

    @property
    def is_all(self) -> bool:
        """Whether nothing is left out."""
        return self.entities is None and not self.is_by_time

    @property
    def is_by_time(self) -> bool:
        """Whether the events' own time counts."""
        return self.since_ms is not None or self.until_ms is not None

    def has_entity(self, record: Record) -> bool:
        """Whether the record is of one of the entities, by its key."""
        return self.entities is None or record.key in self.entities

    def has_time(self, record: Record, event: Event | Rejected) -> bool:
        """Whether the event occurred in the span."""
        occurred_ms = occurred(record, event)
        return (self.since_ms is None or occurred_ms >= self.since_ms) and (
            self.until_ms is None or occurred_ms < self.until_ms
        )

    def is_late(self, record: Record) -> bool:
        """Whether an event of the span arrived when the span was over."""
        return self.until_ms is not None and record.timestamp_ms >= self.until_ms


def occurred(record: Record, event: Event | Rejected) -> int:
    """When the event occurred, in milliseconds since 1970."""
    said = None if isinstance(event, Rejected) else event.occurred_at
    return record.timestamp_ms if said is None else milliseconds(said)


ALL = RecordSelection()


VECTOR_OVERHEAD = 64
"""What a stored sentence takes besides its vector and its text, in bytes: its numbers, its share of
a row's key.
"""
NO_MODEL = "none"
"""Stands in the fingerprint for the model of a worker without an engine."""

Emit = Literal["every", "coalesced", "final", "none"]
"""Of an entity's changes are published: each; the net one of each micro-batch; the last one, by
`Processor.finish`; none.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLimits:
    """What a micro-batch of several records may come to; a single record always passes.

    A transaction has besides two rows for each partition, and at most `GARBAGE_ROWS` rows of
    deleted entities.
    """

    sentences: int
    """Sentences added, edited away or read with their vectors."""
    transaction_records: int
    """Messages and rows."""
    transaction_bytes: int
    """Bytes of their keys and values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessorConfig:
    """What the results depend on besides records and rows, and how much may be cached."""

    input_topic: str
    output_topic: str
    dlq_topic: str
    epoch: int
    k: int
    distinct: bool
    emit: Emit
    min_changes: int
    """Sentences that must differ from the set last published, with `every` and `coalesced`; 1: any.
    As `emit` it is no part of the fingerprint: what is stored is the set last published, and is
    right whatever is published next.
    """
    limits: Limits
    """Of one event and one entity; dimension and model too."""
    batch: BatchLimits
    cache_bytes: int
    partitions: int
    """Of the input topic."""
    worker_version: str
    max_message_bytes: int
    """Largest message the dead-letter topic takes."""
    index: str
    """Of `worker.coversumm.index.NAMES`. Neither results nor rows depend on it."""
    selection: RecordSelection = ALL
    """Of the records: the others are left out."""

    @property
    def fingerprint(self) -> Fingerprint:
        """What stored rows must have been made with."""
        return Fingerprint(
            model=self.limits.model or NO_MODEL,
            dimension=self.limits.dimension,
            splitter=SPLITTER,
            k=self.k,
            distinct=self.distinct,
            partitions=self.partitions,
            topic=self.input_topic,
            epoch=self.epoch,
        )

    @property
    def is_behind(self) -> bool:
        """Whether the set last published may be behind the set."""
        return self.min_changes > 1 and self.emit in ("every", "coalesced")


def processor_config(
    settings: Settings,
    partitions: int,
    engine: EmbeddingEngine | None,
    emit: Emit | None = None,
    selection: RecordSelection = ALL,
) -> ProcessorConfig:
    """The part of the settings that the processor depends on; `emit` goes before theirs.

    Raises SetupError where the vectors of one event may be too much for a transaction.
    """
    limits = replace(event_limits(settings), embeds=engine is not None)
    if engine is not None:
        limits = replace(limits, dimension=engine.dimension, model=engine.model)
    _check_largest_event(settings, limits.dimension)
    return ProcessorConfig(
        input_topic=settings.input_topic,
        output_topic=settings.output_topic,
        dlq_topic=settings.dlq_topic,
        epoch=settings.epoch,
        k=settings.k,
        distinct=settings.distinct,
        emit=emit or ("coalesced" if settings.emit == "coalesced" else "every"),
        min_changes=settings.emit_min_changes,
        selection=selection,
        limits=limits,
        batch=batch_limits(settings),
        cache_bytes=settings.cache_bytes,
        partitions=partitions,
        worker_version=__version__,
        max_message_bytes=settings.max_message_bytes,
        index=settings.index,
    )


def _check_largest_event(settings: Settings, dimension: int) -> None:
    largest = (
        settings.max_sentences_per_review * (VECTOR_OVERHEAD + 2 * dimension)
        + settings.max_event_bytes
    )
    if largest > settings.transaction_bytes:
        raise SetupError(
            f"COVERSUMM_MAX_SENTENCES_PER_REVIEW: {settings.max_sentences_per_review} sentences of dimension {dimension} with "
            f"their texts may be {largest} bytes of rows, more than COVERSUMM_TRANSACTION_BYTES "
            f"({settings.transaction_bytes}): lower the one or raise the other"
        )


def event_limits(settings: Settings) -> Limits:
    """What the settings let one event bring and an entity hold; any model, and an engine of their
    dimension.
    """
    return Limits(
        dimension=settings.dimension,
        model=None,
        embeds=True,
        max_event_bytes=settings.max_event_bytes,
        max_text_bytes=settings.max_text_bytes,
        max_sentence_chars=settings.max_sentence_chars,
        max_sentences_per_review=settings.max_sentences_per_review,
        max_sentences_per_deletion=settings.max_sentences_per_deletion,
        max_sentences_per_entity=settings.max_sentences_per_entity,
    )


def batch_limits(settings: Settings) -> BatchLimits:
    """What the settings let a micro-batch come to."""
    return BatchLimits(
        sentences=settings.batch_sentences,
        transaction_records=settings.transaction_records,
        transaction_bytes=settings.transaction_bytes,
    )


def check_index(name: str) -> None:
    """Raise SetupError unless the setting's index can be used here."""
    try:
        index_class(name)
    except IndexUnavailable as error:
        raise SetupError(
            f"COVERSUMM_INDEX={name}: {error}; or set COVERSUMM_INDEX=sgtree"
        ) from error
