"""The events of the workloads: made-up vectors around a centre for each entity, and those of real
reviews' sentences.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from tests.harness.load import Review, Sent, Vectors

DIMENSION = 384
ENTITIES = 1000
BUSY_ENTITIES, BUSY_EVENTS = 0.1, 0.9
"""A tenth of the entities have nine tenths of the events."""


def reviews(count: int, entities: int, sentences: int = 1, *, seed: int = 0) -> Iterator[Sent]:
    """`count` new reviews, round the entities in random order; each entity's vectors lie around a
    centre of its own.
    """
    return _around_centres(
        count, entities, sentences, seed, lambda chance: int(chance.integers(entities))
    )


def even(entities: int, sentences: int, at_once: int) -> Iterator[Sent]:
    """So many sentences for each entity, in reviews of `at_once`: one of every entity, then the
    next of every entity.
    """
    chance = np.random.default_rng(0)
    centres = chance.standard_normal((ENTITIES, DIMENSION)) * 0.7
    for number in range(entities * sentences // at_once):
        vectors = centres[number % ENTITIES] + chance.standard_normal((at_once, DIMENSION))
        yield review(f"entity-{number % entities}", f"review-{number}", vectors.astype("<f4"))


def busy(count: int, entities: int, *, seed: int = 0) -> Iterator[Sent]:
    """The same with one sentence each, and nine tenths of them for a tenth of the entities."""
    few = round(entities * BUSY_ENTITIES)

    def pick(chance: np.random.Generator) -> int:
        return int(
            chance.integers(few)
            if chance.random() < BUSY_EVENTS
            else chance.integers(few, entities)
        )

    return _around_centres(count, entities, 1, seed, pick)


def _around_centres(
    count: int, entities: int, sentences: int, seed: int, pick: Callable[[np.random.Generator], int]
) -> Iterator[Sent]:
    chance = np.random.default_rng(seed)
    centres = chance.standard_normal((entities, DIMENSION)) * 0.7
    for number in range(count):
        entity = pick(chance)
        vectors = (centres[entity] + chance.standard_normal((sentences, DIMENSION))).astype("<f4")
        yield review(f"entity-{entity}", f"review-{number}", vectors)


def nearer(count: int, *, seed: int = 0) -> Iterator[Sent]:
    """Reviews of the first entity of `reviews`, on the whole each nearer to its centre than the one
    before.

    Those of the entity's own distribution would no longer change the summary of one that has a
    hundred thousand sentences.
    """
    centre = np.random.default_rng(0).standard_normal((1, DIMENSION)) * 0.7
    chance = np.random.default_rng(seed)
    for number, noise in enumerate(np.geomspace(0.5, 0.005, count)):
        vector = centre + noise * chance.standard_normal((1, DIMENSION))
        yield review("entity-0", f"nearer-{number}", vector.astype("<f4"))


def real(found: Sequence[Review], vectors: Vectors, count: int) -> Iterator[Sent]:
    """`count` reviews as they were written, their sentences with their vectors.

    Where there are fewer, they come again as those of other entities: never twice in one, whose
    summary would fill with copies.
    """
    for number in range(count):
        turn, at = divmod(number, len(found))
        review = found[at]
        entity = review.entity_id if turn == 0 else f"{review.entity_id}/{turn}"
        sentences = [{"text": text, "embedding": vectors.of(text)} for text in review.sentences]
        yield _event(entity, review.review_id, sentences, review.rating, review.occurred_at)


def review(entity_id: str, review_id: str, vectors: Any) -> Sent:
    """One `review.upserted` with a sentence for each vector."""
    sentences = [
        {
            "text": f"Sentence {i} of {review_id}, about as long as one of a real review is.",
            "embedding": base64.b64encode(vector.tobytes()).decode(),
        }
        for i, vector in enumerate(vectors)
    ]
    return _event(entity_id, review_id, sentences, 4.0, "2026-11-20T12:00:00Z")


def _event(
    entity_id: str,
    review_id: str,
    sentences: list[Any],
    rating: float | None,
    occurred_at: str | None,
) -> Sent:
    body = {
        "type": "review.upserted",
        "entity_id": entity_id,
        "review_id": review_id,
        "review_version": 1,
        "rating": rating,
        "occurred_at": occurred_at,
        "sentences": sentences,
    }
    return Sent(entity_id.encode(), json.dumps(body).encode())
