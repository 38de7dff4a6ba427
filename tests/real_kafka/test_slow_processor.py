"""A processor throttled to a tenth: slow is not still. Commits go on coming, and only an engine
that hangs ends the worker.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness import throttled
from tests.harness.broker import KafkaBroker
from tests.harness.eventually import eventually
from tests.harness.load import Sent, send
from tests.harness.patience import PATIENCE_SECONDS, TEST_SECONDS
from tests.harness.topics import read_topic
from tests.harness.workers import Pipeline, pipeline

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(TEST_SECONDS)]

STALL_SECONDS = 10
SETTINGS = {
    "COVERSUMM_EMBEDDER": "onnx",
    "COVERSUMM_BATCH_MS": "500",
    "COVERSUMM_STALL_TIMEOUT_MS": str(1000 * STALL_SECONDS),
    "COVERSUMM_COMMIT_TIMEOUT_MS": "9000",
    "COVERSUMM_TRANSACTION_TIMEOUT_MS": "8000",
}
SHUTDOWN_SECONDS = 20
"""The default."""
REVIEWS, SENTENCES, LONG = 80, 10, 700


def review(number: int, sentences: int) -> Sent:
    """A review whose sentences nobody has written before."""
    body = {
        "type": "review.upserted",
        "entity_id": f"entity-{number % 7}",
        "review_id": f"review-{number}",
        "review_version": 1,
        "sentences": [f"Room {number} had {i} lamps." for i in range(sentences)],
    }
    return Sent(body["entity_id"].encode(), json.dumps(body).encode())  # type: ignore[attr-defined]


@pytest.fixture
def site(kafka: KafkaBroker, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Pipeline]:
    """Throttled workers on one partition, so that all records may come in one micro-batch."""
    name = request.node.originalname.removeprefix("test_").replace("_", "-")
    with pipeline(
        kafka, name, tmp_path, partitions=1, settings=SETTINGS, launcher=throttled.__name__
    ) as made:
        yield made


@pytest.mark.long
def test_a_processor_at_a_tenth_gets_through_and_commits_all_the_way(site: Pipeline) -> None:
    """All texts at once would take longer than a worker may go without progress, and so would those
    of the long review.
    """
    assert throttled.SECONDS * REVIEWS * SENTENCES > STALL_SECONDS < throttled.SECONDS * LONG
    load = [*(review(number, SENTENCES) for number in range(REVIEWS)), review(REVIEWS, LONG)]
    send(site.broker.bootstrap_servers, site.input_topic, load)
    targets = site.targets()
    worker = site.worker().start()
    worker.wait_ready()
    lags = [site.lag(targets)]
    deadline = time.monotonic() + PATIENCE_SECONDS
    while lags[-1]:
        assert worker.alive, worker.log_end()
        assert time.monotonic() < deadline, f"{lags}\n{worker.log_end()}"
        time.sleep(0.1)
        if (lag := site.lag(targets)) != lags[-1]:
            lags.append(lag)
    assert len(lags) > 5, f"all of it in few commits: {lags}"
    assert worker.limit_hits()["batch_time"] > 0
    site.stop()
    assert worker.exit_codes == []  # one life was enough
    changed = {
        json.loads(message.value or b"")["cause"]["offset"]
        for message in read_topic(site.broker.bootstrap_servers, site.output_topic)
    }
    assert max(changed) == REVIEWS  # the long one is in


@pytest.mark.long
def test_an_orderly_stop_waits_for_one_commit_and_not_for_all_that_was_fetched(
    site: Pipeline,
) -> None:
    """What one fetch brought takes longer than a worker may take to stop."""
    load = [review(number, SENTENCES) for number in range(300)]
    assert throttled.SECONDS * SENTENCES * len(load) > 2 * SHUTDOWN_SECONDS
    send(site.broker.bootstrap_servers, site.input_topic, load)
    targets = site.targets()
    worker = site.worker().start()
    worker.wait_ready()
    eventually(lambda: 0 < site.lag(targets) < len(load) - 20, worker.log_end)
    assert worker.terminate() == 0
    left = site.lag(targets)
    assert left > 100, "it waited for the whole micro-batch"
    worker.start().wait_ready()
    eventually(lambda: site.lag(targets) < left, worker.log_end)
    site.stop()


@pytest.mark.long
def test_an_engine_that_hangs_ends_the_worker_and_the_line_says_what_helps(site: Pipeline) -> None:
    """Its successor would hang as well, but a worker that stands still in silence helps nobody."""
    send(site.broker.bootstrap_servers, site.input_topic, [review(0, 1)])
    worker = site.worker()
    worker.environment[throttled.VARIABLE] = "3600"
    worker.start()
    eventually(lambda: not worker.alive, worker.log_end)
    assert worker.exit_code == 3
    assert (
        f"no progress for {STALL_SECONDS} s: a micro-batch is being processed" in worker.log_text()
    )
    assert "COVERSUMM_STALL_TIMEOUT_MS" in worker.log_text()
