"""Events with vectors, made of the bundled reviews: no model is needed to summarize them."""

import gzip
import json
from importlib.resources import files
from itertools import islice

from tests.harness.drive import FakeEngine
from worker.text.splitting import split_sentences

SAMPLE = files("worker.demo").joinpath("data", "airbnb_albany.jsonl.gz")


def sample(count):
    """The first reviews as events: sentences with vectors of three dimensions, many are equal."""
    with SAMPLE.open("rb") as packed, gzip.open(packed) as lines:
        return [_event(json.loads(line)) for line in islice(lines, count)]


def _event(review):
    sentences = [
        {"text": text, "embedding": FakeEngine.vector(text)}
        for text in split_sentences(review["text"], 2000)
    ]
    return {
        "type": "review.upserted",
        "entity_id": review["entity_id"],
        "review_id": review["review_id"],
        "sentences": sentences,
        "occurred_at": review["created_at"],
    }


def delete(event):
    return {
        "type": "review.deleted",
        "entity_id": event["entity_id"],
        "review_id": event["review_id"],
    }


def lines(events):
    return [json.dumps(event).encode() for event in events]
