"""The worker's processor over rows in memory, without Kafka: for files and notebooks.

The output does not depend on how records are cut into calls, unless changes are coalesced.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from worker.events import Message, Record
from worker.processing.config import ProcessorConfig
from worker.processing.embed import VectorStore
from worker.processing.entity_cache import EntityKey
from worker.processing.facet_view import FacetsView, Overview
from worker.processing.processor import ProcessedBatch, Processor
from worker.processing.short_view import Extent, ShortView
from worker.state import MemoryRows, SummaryView
from worker.state.entity import read_header
from worker.text.engine import EmbeddingEngine

PARTITION = 0


class Refusal(NamedTuple):
    """A record that became a dead letter: its offset, the reason code, and one line for people."""

    offset: int
    reason: str
    detail: str

    @classmethod
    def of(cls, dead_letter: Message) -> "Refusal":
        """From the headers of the dead letter."""
        headers = {name: value.decode() for name, value in dead_letter.headers}
        return cls(int(headers["dlq.source.offset"]), headers["dlq.reason"], headers["dlq.detail"])


class ProcessorInMemory:
    """The entities of one partition. Offsets must ascend, across calls too."""

    def __init__(
        self,
        config: ProcessorConfig,
        engine: EmbeddingEngine | None,
        vectors: VectorStore | None = None,
    ) -> None:
        """Starts without entities. Raises IndexUnavailable."""
        self.config = config
        self._engine = engine
        self._vectors = vectors
        self._rows = MemoryRows()
        self._processor = self._begin()

    def process(self, records: Sequence[Record]) -> Iterator[ProcessedBatch]:
        """The results of these records, one micro-batch at a time, each committed when it is
        yielded.

        Never raises for bad input. After an exception, Ctrl-C included, the state is that of the
        last commit.
        """
        while records:
            try:
                batch = self._processor.process(records)
                self._rows.write(batch.rows.get(PARTITION, {}))
                self._processor.committed(batch)
            except BaseException:
                self._processor = self._begin()
                raise
            records = records[batch.taken :]
            yield batch

    def summary(self, entity_id: str) -> SummaryView | None:
        """The entity now, or None if it is unknown."""
        return self._processor.summary(PARTITION, entity_id)

    def short_view(self, entity_id: str, extent: Extent) -> ShortView | None:
        """The entity's short view now, or None if it is unknown."""
        return self._processor.summaries.short_view(
            self._rows, EntityKey(PARTITION, entity_id), extent
        )

    def facets(self, entity_id: str) -> FacetsView | None:
        """The entity's facets now, or None if it is unknown. Raises NoFacets."""
        return self._processor.summaries.facets(self._rows, EntityKey(PARTITION, entity_id))

    def overview(self, entity_id: str, extent: Extent) -> Overview | None:
        """The entity's overview now, or None if it is unknown. Raises NoFacets."""
        return self._processor.summaries.overview(
            self._rows, EntityKey(PARTITION, entity_id), extent
        )

    def knows(self, entity_id: str) -> bool:
        """Whether the entity exists."""
        return read_header(self._rows, entity_id.encode()) is not None

    def _begin(self) -> Processor:
        return Processor(
            self.config, lambda _partition: self._rows, self._engine, vectors=self._vectors
        )
