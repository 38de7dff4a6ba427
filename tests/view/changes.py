"""Bodies of `summary.changed` and `facets.changed`, made by hand."""

from msgspec import UNSET

from worker.events import (
    Cause,
    FacetsChanged,
    FacetSummary,
    Ratings,
    SummaryChanged,
    SummarySentence,
)
from worker.events.json_codec import encode


def body(*facts, **more):
    """The bytes of a `summary`."""
    return encode(summary(*facts, **more))


def summary(
    entity_id,
    sequence,
    texts,
    added=(),
    removed=(),
    cause="review.upserted",
    review="r",
    previous=0,
    occurred_at=None,
    k=5,
    ratings=None,
):
    """A change to these texts by sentence id, in rank order; `ratings` by sentence id."""
    sentences = [
        SummarySentence(
            rank=rank,
            sentence_id=identifier,
            review_id=identifier.rpartition("#")[0],
            text=text,
            rating=(ratings or {}).get(identifier),
            distance=0.5,
            support=1,
        )
        for rank, (identifier, text) in enumerate(texts.items())
    ]
    return SummaryChanged(
        entity_id=entity_id,
        epoch=1,
        sequence=sequence,
        previous_sequence=previous,
        sentences=sentences,
        added=list(added),
        removed=list(removed),
        review_count=len(texts),
        sentence_count=10 * len(texts),
        k=k,
        cause=Cause(type=cause, topic="t", partition=0, offset=sequence, review_id=review),
        occurred_at=occurred_at,
        embedding_model="m",
    )


def facets_body(*facts, **more):
    """The bytes of a `facets_changed`."""
    return encode(facets_changed(*facts, **more))


def facets_changed(entity_id, sequence, facets, changed=(), **more):
    """A change to these facets: by name, or name and language, a text by sentence id, in rank
    order; `more` as for `summary`.
    """
    change = summary(entity_id, sequence, {}, **more)
    parts = [
        FacetSummary(
            name if isinstance(name, str) else name[0],
            5, 10 * len(texts), len(texts), Ratings(0, None),
            summary(entity_id, sequence, texts, **more).sentences,
            UNSET if isinstance(name, str) else name[1],
        )
        for name, texts in facets.items()
    ]  # fmt: skip
    return FacetsChanged(
        entity_id=entity_id,
        epoch=1,
        sequence=sequence,
        previous_sequence=change.previous_sequence,
        changed=list(changed),
        review_count=9,
        sentence_count=99,
        facets=parts,
        cause=change.cause,
        occurred_at=change.occurred_at,
        embedding_model="m",
    )
