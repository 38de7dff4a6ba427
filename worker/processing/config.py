"""The configuration of the processor, from the settings."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal

from msgspec import json

from worker import __version__
from worker.coversumm import EntityCore, FlatIndex, Index, NewIndex
from worker.coversumm.index import IndexUnavailable
from worker.coversumm.index.graphgrove import GraphgroveIndex, library
from worker.coversumm.index.sgtree import SGTreeIndex
from worker.errors import SetupError
from worker.events import Event, Limits, Record, RecordMapping, Rejected
from worker.events.codec import DEFAULT, OUTPUTS, InputCodec, OutputCodec
from worker.events.dates import milliseconds
from worker.facets.definitions import OPTIONAL_FIELDS, read_definitions
from worker.facets.membership import FacetCriteria, facet_criteria
from worker.facets.quotable import MOST_CHARS
from worker.settings import Settings
from worker.settings.checks import largest_message
from worker.state import Fingerprint
from worker.text.declared import facts_of
from worker.text.embedders import load_engine
from worker.text.engine import EmbeddingEngine
from worker.text.splitting import SPLITTER


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordSelection:
    """Records of these entities with `since_ms` <= `occurred_at` < `until_ms`; None: no limit.

    A record without an event, or without `occurred_at`, counts by its own timestamp.
    """

    entities: frozenset[bytes] | None = None
    since_ms: int | None = None
    until_ms: int | None = None

    @property
    def is_all(self) -> bool:
        """True if every record is selected."""
        return self.entities is None and not self.is_by_time

    @property
    def is_by_time(self) -> bool:
        """True if events are selected by their own time."""
        return self.since_ms is not None or self.until_ms is not None

    def has_entity(self, record: Record, event: Event | Rejected | None = None) -> bool:
        """True if the event, or without one the record's key, is of one of the entities."""
        if self.entities is None:
            return True
        if event is None or isinstance(event, Rejected):
            return record.key in self.entities
        return event.entity_id.encode() in self.entities

    def has_time(self, record: Record, event: Event | Rejected) -> bool:
        """True if the event occurred in the span."""
        occurred_ms = occurred(record, event)
        return (self.since_ms is None or occurred_ms >= self.since_ms) and (
            self.until_ms is None or occurred_ms < self.until_ms
        )

    def is_late(self, record: Record) -> bool:
        """True if the record arrived after the end of the span."""
        return self.until_ms is not None and record.timestamp_ms >= self.until_ms


def occurred(record: Record, event: Event | Rejected) -> int:
    """When the event occurred, in milliseconds since 1970."""
    own = None if isinstance(event, Rejected) else event.occurred_at
    return record.timestamp_ms if own is None else milliseconds(own)


ALL = RecordSelection()

INDEXES: Final[Mapping[str, NewIndex]] = {
    "flat": FlatIndex,
    "sgtree": SGTreeIndex,
    "graphgrove": GraphgroveIndex,
}

VECTOR_OVERHEAD = 64  # bytes of a stored sentence besides vector and text: ordinals, share of a key
FACET_BYTES: Final = 512  # upper bound of a facet's field names, counts and ratings in a message
OPTIONAL_BYTES: Final = 24  # upper bound of the name and the brackets of another field
NO_MODEL = "none"  # the model in the fingerprint of a worker without an engine

