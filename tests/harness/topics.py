"""Small means to read and write whole topics; the clients log nothing, since their broker dies on
purpose.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import closing
from operator import methodcaller
from typing import Any, NamedTuple, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from tests.harness.patience import PATIENCE_SECONDS

T = TypeVar("T")


class Message(NamedTuple):
    """One record of a topic, bytes untouched."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]


def consumer(bootstrap_servers: str, group: str = "test-reader", **config: Any) -> Consumer:
    """A committed reader that commits nothing itself and learns where a partition ends."""
    return Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": group,
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "fetch.wait.max.ms": 20,  # a partition ends when a fetch finds nothing more: at once
            "log_level": 0,
            **config,
        }
    )


def producer(bootstrap_servers: str, **config: Any) -> Producer:
    """A producer that places keys as Kafka's own clients do."""
    return Producer(
        {
            "bootstrap.servers": bootstrap_servers,
            "partitioner": "murmur2_random",
            "linger.ms": 5,
            "message.max.bytes": 64 << 20,
            "log_level": 0,
            **config,
        }
    )


_MOVING = {
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.OFFSET_NOT_AVAILABLE,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_PARTITION,
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError._TRANSPORT,
    KafkaError._DESTROY_BROKER,
}
"""What is answered while a leader or coordinator moves, or a broker that has just come back leads
nothing yet; and what a client says whose connection to it is gone.
"""


def _patiently(ask: Callable[[], T]) -> T:
    """The answer, asked for again while who has to give it moves."""
    give_up_s = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return ask()
        except KafkaException as cause:
            if cause.args[0].code() not in _MOVING or time.monotonic() > give_up_s:
                raise
            time.sleep(0.2)


def bounds(reader: Consumer, partition: TopicPartition) -> tuple[int, int]:
    """The first offset and the last stable one."""
    return _patiently(lambda: reader.get_watermark_offsets(partition, timeout=PATIENCE_SECONDS))


def read_topic(
    bootstrap_servers: str, topic: str, starts: Mapping[int, int] | None = None
) -> list[Message]:
    """Every committed record of a topic as it is now, partition after partition in offset order;
    with `starts` (partition -> offset) from these on.
    """
    reader = consumer(bootstrap_servers)
    try:
        begins = {
            partition: max(
                (starts or {}).get(partition, 0),
                bounds(reader, TopicPartition(topic, partition))[0],
            )
            for partition in partitions_of(reader, topic)
        }
        reader.assign(
            [TopicPartition(topic, partition, start) for partition, start in begins.items()]
        )
        read: dict[int, list[Message]] = {partition: [] for partition in begins}
        ended: set[int] = set()
        quiet_since_s = time.monotonic()
        while len(ended) < len(begins):
            batch = reader.consume(10_000, 0.05)  # waits out its time unless it is full
            if batch:
                quiet_since_s = time.monotonic()
            elif time.monotonic() - quiet_since_s > PATIENCE_SECONDS:
                raise TimeoutError(
                    f"{topic} was not read to its end: nothing came for {PATIENCE_SECONDS:.0f} s"
                )
            for record in batch:
                error = record.error()
                if error is None:
                    read[record.partition()].append(_message(record))
                elif error.code() == KafkaError._PARTITION_EOF:
                    ended.add(record.partition())
                else:
                    raise KafkaException(error)
        return [message for partition in sorted(read) for message in read[partition]]
    finally:
        reader.close()


def end_offsets(bootstrap_servers: str, topic: str) -> dict[int, int]:
    """Partition -> last stable offset: where a committed reader ends."""
    reader = consumer(bootstrap_servers)
    try:
        return {
            partition: bounds(reader, TopicPartition(topic, partition))[1]
            for partition in partitions_of(reader, topic)
        }
    finally:
        reader.close()


def committed_offsets(bootstrap_servers: str, topic: str, group: str) -> dict[int, int]:
    """Partition -> the group's committed offset, -1001 where there is none; waits for pending
    transactions.
    """
    with closing(consumer(bootstrap_servers, group)) as reader:
        return committed_in(reader, topic)


def committed_in(reader: Consumer, topic: str) -> dict[int, int]:
    """The same of the reader's group: a client of its own costs ten times what the answer does."""
    asked = [TopicPartition(topic, partition) for partition in partitions_of(reader, topic)]
    answers = _patiently(lambda: reader.committed(asked, timeout=PATIENCE_SECONDS))
    return {answer.partition: answer.offset for answer in answers}


def partitions_of(client: Consumer, topic: str) -> list[int]:
    """The topic's partitions; an unknown topic is an error."""
    description = client.list_topics(topic, timeout=PATIENCE_SECONDS).topics[topic]
    if description.error is not None:
        raise KafkaException(description.error)
    return sorted(description.partitions)


def _headers(record: Any) -> tuple[tuple[str, bytes], ...]:
    """Its headers; none where a name is not UTF-8, which the client cannot read."""
    try:
        # A plain call may miss the exception, and return a list with holes.
        return tuple(methodcaller("headers")(record) or ())
    except (SystemError, UnicodeDecodeError):
        return ()


def _message(record: Any) -> Message:
    return Message(
        record.topic(),
        record.partition(),
        record.offset(),
        record.timestamp()[1],
        record.key(),
        record.value(),
        _headers(record),
    )
