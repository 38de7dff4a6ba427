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
from sys import float_info
from typing import Any, Final, NamedTuple

import msgspec

from worker.events.dates import to_timestamp
from worker.events.json_codec import without_halves

FIELDS: Final = (
    *("entity_id", "review_id", "text", "rating", "language", "sentences", "embedding_model"),
    *("occurred_at", "verified", "country", "author_id"),
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
UNESCAPE: Final = "unescape"
"""Key beside fields that map names: texts have line breaks as a backslash and an n."""
DATES: Final = "dates"
"""Likewise: the form of dates, of `datetime.strptime`."""
BYTES: Final = "bytes"
"""Likewise: how bytes of ids are written, `hex`."""
WHERE: Final = "where "
"""Likewise begins the name of a member that has one of the values, joined by `|`, in each review
that is read; in `Reading.left_out` it counts the others.
"""
BREAKS: Final = "line breaks"
HALVES: Final = "halves"
"""Values of reviews that are kept, in `Reading.left_out`: such line breaks, half of an emoji."""
_ESCAPED: Final = re.compile(r"""\\([nrt"'/\\])""")
_CONTROLS: Final = {"n": "\n", "r": "\r", "t": "\t"}


class ParsedLine(NamedTuple):
    """A line as key and value on Kafka; key None if no entity_id can be read."""

    key: bytes | None
    value: bytes


SKIPPED: Final = ParsedLine(None, b"")
"""The line of a review that WHERE leaves out."""


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
    has_halves = False
    try:
        body = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        body, has_halves = _lenient(line), without_halves(line) != line
    if not isinstance(body, dict):
        return Reading(ParsedLine(None, line), {})
    if _is_bare(body, fields):
        reading = read_review(body, fields)
    else:
        reading = Reading(ParsedLine(_key(body), line), {})
    if has_halves:
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


def value_at(row: Mapping[str, Any], source: str) -> Any:
    """The value of a member; without one of this name that at a dotted path, or of several names
    with + between them their values with - between these. None if there is none.

    >>> value_at({"_id": {"$oid": "66b2"}, "shop": "de", "no": 7}, "shop+_id.$oid+no")
    'de-66b2-7'
    """
    if source in row:
        return row[source]
    first, plus, rest = source.partition("+")
    if plus:
        parts = [_id(value_at(row, part)) for part in (first, rest)]
        return "-".join(parts) if all(isinstance(part, str) and part for part in parts) else None
    above, dot, rest = source.partition(".")
    within = row.get(above) if dot else None
    return value_at(within, rest) if isinstance(within, Mapping) else None


def _is_wanted(review: Mapping[str, Any], fields: Mapping[str, str]) -> bool:
    for name, wanted in fields.items():
        if name.startswith(WHERE):
            value = value_at(review, name.removeprefix(WHERE))
            shown = json.dumps(value) if isinstance(value, bool) else str(_id(value))
            if ("" if value is None else shown) not in wanted.split("|"):
                return False
    return True


def read_review(review: Mapping[str, Any], fields: Mapping[str, str] = _NO_FIELDS) -> Reading:
    """A bare review with JSON's values; `fields` maps names of FIELDS to the members to read
    instead.

    Ids that are numbers become text, ratings that are text become numbers; `occurred_at`, or else
    `created_at`, becomes RFC 3339. A rating, date, language, `verified`, country or author without
    a sure meaning is dropped. A text that is empty or null stays, and is reported: the review has
    no sentence. One with a rating and without a text member has none either.

    >>> review = {"asin": "B00X", "id": 81, "text": "Good.", "occurred_at": "03/04/2019"}
    >>> line, left_out = read_review(review, {"entity_id": "asin", "review_id": "id"})
    >>> line.value
    b'{"type":"review.upserted","entity_id":"B00X","review_id":"81","text":"Good."}'
    >>> left_out
    {'occurred_at': '03/04/2019'}
    """
    if not _is_wanted(review, fields):
        return Reading(SKIPPED, {WHERE: None})
    found = {
        name: value
        for name in FIELDS
        if (value := value_at(review, source := fields.get(name, name))) is not None
        or source in review
    }
    event: dict[str, Any] = {"type": "review.upserted"}
    left_out: dict[str, Any] = {}
    for name, value in found.items():
        if name in _IDS:
            event[name] = _id(value)
        elif name == "rating":
            _keep(name, value, _number(value), event, left_out)
        elif name == "verified":
            _keep(name, value, to_boolean(value), event, left_out)
        elif name in ("language", "country", "author_id"):
            text = _id(value) if name == "author_id" else value
            # its type alone is reported: an author is personal data
            given = None if value is None else type(value).__name__
            _keep(name, given, text if isinstance(text, str) else None, event, left_out)
        elif name != "occurred_at":
            event[name] = value
    date = found.get("occurred_at")
    if date is None and "occurred_at" not in fields:
        date = review.get("created_at")
    _keep("occurred_at", date, to_timestamp(date, fields.get(DATES)), event, left_out)
    if "rating" in event and found.keys().isdisjoint(("text", "sentences")):
        event["text"] = found["text"] = None
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


def _lenient(line: bytes) -> Any:
    """A line with lone surrogates, which stay in its texts, with numbers that no float holds, which
    are infinite, or with NaN or Infinity, which are null; None for any other line.
    """
    with suppress(ValueError, RecursionError):
        return json.loads(
            line.decode(),
            parse_constant=lambda _: None,
            parse_int=lambda digits: int(digits) if len(digits) < 4300 else math.inf,
        )
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
        left_out[name] = given


def _id(value: Any) -> Any:
    """A number as text, without a zero after its point; `decode` judges other values."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        value = int(value)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    with suppress(ValueError):  # of more digits than Python writes
        return str(value) if is_number and abs(value) != math.inf else value
    return value


def to_boolean(value: object) -> bool | None:
    """Yes or no as sources write it, in words, letters or 1 and 0; None for anything else.

    >>> to_boolean("Yes"), to_boolean(0), to_boolean("bought")
    (True, False, None)
    """
    if isinstance(value, int | float):
        return bool(value) if value in (0, 1) else None
    return _WORDS.get(value.strip().lower()) if isinstance(value, str) else None


def _number(value: Any) -> float | None:
    """A finite number, also as text."""
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        digits = value.strip()
        value = float(digits)
        # Python parses no more than 4,300 digits as an integer, leading zeros included.
        if digits.isdigit() and math.isfinite(value):
            return int(digits.lstrip("0") or "0")
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if is_number and abs(value) <= float_info.max else None
