"""The JSON codec: bodies of events in, bodies of summary changes out, errors in the contract's
words.

msgspec words an error the same way for parsed bytes and for a converted mapping, so other codecs
can use `unknown_type` and `body_of`.
"""

import re
from codecs import BOM_UTF8
from collections.abc import Iterable, Sequence
from itertools import accumulate, islice
from math import isfinite
from typing import Any, Final

import msgspec

from worker.events.inputs import EVENT_TYPES, Body, Head, ReviewDetails, UpsertBody
from worker.events.notes import NOTES
from worker.events.outputs import (
    SIDES,
    FacetsChanged,
    FacetSummary,
    RankedChange,
    RankedQuotes,
    SummaryChanged,
    summary_sentence,
)
from worker.events.reasons import BadEvent, Reason, shown

_FAULT: Final = re.compile(r"(.*?)(?: - at `\$\.?(.*)`)?", re.DOTALL)
_MISSING: Final = re.compile(r"Object missing required field (\w+)")
_IN_EMBEDDING: Final = re.compile(r"sentences\[\d+\]\.embedding")


def unknown_type(name: bytes) -> BadEvent:
    """The error for an unknown type; `name` is the type as written, empty if missing."""
    types = ", ".join(EVENT_TYPES.values())
    return BadEvent(
        Reason.UNKNOWN_TYPE, f"type: {shown(name)} is none of {types}" if name else "type: missing"
    )


def wrong_field(error: msgspec.DecodeError) -> BadEvent:
    """The error for one field of a body of a known type, in the contract's words."""
    fault = _FAULT.fullmatch(str(error))
    assert fault is not None  # both parts may be missing
    message, path = fault[1].replace("`", ""), fault[2] or ""
    if missing := _MISSING.match(message):
        return BadEvent(Reason.BAD_FIELD, f"{path}{'.' if path else ''}{missing[1]}: missing")
    if path == "type":
        return BadEvent(Reason.BAD_FIELD, "type: given twice, differently")
    if _IN_EMBEDDING.match(path) and ("base64" in message or "out of range" in message):
        return BadEvent(Reason.BAD_VECTOR, f"{path}: {message}")
    if "matching regex" in message:
        message = "Expected an RFC 3339 timestamp"
    return BadEvent(Reason.BAD_FIELD, f"{path}: {message}")


def body_of(members: dict[str, Any], kind: type[Body]) -> Body:
    """The body of a known type that another format has decoded. Raises BadEvent."""
    items = members.get("sentences")
    if type(items) is list:
        for position, item in enumerate(items):
            if type(item) is dict and "labels" in item:
                item["labels"] = _raw(item["labels"], f"sentences[{position}].labels")
    try:
        body: Body = msgspec.convert(members, kind)
    except msgspec.ValidationError as error:
        raise wrong_field(error) from None
    if isinstance(body, UpsertBody) and body.rating is not None and not isfinite(body.rating):
        raise BadEvent(Reason.BAD_FIELD, f"rating: {body.rating} is not a number of JSON")
    return body


def _raw(value: Any, where: str) -> msgspec.Raw:
    """The raw JSON of a field that is checked only if it is used."""
    try:
        return msgspec.Raw(_encode_body(value))
    except (TypeError, ValueError, OverflowError):
        raise BadEvent(Reason.BAD_FIELD, f"{where}: Expected an array of strings") from None


CONTENT_TYPE: Final = b"application/json"
MAX_DEPTH: Final = 256
"""Deepest nesting of arrays and objects. The interpreter's limit varies by caller and version."""

_decode_body: Final = msgspec.json.Decoder(Body).decode
_decode_any: Final = msgspec.json.Decoder().decode
_decode_head: Final = msgspec.json.Decoder(Head).decode
_check_syntax: Final = msgspec.json.Decoder(msgspec.Raw).decode
_encode_body: Final = msgspec.json.Encoder().encode


def decode(value: bytes) -> Body:
    """The body in `value`: one JSON object in UTF-8, nested at most MAX_DEPTH deep.

    Raises BadEvent: `bad_json`, `unknown_type`, `bad_field`, or `bad_vector` (an embedding's number
    or base64 is invalid).
    """
    value = value.removeprefix(BOM_UTF8)
    _check_bytes(value)
    try:
        body: Body = _decode_body(value)
    except msgspec.DecodeError as error:
        whole = without_halves(value)
        if whole == value:
            raise _diagnose(value, error) from None
        body = decode(whole)
        check_ids(body, value)
        NOTES.records += 1
    return body


def parse(value: bytes) -> Any:
    """Any JSON value in UTF-8, nested at most MAX_DEPTH deep. Raises BadEvent `bad_json`."""
    value = value.removeprefix(BOM_UTF8)
    _check_bytes(value)
    try:
        return _decode_any(value)
    except (msgspec.DecodeError, ValueError) as error:  # an integer of thousands of digits
        if (whole := without_halves(value)) != value:
            NOTES.values += 1
            return parse(whole)
        raise BadEvent(Reason.BAD_JSON, str(error)) from None


def encode(body: SummaryChanged | FacetsChanged) -> bytes:
    """Compact JSON, fields in the contract's order, UTF-8 unescaped."""
    return _encode_body(body)


_NO_SENTENCES: Final = b'"sentences":[]'
"""Occurs once in a body, since strings are escaped: where its sentences belong."""
_SETS: Final = [b'"%s":' % name.encode() for name in ("sentences", *SIDES)]
"""In the order of the fields of a facet."""
_NO_FACETS: Final = b'"facets":[]'
_HEAD: Final = len(b'{"rank":0')
_TAIL: Final = len(b'0.0,"support":1}')
_RANKS: Final = [b',{"rank":%d' % rank for rank in range(1000)]
_ALONE: Final = b',"support":1}'


