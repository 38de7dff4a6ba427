"""Raw Kafka records to checked events: one call for a micro-batch, one result for each record.

Bad input is a result, never an exception. The first check that fails names the reason: `too_large`,
`bad_json`, `unknown_type`, `bad_field`, `no_key`, `key_mismatch`, `text_too_long` (of the whole text),
`too_many_sentences`, `wrong_model`; then sentence by sentence `text_too_long`, `no_embedding`, `bad_vector`
(no whole numbers), `wrong_dimension`; at last `bad_vector`. A result depends on the record's bytes and the
limits alone, so that a record read again after a crash has the same fate.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Sequence
from itertools import accumulate
from typing import Final, NamedTuple

import msgspec
import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from worker.events.model import (
    EVENT_TYPES,
    MAX_ID_CHARS,
    EntityDeleted,
    Event,
    GivenSentence,
    Limits,
    Reason,
    Record,
    Rejected,
    ReviewDeleted,
    ReviewUpserted,
    SentenceBody,
    SentencesDeleted,
    UpsertBody,
)
from worker.events.vectors import VectorPool
from worker.limits import Limit

MAX_DEPTH: Final = 256
"""Deepest nesting of arrays and objects. A limit of our own: the interpreter's depends on who calls and on
its version."""

_Body = UpsertBody | ReviewDeleted | SentencesDeleted | EntityDeleted
_TYPES: Final = tuple(EVENT_TYPES.values())


class _Head(msgspec.Struct):
    type: msgspec.Raw = msgspec.Raw()


_decode_body: Final = msgspec.json.Decoder(_Body).decode
_decode_head: Final = msgspec.json.Decoder(_Head).decode
_check_syntax: Final = msgspec.json.Decoder(msgspec.Raw).decode


class _BadEventError(Exception):
    """Ends the checks of a record; never leaves this module."""

    def __init__(self, reason: Reason, detail: str, limit: Limit | None = None) -> None:
        self.rejected = Rejected(reason, detail, limit)


class _Draft(NamedTuple):
    """An upsert whose vectors are still in the pool: a row or None for each sentence."""

    body: UpsertBody
    rows: list[int | None]


def decode(records: Sequence[Record], limits: Limits) -> list[Event | Rejected]:
    """One result for each record, in order."""
    pool = VectorPool(limits.dimension)
    checked = [_check(record, limits, pool) for record in records]
    vectors, no_vectors = pool.quantize()
    return [_upserted(one, vectors, no_vectors) if isinstance(one, _Draft) else one for one in checked]


# --- One record ---------------------------------------------------------------------------------------------


def _check(record: Record, limits: Limits, pool: VectorPool) -> _Draft | Event | Rejected:
    mark = len(pool)
    try:
        body = _parse(record, limits)
        return _Draft(body, _check_upsert(body, limits, pool)) if isinstance(body, UpsertBody) else body
    except _BadEventError as bad:
        pool.truncate(mark)
        return bad.rejected


def _parse(record: Record, limits: Limits) -> _Body:
    """The record as a typed body with the right key; nothing of the limits of an upsert is checked yet."""
    key, value = record.key, record.value
    if value is None:
        return EntityDeleted(_entity_of(key))
    if len(value) > limits.max_event_bytes:
        raise _BadEventError(
            Reason.TOO_LARGE,
            f"{len(value)} bytes, at most {limits.max_event_bytes} are taken",
            Limit.EVENT_BYTES,
        )
    if not value.isascii():
        _check_utf8(value)
    if value.count(b"[") + value.count(b"{") > MAX_DEPTH and _depth(value) > MAX_DEPTH:
        raise _BadEventError(Reason.BAD_JSON, f"nested deeper than {MAX_DEPTH} levels")
    try:
        body: _Body = _decode_body(value)
    except msgspec.DecodeError as error:
        raise _diagnose(value, error) from None
    if body.occurred_at is not None and not is_day(body.occurred_at):
        raise _BadEventError(Reason.BAD_FIELD, f"occurred_at: {body.occurred_at[:10]} is no day")
    if key is None:
        raise _BadEventError(Reason.NO_KEY, "the record has no key; it must be the entity_id")
    if body.entity_id.encode() != key:
        raise _BadEventError(
            Reason.KEY_MISMATCH, f"key {_shown(key)}, entity_id {_shown(body.entity_id.encode())}"
        )
    if isinstance(body, SentencesDeleted) and len(body.sentence_ids) > limits.max_sentences_per_deletion:
        raise _BadEventError(
            Reason.TOO_MANY_SENTENCES,
            f"sentence_ids: {len(body.sentence_ids)}, at most {limits.max_sentences_per_deletion} are taken",
            Limit.SENTENCES_PER_DELETION,
        )
    return body


def _entity_of(key: bytes | None) -> str:
    """The entity that a null value deletes."""
    if key is None:
        raise _BadEventError(Reason.NO_KEY, "the record has neither key nor value")
    try:
        entity_id = key.decode()
    except UnicodeDecodeError:
        raise _BadEventError(Reason.BAD_FIELD, "key: not UTF-8, so no entity_id") from None
    if not 1 <= len(entity_id) <= MAX_ID_CHARS:
        raise _BadEventError(
            Reason.BAD_FIELD, f"key: {len(entity_id)} characters, an entity_id has 1 to {MAX_ID_CHARS}"
        )
    return entity_id


def _check_utf8(value: bytes) -> None:
    """The decoder does not look into fields it skips."""
    try:
        value.decode()
    except UnicodeDecodeError as error:
        raise _BadEventError(Reason.BAD_JSON, f"not UTF-8 (byte {error.start})") from None


_ESCAPE: Final = re.compile(rb"\\.", re.DOTALL)
_STRING: Final = re.compile(rb'"[^"]*"')
_NO_STRUCTURE: Final = bytes(sorted(set(range(256)) - set(b'[]{}"')))
_STEP: Final = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1, ord('"'): 0}


def _depth(value: bytes) -> int:
    """Deepest nesting of arrays and objects outside of strings, if `value` is JSON."""
    if b"\\" in value:
        value = _ESCAPE.sub(b"", value)
    structure = _STRING.sub(b"", value.translate(None, _NO_STRUCTURE))
    return max(accumulate(_STEP[byte] for byte in structure), default=0)


_FAULT: Final = re.compile(r"(.*?)(?: - at `\$\.?(.*)`)?", re.DOTALL)
_MISSING: Final = re.compile(r"Object missing required field (\w+)")
_IN_EMBEDDING: Final = re.compile(r"sentences\[\d+\]\.embedding")


def _diagnose(value: bytes, error: msgspec.DecodeError) -> _BadEventError:
    """Why `value` did not decode. It stopped at the first fault, maybe at a wrong field before bad syntax."""
    try:
        _check_syntax(value)
    except msgspec.DecodeError as syntax:
        return _BadEventError(Reason.BAD_JSON, str(syntax))
    try:
        name = _decode_head(value).type
    except msgspec.ValidationError as shape:
        return _BadEventError(Reason.BAD_FIELD, str(shape).replace("`", ""))
    if not _is_known_type(name):
        detail = f"type: {_shown(bytes(name))} is none of {', '.join(_TYPES)}" if name else "type: missing"
        return _BadEventError(Reason.UNKNOWN_TYPE, detail)
    fault = _FAULT.fullmatch(str(error))
    message, path = (fault[1], fault[2]) if fault else (str(error), None)
    return _wrong_field(message.replace("`", ""), path or "")


def _wrong_field(message: str, path: str) -> _BadEventError:
    """The decoder's complaint about one field, in our words where its own would not do."""
    if missing := _MISSING.match(message):
        return _BadEventError(Reason.BAD_FIELD, f"{path}{'.' if path else ''}{missing[1]}: missing")
    if path == "type":
        return _BadEventError(Reason.BAD_FIELD, "type: given twice, differently")
    if _IN_EMBEDDING.match(path) and ("base64" in message or "out of range" in message):
        return _BadEventError(Reason.BAD_VECTOR, f"{path}: {message}")
    if "matching regex" in message:
        message = "Expected an RFC 3339 timestamp"
    return _BadEventError(Reason.BAD_FIELD, f"{path}: {message}")


