"""Limits on a real Kafka: small ones change nothing that is published, and deadlines end a worker
that hangs.
"""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.armed import Order
from tests.harness.broker import KafkaBroker
from tests.harness.eventually import eventually
from tests.harness.patience import TEST_SECONDS
from tests.harness.small_load import SETTINGS, check, events, feed
from tests.harness.workers import Pipeline, WorkerProcess, pipeline
from worker.kafka.topics import DELETE_RETENTION_MS

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(TEST_SECONDS)]

SMALL = {
    "events": (
        {
            "COVERSUMM_BATCH_SIZE": "10",
            "COVERSUMM_TRANSACTION_RECORDS": "12",
            "COVERSUMM_IN_FLIGHT_MESSAGES": "12",
            "COVERSUMM_ROCKSDB_BYTES": "16MiB",
        },
        {"transaction_records", "in_flight"},
    ),
    "bytes": (
        {
            "COVERSUMM_BATCH_BYTES": "16KiB",
            "COVERSUMM_BATCH_SENTENCES": "40",
            "COVERSUMM_CACHE_BYTES": "100KiB",
        },
        {"batch_bytes", "batch_sentences", "cache_bytes"},
    ),
}
"""By name: settings small enough to be hit, and by which limits."""


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.long
def test_small_limits_cut_and_change_nothing(kafka: KafkaBroker, tmp_path: Path, name: str) -> None:
    """The verifier recomputes all that a worker without limits would publish."""
    small, wanted = SMALL[name]
    with pipeline(kafka, f"small-{name}", tmp_path, settings=SETTINGS | small) as site:
        load = events(150)
        feed(site, load)
        (worker,) = site.start(1)
        site.wait_caught_up()
        found = {limit for limit, count in worker.limit_hits().items() if count}
        # that one only where two fetches together are too much
        assert found - {"batch_events"} == wanted
        assert 0 < worker.metrics()["coversumm_rocksdb_bytes"] < 32 * 2**20
        assert check(site)["records"] == len(load)


@pytest.mark.long
@pytest.mark.parametrize(
    ("role", "command", "code"),
    [("output", ["run"], 2), ("dlq", ["topics"], 1), ("changelog", ["config", "--check"], 1)],
)
def test_a_topic_with_a_lower_limit_is_refused_before_a_message_is(
    kafka: KafkaBroker, tmp_path: Path, role: str, command: list[str], code: int
) -> None:
    with pipeline(kafka, f"lower-{role}", tmp_path, settings=SETTINGS) as site:
        name = getattr(site, f"{role}_topic")
        policy = "delete" if role == "dlq" else "compact"
        config = {"cleanup.policy": policy, "max.message.bytes": "999999"}
        if role == "changelog":
            config["delete.retention.ms"] = str(DELETE_RETENTION_MS)
        kafka.create_topic(name, site.partitions, config)
        process = WorkerProcess(tmp_path / command[0], site.environment, arguments=command)
        site.workers.append(process)
        process.refused(name, "999999", "max.message.bytes=1001024", code=code)
        site.worker(max_message_bytes="999999").start().wait_ready()


@pytest.fixture
def hanging(
    kafka: KafkaBroker, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Pipeline]:
    """A pipeline whose first commit stops the broker: what waits for it waits for ever."""
    settings = {**SETTINGS, "COVERSUMM_TRANSACTION_TIMEOUT_MS": "2000"}
    name = request.node.originalname.removeprefix("test_").replace("_", "-")
    with pipeline(kafka, name, tmp_path, settings=settings, armed=True) as site:
        yield site


def hang(site: Pipeline, step: str, **settings: str) -> WorkerProcess:
    """A worker inside a commit that the stopped broker does not answer. The broker is to be
    resumed.
    """
    worker = site.worker(**settings)
    worker.arm(Order(step, 1, signal.SIGSTOP, site.broker.pid))
    worker.start().wait_ready()
    feed(site, events(20))
    eventually(worker.struck, worker.log_end)
    return worker


def test_a_commit_past_its_deadline_is_in_doubt_and_decided_when_the_broker_is_back(
    hanging: Pipeline,
) -> None:
    # at the last step only the commit itself waits for the broker
    limits = {"commit_timeout_ms": "4000", "shutdown_timeout_ms": "60000"}
    worker = hang(hanging, "after the offsets", **limits)
    try:
        eventually(lambda: "a commit is in doubt" in worker.log_text(), worker.log_end)
        assert worker.metrics()["coversumm_ready"] == 0
    finally:
        hanging.broker.resume()
    hanging.wait_caught_up()
    # On its own, or by the takeover of a rebalance: the broker is away for about as long as a
    # session lasts.
    decided = re.compile("the commit in doubt (before it )?is decided")
    eventually(lambda: decided.search(worker.log_text()) is not None, worker.log_end)
    assert worker.terminate() == 0
    hanging.verify()


@pytest.mark.long
def test_a_stop_past_its_deadline_ends_the_worker(hanging: Pipeline) -> None:
    limits = {"commit_timeout_ms": "60000", "shutdown_timeout_ms": "3000"}
    worker = hang(hanging, "after the flush", **limits)
    try:
        started_s = time.monotonic()
        worker.signal(signal.SIGTERM)
        assert worker.wait() == 3
        assert time.monotonic() - started_s >= 3
    finally:
        hanging.broker.resume()
    assert "the shutdown took longer than 3 s" in worker.log_text()
    worker.start().wait_ready()
    hanging.wait_caught_up()
    assert worker.terminate() == 0  # within the deadline: an orderly stop
    hanging.verify()
