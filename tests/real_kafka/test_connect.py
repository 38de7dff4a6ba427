"""A topic with fields of its own gives the summaries of the same events by the contract."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.harness.broker import KafkaBroker
from tests.harness.debezium import WITH_VECTORS, Step, steps, written
from tests.harness.drive import config
from tests.harness.patience import TEST_SECONDS
from tests.harness.small_load import DIMENSION, SETTINGS
from tests.harness.topics import producer, read_topic
from tests.harness.workers import pipeline
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
