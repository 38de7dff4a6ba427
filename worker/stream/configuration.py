"""From the settings to what the pure processor depends on."""

from worker import __version__
from worker.coversumm.index import IndexUnavailable, index_class
from worker.errors import SurroundingsError
from worker.events import Limits
from worker.settings import Settings
from worker.stream.processor import ProcessorConfig
from worker.text import EmbeddingEngine


def processor_config(settings: Settings, partitions: int, engine: EmbeddingEngine | None) -> ProcessorConfig:
    """The part of the settings that the pure processor depends on."""
    dimension = engine.dimension if engine is not None else settings.dimension
    model = engine.model if engine is not None else "none"
    return ProcessorConfig(
        input_topic=settings.input_topic,
        output_topic=settings.output_topic,
        dlq_topic=settings.dlq_topic,
        epoch=settings.epoch,
        k=settings.k,
        distinct=settings.distinct,
        emit="coalesced" if settings.emit == "coalesced" else "every",
        limits=Limits(
            max_text_bytes=settings.max_text_bytes,
            max_sentence_chars=settings.max_sentence_chars,
            max_sentences_per_review=settings.max_sentences_per_review,
            max_event_bytes=settings.max_event_bytes,
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
        index=settings.index,
    )


def check_index(name: str) -> None:
    """Raise SurroundingsError unless the setting's index can be used here."""
    try:
        index_class(name)
    except IndexUnavailable as error:
        raise SurroundingsError(f"COVERSUMM_INDEX={name}: {error}; or set COVERSUMM_INDEX=sgtree") from error
