"""The rules of the contract: a body whose fields are as declared becomes an event, or is refused for what it brings.

They know nothing of the format that a body was written in. The first rule that fails names the reason. For an upsert:
`text_too_long` (of the whole text), `bad_field` (neither text nor sentences), `too_many_sentences`, `wrong_model`; then
sentence by sentence `text_too_long`, `no_embedding`, `bad_vector` (no whole numbers), `wrong_dimension`; at last
`bad_vector` (zero or not finite), when the vectors of all records are fixed point.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from worker.coversumm.fixed_point import quantize_rows
from worker.events.inputs import (
    Body,
    Event,
    GivenSentence,
    ReviewUpserted,
    SentenceBody,
    SentencesDeleted,
    UpsertBody,
)
from worker.events.reasons import BadEvent, Reason, Rejected, shown
from worker.limits import Limit


@dataclass(frozen=True, slots=True)
class Limits:
    """What one event may bring, and an entity hold. Defaults are the settings' alone.

    `model` is the name of the worker's embedding model (None: any is taken), `embeds` says whether an engine exists.
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


class UpsertDraft(NamedTuple):
    """An upsert whose vectors are still in the pool: a row or None for each sentence."""

    body: UpsertBody
    rows: list[int | None]


def check(body: Body, limits: Limits, pool: VectorPool) -> UpsertDraft | Event:
    """The event that `body` is; of an upsert the draft, its vectors added to the pool. Raises BadEvent."""
    if isinstance(body, UpsertBody):
        return UpsertDraft(body, _check_upsert(body, limits, pool))
    if (
        isinstance(body, SentencesDeleted)
        and len(body.sentence_ids) > limits.max_sentences_per_deletion
    ):
        raise BadEvent(
            Reason.TOO_MANY_SENTENCES,
            f"sentence_ids: {len(body.sentence_ids)}, at most {limits.max_sentences_per_deletion} are taken",
            Limit.SENTENCES_PER_DELETION,
        )
    return body


def upserted(draft: UpsertDraft, fixed_point: FixedPoint) -> ReviewUpserted | Rejected:
    """The event of `draft`, now that the pool is fixed point."""
    body, rows = draft
    vectors, invalid = fixed_point
    if invalid and not invalid.isdisjoint(rows):
        first = next(i for i, row in enumerate(rows) if row in invalid)
        return Rejected(
            Reason.BAD_VECTOR, f"sentences[{first}].embedding: zero, not a number or infinite"
        )
    sentences = None
    if body.sentences is not None and body.sentences is not UNSET:
        sentences = tuple(
            GivenSentence(
                item if isinstance(item, str) else item.text, None if row is None else vectors[row]
            )
            for item, row in zip(body.sentences, rows, strict=True)
        )
    text = None if body.text is UNSET else body.text
    return ReviewUpserted(
        body.entity_id,
        body.review_id,
        body.review_version,
        body.rating,
        body.occurred_at,
        text,
        sentences,
    )


def _check_upsert(body: UpsertBody, limits: Limits, pool: VectorPool) -> list[int | None]:
    """The pool's row of each given sentence's vector, None for one without; no rows where the text is to be split.

    The vectors of an upsert go to the pool together, when nothing more can be wrong with it.
    """
    text, items = body.text, body.sentences
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


def _has_vector(item: SentenceBody | str) -> bool:
    return not isinstance(item, str) and item.embedding is not None


def _check_sentence(i: int, item: SentenceBody | str, limits: Limits) -> Embedding | None:
    """The item's embedding, None without one. A blank item will be dropped, its embedding too."""
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
            f"sentences[{i}].text: {len(text)} characters, one with an embedding of its own has at most "
            f"{limits.max_sentence_chars}",
            Limit.SENTENCE_CHARS,
        )
    if not is_of_dimension(embedding, limits.dimension):
        raise wrong_embedding(embedding, limits.dimension, f"sentences[{i}].embedding")
    return embedding


def _check_text(text: str, where: str, limits: Limits) -> None:
    # One character is at most four bytes, so most texts need no encoding to be known as short enough.
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
"""Rows quantized at a time: what a core's cache holds, four times as fast as all rows at once."""


Embedding: TypeAlias = bytes | list[float]
"""One vector as it was given: little-endian float32, or numbers."""


def is_of_dimension(embedding: Embedding, dimension: int) -> bool:
    """Whether it has this many numbers."""
    return len(embedding) == (4 * dimension if isinstance(embedding, bytes) else dimension)


def wrong_embedding(embedding: Embedding, dimension: int, where: str) -> BadEvent:
    """What is wrong with one that is not of the dimension: `bad_vector` (no whole numbers) or `wrong_dimension`."""
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
    """A pool's rows as int16 (D,), and the numbers of those that have no fixed point: zero, NaN or infinite."""

    vectors: list[NDArray[np.int16]]
    invalid: frozenset[int]


class VectorPool:
    """Rows of a matrix in the making, all of one dimension."""

    def __init__(self, dimension: int) -> None:
        self._dimension = dimension
        self._rows: list[Embedding] = []

    def add(self, embedding: Embedding) -> int:
        """The number of the row that `embedding` will be; its length has been checked."""
        self._rows.append(embedding)
        return len(self._rows) - 1

    def quantize(self) -> FixedPoint:
        """All rows."""
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
