"""A bridge from a topic that Debezium keys by review: nothing is lost, repeated, or reordered
within a source partition, and the worker behind it publishes the summaries of the contract's
events.
"""

from __future__ import annotations

import json
import random
import signal
import time
from collections.abc import Callable, Iterable
from contextlib import closing
from itertools import count, islice
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition

from tests.harness.armed import BRIDGE_STEPS, Order
from tests.harness.broker import KafkaBroker
from tests.harness.damage import delete_topic, make_anew
from tests.harness.debezium import (
    FUNCTION,
    MOVING,
    Step,
    bodies,
    deletions,
    expected,
    last_sets,
    steps,
    written,
)
from tests.harness.eventually import eventually
from tests.harness.long import one_of
from tests.harness.patience import TEST_SECONDS
from tests.harness.small_load import DIMENSION, SETTINGS
from tests.harness.topics import committed_offsets, consumer, producer, read_topic
from tests.harness.workers import Pipeline, WorkerProcess, pipeline
from worker.kafka.topics import partition_of

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(TEST_SECONDS)]

PARTITIONS = 3
SOURCE_PARTITIONS = 4
PRODUCTS = 7
FROZEN_SECONDS = 8
"""Past the session, within the transaction's timeout."""


def prepared(
    site: Pipeline, source: str, bridges: int, mapping: str = MOVING, name: str = "mapping.toml"
) -> list[WorkerProcess]:
    """Bridges of a new topic, started; they take orders."""
    file = written(site.directory, mapping.replace("shop.public.reviews", source), name)
    site.broker.create_topic(source, SOURCE_PARTITIONS)
    made = [
        WorkerProcess(
            site.directory / f"bridge-{number}",
            {**site.environment, "COVERSUMM_BATCH_SIZE": "20"},
            armed=True,
            arguments=("bridge", "--mapping", str(file), "--from", source),
        )
        for number in range(bridges)
    ]
    site.workers += made
    for bridge in made:
        bridge.start()
    return made


class Feed:
    """Sends records to a source; `sent` is their history."""

    def __init__(self, site: Pipeline, source: str, seed: int) -> None:
        self.sent: list[Step] = []
        self._source = source
        self._rest = steps(100_000, PRODUCTS, DIMENSION, seed, moves=True)
        self._client = producer(site.broker.bootstrap_servers)

    def __call__(self, count: int) -> None:
        """Send the next records, so many."""
        for event in islice(self._rest, count):
            self._client.produce(self._source, event.value, event.key)
            self.sent.append(event)
        self._client.flush(60)

    def send_unknown(self) -> None:
        """Send a record that no rule of the mapping takes."""
        self._client.produce(self._source, b'{"op": "unknown"}', b'{"id": 1}')
        self._client.flush(60)


def wait_bridged(site: Pipeline, source: str) -> None:
    """Wait until the bridges have committed the complete source."""
    servers = site.broker.bootstrap_servers
    ends = {record.partition: record.offset + 1 for record in read_topic(servers, source)}

    def is_bridged() -> bool:
        committed = committed_offsets(servers, source, f"{site.name}-bridge-{source}")
        return all(committed[partition] >= end for partition, end in ends.items())

    eventually(is_bridged, site.logs, every_s=0.3)


def check(site: Pipeline, source: str, history: list[Step], letters: int = 0) -> None:
    """Each event once, in the partition of its entity, those of a source partition in order; and
    the summaries that the events have.
    """
    servers = site.broker.bootstrap_servers
    by_value = {event.value: event for event in history if event.value is not None}
    places: dict[int, tuple[int, int]] = {}  # by version, where it came from
    for record in read_topic(servers, source):
        step = by_value.get(record.value)
        if step is not None and step.events:
            version = json.loads(step.events[0])["review_version"]
            places[version] = (record.partition, record.offset)
    found = read_topic(servers, site.input_topic)
    events = [json.loads(message.value or b"") for message in found]
    wanted = [json.loads(event) for step in history for event in step.events]
    assert any(len(event.events) > 1 for event in history)
    in_order = lambda some: sorted(  # noqa: E731
        some, key=lambda event: (event["review_version"], event["type"])
    )
    assert in_order(events) == in_order(wanted)
    last: dict[tuple[int, int], int] = {}
    for message, event in zip(found, events, strict=True):
        entity_id = event["entity_id"]
        assert message.key == entity_id.encode()
        assert message.partition == partition_of(entity_id, PARTITIONS)
        partition, offset = places[event["review_version"]]
        assert offset >= last.get((partition, message.partition), -1)
        last[partition, message.partition] = offset
    assert len(read_topic(servers, f"{source}.dlq")) == letters
    published = bodies(message.value for message in read_topic(servers, site.output_topic))
    assert last_sets(published) == last_sets(expected(history))


