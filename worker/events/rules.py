"""The contract's rules: a decoded body becomes an event, or is rejected for its content.

Independent of the format. The first failing rule names the reason. For an upsert: `bad_field` (the
rating), `text_too_long` (the complete text), `bad_field` (neither text nor sentences),
`too_many_sentences`, `wrong_model`; then for each sentence `text_too_long`, `no_embedding`,
`bad_vector` (not float32 numbers), `wrong_dimension`; finally, once all vectors are fixed point,
`bad_vector` (zero or not finite).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from msgspec import UNSET, DecodeError, Raw
from msgspec.json import Decoder, encode
from numpy.typing import NDArray

from worker.coversumm.fixed_point import quantize_rows
from worker.events.fields import MAX_AUTHOR_BYTES, MAX_COUNTRY_BYTES, MAX_LANGUAGE_CHARS
from worker.events.inputs import (
    Body,
    Event,
    GivenSentence,
    ReviewDetails,
    ReviewUpserted,
    SentenceBody,
    SentencesDeleted,
    UpsertBody,
)
from worker.events.reasons import BadEvent, Reason, Rejected, shown
from worker.limits import Limit

decode_labels: Final = Decoder(list[str] | None).decode


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of the content of an event, and of an entity. Defaults are in the settings.

    `model` names the worker's embedding model (None: any is accepted); `embeds`: an engine exists.
    """

    dimension: int
    model: str | None
    embeds: bool
    max_event_bytes: int
    max_text_bytes: int
    max_sentence_chars: int
    max_sentences_per_review: int
    max_sentences_per_deletion: int
    max_sentences_per_entity: int
    label_bits: Mapping[str, int] = field(default_factory=dict, hash=False)
    """By label the facets that take it, a bit for each; without any, labels are not checked."""


class UpsertDraft(NamedTuple):
    """An upsert whose vectors are still in the pool: a row or None for each sentence."""

    body: UpsertBody
    rows: list[int | None]
    label_bits: list[int] | None = None  # of each sentence, where there are any


def check(body: Body, limits: Limits, pool: VectorPool) -> UpsertDraft | Event:
    """The event of `body`, for an upsert a draft with its vectors in the pool. Raises BadEvent."""
    if isinstance(body, UpsertBody):
        rows = _check_upsert(body, limits, pool)
        return UpsertDraft(
            body, rows, _label_bits(body, limits) if limits.label_bits and rows else None
        )
    if (
        isinstance(body, SentencesDeleted)
        and len(body.sentence_ids) > limits.max_sentences_per_deletion
    ):
        raise BadEvent(
            Reason.TOO_MANY_SENTENCES,
            f"sentence_ids: {len(body.sentence_ids)}, "
            f"at most {limits.max_sentences_per_deletion} are taken",
            Limit.SENTENCES_PER_DELETION,
        )
    return body


def upserted(draft: UpsertDraft, fixed_point: FixedPoint) -> ReviewUpserted | Rejected:
    """The event of `draft`, once the pool is fixed point."""
    body, rows, label_bits = draft
    vectors, invalid = fixed_point
    if invalid and not invalid.isdisjoint(rows):
        first = next(i for i, row in enumerate(rows) if row in invalid)
        return Rejected(
            Reason.BAD_VECTOR, f"sentences[{first}].embedding: zero, not a number or infinite"
        )
    sentences = None
    if body.sentences is not None and body.sentences is not UNSET:
        of_each = zip(body.sentences, rows, label_bits or [0] * len(rows), strict=True)
        given = [
            GivenSentence(
                item if isinstance(item, str) else item.text,
                None if row is None else vectors[row],
                bits,
            )
            for item, row, bits in of_each
        ]
        sentences = tuple(given)
    text = None if body.text is UNSET else body.text
    return ReviewUpserted(
        body.entity_id,
        body.review_id,
        body.review_version,
        text,
        sentences,
        ReviewDetails(
            body.rating,
            body.occurred_at,
            body.language if 0 < len(body.language or "") <= MAX_LANGUAGE_CHARS else None,
            body.verified,
            _within(MAX_COUNTRY_BYTES, body.country),
            _within(MAX_AUTHOR_BYTES, body.author_id),
        ),
    )


def _within(most: int, text: str | None) -> str | None:
    """The text, unless it is empty or takes more bytes of JSON."""
    return text if text and len(encode(text)) - 2 <= most else None


def _check_upsert(body: UpsertBody, limits: Limits, pool: VectorPool) -> list[int | None]:
    """The pool's row of each given sentence's vector, None without one; no rows if the text is to
    be split.

    The vectors go to the pool together, once nothing else can be wrong with the upsert.
    """
    text, items = body.text, body.sentences
    if body.rating is not None and not isfinite(body.rating):  # JSON has no such numbers
        raise BadEvent(Reason.BAD_FIELD, f"rating: {body.rating} is not a number")
    if text:
        _check_text(text, "text", limits)
    if items is UNSET and text is UNSET:
        raise BadEvent(Reason.BAD_FIELD, "text: missing, and so are sentences")
    if items is UNSET or items is None:
        if text and not limits.embeds and not text.isspace():
            raise BadEvent(
                Reason.NO_EMBEDDING, "text: no embeddings, and this worker has no engine"
            )
        return []
    if len(items) > limits.max_sentences_per_review:
        raise BadEvent(
            Reason.TOO_MANY_SENTENCES,
            f"sentences: {len(items)}, at most {limits.max_sentences_per_review} are taken",
            Limit.SENTENCES_PER_REVIEW,
        )
    model = body.embedding_model
    if model is not None and model != limits.model is not None and any(map(_has_vector, items)):
        detail = f"embedding_model: {shown(model.encode())}, the worker's is {limits.model!r}"
        raise BadEvent(Reason.WRONG_MODEL, detail)
    embeddings = [_check_sentence(i, item, limits) for i, item in enumerate(items)]
    return [None if embedding is None else pool.add(embedding) for embedding in embeddings]


