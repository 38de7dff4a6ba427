"""The reading of the input topic's records: its schemas, and its mapping, which also refuses
records in the wrong partition.

All records of an entity must be in one partition, or their order is lost. A record whose key is the
entity id is accepted in any partition, as an event of the contract is. Another record must be in
the partition that Kafka's default partitioner gives the entity: queries go to its worker.
"""

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

from worker.errors import SetupError
from worker.events import Record
from worker.kafka.topics import partition_of
from worker.mapping import TopicMapping, load_mapping
from worker.mapping.topic import ANY
from worker.registry.avro import check_fastavro
from worker.registry.client import SchemaRegistry
from worker.registry.lookup import SchemaLookup
from worker.settings import Settings

CACHED_ENTITIES = 10_000
"""Entities whose partition is remembered: to compute one takes as long as to map a record."""


def mapping_of(settings: Settings) -> TopicMapping | None:
    """The mapping of the input topic; None without COVERSUMM_MAPPING.

    Raises SetupError if the file does not map the topic, and FileErrors.
    """
    if settings.mapping is None:
        return None
    topic = settings.input_topic
    topics = load_mapping(settings.mapping, topic)
    if topic not in topics:
        raise SetupError(
            f'COVERSUMM_MAPPING={settings.mapping} has no [topic."{topic}"], the input topic '
            f"(COVERSUMM_INPUT_TOPIC), only {', '.join(topics)}: add it, or unset "
            "COVERSUMM_MAPPING if the topic has the contract's events"
        )
    return topics[topic]


def with_schemas(
    settings: Settings, mapping: TopicMapping | None
) -> tuple[TopicMapping | None, SchemaLookup | None]:
    """The mapping, and the schemas of framed records, if any are expected.

    Raises SetupError without the extra `avro`.
    """
    if settings.schema_registry_url is None:
        return mapping, None
    check_fastavro()
    registry = SchemaRegistry.of(settings)
    if mapping is None:
        return None, SchemaLookup(registry)
    in_values, in_keys = mapping.value == "framed", mapping.key in ("framed", ANY)
    if not in_values and not in_keys:
        return mapping, None
    schemas = SchemaLookup(registry, in_values=in_values, in_keys=in_keys)
    return mapping.unframing(schemas.codec.unframe), schemas


def cached_partitions(partitions: int) -> Callable[[str], int]:
    """`partition_of` a topic with so many partitions, remembered for the last entities."""
    return lru_cache(CACHED_ENTITIES)(lambda entity_id: partition_of(entity_id, partitions))


def refusing_strays(mapping: TopicMapping, file: Path, partitions: int) -> TopicMapping:
    """The mapping that refuses records of entities that belong to another partition."""
    partition = cached_partitions(partitions)

    def refuse(entity_id: str, record: Record) -> str | None:
        if record.key == entity_id.encode() or partition(entity_id) == record.partition:
            return None
        return (
            f"entity_id {entity_id!r} belongs to partition {partition(entity_id)} and the record "
            f"is in {record.partition}: the topic is not keyed by entity; run `coversumm-worker "
            f"bridge --mapping {file} --from {mapping.topic}` and read the topic that it writes"
        )

    return mapping.refusing(refuse)
