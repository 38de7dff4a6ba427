"""What the worker reads and writes, as types: events, Kafka records and messages, limits, reasons.

The structs that are decoded from JSON (`UpsertBody`, the three deletions) and encoded to it
(`SummaryChanged`) carry their constraints and descriptions in the annotations; `schemas.py` generates the
published JSON Schemas from them, so there is one definition of each field. Unknown fields are ignored.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final, NamedTuple, TypeAlias

import numpy as np
from msgspec import UNSET, Meta, Struct, UnsetType
from numpy.typing import NDArray

from worker.limits import Limit

MAX_ID_CHARS: Final = 1024
"""Longest entity or review id, in characters (up to 4 KiB of UTF-8). A summary of 20 sentences, all ids and
texts as long as they may be and every character escaped, still fits into Kafka's default message size of 1
MiB."""

MAX_SENTENCE_ID_CHARS: Final = MAX_ID_CHARS + 20
"""A review id, `#` and the digits of a position."""

MAX_VERSION: Final = 2**63 - 1
MAX_TIMESTAMP_CHARS: Final = 64

# RFC 3339 date-time. `[0-9]`, because Python's \d takes the digits of every script; `$(?!\n)`, because
# Python's `$` also matches before a final newline while that of JSON Schema (ECMA 262) does not. Days beyond
# a month's end: see decode.py.
TIMESTAMP_PATTERN: Final = (
    r"^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
    r"[Tt]([01][0-9]|2[0-3]):[0-5][0-9]:([0-5][0-9]|60)(\.[0-9]+)?"
    r"([Zz]|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$(?!\n)"
)
BASE64_PATTERN: Final = r"^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$(?!\n)"


class Reason(StrEnum):
    """Why a record became a dead letter."""

    BAD_JSON = "bad_json"
    BAD_WIRE_FORMAT = "bad_wire_format"
    NO_KEY = "no_key"
    KEY_MISMATCH = "key_mismatch"
    UNKNOWN_TYPE = "unknown_type"
    BAD_FIELD = "bad_field"
    WRONG_DIMENSION = "wrong_dimension"
    BAD_VECTOR = "bad_vector"
    WRONG_MODEL = "wrong_model"
    NO_EMBEDDING = "no_embedding"
    TEXT_TOO_LONG = "text_too_long"
    TOO_MANY_SENTENCES = "too_many_sentences"
    TOO_LARGE = "too_large"
    ENTITY_FULL = "entity_full"


class Ignored(StrEnum):
    """Why a valid event had no effect."""

    NOT_NEWER = "not_newer"
    UNKNOWN_ENTITY = "unknown_entity"
    UNKNOWN_SENTENCE = "unknown_sentence"
    ALREADY_APPLIED = "already_applied"


class Record(NamedTuple):
    """One Kafka record as consumed. For files: base name as topic, partition 0, line number from 0 as
    offset."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None


