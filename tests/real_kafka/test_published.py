"""`compare` and `history` of topics on a real Kafka: aborted transactions, tombstones, and no more
read than a time asks for.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.harness.broker import KafkaBroker
from tests.harness.patience import PATIENCE_SECONDS, TEST_SECONDS
from tests.harness.topics import producer
from tests.harness.workers import run_command
from tests.view.changes import body
from worker.kafka.topics import partition_of
from worker.published.published import PublishedTopic, TimeSpan
from worker.settings import Settings

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(TEST_SECONDS)]

PARTITIONS = 3
BEGIN_MS = 1_700_000_000_000
SECOND_MS = 1000
Summaries = Mapping[str, Mapping[str, str] | None]
"""By entity a text by sentence id; None: a tombstone."""


def publish(kafka: KafkaBroker, topic: str, rounds: Sequence[tuple[Summaries, bool]]) -> None:
    """Each round is a transaction, committed or aborted."""
    writer = producer(kafka.bootstrap_servers, **{"transactional.id": f"{topic}-writer"})
    writer.init_transactions(PATIENCE_SECONDS)
    for number, (summaries, is_committed) in enumerate(rounds):
        writer.begin_transaction()
        for entity, texts in summaries.items():
            value = None if texts is None else body(entity, number, texts)
            writer.produce(topic, value, entity.encode(), partition_of(entity, PARTITIONS))
        assert writer.flush(PATIENCE_SECONDS) == 0
        (writer.commit_transaction if is_committed else writer.abort_transaction)(PATIENCE_SECONDS)


def command(kafka: KafkaBroker, *arguments: str, code: int = 0) -> list[dict[str, Any]]:
    """What a command prints."""
    ended = run_command(
        *arguments, environment={"KAFKA_BOOTSTRAP_SERVERS": kafka.bootstrap_servers}
    )
    assert ended.returncode == code, ended.stderr[-2000:]
    return [json.loads(line) for line in ended.stdout.splitlines()]


def test_compare_of_two_topics_and_of_a_file(kafka: KafkaBroker, tmp_path: Path) -> None:
    """What was aborted, and what a tombstone ended, is no summary; of the rest the last
    one counts.
    """
    first_topic, other = "published-one", "published-other"
    for topic in (first_topic, other):
        kafka.create_topic(topic, PARTITIONS)
    entities = [f"entity {i}" for i in range(60)]
    first: Summaries = {entity: {"r#0": "Good.", "r#1": "Fine."} for entity in entities}
    changed: Summaries = {entity: {"r#0": "Good.", "r#2": "Loud."} for entity in entities[:5]}
    ended: Summaries = dict.fromkeys(entities[5:8])
    publish(kafka, first_topic, [(first, True), (changed, False)])
    publish(
        kafka,
        other,
        [(ended, True), (first, True), (changed, True), (ended, True), (changed, False)],
    )

    (found,) = command(kafka, "compare", first_topic, other, "--max-changed", "8")
    counts = ("entities", "equal", "identical", "changed", "missing_in_a", "missing_in_b", "ok")
    assert [found[name] for name in counts] == [60, 52, 52, 5, 0, 3, True]
    assert found["differing"] == {"0": 52, "1": 5}
    assert found["some_missing_in_b"] == sorted(entities[5:8])
    assert {example["entity_id"] for example in found["examples"]} < set(entities[:5])
    command(kafka, "compare", first_topic, other, "--max-changed", "7", code=1)

    file = tmp_path / "bodies.jsonl"
    file.write_bytes(b"".join(body(entity, 0, first[entity] or {}) + b"\n" for entity in entities))
    (found,) = command(kafka, "compare", first_topic, str(file), "--max-changed", "0")
    assert (found["equal"], found["ok"]) == (60, True)


@pytest.fixture
def settings(kafka: KafkaBroker, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", kafka.bootstrap_servers)
    return Settings.from_environment()


@pytest.mark.long
def test_history_by_time_reads_no_more_than_that_time(
    kafka: KafkaBroker, settings: Settings
) -> None:
    """Of 3,000 messages a second apart the ones between two times."""
    topic, entity, count = "published-times", "entity", 3000
    kafka.create_topic(topic, PARTITIONS, {"retention.ms": "-1"})
    partition = partition_of(entity, PARTITIONS)
    writer = producer(kafka.bootstrap_servers)
    for i in range(count):
        name = entity if i % 10 == 0 else f"another {i}"
        value = body(name, i, {f"r{i}#0": "Good."}, [f"r{i}#0"], previous=i - 10 if i else None)
        writer.produce(topic, value, name.encode(), partition, timestamp=BEGIN_MS + i * SECOND_MS)
        if i % 100 == 99:
            assert writer.flush(PATIENCE_SECONDS) == 0

    def between(since: int | None, until: int | None) -> tuple[list[int], int]:
        """Offsets found between two seconds, and how many messages were read for them."""
        span = TimeSpan(
            *(
                None if second is None else BEGIN_MS + second * SECOND_MS
                for second in (since, until)
            )
        )
        with PublishedTopic(topic, settings) as source:
            return [change.offset for change in source.of(entity, span)], source.count

    assert between(None, None) == (list(range(0, count, 10)), count)
    assert between(2900, None) == (list(range(2900, count, 10)), 100)
    assert between(1495, 1515) == ([1500, 1510], 20)
    assert between(None, 5) == ([0], 5)
    assert between(count, None) == ([], 0)
    assert between(-(10**10), 1) == ([0], 1), "a time before 1970"

    span = ("--since", "2023-11-14T22:38:20Z", "--until", "2023-11-14T22:38:35Z")
    rows = command(kafka, "history", entity, "--from", topic, *span)
    assert [(row["offset"], row["published_at"], row["incomplete"]) for row in rows] == [
        (1500, "2023-11-14T22:38:20.000Z", True),
        (1510, "2023-11-14T22:38:30.000Z", False),
    ]