@pytest.mark.parametrize(
    ("mapping", "file", "reason"),
    [(MOVING, "mapping.toml", "unknown_type"), (FUNCTION, "shop.py", "bad_field")],
)
def test_bridge_and_worker(
    kafka: KafkaBroker, tmp_path: Path, mapping: str, file: str, reason: str
) -> None:
    name = f"flowing-{reason}"
    source = f"{name}.shop"
    with pipeline(kafka, name, tmp_path, partitions=PARTITIONS, settings=SETTINGS) as site:
        feed = Feed(site, source, seed=4)
        (bridge,) = prepared(site, source, 1, mapping, file)
        site.start()
        feed(600)
        feed.send_unknown()
        wait_bridged(site, source)
        metrics = bridge.metrics()
        assert metrics["coversumm_partitions"] == SOURCE_PARTITIONS
        assert metrics["coversumm_ready"] == 1
        site.wait_caught_up()
        site.stop()  # with exit code 0
        check(site, source, feed.sent, letters=1)
        assert f"1 {reason}; `COVERSUMM_DLQ_TOPIC={source}.dlq " in bridge.log_text()


@pytest.mark.long
def test_two_topics_in_one_process(kafka: KafkaBroker, tmp_path: Path) -> None:
    """Of other fields and partition counts; killed at steps of batches of either."""
    source, other = "pair.shop", "pair.other"
    flat = deletions(other) + 'review_version = "version"\n'
    with pipeline(kafka, "pair", tmp_path, partitions=PARTITIONS, settings=SETTINGS) as site:
        file = written(tmp_path, MOVING.replace("shop.public.reviews", source) + flat)
        bridge = WorkerProcess(
            tmp_path / "bridge",
            {**site.environment, "COVERSUMM_BATCH_SIZE": "20"},
            armed=True,
            arguments=("bridge", "--mapping", str(file), "--from", f"{source},{other}"),
        )
        site.workers.append(bridge)
        kafka.create_topic(source, SOURCE_PARTITIONS)
        bridge.refused(f"--from {other}: there is no such topic")
        kafka.create_topic(other, 2)
        feed, versions = Feed(site, source, seed=9), count(10**9)
        client, sent = producer(kafka.bootstrap_servers), list[int]()

        def feed_both(number: int) -> None:
            feed(number)
            for version in islice(versions, number):
                row = {"product": f"p{version % 5}", "id": "r", "version": version}
                client.produce(other, json.dumps(row).encode(), str(version).encode())
                sent.append(version)
            client.flush(60)

        bridge.start()
        for step in ("after a produce", "after the flush", "after the offsets"):
            bridge.wait_ready()
            strike(site, bridge, feed_both, Order(step, 7, signal.SIGKILL))
            bridge.start()
        feed.send_unknown()
        client.produce(other, b"no JSON")
        client.flush(60)
        wait_bridged(site, source)
        wait_bridged(site, other)
        bridge.wait_ready()
        lag = f'coversumm_lag_records{{partition="{other}-1"}}'
        eventually(lambda: bridge.metrics().get(lag) == 0, site.logs)
        assert bridge.metrics()["coversumm_partitions"] == SOURCE_PARTITIONS + 2
        site.stop()
        assert bridged(site) == sorted(events_of(feed.sent) + sent)
        letters = [read_topic(kafka.bootstrap_servers, f"{topic}.dlq") for topic in (source, other)]
        assert list(map(len, letters)) == [1, 1]


@pytest.mark.parametrize("protocol", one_of(["consumer", "classic"]))
def test_a_consumer_in_the_group_of_bridges_ends_them(
    kafka: KafkaBroker, tmp_path: Path, protocol: str
) -> None:
    """Kafka gives partitions to any consumer with the same assignor; it commits what it read."""
    name = f"joined-{protocol}"
    source, group = f"{name}.shop", f"{name}-bridge-{name}.shop"
    options = {"client.id": "billing-7", "group.protocol": protocol, "enable.partition.eof": False}
    with pipeline(kafka, name, tmp_path, partitions=PARTITIONS, settings=SETTINGS) as site:
        feed = Feed(site, source, seed=8)
        bridges = prepared(site, source, 2)
        wait_all_ready(site)
        feed(60)
        wait_bridged(site, source)
        with closing(consumer(kafka.bootstrap_servers, group, **options)) as other:
            other.subscribe([source])

            def ended(*bridges: WorkerProcess) -> None:
                eventually(
                    lambda: (other.poll(0.1), not any(bridge.alive for bridge in bridges))[1],
                    site.logs,
                )
                for bridge in bridges:
                    bridge.refused(f"the group {group} has clients that are no", "billing-7 at 127")

            ended(*bridges)
            feed(60)
            bridges[0].log_path.unlink()
            ended(bridges[0].start())
            (end,) = other.committed([TopicPartition(source, 0)])
            place = TopicPartition(source, 0, end.offset)  # without the note of a bridge
            other.commit(offsets=[place], asynchronous=False)
        bridges[0].start()
        wait_bridged(site, source)
        site.stop()
        assert f"committed the offset {end.offset} of {source} [0]" in bridges[0].log_text()
        assert bridged(site) == events_of(feed.sent)


