"""Records written by confluent-kafka's own serializers, on a real registry."""

from __future__ import annotations

import base64
import json
import struct
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit

import pytest
from confluent_kafka.schema_registry import (
    Schema,
    SchemaReference,
    SchemaRegistryClient,
    topic_record_subject_name_strategy,
)
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from docs.build.render import ROOT
from tests.harness.broker import KafkaBroker
from tests.harness.debezium import bodies, expected, steps, written
from tests.harness.eventually import eventually
from tests.harness.patience import TEST_SECONDS
from tests.harness.proxy import Proxy
from tests.harness.registry import Registry
from tests.harness.replays import (
    ReplayProcess,
    as_final,
    bodies_in,
    last_bodies,
    published,
    replay,
    write_history,
)
from tests.harness.small_load import DIMENSION, SETTINGS, events
from tests.harness.topics import producer, read_topic
from tests.harness.workers import Pipeline, WorkerProcess, pipeline, run_command
from tests.real_kafka.test_bridge import wait_bridged
from worker.events import EVENT_TYPES, Record
from worker.kafka.topics import partition_of
from worker.registry.client import RegistryRefused, SchemaRegistry
from worker.registry.contract import INPUTS, TYPES, record_name, schema_text
from worker.registry.framed import change_in_json
from worker.registry.lookup import AsJson
from worker.settings import Settings

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(TEST_SECONDS)]

PARTITIONS, SOURCE_PARTITIONS = 3, 4
PRODUCTS = 7

JSON_SCHEMA = json.dumps(
    {"$schema": "http://json-schema.org/draft-07/schema#", "title": "Event", "type": "object"}
)


HEADER = [("apicurio.value.globalId", (7).to_bytes(8, "big"))]
OF_ANOTHER_FORMAT = [
    (b"\2\2e\2r", HEADER, b"the header apicurio.value.globalId: set apicurio.registry.headers"),
    (b"\0\0\x7f\0\0\2r", HEADER, b"apicurio.registry.as-confluent=true"),  # no frame
    (b"\1" * 9, [("__value_schema_id", b"\1" + bytes(16))], b"value.schema.id.serializer="),
    (b"\3\0" + bytes(16) + b"\2e\2r", [], b"AWS Glue"),
]
"""Values, their headers, and what a dead letter says of them; see tests/registry/test_framed.py."""


class Writers:
    """confluent-kafka's own serializers on a registry: one Avro record, a union, JSON Schema."""

    def __init__(self, client: SchemaRegistryClient, topic: str) -> None:
        context = SerializationContext(topic, MessageField.VALUE)
        self._context = context
        texts = {record_name(kind): schema_text(kind) for kind in INPUTS.values()}
        references = []
        for name, text in texts.items():
            client.register_schema(f"{topic}.{name}", Schema(text, "AVRO"))
            references.append(SchemaReference(f"coversumm.{name}", f"{topic}.{name}", 1))
        union = Schema(json.dumps([reference.name for reference in references]), "AVRO", references)
        self._union = AvroSerializer(client, union)
        other = {"subject.name.strategy": topic_record_subject_name_strategy}
        self._ones = {
            name: AvroSerializer(client, text, conf=other) for name, text in texts.items()
        }
        self._json = JSONSerializer(JSON_SCHEMA, client, conf=other)

    def write(self, event: bytes, form: int) -> bytes:
        """An event of the contract in one of four forms."""
        members = json.loads(event)
        if form == 0:
            return event
        if form == 1:
            return bytes(self._json(members, self._context))
        name = record_name(
            INPUTS[next(name for name, n in EVENT_TYPES.items() if n == members["type"])]
        )
        del members["type"]
        for sentence in members.get("sentences") or ():
            sentence["embedding"] = base64.b64decode(sentence["embedding"])
        if form == 2:
            return bytes(self._ones[name](members, self._context))
        return bytes(self._union((f"coversumm.{name}", members), self._context))


