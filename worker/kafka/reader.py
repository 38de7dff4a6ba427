"""A topic read to its end: committed messages alone, up to where each partition ended when the reader was made."""

import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any, NamedTuple, Self

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from worker.errors import SurroundingsError
from worker.events import Record
from worker.kafka.retry import patiently
from worker.settings import Settings

TIMEOUT_SECONDS = 30
# A partition that gives nothing for so long, though its end is not reached, gives nothing any more.
STALLED_SECONDS = 60
MESSAGES_AT_ONCE = 1000

_log = logging.getLogger("librdkafka.tools")
_log.addHandler(logging.NullHandler())  # what goes wrong is raised, in one line
_log.propagate = False


class Stored(NamedTuple):
    """A message of a topic with its headers (the last one of each name)."""

    record: Record
    headers: Mapping[str, bytes]


def client_config(settings: Settings) -> dict[str, Any]:
    """What the tools' librdkafka clients start from; they log nothing."""
    return {**settings.kafka_client_config(), "logger": _log}


class TopicReader:
    """A committed reader of one topic; a context manager.

    Args:
        settings: reach the broker.
        topic: which.
        group: whose committed offsets `committed` asks for; the reader never joins it and commits nothing.

    Raises:
        SurroundingsError: there is no such topic, or no broker.
    """

    def __init__(self, settings: Settings, topic: str, group: str) -> None:
        self.topic = topic
        self._consumer = Consumer(
            {
                **client_config(settings),
                "group.id": group,
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "isolation.level": "read_committed",
                "auto.offset.reset": "error",
                "queued.max.messages.kbytes": 32 * 1024,
                "fetch.wait.max.ms": 100,
            }
        )
        try:
            with broker_errors(f"the topic {topic} cannot be read"):
                self._bounds = {p: self._ask_bounds(p) for p in self._partitions()}
        except BaseException:
            self._consumer.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._consumer.close()

    @property
    def partitions(self) -> list[int]:
        """All of the topic."""
        return sorted(self._bounds)

    @property
    def consumer(self) -> Consumer:
        """The librdkafka consumer, for its group's metadata."""
        return self._consumer

    @property
    def size(self) -> int:
        """Offsets between start and end, of all partitions."""
        return sum(map(len, self._bounds.values()))

    def bounds(self, partition: int) -> range:
        """Offsets of the partition: its start, and its end for a committed reader, when the reader was made."""
        return self._bounds[partition]

    def committed(self) -> dict[int, tuple[int, str]]:
        """By partition the group's committed offset and its metadata, where there is one. Waits for pending transactions."""
        asked = [TopicPartition(self.topic, partition) for partition in self.partitions]
        with broker_errors(f"the offsets of {self.topic} cannot be read"):
            answers = patiently(lambda: self._consumer.committed(asked, timeout=TIMEOUT_SECONDS))
        return {
            answer.partition: (answer.offset, answer.metadata or "")
            for answer in answers
            if answer.offset >= 0
        }

    def read(self, partition: int, start: int = 0, end: int | None = None) -> Iterator[Stored]:
        """The messages with offsets from `start` to below `end` (and the end of the partition), in order."""
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
                    raise SurroundingsError(
                        f"{self.topic} [{partition}] was not read to offset {end}: nothing came for {STALLED_SECONDS} s"
                    )

    def _partitions(self) -> list[int]:
        found = self._consumer.list_topics(self.topic, timeout=TIMEOUT_SECONDS).topics[self.topic]
        if found.error is not None:
            raise SurroundingsError(
                f"there is no topic {self.topic} ({found.error.str()}): look at the settings, or create it with "
                "`coversumm-worker topics`"
            )
        return sorted(found.partitions)

    def _ask_bounds(self, partition: int) -> range:
        low, high = self._consumer.get_watermark_offsets(
            TopicPartition(self.topic, partition), timeout=TIMEOUT_SECONDS
        )
        return range(low, high)


def _at_end(message: Any, end: int) -> bool:
    """Whether this is beyond the end, or tells that only transaction markers and aborted messages are left before it."""
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
        raise SurroundingsError(
            f"{what} ({error.name()}: {error.str()}): check KAFKA_BOOTSTRAP_SERVERS, the network and the rights"
        ) from cause
