"""Lines of files: events unchanged, bare reviews as unversioned `review.upserted` events.

A bare review may be written more freely than an event: ids may be numbers, dates need not be RFC
3339 (`dates.py`), ratings may be text. A value without a sure meaning is dropped and reported.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple

import msgspec

from worker.events.dates import to_timestamp
from worker.events.json_codec import without_halves

FIELDS: Final = (
    "entity_id",
    "review_id",
    "text",
    "rating",
    "language",
    "sentences",
    "embedding_model",
    "occurred_at",
    "verified",
    "country",
    "author_id",
)  # of a bare review; never a version

_IDS: Final = ("entity_id", "review_id")
_NO_FIELDS: Final[Mapping[str, str]] = {}
_NUMBER: Final = re.compile(
    r"\s*[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:e[+-]?[0-9]{1,2})?\s*", re.ASCII | re.IGNORECASE
)
_WORDS: Final = {
    **dict.fromkeys(("true", "t", "yes", "y", "1"), True),
    **dict.fromkeys(("false", "f", "no", "n", "0"), False),
}
_TOO_LARGE: Final = msgspec.Raw(b"1e999")
"""Replaces a number that no float holds: `decode` rejects the event with `Number out of range`."""
UNESCAPE: Final = "unescape"
"""Key beside fields that map names: texts have line breaks as a backslash and an n."""
BREAKS: Final = "line breaks"
HALVES: Final = "halves"
"""Values of reviews that are kept, in `Reading.left_out`: such line breaks, half of an emoji."""
_ESCAPED: Final = re.compile(r"""\\([nrt"'/\\])""")
_CONTROLS: Final = {"n": "\n", "r": "\r", "t": "\t"}


class ParsedLine(NamedTuple):
    """A line as key and value on Kafka; key None if no entity_id can be read."""

    key: bytes | None
    value: bytes


class Reading(NamedTuple):
    """A parsed line, and the values of a bare review that were dropped, or want a warning."""

    line: ParsedLine
    left_out: dict[str, Any]


def read_line(line: bytes) -> ParsedLine:
    """Key and value of one line of JSON, which is not blank; see `read_json`.

    >>> read_line(b'{"entity_id": "B00X", "review_id": 81, "text": "Good.", "stars": 5}').value
    b'{"type":"review.upserted","entity_id":"B00X","review_id":"81","text":"Good."}'
    """
    return read_json(line).line


def read_json(line: bytes, fields: Mapping[str, str] = _NO_FIELDS) -> Reading:
    """Parse one line of JSON, which is not blank. Never raises.

    An object without `type`, or with one of its own, is a bare review (`read_review`). Every other
    line stays unchanged, broken ones too: `decode` reports what is wrong with them.
    """
    line = line.strip()
    halves = None
    try:
        body = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        if "out of range" in str(error):
            body = _members(line)
        else:
            body = halves = _with_halves(line)
    if not isinstance(body, dict):
        return Reading(ParsedLine(None, line), {})
    if _is_bare(body, fields):
        reading = read_review(body, fields)
    else:
        reading = Reading(ParsedLine(_key(body), line), {})
    if halves is not None:
        reading.left_out[HALVES] = None
    return reading


def _is_bare(row: Mapping[str, Any], fields: Mapping[str, str]) -> bool:
    """True if it is a review without `type`, or with a type of the source's own, like Yelp's
    `review`: beside a review's fields, and not the misspelt name of an event.
    """
    if "type" not in row:
        return True
    type_ = row["type"]
    is_event = (isinstance(type_, str) and "." in type_) or "review_version" in row
    ids, bodies = (
        [fields.get(name, name) in row for name in names] for names in (_IDS, ("text", "sentences"))
    )
    return not is_event and all(ids) and any(bodies)


def unescaped(text: str) -> str:
    r"""The text with the characters that its escapes stand for.

    >>> unescaped(r"Clean.\nA \"kind\" host.")
    'Clean.\nA "kind" host.'
    """
    return _ESCAPED.sub(lambda found: _CONTROLS.get(found[1], found[1]), text)


def read_row(row: Mapping[str, Any], fields: Mapping[str, str] = _NO_FIELDS) -> Reading:
    """A row, possibly with nested columns, read like the same object in JSON; bytes become base64.

    Never raises for values that JSON knows: a row that cannot be encoded becomes a line without a
    key that `decode` rejects.
    """
    return read_review(row, fields) if _is_bare(row, fields) else Reading(_line(row), {})


def read_review(review: Mapping[str, Any], fields: Mapping[str, str] = _NO_FIELDS) -> Reading:
    """A bare review with JSON's values; `fields` maps names of FIELDS to the members to read
    instead.

    Ids that are numbers become text, ratings that are text become numbers; `occurred_at`, or else
    `created_at`, becomes RFC 3339. A rating, date, `verified`, country or author without a sure
    meaning is dropped. A text that is empty or null stays, and is reported: the review has no
    sentence.

    >>> review = {"asin": "B00X", "id": 81, "text": "Good.", "occurred_at": "03/04/2019"}
    >>> line, left_out = read_review(review, {"entity_id": "asin", "review_id": "id"})
    >>> line.value
    b'{"type":"review.upserted","entity_id":"B00X","review_id":"81","text":"Good."}'
    >>> left_out
    {'occurred_at': '03/04/2019'}
    """
    found = {
        name: review[source] for name in FIELDS if (source := fields.get(name, name)) in review
    }
    event: dict[str, Any] = {"type": "review.upserted"}
    left_out: dict[str, Any] = {}
    for name, value in found.items():
        if name in _IDS:
            event[name] = _id(value)
        elif name == "rating" and isinstance(value, str):
            _keep(name, value, _number(value), event, left_out)
        elif name == "rating" and isinstance(value, float):
            event[name] = _finite(value)
        elif name == "verified":
            _keep(name, value, to_boolean(value), event, left_out)
        elif name in ("country", "author_id"):
            text = _id(value) if name == "author_id" else value
            # its type alone is reported: an author is personal data
            given = None if value is None else type(value).__name__
            _keep(name, given, text if isinstance(text, str) else None, event, left_out)
        elif name != "occurred_at":
            event[name] = value
    date = found.get("occurred_at")
    if date is None and "occurred_at" not in fields:
        date = review.get("created_at")
    _keep("occurred_at", date, to_timestamp(date), event, left_out)
    text = found.get("text")
    if isinstance(text, str) and "\\" in text:
        if UNESCAPE in fields:
            event["text"] = unescaped(text)
        elif r"\n" in text:
            left_out[BREAKS] = text
    is_blank = not text.strip() if isinstance(text, str) else text is None and "text" in found
    if is_blank and found.get("sentences") is None:
        left_out["text"] = text
    return Reading(_line(event), left_out)


def _members(line: bytes) -> dict[str, Any] | None:
    """The members of an object, numbers out of range unparsed; None if anything else is wrong."""
    members: dict[str, Any] = {}
    try:
        line.decode()
        for name, raw in msgspec.json.decode(line, type=dict[str, msgspec.Raw]).items():
            try:
                members[name] = msgspec.json.decode(raw)
            except msgspec.DecodeError as error:
                if "out of range" not in str(error):
                    return None
                members[name] = raw
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return members


def _with_halves(line: bytes) -> Any:
    """A line with lone surrogates, which stay in its texts; None for any other line."""
    with suppress(ValueError, RecursionError):
        return json.loads(line) if without_halves(line) != line else None
    return None


def _line(event: Mapping[str, Any]) -> ParsedLine:
    """The line in JSON. A lone surrogate stays an escape, which `decode` judges."""
    try:
        return ParsedLine(_key(event), msgspec.json.encode(event))
    except ValueError as error:
        with suppress(ValueError):  # an integer of more digits than Python writes
            return ParsedLine(_key(event), json.dumps(event, default=str).encode())
        return ParsedLine(None, str(error).encode())


def _key(event: Mapping[str, Any]) -> bytes | None:
    entity_id = event.get("entity_id")
    with suppress(UnicodeEncodeError):  # a lone surrogate
        return entity_id.encode() if isinstance(entity_id, str) and entity_id else None
    return None


def _keep(
    name: str, given: object, value: object, event: dict[str, Any], left_out: dict[str, Any]
) -> None:
    if value is not None:
        event[name] = value
    elif given is not None and not (isinstance(given, str) and not given.strip()):
        left_out[name] = bytes(given).decode() if isinstance(given, msgspec.Raw) else given


def _id(value: object) -> object:
    """A number as text, without a zero after its point; `decode` judges other values."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        value = int(value)
    with suppress(ValueError):  # of more digits than Python writes
        return (
            str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value
        )
    return value


def to_boolean(value: object) -> bool | None:
    """Yes or no as sources write it, in words, letters or 1 and 0; None for anything else.

    >>> to_boolean("Yes"), to_boolean(0), to_boolean("bought")
    (True, False, None)
    """
    if isinstance(value, int | float):
        return bool(value) if value in (0, 1) else None
    return _WORDS.get(value.strip().lower()) if isinstance(value, str) else None


def _number(text: str) -> float | msgspec.Raw | None:
    if not _NUMBER.fullmatch(text):
        return None
    digits = text.strip()
    number = _finite(float(digits))
    # Python parses no more than 4,300 digits as an integer, leading zeros included.
    return (
        int(digits.lstrip("0") or "0") if digits.isdigit() and isinstance(number, float) else number
    )


def _finite(number: float) -> float | msgspec.Raw:
    return _TOO_LARGE if math.isinf(number) else number