def test_avro_and_json_schema_give_the_summaries_of_json(
    kafka: KafkaBroker, registry: Registry, tmp_path: Path
) -> None:
    """Written by confluent-kafka, and what the worker publishes in Avro is read by it; the registry
    is away when the worker meets the first id.
    """
    settings = {
        **SETTINGS,
        "COVERSUMM_SCHEMA_REGISTRY_URL": registry.url,
        "COVERSUMM_OUTPUT_FORMAT": "avro",
    }
    history = [step for step in steps(300, PRODUCTS, DIMENSION, seed=4) if step.events]
    with (
        pipeline(kafka, "formats", tmp_path, partitions=PARTITIONS, settings=settings) as site,
        SchemaRegistryClient({"url": registry.url}) as schemas,
    ):
        writers = Writers(schemas, site.input_topic)
        good = [writers.write(event.events[0], at % 4) for at, event in enumerate(history)]
        bad = [good[2] + b"!", good[2][:9], b"\0\0\x7f\0\0" + good[2][5:], b"\0\xff\xff\xff\xff{}"]
        named = [*OF_ANOTHER_FORMAT, (b"\0\0\0\0\0" + good[2][1:], [], b"has eight bytes")]
        assert f"{site.output_topic}-value" in command(site, "schemas", "register")
        worker = site.worker().start()
        worker.wait_ready()
        registry.pause()
        try:
            client = producer(kafka.bootstrap_servers)
            for message, value in zip(history, good, strict=True):
                partition = partition_of(message.product, PARTITIONS)
                client.produce(site.input_topic, value, message.product, partition)
            for value in bad:
                client.produce(site.input_topic, value, b"3", 0)
            for value, headers, _ in named:
                client.produce(site.input_topic, value, b"3", 0, headers=headers)
            client.flush(60)
            says = "no answer of the schema registry for"
            eventually(lambda: says in reason(worker), site.logs)
            assert not worker.ready()
        finally:
            registry.resume()
        worker.wait_ready()
        site.wait_caught_up()
        site.stop()
        published = read_topic(kafka.bootstrap_servers, site.output_topic)
        as_json = AsJson(Settings(schema_registry_url=registry.url))
        records = [Record(*message[:6]) for message in published]
        assert bodies(as_json(record).value for record in records) == expected(history)
        read = AvroDeserializer(schemas)
        of_output = SerializationContext(site.output_topic, MessageField.VALUE)
        for message in records[:5]:
            members = read(message.value, of_output)
            assert change_in_json("SummaryChanged", members) == as_json(message).value
        entity = (published[0].key or b"").decode()
        shown = [
            json.loads(line) for line in command(site, "history", entity, "--json").splitlines()
        ]
        assert len(shown) == sum(message.key == published[0].key for message in published)
        letters = read_topic(kafka.bootstrap_servers, site.dlq_topic)
        assert [letter.value for letter in letters] == bad + [value for value, *_ in named]
        found = [dict(letter.headers) for letter in letters]
        for message, (_, headers, words) in zip(found[len(bad) :], named, strict=True):
            assert words in message["dlq.detail"]
            assert message.items() >= dict(headers).items()
        assert {letter["dlq.reason"] for letter in found} == {b"bad_wire_format"}
        assert b"schema id 8323072: the registry does not know it" in found[2]["dlq.detail"]
        assert "the schema registry answers again" in worker.log_text()


@pytest.mark.long
def test_replays_in_avro(kafka: KafkaBroker, registry: Registry, tmp_path: Path) -> None:
    """The bytes of the live worker. A file has JSON, without a schema of its own."""
    settings = {
        **SETTINGS,
        "COVERSUMM_SCHEMA_REGISTRY_URL": registry.url,
        "COVERSUMM_OUTPUT_FORMAT": "avro",
    }
    history = {"retention.ms": "-1"}  # of years ago
    with pipeline(kafka, "avro-replays", tmp_path, settings=settings, input_config=history) as site:
        write_history(site, events(400))
        command(site, "schemas", "register")
        site.start(1)
        site.wait_caught_up()
        live = published(site, site.output_topic)
        whole = ReplayProcess(site, "--name", "whole")
        assert whole.start().wait(code=2) == []
        topic = f"{site.output_topic}.whole"
        assert f"`coversumm-worker schemas register` with COVERSUMM_OUTPUT_TOPIC={topic}" in (
            whole.errors
        )
        command(site, "schemas", "register", COVERSUMM_OUTPUT_TOPIC=topic)
        whole.start().report()
        assert published(site, topic) == live
        as_json = AsJson(Settings(schema_registry_url=registry.url))
        said = [
            json.loads(as_json(Record(*message[:6])).value or b"")
            for message in live
            if message.value
        ]
        file = tmp_path / "every.jsonl"
        replay(site, "--name", "file", "--to", str(file))
        assert in_order(bodies_in(file)) == in_order(said)
        topic = f"{site.output_topic}.last"
        command(site, "schemas", "register", COVERSUMM_OUTPUT_TOPIC=topic)
        replay(site, "--name", "last", "--emit", "final")
        found = [
            json.loads(as_json(Record(*message[:6])).value or b"")
            for message in published(site, topic)
        ]
        assert last_bodies(found) == {
            entity: as_final(body) for entity, body in last_bodies(said).items()
        }