def quote(sentence_id: str, review_id: str, text: str, details: ReviewDetails) -> bytes:
    """The part of a sentence that is the same in every message: the middle of its object."""
    sentence = summary_sentence(0, sentence_id, review_id, text, details, 0.0, 1)
    return _encode_body(sentence)[_HEAD:-_TAIL]


def encode_ranked(changes: Sequence[RankedChange]) -> list[bytes]:
    """The values of many changes: the bytes that `encode` gives for bodies with these sentences.

    A set changes by a sentence or two, so a sentence is encoded once, when it enters the set, and
    the numbers of all messages together.
    """
    numbers = iter(_numbers([distance for change in changes for distance in change.distances]))
    values = []
    for body, quotes, distances, support in changes:
        sentences = _sentences(quotes, islice(numbers, len(distances)), support)
        head, _, tail = _encode_body(body).partition(_NO_SENTENCES)
        values.append(b"".join((head, b'"sentences":', sentences, tail)))
    return values


def encode_facet(
    facet: FacetSummary, sentences: RankedQuotes, sides: Sequence[RankedQuotes] = ()
) -> bytes:
    """A facet of a `facets.changed`, given without its sentences, as `encode` writes it."""
    parts, rest = [], _encode_body(facet)
    for name, (quotes, distances, support) in zip(_SETS, (sentences, *sides), strict=False):
        before, _, rest = rest.partition(name + b"[]")
        parts += [before, name, _sentences(quotes, _numbers(list(distances)), support)]
    return b"".join((*parts, rest))


def encode_facets(body: FacetsChanged, facets: Sequence[bytes]) -> bytes:
    """The value of a change of facets, from a body without them and the parts of
    `encode_facet`.
    """
    head, _, tail = _encode_body(body).partition(_NO_FACETS)
    return b"".join((head, b'"facets":[', b",".join(facets), b"]", tail))


def _sentences(quotes: Sequence[bytes], numbers: Iterable[bytes], support: Sequence[int]) -> bytes:
    """An array of these sentences, in rank order."""
    count = len(quotes)
    parts = [b""] * (4 * count)
    parts[::4] = (
        _RANKS[:count] if count <= len(_RANKS) else [b',{"rank":%d' % rank for rank in range(count)]
    )
    parts[1::4] = quotes
    parts[2::4] = numbers
    parts[3::4] = [_ALONE if copies == 1 else b',"support":%d}' % copies for copies in support]
    return b"".join((b"[", b"".join(parts)[1:], b"]"))


def _numbers(numbers: list[float]) -> list[bytes]:
    """Each number as the encoder writes it."""
    return _encode_body(numbers)[1:-1].split(b",") if numbers else []


def _check_bytes(value: bytes) -> None:
    if not value.isascii():
        _check_utf8(value)
    if value.count(b"[") + value.count(b"{") > MAX_DEPTH and _depth(value) > MAX_DEPTH:
        raise BadEvent(Reason.BAD_JSON, f"nested deeper than {MAX_DEPTH} levels")


HALF: Final = re.compile(rb"\xed[\xa0-\xbf]")  # of a pair of surrogates, encoded alone


def _check_utf8(value: bytes) -> None:
    """The decoder does not look into fields it skips."""
    try:
        value.decode()
    except UnicodeDecodeError as error:
        half = ", half of a UTF-16 character" if HALF.match(value, error.start) else ""
        raise BadEvent(Reason.BAD_JSON, f"not UTF-8{half} (byte {error.start})") from None


_ESCAPE: Final = re.compile(rb"\\.", re.DOTALL)
_STRING: Final = re.compile(rb'"[^"]*"')
_NO_STRUCTURE: Final = bytes(sorted(set(range(256)) - set(b'[]{}"')))
_STEP: Final = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1, ord('"'): 0}


def _depth(value: bytes) -> int:
    """Deepest nesting of arrays and objects outside strings, if `value` is JSON."""
    if b"\\" in value:
        value = _ESCAPE.sub(b"", value)
    structure = _STRING.sub(b"", value.translate(None, _NO_STRUCTURE))
    return max(accumulate(_STEP[byte] for byte in structure), default=0)


_LOST: Final = "\ufffd"
_ESCAPED: Final = re.compile(
    rb"(\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\[^u])"
    rb"|\\u[dD][89a-fA-F][0-9a-fA-F]{2}",
    re.DOTALL,
)


def without_halves(value: bytes) -> bytes:
    """The text with U+FFFD for each half of a pair of surrogates: a text that was cut within an
    emoji has one.
    """
    return _ESCAPED.sub(lambda found: found[1] or _LOST.encode(), value)


def check_ids(body: Body, value: bytes | None) -> None:
    """Raise BadEvent if an id has lost a character of which `value` has half."""
    for name in ("entity_id", "review_id"):
        if _LOST in getattr(body, name, "") and value and without_halves(value) != value:
            raise BadEvent(Reason.BAD_FIELD, f"{name}: it has half of a pair of surrogates")


def _diagnose(value: bytes, error: msgspec.DecodeError) -> BadEvent:
    """Why `value` did not decode. `error` may be a wrong field that comes before bad syntax."""
    try:
        _check_syntax(value)
    except msgspec.DecodeError as syntax:
        return BadEvent(Reason.BAD_JSON, str(syntax))
    try:
        name = _decode_head(value).type
    except msgspec.ValidationError as shape:
        return BadEvent(Reason.BAD_FIELD, str(shape).replace("`", ""))
    return wrong_field(error) if _is_known_type(name) else unknown_type(bytes(name))


def _is_known_type(raw: msgspec.Raw) -> bool:
    try:
        return msgspec.json.decode(raw, type=str) in EVENT_TYPES.values()
    except msgspec.DecodeError:
        return False
