"""A link that carries little, by a quota: transactions become as small as it takes, and no worker
ends of it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.broker import KafkaBroker
from tests.harness.load import HashedVectors, Sent, send
from tests.harness.patience import PATIENCE_SECONDS, TEST_SECONDS
from tests.harness.workers import Pipeline, pipeline

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(TEST_SECONDS)]

BYTES_A_SECOND = 60_000
REVIEWS, SENTENCES = 250, 6
SETTINGS = {
    "COVERSUMM_DIMENSION": "384",
    "COVERSUMM_TRANSACTION_TIMEOUT_MS": "4000",
    "COVERSUMM_COMMIT_TIMEOUT_MS": "6000",
    "COVERSUMM_STALL_TIMEOUT_MS": "15000",
    "COVERSUMM_INSTANCE_ID": "slow",
}


def review(number: int, vectors: HashedVectors) -> Sent:
    """A review of six sentences that nobody has written before."""
    texts = [f"Room {number} had {i} lamps." for i in range(SENTENCES)]
    body = {
        "type": "review.upserted",
        "entity_id": f"entity-{number % 7}",
        "review_id": f"review-{number}",
        "review_version": 1,
        "sentences": [{"text": text, "embedding": vectors.of(text)} for text in texts],
    }
    return Sent(body["entity_id"].encode(), json.dumps(body).encode())  # type: ignore[attr-defined]


@pytest.fixture
def site(kafka: KafkaBroker, tmp_path: Path) -> Iterator[Pipeline]:
    """A worker whose producer has a quota."""
    with pipeline(kafka, "slow-link", tmp_path, partitions=2, settings=SETTINGS) as made:
        kafka.set_producer_quota("slow-link-slow", BYTES_A_SECOND)
        yield made


@pytest.mark.long
def test_a_quota_far_below_a_micro_batch_is_kept_to_by_smaller_transactions(site: Pipeline) -> None:
    """All events at once would take longer than the worker may go without a commit."""
    vectors = HashedVectors(384)
    send(
        site.broker.bootstrap_servers,
        site.input_topic,
        [review(number, vectors) for number in range(REVIEWS)],
    )
    targets = site.targets()
    worker = site.worker().start()
    worker.wait_ready()
    started = time.monotonic()
    while lag := site.lag(targets):
        assert worker.alive, worker.log_end()
        assert time.monotonic() - started < PATIENCE_SECONDS, f"lag {lag}\n{worker.log_end()}"
        time.sleep(0.3)
    site.stop()
    assert worker.exit_codes == []
