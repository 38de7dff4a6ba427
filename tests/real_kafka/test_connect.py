"""A topic with fields of its own gives the summaries of the same events by the contract."""

from __future__ import annotations

import json
import random
import subprocess
import time
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.harness.broker import KafkaBroker
from tests.harness.debezium import WITH_VECTORS, Step, steps, written
from tests.harness.drive import config
from tests.harness.eventually import eventually
from tests.harness.node import free_port
from tests.harness.patience import PATIENCE_SECONDS, TEST_SECONDS
from tests.harness.small_load import DIMENSION, SETTINGS
from tests.harness.topics import committed_offsets, producer, read_topic
from tests.harness.workers import (
    COMMAND,
    Pipeline,
    WorkerProcess,
    clean_environment,
    pipeline,
)
from worker.events import Record
from worker.kafka.topics import partition_of
from worker.processing.in_memory import ProcessorInMemory

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(TEST_SECONDS)]

PARTITIONS = 3
PRODUCTS = 7
OF_ONE_BUILD = ("epoch", "sequence", "previous_sequence", "cause")


def bodies(values: Iterable[bytes | None]) -> dict[str, list[Any]]:
    """By entity its changes in order, without what differs between builds; None: a tombstone."""
    found: dict[str, list[Any]] = defaultdict(list)
    for value in values:
        if value is not None:
            body = json.loads(value)
            found[body["entity_id"]].append(
                {name: one for name, one in body.items() if name not in OF_ONE_BUILD}
            )
    return dict(found)


def last_sets(changes: dict[str, list[Any]]) -> dict[str, set[tuple[str, str]]]:
    """By entity the set last published: distances depend on the order of reviews, it does not."""
    return {
        name: {(one["sentence_id"], one["text"]) for one in found[-1]["sentences"]}
        for name, found in changes.items()
    }


def expected(history: list[Step]) -> dict[str, list[Any]]:
    """What a worker publishes about these events of the contract."""
    made = config(k=5, limits={"dimension": DIMENSION, "model": None, "embeds": False})
    processor = ProcessorInMemory(made, None)
    records = [
        Record("reviews", 0, i, 0, one.product.encode(), one.event)
        for i, one in enumerate(history)
        if one.event is not None
    ]
    batches = processor.process(records)
    messages = [message for batch in batches for message in batch.messages]
    assert {message.topic for message in messages} == {"summaries"}
    return bodies(message.value for message in messages)


def test_a_debezium_stream_keyed_by_entity(kafka: KafkaBroker, tmp_path: Path) -> None:
    file = written(tmp_path)
    mapping = WITH_VECTORS.replace("shop.public.reviews", "mapped-reviews")
    file.write_text(mapping)
    history = list(steps(400, PRODUCTS, DIMENSION, seed=1))
    with pipeline(
        kafka,
        "mapped",
        tmp_path,
        partitions=PARTITIONS,
        settings={**SETTINGS, "COVERSUMM_MAPPING": str(file)},
    ) as site:
        file.write_text(WITH_VECTORS.replace("shop.public.reviews", site.input_topic))
        client = producer(kafka.bootstrap_servers)
        for one in history:
            partition = partition_of(one.product, PARTITIONS)
            client.produce(site.input_topic, one.value, one.key, partition)
        stray = (partition_of(history[0].product, PARTITIONS) + 1) % PARTITIONS
        client.produce(site.input_topic, history[0].value, history[0].key, stray)
        client.produce(site.input_topic, b"no json", b"{}", 0)
        client.flush(60)
        site.start(2)
        site.wait_caught_up()
        site.stop()
        published = read_topic(kafka.bootstrap_servers, site.output_topic)
        assert bodies(one.value for one in published) == expected(history)
        assert all(
            one.partition == partition_of((one.key or b"").decode(), PARTITIONS)
            for one in published
        )
        assert replayed(site, tmp_path / "out.jsonl") == expected(history)
        letters = read_topic(kafka.bootstrap_servers, site.dlq_topic)
        assert {(one.key, one.value) for one in letters} == {
            (history[0].key, history[0].value),
            (b"{}", b"no json"),
        }
        details = {dict(one.headers)["dlq.reason"]: dict(one.headers) for one in letters}
        refused = details[b"key_mismatch"]["dlq.detail"]
        assert refused.startswith(b"rule 'published': entity_id ")
        assert f"bridge --mapping {file} --from {site.input_topic}`".encode() in refused
        assert details[b"bad_json"]["dlq.source.topic"] == site.input_topic.encode()


