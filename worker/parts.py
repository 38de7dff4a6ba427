"""Parts of a worker that settings name and that take long to make: made once, then passed on."""

from dataclasses import dataclass

from worker.events.codec import DEFAULT, OutputCodec
from worker.facets.definitions import read_definitions
from worker.facets.membership import FacetCriteria
from worker.kafka.topic_mapping import mapping_of, refusing_strays, with_schemas
from worker.mapping import TopicMapping
from worker.processing.config import (
    ALL,
    Emit,
    ProcessorConfig,
    RecordSelection,
    configured_engine,
    load_facets,
    processor_config,
)
from worker.registry.lookup import SchemaLookup
from worker.settings import Settings
from worker.text.engine import EmbeddingEngine


@dataclass(frozen=True)
class Parts:
    """The settings, and what they name."""

    settings: Settings
    engine: EmbeddingEngine | None = None  # without it every event brings its embeddings
    facets: FacetCriteria | None = None
    mapping: TopicMapping | None = None  # without it the input has the contract's events
    schemas: SchemaLookup | None = None  # from a registry; without them records are JSON

    @classmethod
    def of(cls, settings: Settings) -> "Parts":
        """The parts of these settings. Raises SetupError, EngineError and FileErrors."""
        mapping, schemas = with_schemas(settings, mapping_of(settings))
        if settings.facets:
            read_definitions(settings.facets)  # mistakes are named before a model is fetched
        engine = configured_engine(settings)
        return cls(settings, engine, load_facets(settings, engine), mapping, schemas)

    def config(
        self,
        partitions: int,
        emit: Emit | None = None,
        selection: RecordSelection = ALL,
        output: OutputCodec | None = None,
    ) -> ProcessorConfig:
        """The configuration of a processor of an input with so many partitions, as
        `processor_config`.
        """
        mapping, file = self.mapping, self.settings.mapping
        if mapping is not None and file is not None:
            mapping = refusing_strays(mapping, file, partitions)
        codec = DEFAULT if self.schemas is None else self.schemas.codec
        return processor_config(
            self.settings,
            partitions,
            self.engine,
            emit,
            selection,
            mapping,
            codec,
            output,
            self.facets,
        )
