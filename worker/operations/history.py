"""What was published about an entity, as far as the output topic still holds it: `inspect --history`."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from worker.errors import SurroundingsError
from worker.events.messages import timestamp
from worker.kafka.clients import KafkaClients
from worker.kafka.reach import reached
from worker.kafka.reader import Stored, TopicReader
from worker.settings import Settings


@dataclass(frozen=True, slots=True)
class PublishedChange:
    """One summary change, or the tombstone of the entity's deletion: then what only a summary has is None."""

    partition: int
    offset: int
    published_at: str | None
    """Time of the message."""
    tombstone: bool
    epoch: int | None
    sequence: int | None
    previous_sequence: int | None
    incomplete: bool
    """Changes before this one are not in the topic any more: compaction keeps the last for certain, no other."""
    occurred_at: str | None
    cause: dict[str, Any] | None
    added: list[str]
    removed: list[str]
    added_texts: dict[str, str]
    """By sentence id."""
    removed_texts: dict[str, str | None]
    """By sentence id, from the summary before; None where that is not in the topic any more."""
    sentences: int
    """In the summary."""
    sentence_count: int | None
    review_count: int | None


def published_changes(settings: Settings, entity_id: str, limit: int) -> list[PublishedChange]:
    """The last `limit` of the entity's messages in the output topic, the newest last.

    They are in the partition of the entity's key; where its producers chose others, all are searched.
    """
    clients = reached(settings, KafkaClients(settings))
    with TopicReader(clients, settings.output_topic, settings.app_id) as reader:
        for partitions in reader.usual_first(entity_id):
            latest = deque(_changes(reader, partitions, entity_id.encode()), maxlen=limit)
            if latest:
                return list(latest)
    return []


def _changes(reader: TopicReader, partitions: list[int], key: bytes) -> Iterator[PublishedChange]:
    for partition in partitions:
        before: dict[str, Any] = {}
        for stored in reader.read(partition):
            if stored.record.key == key:
                body = summary_body(stored)
                yield _change(stored, body, before)
                before = body


def summary_body(stored: Stored) -> dict[str, Any]:
    """The fields of a summary change, none of a tombstone. Raises SurroundingsError where it is neither."""
    record = stored.record
    if record.value is None:
        return {}
    try:
        return msgspec.json.decode(record.value, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise SurroundingsError(
            f"the message at offset {record.offset} of {record.topic} [{record.partition}] is no summary change ({error}): "
            "look at COVERSUMM_OUTPUT_TOPIC"
        ) from error


def _change(stored: Stored, body: dict[str, Any], before: dict[str, Any]) -> PublishedChange:
    """What the body changed, with the texts of what it removed by the body before it in the topic."""
    record = stored.record
    previous = body.get("previous_sequence")
    incomplete = previous is not None and previous != before.get("sequence")
    texts, texts_before = _texts(body), {} if incomplete else _texts(before)
    removed = body.get("removed", [])
    return PublishedChange(
        partition=record.partition,
        offset=record.offset,
        published_at=timestamp(record.timestamp_ms),
        tombstone=record.value is None,
        epoch=body.get("epoch"),
        sequence=body.get("sequence"),
        previous_sequence=previous,
        incomplete=incomplete,
        occurred_at=body.get("occurred_at"),
        cause=body.get("cause"),
        added=body.get("added", []),
        removed=removed,
        added_texts={one: texts[one] for one in body.get("added", []) if one in texts},
        removed_texts={one: texts_before.get(one) for one in removed},
        sentences=len(body.get("sentences", [])),
        sentence_count=body.get("sentence_count"),
        review_count=body.get("review_count"),
    )


def _texts(body: dict[str, Any]) -> dict[str, str]:
    """By sentence id the texts of a summary."""
    sentences = body.get("sentences", [])
    return {one["sentence_id"]: one["text"] for one in sentences if "sentence_id" in one and "text" in one}
