"""docs/connect.md on what a real Debezium sends of tables of a real PostgreSQL: each replica
identity, with and without schemas in the JSON, and Avro.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import KafkaException

from tests.docs.shell import Shell
from tests.docs.test_connect import EXAMPLES
from tests.harness.broker import KafkaBroker
from tests.harness.debezium import bodies, last_sets, written
from tests.harness.eventually import eventually
from tests.harness.kafka_connect import KafkaConnect
from tests.harness.patience import TEST_SECONDS
from tests.harness.postgres import Postgres
from tests.harness.registry import Registry
from tests.harness.topics import read_topic
from tests.harness.workers import run_command
from worker.events import Record
from worker.events.inputs import Body, UpsertBody
from worker.events.reasons import BadEvent
from worker.kafka.topic_mapping import with_schemas
from worker.mapping import load_mapping
from worker.settings import Settings

pytestmark = [pytest.mark.kafka, pytest.mark.postgres, pytest.mark.timeout(TEST_SECONDS)]

PAGE = {example.name: example for example in EXAMPLES}
IDENTITIES = {"by_default": "DEFAULT", "by_index": "USING INDEX reviews_{table}", "in_full": "FULL"}
"""By table."""
TABLE = """
CREATE TABLE {table} (
    id bigint PRIMARY KEY, product_id bigint NOT NULL, title text, body text,
    stars numeric(2, 1), status text NOT NULL, updated_at timestamp NOT NULL
);
CREATE UNIQUE INDEX reviews_{table} ON {table} (product_id, id);
ALTER TABLE {table} ALTER body SET STORAGE EXTERNAL;
ALTER TABLE {table} REPLICA IDENTITY {identity};
INSERT INTO {table} SELECT id, 3, 'Quiet', 'Clean.', 4.5, 'published', '2025-11-20 12:00'
    FROM generate_series(1, 4) id;
UPDATE {table} SET body = '{large}' WHERE id = 4;
"""
CHANGES = (
    "INSERT INTO {table} VALUES (5, 3, NULL, 'New.', NULL, 'published', '2025-11-21 12:00')",
    "UPDATE {table} SET body = 'Edited.' WHERE id = 1",
    "UPDATE {table} SET status = 'hidden' WHERE id = 2",
    "DELETE FROM {table} WHERE id = 3",
    "UPDATE {table} SET stars = 3.0 WHERE id = 4",
    "UPDATE {table} SET product_id = 4 WHERE id = 5",
    "TRUNCATE {table}",
)
CONNECTOR = {
    "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
    "plugin.name": "pgoutput",
    "publication.autocreate.mode": "filtered",
    "table.include.list": r"public\\..*",
    "heartbeat.interval.ms": "500",
    "skipped.operations": "none",
    "poll.interval.ms": "100",
    "topic.creation.default.partitions": "1",
    "topic.creation.default.replication.factor": "1",
    "database.hostname": "127.0.0.1",
    "database.user": "postgres",
    "database.password": "none",
    "database.dbname": "postgres",
}


@dataclass(frozen=True)
class Form:
    """How a connector writes, and what a mapping says of it."""

    settings: Mapping[str, str]
    rating: str
    head: str = 'unwrap = "payload"'
    moves_in_one: bool = False
    registry_url: str | None = None


def as_json(*, schemas: bool) -> dict[str, str]:
    """The JSON converter of keys and values."""
    return {
        f"{part}.converter{name}": value
        for part in ("key", "value")
        for name, value in {
            "": "org.apache.kafka.connect.json.JsonConverter",
            ".schemas.enable": str(schemas).lower(),
        }.items()
    }


def in_avro(registry: Registry, other: Mapping[str, str] | None = None) -> dict[str, str]:
    """Apicurio's converter of keys and values, with Confluent's frames or as `other` says."""
    own = {
        "": "io.apicurio.registry.utils.converter.AvroConverter",
        ".apicurio.registry.url": registry.url.replace("ccompat/v7", "registry/v2"),
        ".apicurio.registry.auto-register": "true",
        ".apicurio.registry.find-latest": "true",
        ".apicurio.registry.as-confluent": "true",
        ".apicurio.registry.use-id": "contentId",
        ".apicurio.registry.headers.enabled": "false",
    } | {f".apicurio.registry.{name}": value for name, value in (other or {}).items()}
    return {f"{part}.converter{name}": v for part in ("key", "value") for name, v in own.items()}


KEYS = {"message.key.columns": ";".join(f"public.{table}:product_id,id" for table in IDENTITIES)}


AVRO = 'key = "framed"\nvalue = "framed"\ntombstone = "ignore"'


NOT_READ = {
    "long_ids": {"as-confluent": "false", "use-id": "globalId"},
    "ids_in_headers": {"as-confluent": "false", "use-id": "globalId", "headers.enabled": "true"},
}
"""Apicurio's own frames: without the settings that the page names."""


