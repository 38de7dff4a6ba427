"""Published changes of summaries or facets, read from a topic or from a file of bodies."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from itertools import chain, islice
from pathlib import Path
from typing import Final, NamedTuple, Self

from worker.errors import SetupError
from worker.events import Record
from worker.events.publishing import SUMMARIES, OutputTopic
from worker.kafka.clients import KafkaClients
from worker.kafka.permissions import READ
from worker.kafka.reader import TopicReader
from worker.kafka.topics import Topics, reached
from worker.published.publication import FAULTS, Publication, decoded, publications
from worker.registry.lookup import AsJson
from worker.settings import Settings
from worker.sources import Faulty, ReviewFiles

_ENDINGS: Final = (".jsonl", ".csv", ".tsv", ".parquet")


def names_file(value: str) -> bool:
    """True if a value names a file: it has a slash or a known ending (also followed by .gz). All
    other values name topics.

    >>> names_file("./reviews"), names_file("epoch-2.jsonl.gz"), names_file("summaries.v1")
    (True, True, False)
    """
    return "/" in value or value.removesuffix(".gz").endswith(_ENDINGS)


class TimeSpan(NamedTuple):
    """Messages of a topic by their timestamps, of a file by `occurred_at`; None: no bound."""

    since_ms: int | None = None  # from the first message at or after it
    until_ms: int | None = None  # up to, but not including, the first message at or after it


ALWAYS: Final = TimeSpan()
Progress = Callable[[int], None]  # called now and then with the messages or lines read so far
SAMPLED: Final = 1000  # bodies of each partition that are read for their epoch
_STEP: Final = 500  # messages between two calls of `Progress`


class PublishedSource(ABC):
    """A topic or a file of published messages; a context manager. It can be iterated repeatedly.

    Messages of one entity come in their order; of facets, each message as a publication of each.
    Reading raises SetupError at a message that is no change of this kind. A file may have both
    kinds.
    """

    def __init__(self, name: str, *, kind: OutputTopic, size: int | None, is_lasting: bool) -> None:
        self.name = name  # of the topic, or path of the file
        self.kind = kind  # of the changes that are read
        self.size = size  # last value of `position`; None where it is unknown
        self.is_lasting = is_lasting  # whether it can be read a second time
        self.count = 0  # messages or lines read so far, including skipped ones
        self.position = 0  # how far the current iteration has read, in offsets or bytes

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:  # noqa: B027
        """Release what it holds: nothing, for a file."""

    @abstractmethod
    def __iter__(self) -> Iterator[Publication]: ...

    @abstractmethod
    def of(
        self, entity_id: str, span: TimeSpan = ALWAYS, progress: Progress | None = None
    ) -> Iterator[Publication]:
        """The messages of one entity, in their order."""

    def _counted(self, progress: Progress | None) -> None:
        self.count += 1
        if progress is not None and self.count % _STEP == 0:
            progress(self.count)


def published(place: str, settings: Settings, *, kind: OutputTopic = SUMMARIES) -> PublishedSource:
    """Open a topic or a file; `names_file` decides which. Raises SetupError."""
    if names_file(place):
        return PublishedFile(place, kind=kind)
    try:
        return PublishedTopic(place, settings, kind=kind)
    except SetupError as error:
        if Path(place).is_file():
            raise SetupError(f"{error}; the file of this name is ./{place}") from error
        raise


class PublishedTopic(PublishedSource):
    """The committed messages of an output topic, up to the end that each partition had when it was
    opened. `size` and `position` count offsets of all partitions.
    """

    def __init__(self, topic: str, settings: Settings, *, kind: OutputTopic = SUMMARIES) -> None:
        """Raises SetupError where the topic does not exist or no broker answers."""
        self._as_json = AsJson(settings)
        clients = reached(settings)
        self._reader = TopicReader(clients, topic, settings.app_id)
        super().__init__(topic, kind=kind, size=self._reader.size, is_lasting=True)

    def __exit__(self, *_: object) -> None:
        self._reader.__exit__(None, None, None)

    @property
    def bounds(self) -> dict[int, range]:
        """The offsets by partition."""
        return {partition: self._reader.bounds(partition) for partition in self._reader.partitions}

    def __iter__(self) -> Iterator[Publication]:
        before = 0
        for partition, bounds in self.bounds.items():
            for stored in self._reader.read(partition):
                self.count += 1
                self.position = before + stored.record.offset + 1 - bounds.start
                yield from self._of_record(self._as_json(stored.record))
            before += len(bounds)

    def of(
        self, entity_id: str, span: TimeSpan = ALWAYS, progress: Progress | None = None
    ) -> Iterator[Publication]:
        """See `Source`. Reads only offsets within the span, by the topic's time index."""
        starts = {} if span.since_ms is None else self._reader.offsets_at(span.since_ms)
        ends = {} if span.until_ms is None else self._reader.offsets_at(span.until_ms)
        records = self.records(entity_id, starts, ends, progress)
        return chain.from_iterable(map(self._of_record, records))

    def _of_record(self, record: Record) -> list[Publication]:
        return publications(record, kind=self.kind)

    def records(
        self,
        entity_id: str,
        starts: Mapping[int, int],
        ends: Mapping[int, int],
        progress: Progress | None,
    ) -> Iterator[Record]:
        """The entity's messages in JSON, between offsets by partition.

        Reads the partition of the entity's key; only if it has none, the others, because a producer
        may use another partitioner.
        """
        key = entity_id.encode()
        for partitions in self._reader.usual_first(entity_id):
            found = False
            for partition in partitions:
                start, end = starts.get(partition, 0), ends.get(partition)
                for stored in self._reader.read(partition, start, end):
                    self._counted(progress)
                    if stored.record.key == key:
                        found = True
                        yield self._as_json(stored.record)
            if found:
                return