Native = Literal["auto", "off", "require"]
"""Use of native code for usual events: if it is installed; never; always, or the worker ends."""
Emit = Literal["every", "coalesced", "final", "none"]
"""The published changes of an entity: each; the net one of each micro-batch; the last; none."""
LEAST_LOADED_BYTES: Final = 64 * 2**20
"""A micro-batch may always read so much into memory: a small cache needs no small transactions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLimits:
    """Limits of a micro-batch of several records; a single record always passes.

    The transaction also has two rows per partition, and at most `GARBAGE_ROWS` rows of deleted
    entities.
    """

    sentences: int  # sentences added, replaced, or read with their vectors
    transaction_records: int  # messages and rows
    transaction_bytes: int  # bytes of their keys and values
    loaded_bytes: int = LEAST_LOADED_BYTES
    """Bytes of entities that it reads into memory, none of which is evicted before its end."""
    events: int = sys.maxsize
    bytes: int = sys.maxsize  # of the records


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessorConfig:
    """All that results depend on besides records and rows, and the size of the cache."""

    input_topic: str
    output_topic: str
    dlq_topic: str
    epoch: int
    k: int
    distinct: bool  # always with `by_text`
    emit: Emit
    min_changes: int
    """Sentences that must differ from the set last published, with `every` and `coalesced`.

    Not part of the fingerprint: the stored set is the one last published, so the value may change.
    """
    limits: Limits  # of one event and one entity; includes dimension and model
    batch: BatchLimits
    cache_bytes: int
    partitions: int  # of the input topic
    worker_version: str
    max_message_bytes: int  # the largest message the dead-letter topic accepts
    index: str  # of INDEXES; does not change results or rows
    selection: RecordSelection = ALL  # other records are skipped
    codec: InputCodec = DEFAULT
    """Reads the contract's events. Not part of the fingerprint: the events decide, not their form.
    """
    mapping: RecordMapping | None = None
    """Reads the records of a topic with fields of its own.

    Not part of the fingerprint: like a producer's release it decides which events arrive, and a
    repaired rule must not need another epoch. A replay keeps to one, see `worker.replay.run`.
    """
    emit_mentions: int = 0
    """Percent by which mentions must differ from those last published; 0: they cause no message."""
    facets: FacetCriteria | None = None
    facets_topic: str = ""
    by_text: bool = False  # each distinct vector counts once
    language_min: int = 1  # sentences with which a facet of a language is in an overview
    output: OutputCodec = DEFAULT
    """Writes summaries and facets. Not part of the fingerprint: rows do not depend on it."""
    native: Native = "off"  # does not change results or rows

    @property
    def fingerprint(self) -> Fingerprint:
        """The fingerprint that stored rows must have."""
        detector = None if self.facets is None else self.facets.detector
        return Fingerprint(
            model=self.limits.model or NO_MODEL,
            dimension=self.limits.dimension,
            splitter=SPLITTER,
            k=self.k,
            distinct=self.distinct,
            partitions=self.partitions,
            topic=self.input_topic,
            epoch=self.epoch,
            facets=None if self.facets is None else self.facets.definitions.identity,
            language=None if detector is None else detector.identity,
            weigh="texts" if self.by_text else None,
        )

    def new_core(self, k: int, index: Index) -> EntityCore:
        """The core of a set without sentences."""
        dimension = self.limits.dimension
        return EntityCore(k, dimension, index, distinct=self.distinct, by_text=self.by_text)

    @property
    def is_behind(self) -> bool:
        """True if the set last published may differ from the current set."""
        return self.min_changes > 1 and self.emit in ("every", "coalesced")


def configured_engine(settings: Settings) -> EmbeddingEngine | None:
    """The settings' engine; None without one. Raises EngineError."""
    return load_engine(
        settings.embedder,
        threads=settings.embedder_threads,
        cache_dir=settings.model_cache_dir,
        precision=settings.embedder_precision,
        model_file=settings.model_file,
    )


