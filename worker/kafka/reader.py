"""A topic read to its end: committed messages alone, up to where each partition ended when the
reader was constructed.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, NamedTuple, Self

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from worker.errors import SetupError
from worker.events import Record
from worker.kafka.clients import READ_TO_END, Clients
from worker.kafka.offsets import committed_notes, watermarks
from worker.kafka.offsets_by_time import first_records_at
from worker.kafka.topics import partition_of

TIMEOUT_SECONDS = 30
# A partition that gives nothing for so long before its end counts as unreadable.
STALLED_SECONDS = 60
MESSAGES_AT_ONCE = 1000


class NoTopic(SetupError):
    """The broker that was asked knows of no such topic."""


class Stored(NamedTuple):
    """A message of a topic with its headers (the last one of each name)."""

    record: Record
    headers: Mapping[str, bytes]


class TopicReader:
    """A committed reader of one topic; a context manager.

    Args:
        clients: make the consumer.
        topic: which one.
        group: whose committed offsets `committed` asks for; the reader never joins it and commits
            nothing.
        chosen: of all partitions those to read; by default all. Each one costs requests.

    Raises:
        NoTopic: it does not exist.
        SetupError: no broker answers.
    """

    def __init__(
        self,
        clients: Clients,
        topic: str,
        group: str,
        chosen: Callable[[Sequence[int]], Iterable[int]] = tuple,
    ) -> None:
        self.topic = topic
        self._clients, self._group = clients, group
        self._consumer = clients.standalone_consumer(group, "read_committed", READ_TO_END)
        try:
            with broker_errors(f"the topic {topic} cannot be read"):
                self._bounds = {
                    p: watermarks(self._consumer, topic, p, TIMEOUT_SECONDS)
                    for p in chosen(self._partitions())
                }
        except BaseException:
            self._consumer.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._consumer.close()

    @property
    def partitions(self) -> list[int]:
        """The chosen ones."""
        return sorted(self._bounds)

    def usual_first(self, entity_id: str) -> tuple[list[int], list[int]]:
        """The partition that the entity's key belongs in, and all others: its producers may have
        chosen one of them.
        """
        usual = partition_of(entity_id, len(self._bounds))
        return [usual], [partition for partition in self.partitions if partition != usual]

    @property
    def group_metadata(self) -> Any:
        """Of the reader's group: a transaction may commit offsets under it."""
        return self._consumer.consumer_group_metadata()

    @property
    def size(self) -> int:
        """Offsets between start and end, of all partitions."""
        return sum(map(len, self._bounds.values()))

    def bounds(self, partition: int) -> range:
        """Offsets of the partition: its start, and its end for a committed reader, when the reader
        was constructed.
        """
        return self._bounds[partition]

    def offsets_at(self, moment_ms: int) -> dict[int, int]:
        """By partition the offset of the first message whose timestamp (ms since 1970) is at or
        past the moment.

        Where there is none it is the partition's end.
        """
        with broker_errors(f"offsets by time of {self.topic} cannot be read"):
            return first_records_at(
                self._consumer, self._consumer, self.topic, self._bounds, moment_ms
            )

    def committed(self, *, wait: bool = True) -> dict[int, tuple[int, str]]:
        """By partition the group's committed offset and its metadata, where there is one.

        Waits for pending transactions, unless it is not to: then it tells what was committed before
        them.
        """
        with (
            broker_errors(f"the offsets of {self.topic} cannot be read"),
            self._asking(wait) as consumer,
        ):
            return committed_notes(consumer, self.topic, self.partitions, TIMEOUT_SECONDS)

    @contextmanager
    def _asking(self, wait: bool) -> Iterator[Consumer]:
        """A consumer that asks for offsets: a committed reader's are those that no transaction may
        change any more.
        """
        if wait:
            yield self._consumer
            return
        consumer = self._clients.standalone_consumer(self._group, "read_uncommitted")
        try:
            yield consumer
        finally:
            consumer.close()

    def read(self, partition: int, start: int = 0, end: int | None = None) -> Iterator[Stored]:
        """The messages with offsets from `start` to below `end` (and the end of the partition), in
        order.
        """
        bounds = self._bounds[partition]
        start, end = max(start, bounds.start), min(bounds.stop, bounds.stop if end is None else end)
        if start >= end:
            return
        with broker_errors(f"{self.topic} [{partition}] cannot be read"):
            self._consumer.assign([TopicPartition(self.topic, partition, start)])
            moved_at = time.monotonic()
            while True:
                batch = self._consumer.consume(MESSAGES_AT_ONCE, 0.1)
                for message in batch:
                    if _at_end(message, end):
                        return
                    if message.error() is None:
                        yield _stored(message)
                if batch:
                    moved_at = time.monotonic()
                elif time.monotonic() - moved_at > STALLED_SECONDS:
                    raise SetupError(
                        f"{self.topic} [{partition}] was not read to offset {end}: nothing came for {STALLED_SECONDS} s"
                    )

    def _partitions(self) -> list[int]:
        found = self._consumer.list_topics(self.topic, timeout=TIMEOUT_SECONDS).topics[self.topic]
        if found.error is not None:
            raise NoTopic(
                f"there is no topic {self.topic} ({found.error.str()}): look at the settings, or create it with "
                "`coversumm-worker topics`"
            )
        return sorted(found.partitions)


def _at_end(message: Any, end: int) -> bool:
    """Whether the message lies beyond the end, or says that only transaction markers and aborted
    messages are left before it.
    """
    error = message.error()
    if error is not None and error.code() != KafkaError._PARTITION_EOF:
        raise KafkaException(error)
    return bool(message.offset() >= end)


def _stored(message: Any) -> Stored:
    record = Record(
        message.topic(),
        message.partition(),
        message.offset(),
        message.timestamp()[1],
        message.key(),
        message.value(),
    )
    return Stored(record, dict(message.headers() or ()))


@contextmanager
def broker_errors(what: str) -> Iterator[None]:
    """Turn what librdkafka raises into one line that begins with `what`."""
    try:
        yield
    except KafkaException as cause:
        error = cause.args[0]
        raise SetupError(
            f"{what} ({error.name()}: {error.str()}): check KAFKA_BOOTSTRAP_SERVERS, the network and the rights"
        ) from cause
