"""What was published about entities: the messages of an output topic, or a file of their bodies."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Protocol

import msgspec

from worker.errors import SetupError
from worker.events import Record, SummaryChanged
from worker.events.dates import milliseconds
from worker.events.summary import decode_summary
from worker.kafka.clients import KafkaClients
from worker.kafka.reader import TopicReader
from worker.kafka.topics import reached
from worker.settings import Settings
from worker.sources import Faulty, ReviewFile

_ENDINGS: Final = (".jsonl", ".csv", ".tsv", ".parquet")


def names_file(value: str) -> bool:
    """Whether it is a file: it has a slash, or an ending that we read (also with .gz behind);
    everything else is a topic.

    >>> names_file("./reviews"), names_file("epoch-2.jsonl.gz"), names_file("marketplace.review-summaries.v1")
    (True, True, False)
    """
    return "/" in value or value.removesuffix(".gz").endswith(_ENDINGS)


class Publication(NamedTuple):
    """A summary change, or the tombstone of an entity's deletion: then `body` is None."""

    entity_id: str
    body: SummaryChanged | None
    partition: int
    """0 in a file."""
    offset: int
    """In a file the line's number, from 0."""
    published_ms: int
    """Timestamp of the message, milliseconds since 1970; -1 in a file."""

    @property
    def occurred_ms(self) -> int | None:
        """When the event happened that caused it, milliseconds since 1970; None where that is not
        known, or no time.
        """
        try:
            return (
                None
                if self.body is None or self.body.occurred_at is None
                else milliseconds(self.body.occurred_at)
            )
        except ValueError:  # a day that does not exist, or the year 0
            return None


class TimeSpan(NamedTuple):
    """From the first message at or past `since_ms` to the last before the first at or past
    `until_ms`; None: no bound.

    A topic goes by the timestamps of its messages, a file by `occurred_at`.
    """

    since_ms: int | None = None
    until_ms: int | None = None


ALWAYS: Final = TimeSpan()
Progress = Callable[[int], None]
"""Told from time to time how many messages, or lines, are read."""
_STEP: Final = 500


class PublishedSource(AbstractContextManager["PublishedSource"], Protocol):
    """A topic or a file. Iteration, any number of times, gives all of it: those of one entity in
    their order.

    Iteration and `of` raise SetupError where something else than a summary change is met.
    """

    name: str
    count: int
    """Messages, or lines, read so far, those passed over included."""

    @property
    def size(self) -> int | None:
        """How far `position` gets; None where that is not known."""

    @property
    def position(self) -> int:
        """How far the iteration that is under way has come."""

    @property
    def is_lasting(self) -> bool:
        """Whether it can be read a second time."""

    def __iter__(self) -> Iterator[Publication]: ...

    def of(
        self, entity_id: str, span: TimeSpan = ALWAYS, progress: Progress | None = None
    ) -> Iterator[Publication]:
        """Those of one entity, in their order."""


def published(place: str, settings: Settings) -> PublishedSource:
    """What a topic or a file (`names_file` tells which) holds, opened. Raises SetupError."""
    if names_file(place):
        return PublishedFile(place)
    try:
        return PublishedTopic(place, settings)
    except SetupError as error:
        if Path(place).is_file():
            raise SetupError(f"{error}; the file of this name is ./{place}") from error
        raise


class PublishedTopic(PublishedSource):
    """An output topic: its committed messages, up to where each partition ended when it
    was opened.
    """

    def __init__(self, topic: str, settings: Settings) -> None:
        """Raises SetupError where there is no such topic, or no broker answers."""
        self.name = topic
        self.count = 0
        self._walked = 0
        self._reader = TopicReader(
            reached(settings, KafkaClients(settings)), topic, settings.app_id
        )

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._reader.__exit__(kind, error, trace)

    @property
    def size(self) -> int:
        """Offsets, of all partitions."""
        return self._reader.size

    @property
    def position(self) -> int:
        """Offsets."""
        return self._walked

    @property
    def is_lasting(self) -> bool:
        """See `PublishedSource`."""
        return True

    def __iter__(self) -> Iterator[Publication]:
        """Partition after partition."""
        before = 0
        for partition in self._reader.partitions:
            bounds = self._reader.bounds(partition)
            for stored in self._reader.read(partition):
                self.count += 1
                self._walked = before + stored.record.offset + 1 - bounds.start
                yield publication(stored.record)
            before += len(bounds)

    def of(
        self, entity_id: str, span: TimeSpan = ALWAYS, progress: Progress | None = None
    ) -> Iterator[Publication]:
        """From the partition of the entity's key; where its producers chose others, from those.

        What lies before and after the span is not read: the topic's index by time says where it
        begins and ends.
        """
        starts = {} if span.since_ms is None else self._reader.offsets_at(span.since_ms)
        ends = {} if span.until_ms is None else self._reader.offsets_at(span.until_ms)
        key = entity_id.encode()
        for partitions in self._reader.usual_first(entity_id):
            found = False
            for partition in partitions:
                for stored in self._reader.read(
                    partition, starts.get(partition, 0), ends.get(partition)
                ):
                    self.count += 1
                    if progress is not None and self.count % _STEP == 0:
                        progress(self.count)
                    if stored.record.key == key:
                        found = True
                        yield publication(stored.record)
            if found:
                return