def processor_config(
    settings: Settings,
    partitions: int,
    engine: EmbeddingEngine | None,
    emit: Emit | None = None,
    selection: RecordSelection = ALL,
    mapping: RecordMapping | None = None,
    codec: InputCodec = DEFAULT,
    output: OutputCodec | None = None,
    facets: FacetCriteria | None = None,
) -> ProcessorConfig:
    """The processor's part of the settings; `emit` overrides theirs. `output` is the codec of a
    format that is not in OUTPUTS, `facets` are theirs if they are loaded already.

    Raises SetupError if the vectors of one event may exceed a transaction.
    """
    limits = replace(event_limits(settings), embeds=engine is not None)
    if engine is not None:
        limits = replace(limits, dimension=engine.dimension, model=engine.model)
    facets = facets or load_facets(settings, engine)
    limits = replace(limits, label_bits={} if facets is None else facets.label_bits)
    _check_largest_event(settings, limits.dimension)
    return ProcessorConfig(
        input_topic=settings.input_topic,
        output_topic=settings.output_topic,
        dlq_topic=settings.dlq_topic,
        epoch=settings.epoch,
        k=settings.k,
        distinct=settings.distinct or settings.weigh == "texts",
        by_text=settings.weigh == "texts",
        emit=emit or ("coalesced" if settings.emit == "coalesced" else "every"),
        min_changes=settings.emit_min_changes,
        emit_mentions=settings.emit_mentions,
        selection=selection,
        mapping=mapping,
        codec=codec,
        limits=limits,
        batch=BatchLimits(
            sentences=settings.batch_sentences,
            transaction_records=settings.transaction_records,
            transaction_bytes=settings.transaction_bytes,
            loaded_bytes=max(LEAST_LOADED_BYTES, settings.cache_bytes // 4),
            events=settings.batch_size,
            bytes=settings.batch_bytes,
        ),
        cache_bytes=settings.cache_bytes,
        partitions=partitions,
        worker_version=__version__,
        max_message_bytes=settings.max_message_bytes,
        index=settings.index,
        facets=facets,
        facets_topic=settings.facets_topic,
        language_min=settings.language_min,
        output=output or OUTPUTS.get(settings.output_format, DEFAULT),
        native=settings.native,
    )


def load_facets(settings: Settings, engine: EmbeddingEngine | None) -> FacetCriteria | None:
    """The facets of the settings with their phrases embedded; None without any.

    Raises SetupError for definitions that are wrong, or whose message may not fit into a topic.
    """
    if not settings.facets:
        return None
    facts = facts_of(engine)
    definitions = read_definitions(settings.facets).with_threshold(facts.threshold)
    definitions = definitions.with_language(facts.languages)
    visible = [definitions.facets[number] for number in definitions.visible]
    shown = sum(facet.shown for facet in visible)
    # a name stands in a facet and in the list of the changed, in a string of JSON escaped twice
    names = [len(json.encode(json.encode(facet.name).decode())) for facet in visible]
    cap = settings.max_sentence_chars
    of_each = [min(cap, MOST_CHARS) if facet.quotes_words else cap for facet in visible]
    total = sum(facet.shown * chars for facet, chars in zip(visible, of_each, strict=True))
    chars = -(-total // shown)  # a mean: what counts is the sum
    most = largest_message(settings, shown, sentence_ids=1, max_chars=chars)
    counted = len(visible) + sum(facet.words is not None for facet in visible)  # by words again
    optional = len(OPTIONAL_FIELDS - definitions.unused)
    most += FACET_BYTES * counted + 2 * sum(names) + OPTIONAL_BYTES * optional * len(visible)
    if most > settings.max_message_bytes:
        raise SetupError(
            f"COVERSUMM_FACETS: {shown} sentences of {chars} characters "
            f"(COVERSUMM_MAX_SENTENCE_CHARS) of {len(visible)} facets in one message may be {most} "
            f"bytes, more than COVERSUMM_MAX_MESSAGE_BYTES ({settings.max_message_bytes}): lower "
            "the facets' k or their number, or raise that and max.message.bytes of the worker's "
            "topics"
        )
    if engine is None:
        return facet_criteria(definitions, settings.dimension, None)
    return facet_criteria(definitions, engine.dimension, engine.embed)


def _check_largest_event(settings: Settings, dimension: int) -> None:
    sentences = settings.max_sentences_per_review
    largest = sentences * (VECTOR_OVERHEAD + 2 * dimension) + settings.max_event_bytes
    if largest > settings.transaction_bytes:
        raise SetupError(
            f"COVERSUMM_MAX_SENTENCES_PER_REVIEW: {sentences} sentences of dimension {dimension} "
            f"with their texts may be {largest} bytes of rows, more than "
            f"COVERSUMM_TRANSACTION_BYTES ({settings.transaction_bytes}): lower the one or raise "
            "the other"
        )


def event_limits(settings: Settings) -> Limits:
    """The settings' limits of one event and one entity, for any model and with an engine."""
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


def index_class(name: str) -> NewIndex:
    """The index of this name, one of INDEXES. Raises IndexUnavailable."""
    if name == "graphgrove":
        library()
    return INDEXES[name]


def check_index(name: str) -> None:
    """Raise SetupError unless the index of the settings can be used here."""
    try:
        index_class(name)
    except IndexUnavailable as error:
        raise SetupError(
            f"COVERSUMM_INDEX={name}: {error}; or set COVERSUMM_INDEX=sgtree"
        ) from error
