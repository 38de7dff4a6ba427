"""Output bodies, `summary.changed` and `facets.changed`, with constraints and descriptions as in
`inputs.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final, NamedTuple

from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.json import Decoder
from msgspec.structs import replace

from worker.events.fields import (
    AuthorId,
    Country,
    EntityId,
    Language,
    LanguageCode,
    ReviewId,
    SentenceId,
    Timestamp,
)
from worker.events.inputs import EVENT_TYPES, ReviewDetails
from worker.events.ratings import Ratings, ReviewCounts

ALGORITHM: Final = "coversumm/1"
SUMMARY_CHANGED: Final = "summary.changed"
FACETS_CHANGED: Final = "facets.changed"


class SummarySentence(Struct, frozen=True, kw_only=True):
    """One sentence of the summary."""

    rank: Annotated[int, Meta(ge=0, description="From 0, the nearest to the centroid.")]
    sentence_id: SentenceId
    review_id: ReviewId
    text: Annotated[str, Meta(description="As it was split or given.")]
    rating: Annotated[float, Meta(description="The review's rating.")] | None
    occurred_at: (
        Annotated[Timestamp, Meta(description="That of the review's last upsert, if it has one.")]
        | UnsetType
    ) = UNSET
    language: (
        Annotated[Language, Meta(description="Language tag of the review, if its event has one.")]
        | UnsetType
    ) = UNSET
    verified: (
        Annotated[bool, Meta(description="Whether the review is verified, if its event says so.")]
        | UnsetType
    ) = UNSET
    country: (
        Annotated[Country, Meta(description="Country of the reviewer, if the event has one.")]
        | UnsetType
    ) = UNSET
    author_id: (
        Annotated[
            AuthorId, Meta(description="The reviewer, if the event has an id: personal data.")
        ]
        | UnsetType
    ) = UNSET
    distance: Annotated[
        float,
        Meta(
            ge=0,
            description="Euclidean distance to the centroid, of normalised vectors, rounded to six "
            "decimals.",
        ),
    ]
    support: Annotated[
        int, Meta(ge=1, description="How many live sentences have this very vector.")
    ]


def summary_sentence(
    rank: int,
    sentence_id: str,
    review_id: str,
    text: str,
    details: ReviewDetails,
    distance: float,
    support: int,
) -> SummarySentence:
    """A sentence of a review with these details."""
    rating, occurred_at, language, verified, country, author_id = details
    return SummarySentence(
        rank=rank,
        sentence_id=sentence_id,
        review_id=review_id,
        text=text,
        rating=rating,
        occurred_at=UNSET if occurred_at is None else occurred_at,
        language=UNSET if language is None else language,
        verified=UNSET if verified is None else verified,
        country=UNSET if country is None else country,
        author_id=UNSET if author_id is None else author_id,
        distance=distance,
        support=support,
    )


class Cause(Struct, frozen=True):
    """The input record that changed the set."""

    type: Annotated[
        str,
        Meta(description="Its event type.", extra_json_schema={"enum": list(EVENT_TYPES.values())}),
    ]
    topic: str
    partition: Annotated[int, Meta(ge=0)]
    offset: Annotated[int, Meta(ge=0)]
    review_id: Annotated[str, Meta(description="Null when the event names no review.")] | None


class SummaryChanged(Struct, tag_field="type", tag=SUMMARY_CHANGED, frozen=True):
    """The set of an entity's k sentences nearest to the centroid changed. The field
    order is fixed.
    """

    entity_id: EntityId
    epoch: Annotated[
        int,
        Meta(
            ge=0,
            description="The build of the summaries: another model, k or code is another epoch.",
        ),
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
    ratings: Annotated[Ratings, Meta(description="Of the entity's live reviews.")] | UnsetType = (
        UNSET
    )


class RankedChange(NamedTuple):
    """A change whose sentences are not in its body yet."""

    body: SummaryChanged  # without sentences
    quotes: Sequence[bytes]  # by rank, from the codec's `quote`
    distances: Sequence[float]
    support: Sequence[int]


class RankedQuotes(NamedTuple):
    """A set as a codec needs it."""

    quotes: Sequence[bytes]  # by rank, as are the others
    distances: Sequence[float]
    support: Sequence[int]


class LastSummary(Struct, array_like=True, frozen=True):
    """The last change of a summary before it is published, as stored in its row.

    Only what other rows lack: the ids in rank order and the sequence are in the published row, the
    texts in the reviews'. `ratings`, `distances` and `support` are by rank, as are the details of
    reviews, each of which is empty if no review has it.
    """

    timestamp_ms: int  # of its cause, as are the next four
    topic: str
    event_type: str
    review_id: str | None
    occurred_at: str | None
    review_count: int
    sentence_count: int
    ratings: Sequence[float | None]
    distances: Sequence[float]
    support: Sequence[int]
    dates: Sequence[str | None] = ()
    languages: Sequence[str | None] = ()
    all_ratings: Ratings | None = None  # of the entity's live reviews
    verified: Sequence[bool | None] = ()  # these three are stored only if one is not empty
    countries: Sequence[str | None] = ()
    authors: Sequence[str | None] = ()


class Mentions(Struct, frozen=True):
    """The live reviews in which a sentence has one of a facet's words."""

    review_count: Annotated[int, Meta(ge=0)]
    ratings: Annotated[Ratings, Meta(description="Of these reviews.")]