def _is_known_type(raw: msgspec.Raw) -> bool:
    try:
        return msgspec.json.decode(raw, type=str) in _TYPES
    except msgspec.DecodeError:
        return False


def is_day(timestamp: str) -> bool:
    """Whether the day of a timestamp exists: the pattern lets days up to 31 pass in every month."""
    year, month, day = int(timestamp[:4]), int(timestamp[5:7]), int(timestamp[8:10])
    return (
        day <= 28 or day <= monthrange(year or 4, month)[1]
    )  # the calendar module knows no year 0, a leap year


def _shown(raw: bytes) -> str:
    """`raw` for a detail: readable, one line, cut."""
    text = ascii(raw.decode(errors="backslashreplace"))
    return text if len(text) <= 80 else f"{text[:80]}... ({len(raw)} bytes)"


# --- Upserts ------------------------------------------------------------------------------------------------


def _check_upsert(body: UpsertBody, limits: Limits, pool: VectorPool) -> list[int | None]:
    """The limits of an upsert. Its vectors go to the pool: a row number or None for each sentence."""
    text = body.text
    if text:
        _check_text(text, "text", limits)
    items = body.sentences
    if items is UNSET and text is UNSET:
        raise _BadEventError(Reason.BAD_FIELD, "text: missing, and so are sentences")
    if items is UNSET or items is None:
        if text and not limits.embeds and not text.isspace():
            raise _BadEventError(Reason.NO_EMBEDDING, "text: no embeddings, and this worker has no engine")
        return []
    if len(items) > limits.max_sentences_per_review:
        raise _BadEventError(
            Reason.TOO_MANY_SENTENCES,
            f"sentences: {len(items)}, at most {limits.max_sentences_per_review} are taken",
            Limit.SENTENCES_PER_REVIEW,
        )
    model = body.embedding_model
    if model is not None and model != limits.model is not None and any(map(_has_vector, items)):
        detail = f"embedding_model: {_shown(model.encode())}, the worker's is {limits.model!r}"
        raise _BadEventError(Reason.WRONG_MODEL, detail)
    return [_check_sentence(i, item, limits, pool) for i, item in enumerate(items)]


