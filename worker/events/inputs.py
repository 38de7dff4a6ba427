"""Input: Kafka records, the bodies that codecs decode, and the events that the rules make of them.

The published JSON Schemas are generated from the bodies' annotations, so each field is defined
once. Unknown fields are ignored. A deletion's body is the event.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final, NamedTuple, TypeAlias

import numpy as np
from msgspec import UNSET, Meta, Raw, Struct, UnsetType
from numpy.typing import NDArray

from worker.events.fields import (
    MAX_AUTHOR_BYTES,
    MAX_COUNTRY_BYTES,
    MAX_LANGUAGE_CHARS,
    EmbeddingModel,
    EntityId,
    Float32Base64,
    Labels,
    Numbers,
    Rating,
    ReviewId,
    SentenceId,
    Timestamp,
    Version,
)
from worker.events.reasons import Rejected


class Record(NamedTuple):
    """A consumed Kafka record. For files: base name as topic, partition 0, line number from 0 as
    offset. It has its headers only if a mapping needs them. `refused`: why a client could not read
    it completely.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]] = ()
    refused: Rejected | None = None

    @property
    def size(self) -> int:
        """Bytes of key, value and headers."""
        size = len(self.key or b"") + len(self.value or b"")
        if self.headers:
            size += sum(len(name) + len(data or b"") for name, data in self.headers)
        return size


class Head(Struct):
    """The raw type of a JSON body."""

    type: Raw = Raw()


class SentenceBody(Struct, frozen=True):
    """A sentence that was split, and possibly embedded, upstream."""

    text: Annotated[
        str, Meta(description="The sentence. A blank one is dropped; its position stays unused.")
    ]
    embedding: Numbers | Float32Base64 | None = None
    labels: Labels | UnsetType = UNSET


ReviewText = Annotated[
    str, Meta(description="The review's text, split and embedded by the worker.")
]
Sentences = Annotated[
    list[SentenceBody | str],
    Meta(description="The review, split upstream. The worker embeds items without an embedding."),
]


class UpsertBody(Struct, tag_field="type", tag="review.upserted", frozen=True):
    """A review was written or edited: all of its sentences are replaced. `text` or `sentences` must
    be there (either may be null); `sentences` wins.
    """

    entity_id: EntityId
    review_id: ReviewId
    review_version: Version | None = None
    text: ReviewText | UnsetType | None = UNSET
    rating: Rating | None = None
    language: (
        Annotated[
            str,
            Meta(
                description="Language tag of the text, such as those of BCP 47. Summaries pass it "
                f"on, unless it is longer than {MAX_LANGUAGE_CHARS} characters.",
                examples=["en"],
            ),
        ]
        | None
    ) = None
    occurred_at: Timestamp | None = None
    sentences: Sentences | UnsetType | None = UNSET
    embedding_model: EmbeddingModel | None = None
    verified: (
        Annotated[
            bool,
            Meta(description="Whether the purchase or stay is verified. Summaries pass it on."),
        ]
        | None
    ) = None
    country: (
        Annotated[
            str,
            Meta(
                description="Country of the reviewer, as the source has it. Summaries pass it on, "
                f"unless it takes more than {MAX_COUNTRY_BYTES} bytes of JSON.",
                examples=["NL"],
            ),
        ]
        | None
    ) = None
    author_id: (
        Annotated[
            str,
            Meta(
                description="The reviewer, by the source's id: personal data. Summaries pass it "
                f"on, unless it takes more than {MAX_AUTHOR_BYTES} bytes of JSON.",
                examples=["u-4711"],
            ),
        ]
        | None
    ) = None


class ReviewDeleted(Struct, tag_field="type", tag="review.deleted", frozen=True):
    """A review was taken down. Its version is remembered, so that a late older edit cannot bring it
    back.
    """

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
    """The entity is gone and all about it forgotten, versions too. A record with a null value means
    the same.
    """

    entity_id: EntityId
    occurred_at: Timestamp | None = None


Body: TypeAlias = UpsertBody | ReviewDeleted | SentencesDeleted | EntityDeleted
"""A decoded value, not yet compared with the worker's limits."""


class GivenSentence(NamedTuple):
    """A sentence given in the event; blank ones are included, so that ordinals are right.

    `vector`: int16 (D,), a row of a larger matrix (copy it to keep it); None: to be embedded, or
    blank. `label_bits`: the facets that take one of its labels, a bit for each.
    """

    text: str
    vector: NDArray[np.int16] | None
    label_bits: int = 0


class ReviewDetails(NamedTuple):
    """A review's details in messages; None: unknown."""

    rating: float | None = None
    occurred_at: str | None = None
    language: str | None = None
    verified: bool | None = None
    country: str | None = None
    author_id: str | None = None

    @property
    def has_more(self) -> bool:
        """True if it has what builds before these last three fields cannot store."""
        return self[3:] != (None, None, None)


NO_DETAILS: Final = ReviewDetails()


class ReviewUpserted(Struct, frozen=True):
    """A checked `review.upserted`. `sentences` None: split `text`; `text` None or blank: no
    sentences. `details` lacks texts that are not passed on.
    """

    entity_id: str
    review_id: str
    review_version: int | None
    text: str | None
    sentences: tuple[GivenSentence, ...] | None
    details: ReviewDetails = NO_DETAILS

    @property
    def occurred_at(self) -> str | None:
        """The time in the form of other events."""
        return self.details.occurred_at


Event: TypeAlias = ReviewUpserted | ReviewDeleted | SentencesDeleted | EntityDeleted

EVENT_TYPES: Final[dict[type[Event], str]] = {
    ReviewUpserted: "review.upserted",
    ReviewDeleted: "review.deleted",
    SentencesDeleted: "sentences.deleted",
    EntityDeleted: "entity.deleted",
}
"""The contract's name of each event class, for `cause.type` and the metrics."""