def replayed(site: Pipeline, target: Path) -> dict[str, list[Any]]:
    """What a replay of the input topic writes with the mapping, to a file."""
    arguments = ["replay", "--from", site.input_topic, "--to", str(target), "--json"]
    environment = {
        **site.environment,
        "COVERSUMM_DATA_DIR": str(target.parent / "replayed"),
        "COVERSUMM_WEB_PORT": str(free_port()),
    }
    done = subprocess.run(
        [*COMMAND, *arguments],
        env=clean_environment(environment),
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    return bodies(target.read_bytes().splitlines())


SOURCE_PARTITIONS = 4
ROUNDS = 8
"""Kills and pauses of bridges while records arrive."""


def bridges(site: Pipeline, source: str, file: Path) -> list[WorkerProcess]:
    """Two bridges, not started."""
    return [
        WorkerProcess(
            site.directory / f"bridge-{number}",
            {**site.environment, "COVERSUMM_BATCH_SIZE": "20"},
            arguments=("bridge", "--mapping", str(file), "--from", source),
        )
        for number in range(2)
    ]


def wait_bridged(site: Pipeline, source: str, group: str) -> None:
    """Wait until the bridges have committed the complete source."""
    servers = site.broker.bootstrap_servers
    ends = {one.partition: one.offset + 1 for one in read_topic(servers, source)}

    def is_bridged() -> bool:
        committed = committed_offsets(servers, source, group)
        return all(committed[partition] >= end for partition, end in ends.items())

    eventually(is_bridged, site.logs, every_s=0.3)


def test_a_bridge_under_kills(kafka: KafkaBroker, tmp_path: Path) -> None:
    """A stream keyed by review: nothing is lost, repeated, or reordered within a partition."""
    source = "bridged.shop"
    file = written(tmp_path, WITH_VECTORS.replace("shop.public.reviews", source))
    history = list(steps(1500, PRODUCTS, DIMENSION, seed=2))
    chance = random.Random(3)
    kafka.create_topic(source, SOURCE_PARTITIONS)
    with pipeline(kafka, "bridged", tmp_path, partitions=PARTITIONS, settings=SETTINGS) as site:
        site.workers += bridges(site, source, file)
        for bridge in site.workers:
            bridge.start()
        client = producer(kafka.bootstrap_servers)
        size = len(history) // ROUNDS + 1
        for number in range(ROUNDS):
            for one in history[number * size : (number + 1) * size]:
                client.produce(source, one.value, one.key)
            client.flush(60)
            victim = chance.choice(site.workers)
            victim.wait_ready()
            time.sleep(chance.random())
            if number % 4 == 3:  # past its session: others take over, and its commit is refused
                victim.pause()
                time.sleep(8)
                victim.resume()
            else:
                victim.kill()
                victim.start()
        wait_bridged(site, source, f"bridged-bridge-{source}")
        metrics = [bridge.metrics() for bridge in site.workers]
        assert sum(one["coversumm_partitions"] for one in metrics) == SOURCE_PARTITIONS
        assert all(one["coversumm_ready"] == 1 for one in metrics)
        site.stop()  # with exit code 0
        check_bridged(kafka, site, source, history)
        site.workers.clear()
        site.start()
        site.wait_caught_up()
        site.stop()
        published = bodies(
            one.value for one in read_topic(kafka.bootstrap_servers, site.output_topic)
        )
        assert last_sets(published) == last_sets(expected(history))
        assert read_topic(kafka.bootstrap_servers, f"{source}.dlq") == []


def check_bridged(kafka: KafkaBroker, site: Pipeline, source: str, history: list[Step]) -> None:
    """Each event once, in the partition of its entity, those of a source partition in order."""
    servers = kafka.bootstrap_servers
    by_value = {one.value: one for one in history if one.value is not None}
    places: dict[int, tuple[int, int]] = {}  # by version, where it came from
    for one in read_topic(servers, source):
        step = by_value.get(one.value)
        if step is not None and step.event is not None:
            version = json.loads(step.event)["review_version"]
            places[version] = (one.partition, one.offset)
    found = read_topic(servers, site.input_topic)
    events = [json.loads(one.value or b"") for one in found]
    wanted = [json.loads(one.event) for one in history if one.event is not None]
    in_order = lambda some: sorted(some, key=lambda event: event["review_version"])  # noqa: E731
    assert in_order(events) == in_order(wanted)
    last: dict[tuple[int, int], int] = {}
    for message, event in zip(found, events, strict=True):
        entity_id = event["entity_id"]
        assert message.key == entity_id.encode()
        assert message.partition == partition_of(entity_id, PARTITIONS)
        partition, offset = places[event["review_version"]]
        assert offset > last.get((partition, message.partition), -1)
        last[partition, message.partition] = offset
