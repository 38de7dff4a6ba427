"""A processor's stored state, and events that lead to it."""

from __future__ import annotations

from dataclasses import replace

from tests.harness.brute_view import brute_view
from tests.harness.drive import DIMENSION, delete, delete_sentences, record, upsert
from worker.state import read_applied

ENTITIES = ("a", "b", "c")


def stored(driver, entity_id):
    """What the committed rows say, by brute force."""
    rows, made = driver.rows[0], driver.config
    view = brute_view(
        rows, entity_id, dimension=DIMENSION, k=made.k, distinct=made.distinct, by_text=made.by_text
    )
    return view and replace(view, partition=0, next_offset=read_applied(rows).next_offset)


def events(chance, offset, count, reviews=12):
    """All that may happen to few entities of so many reviews, of few vectors: copies and ties are
    common.
    """
    made = []
    for at in range(offset, offset + count):
        entity, review = chance.choice(ENTITIES), f"r{chance.randrange(reviews)}"
        kind = chance.random()
        if kind < 0.07:
            made.append(record(at, entity, {"type": "entity.deleted"}))
        elif kind < 0.25:
            made.append(delete(at, review, entity_id=entity))
        elif kind < 0.35:
            made.append(delete_sentences(at, f"{review}#0", f"{review}#1", entity_id=entity))
        elif kind < 0.4:
            made.append(record(at, entity, b"no event"))
        else:
            sentences = [f"text {chance.randrange(30)}" for _ in range(chance.randrange(1, 5))]
            made.append(upsert(at, review, *sentences, entity_id=entity))
    return made