def forms(registry: Registry) -> dict[str, Form]:
    """By the name of a connector."""
    by_schema = '{ path = "after.stars", decimal = "schema" }'
    return {
        "enveloped": Form(as_json(schemas=True) | KEYS, by_schema),
        "plain": Form(
            as_json(schemas=False) | KEYS | {"decimal.handling.mode": "string"}, '"after.stars"'
        ),
        "by_id": Form(
            as_json(schemas=False), '{ path = "after.stars", decimal = 1 }', moves_in_one=True
        ),
        "avro": Form(in_avro(registry) | KEYS, by_schema, AVRO, registry_url=registry.url),
        **{
            name: Form(in_avro(registry, other), by_schema, AVRO, True, registry.url)
            for name, other in NOT_READ.items()
        },
    }


def page_mapping(form: Form, topic: str) -> str:
    """The page's file for a table, with the rating, and for moves in one record its rule."""
    text = PAGE["Debezium"].mapping.replace('unwrap = "payload"', form.head)
    text = text.replace("\noccurred_at", f"\nrating = {form.rating}\noccurred_at")
    if form.moves_in_one:
        several = PAGE["Several events of a record"].mapping
        rules = several.partition('unwrap = "payload"')[2]
        moved = rules.partition('[[topic."shop.public.reviews".rule]]\nname = "an order')[0]
        moved = moved.replace('text = "after.body"', f'text = "after.body"\nrating = {form.rating}')
        text = text.replace("[[", f"{moved}[[", 1)
    return text.replace("shop.public.reviews", topic)


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with Postgres() as running:
        yield running


@pytest.fixture(scope="module")
def captured(
    kafka: KafkaBroker,
    server: Postgres,
    registry: Registry,
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, Form]:
    """The forms of the connectors, whose topics have all changes of the tables."""
    made = forms(registry)
    large = random.Random(1).randbytes(4000).hex()
    with server.connect() as database:
        for table, identity in IDENTITIES.items():
            names = {"table": table, "identity": identity.format(table=table), "large": large}
            database.execute(TABLE.format(**names))
        connectors = []
        for name, form in made.items():
            own = dict.fromkeys(("name", "topic.prefix", "slot.name", "publication.name"), name)
            port = {"database.port": str(server.port)}
            connectors.append({**CONNECTOR, **port, **form.settings, **own})
        connect = KafkaConnect(kafka.bootstrap_servers, tmp_path_factory.mktemp("c"), connectors)
        connect.start()
        try:
            eventually(lambda: counts(kafka, made) == SNAPSHOT, connect.log_end)
            for change in CHANGES:
                for table in IDENTITIES:
                    database.execute(change.format(table=table))
            eventually(lambda: counts(kafka, made) == WHOLE, connect.log_end)
        finally:
            connect.kill()
    return made


def topic_of(name: str, table: str) -> str:
    """The topic of a connector and a table."""
    return f"{name}.public.{table}"


def counts(kafka: KafkaBroker, made: Mapping[str, Form]) -> set[int]:
    """The numbers of records of the topics, beside those that a move in two records has."""
    found = set()
    for name, form in made.items():
        for table in IDENTITIES:
            try:
                count = len(read_topic(kafka.bootstrap_servers, topic_of(name, table)))
            except KafkaException:  # there is no such topic yet
                return set()
            is_apart = count > 10 and table != "by_default" and not form.moves_in_one
            found.add(count - 2 * is_apart)
    return found


SNAPSHOT, WHOLE = {4}, {12}
"""Records of a topic: of its rows, and with a tombstone those of the changes."""


def effects(kafka: KafkaBroker, form: Form, topic: str, folder: Path) -> list[str]:
    """The events of a topic's records, and what is a dead letter; what is ignored is left out."""
    own = load_mapping(written(folder, page_mapping(form, topic)))[topic]
    settings = Settings.from_environment(schema_registry_url=form.registry_url)
    mapping, schemas = with_schemas(settings, own)
    assert mapping is not None
    found = []
    for message in read_topic(kafka.bootstrap_servers, topic):
        record = Record(topic, 0, message.offset, 0, message.key, message.value, message.headers)
        if schemas is not None:
            schemas.require([record])
        try:
            found += [effect(body) for body in mapping.read_all(record)]
        except BadEvent as bad:
            found.append(f"dead letter: {bad.rejected.detail}")
    return found


