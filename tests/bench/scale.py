"""One worker at the edge of its scale: 1,000 partitions, and 2,000,000 entities. `make
bench-scale`.

    python -m tests.bench.scale [--share S] [--only WORD] [--out FILE]

Measured on a real Kafka: time to ready on an empty state, with its own state, and with a lost one
that the changelog restores; the mean of a commit under a backlog; the most memory (VmHWM).

The entities of the large state are those of a smaller one, which the worker made from events: its
rows are copied in the changelog under further ids. The events of the backlog add a review to
entities of the whole state, each of them out of memory.
"""

from __future__ import annotations

import json
import re
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from confluent_kafka import Producer

from tests.bench.machine import began, command_line, write
from tests.bench.memory import peak_mib
from tests.bench.worker.events import DIMENSION, review
from tests.bench.worker.measure import Progress, settings
from tests.harness.broker import KafkaBroker
from tests.harness.load import Sent, send
from tests.harness.topics import Message, producer, read_topic
from tests.harness.workers import Pipeline, WorkerProcess, pipeline, restores
from worker.state.keys import ENTITY, header_key, parse_entity_key
from worker.state.rows import seal, unseal
from worker.storage.databases import MIN_OPEN_FILES, OTHER_FILES, SPARE_FILES

RESULTS: Final = Path(__file__).with_name("results") / "scale.json"
PATIENCE_SECONDS: Final = 1800
BACKLOG: Final = 20_000
"""Events of the backlog whose commits are measured."""
BROKER_HEAP_MIB: Final = 1024
"""The broker of 4,000 partitions and more needs more than the default of the tests."""


class Case(NamedTuple):
    """A state of so many partitions and entities; the worker makes `made` of them from events."""

    name: str
    partitions: int
    entities: int
    made: int


CASES: Final = (
    Case("1,000 partitions", 1_000, 20_000, 20_000),
    Case("2,000,000 entities", 16, 2_000_000, 20_000),
)


def entity(number: int) -> str:
    """The id of an entity."""
    return f"entity-{number:08d}"


def events(entities: Iterator[int], name: str) -> Iterator[tuple[int, Sent]]:
    """A review of one sentence for each of the entities."""
    chance = np.random.default_rng(1)
    for number in entities:
        vectors = chance.standard_normal((1, DIMENSION)).astype("<f4")
        yield number, review(entity(number), f"{name}-{number}", vectors)


def measured(broker: KafkaBroker, case: Case, folder: Path, share: float) -> dict[str, Any]:
    """The figures of one case."""
    made = max(case.partitions, round(case.made * share))
    copies = case.entities // case.made
    name = re.sub(r"\W+", "-", f"scale-{case.name}")
    with pipeline(broker, name, folder, partitions=case.partitions, settings=settings()) as site:
        worker = site.worker().start()
        found: dict[str, Any] = {
            "case": case.name,
            "partitions": case.partitions,
            "entities": made * copies,
            "empty_to_ready_s": worker.wait_ready(PATIENCE_SECONDS),
        }
        load = (event for _, event in events(iter(range(made)), "first"))
        send(broker.bootstrap_servers, site.input_topic, load, chunk=1000)
        Progress(site).wait(PATIENCE_SECONDS)
        worker.terminate(PATIENCE_SECONDS)
        partition_of = copy_rows(site, made, copies)
        worker.wipe()
        found |= restored(worker)
        found |= loaded(site, worker, made * copies, partition_of)
        found["peak_mib"] = peak_mib(worker)
        worker.terminate(PATIENCE_SECONDS)
        found["state_to_ready_s"] = worker.start().wait_ready(PATIENCE_SECONDS)
        site.stop()
    return {
        key: round(figure, 2) if isinstance(figure, float) else figure
        for key, figure in found.items()
    }


def copy_rows(site: Pipeline, made: int, copies: int) -> dict[int, int]:
    """Write the rows of each entity again under further ids; by entity that was made its
    partition.
    """
    rows = read_topic(site.broker.bootstrap_servers, site.changelog_topic)
    parts = [StatePart.of(row) for row in rows if row.key and row.key[:1] == ENTITY]
    sending = producer(site.broker.bootstrap_servers, **{"linger.ms": 100})
    for copy in range(1, copies):
        for part in parts:
            key, value = part.copy(made * copy)
            write_row(sending, site.changelog_topic, part.partition, key, value)
        sending.poll(0)
    assert sending.flush(PATIENCE_SECONDS) == 0
    return {part.number: part.partition for part in parts}


