"""Turns of the contenders over entities of different sizes, and what they make together."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.bench.peers.contenders import BRUTE, CONTENDERS, OURS, TRIVIAL, Contender
from tests.bench.worker.events import reviews
from tests.bench.worker.measure import Progress, commits_of, cpu_seconds, published, remove_topics
from tests.harness.broker import KafkaBroker
from tests.harness.load import Sent, send
from tests.harness.topics import end_offsets
from tests.harness.workers import Pipeline

SIZES = (10, 100, 1000, 10_000)
SENTENCES = 40_000
"""In the state when measuring begins, of all entities together; but no fewer than four entities and
no more than a thousand.
"""
PER_REVIEW = 100
PATIENCE_SECONDS = 1800


def entities_of(size: int) -> int:
    """How many entities of so many sentences."""
    return min(1000, max(4, SENTENCES // size))


def history(size: int) -> Iterator[Sent]:
    """What is there before: `size` sentences for each entity, in as few reviews as may be."""
    for entity in range(entities_of(size)):
        for event in reviews(max(1, size // PER_REVIEW), 1, min(size, PER_REVIEW), seed=entity):
            yield renamed(event, f"entity-{entity}", "before")


def load(size: int, events: int) -> Iterator[Sent]:
    """What is measured: reviews of one sentence, round the same entities."""
    return (
        renamed(event, (event.key or b"").decode(), "load")
        for event in reviews(events, entities_of(size), seed=1)
    )


def renamed(event: Sent, entity: str, prefix: str) -> Sent:
    """The same review as one of this entity, with an id that no other part of the stream has."""
    body = json.loads(event.value or b"")
    body |= {"entity_id": entity, "review_id": f"{prefix}-{body['review_id']}"}
    return Sent(entity.encode(), json.dumps(body).encode())


def take(
    one: Contender,
    number: int,
    size: int,
    events: int,
    kafka: KafkaBroker,
    folder: Path,
    classpath: str,
) -> dict[str, Any]:
    """One turn: the history first, then the load at once, from its first commit to its last by the
    broker's clock.
    """
    count = min(events, one.events.get(size, events))
    name = f"peers-{one.name}-{size}-{number}"
    servers = kafka.bootstrap_servers
    with one.open(kafka, name, folder / name, classpath) as site:
        before = send(servers, site.input_topic, history(size), chunk=500)
        worker = site.worker().start()
        site.wait_caught_up(PATIENCE_SECONDS)
        burst = list(load(size, count))
        cpu_s = cpu_seconds(worker) or 0.0
        worker.pause()  # while the load is sent, which takes both cores for a second or two
        send(servers, site.input_topic, burst, chunk=5000)
        worker.resume()
        Progress(site).wait(PATIENCE_SECONDS)
        used_s = (cpu_seconds(worker) or 0.0) - cpu_s
        rate = rate_of(site, before)
        outputs = published(kafka, site.output_topic).changes
        worker.discard()
        changelogs = [topic for topic in topics_of(kafka) if topic.startswith(name)]
        remove_topics(kafka, *changelogs)
    return {
        "events": count,
        "events_per_s": rate,
        "events_per_cpu_s": round(count / used_s),
        "published": outputs,
    }


def topics_of(kafka: KafkaBroker) -> list[str]:
    """All there are."""
    admin = kafka.admin()
    return list(admin.list_topics(timeout=30).topics)


def rate_of(site: Pipeline, before: int) -> float:
    """Events/s from the first commit that has some of the load to the last one, without those that
    were in the first.
    """
    total = sum(end_offsets(site.broker.bootstrap_servers, site.input_topic).values())
    return rate_between(
        [(one.at_ms, one.partition, one.offset) for one in commits_of(site, site.name)],
        before,
        total,
    )


def rate_between(commits: Sequence[tuple[int, int, int]], before: int, total: int) -> float:
    """The same of (when in ms, partition, committed offset), of a topic that had `before` and has
    `total` records.

    Raises SystemExit where there is one commit alone.
    """
    at: dict[int, int] = {}
    moments: dict[int, int] = {}
    for at_ms, partition, offset in sorted(commits):
        at[partition] = max(offset, at.get(partition, 0))
        moments[at_ms] = sum(at.values())
    of_load = [(at_ms, done) for at_ms, done in moments.items() if done > before]
    ended = next(at_ms for at_ms, done in of_load if done >= total)
    began, done = of_load[0]
    if ended == began:
        raise SystemExit("the whole load went in one commit: ask for more events")
    return round(1000 * (total - done) / (ended - began), 1)


def rows(done: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """For each size the medians of every contender that took part, and ours over theirs."""
    found = []
    for size in dict.fromkeys(turn["sentences"] for turn in done):
        row: dict[str, Any] = {"sentences": size, "entities": entities_of(size)}
        for name in CONTENDERS:
            mine = [
                turn for turn in done if turn["sentences"] == size and turn["contender"] == name
            ]
            if mine:
                row[name] = {
                    figure: statistics.median(turn[figure] for turn in mine)
                    for figure in ("events_per_s", "events_per_cpu_s")
                }
        for other in (TRIVIAL, BRUTE):
            if OURS.name in row and other.name in row:
                ratio = row[OURS.name]["events_per_s"] / row[other.name]["events_per_s"]
                row[f"over_{other.name}"] = round(ratio, 2)
        found.append(row)
    return found
