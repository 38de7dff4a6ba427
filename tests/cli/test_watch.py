"""`watch`: what producers publish is seen, on brokers of all sorts."""

import json
import os
import signal
import subprocess
import sys

import pytest
from confluent_kafka import Producer

from tests.harness.broker import KafkaBroker
from tests.harness.long import one_of
from tests.harness.patience import PATIENCE_SECONDS
from tests.harness.terminal import CONTROL_C, FIRST_SCREEN, Terminal, environment, worker_command
from tests.view.changes import body, facets_body
from worker.kafka.topics import partition_of

APP_ID = "who-watches"
PARTITIONS = 4
FIRST = body(
    "stay",
    1,
    {"a#0": "It was lovely.", "b#0": "Near the park."},
    ["a#0", "b#0"],
    review="a",
    previous=None,
)
SECOND = body(
    "stay", 2, {"b#0": "Near the park.", "c#0": "Quiet."}, ["c#0"], ["a#0"], review="c", previous=1
)
THIRD = body(
    "stay", 3, {"b#0": "Near the park."}, [], ["c#0"], "review.deleted", review="c", previous=2
)
OTHER = body("hotel", 9, {"z#0": "Loud."}, ["z#0"], review="z", previous=None)


def publish(servers, topic, *values, **settings):
    producer = Producer(
        {"bootstrap.servers": servers, "partitioner": "murmur2_random", "log_level": 0, **settings}
    )
    transactional = "transactional.id" in settings
    if transactional:
        producer.init_transactions(PATIENCE_SECONDS)
        producer.begin_transaction()
    for value in values:
        producer.produce(topic, value, json.loads(value)["entity_id"])
    assert producer.flush(PATIENCE_SECONDS) == 0
    return producer


class Piped:
    """`watch` with its output in pipes."""

    def __init__(self, *arguments):
        self.process = subprocess.Popen(
            [sys.executable, "-m", "worker", "watch", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.getcwd()},
        )

    def interrupt(self):
        self.process.send_signal(signal.SIGINT)
        out, err = self.process.communicate(timeout=PATIENCE_SECONDS)
        return self.process.returncode, out, err


@pytest.fixture
def topic(embedded_broker, monkeypatch):
    """An output topic on the embedded broker, which the settings name."""
    embedded_broker.create_topic("summaries", PARTITIONS)
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", embedded_broker.bootstrap_servers)
    monkeypatch.setenv("COVERSUMM_OUTPUT_TOPIC", "summaries")
    return "summaries"


@pytest.fixture
def watch():
    """Start `watch` in pipes."""
    started = []

    def watch(*arguments):
        started.append(Piped(*arguments))
        return started[-1]

    yield watch
    for worker in started:
        with worker.process:
            worker.process.kill()


def test_a_topic_that_does_not_exist(run, topic, monkeypatch):
    monkeypatch.setenv("COVERSUMM_OUTPUT_TOPIC", "nothing")
    ended = run("watch")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith(
        "coversumm-worker: error: there is no topic nothing: COVERSUMM_OUTPUT_TOPIC "
    )
    assert ended.err.count("\n") == 1


def test_bodies_come_as_they_were_published_and_only_new_ones(embedded_broker, topic, watch):
    publish(embedded_broker.bootstrap_servers, topic, FIRST)
    watched = watch()
    assert (
        watched.process.stderr.readline() == "waiting for a change on summaries; Ctrl-C ends it\n"
    )
    publish(embedded_broker.bootstrap_servers, topic, SECOND)
    assert watched.process.stdout.readline().encode() == SECOND + b"\n"
    publish(embedded_broker.bootstrap_servers, topic, OTHER)
    assert watched.process.stdout.readline().encode() == OTHER + b"\n"
    assert watched.interrupt() == (130, "", "")


def test_an_entity_begins_with_its_present_summary(embedded_broker, topic, watch):
    publish(embedded_broker.bootstrap_servers, topic, FIRST, OTHER, SECOND)
    watched = watch("stay")
    assert watched.process.stdout.readline().encode() == SECOND + b"\n"
    publish(embedded_broker.bootstrap_servers, topic, OTHER, THIRD)
    assert watched.process.stdout.readline().encode() == THIRD + b"\n"
    code, out, _ = watched.interrupt()
    assert (code, out) == (130, "")


def test_an_entity_in_another_partition_than_its_keys_is_found(embedded_broker, topic, watch):
    elsewhere = (partition_of("stay", PARTITIONS) + 1) % PARTITIONS
    producer = Producer({"bootstrap.servers": embedded_broker.bootstrap_servers, "log_level": 0})
    producer.produce(topic, FIRST, "stay", partition=elsewhere)
    assert producer.flush(PATIENCE_SECONDS) == 0
    assert watch("stay").process.stdout.readline().encode() == FIRST + b"\n"


def test_from_the_beginning_all_that_is_there(embedded_broker, topic, watch):
    publish(embedded_broker.bootstrap_servers, topic, FIRST, SECOND)
    watched = watch("--from-beginning", "stay")
    assert [watched.process.stdout.readline().encode() for _ in range(2)] == [
        FIRST + b"\n",
        SECOND + b"\n",
    ]


def test_whoever_has_read_enough_ends_it_quietly(embedded_broker, topic, watch):
    publish(embedded_broker.bootstrap_servers, topic, FIRST)
    watched = watch("--from-beginning")
    assert watched.process.stdout.readline()
    watched.process.stdout.close()
    publish(embedded_broker.bootstrap_servers, topic, SECOND)
    assert watched.process.wait(PATIENCE_SECONDS) == 0
    assert watched.process.stderr.read().count("\n") == 1