SIDES: Final = {"pros": 1, "cons": -1}
"""The sets of a facet's praise and complaints by their field, with the sign of their direction."""


def facet_label(name: str, language: object) -> str:
    """The name of a facet, with its language if it has one: unique among the facets."""
    return f"{name} ({language})" if language else name


class FacetSummary(Struct, frozen=True):
    """One facet: a named subset of the entity's live sentences, with a centroid of its own."""

    name: Annotated[str, Meta(description="As defined.", examples=["parking"])]
    k: Annotated[int, Meta(ge=1, description="How many sentences a full set has.")]
    sentence_count: Annotated[int, Meta(ge=0, description="Live sentences of the facet.")]
    review_count: Annotated[int, Meta(ge=0, description="Live reviews with such a sentence.")]
    ratings: Annotated[Ratings, Meta(description="Of these reviews.")]
    sentences: Annotated[
        list[SummarySentence],
        Meta(description="Those nearest to the facet's centroid, in rank order."),
    ]
    language: (
        Annotated[
            LanguageCode,
            Meta(
                description="Of all its reviews; null: of several. Absent if no facet depends on "
                "languages."
            ),
        ]
        | UnsetType
        | None
    ) = UNSET
    mentions: (
        Annotated[Mentions, Meta(description="By its words; absent without any.")] | UnsetType
    ) = UNSET
    pros: (
        Annotated[
            list[SummarySentence],
            Meta(
                description="Of its praise the sentences nearest to the centroid of all of that, "
                "in rank order; absent without `sides`."
            ),
        ]
        | UnsetType
    ) = UNSET
    cons: (
        Annotated[list[SummarySentence], Meta(description="Likewise of its complaints.")]
        | UnsetType
    ) = UNSET

    @property
    def label(self) -> str:
        """The name, with the language if it has one: unique among the facets."""
        return facet_label(self.name, self.language)

    def with_counts(
        self, sentences: int, reviews: ReviewCounts, mentions: ReviewCounts
    ) -> FacetSummary:
        """The facet with these counts; those of mentions only if it has words."""
        has_words = self.mentions is not UNSET
        return replace(
            self,
            sentence_count=sentences,
            review_count=reviews.reviews,
            ratings=reviews.ratings.ratings(),
            mentions=Mentions(mentions.reviews, mentions.ratings.ratings()) if has_words else UNSET,
        )


class FacetsChanged(Struct, tag_field="type", tag=FACETS_CHANGED, frozen=True):
    """The set of at least one of an entity's facets changed. The field order is fixed."""

    entity_id: EntityId
    epoch: Annotated[int, Meta(ge=0, description="As in `summary.changed`.")]
    sequence: Annotated[
        int, Meta(ge=0, description="Source offset of the cause: strictly increasing per entity.")
    ]
    previous_sequence: (
        Annotated[
            int,
            Meta(ge=0, description="The last change of the entity's facets; null at first."),
        ]
        | None
    )
    changed: Annotated[
        list[str],
        Meta(
            description="Names of the facets whose sets differ from those last published, or whose "
            "mentions do so by COVERSUMM_EMIT_MENTIONS."
        ),
    ]
    review_count: Annotated[int, Meta(ge=0, description="Live reviews of the entity.")]
    sentence_count: Annotated[int, Meta(ge=0, description="Live sentences of the entity.")]
    facets: Annotated[
        list[FacetSummary],
        Meta(description="All that are not hidden, by descending sentence count, then name."),
    ]
    cause: Cause
    occurred_at: Timestamp | None
    embedding_model: Annotated[str, Meta(description="The worker's.")] | None
    algorithm: Annotated[str, Meta(extra_json_schema={"const": ALGORITHM})] = ALGORITHM
    ratings: Annotated[Ratings, Meta(description="Of the entity's live reviews.")] | UnsetType = (
        UNSET
    )


class LastFacets(Struct, array_like=True, frozen=True):
    """The last change of an entity's facets before it is published, as stored in its row."""

    topic: str  # of its cause, as are the next three
    offset: int
    timestamp_ms: int
    occurred_at: str | None
    value: bytes  # of its message


decode_facets = Decoder(FacetsChanged).decode
"""The body of a `facets.changed` from its JSON. Raises msgspec.DecodeError."""
