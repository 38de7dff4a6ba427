"""Facets of each kind, and random histories of reviews that join and leave them."""

import base64
from itertools import islice

import numpy as np
from hypothesis import strategies as st

from tests.harness.drive import DIMENSION, FakeEngine, config
from tests.processing.operations import (
    ENTITIES,
    REVIEWS,
    TEXTS,
    VECTORS,
    event,
    operations,
    records_of,
)
from worker.facets.definitions import Definitions, Facet, Polarity, RatingRange
from worker.facets.membership import facet_criteria


def packed(vector):
    return base64.b64encode(np.array(vector, "<f4").tobytes()).decode()


POLARITY = Polarity(
    good_vectors=(packed([1, 1, 1]), packed([1, 0.5, 0.5])), bad_vectors=(packed([1, -1, 0]),)
)
FACETS = facet_criteria(
    Definitions(
        [
            Facet(
                "x", vectors=(packed([1, 0, 0]), packed([3, 0, 0.3])), k=2, words=("GOOD", "ba*")
            ),
            Facet("text", phrases=("good", "bad"), threshold=0.9),
            Facet(
                "taken", vectors=(packed([1, 1, 1]),), hidden=True, threshold=0.95, words=("bad",)
            ),
            Facet("y", vectors=(packed([0, 1, 0]),), threshold=0.2, k=1),
            Facet("critics", rating=RatingRange(max=1), k=2, words=("x*", "fine thing")),
            Facet("fans", rating=RatingRange(min=4, max=5)),
            Facet("price", labels=("price", "cost")),
            Facet("any", labels=("price", "odd"), k=1, words={"fr": ("good",), "en": ("okay",)}),
            Facet("last", newest=1, k=2),
            Facet("news", newest=2, words=("good",)),
            Facet("secret", newest=2, hidden=True),
            Facet("x of critics", vectors=(packed([1, 0, 0]),), rating=RatingRange(max=1)),
            Facet("y of critics", vectors=(packed([0, 1, 0]),), rating=RatingRange(max=1), k=1),
            Facet("of late", within_days=30, labels=("price",)),
            Facet("french", language=("fr", "de"), verified=True, newest=3, words=("bad", "t*")),
            Facet("all", within_days=36_500, k=2, sides=True),
            Facet("z", vectors=(packed([0, 0, 1]),), country=("NL", "FR"), sides=True, k=1),
            Facet("rooms", vectors=(packed([1, 1, 0]),), words=("good",), quotes="words", sides=1),
            Facet("cheap", labels=("price",), words={"en": ("room*",)}, quotes="words"),
            Facet("mine", author_id=("me",), country=("NL", "FR")),
        ],
        polarity=POLARITY,
    ),
    DIMENSION,
    FakeEngine().embed,
)

dates = st.sampled_from(
    [
        None,
        "2026-11-20T12:00:00Z",
        "2026-11-20T13:00:00+01:00",
        "2026-11-20T12:00:00.5Z",
        "2026-11-20T11:59:59.999Z",
        "2027-01-01T00:00:00Z",
    ]
)
labels = st.one_of(st.none(), st.lists(st.sampled_from(["price", "cost", "odd", "x"]), max_size=2))
many_reviews = st.sampled_from([*REVIEWS, *"stuvwxyzabcdefgh"])
items = st.fixed_dictionaries(
    {"text": st.sampled_from(TEXTS)},
    optional={"embedding": st.sampled_from(VECTORS), "labels": labels},
)
given = st.builds(dict, sentences=st.lists(items, max_size=4))
texts = st.builds(
    dict, text=st.sampled_from(["Es war super. Ruhe. Am 3. Mai.", "Le Dr. Bon. Hr. Gut.", "Sr. A."])
)


def upserts_of(content):
    return st.builds(
        lambda entity, review, content, when, rating, more: event(
            entity,
            {
                "type": "review.upserted",
                "review_id": review,
                "occurred_at": when,
                "rating": rating,
                **content,
                **more,
            },
        ),
        st.sampled_from(ENTITIES),
        many_reviews,
        content,
        dates,
        st.sampled_from([None, 1, 4.5, 0.1, 5e-324, 1e308]),
        st.fixed_dictionaries(
            {},
            optional={
                "language": st.sampled_from(["fr", "FR-be", "de", "en"]),
                "verified": st.booleans(),
                "country": st.sampled_from(["NL", "FR", "DE"]),
                "author_id": st.sampled_from(["me", "you"]),
            },
        ),
    )


deletions = st.builds(
    lambda entity, review: event(entity, {"type": "review.deleted", "review_id": review}),
    st.sampled_from(ENTITIES),
    many_reviews,
)
upserts = upserts_of(given)
events = st.one_of(upserts, upserts, upserts, upserts, deletions, operations)
with_texts = st.one_of(upserts_of(texts), events)
"""With texts that the worker splits, by their languages."""


@st.composite
def runs(draw, events=events):
    size = draw(st.sampled_from([3, 10, 30]))
    history = draw(st.lists(events, min_size=size, max_size=size))
    records = iter(list(records_of(history)))
    batches = []
    while batch := list(islice(records, draw(st.sampled_from([1, 2, 5, 20])))):
        batches.append((draw(st.booleans()), batch))
    return batches


def with_facets(**changes):
    limits = {"label_bits": FACETS.label_bits, **changes.pop("limits", {})}
    return config(facets=FACETS, facets_topic="facets", limits=limits, **changes)