def in_order(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Bodies by entity and sequence."""
    return sorted(found, key=lambda body: (body["entity_id"], body["sequence"]))


@pytest.mark.long
def test_a_start_waits_for_the_registry(
    kafka: KafkaBroker, registry: Registry, tmp_path: Path
) -> None:
    """With summaries in Avro. One without its schemas is refused, and so is a command."""
    settings = {**SETTINGS, "COVERSUMM_OUTPUT_FORMAT": "avro"}
    link = Proxy(urlsplit(registry.url).port or 0)
    settings["COVERSUMM_SCHEMA_REGISTRY_URL"] = f"http://127.0.0.1:{link.port}/apis/ccompat/v7"
    with pipeline(kafka, "late", tmp_path, partitions=PARTITIONS, settings=settings) as site:
        worker = site.worker()
        says = "no answer of the schema registry for 0 s (http://127.0.0.1:"
        for _ in range(2):
            worker.start()
            lives = len(worker.exit_codes) + 1
            eventually(lambda: worker.log_text().count(says) == lives, site.logs)  # noqa: B023
            if lives == 1:
                assert not worker.ready()
                assert worker.terminate() == 0
        assert "no answer of the schema registry (" in refused(site, "schemas", "register")
        with link:
            assert worker.wait() == 2
            assert "run `coversumm-worker schemas register`" in worker.log_text()
            command(site, "schemas", "register")
            link.set("reset")
            worker.start()
            eventually(lambda: worker.log_text().count("Connection reset") == 1, site.logs)
            link.set("pass")
            worker.wait_ready()
            assert "the schema registry answers again" in worker.log_text()
            site.stop()


def refused(site: Pipeline, *arguments: str) -> str:
    """The one line of a command that must end with 2."""
    done = ended(site, *arguments)
    assert done.returncode == 2, done.stderr
    (line,) = done.stderr.splitlines()
    return line


def command(site: Pipeline, *arguments: str, **settings: str) -> str:
    """What a command writes; it must succeed."""
    done = ended(site, *arguments, **settings)
    assert done.returncode == 0, done.stderr
    return done.stdout


def ended(site: Pipeline, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """Run a command with the pipeline's settings, and these."""
    return run_command(*arguments, environment={**site.environment, **settings})


def reason(worker: WorkerProcess) -> str:
    """What `/readyz` says; empty while nobody answers."""
    try:
        with worker.get("/readyz", timeout_s=2) as answer:
            return str(answer.read())
    except HTTPError as error:
        with error:
            return str(error.read())
    except OSError:
        return ""


ROWS = """
[topic."SOURCE"]
key = "framed"
value = "framed"
tombstone = "ignore"

[[topic."SOURCE".rule]]
when = { "after.state" = "ON" }
emit = "review.upserted"
entity_id = "after.product"
review_id = "key.id"
review_version = "after.version"
sentences = "after.parts"
occurred_at = { path = "after.at", epoch = "ms" }

[[topic."SOURCE".rule]]
emit = "review.deleted"
entity_id = "after.product"
review_id = "key.id"
review_version = "after.version"
"""
PART = {
    "type": "record",
    "name": "Part",
    "fields": [{"name": "text", "type": "string"}, {"name": "embedding", "type": "bytes"}],
}
ROW = {
    "type": "record",
    "name": "Row",
    "fields": [
        {"name": "product", "type": "long"},
        {"name": "version", "type": "long"},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["ON", "OFF"]}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "parts", "type": {"type": "array", "items": PART}},
    ],
}
CHANGE = {"type": "record", "name": "Change", "fields": [{"name": "after", "type": ["null", ROW]}]}
ROW_KEY = {"type": "record", "name": "Key", "fields": [{"name": "id", "type": "long"}]}


