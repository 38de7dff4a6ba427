"""Reads the committed messages of a topic, up to its end when the reader was created."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from operator import methodcaller
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from worker.errors import SetupError, many
from worker.events import Reason, Record, Rejected
from worker.events.messages import attempts_in, timestamp
from worker.kafka.clients import READ_TO_END, Clients
from worker.kafka.errors import broker_errors, refusal
from worker.kafka.offsets import (
    TIMEOUT_SECONDS,
    CommittedOffset,
    all_watermarks,
    committed_offsets,
    first_records_at,
    watermarks,
)
from worker.kafka.topics import KEPT, partition_of

_headers = methodcaller("headers")
# Not a plain call: if it fails, the client returns a list with holes beside its exception, and
# Python's interpreter looks for the exception only in calls that come from C.
STALLED_SECONDS = 60  # seconds without a message until a partition counts as unreadable
MESSAGES_AT_ONCE = 1000
GONE_SHOWN = 5  # partitions without their first records to name


class NoTopic(SetupError):
    """The broker that answered does not know the topic."""


class Stored(NamedTuple):
    """A message of a topic with its headers (the last one of each name)."""

    record: Record
    headers: Mapping[str, bytes]


class TopicReader(AbstractContextManager["TopicReader"]):
    """A committed reader of one topic; a context manager. It joins no group.

    `committed` returns the offsets of `group`. `chosen` selects the partitions to read, by default
    all. Raises NoTopic, and SetupError if no broker answers.
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
                self._bounds = all_watermarks(
                    self._consumer, topic, chosen(self._partitions()), TIMEOUT_SECONDS
                )
        except BaseException:
            self._consumer.close()
            raise

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    @property
    def partitions(self) -> list[int]:
        """The chosen partitions."""
        return sorted(self._bounds)

    def usual_first(self, entity_id: str) -> tuple[list[int], list[int]]:
        """The partition of the entity's key, and all others, which a producer may have chosen."""
        usual = partition_of(entity_id, len(self._bounds))
        return [usual], [partition for partition in self.partitions if partition != usual]

    @property
    def group_metadata(self) -> Any:
        """The metadata of the reader's group, so that a transaction can commit offsets for it."""
        return self._consumer.consumer_group_metadata()

    @property
    def size(self) -> int:
        """Offsets between start and end, of all partitions."""
        return sum(map(len, self._bounds.values()))

    def bounds(self, partition: int) -> range:
        """The partition's start, and its end for a committed reader, at construction."""
        return self._bounds[partition]

    def offsets_at(self, time_ms: int) -> dict[int, int]:
        """The offset by partition of the first message at or after a time, else the end."""
        with broker_errors(f"could not fetch offsets by time of {self.topic}"):
            return first_records_at(
                self._consumer, self._consumer, self.topic, self._bounds, time_ms
            )

    def committed(self, *, wait: bool = True) -> dict[int, CommittedOffset]:
        """Committed offsets of the group by partition; `wait`: for transactions in flight."""
        with broker_errors(f"could not fetch the committed offsets of {self.topic}"):
            if wait:
                return committed_offsets(self._consumer, self.topic, self.partitions)
            with closing(
                self._clients.standalone_consumer(self._group, "read_uncommitted")
            ) as consumer:
                return committed_offsets(consumer, self.topic, self.partitions)

    def read(self, partition: int, start: int = 0, end: int | None = None) -> Iterator[Stored]:
        """The messages from `start` to before `end`, or to the end of the partition, in order."""
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
                    if is_unreadable(message):
                        passed = passed_by(self._clients, self._group, message)
                        yield Stored(passed, {})
                        following = TopicPartition(self.topic, partition, passed.offset + 1)
                        self._consumer.assign([following])
                        break
                    if _at_end(message, end):
                        return
                    if message.error() is None:
                        yield _stored(message)
                if batch:
                    moved_at = time.monotonic()
                elif time.monotonic() - moved_at > STALLED_SECONDS:
                    raise SetupError(
                        f"{self.topic} [{partition}] was not read to offset {end}: no message for "
                        f"{STALLED_SECONDS} s"
                    )

    def _partitions(self) -> list[int]:
        found = self._consumer.list_topics(self.topic, timeout=TIMEOUT_SECONDS).topics[self.topic]
        if found.error is not None:
            if found.error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                raise refusal(found.error, self._group, self.topic)
            raise NoTopic(
                f"there is no topic {self.topic} ({found.error.str()}): check the settings, or "
                "create it with `coversumm-worker topics`"
            )
        return sorted(found.partitions)


