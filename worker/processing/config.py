"""From the settings to what the pure processor depends on."""

from dataclasses import replace

from worker import __version__
from worker.coversumm.index import IndexUnavailable, index_class
from worker.errors import SurroundingsError
from worker.events import Limits
from worker.processing.processor import BatchLimits, ProcessorConfig
from worker.settings import Settings
from worker.text.engine import EmbeddingEngine

VECTOR_OVERHEAD = 64
"""What a stored sentence takes besides its vector and its text, in bytes: its numbers, its share of a row's key."""


def processor_config(settings: Settings, partitions: int, engine: EmbeddingEngine | None) -> ProcessorConfig:
    """The part of the settings that the pure processor depends on.

    Raises SurroundingsError where the vectors of one event may be too much for a transaction.
    """
    dimension = engine.dimension if engine is not None else settings.dimension
    model = engine.model if engine is not None else "none"
    largest = settings.max_sentences_per_review * (VECTOR_OVERHEAD + 2 * dimension) + settings.max_event_bytes
    if largest > settings.transaction_bytes:
        raise SurroundingsError(
            f"COVERSUMM_MAX_SENTENCES_PER_REVIEW: {settings.max_sentences_per_review} sentences of dimension {dimension} with "
            f"their texts may be {largest} bytes of rows, more than COVERSUMM_TRANSACTION_BYTES "
            f"({settings.transaction_bytes}): lower the one or raise the other"
        )
    return ProcessorConfig(
        input_topic=settings.input_topic,
        output_topic=settings.output_topic,
        dlq_topic=settings.dlq_topic,
        epoch=settings.epoch,
        k=settings.k,
        distinct=settings.distinct,
        emit="coalesced" if settings.emit == "coalesced" else "every",
        limits=replace(
            event_limits(settings),
            dimension=dimension,
            model=model if engine is not None else None,
            embeds=engine is not None,
        ),
        cache_bytes=settings.cache_bytes,
        dimension=dimension,
        model=model,
        partitions=partitions,
        worker_version=__version__,
        max_message_bytes=settings.max_message_bytes,
        batch=BatchLimits(
            sentences=settings.batch_sentences,
            transaction_records=settings.transaction_records,
            transaction_bytes=settings.transaction_bytes,
        ),
        index=settings.index,
    )


def event_limits(settings: Settings) -> Limits:
    """What the settings let one event bring and an entity hold; of the engine they know the dimension alone."""
    return Limits(
        dimension=settings.dimension,
        max_event_bytes=settings.max_event_bytes,
        max_text_bytes=settings.max_text_bytes,
        max_sentence_chars=settings.max_sentence_chars,
        max_sentences_per_review=settings.max_sentences_per_review,
        max_sentences_per_deletion=settings.max_sentences_per_deletion,
        max_sentences_per_entity=settings.max_sentences_per_entity,
    )


def check_index(name: str) -> None:
    """Raise SurroundingsError unless the setting's index can be used here."""
    try:
        index_class(name)
    except IndexUnavailable as error:
        raise SurroundingsError(f"COVERSUMM_INDEX={name}: {error}; or set COVERSUMM_INDEX=sgtree") from error
