"""Which partition an entity is in."""

from aiokafka.partitioner import murmur2


def partition_of(entity_id: str, partitions: int) -> int:
    """The partition a Kafka producer's default partitioner gives the key (murmur2 of its UTF-8)."""
    return int((murmur2(entity_id.encode()) & 0x7FFFFFFF) % partitions)
