"""The worker's processor over rows in memory, without Kafka: for files and notebooks.

The output does not depend on how records are cut into calls, unless changes are coalesced.
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from worker.events import Message, Record
from worker.processing.config import ProcessorConfig
from worker.processing.embed import VectorStore
from worker.processing.entities import EntityKey
from worker.processing.entity_view import Extent, Reads, V, read_view
from worker.processing.processor import ProcessedBatch, Processor
from worker.state import MemoryRows
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
        """Read it from the headers of the dead letter."""
        headers = {name: value.decode() for name, value in dead_letter.headers}
        return cls(int(headers["dlq.source.offset"]), headers["dlq.reason"], headers["dlq.detail"])


@dataclass(eq=False)
class ProcessorInMemory:
    """The entities of one partition, none at first. Offsets must ascend, across calls too.

    Construction raises IndexUnavailable.
    """

    config: ProcessorConfig
    engine: EmbeddingEngine | None
    vectors: VectorStore | None = None

    def __post_init__(self) -> None:
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

    def view(self, entity_id: str, kind: Reads[V], extent: Extent | None = None) -> V | None:
        """The entity's view of this kind now, or None if it is unknown. Raises NoFacets."""
        key = EntityKey(PARTITION, entity_id)
        return read_view(self._rows, key, kind, self.config, extent)

    def knows(self, entity_id: str) -> bool:
        """True if the entity exists."""
        return read_header(self._rows, entity_id.encode()) is not None

    def _begin(self) -> Processor:
        # the caller decides how many records a call has
        batch = replace(self.config.batch, events=sys.maxsize, bytes=sys.maxsize)
        config = replace(self.config, batch=batch)
        return Processor(config, lambda _: self._rows, self.engine, vectors=self.vectors)
