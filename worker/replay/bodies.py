"""What a replay published, read back for a file: the bodies of `summary.changed`."""

from collections.abc import Iterator
from heapq import merge

from worker.kafka.clients import Clients
from worker.kafka.reader import Stored, TopicReader
from worker.operations.sorting import LastValues


def in_order_of_commits(clients: Clients, topic: str) -> Iterator[bytes]:
    """All bodies, as they were written; of those that were written at once, by partition. Raises SurroundingsError."""
    with TopicReader(clients, topic, topic) as first:
        partitions = first.partitions
    readers = [TopicReader(clients, topic, topic) for _ in partitions]
    try:
        streams = [reader.read(partition) for reader, partition in zip(readers, partitions, strict=True)]
        for stored in merge(*streams, key=_when):
            if stored.record.value is not None:
                yield stored.record.value
    finally:
        for reader in readers:
            reader.__exit__(None, None, None)


def _when(stored: Stored) -> tuple[int, int, int]:
    record = stored.record
    return record.timestamp_ms, record.partition, record.offset


def in_order_of_entities(clients: Clients, topic: str) -> Iterator[bytes]:
    """One body an entity, its last, by entity. Raises SurroundingsError."""
    with TopicReader(clients, topic, topic) as reader, LastValues() as bodies:
        for partition in reader.partitions:
            for stored in reader.read(partition):
                if stored.record.value is not None:
                    bodies.put(stored.record.key or b"", stored.record.value)
        for _, body in bodies:
            yield body
