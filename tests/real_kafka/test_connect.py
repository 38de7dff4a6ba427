"""A topic with fields of its own gives the summaries of the same events by the contract."""

from __future__ import annotations

import contextlib
import json
import signal
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from tests.docs.shell import Shell
from tests.docs.test_connect import EXAMPLES, Example
from tests.harness.armed import Order
from tests.harness.broker import KafkaBroker
from tests.harness.debezium import (
    FUNCTION,
    MOVING,
    WITH_VECTORS,
    bodies,
    change,
    expected,
    key,
    row,
    steps,
    written,
)
from tests.harness.eventually import eventually
from tests.harness.node import free_port
from tests.harness.patience import TEST_SECONDS
from tests.harness.registry import Registry
from tests.harness.small_load import DIMENSION, SETTINGS
from tests.harness.topics import producer, read_topic
from tests.harness.workers import Pipeline, pipeline, run_command
from worker.kafka.topics import partition_of
from worker.mapping import load_mapping

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(TEST_SECONDS)]

PARTITIONS = 3
PRODUCTS = 7
COMMANDED = [example for example in EXAMPLES if example.commands and "framed" in example.mapping]


@pytest.mark.parametrize(
    ("name", "text", "rule"),
    [
        ("mapped", WITH_VECTORS.replace("shop.public.reviews", "mapped.reviews"), "'published'"),
        ("function", FUNCTION, "shop.py"),
    ],
)
def test_a_debezium_stream_keyed_by_entity(
    kafka: KafkaBroker, tmp_path: Path, name: str, text: str, rule: str
) -> None:
    file = written(tmp_path, text, "shop.py" if text is FUNCTION else "mapping.toml")
    history = list(steps(400, PRODUCTS, DIMENSION, seed=1))
    with pipeline(
        kafka,
        name,
        tmp_path,
        partitions=PARTITIONS,
        settings={**SETTINGS, "COVERSUMM_MAPPING": str(file)},
    ) as site:
        client = producer(kafka.bootstrap_servers)
        for event in history:
            partition = partition_of(event.product, PARTITIONS)
            client.produce(site.input_topic, event.value, event.key, partition)
        stray = (partition_of(history[0].product, PARTITIONS) + 1) % PARTITIONS
        client.produce(site.input_topic, history[0].value, history[0].key, stray)
        client.produce(site.input_topic, b"no json", b"{}", 0)
        client.flush(60)
        site.start(2)
        site.wait_caught_up()
        site.stop()
        published = read_topic(kafka.bootstrap_servers, site.output_topic)
        assert bodies(message.value for message in published) == expected(history)
        assert all(
            message.partition == partition_of((message.key or b"").decode(), PARTITIONS)
            for message in published
        )
        assert replayed(site, tmp_path / "out.jsonl") == expected(history)
        letters = read_topic(kafka.bootstrap_servers, site.dlq_topic)
        assert {(letter.key, letter.value) for letter in letters} == {
            (history[0].key, history[0].value),
            (b"{}", b"no json"),
        }
        details = {dict(letter.headers)["dlq.reason"]: dict(letter.headers) for letter in letters}
        refused = details[b"key_mismatch"]["dlq.detail"]
        assert refused.split(b": ")[0].endswith(rule.encode())
        assert f"bridge --mapping {file} --from {site.input_topic}`".encode() in refused
        assert details[b"bad_json"]["dlq.source.topic"] == site.input_topic.encode()


