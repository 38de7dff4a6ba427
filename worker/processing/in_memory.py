"""Records in, what follows from them out, without Kafka: the worker's processor over rows in
memory, for files and notebooks.

What comes out does not depend on how the records are cut into calls, unless changes are coalesced.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from worker.events import Message, Record
from worker.processing.config import ProcessorConfig
from worker.processing.embed import VectorStore
from worker.processing.entity_cache import EntityKey
from worker.processing.processor import ProcessedBatch, Processor
from worker.processing.short_view import Extent, ShortView
from worker.state import MemoryRows, SummaryView
from worker.state.entity import read_header
from worker.text.engine import EmbeddingEngine

PARTITION = 0


class Refusal(NamedTuple):
    """A record that no event could be made of: its offset, the reason code, and one line for
    people.
    """

    offset: int
    reason: str
    detail: str

    @classmethod
    def of(cls, dead_letter: Message) -> "Refusal":
        """As the message for the dead-letter topic tells it."""
        headers = {name: value.decode() for name, value in dead_letter.headers}
        return cls(int(headers["dlq.source.offset"]), headers["dlq.reason"], headers["dlq.detail"])


class ProcessorInMemory:
    """The entities of one partition. The records' offsets must ascend, from one call to the next
    too.
    """

    def __init__(
        self,
        config: ProcessorConfig,
        engine: EmbeddingEngine | None,
        vectors: VectorStore | None = None,
    ) -> None:
        """No entity yet. Raises IndexUnavailable."""
        self.config = config
        self._engine = engine
        self._vectors = vectors
        self._rows = MemoryRows()
        self._processor = self._begin()

    def process(self, records: Sequence[Record]) -> Iterator[ProcessedBatch]:
        """What follows from these records, a micro-batch at a time, each one committed when it is
        given.

        Never raises for bad input. An exception, Ctrl-C too, leaves the state of the last commit.
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
        """The entity now, None where it is unknown."""
        return self._processor.summary(PARTITION, entity_id)

    def short_view(self, entity_id: str, extent: Extent) -> ShortView | None:
        """The entity's short view now, None where it is unknown."""
        return self._processor.summaries.short_view(
            self._rows, EntityKey(PARTITION, entity_id), extent
        )

    def knows(self, entity_id: str) -> bool:
        """Whether there is such an entity."""
        return read_header(self._rows, entity_id.encode()) is not None

    def _begin(self) -> Processor:
        return Processor(
            self.config, lambda _partition: self._rows, self._engine, vectors=self._vectors
        )
