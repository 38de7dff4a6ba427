"""Output: summary changes and tombstones (CloudEvents, binary mode), dead letters (`dlq.*`
headers).

The same state and record give the same bytes and headers; the wall clock is not used.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from hashlib import sha1
from typing import Final, NamedTuple
from uuid import NAMESPACE_URL

from worker.events.codec import DEFAULT, OutputCodec
from worker.events.inputs import EVENT_TYPES, EntityDeleted, Record
from worker.events.publishing import OutputTopic
from worker.events.reasons import Rejected

CE_SOURCE: Final = "coversumm-worker"
TRUNCATED_BYTES: Final = 64 * 2**10  # length of a key or value truncated for the dead-letter topic

TRUNCATED_HEADERS: Final = ("dlq.truncated_bytes", "dlq.truncated_key_bytes", "dlq.dropped_headers")
"""Headers of a truncated dead letter: how many bytes of its value or key were cut off, and how many
headers were dropped."""

ATTEMPTS: Final = "dlq.attempts"
"""Header of a record and of its dead letter: how often `dlq send` has sent the record again."""

TRUNCATION_HEADER_BYTES: Final = 256
"""Upper bound of all `TRUNCATED_HEADERS` of a message."""

MAX_DETAIL_BYTES: Final = 1024

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Message(NamedTuple):
    """One Kafka message to produce."""

    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes]]


def change_message(
    topic: OutputTopic,
    name: str,
    entity_id: str,
    epoch: int,
    occurred_at: str | None,
    value: bytes,
    record: Record,
    codec: OutputCodec = DEFAULT,
) -> Message:
    """A change of an entity, for the Kafka topic `name`; `record` is its cause."""
    identity = f"coversumm:{entity_id}:{epoch}:{record.offset}{topic.id_suffix}"
    headers = _cloud_event(identity, topic.event_type, occurred_at, record, codec)
    return Message(name, record.partition, entity_id.encode(), value, headers)


def tombstone_message(
    topic: OutputTopic,
    name: str,
    entity_id: str,
    epoch: int,
    occurred_at: str | None,
    record: Record,
) -> Message:
    """The end of an entity, for the Kafka topic `name`: a null value, which compaction removes.
    `record` is its cause.
    """
    identity = f"coversumm:{entity_id}:{epoch}:{record.offset}{topic.id_suffix}:tombstone"
    headers = _cloud_event(identity, EVENT_TYPES[EntityDeleted], occurred_at, record)
    return Message(name, record.partition, entity_id.encode(), None, headers)


def dead_letter_message(
    topic: str, record: Record, rejected: Rejected, worker_version: str, max_bytes: int
) -> Message:
    """The original key and value, untouched, to the same partition, with headers for reason and
    origin; then the record's own, if it has them.

    `max_bytes` is the topic's largest message. A value that does not fit is cut to its first 64
    KiB, and `dlq.truncated_bytes` is the number of bytes cut off; a key is cut the same way only if
    it alone does not fit (`dlq.truncated_key_bytes`). Headers that do not fit beside a value and a
    key of that length are dropped, and counted in `dlq.dropped_headers`. `dlq.missing` names what a
    client could not read.
    """
    key, value = record.key, record.value
    headers = [
        ("dlq.reason", rejected.reason.value.encode()),
        ("dlq.detail", _detail(rejected.detail)),
        ("dlq.source.topic", record.topic.encode()),
        ("dlq.source.partition", b"%d" % record.partition),
        ("dlq.source.offset", b"%d" % record.offset),
        ("dlq.worker.version", worker_version.encode()),
    ]
    if record.refused is not None:
        missing = "headers" if key or value else "key, value and headers"
        headers.append(("dlq.missing", missing.encode()))
    if (attempts := dict(record.headers).get(ATTEMPTS) or b"").isdigit() and len(attempts) < 20:
        headers.append((ATTEMPTS, attempts))
    own = [(name, raw) for name, raw in record.headers if raw is not None and name[:4] != "dlq."]
    room = max_bytes - TRUNCATION_HEADER_BYTES
    room -= message_bytes((key or b"")[:TRUNCATED_BYTES], (value or b"")[:TRUNCATED_BYTES], headers)
    dropped = 0
    for header in own:
        if (size := header_bytes(*header)) <= room:
            room -= size
            headers.append(header)
        else:
            dropped += 1
    if dropped:
        headers.append((TRUNCATED_HEADERS[2], b"%d" % dropped))
    if (
        value is not None
        and len(value) > TRUNCATED_BYTES
        and message_bytes(key, value, headers) > max_bytes
    ):
        headers.append((TRUNCATED_HEADERS[0], b"%d" % (len(value) - TRUNCATED_BYTES)))
        value = value[:TRUNCATED_BYTES]
    if (
        key is not None
        and len(key) > TRUNCATED_BYTES
        and message_bytes(key, value, headers) > max_bytes
    ):
        headers.append((TRUNCATED_HEADERS[1], b"%d" % (len(key) - TRUNCATED_BYTES)))
        key = key[:TRUNCATED_BYTES]
    return Message(topic, record.partition, key, value, headers)


def attempts_in(headers: Sequence[tuple[str, bytes | None]]) -> Sequence[tuple[str, bytes | None]]:
    """The headers ATTEMPTS among these: the only ones that a record has without a mapping."""
    return tuple(header for header in headers if header[0] == ATTEMPTS) if headers else ()


def message_bytes(key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes]]) -> int:
    """An upper bound of the message's size for brokers and librdkafka, overhead included."""
    return (
        128
        + len(key or b"")
        + len(value or b"")
        + sum(header_bytes(name, data) for name, data in headers)
    )


def header_bytes(name: str, data: bytes) -> int:
    """An upper bound of a header's size."""
    return 16 + len(name.encode()) + len(data)


def _detail(detail: str) -> bytes:
    raw = detail.encode(errors="backslashreplace")
    return (
        raw
        if len(raw) <= MAX_DETAIL_BYTES
        else raw[:MAX_DETAIL_BYTES].decode(errors="ignore").encode()
    )


_SOURCE: Final = ("ce_source", CE_SOURCE.encode())
_VERSION: Final = ("ce_specversion", b"1.0")
_NAMESPACE: Final = NAMESPACE_URL.bytes


def _cloud_event(
    name: str, ce_type: str, occurred_at: str | None, record: Record, codec: OutputCodec = DEFAULT
) -> list[tuple[str, bytes]]:
    headers = [("ce_id", _uuid5(name)), _SOURCE, ("ce_type", ce_type.encode()), _VERSION]
    if time := occurred_at or timestamp(record.timestamp_ms):
        headers.append(("ce_time", time.encode()))
    headers.append(("content-type", codec.CONTENT_TYPE))
    return headers


def _uuid5(name: str) -> bytes:
    """UUIDv5 in the URL namespace, in a sixth of the time of `uuid.uuid5`."""
    digest = sha1(_NAMESPACE + name.encode(), usedforsecurity=False).digest()
    digits = digest.hex()
    variant = "89ab"[digest[8] >> 4 & 3]
    first, last = (
        f"{digits[:8]}-{digits[8:12]}-5{digits[13:16]}",
        f"{digits[17:20]}-{digits[20:32]}",
    )
    return f"{first}-{variant}{last}".encode()


def timestamp(milliseconds: int) -> str | None:
    """RFC 3339 in UTC; None if Kafka has no timestamp (-1) or one beyond the year 9999."""
    if milliseconds < 0:
        return None
    try:
        moment = _EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return None
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
