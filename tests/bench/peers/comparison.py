"""Turns of the contenders over entities of different sizes, what they make together, and one
`kill -9` each.
"""

from __future__ import annotations

import base64
import json
import statistics
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from confluent_kafka import TopicPartition

from tests.bench.peers.contenders import (
    BRUTE,
    BYTEWAX_BRUTE,
    COMPILED,
    OURS,
    QUIX_BRUTE,
    TITLES,
    TRIVIAL,
    Contender,
)
from tests.bench.worker.events import review, reviews
from tests.bench.worker.measure import Progress, cpu_seconds, remove_topics
from tests.harness.broker import KafkaBroker
from tests.harness.load import Sent, send
from tests.harness.record import Row
from tests.harness.topics import Message, bounds, consumer, partitions_of, read_topic
from tests.harness.workers import Pipeline, WorkerProcess

SIZES = (10, 100, 1000, 10_000)
KILLED_SIZE = 100
"""Sentences of an entity in the turns with a `kill -9`."""
SENTENCES = 40_000
"""In the state when measuring begins, of all entities together; but no fewer than four entities and
no more than a thousand.
"""
PER_REVIEW = 100
PATIENCE_SECONDS = 1800
QUIET_SECONDS = 2.0
"""Seconds without a further published message before the output is looked through."""
SETTLE_SECONDS = 3.0
"""Seconds between history and load: a snapshot of the history is not part of the load."""
LOST_SECONDS = 120.0
"""Seconds of quiet after which what a killed contender has not published counts as lost. A broker
takes 45 s to drop a killed member of a group, and 60 s to abort its transaction.
"""
READY, DONE = "ready", "done"
FIGURES = ("events_per_s", "events_per_cpu_s", "peak_mib")


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


def marks(events: Iterable[Sent], name: str) -> list[Sent]:
    """For each entity of `events` a review of one sentence at their centroid: no sentence but an
    earlier mark is nearer, so every contender publishes it, once it has processed all before it.
    """
    sums: dict[bytes, Any] = {}
    for event in events:
        sentences = json.loads(event.value or b"")["sentences"]
        encoded = b"".join(base64.b64decode(one["embedding"]) for one in sentences)
        vectors = np.frombuffer(encoded, "<f4").reshape(len(sentences), -1)
        vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        sums[event.key or b""] = sums.get(event.key or b"", 0.0) + vectors.sum(axis=0)
    return [
        review(entity.decode(), f"mark-{name}", [of.astype("<f4")]) for entity, of in sums.items()
    ]


class Stream(NamedTuple):
    """All that a contender is sent: the history with its marks, then the load with its own."""

    before: list[Sent]
    measured: list[Sent]

    def ids(self) -> Counter[tuple[str, str]]:
        """(entity, review) of everything."""
        return Counter(_id(event.key, event.value) for event in [*self.before, *self.measured])


@lru_cache(maxsize=4)
def stream(size: int, events: int) -> Stream:
    """Of entities of this size: `events` are those of the load, its marks among them."""
    before = list(history(size))
    before += marks(before, READY)
    measured = list(load(size, events - entities_of(size)))
    return Stream(before, measured + marks([*before, *measured], DONE))


def _id(key: bytes | None, value: bytes | None) -> tuple[str, str]:
    return (key or b"").decode(), json.loads(value or b"")["review_id"]


class Output:
    """What a contender publishes, watched by one client."""

    def __init__(self, site: Pipeline, worker: WorkerProcess, entities: int):
        self._site, self._worker, self._entities = site, worker, entities
        servers = site.broker.bootstrap_servers
        self._committed = consumer(servers)
        self._all = consumer(servers, **{"isolation.level": "read_uncommitted"})
        self._partitions = partitions_of(self._all, site.output_topic)

    def count(self, *, committed: bool = True) -> int:
        """Records in the topic, those of open transactions too unless only `committed` ones
        count.
        """
        client = self._committed if committed else self._all
        topic = self._site.output_topic
        return sum(bounds(client, TopicPartition(topic, one))[1] for one in self._partitions)

    def wait_for(self, mark: str, quiet_s: float = PATIENCE_SECONDS) -> tuple[float, float]:
        """Wait until all entities' marks are published, or nothing was for `quiet_s`; when the last
        one was, in ms of the broker's clock, and the processor time until then.

        Raises TimeoutError where it takes too long or the contender ended.
        """
        started_s = grown_s = looked_s = time.monotonic()
        count, cpu_s = 0, 0.0
        while time.monotonic() - grown_s < quiet_s:
            if not self._worker.alive or time.monotonic() - started_s > PATIENCE_SECONDS:
                raise TimeoutError(f"{count} messages, no mark {mark}\n{self._site.logs()}")
            now = self.count()
            if now != count:
                count, grown_s = now, time.monotonic()
                cpu_s = cpu_seconds(self._worker) or 0.0
            elif count and time.monotonic() - max(grown_s, looked_s) > QUIET_SECONDS:
                looked_s = time.monotonic()
                at_ms = self._marked(mark)
                # What came while it was read is not in the processor time yet.
                if len(at_ms) == self._entities and self.count() == count:
                    return max(at_ms.values()), cpu_s
            time.sleep(0.05)
        return 0.0, cpu_s

    def _marked(self, mark: str) -> dict[bytes, float]:
        """When each entity's mark was published first."""
        at_ms: dict[bytes, float] = {}
        for message in self.messages():
            if f"mark-{mark}".encode() in (message.value or b""):
                at_ms.setdefault(message.key or b"", message.timestamp_ms)
        return at_ms

    def messages(self) -> list[Message]:
        """What a committed reader finds, once no transaction is open any more."""
        return read_topic(self._site.broker.bootstrap_servers, self._site.output_topic)

    def wait_settled(self) -> None:
        """Wait until no transaction is open: that of a killed process is aborted when its time is
        over.
        """
        give_up_s = time.monotonic() + LOST_SECONDS
        while self.count() < self.count(committed=False):
            if time.monotonic() > give_up_s:
                raise TimeoutError(f"a transaction stays open in {self._site.output_topic}")
            time.sleep(0.5)

    def close(self) -> None:
        """Close the clients."""
        self._committed.close()
        self._all.close()


