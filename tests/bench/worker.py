"""How fast the whole worker is: exactly once, on a real Kafka that shares its cores. `make bench-worker`.

    python -m tests.bench.worker [--events N] [--out FILE]

Measured, one worker, embeddings in the events (384 numbers, base64), k = 20:

    events/s         a preloaded backlog over 1,000 entities, one sentence an event, from ready to all committed
    restore rows/s   a changelog of rows of 1 KB into an empty data directory
    cold touch       the first event, after a restart, of an entity with 100,000 sentences: until its change can be read
    start to ready   on an empty state, from the process's start; without an engine and with the default one
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from confluent_kafka import TopicPartition

from tests.bench.machine import began, tell, write
from tests.harness.broker import KafkaBroker
from tests.harness.load import Sent, send
from tests.harness.topics import consumer, read_topic
from tests.harness.workers import Pipeline, WorkerProcess, pipeline

DIMENSION = 384
ENTITIES = 1000
ROW_BYTES = 1024
TARGETS = {
    "events_per_s": 4000,
    "restore_rows_per_s": 20_000,
    "cold_touch_s": 1.0,
    "start_to_ready_s": 5.0,
}
RESULTS = Path(__file__).with_name("results") / "worker.json"


def reviews(count: int, entities: int, sentences: int = 1, *, seed: int = 0) -> Iterator[Sent]:
    """`count` new reviews, round the entities in random order; each entity's vectors lie around a centre of its own."""
    chance = np.random.default_rng(seed)
    centres = chance.standard_normal((entities, DIMENSION)) * 0.7
    for number in range(count):
        entity = int(chance.integers(entities))
        vectors = (centres[entity] + chance.standard_normal((sentences, DIMENSION))).astype("<f4")
        yield review(f"entity-{entity}", f"review-{number}", vectors)


def review(entity_id: str, review_id: str, vectors: Any) -> Sent:
    """One `review.upserted` with a sentence for each vector."""
    body = {
        "type": "review.upserted",
        "entity_id": entity_id,
        "review_id": review_id,
        "review_version": 1,
        "rating": 4.0,
        "occurred_at": "2026-11-20T12:00:00Z",
        "sentences": [
            {
                "text": f"Sentence {i} of {review_id}, about as long as one of a real review is.",
                "embedding": base64.b64encode(vector.tobytes()).decode(),
            }
            for i, vector in enumerate(vectors)
        ],
    }
    return Sent(entity_id.encode(), json.dumps(body).encode())


class Progress:
    """The group's committed offsets, asked often by one client."""

    def __init__(self, site: Pipeline):
        self._site = site
        self._client = consumer(site.broker.bootstrap_servers, site.name)
        self._targets = site.targets()

    def committed(self) -> int:
        """How many offsets are committed in all partitions."""
        asked = [TopicPartition(self._site.input_topic, partition) for partition in self._targets]
        return sum(max(0, answer.offset) for answer in self._client.committed(asked, timeout=60))

    def wait(self, timeout_s: float) -> list[tuple[float, int]]:
        """(seconds, committed) until all is committed."""
        started_s, total = time.monotonic(), sum(self._targets.values())
        samples = [(0.0, self.committed())]
        while samples[-1][1] < total:
            if samples[-1][0] > timeout_s or not any(worker.alive for worker in self._site.workers):
                raise TimeoutError(f"{samples[-1]} of {total}\n{self._site.logs()}")
            time.sleep(0.1)
            samples.append((time.monotonic() - started_s, self.committed()))
        self._client.close()
        return samples


def throughput(broker: KafkaBroker, folder: Path, events: int) -> dict[str, Any]:
    """Events/s over a backlog, from ready to the last commit."""
    with pipeline(broker, "bench-events", folder, settings=settings()) as site:
        send(broker.bootstrap_servers, site.input_topic, reviews(events, ENTITIES), chunk=5000)
        progress = Progress(site)
        worker = site.worker().start()
        worker.wait_ready()
        samples = progress.wait(600)
        cpu_s, metrics = cpu_seconds(worker), worker.metrics()
        seconds = samples[-1][0]
        done = events - samples[0][1]
        changes = len(read_topic(broker.bootstrap_servers, site.output_topic))
        site.stop()
    return {
        "events": events,
        "changes_published": changes,
        "seconds": round(seconds, 2),
        "events_per_s": round(done / seconds),
        "worker_cpu_seconds": cpu_s,
        "seconds_in": {
            step: round(metrics[f"coversumm_{step}_seconds_sum"], 2) for step in ("process", "commit")
        },
        "micro_batches": int(metrics["coversumm_batch_events_count"]),
        "partitions": site.partitions,
    }