@pytest.mark.long
def test_several_events_of_a_record_over_kills(kafka: KafkaBroker, tmp_path: Path) -> None:
    """Each record's events exactly once, although the worker is killed between any two steps: rows
    that move to another product of the partition, and a record of which one event is refused.
    """
    file = written(tmp_path, MOVING.replace("shop.public.reviews", "several.reviews"))
    history = list(steps(600, PRODUCTS, DIMENSION, seed=9, moves=True))
    assert sum(len(event.events) > 1 for event in history) > 20
    settings = {**SETTINGS, "COVERSUMM_MAPPING": str(file), "COVERSUMM_BATCH_SIZE": "20"}
    with pipeline(kafka, "several", tmp_path, partitions=1, settings=settings, armed=True) as site:
        client = producer(kafka.bootstrap_servers)
        (worker,) = site.start()
        unsent = iter(history)

        def feed(count: int) -> None:
            for event in islice(unsent, count):
                client.produce(site.input_topic, event.value, event.key)
            client.flush(60)

        bad = row(1, 900, sentences=[{"text": "x", "embedding": [0] * DIMENSION}])
        refused = change("u", bad, 1, before=row(1, 901, sentences=[]))
        for step in ("after a produce", "after the flush", "during the commit", "after the commit"):
            worker.arm(Order(step, 2, signal.SIGKILL))
            client.produce(site.input_topic, refused, key(bad))

            def is_struck() -> bool:
                feed(20)
                return worker.struck()

            eventually(is_struck, site.logs, every_s=0.3)
            worker.wait()
            worker.start().wait_ready()
        feed(len(history))
        site.wait_caught_up()
        site.stop()
        published = read_topic(kafka.bootstrap_servers, site.output_topic)
        assert bodies(message.value for message in published) == expected(history)
        assert replayed(site, tmp_path / "out.jsonl") == expected(history)
        ids = [dict(message.headers)["ce_id"] for message in published]
        assert len(set(ids)) == len(ids)
        letters = read_topic(kafka.bootstrap_servers, site.dlq_topic)
        assert [letter.value for letter in letters] == [refused] * 4
        detail = dict(letters[0].headers)["dlq.detail"]
        assert detail.startswith(b"rule 'moved': event 2 (entity_id '900'): sentences[0].embedding")


def replayed(site: Pipeline, target: Path) -> dict[str, list[Any]]:
    """What a replay of the input topic writes with the mapping, to a file."""
    arguments = ["replay", "--from", site.input_topic, "--to", str(target), "--json"]
    environment = {
        **site.environment,
        "COVERSUMM_DATA_DIR": str(target.parent / "replayed"),
        "COVERSUMM_WEB_PORT": str(free_port()),
    }
    done = run_command(*arguments, environment=environment)
    assert done.returncode == 0, done.stderr
    return bodies(target.read_bytes().splitlines())


@pytest.mark.parametrize("example", COMMANDED, ids=lambda example: example.name)
def test_an_example_in_avro(
    kafka: KafkaBroker, registry: Registry, tmp_path: Path, example: Example
) -> None:
    """Its file and records, its commands in their order, and what the last one prints."""
    (tmp_path / "mapping.toml").write_text(example.mapping)
    (source,) = load_mapping(tmp_path / "mapping.toml")
    kafka.create_topic(source, PARTITIONS)
    with contextlib.ExitStack() as stack:
        client = stack.enter_context(SchemaRegistryClient({"url": registry.url}))
        key, value = in_avro(client, source, "KEY"), in_avro(client, source, "VALUE")
        send_samples(kafka, source, example.records, key, value)
        shell = stack.enter_context(Shell(kafka, tmp_path))
        shell.exported["COVERSUMM_SCHEMA_REGISTRY_URL"] = registry.url
        run_example(shell, example)


def run_example(shell: Shell, example: Example) -> None:
    """The commands of the page, and the changes that the last one prints in the end."""
    *commands, last = example.commands.splitlines()
    shell.run("\n".join(commands))
    eventually(lambda: shell.output(last) == example.printed, shell.logs)


ROW_SCHEMAS = {
    "KEY": """{"type": "record", "name": "Key", "fields": [{"name": "product", "type": "int"}]}""",
    "VALUE": """{"type": "record", "name": "Review", "fields": [
        {"name": "id", "type": "long"},
        {"name": "state", "type":
            {"type": "enum", "name": "State", "symbols": ["VISIBLE", "HIDDEN"]}},
        {"name": "body", "type": ["null", "string"]},
        {"name": "stars", "type": "double"},
        {"name": "changed", "type": {"type": "long", "logicalType": "timestamp-millis"}}
    ]}""",
}
"""Of the table in Avro."""


def in_avro(client: SchemaRegistryClient, topic: str, part: str) -> Callable[[Any], bytes | None]:
    """Frames a part of records as Confluent's serializer does: KEY or VALUE."""
    serializer = AvroSerializer(client, ROW_SCHEMAS[part])
    context = SerializationContext(topic, MessageField[part])
    return lambda members: serializer(members, context)


def as_json(part: Any) -> str | None:
    """A part of a record, of which texts are themselves."""
    return part if part is None or isinstance(part, str) else json.dumps(part)


def send_samples(
    kafka: KafkaBroker,
    topic: str,
    lines: str,
    key: Callable[[Any], str | bytes | None],
    value: Callable[[Any], str | bytes | None],
) -> None:
    """Send records as the page writes them."""
    client = producer(kafka.bootstrap_servers)
    for line in lines.splitlines():
        record = json.loads(line)
        client.produce(
            topic, value(record["value"]), key(record["key"]), headers=record.get("headers")
        )
    client.flush(60)