def take(
    one: Contender,
    number: int,
    size: int,
    events: int,
    kafka: KafkaBroker,
    folder: Path,
    classpath: str,
) -> dict[str, Any]:
    """One turn: the history first, then the load at once, from its beginning to the last mark."""
    count = max(min(events, one.events.get(size, events)), 2 * entities_of(size))
    name = f"peers-{one.name}-{size}-{number}"
    sent = stream(size, count)
    with one.open(kafka, name, folder / name, classpath) as site:
        send(kafka.bootstrap_servers, site.input_topic, sent.before, chunk=500)
        worker = site.worker().start()
        output = Output(site, worker, entities_of(size))
        output.wait_for(READY)
        time.sleep(SETTLE_SECONDS)
        before = output.count()
        cpu_s = cpu_seconds(worker) or 0.0
        began_ms = release(site, worker, sent.measured)
        ended_ms, ended_cpu_s = output.wait_for(DONE)
        published, peak = output.count() - before, peak_mib(worker)
        output.close()
        worker.discard()
        worker.wipe()
        remove_topics(kafka, *(topic for topic in topics_of(kafka) if topic.startswith(name)))
    return {
        "events": count,
        "events_per_s": round(1000 * count / (ended_ms - began_ms), 1),
        "events_per_cpu_s": round(count / max(0.01, ended_cpu_s - cpu_s)),
        "peak_mib": peak,
        "published": published,
    }


def release(site: Pipeline, worker: WorkerProcess, events: Sequence[Sent]) -> float:
    """Send the load while the contender is stopped, since sending takes both cores; when it was let
    go on, in ms.
    """
    worker.pause()
    send(site.broker.bootstrap_servers, site.input_topic, events, chunk=5000)
    worker.resume()
    return 1000 * time.time()


def kill(
    one: Contender, events: int, kafka: KafkaBroker, folder: Path, classpath: str
) -> dict[str, Any]:
    """`kill -9` after half of the load, and a start at once: what is lost and repeated of
    everything sent, and the seconds until the next event is published for a committed reader.
    """
    name = f"peers-{one.name}-killed"
    size = KILLED_SIZE
    sent = stream(size, events)
    half = len(sent.before) + len(sent.measured) // 2
    with one.open(kafka, name, folder / name, classpath) as site:
        send(kafka.bootstrap_servers, site.input_topic, sent.before, chunk=500)
        worker = site.worker().start()
        output = Output(site, worker, entities_of(size))
        output.wait_for(READY)
        release(site, worker, sent.measured)
        progress = Progress(site)  # events that publish nothing are seen in the commits alone
        while (output.count(committed=False) if one.keeps else progress.committed()) < half:
            time.sleep(0.01)
        worker.kill()
        killed_ms = 1000 * time.time()
        worker.start()
        output.wait_for(DONE, LOST_SECONDS)
        output.wait_settled()
        found = output.messages()
        if one.keeps:
            lost, repeated = differences(sent, found)
            worker.discard()
        else:
            site.wait_caught_up()
            worker.terminate()
            row = Row(one.name)
            row.judge(site.report())
            lost, repeated = row.lost + row.wrong, row.repeated
        output.close()
        worker.wipe()
        remove_topics(kafka, *(topic for topic in topics_of(kafka) if topic.startswith(name)))
    again = [found_at for m in found if (found_at := m.timestamp_ms) > killed_ms]
    resumed_s = round((min(again) - killed_ms) / 1000, 1) if again else None
    return {"events": events, "lost": lost, "repeated": repeated, "resumed_s": resumed_s}


def differences(sent: Stream, found: Sequence[Message]) -> tuple[int, int]:
    """How many of the reviews sent were not published, and how many messages are one review's
    again.
    """
    ids = Counter(_id(message.key, message.value) for message in found)
    return len(sent.ids().keys() - ids.keys()), sum(ids.values()) - len(ids)


def peak_mib(worker: WorkerProcess) -> int:
    """The largest resident memory of its process so far, in MiB."""
    lines = Path(f"/proc/{worker.pid}/status").read_text().splitlines()
    return round(next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024)


def topics_of(kafka: KafkaBroker) -> list[str]:
    """All there are."""
    admin = kafka.admin()
    return list(admin.list_topics(timeout=30).topics)


def rows(done: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """For each size the medians of every contender that took part, and ours over theirs."""
    found = []
    for size in dict.fromkeys(turn["sentences"] for turn in done):
        row: dict[str, Any] = {"sentences": size, "entities": entities_of(size)}
        for name in TITLES:
            mine = [
                turn for turn in done if turn["sentences"] == size and turn["contender"] == name
            ]
            if mine:
                row[name] = {
                    figure: statistics.median(turn[figure] for turn in mine) for figure in FIGURES
                }
        for ours in (OURS.name, COMPILED):
            for other in (TRIVIAL, BRUTE, QUIX_BRUTE, BYTEWAX_BRUTE):
                if ours in row and other.name in row:
                    row[f"{ours}_over_{other.name}"] = {
                        figure: round(row[ours][figure] / row[other.name][figure], 2)
                        for figure in FIGURES[:2]
                    }
        found.append(row)
    return found