def restore(broker: KafkaBroker, folder: Path, rows: int) -> dict[str, Any]:
    """Rows/s of a restore, as the worker logs it, over random rows that no entity owns."""
    with pipeline(broker, "bench-restore", folder, settings=settings()) as site:
        broker.create_topic(site.changelog_topic, site.partitions, {"cleanup.policy": "compact"})
        chance = np.random.default_rng(0)
        load = (Sent(b"\xff" + chance.bytes(39), chance.bytes(ROW_BYTES)) for _ in range(rows))
        send(broker.bootstrap_servers, site.changelog_topic, load, chunk=5000)
        worker = site.worker().start()
        ready_s = worker.wait_ready(120)
        found = re.findall(r"restored (\d+) rows of \d+ partitions in ([\d.]+) s", worker.log_text())
        restored, seconds = sum(int(one) for one, _ in found), sum(float(other) for _, other in found)
        assert restored == rows, f"{restored} rows were restored, not {rows}"
        site.stop()
    return {
        "rows": rows,
        "row_bytes": ROW_BYTES,
        "seconds": seconds,
        "restore_rows_per_s": round(rows / seconds),
        "start_to_ready_s": round(ready_s, 2),
    }


def cold_touch(broker: KafkaBroker, folder: Path, sentences: int) -> dict[str, Any]:
    """Seconds between the broker's receipt of an event and of its change, first cold, then hot (the median of ten)."""
    per_review = 100
    stamped = {"message.timestamp.type": "LogAppendTime"}
    with pipeline(
        broker, "bench-cold", folder, partitions=1, settings=settings(), input_config=stamped
    ) as site:
        broker.create_topic(site.output_topic, 1, stamped)
        load = reviews(sentences // per_review, 1, per_review)
        send(broker.bootstrap_servers, site.input_topic, load, chunk=100)
        (worker,) = site.start(1)
        site.wait_caught_up(600)
        worker.terminate()
        worker.start().wait_ready()
        near = np.random.default_rng(0).standard_normal((1, DIMENSION)) * 0.7  # the entity's centre
        latencies = []
        for touch in range(11):
            vector = near + np.random.default_rng(touch).standard_normal((1, DIMENSION)) * 0.01 * (11 - touch)
            send(
                broker.bootstrap_servers,
                site.input_topic,
                [review("entity-0", f"touch-{touch}", vector.astype("<f4"))],
            )
            site.wait_caught_up(60)
            sent = read_topic(broker.bootstrap_servers, site.input_topic)[-1]
            published = read_topic(broker.bootstrap_servers, site.output_topic)[-1]
            cause = json.loads(published.value or b"")["cause"]
            assert cause["offset"] == sent.offset, "the touch did not change the summary"
            latencies.append((published.timestamp_ms - sent.timestamp_ms) / 1000)
        site.stop()
    return {
        "sentences": sentences,
        "cold_touch_s": latencies[0],
        "hot_touch_s": statistics.median(latencies[1:]),
    }


def start_to_ready(broker: KafkaBroker, folder: Path) -> dict[str, Any]:
    """Seconds to ready on an empty state, the median of three starts; then with the default engine, its model cached."""
    found: dict[str, Any] = {}
    for embedder in ("none", "onnx"):
        seconds = []
        for run in range(3):
            name = f"bench-ready-{embedder}-{run}"
            with pipeline(broker, name, folder / name, settings=settings(embedder)) as site:
                seconds.append(site.worker().start().wait_ready())
                site.stop()
        found["start_to_ready_s" if embedder == "none" else "start_to_ready_onnx_s"] = round(
            statistics.median(seconds), 2
        )
    return found


def settings(embedder: str = "none") -> dict[str, str]:
    """The defaults but for the engine; quiet logs would not show the restore."""
    return {"COVERSUMM_EMBEDDER": embedder, "COVERSUMM_LOG_LEVEL": "INFO"}


def cpu_seconds(worker: WorkerProcess) -> float | None:
    """Processor time the worker has used, where the system tells."""
    try:
        fields = Path(f"/proc/{worker.pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return None
    return round((int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"), 1)


def main() -> int:
    """Measure, print, write; 0 also where a target is missed: the figures say so."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--events", type=int, default=60_000)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--sentences", type=int, default=100_000)
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    report = began("tests.bench.worker") | {
        "targets": TARGETS,
    }
    with tempfile.TemporaryDirectory() as scratch, KafkaBroker(Path(scratch) / "broker") as broker:
        folder = Path(scratch)
        report["start"] = start_to_ready(broker, folder / "start")
        report["throughput"] = throughput(broker, folder / "throughput", given.events)
        report["restore"] = restore(broker, folder / "restore", given.rows)
        report["cold_entity"] = cold_touch(broker, folder / "cold", given.sentences)
    write(given.out, report)
    measured = {**report["restore"], **report["cold_entity"], **report["throughput"], **report["start"]}
    tell(TARGETS, measured, given.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
