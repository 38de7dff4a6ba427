"""A topic with fields of its own gives the summaries of the same events by the contract."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.harness.broker import KafkaBroker
from tests.harness.debezium import WITH_VECTORS, bodies, expected, steps, written
from tests.harness.node import free_port
from tests.harness.patience import PATIENCE_SECONDS, TEST_SECONDS
from tests.harness.small_load import DIMENSION, SETTINGS
from tests.harness.topics import producer, read_topic
from tests.harness.workers import COMMAND, Pipeline, clean_environment, pipeline
from worker.kafka.topics import partition_of

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(TEST_SECONDS)]

PARTITIONS = 3
PRODUCTS = 7


def test_a_debezium_stream_keyed_by_entity(kafka: KafkaBroker, tmp_path: Path) -> None:
    file = written(tmp_path, WITH_VECTORS.replace("shop.public.reviews", "mapped.reviews"))
    history = list(steps(400, PRODUCTS, DIMENSION, seed=1))
    with pipeline(
        kafka,
        "mapped",
        tmp_path,
        partitions=PARTITIONS,
        settings={**SETTINGS, "COVERSUMM_MAPPING": str(file)},
    ) as site:
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
