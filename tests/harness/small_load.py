"""What tests on a real Kafka share: events of a small load, and the settings of a small worker."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.harness.load import HashedVectors, Sent, Stream, read_reviews, send
from tests.harness.poison import ENTITY, KEY, packed
from tests.harness.workers import Pipeline

DIMENSION = 16
SETTINGS = {
    "COVERSUMM_DIMENSION": str(DIMENSION),
    "COVERSUMM_K": "5",
    "COVERSUMM_SESSION_TIMEOUT_MS": "6000",
    "COVERSUMM_BATCH_SIZE": "100",
}


FACETS = {"COVERSUMM_FACETS": str(Path(__file__).with_name("facets.toml"))}


def events(reviews: int, *, seed: int = 0) -> list[Sent]:
    """The bundled reviews with everything mixed in, small vectors."""
    return list(Stream(read_reviews(limit=reviews, seed=seed), HashedVectors(DIMENSION), seed=seed))


LARGE_MESSAGES = {"max.message.bytes": str(32 << 20)}


def feed(site: Pipeline, load: list[Sent], **options: Any) -> None:
    """Send all of `load` to the input topic."""
    send(site.broker.bootstrap_servers, site.input_topic, load, **options)


def check(site: Pipeline) -> dict[str, Any]:
    """Stop the workers; topics and local state must both be right. The verifier's report."""
    site.stop()
    report = site.verify()
    site.verify_state()
    return report


def good_review(number: int) -> Sent:
    """A review that is applied."""
    return upsert(
        ENTITY,
        f"good-{number}",
        f"Sentence {number}.",
        [1.0, float(number)] + [0.5] * (DIMENSION - 2),
    )


def upsert(entity_id: str, review_id: str, text: str, vector: list[float]) -> Sent:
    """One review of one sentence."""
    body = {
        "type": "review.upserted",
        "entity_id": entity_id,
        "review_id": review_id,
        "sentences": [{"text": text, "embedding": packed(vector)}],
    }
    assert entity_id != ENTITY or entity_id.encode() == KEY
    return Sent(entity_id.encode(), json.dumps(body).encode())