@dataclass(frozen=True, slots=True)
class Limits:
    """What one event may bring, and an entity hold. Defaults are the settings' alone.

    `model` is the name of the worker's embedding model (None: any is taken), `embeds` says whether an engine
    exists.
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


class Rejected(NamedTuple):
    """A record that becomes a dead letter. `detail` is one line for people and names the field; `limit` is the one it is
    beyond, if that is the reason."""

    reason: Reason
    detail: str
    limit: Limit | None = None


# --- Fields -------------------------------------------------------------------------------------------------

EntityId = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=MAX_ID_CHARS,
        description="The product, hotel or seller. Any characters; equal to the Kafka key (UTF-8).",
        examples=["B00IOY8XWQ"],
    ),
]
ReviewId = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=MAX_ID_CHARS,
        description="The review, unique within its entity. Any characters.",
        examples=["r-81"],
    ),
]
SentenceId = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=MAX_SENTENCE_ID_CHARS,
        description="`review_id#i`, i = the sentence's position in its review, from 0.",
        examples=["r-81#2"],
    ),
]
Version = Annotated[
    int,
    Meta(
        ge=0,
        le=MAX_VERSION,
        description="Version of the review, written without a fraction. An upsert applies if greater than "
        "the stored one, a deletion also if equal to the live one. Without, the order of arrival decides.",
        examples=[3],
    ),
]
Timestamp = Annotated[
    str,
    Meta(
        pattern=TIMESTAMP_PATTERN,
        max_length=MAX_TIMESTAMP_CHARS,
        description="When it happened, an RFC 3339 timestamp. Handed on unchanged.",
        examples=["2026-11-20T12:00:00Z"],
        extra_json_schema={"format": "date-time"},
    ),
]
Rating = Annotated[float, Meta(description="The reviewer's rating, on any scale.", examples=[4.0])]
Numbers = Annotated[list[float], Meta(description="The vector, not all zero; the worker normalises it.")]
Float32Base64 = Annotated[
    bytes,
    Meta(
        description="The vector as little-endian float32 in base64 with padding: a fifth of the bytes.",
        extra_json_schema={"pattern": BASE64_PATTERN},
    ),
]

EmbeddingModel = Annotated[
    str,
    Meta(
        description="Model that made the embeddings; must be the worker's.",
        examples=["sentence-transformers/all-MiniLM-L6-v2"],
    ),
]

# --- Input --------------------------------------------------------------------------------------------------


class SentenceBody(Struct, frozen=True):
    """A sentence that was split, and possibly embedded, upstream."""

    text: Annotated[str, Meta(description="The sentence. A blank one is dropped; its position stays unused.")]
    embedding: Numbers | Float32Base64 | None = None


ReviewText = Annotated[str, Meta(description="The review's text, split and embedded by the worker.")]
Sentences = Annotated[
    list[SentenceBody | str],
    Meta(description="The review, split upstream. The worker embeds items without an embedding."),
]


class UpsertBody(Struct, tag_field="type", tag="review.upserted", frozen=True):
    """A review was written or edited: all of its sentences are replaced. `text` or `sentences` must be there
    (either may be null); `sentences` wins."""

    entity_id: EntityId
    review_id: ReviewId
    review_version: Version | None = None
    text: ReviewText | UnsetType | None = UNSET
    rating: Rating | None = None
    language: Annotated[str, Meta(description="Language tag of the text.", examples=["en"])] | None = None
    occurred_at: Timestamp | None = None
    sentences: Sentences | UnsetType | None = UNSET
    embedding_model: EmbeddingModel | None = None


class ReviewDeleted(Struct, tag_field="type", tag="review.deleted", frozen=True):
    """A review was taken down. Its version is remembered, so that a late older edit cannot bring it back."""

    entity_id: EntityId
    review_id: ReviewId
    review_version: Version | None = None
    reason: Annotated[str, Meta(description="Why, for people.", examples=["spam"])] | None = None
    occurred_at: Timestamp | None = None


class SentencesDeleted(Struct, tag_field="type", tag="sentences.deleted", frozen=True):
    """Single sentences were taken down; they come back only with a newer upsert of their review."""

    entity_id: EntityId
    sentence_ids: Annotated[
        list[SentenceId], Meta(description="Those that are live are removed, others ignored.")
    ]
    occurred_at: Timestamp | None = None


class EntityDeleted(Struct, tag_field="type", tag="entity.deleted", frozen=True):
    """The entity is gone and all about it forgotten, versions too. A record with a null value means the
    same."""

    entity_id: EntityId
    occurred_at: Timestamp | None = None


class GivenSentence(NamedTuple):
    """A sentence given in the event, at its position (blank ones included, so that ordinals are right).

    `vector`: int16 (D,), a row of a larger matrix (copy what outlives the batch); None = to be
    embedded, or blank.
    """

    text: str
    vector: NDArray[np.int16] | None


class ReviewUpserted(Struct, frozen=True):
    """A checked `review.upserted`. `sentences` None = split `text`; `text` None or blank = no sentences."""

    entity_id: str
    review_id: str
    review_version: int | None
    rating: float | None
    occurred_at: str | None
    text: str | None
    sentences: tuple[GivenSentence, ...] | None


Event: TypeAlias = ReviewUpserted | ReviewDeleted | SentencesDeleted | EntityDeleted

EVENT_TYPES: Final[dict[type[Event], str]] = {
    ReviewUpserted: "review.upserted",
    ReviewDeleted: "review.deleted",
    SentencesDeleted: "sentences.deleted",
    EntityDeleted: "entity.deleted",
}
"""The contract's name of each event class, as in `cause.type` and the metrics."""

# --- Output -------------------------------------------------------------------------------------------------

ALGORITHM: Final = "coversumm/1"
SUMMARY_CHANGED: Final = "summary.changed"


class SummarySentence(Struct, frozen=True):
    """One sentence of the summary."""

    rank: Annotated[int, Meta(ge=0, description="From 0, the nearest to the centroid.")]
    sentence_id: SentenceId
    review_id: ReviewId
    text: Annotated[str, Meta(description="As it was split or given.")]
    rating: Annotated[float, Meta(description="The review's rating.")] | None
    distance: Annotated[
        float,
        Meta(
            ge=0,
            description="Euclidean distance to the centroid, of normalised vectors, rounded to six decimals.",
        ),
    ]
    support: Annotated[int, Meta(ge=1, description="How many live sentences have this very vector.")]


class Cause(Struct, frozen=True):
    """The input record that changed the set."""

    type: Annotated[
        str, Meta(description="Its event type.", extra_json_schema={"enum": list(EVENT_TYPES.values())})
    ]
    topic: str
    partition: Annotated[int, Meta(ge=0)]
    offset: Annotated[int, Meta(ge=0)]
    review_id: Annotated[str, Meta(description="Null when the event names no review.")] | None


class SummaryChanged(Struct, tag_field="type", tag=SUMMARY_CHANGED, frozen=True):
    """The set of an entity's k sentences nearest to the centroid changed. The field order is fixed."""

    entity_id: EntityId
    epoch: Annotated[
        int, Meta(ge=0, description="The build of the summaries: another model, k or code is another epoch.")
    ]
    sequence: Annotated[
        int, Meta(ge=0, description="Source offset of the cause: strictly increasing per entity.")
    ]
    previous_sequence: (
        Annotated[int, Meta(ge=0, description="The entity's last change; null at first.")] | None
    )
    sentences: Annotated[list[SummarySentence], Meta(description="The summary, in rank order.")]
    added: Annotated[
        list[SentenceId], Meta(description="In rank order; an edited sentence is in both lists.")
    ]
    removed: Annotated[list[SentenceId], Meta(description="In former rank order.")]
    review_count: Annotated[int, Meta(ge=0, description="Live reviews of the entity.")]
    sentence_count: Annotated[int, Meta(ge=0, description="Live sentences of the entity.")]
    k: Annotated[int, Meta(ge=1, description="How many sentences a full summary has.")]
    cause: Cause
    occurred_at: Timestamp | None
    embedding_model: Annotated[str, Meta(description="The worker's.")] | None
    algorithm: Annotated[str, Meta(extra_json_schema={"const": ALGORITHM})] = ALGORITHM


class Message(NamedTuple):
    """One Kafka message to produce."""

    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes]]