class PublishedFile(PublishedSource):
    """A file with a body per line, as `summarize` writes it. `size` and `position` are bytes."""

    def __init__(self, path: str, *, kind: OutputTopic = SUMMARIES) -> None:
        """Raises SetupError where the file cannot be opened or is a table."""
        is_lasting = Path(path).is_file()
        size = Path(path).stat().st_size if is_lasting else None
        super().__init__(path, kind=kind, size=size, is_lasting=is_lasting)
        if not Path(path).exists():
            raise SetupError(f"there is no file {path}")
        if is_lasting:
            with ReviewFiles([path]) as lines:
                if lines.unit == "rows":
                    raise SetupError(f"{path} is a table: {_EXPECTED}")

    def __iter__(self) -> Iterator[Publication]:
        for record in self._records(None):
            yield from self._of_line(record)

    def of(
        self, entity_id: str, span: TimeSpan = ALWAYS, progress: Progress | None = None
    ) -> Iterator[Publication]:
        """See `Source`. A line without `occurred_at` has the time of the line before."""
        key = entity_id.encode()
        since_ms, until_ms = span
        has_begun = since_ms is None
        for record in self._records(progress):
            if record.key != key:
                continue
            for found in self._of_line(record):
                occurred_ms = found.occurred_ms
                if occurred_ms is not None:
                    has_begun = has_begun or since_ms is None or occurred_ms >= since_ms
                    if until_ms is not None and occurred_ms >= until_ms:
                        return
                if has_begun:
                    yield found

    def _records(self, progress: Progress | None) -> Iterator[Record]:
        with ReviewFiles([self.name]) as lines:
            for entry in lines:
                if isinstance(entry, Faulty):
                    raise SetupError(f"line {entry.line} of {self.name}: {entry.detail}")
                if entry is not None:
                    self.position = lines.position
                    self._counted(progress)
                    yield entry

    def _of_line(self, record: Record) -> list[Publication]:
        """Nothing for a body of the other type: `summarize` writes both into one file."""
        try:
            return decoded(record, kind=self.kind) or []
        except FAULTS as error:
            raise SetupError(
                f"line {record.offset + 1} of {self.name} is not a summary change ({error}): "
                f"{_EXPECTED}"
            ) from error


_EXPECTED: Final = "expected one body per line, as `coversumm-worker summarize` writes them"


def published_epochs(settings: Settings, *, kind: OutputTopic = SUMMARIES) -> set[int] | None:
    """The epochs in the output topic, or in that of facets, by its first bodies; empty if the topic
    is, None if it has offsets without a body. Compaction leaves gaps, so bodies count, not offsets.
    """
    clients = KafkaClients(settings)
    topic = kind.of(settings)
    if not Topics(settings, clients).exists(topic, READ):
        return set()
    epochs: set[int] = set()
    as_json = AsJson(settings)
    with TopicReader(clients, topic, settings.app_id) as reader:
        for partition in reader.partitions:
            found = (
                publication.body.epoch
                for stored in reader.read(partition)
                for publication in publications(as_json(stored.record), kind=kind)
                if publication.body is not None
            )
            epochs.update(islice(found, SAMPLED))
        return None if reader.size and not epochs else epochs