def removing(config: Mapping[str, str]) -> list[str]:
    """The retention limits in a topic's configuration."""
    limits = [f"{name}={config[name]}" for name in KEPT if config[name] != KEPT[name]]
    return limits if "delete" in config["cleanup.policy"] else []


def reach(clients: Clients, topic: str, group: str, config: Mapping[str, str]) -> str | None:
    """The reach of an input with this configuration, if replays lack records, now or later.

    Raises SetupError if the broker does not answer.
    """
    limits = removing(config)
    with TopicReader(clients, topic, group) as reader:
        gone = [partition for partition in reader.partitions if reader.bounds(partition).start]
        begins = [
            f"partition {partition} at {_first(reader, partition)}"
            for partition in gone[:GONE_SHOWN]
        ]
    if not (gone or limits):
        return None
    more = len(gone) - len(begins)
    since = ", ".join(begins) + (f", and {many(more, 'more partitions')}" if more else "")
    return (
        (f"earlier records are gone, it begins in {since}" if gone else "it has its first records")
        + (f"; {' and '.join(limits)} will remove records" if limits else "")
        + "; a replay needs all: set retention.ms=-1 and retention.bytes=-1, or keep an archive"
    )


def _first(reader: TopicReader, partition: int) -> str:
    start, first = reader.bounds(partition).start, next(reader.read(partition), None)
    time_ = None if first is None else timestamp(first.record.timestamp_ms)
    return f"offset {start} ({time_ or 'without a record'})"


def is_unreadable(message: Any) -> bool:
    """True if it stands for a batch that the client does not decompress.

    librdkafka bounds what zstd takes (`receive.message.max.bytes`, 100 MB), and no other codec.
    """
    error = message.error()
    return error is not None and error.code() == KafkaError._BAD_COMPRESSION


def passed_by(clients: Clients, group: str, message: Any) -> Record:
    """A refused record at the last offset of the batch that an unreadable message stands for.

    The client does not tell where the batch ends, so offsets behind its first one are tried.
    """
    topic, partition, first = message.topic(), message.partition(), message.offset()
    with closing(clients.standalone_consumer(group, "read_committed", READ_TO_END)) as consumer:

        def is_within(offset: int) -> bool:
            consumer.assign([TopicPartition(topic, partition, offset)])
            found = consumer.poll(STALLED_SECONDS)
            return found is not None and is_unreadable(found) and found.offset() == first

        last, step = first, 1
        end = watermarks(consumer, topic, partition, TIMEOUT_SECONDS).stop
        while end - last > 1:
            tried = min(last + step, (last + end) // 2)
            if is_within(tried):
                last, step = tried, 2 * step
            else:
                end = tried
    what = f"offsets {first} to {last} are a batch that cannot be decompressed"
    rejected = Rejected(Reason.TOO_LARGE, f"{what} ({message.error().str()})")
    return Record(topic, partition, last, -1, None, None, refused=rejected)


def _at_end(message: Any, end: int) -> bool:
    """True if no record before the end follows: only markers and aborted messages may."""
    error = message.error()
    if error is not None and error.code() != KafkaError._PARTITION_EOF:
        raise KafkaException(error)
    return bool(message.offset() >= end)


def _stored(message: Any) -> Stored:
    record = record_of(message, with_headers=True)
    return Stored(record._replace(headers=()), dict(record.headers))  # type: ignore[arg-type]


def record_of(message: Any, *, with_headers: bool) -> Record:
    """A message as a record. It is refused if its headers are wanted and the client, which decodes
    their names, cannot read them: then it has none. Of headers that are not wanted it has ATTEMPTS.
    """
    headers: Sequence[tuple[str, bytes | None]] = ()
    refused = None
    try:
        found = tuple(_headers(message) or ())
        headers = found if with_headers else attempts_in(found)
    except (SystemError, UnicodeDecodeError):  # by version of Python
        if with_headers:
            refused = Rejected(Reason.BAD_FIELD, "headers: the name of one is not UTF-8")
    return Record(
        message.topic(),
        message.partition(),
        message.offset(),
        message.timestamp()[1],
        message.key(),
        message.value(),
        headers,
        refused,
    )
