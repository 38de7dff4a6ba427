"""The events of a file in, summary changes out, and counts of both."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import msgspec

from worker.events import Message, Record
from worker.events.codec import DEFAULT
from worker.processing.config import check_index, processor_config
from worker.processing.embed import VectorStore
from worker.processing.entity_view import Extent, V
from worker.processing.in_memory import ProcessorInMemory, Refusal
from worker.settings import Settings
from worker.sources.columns import Faulty
from worker.text.engine import EmbeddingEngine


@dataclass(slots=True)
class Outcome:
    """The result of some records.

    Attributes:
        changes: messages of the output topic and that of facets, in the order of the records, that
            of the summary first.
        rejected: records that became dead letters.
        ignored: ignored events by reason.
        entities: those that an event had an effect on.
    """

    changes: list[Message] = field(default_factory=list)
    rejected: list[Faulty] = field(default_factory=list)
    ignored: Counter[str] = field(default_factory=Counter)
    entities: set[str] = field(default_factory=set)


class FileSummarizer:
    """All entities of one file, in memory; the records' offsets must ascend."""

    def __init__(
        self,
        settings: Settings,
        topic: str,
        engine: EmbeddingEngine | None,
        vectors: VectorStore | None = None,
    ) -> None:
        """Works as on an input topic of one partition. Raises SetupError."""
        check_index(settings.index)
        config = replace(processor_config(settings, 1, engine), input_topic=topic, output=DEFAULT)
        self._processor = ProcessorInMemory(config, engine, vectors)

    def take(self, records: Sequence[Record]) -> Outcome:
        """The result of the next records. Never raises for bad input."""
        outcome = Outcome()
        for batch in self._processor.process(records):
            outcome.entities.update(key.entity_id for key in batch.touched)
            for (_, name), count in batch.stats.outcomes.items():
                if name.startswith("ignored:"):
                    outcome.ignored[name.removeprefix("ignored:")] += count
            config = self._processor.config
            for message in batch.messages:
                if message.topic in (config.output_topic, config.facets_topic):
                    outcome.changes.append(message)
                else:
                    offset, reason, detail = Refusal.of(message)
                    outcome.rejected.append(Faulty(offset + 1, reason, detail))
        return outcome

    def view(self, entity_id: str, kind: type[V], extent: Extent | None = None) -> V | None:
        """The entity after the last record; None if it does not exist. Raises NoFacets."""
        return self._processor.view(entity_id, kind, extent)


class LastChanges:
    """The last changes of each entity, as compaction of both topics would leave them."""

    def __init__(self) -> None:
        self._bodies: dict[tuple[str, int], bytes] = {}
        self._topics: list[str] = []  # that of the summaries first, whose changes come first

    def update(self, changes: Iterable[Message]) -> None:
        """Take the next changes."""
        for change in changes:
            if change.topic not in self._topics:
                self._topics.append(change.topic)
            key = (change.key or b"").decode(), self._topics.index(change.topic)
            if change.value is None:
                self._bodies.pop(key, None)
            else:
                self._bodies[key] = change.value

    def bodies(self) -> Iterator[bytes]:
        """Those of all entities with sentences, by entity id; that of the summary first."""
        return (body for _, body in sorted(self._bodies.items()) if _head(body).has_sentences)


class _Head(msgspec.Struct):
    """A body of either type: sentences, or facets that have them."""

    sentences: list[msgspec.Raw] = []
    facets: list[_Head] = []

    @property
    def has_sentences(self) -> bool:
        return bool(self.sentences) or any(one.sentences for one in self.facets)


_head = msgspec.json.Decoder(_Head).decode
