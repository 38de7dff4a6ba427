"""The first row of each partition of a topic: what a state says of how it was made, without reading it.

A changelog's first row is never written again, so compaction leaves it where it is. Of a partition without committed rows the
first row of an open transaction counts: whoever has written one of his own, and then looks, finds that of everybody who did so
before.
"""

import time
from collections.abc import Generator, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from confluent_kafka import KafkaError, TopicPartition

from worker.clock import Clock
from worker.errors import Unanswered
from worker.kafka.clients import READ_TO_END, Clients, Isolation
from worker.kafka.refusals import refusal

TIMEOUT_SECONDS = 30
OPTIONS: Final[Mapping[str, Any]] = {
    **READ_TO_END,
    "auto.offset.reset": "earliest",  # a log may have lost its beginning
    "fetch.message.max.bytes": 16 * 1024,  # one record is enough
}


class FirstRow(NamedTuple):
    """A partition's first row; one of an open transaction may yet be aborted."""

    partition: int
    key: bytes | None
    value: bytes | None
    is_committed: bool


def first_rows(
    clients: Clients, group: str, topic: str, partitions: Iterable[int], clock: Clock = time
) -> Iterator[FirstRow]:
    """The first row of each of these partitions that has any, asked for under the name of the group.

    They come as they are read, committed ones first. Raises Unanswered where they are not read in time, SurroundingsError
    where the broker does not allow it.
    """
    ends = yield from _read(clients, group, topic, "read_committed", dict.fromkeys(partitions, 0), clock)
    yield from _read(clients, group, topic, "read_uncommitted", ends, clock)


def _read(
    clients: Clients,
    group: str,
    topic: str,
    isolation: Isolation,
    starts: Mapping[int, int],
    clock: Clock,
) -> Generator[FirstRow, None, dict[int, int]]:
    """The first rows from these offsets on; returned is by partition where it ends without any."""
    found: set[int] = set()
    ends: dict[int, int] = {}
    if not starts:
        return ends
    give_up = clock.monotonic() + TIMEOUT_SECONDS
    consumer = clients.standalone_consumer(group, isolation, OPTIONS)
    try:
        consumer.assign([TopicPartition(topic, partition, start) for partition, start in starts.items()])
        while missing := starts.keys() - found - ends.keys():
            if clock.monotonic() > give_up:
                raise Unanswered(
                    f"the first rows of {topic} {sorted(missing)} were not read in {TIMEOUT_SECONDS} s"
                )
            for message in consumer.consume(len(missing), 0.1):
                partition, offset, error = message.partition(), message.offset(), message.error()
                if error is not None and error.code() != KafkaError._PARTITION_EOF:
                    raise refusal(error, group, topic)
                assert partition is not None
                assert offset is not None
                if partition not in missing or partition in found:
                    continue
                if error is not None:
                    ends[partition] = offset
                else:
                    found.add(partition)
                    yield FirstRow(partition, message.key(), message.value(), isolation == "read_committed")
        return ends
    finally:
        consumer.close()
