"""What is read off a worker and its group: progress, processor time, commits, what it published."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from tests.harness.broker import Kafka
from tests.harness.patience import PATIENCE_SECONDS
from tests.harness.recovered import OFFSETS_TOPIC, Commit, commits
from tests.harness.topics import consumer, end_offsets, partitions_of, read_topic
from tests.harness.workers import Pipeline, WorkerProcess


def settings(embedder: str = "none") -> dict[str, str]:
    """The defaults but for the engine; quiet logs would not show the restore."""
    return {"COVERSUMM_EMBEDDER": embedder, "COVERSUMM_LOG_LEVEL": "INFO"}


class Progress:
    """A group's committed offsets of the input, asked often by one client."""

    def __init__(self, site: Pipeline, group: str | None = None):
        self._site = site
        self._client = consumer(site.broker.bootstrap_servers, group or site.name)
        self._targets = end_offsets(site.broker.bootstrap_servers, site.input_topic)

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


def cpu_seconds(worker: WorkerProcess) -> float | None:
    """Processor time the worker has used, where the system tells."""
    try:
        fields = Path(f"/proc/{worker.pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return None
    return round((int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"), 2)


class Rate(NamedTuple):
    """By the broker's clock, from a group's first commit to its last."""

    events: int
    seconds: float
    commits: int

    @property
    def events_per_s(self) -> int:
        """What came after the first commit, in that time."""
        return round(self.events / self.seconds)


def rate(site: Pipeline, group: str) -> Rate:
    """The rate of a group that has committed the whole input."""
    found = commits_of(site, group)
    total = sum(end_offsets(site.broker.bootstrap_servers, site.input_topic).values())
    times = sorted({commit.at_ms for commit in found})
    if len(times) < 2:
        raise SystemExit("the whole backlog went in one commit: ask for more events")
    first = sum(commit.offset for commit in found if commit.at_ms == times[0])
    return Rate(total - first, (times[-1] - times[0]) / 1000, len(times))


def commits_of(site: Pipeline, group: str) -> list[Commit]:
    """What the broker wrote down of a group's offsets."""
    return commits(
        read_topic(site.broker.bootstrap_servers, OFFSETS_TOPIC), group, site.input_topic
    )


class Published(NamedTuple):
    """What is in an output topic.

    Attributes:
        changes: how many messages.
        digest: of all of their keys and bytes, in each entity's order, whatever order the entities
            are in.
        last: of the sentences in each entity's last message, their figures included.
    """

    changes: int
    digest: str
    last: str


def published(kafka: Kafka, topic: str) -> Published:
    """What a committed reader finds in it, read message after message: it may be larger than
    memory.
    """
    count, chains, bodies = 0, {}, {}
    for key, value in _messages(kafka, topic):
        count += 1
        chains[key] = hashlib.sha256(
            chains.get(key, b"") + hashlib.sha256(value or b"").digest()
        ).digest()
        bodies[key] = value
    last = {
        key: json.dumps(json.loads(value or b"{}").get("sentences"))
        for key, value in bodies.items()
    }
    return Published(
        count, _digest(chains), _digest({key: value.encode() for key, value in last.items()})
    )


def _digest(of: dict[bytes, bytes]) -> str:
    whole = hashlib.sha256()
    for key in sorted(of):
        whole.update(hashlib.sha256(key).digest() + hashlib.sha256(of[key]).digest())
    return whole.hexdigest()[:16]


def _messages(kafka: Kafka, topic: str) -> Iterator[tuple[bytes, bytes | None]]:
    reader = consumer(kafka.bootstrap_servers)
    try:
        left = set(partitions_of(reader, topic))
        reader.assign([TopicPartition(topic, partition, 0) for partition in left])
        heard_s = time.monotonic()
        while left:
            found = reader.consume(1000, 0.2)  # waits out its time unless it is full
            if found:
                heard_s = time.monotonic()
            elif time.monotonic() - heard_s > PATIENCE_SECONDS:
                raise TimeoutError(f"{topic} was not read to its end")
            for message in found:
                error = message.error()
                if error is None:
                    yield message.key() or b"", message.value()
                elif error.code() == KafkaError._PARTITION_EOF:
                    left.discard(message.partition())
                else:
                    raise KafkaException(error)
    finally:
        reader.close()


def remove_topics(kafka: Kafka, *names: str) -> None:
    """Remove topics whose bytes nobody needs any more: a run makes gigabytes."""
    admin = kafka.admin()
    for future in admin.delete_topics(list(names), request_timeout=PATIENCE_SECONDS).values():
        future.result()