class PublishedFile(PublishedSource):
    """A file of bodies, one a line, as `summarize` writes them; plain or gzip."""

    def __init__(self, path: str) -> None:
        """Raises SetupError where it cannot be opened, or holds no lines of JSON."""
        self.name = path
        self.count = 0
        self._file = ReviewFile(path)
        if not Path(path).exists():
            raise SetupError(f"there is no file {path}")
        if self.is_lasting:
            self._check()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        pass

    @property
    def size(self) -> int | None:
        """Bytes."""
        return self._file.size

    @property
    def position(self) -> int:
        """Bytes."""
        return self._file.position

    @property
    def is_lasting(self) -> bool:
        """Not if it is a pipe."""
        return Path(self.name).is_file()

    def __iter__(self) -> Iterator[Publication]:
        """Line after line."""
        for record in self._records():
            yield self._of_line(record)

    def of(
        self, entity_id: str, span: TimeSpan = ALWAYS, progress: Progress | None = None
    ) -> Iterator[Publication]:
        """See `PublishedSource`. A line without `occurred_at` has the time of the one before it."""
        key = entity_id.encode()
        begun = span.since_ms is None
        for record in self._records():
            if progress is not None and self.count % _STEP == 0:
                progress(self.count)
            if record.key != key:
                continue
            found = self._of_line(record)
            moment_ms = found.occurred_ms
            if moment_ms is not None:
                begun = begun or span.since_ms is None or moment_ms >= span.since_ms
                if span.until_ms is not None and moment_ms >= span.until_ms:
                    return
            if begun:
                yield found

    def _records(self) -> Iterator[Record]:
        with self._opened() as lines:
            for entry in lines:
                if isinstance(entry, Faulty):
                    raise SetupError(f"line {entry.line} of {self.name}: {entry.detail}")
                if entry is not None:
                    self.count += 1
                    yield entry

    def _check(self) -> None:
        """What is wrong is told before anything else is read."""
        with self._opened() as lines:
            if lines.unit == "rows":
                raise SetupError(f"{self.name} is a table: {_WANTED}")

    def _opened(self) -> ReviewFile:
        """The file from its beginning, `with` opens it."""
        self._file = ReviewFile(self.name)
        return self._file

    def _of_line(self, record: Record) -> Publication:
        try:
            return _read(record)
        except _FAULTS as error:
            raise SetupError(
                f"line {record.offset + 1} of {self.name} is no summary change ({error}): {_WANTED}"
            ) from error


def publication(record: Record) -> Publication:
    """Of a message of an output topic. Raises SetupError where it is none."""
    try:
        return _read(record)
    except _FAULTS as error:
        raise SetupError(
            f"the message at offset {record.offset} of {record.topic} [{record.partition}] is no summary change ({error}): "
            "name an output topic, as COVERSUMM_OUTPUT_TOPIC does"
        ) from error


def _read(record: Record) -> Publication:
    """Raises one of _FAULTS."""
    body = None if record.value is None else decode_summary(record.value)
    entity_id = (record.key or b"").decode()
    if not entity_id:
        raise ValueError("it has no key")
    return Publication(entity_id, body, record.partition, record.offset, record.timestamp_ms)


_FAULTS: Final = (msgspec.DecodeError, ValueError, RecursionError)
_WANTED: Final = "wanted is one body a line, as `coversumm-worker summarize` writes them"
