"""What a replay published, read back for a file: the bodies of `summary.changed`."""

from collections.abc import Iterator
from struct import Struct
from typing import Final

from worker.kafka.clients import Clients
from worker.kafka.reader import TopicReader
from worker.published.sorting import LastValues

_WRITTEN: Final = Struct(">QIQ")
"""Key of a body in the order of writing: milliseconds, partition, offset."""


def in_order_of_commits(clients: Clients, topic: str) -> Iterator[bytes]:
    """All bodies, as they were written; of those that were written at once, by partition. Raises
    SetupError.

    The clocks of two workers may differ: within a partition no body comes before the one that was
    written before it.
    """
    with TopicReader(clients, topic, topic) as reader, LastValues() as bodies:
        for partition in reader.partitions:
            latest_ms = 0
            for stored in reader.read(partition):
                record = stored.record
                latest_ms = max(latest_ms, record.timestamp_ms)
                if record.value is not None:
                    bodies.put(_WRITTEN.pack(latest_ms, partition, record.offset), record.value)
        for _, body in bodies:
            yield body


def in_order_of_entities(clients: Clients, topic: str) -> Iterator[bytes]:
    """One body an entity, its last, by entity. Raises SetupError."""
    with TopicReader(clients, topic, topic) as reader, LastValues() as bodies:
        for partition in reader.partitions:
            for stored in reader.read(partition):
                if stored.record.value is not None:
                    bodies.put(stored.record.key or b"", stored.record.value)
        for _, body in bodies:
            yield body
