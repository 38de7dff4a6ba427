"""The events of a file in, summary changes out, and counts of both."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import msgspec

from worker.events import Record
from worker.processing.config import check_index, processor_config
from worker.processing.embed import VectorStore
from worker.processing.in_memory import ProcessorInMemory, Refusal
from worker.processing.short_view import Extent, ShortView
from worker.settings import Settings
from worker.sources.columns import Faulty
from worker.text.engine import EmbeddingEngine


class FileChange(NamedTuple):
    """The body of a `summary.changed`, None for the end of an entity."""

    entity_id: str
    body: bytes | None


@dataclass(slots=True)
class Outcome:
    """What records came to: changes in the order of the records, those that no event could be made
    of, and counts.
    """

    records: int = 0
    changes: list[FileChange] = field(default_factory=list)
    rejected: list[Faulty] = field(default_factory=list)
    ignored: Counter[str] = field(default_factory=Counter)
    """By reason."""
    entities: set[str] = field(default_factory=set)
    """Those that an event had an effect on."""


class FileSummarizer:
    """All entities of one file, in memory; the records' offsets must ascend."""

    def __init__(
        self,
        settings: Settings,
        topic: str,
        engine: EmbeddingEngine | None,
        vectors: VectorStore | None = None,
    ) -> None:
        """As the worker's own on an input topic of one partition. Raises SetupError."""
        check_index(settings.index)
        config = replace(processor_config(settings, 1, engine), input_topic=topic)
        self._processor = ProcessorInMemory(config, engine, vectors)

    def take(self, records: Sequence[Record]) -> Outcome:
        """What these records, the next ones, come to. Never raises for bad input."""
        outcome = Outcome(len(records))
        for batch in self._processor.process(records):
            outcome.entities.update(key.entity_id for key in batch.touched)
            for (_, name), count in batch.stats.outcomes.items():
                if name.startswith("ignored:"):
                    outcome.ignored[name.removeprefix("ignored:")] += count
            for message in batch.messages:
                if message.topic == self._processor.config.output_topic:
                    outcome.changes.append(FileChange((message.key or b"").decode(), message.value))
                else:
                    offset, reason, detail = Refusal.of(message)
                    outcome.rejected.append(Faulty(offset + 1, reason, detail))
        return outcome

    def short_view(self, entity_id: str, extent: Extent) -> ShortView | None:
        """The entity's short view as of the last record, None where there is no such entity."""
        return self._processor.short_view(entity_id, extent)


class LastChanges:
    """Of each entity its last change, as compaction of the output topic would leave them."""

    def __init__(self) -> None:
        self._bodies: dict[str, bytes] = {}

    def update(self, changes: Iterable[FileChange]) -> None:
        """The next changes."""
        for change in changes:
            if change.body is None:
                self._bodies.pop(change.entity_id, None)
            else:
                self._bodies[change.entity_id] = change.body

    def bodies(self) -> Iterator[bytes]:
        """Those of all entities whose set is not empty, in order of entity id."""
        return (body for _, body in sorted(self._bodies.items()) if _head(body).sentences)


class _Head(msgspec.Struct):
    sentences: list[msgspec.Raw]


_head = msgspec.json.Decoder(_Head).decode