def send_rows(
    kafka: KafkaBroker, schemas: SchemaRegistryClient, source: str
) -> list[dict[str, Any]]:
    """Send changes of rows in Avro; the events that they mean, by version."""
    write_key = AvroSerializer(schemas, json.dumps(ROW_KEY))
    write_row = AvroSerializer(schemas, json.dumps(CHANGE))
    of_key = SerializationContext(source, MessageField.KEY)
    of_value = SerializationContext(source, MessageField.VALUE)
    client = producer(kafka.bootstrap_servers)
    vector = struct.pack(f"<{DIMENSION}f", *range(1, DIMENSION + 1))
    wanted = []
    for number in range(40):
        at = datetime(2025, 11, 20, 12, 0, number, tzinfo=UTC)
        state, text = "OFF" if number % 7 == 6 else "ON", f"Row {number}."
        row = {"product": number % 5, "version": number, "state": state, "at": at}
        change = {"after": {**row, "parts": [{"text": text, "embedding": vector}]}}
        client.produce(source, write_row(change, of_value), write_key({"id": number}, of_key))
        names = {"entity_id": str(number % 5), "review_id": str(number), "review_version": number}
        if state == "ON":
            parts = [{"text": text, "embedding": base64.b64encode(vector).decode()}]
            time = f"2025-11-20T12:00:{number:02}Z"
            own = {"type": "review.upserted", "sentences": parts, "occurred_at": time}
            wanted.append(names | own)
        else:
            wanted.append(names | {"type": "review.deleted"})
    client.flush(60)
    return wanted


def test_a_bridge_reads_avro_rows_by_their_avro_keys(
    kafka: KafkaBroker, registry: Registry, tmp_path: Path
) -> None:
    source = "avro.rows"
    file = written(tmp_path, ROWS.replace("SOURCE", source))
    kafka.create_topic(source, SOURCE_PARTITIONS)
    with SchemaRegistryClient({"url": registry.url}) as schemas:
        wanted = send_rows(kafka, schemas, source)
    settings = {**SETTINGS, "COVERSUMM_SCHEMA_REGISTRY_URL": registry.url}
    with pipeline(kafka, "avro-rows", tmp_path, partitions=PARTITIONS, settings=settings) as site:
        arguments = ("bridge", "--mapping", str(file), "--from", source)
        bridge = WorkerProcess(tmp_path / "bridge", site.environment, arguments=arguments)
        site.workers.append(bridge.start())
        wait_bridged(site, source)
        site.stop()
        found = [
            json.loads(message.value or b"")
            for message in read_topic(kafka.bootstrap_servers, site.input_topic)
        ]
        assert sorted(found, key=lambda event: event["review_version"]) == wanted


def test_the_json_schemas_pass_the_compatibility_check(registry: Registry) -> None:
    """In their form for registries: a new field may be added, and none may become another."""
    with SchemaRegistryClient({"url": registry.url}) as client:
        for file in sorted((ROOT / "schemas" / "draft-07").iterdir()):
            schema = json.loads(file.read_text())
            client.register_schema(file.name, Schema(json.dumps(schema), "JSON"))
            client.set_compatibility(file.name, "BACKWARD")

            def is_compatible(subject: str = file.name, **changed: Any) -> bool:
                text = json.dumps(schema | changed)  # noqa: B023 - called at once
                return client.test_compatibility(subject, Schema(text, "JSON"))

            added = schema["properties"] | {"new": {"type": ["string", "null"]}}
            assert is_compatible()
            assert is_compatible(properties=added)
            assert not is_compatible(properties=added, required=[*schema["required"], "new"])
            assert not is_compatible(properties=added | {"entity_id": {"type": "integer"}})


def test_an_incompatible_schema_is_refused(registry: Registry) -> None:
    own = SchemaRegistry([registry.url], {})
    with SchemaRegistryClient({"url": registry.url}) as schemas:
        for name, type_ in TYPES.items():
            text = schema_text(type_)
            needed = {"name": "needed", "type": "string"}  # without a default
            incompatible = json.dumps(
                (schema := json.loads(text)) | {"fields": [*schema["fields"], needed]}
            )
            schemas.register_schema(name, Schema(text, "AVRO"))
            schemas.set_compatibility(name, "BACKWARD")
            assert own.complaints(name, text) == []
            assert own.complaints(name, incompatible)
            with pytest.raises(RegistryRefused):
                own.register(name, incompatible)
            identifier = own.register(name, text)
            assert own.id_of(name, text) == identifier
            assert own.id_of(name, incompatible) is None
    assert own.complaints("nobody-knows-it", schema_text(TYPES["summary.changed"])) == []
