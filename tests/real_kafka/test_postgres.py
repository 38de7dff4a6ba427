"""deploy/postgres on a real PostgreSQL and Kafka: after kills the rows are the compacted topics."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.harness.broker import KafkaBroker
from tests.harness.eventually import eventually
from tests.harness.kafka_connect import KafkaConnect, properties
from tests.harness.load import Sent
from tests.harness.patience import PATIENCE_SECONDS, TEST_SECONDS
from tests.harness.postgres import Postgres
from tests.harness.process import Process
from tests.harness.small_load import (
    DIMENSION,
    FACETS,
    LARGE_MESSAGES,
    SETTINGS,
    events,
    feed,
    upsert,
)
from tests.harness.topics import producer, read_topic
from tests.harness.workers import ROOT, Pipeline, pipeline
from worker.events.json_row import to_json

pytestmark = [pytest.mark.kafka, pytest.mark.postgres, pytest.mark.timeout(TEST_SECONDS)]

FOLDER = ROOT / "deploy" / "postgres"
ROUNDS = 4
LANGUAGES = ["en", "fr"]
AUDIT = """
CREATE TABLE audit (of_table text, entity_id text, epoch int, sequence bigint);
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(1);
    INSERT INTO audit VALUES (TG_TABLE_NAME, NEW.entity_id, NEW.epoch, NEW.sequence);
    RETURN NEW;
