"""Lines of a JSONL file: events as they are, bare reviews as unversioned `review.upserted` events."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import msgspec

from worker.events.fields import is_timestamp

_KEPT: Final = ("entity_id", "review_id", "text", "rating", "language", "sentences", "embedding_model")


class Line(NamedTuple):
    """What a line is on Kafka; key None where no entity_id can be read."""

    key: bytes | None
    value: bytes


def read_line(line: bytes) -> Line:
    """Key and value of one line, which is not blank.

    An object without `type` is a bare review (`entity_id, review_id, text, ...`): its known fields make the event, except a
    version; `created_at` becomes `occurred_at` where that is missing, if it is an RFC 3339 timestamp. Every other line goes
    on unchanged, broken ones too: `decode` says what is wrong with them. Never raises.

    >>> read_line(b'{"entity_id": "B00X", "review_id": "r-81", "text": "Good.", "stars": 5}')
    Line(key=b'B00X', value=b'{"type":"review.upserted","entity_id":"B00X","review_id":"r-81","text":"Good."}')
    """
    line = line.strip()
    try:
        body = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return Line(None, line)
    if not isinstance(body, dict):
        return Line(None, line)
    entity_id = body.get("entity_id")
    key = entity_id.encode() if isinstance(entity_id, str) and entity_id else None
    return Line(key, line if "type" in body else _event(body))


def _event(review: dict[str, Any]) -> bytes:
    event = {"type": "review.upserted"} | {name: review[name] for name in _KEPT if name in review}
    occurred_at = review.get("occurred_at")
    if occurred_at is None:
        created_at = review.get("created_at")
        if isinstance(created_at, str) and is_timestamp(created_at):
            occurred_at = created_at
    if occurred_at is not None:
        event["occurred_at"] = occurred_at
    return msgspec.json.encode(event)
