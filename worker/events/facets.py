"""Output bodies: `facets.changed`, with constraints and descriptions as in `summary.py`."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.json import Decoder

from worker.events.fields import EntityId, Timestamp
from worker.events.ratings import Ratings
from worker.events.summary import ALGORITHM, Cause, SummarySentence

FACETS_CHANGED: Final = "facets.changed"


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
        list[str], Meta(description="Facets whose sets differ from those last published.")
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