def effect(body: Body) -> str:
    """An event in short."""
    if isinstance(body, UpsertBody):
        return f"{body.entity_id}/{body.review_id} {str(body.text)[:14]} {body.rating}"
    return f"{body.entity_id}/{getattr(body, 'review_id', None)} deleted"


LEFT_OUT = (
    "dead letter: after.body: the source left out an unchanged column "
    "(__debezium_unavailable_value): set REPLICA IDENTITY FULL on its table"
)
RIGHT = [
    "3/1 Quiet. Clean. 4.5",
    "3/2 Quiet. Clean. 4.5",
    "3/3 Quiet. Clean. 4.5",
    "3/4 Quiet. f5b1652 4.5",
    "3/5 New. None",
    "3/1 Quiet. Edited. 4.5",
    "3/2 deleted",
    "3/3 deleted",
    "3/4 Quiet. f5b1652 3.0",
    "3/5 deleted",
    "4/5 New. None",
    "dead letter: no rule of the mapping applies",
]
"""With FULL. The last one is the truncation."""


@pytest.mark.parametrize("name", ["enveloped", "plain", "by_id", "avro"])
def test_what_becomes_of_each_change(
    kafka: KafkaBroker, captured: dict[str, Form], name: str, tmp_path: Path
) -> None:
    found = {
        table: effects(kafka, captured[name], topic_of(name, table), tmp_path)
        for table in IDENTITIES
    }
    assert found["in_full"] == RIGHT
    assert found["by_index"] == [*RIGHT[:8], LEFT_OUT, *RIGHT[9:]]
    assert found["by_default"] == [*RIGHT[:7], "0/3 deleted", LEFT_OUT, *RIGHT[10:]]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("long_ids", "dead letter: value: the schema id has eight bytes, as Apicurio's: set "),
        (
            "ids_in_headers",
            "dead letter: value: the schema id is in the header apicurio.value.globalId: set "
            "apicurio.registry.headers.enabled=false, ",
        ),
    ],
)
def test_frames_of_apicurio_that_are_not_read_are_named(
    kafka: KafkaBroker, captured: dict[str, Form], name: str, words: str, tmp_path: Path
) -> None:
    found = effects(kafka, captured[name], topic_of(name, "in_full"), tmp_path)
    remedy = "apicurio.registry.as-confluent=true and apicurio.registry.use-id=contentId at the"
    assert found == [f"{words}{remedy} producer"] * 11  # all but the tombstone


def test_mapping_check_finds_the_identity_that_cannot_work(
    kafka: KafkaBroker, captured: dict[str, Form], tmp_path: Path
) -> None:
    for table, is_found in (("by_default", True), ("by_index", False), ("in_full", False)):
        file = written(tmp_path, page_mapping(captured["plain"], topic_of("plain", table)))
        arguments = ("mapping", "check", str(file), "--from-topic", "--for-bridge")
        environment = {"KAFKA_BOOTSTRAP_SERVERS": kafka.bootstrap_servers}
        done = run_command(*arguments, environment=environment)
        assert ("deletes in entity '0'" in done.stderr) == is_found, done.stderr
        assert ("entity_id is 0" in done.stderr) == is_found


@pytest.mark.long
def test_the_summaries_are_those_of_the_tables_rows(
    kafka: KafkaBroker, captured: dict[str, Form], tmp_path: Path
) -> None:
    """As they were before the truncation: no event says that a table was emptied."""
    topic = topic_of("by_id", "in_full")
    file = written(tmp_path, page_mapping(captured["by_id"], topic))
    with Shell(kafka, tmp_path) as page:
        for line in PAGE["Debezium"].commands.splitlines():
            if "mapping check" not in line and " history " not in line:
                command = line.replace("mapping.toml", str(file)).replace("rows", "captured")
                page.run(command.replace("shop.public.reviews", topic))

        def published() -> dict[str, set[tuple[str, str]]]:
            found = read_topic(kafka.bootstrap_servers, "captured.summaries")
            return last_sets(bodies(message.value for message in found))

        def is_right() -> bool:
            sets = published()
            reviews = {
                name: {identifier.partition("#")[0] for identifier, _ in sets[name]}
                for name in sets
            }
            return reviews == {"3": {"1", "4"}, "4": {"5"}}

        eventually(is_right, page.logs)
        texts = {text for _, text in published()["3"]}
        assert {"Quiet.", "Edited."} <= texts
        assert "Clean." not in texts
