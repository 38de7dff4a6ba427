"""Lines of files: events as they are, bare reviews as unversioned `review.upserted` events.

A bare review is what people have in their files, so its forms are taken more liberally than those of an event: ids may be
numbers, dates may be written in other ways than RFC 3339 (`dates.py`), ratings may be text. What cannot be read for sure is
left out and named, never silently.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec

from worker.events.dates import to_timestamp

FIELDS: Final = (
    "entity_id",
    "review_id",
    "text",
    "rating",
    "language",
    "sentences",
    "embedding_model",
    "occurred_at",
)
"""What a bare review may have; never a version."""

_IDS: Final = ("entity_id", "review_id")
_NO_FIELDS: Final[Mapping[str, str]] = {}
_NUMBER: Final = re.compile(
    r"\s*[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:e[+-]?[0-9]{1,2})?\s*", re.ASCII | re.IGNORECASE
)


class Line(NamedTuple):
    """What a line is on Kafka; key None where no entity_id can be read."""

    key: bytes | None
    value: bytes


class Reading(NamedTuple):
    """A line as it is on Kafka, and what of a bare review's fields had no sure meaning and was left out."""

    line: Line
    left_out: dict[str, Any]


def read_line(line: bytes) -> Line:
    """Key and value of one line of JSON, which is not blank; see `read_json`.

    >>> read_line(b'{"entity_id": "B00X", "review_id": 81, "text": "Good.", "stars": 5}')
    Line(key=b'B00X', value=b'{"type":"review.upserted","entity_id":"B00X","review_id":"81","text":"Good."}')
    """
    return read_json(line).line


def read_json(line: bytes, fields: Mapping[str, str] = _NO_FIELDS) -> Reading:
    """One line of JSON, which is not blank. Never raises.

    An object without `type` is a bare review (`read_review`). Every other line goes on unchanged, broken ones too: `decode`
    says what is wrong with them.
    """
    line = line.strip()
    try:
        body = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return Reading(Line(None, line), {})
    if not isinstance(body, dict):
        return Reading(Line(None, line), {})
    return read_review(body, fields) if "type" not in body else Reading(Line(_key(body), line), {})


def read_row(row: Mapping[str, Any], fields: Mapping[str, str] = _NO_FIELDS) -> Reading:
    """A row whose columns may be nested, as the same object would be read from a line of JSON; bytes are base64 there."""
    if "type" not in row:
        return read_review(row, fields)
    return Reading(Line(_key(row), msgspec.json.encode(row)), {})


def read_review(review: Mapping[str, Any], fields: Mapping[str, str] = _NO_FIELDS) -> Reading:
    """A bare review, its values as JSON has them; `fields` names the members that stand for some of FIELDS.

    Known fields make the event. Ids that are numbers become text, ratings that are text numbers; `occurred_at`, or else
    `created_at`, becomes RFC 3339. A rating or date without a sure meaning is left out.

    >>> review = {"asin": "B00X", "id": 81, "text": "Good.", "occurred_at": "03/04/2019"}
    >>> line, left_out = read_review(review, {"entity_id": "asin", "review_id": "id"})
    >>> line.value, left_out
    (b'{"type":"review.upserted","entity_id":"B00X","review_id":"81","text":"Good."}', {'occurred_at': '03/04/2019'})
    """
    found = {name: review[source] for name in FIELDS if (source := fields.get(name, name)) in review}
    event: dict[str, Any] = {"type": "review.upserted"}
    left_out: dict[str, Any] = {}
    for name, value in found.items():
        if name in _IDS:
            event[name] = _id(value)
        elif name == "rating" and isinstance(value, str):
            _keep(name, value, _number(value), event, left_out)
        elif name != "occurred_at":
            event[name] = value
    date = found.get("occurred_at")
    if date is None and "occurred_at" not in fields:
        date = review.get("created_at")
    _keep("occurred_at", date, to_timestamp(date), event, left_out)
    return Reading(Line(_key(event), msgspec.json.encode(event)), left_out)


def _key(event: Mapping[str, Any]) -> bytes | None:
    entity_id = event.get("entity_id")
    return entity_id.encode() if isinstance(entity_id, str) and entity_id else None


def _keep(name: str, given: object, value: object, event: dict[str, Any], left_out: dict[str, Any]) -> None:
    if value is not None:
        event[name] = value
    elif given is not None and not (isinstance(given, str) and not given.strip()):
        left_out[name] = given


def _id(value: object) -> object:
    """A number as its text; anything else as it is, for `decode` to judge."""
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


def _number(text: str) -> float | None:
    if not _NUMBER.fullmatch(text):
        return None
    return int(text) if text.strip().isdigit() else float(text)