def _has_vector(item: SentenceBody | str) -> bool:
    return not isinstance(item, str) and item.embedding is not None


def _check_text(text: str, where: str, limits: Limits) -> None:
    # One character is at most four bytes, so most texts need no encoding to be known as short enough.
    if 4 * len(text) > limits.max_text_bytes and (size := len(text.encode())) > limits.max_text_bytes:
        raise _BadEventError(
            Reason.TEXT_TOO_LONG,
            f"{where}: {size} bytes, at most {limits.max_text_bytes} are taken",
            Limit.TEXT_BYTES,
        )


def _check_sentence(i: int, item: SentenceBody | str, limits: Limits, pool: VectorPool) -> int | None:
    """The pool's row of the item's vector, None without one. A blank item will be dropped, its vector too."""
    text, embedding = (item, None) if isinstance(item, str) else (item.text, item.embedding)
    _check_text(text, f"sentences[{i}].text", limits)
    if not text or text.isspace():
        return None
    if embedding is None:
        if not limits.embeds:
            raise _BadEventError(
                Reason.NO_EMBEDDING, f"sentences[{i}]: no embedding, and this worker has no engine"
            )
        return None
    if len(text) > limits.max_sentence_chars:  # splitting it would leave its pieces without their vectors
        raise _BadEventError(
            Reason.TEXT_TOO_LONG,
            f"sentences[{i}].text: {len(text)} characters, one with an embedding of its own has at most "
            f"{limits.max_sentence_chars}",
            Limit.SENTENCE_CHARS,
        )
    where = f"sentences[{i}].embedding"
    length, rest = divmod(len(embedding), 4) if isinstance(embedding, bytes) else (len(embedding), 0)
    if rest:
        raise _BadEventError(
            Reason.BAD_VECTOR, f"{where}: {len(embedding)} bytes are not whole float32 numbers"
        )
    if length != limits.dimension:
        raise _BadEventError(
            Reason.WRONG_DIMENSION, f"{where}: {length} numbers, the worker's dimension is {limits.dimension}"
        )
    return pool.add(embedding)


def _upserted(
    draft: _Draft, vectors: list[NDArray[np.int16]], no_vectors: frozenset[int]
) -> ReviewUpserted | Rejected:
    """The event of `draft`, now that all vectors of the micro-batch are fixed point."""
    body, rows = draft
    if no_vectors and not no_vectors.isdisjoint(rows):
        bad = next(i for i, row in enumerate(rows) if row in no_vectors)
        return Rejected(Reason.BAD_VECTOR, f"sentences[{bad}].embedding: zero, not a number or infinite")
    sentences = None
    if body.sentences is not None and body.sentences is not UNSET:
        sentences = tuple(
            GivenSentence(item if isinstance(item, str) else item.text, None if row is None else vectors[row])
            for item, row in zip(body.sentences, rows, strict=True)
        )
    text = None if body.text is UNSET else body.text
    return ReviewUpserted(
        body.entity_id, body.review_id, body.review_version, body.rating, body.occurred_at, text, sentences
    )