class StatePart(NamedTuple):
    """A row of an entity, taken apart."""

    partition: int
    number: int
    rest: bytes
    """Of the key, after the entity's id."""
    version: int
    payload: bytes

    @classmethod
    def of(cls, row: Message) -> StatePart:
        """The row of a changelog."""
        assert row.key is not None
        assert row.value is not None
        number = int(parse_entity_key(row.key).entity.removeprefix(b"entity-"))
        rest = row.key[len(header_key(entity(number).encode())) :]
        return cls(row.partition, number, rest, row.value[0], unseal(row.key, row.value))

    def copy(self, by: int) -> tuple[bytes, bytes]:
        """Key and value of the same row of the entity whose number is so much higher."""
        key = header_key(entity(self.number + by).encode()) + self.rest
        return key, seal(key, self.payload, self.version)  # its checksum covers the key


def write_row(sending: Producer, topic: str, partition: int, key: bytes, value: bytes) -> None:
    """Hand a row to the producer, which waits where the broker is slower."""
    while True:
        try:
            sending.produce(topic, value, key, partition)
            return
        except BufferError:
            sending.poll(0.1)


def restored(worker: WorkerProcess) -> dict[str, Any]:
    """The start without local state."""
    before = len(worker.log_text())
    ready_s = worker.start().wait_ready(PATIENCE_SECONDS)
    found = restores(worker.log_text()[before:])
    rows, seconds = (sum(numbers) for numbers in zip(*found, strict=True))
    return {
        "lost_to_ready_s": ready_s,
        "restored_rows": rows,
        "restore_s": seconds,
        "restore_rows_per_s": round(rows / seconds),
        "restoring_mib": peak_mib(worker),
    }


def loaded(
    site: Pipeline, worker: WorkerProcess, entities: int, partition_of: dict[int, int]
) -> dict[str, Any]:
    """A backlog of events for entities of the whole state."""
    made, output = len(partition_of), site.output_topic
    count = min(BACKLOG, entities)
    chosen = np.random.default_rng(2).choice(entities, count, replace=False)
    before = worker.metrics()
    sending = producer(site.broker.bootstrap_servers)
    for number, event in events(map(int, chosen), "second"):
        sending.produce(site.input_topic, event.value, event.key, partition_of[number % made])
        sending.poll(0)
    assert sending.flush(PATIENCE_SECONDS) == 0
    started_s = time.monotonic()
    Progress(site).wait(PATIENCE_SECONDS)
    seconds = time.monotonic() - started_s
    after = worker.metrics()
    commits, spent_s = (
        after[f"coversumm_commit_seconds_{what}"] - before[f"coversumm_commit_seconds_{what}"]
        for what in ("count", "sum")
    )
    # Each entity has its review of the state and that of the backlog: the copies are complete.
    last = {row.key: row.value for row in read_topic(site.broker.bootstrap_servers, output)}
    for number in map(int, chosen):
        summary = json.loads(last[entity(number).encode()] or b"{}")
        assert len(summary["sentences"]) == 2, summary
    return {
        "backlog_events": count,
        "backlog_s": seconds,
        "commits": round(commits),
        "commit_ms": round(1000 * spent_s / commits, 1),
    }


def partitions_allowed() -> int:
    """Partitions of which one worker may hold the databases open, by this machine's hard limit."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return (hard - SPARE_FILES) // (MIN_OPEN_FILES + OTHER_FILES)


def main() -> int:
    """Measure, print, write."""
    parser = command_line(__doc__, RESULTS)
    parser.add_argument("--share", type=float, default=1.0, help="of the entities, to try it")
    parser.add_argument("--only", default="", help="cases with this in their names")
    given = parser.parse_args()
    record, rows = began("tests.bench.scale"), []
    for number, case in enumerate(CASES):
        if given.only in case.name:
            if case.partitions > (allowed := partitions_allowed()):
                print(f"{allowed} partitions: this machine's `ulimit -Hn` allows no more")
                case = case._replace(name=f"{allowed} partitions", partitions=allowed)
            with tempfile.TemporaryDirectory() as scratch:
                folder = Path(scratch)
                with KafkaBroker(folder / "broker", heap_mib=BROKER_HEAP_MIB) as broker:
                    rows.append(measured(broker, case, folder / str(number), given.share))
            print(rows[-1], flush=True)
    write(given.out, record | {"rows": rows})
    return 0


if __name__ == "__main__":
    sys.exit(main())