END $$;
CREATE TRIGGER note AFTER INSERT ON summaries FOR EACH ROW EXECUTE FUNCTION note();
CREATE TRIGGER note AFTER INSERT ON facets FOR EACH ROW EXECUTE FUNCTION note();
"""
"""Every row that was ever inserted, noted in the same transaction. It waits while a test holds the
lock.
"""
WAITING = "SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with Postgres() as running:
        yield running


@pytest.fixture
def database(server: Postgres) -> Iterator[psycopg.Connection[Any]]:
    """The tables, empty."""
    with server.connect() as connection:
        connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
        schema = (FOLDER / "schema.sql").read_text()
        for _ in range(2):  # it can be applied again
            connection.execute(schema)
        yield connection


class Consumer(Process):
    """`consumer.py` as a process, started; `settings` are more variables."""

    def __init__(
        self,
        server: Postgres,
        kafka: KafkaBroker,
        tables: Mapping[str, str],
        log: Path,
        settings: Mapping[str, str] = {},
    ):
        super().__init__(log)
        tables_of_topics = [f"{table}={topic}" for topic, table in tables.items()]
        self._command = [sys.executable, str(FOLDER / "consumer.py"), *tables_of_topics]
        servers = {"KAFKA_BOOTSTRAP_SERVERS": kafka.bootstrap_servers}
        self._environment = {**os.environ, **server.environment, **servers, **settings}
        self.start()

    def start(self) -> None:
        """Start it, or start it again."""
        self.launch(self._command, self._environment)


def long_ids() -> list[Sent]:
    """Events of entities whose ids are too long for the index of a primary key; one is deleted."""
    vector = [1.0] + [0.5] * (DIMENSION - 1)
    kept, gone = ("".join(map(chr, range(first, first + 1000))) for first in (0x4E00, 0x5E00))
    found = [
        upsert(name, review, "Good.", vector) for name in (kept, gone) for review in ("a", "b")
    ]
    deletion = {"type": "entity.deleted", "entity_id": gone}
    return [*found, Sent(gone.encode(), json.dumps(deletion).encode())]


def tables_of(site: Pipeline) -> dict[str, str]:
    """By topic its table."""
    return {site.output_topic: "summaries", site.environment["COVERSUMM_FACETS_TOPIC"]: "facets"}


def without_nul(value: Any) -> Any:
    """As PostgreSQL can store it."""
    return json.loads(json.dumps(value, ensure_ascii=False).replace("\\u0000", "\ufffd"))


def compacted(kafka: KafkaBroker, topic: str) -> dict[str, Any]:
    """By entity its last message, without the tombstones."""
    last = {message.key: message.value for message in read_topic(kafka.bootstrap_servers, topic)}
    bodies = [json.loads(to_json(value)) for value in last.values() if value is not None]
    return {body["entity_id"]: body for body in map(without_nul, bodies)}


def rows(database: psycopg.Connection[Any], table: str) -> dict[str, Any]:
    """By entity its row as a message."""
    kind = {"summaries": "summary.changed", "facets": "facets.changed"}[table]
    found = database.execute(f"SELECT row_to_json(one) FROM {table} AS one").fetchall()
    return {body["entity_id"]: {"type": kind, **body} for (body,) in found}


def wait_stored(
    kafka: KafkaBroker, database: psycopg.Connection[Any], topics: Sequence[str], consumer: Consumer
) -> None:
    """Wait until the database has the offsets of all that is published."""
    last = {
        (message.topic, message.partition): message.offset + 1
        for topic in topics
        for message in read_topic(kafka.bootstrap_servers, topic)
    }

    def is_stored() -> bool:
        found = database.execute("SELECT * FROM kafka_offsets").fetchall()
        return {(topic, partition): end for topic, partition, end in found} == last

    eventually(is_stored, consumer.log_text)


@pytest.mark.long
def test_the_consumer_under_kills(
    kafka: KafkaBroker, server: Postgres, database: psycopg.Connection[Any], tmp_path: Path
) -> None:
    database.execute(AUDIT)
    known, more = b'"language": "en"', b', "verified": true, "country": "NL", "author_id": "u-1"'
    with_authors = [
        event._replace(value=event.value and event.value.replace(known, known + more))
        for event in events(400)
    ]
    load = [*with_authors, *long_ids()]
    facets = tmp_path / "facets.toml"
    facets.write_text(f"languages = {LANGUAGES}\n" + Path(FACETS["COVERSUMM_FACETS"]).read_text())
    more_sets = {"COVERSUMM_FACETS": str(facets), "COVERSUMM_MAX_MESSAGE_BYTES": str(8 << 20)}
    with pipeline(
        kafka, "postgres", tmp_path, settings=SETTINGS | more_sets, input_config=LARGE_MESSAGES
    ) as site:
        (worker,) = site.start()
        tables = tables_of(site)
        consumer = Consumer(server, kafka, tables, tmp_path / "consumer.log")
        size = len(load) // ROUNDS + 1
        for number in range(ROUNDS):
            database.execute("SELECT pg_advisory_lock(1)")
            feed(site, load[number * size : (number + 1) * size])
            eventually(lambda: database.execute(WAITING).fetchall(), consumer.log_text)
            consumer.kill()  # in the midst of its transaction
            consumer.start()
            database.execute("SELECT pg_advisory_unlock(1)")
            if number == 1:
                worker.kill()
                worker.start()
        site.wait_caught_up()
        site.stop()
        wait_stored(kafka, database, list(tables), consumer)
    wanted = {table: compacted(kafka, topic) for topic, table in tables.items()}
    assert all(len(found) > 5 for found in wanted.values())
    assert {table: rows(database, table) for table in wanted} == wanted
    repeated = "SELECT entity_id FROM audit GROUP BY of_table, entity_id, epoch, sequence"
    assert database.execute(f"{repeated} HAVING count(*) > 1").fetchall() == []
    check_views(database, wanted)
    written = "verified AND country = 'NL' AND author_id = 'u-1'"
    for name in ("summary_sentences", "facet_sentences"):
        assert database.execute(f"SELECT 1 FROM {name} WHERE {written}").fetchone()

    consumer.pause()
    other = Consumer(server, kafka, tables, tmp_path / "other.log")
    for topic, table in tables.items():
        send_older(kafka, topic, wanted[table])
    wait_stored(kafka, database, list(tables), other)
    consumer.resume()
    assert consumer.wait() == 1
    assert re.fullmatch(
        "another consumer writes .*: run one process for a topic\n", consumer.log_text()
    )
    other.kill()
    for table in wanted:  # as a sink does that looks at nothing
        database.execute(f"UPDATE {table} SET sequence = sequence - 1, review_count = 0")
    assert {table: rows(database, table) for table in wanted} == wanted


def check_views(database: psycopg.Connection[Any], wanted: dict[str, dict[str, Any]]) -> None:
    """A view has a row for each sentence, or facet, of the messages."""

    def view(name: str) -> list[dict[str, Any]]:
        found = database.execute(f"SELECT row_to_json(one) FROM {name} AS one").fetchall()
        return in_order(row for (row,) in found)

    def in_order(found: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
        return sorted(found, key=lambda row: json.dumps(row, sort_keys=True))

    def rows_of(sets: list[Any]) -> list[dict[str, Any]]:
        unknown = dict.fromkeys(("occurred_at", "language", "verified", "country", "author_id"))
        return in_order(
            {"entity_id": name, **more, **unknown, **sentence}
            for name, sentences, more in sets
            for sentence in sentences
        )

    summaries = [(name, summary["sentences"], {}) for name, summary in wanted["summaries"].items()]
    facets = [(name, facet) for name, body in wanted["facets"].items() for facet in body["facets"]]
    shown = [
        (name, facet["sentences"], {"facet": facet["name"], "facet_language": facet["language"]})
        for name, facet in facets
    ]
    assert view("summary_sentences") == rows_of(summaries)
    assert view("facet_sentences") == rows_of(shown)
    ratings = {(name, facet["name"], facet["language"]): facet["ratings"] for name, facet in facets}
    found = {
        (facet["entity_id"], facet["name"], facet["language"]): facet
        for facet in view("entity_facets")
    }
    assert len(found) == len(facets)
    assert {language for _, _, language in found} == set(LANGUAGES)
    for fact in ("mean", "histogram"):
        wanted_ones = {key: rating.get(fact) for key, rating in ratings.items()}
        assert {key: rating[f"rating_{fact}"] for key, rating in found.items()} == wanted_ones
    mentions = {
        (name, facet["name"], facet["language"]): facet.get("mentions") for name, facet in facets
    }
    shown_ones = {
        key: row["mention_count"] is not None
        and {"review_count": row["mention_count"], "ratings": row["mention_ratings"]}
        for key, row in found.items()
    }
    assert shown_ones == {key: mention or False for key, mention in mentions.items()}


def send_older(kafka: KafkaBroker, topic: str, bodies: dict[str, Any]) -> None:
    """Messages of builds before those stored: of another epoch, and of an earlier sequence."""
    client = producer(kafka.bootstrap_servers)
    for number, body in enumerate(bodies.values()):
        earlier = {"sequence": body["sequence"] - 1} if number % 2 else {"epoch": 0}
        value = json.dumps({**body, "sequence": 10**9, **earlier, "review_count": 0})
        client.produce(topic, value, body["entity_id"].encode())
    assert client.flush(PATIENCE_SECONDS) == 0


def connectors(site: Pipeline, server: Postgres) -> list[dict[str, str]]:
    """The connectors of the files for these topics and this server."""
    found = []
    for topic, table in tables_of(site).items():
        given = properties((FOLDER / "connect" / f"{table}.properties").read_text())
        url = f"jdbc:postgresql://127.0.0.1:{server.port}/postgres"
        of_test = {"topics": topic, "connection.url": url, "connection.username": "postgres"}
        found.append({**given, **of_test})
    return found


@pytest.mark.long
def test_kafka_connect_under_kills(
    kafka: KafkaBroker, server: Postgres, database: psycopg.Connection[Any], tmp_path: Path
) -> None:
    """Rows of PostgreSQL cannot have U+0000, and a connector ends there: none is sent."""
    load = [event for event in events(400) if b"\\u0000" not in (event.value or b"")]
    load = [event for event in load if b"\0" not in (event.key or b"")] + long_ids()
    settings = SETTINGS | FACETS | {"COVERSUMM_OUTPUT_FORMAT": "json-row"}
    with pipeline(
        kafka, "connected", tmp_path, settings=settings, input_config=LARGE_MESSAGES
    ) as site:
        (worker,) = site.start()
        connect = KafkaConnect(kafka.bootstrap_servers, tmp_path, connectors(site, server))
        connect.start()
        size = len(load) // 2 + 1
        for number in range(2):
            feed(site, load[number * size : (number + 1) * size])
            eventually(lambda at=number: len(rows(database, "summaries")) > at, connect.log_end)
            connect.kill()
            connect.start()
            worker.kill()
            worker.start()
        worker.wait_ready()
        site.wait_caught_up()
        site.stop()
        wanted = {table: compacted(kafka, topic) for topic, table in tables_of(site).items()}
        eventually(
            lambda: {table: rows(database, table) for table in wanted} == wanted, connect.log_end
        )
        assert all(len(found) > 5 for found in wanted.values())
        connect.kill()
