"""From the broker's receipt of an event to that of the change it made, both by the broker's clock.

A change is received before its transaction is committed: `commit` has the time until the event's
offset was, which comes just before committed readers see the change.
"""

from __future__ import annotations

import json
import time
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tests.bench.worker.events import ENTITIES, nearer, reviews
from tests.bench.worker.measure import commits_of, settings
from tests.harness.broker import KafkaBroker
from tests.harness.load import Sent, SteadyLoad, send
from tests.harness.pauses import APPENDED
from tests.harness.recovered import Commit
from tests.harness.topics import Message, end_offsets, read_topic
from tests.harness.workers import Pipeline, pipeline

WARM_SECONDS = 5.0
"""At the beginning of a load, which do not count: connections are made, entities are read for the
first time.
"""
PATIENCE_SECONDS = 1800
PER_REVIEW = 100


def hot(
    broker: KafkaBroker, folder: Path, sentences: int, events_per_s: int, seconds: float
) -> dict[str, Any]:
    """One entity with so many sentences, and steady events for it alone."""
    before = reviews(sentences // PER_REVIEW, 1, PER_REVIEW)
    load = nearer(round(events_per_s * (seconds + WARM_SECONDS)))
    measured = _under_load(broker, folder, "bench-hot", before, load, events_per_s, partitions=1)
    return {"sentences": sentences, **measured}


def half_load(
    broker: KafkaBroker, folder: Path, events_per_s: int, seconds: float
) -> dict[str, Any]:
    """The synthetic workload at a steady rate, which is to be half of what the worker was measured
    to manage.
    """
    load = reviews(round(events_per_s * (seconds + WARM_SECONDS)), ENTITIES, seed=1)
    return _under_load(
        broker, folder, "bench-half", reviews(2 * ENTITIES, ENTITIES), load, events_per_s
    )


def _under_load(
    broker: KafkaBroker,
    folder: Path,
    name: str,
    before: Iterable[Sent],
    load: Iterable[Sent],
    events_per_s: int,
    partitions: int = 4,
) -> dict[str, Any]:
    """Work off what is `before`, then the load as it comes; of that what counts."""
    events = list(load)  # made beforehand: what makes them does not hold up the sender
    with pipeline(
        broker, name, folder, partitions=partitions, settings=settings(), input_config=APPENDED
    ) as site:
        broker.create_topic(site.output_topic, partitions, APPENDED)
        send(broker.bootstrap_servers, site.input_topic, before, chunk=100)
        site.start(1)
        site.wait_caught_up(PATIENCE_SECONDS)
        first = end_offsets(broker.bootstrap_servers, site.input_topic)
        steady = SteadyLoad(broker.bootstrap_servers, site.input_topic, events, events_per_s)
        while steady.sent < len(events):
            time.sleep(0.2)
        steady.end()
        site.wait_caught_up(PATIENCE_SECONDS)
        site.stop()
        return _waits(site, first) | {"events_per_s": events_per_s}


def _waits(site: Pipeline, first: dict[int, int]) -> dict[str, Any]:
    sent = [
        message
        for message in read_topic(site.broker.bootstrap_servers, site.input_topic)
        if message.offset >= first[message.partition]
    ]
    since_ms = min(message.timestamp_ms for message in sent) + 1000 * WARM_SECONDS
    counted = [message for message in sent if message.timestamp_ms >= since_ms]
    received = {(message.partition, message.offset): message.timestamp_ms for message in counted}
    changes = until_changes(received, read_topic(site.broker.bootstrap_servers, site.output_topic))
    return {
        "offered_events_per_s": round(
            len(counted) / max(1e-3, (max(m.timestamp_ms for m in counted) - since_ms) / 1000)
        ),
        "change": percentiles(changes),
        "commit": percentiles(
            [wait for _, wait in until_committed(counted, commits_of(site, site.name))]
        ),
    }


def until_changes(received: dict[tuple[int, int], int], changes: Iterable[Message]) -> list[int]:
    """Milliseconds from the receipt of an event, by its partition and offset, to that of its
    change, where it made one.
    """
    found = []
    for change in changes:
        cause = json.loads(change.value or b"{}").get("cause", {})
        at_ms = received.get((cause.get("partition"), cause.get("offset")))
        if at_ms is not None:
            found.append(change.timestamp_ms - at_ms)
    return found


def until_committed(events: Iterable[Message], commits: Iterable[Commit]) -> list[tuple[int, int]]:
    """Of each event when the broker took it, and milliseconds until its offset was committed."""
    by_partition: dict[int, list[Commit]] = defaultdict(list)
    for commit in commits:
        by_partition[commit.partition].append(commit)
    offsets = {
        partition: [commit.offset for commit in found] for partition, found in by_partition.items()
    }
    waits = []
    for event in events:
        at = bisect_right(offsets[event.partition], event.offset)
        waits.append(
            (event.timestamp_ms, by_partition[event.partition][at].at_ms - event.timestamp_ms)
        )
    return waits


def percentiles(waits: Sequence[float]) -> dict[str, float]:
    """In milliseconds."""
    found = np.percentile(np.array(waits), [50, 99, 100]).round(1).tolist()
    return {"events": len(waits), **dict(zip(("p50_ms", "p99_ms", "max_ms"), found, strict=True))}