def _label_bits(body: UpsertBody, limits: Limits) -> list[int]:
    """The facets that take one of each sentence's labels. Raises BadEvent."""
    found = []
    items = body.sentences if isinstance(body.sentences, list) else ()
    for i, item in enumerate(items):
        bits = 0
        if not isinstance(item, str) and isinstance(item.labels, Raw):
            try:
                names = decode_labels(item.labels) or ()
            except DecodeError:
                raise BadEvent(
                    Reason.BAD_FIELD, f"sentences[{i}].labels: Expected an array of strings"
                ) from None
            for name in names:
                bits |= limits.label_bits.get(name, 0)
        found.append(bits)
    return found


def _has_vector(item: SentenceBody | str) -> bool:
    return not isinstance(item, str) and item.embedding is not None


def _check_sentence(i: int, item: SentenceBody | str, limits: Limits) -> Embedding | None:
    """The item's embedding, or None. A blank item will be dropped with its embedding."""
    text, embedding = (item, None) if isinstance(item, str) else (item.text, item.embedding)
    if 4 * len(text) > limits.max_text_bytes:
        _check_text(text, f"sentences[{i}].text", limits)
    if not text or text.isspace():
        return None
    if embedding is None:
        if not limits.embeds:
            raise BadEvent(
                Reason.NO_EMBEDDING, f"sentences[{i}]: no embedding, and this worker has no engine"
            )
        return None
    # splitting it would leave its pieces without their vectors
    if len(text) > limits.max_sentence_chars:
        raise BadEvent(
            Reason.TEXT_TOO_LONG,
            f"sentences[{i}].text: {len(text)} characters, one with an embedding of its own has at "
            f"most {limits.max_sentence_chars}",
            Limit.SENTENCE_CHARS,
        )
    if not is_of_dimension(embedding, limits.dimension):
        raise wrong_embedding(embedding, limits.dimension, f"sentences[{i}].embedding")
    return embedding


def _check_text(text: str, where: str, limits: Limits) -> None:
    # A character has at most four bytes, so most texts need no encoding for this check.
    if (
        4 * len(text) > limits.max_text_bytes
        and (size := len(text.encode())) > limits.max_text_bytes
    ):
        raise BadEvent(
            Reason.TEXT_TOO_LONG,
            f"{where}: {size} bytes, at most {limits.max_text_bytes} are taken",
            Limit.TEXT_BYTES,
        )


CHUNK: Final = 128
"""Rows quantized at a time, to fit a core's cache: four times as fast as all rows at once."""


Embedding: TypeAlias = bytes | list[float]  # little-endian float32, or numbers


def is_of_dimension(embedding: Embedding, dimension: int) -> bool:
    """True if it has this many numbers."""
    return len(embedding) == (4 * dimension if isinstance(embedding, bytes) else dimension)


def wrong_embedding(embedding: Embedding, dimension: int, where: str) -> BadEvent:
    """The error for a wrong length: `bad_vector` (not float32 numbers) or `wrong_dimension`."""
    length, rest = (
        divmod(len(embedding), 4) if isinstance(embedding, bytes) else (len(embedding), 0)
    )
    if rest:
        return BadEvent(
            Reason.BAD_VECTOR, f"{where}: {len(embedding)} bytes are not whole float32 numbers"
        )
    return BadEvent(
        Reason.WRONG_DIMENSION, f"{where}: {length} numbers, the worker's dimension is {dimension}"
    )


class FixedPoint(NamedTuple):
    """A pool's rows as int16 (D,), and the numbers of those that are zero, NaN or infinite."""

    vectors: list[NDArray[np.int16]]
    invalid: frozenset[int]


class VectorPool:
    """Collects vectors of one dimension, to quantize them together."""

    def __init__(self, dimension: int) -> None:
        self._dimension = dimension
        self._rows: list[Embedding] = []

    def add(self, embedding: Embedding) -> int:
        """Add an embedding of checked length; returns the number of its row."""
        self._rows.append(embedding)
        return len(self._rows) - 1

    def quantize(self) -> FixedPoint:
        """All rows in fixed point."""
        matrix = self._matrix()
        vectors: list[NDArray[np.int16]] = []
        invalid: list[int] = []
        for start in range(0, len(matrix), CHUNK):
            quantized, wrong = quantize_rows(matrix[start : start + CHUNK])
            vectors.extend(quantized)
            invalid.extend((start + np.flatnonzero(wrong)).tolist())
        return FixedPoint(vectors, frozenset(invalid))

    def _matrix(self) -> NDArray[np.floating]:
        packed = [row for row in self._rows if isinstance(row, bytes)]
        joined = np.frombuffer(b"".join(packed), dtype="<f4").reshape(-1, self._dimension)
        if len(packed) == len(self._rows):
            return joined
        matrix = np.empty((len(self._rows), self._dimension), dtype=np.float64)
        is_packed = np.fromiter((isinstance(row, bytes) for row in self._rows), dtype=np.bool_)
        matrix[is_packed] = joined
        matrix[~is_packed] = [row for row in self._rows if not isinstance(row, bytes)]
        return matrix
