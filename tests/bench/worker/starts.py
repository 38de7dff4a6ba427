"""The first touch of a large entity after a restart, and how long a start takes."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

import numpy as np

from tests.bench.worker.events import DIMENSION, review, reviews
from tests.bench.worker.measure import settings
from tests.harness.broker import KafkaBroker
from tests.harness.load import send
from tests.harness.pauses import APPENDED
from tests.harness.topics import read_topic
from tests.harness.workers import pipeline


def cold_touch(
    broker: KafkaBroker, folder: Path, sentences: int, facets: str | None = None
) -> dict[str, Any]:
    """Seconds between the broker's receipt of an event and of its change, first cold, then hot (the
    median of ten). `facets` is what COVERSUMM_FACETS names.
    """
    per_review = 100
    given = settings() | ({} if facets is None else {"COVERSUMM_FACETS": facets})
    name = f"bench-{folder.name}"
    with pipeline(
        broker, name, folder, partitions=1, settings=given, input_config=APPENDED
    ) as site:
        broker.create_topic(site.output_topic, 1, APPENDED)
        load = reviews(sentences // per_review, 1, per_review)
        send(broker.bootstrap_servers, site.input_topic, load, chunk=100)
        (worker,) = site.start(1)
        site.wait_caught_up(600)
        worker.terminate()
        worker.start().wait_ready()
        near = np.random.default_rng(0).standard_normal((1, DIMENSION)) * 0.7  # the entity's centre
        latencies = []
        for touch in range(11):
            vector = near + np.random.default_rng(touch).standard_normal((1, DIMENSION)) * 0.01 * (
                11 - touch
            )
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
    """Seconds to ready on an empty state, the median of three starts; then with the default engine,
    its model cached.
    """
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