PARKING = {"parking": {"a#0": "Easy."}, "noise": {"b#0": "Loud."}}
FACETS = [
    facets_body("stay", 1, PARKING, ["parking", "noise"], previous=None, review="a"),
    facets_body(
        "stay", 2, PARKING | {"noise": {"c#0": "Quiet."}}, ["noise"], previous=1, review="c"
    ),
]


@pytest.fixture
def facets_topic(embedded_broker, topic, monkeypatch):
    embedded_broker.create_topic("facets", PARTITIONS)
    monkeypatch.setenv("COVERSUMM_FACETS_TOPIC", "facets")
    return "facets"


def test_facets_are_published_bodies_too(embedded_broker, facets_topic, watch):
    publish(embedded_broker.bootstrap_servers, facets_topic, FACETS[0])
    watched = watch("stay", "--facets")
    assert watched.process.stdout.readline().encode() == FACETS[0] + b"\n"
    publish(embedded_broker.bootstrap_servers, facets_topic, FACETS[1])
    assert watched.process.stdout.readline().encode() == FACETS[1] + b"\n"


def test_a_topic_of_facets_that_does_not_exist(run, topic):
    ended = run("watch", "--facets")
    assert ended.code == 2
    assert "COVERSUMM_FACETS_TOPIC names another" in ended.err
    assert "with COVERSUMM_FACETS" in ended.err


def terminal_with(*arguments, columns=80, rows=24, **variables):
    command = worker_command("watch", *arguments)
    return Terminal(command, environment=environment(**variables), columns=columns, rows=rows)


def test_a_terminal_that_cannot_redraw_gets_plain_lines(embedded_broker, topic):
    publish(embedded_broker.bootstrap_servers, topic, FIRST)
    with terminal_with("stay", TERM="dumb") as terminal:
        terminal.wait_for(" 1   It was lovely.\n 2   Near the park.\n")
        publish(embedded_broker.bootstrap_servers, topic, SECOND)
        terminal.wait_for("stay: review c came in: ")
        terminal.wait_for("  - It was lovely.\n  + Quiet.\n")
        terminal.type(CONTROL_C)
        assert terminal.wait() == 130
    assert "\x1b" not in terminal.written


@pytest.mark.kafka
@pytest.mark.parametrize(("columns", "rows"), one_of([(60, 24), (160, 50)]))
def test_a_change_on_kafka_is_seen_and_nothing_else(kafka, monkeypatch, columns, rows):
    """Committed ones alone; and the watch is no member of anything."""
    name = f"summaries-{columns}"
    kafka.create_topic(name, PARTITIONS)
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", kafka.bootstrap_servers)
    monkeypatch.setenv("COVERSUMM_OUTPUT_TOPIC", name)
    monkeypatch.setenv("COVERSUMM_APP_ID", APP_ID)
    publish(kafka.bootstrap_servers, name, FIRST)
    with terminal_with("stay", columns=columns, rows=rows) as terminal:
        terminal.wait_for("waiting for a change of stay; Ctrl-C ends it")
        terminal.wait_for("1   It was lovely.")
        aborted = publish(kafka.bootstrap_servers, name, THIRD, **{"transactional.id": name})
        aborted.abort_transaction(PATIENCE_SECONDS)
        committed = publish(
            kafka.bootstrap_servers, name, OTHER, SECOND, **{"transactional.id": name}
        )
        committed.commit_transaction(PATIENCE_SECONDS)
        for seen in ("review c came in", "2 + Quiet.", "- It was lovely."):
            terminal.wait_for(seen)
        terminal.type(CONTROL_C)
        assert terminal.wait() == 130
    assert terminal.written.endswith(FIRST_SCREEN)
    assert "taken down" not in terminal.shown
    assert "Loud." not in terminal.shown
    assert all(len(frame.split("\n")) <= rows for frame in terminal.frames())
    admin = kafka.admin()  # its futures are never done once it is collected
    groups = admin.list_consumer_groups().result(PATIENCE_SECONDS)
    assert APP_ID not in {group.group_id for group in groups.valid}


@pytest.mark.long
@pytest.mark.kafka
def test_a_short_outage_is_told_and_a_long_one_ends_the_watch(tmp_path, monkeypatch):
    """The second watch takes a second for a long outage, in place of half a minute."""
    brief = "import worker.published.watching as it; from worker.cli import main\n"
    brief += "it.LOST_SECONDS = 1.0; main()"
    with KafkaBroker(tmp_path / "kafka") as broker:
        broker.create_topic("summaries", PARTITIONS)
        monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", broker.bootstrap_servers)
        monkeypatch.setenv("COVERSUMM_OUTPUT_TOPIC", "summaries")
        with terminal_with() as terminal:
            terminal.wait_for("waiting for a change on summaries; Ctrl-C ends it")
            broker.stop()
            terminal.wait_for("no broker has answered for ")
            broker.start()
            publish(broker.bootstrap_servers, "summaries", FIRST)
            terminal.wait_for("1 + It was lovely.")
        command = [sys.executable, "-c", brief, "watch"]
        with Terminal(command, environment=environment()) as terminal:
            terminal.wait_for("waiting for a change on summaries; Ctrl-C ends it")
            broker.stop()
            assert terminal.wait() == 2
    (line,) = terminal.written.rpartition(FIRST_SCREEN)[2].splitlines()
    assert line.startswith("coversumm-worker: error: no broker has answered for 1 s")