@pytest.mark.long
def test_the_log_says_when_no_broker_answers_and_when_one_does_again(
    kafka: KafkaBroker, tmp_path: Path
) -> None:
    settings = {**SETTINGS, "COVERSUMM_BROKER_TIMEOUT_MS": "2000"}
    with pipeline(kafka, "silent", tmp_path, settings=settings) as site:
        (bridge,) = prepared(site, "silent.shop", 1)
        bridge.wait_ready()
        kafka.pause()
        try:
            eventually(lambda: ": not ready until one answers, " in bridge.log_text(), site.logs)
            assert bridge.metrics()["coversumm_ready"] == 0
        finally:
            kafka.resume()
        eventually(lambda: "a broker answers again, after " in bridge.log_text(), site.logs)
        bridge.wait_ready()


def strike(
    site: Pipeline, victim: WorkerProcess, feed: Callable[[int], None], order: Order
) -> None:
    """Let this happen to a bridge while records arrive, and wait until it is over."""
    victim.arm(order)

    def is_struck() -> bool:
        feed(20)
        return victim.struck()

    eventually(is_struck, site.logs, every_s=0.3)
    if order.signal == signal.SIGSTOP:
        time.sleep(FROZEN_SECONDS)
        victim.resume()
    else:
        victim.wait()


def wait_all_ready(site: Pipeline) -> None:
    """As a platform does: start those that ended."""

    def are_ready() -> bool:
        for worker in site.workers:
            if not worker.alive:
                site.restart(worker)
        return all(worker.ready() for worker in site.workers)

    eventually(are_ready, site.logs, every_s=0.2)


@pytest.mark.long
def test_topics_that_were_created_again(kafka: KafkaBroker, tmp_path: Path) -> None:
    """A source: Kafka forgets the group's offsets, and all of its records are bridged. A target: it
    gets no record until an operator has said which.
    """
    source = "renewed.shop"
    with pipeline(kafka, "renewed", tmp_path, partitions=PARTITIONS, settings=SETTINGS) as site:
        feed = Feed(site, source, seed=6)
        (bridge,) = prepared(site, source, 1)
        feed(60)
        wait_bridged(site, source)
        delete_topic(kafka, source)
        kafka.create_topic(source, SOURCE_PARTITIONS)
        feed(300)  # more than before: the bridge's offsets are within the log
        assert bridge.wait() in (2, 3)
        assert bridged(site) == events_of(feed.sent[:60])
        bridge.start()
        wait_bridged(site, source)
        assert bridged(site) == events_of(feed.sent)
        make_anew(site, site.input_topic)
        feed(20)
        assert bridge.wait() == 3
        assert bridge.start().wait() == 2
        assert f"when {site.input_topic} had the id" in bridge.log_text().splitlines()[-1]
        assert bridged(site) == []
        starts = [TopicPartition(source, partition, 0) for partition in range(SOURCE_PARTITIONS)]
        group = consumer(kafka.bootstrap_servers, f"{site.name}-bridge-{source}")
        group.commit(offsets=starts, asynchronous=False)
        group.close()
        bridge.start()
        wait_bridged(site, source)
        site.stop()
        assert bridged(site) == events_of(feed.sent[60:])


def bridged(site: Pipeline) -> list[int]:
    """The versions of the events that bridges have written."""
    found = read_topic(site.broker.bootstrap_servers, site.input_topic)
    return sorted(json.loads(message.value or b"")["review_version"] for message in found)


def events_of(history: Iterable[Step]) -> list[int]:
    """Those of the events that these records mean."""
    events = [json.loads(event) for step in history for event in step.events]
    return sorted(event["review_version"] for event in events)


@pytest.mark.long
def test_killed_and_frozen_at_every_step(kafka: KafkaBroker, tmp_path: Path) -> None:
    """One of two bridges at each step of a batch and of a rebalance; and the workers behind them at
    any moment.
    """
    chance = random.Random(5)
    orders = [
        Order(step, 7 if step == "after a produce" else 1, signal.SIGKILL) for step in BRIDGE_STEPS
    ]
    orders += [
        Order(step, 1, signal.SIGSTOP)
        for step in ("after fetching the offsets", "after the flush", "after the offsets")
    ]
    source = "struck.shop"
    with pipeline(kafka, "struck", tmp_path, partitions=PARTITIONS, settings=SETTINGS) as site:
        feed = Feed(site, source, seed=2)
        bridges = prepared(site, source, 2)
        site.start(2)
        for number, order in enumerate(orders):
            wait_all_ready(site)
            victim, other = bridges[number % 2], bridges[1 - number % 2]
            if order.step in BRIDGE_STEPS[:2]:
                other.kill()  # its start makes the group share the partitions again
                other.start()
            strike(site, victim, feed, order)
            if number % 4 == 0:
                chance.choice(site.workers[2:]).kill()
        feed(100)
        wait_all_ready(site)
        wait_bridged(site, source)
        site.wait_caught_up()
        site.stop()
        check(site, source, feed.sent)
