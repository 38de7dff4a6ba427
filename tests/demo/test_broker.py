"""The embedded broker: real clients on it, its faults (`tests.harness.embedded`), and its end."""

import os
import signal
import subprocess
import sys
import time

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.harness.patience import PATIENCE_SECONDS
from worker.demo.broker import EmbeddedBroker

PRODUCE = 0
QUIET = {"log_level": 0}


def producer(broker, **settings):
    return Producer({"bootstrap.servers": broker.bootstrap_servers, **QUIET, **settings})


def send(broker, topic, *values, **settings):
    """Produce and wait; the errors, None for what was written."""
    outcomes = []
    client = producer(broker, **settings)
    for value in values:
        client.produce(
            topic, value, partition=0, on_delivery=lambda error, _message: outcomes.append(error)
        )
    client.flush(PATIENCE_SECONDS)
    return outcomes


def read(broker, topic, count):
    """The first values of partition 0."""
    client = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "test", **QUIET})
    try:
        client.assign([TopicPartition(topic, 0, 0)])
        return [message.value() for message in client.consume(count, PATIENCE_SECONDS)]
    finally:
        client.close()


def test_topics_have_the_chosen_partitions():
    with EmbeddedBroker({"one": 1, "seven": 7}) as broker:
        broker.create_topic("three", 3)
        found = AdminClient({"bootstrap.servers": broker.bootstrap_servers, **QUIET}).list_topics(
            timeout=PATIENCE_SECONDS
        )
    assert {name: len(topic.partitions) for name, topic in found.topics.items()} == {
        "one": 1,
        "seven": 7,
        "three": 3,
    }


def test_a_topic_that_exists_is_refused(embedded_broker):
    embedded_broker.create_topic("reviews", 1)
    with pytest.raises(ValueError, match=r"reviews.*TOPIC_ALREADY_EXISTS"):
        embedded_broker.create_topic("reviews", 1)


def test_what_is_produced_can_be_consumed(embedded_broker):
    embedded_broker.create_topic("reviews", 1)
    assert send(embedded_broker, "reviews", b"a", b"b") == [None, None]
    assert read(embedded_broker, "reviews", 2) == [b"a", b"b"]


def test_requests_fail_as_told_and_no_longer(embedded_broker):
    embedded_broker.create_topic("reviews", 1)
    embedded_broker.fail_requests(PRODUCE, [KafkaError.TOPIC_AUTHORIZATION_FAILED])
    (error,) = send(embedded_broker, "reviews", b"a")
    assert error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert send(embedded_broker, "reviews", b"b") == [None]
    embedded_broker.fail_requests(PRODUCE, [KafkaError.TOPIC_AUTHORIZATION_FAILED] * 5)
    embedded_broker.forgive_requests(PRODUCE)
    assert send(embedded_broker, "reviews", b"c") == [None]


def test_answers_are_delayed(embedded_broker):
    embedded_broker.create_topic("reviews", 1)
    client = producer(embedded_broker)
    client.list_topics(timeout=PATIENCE_SECONDS)  # connected
    embedded_broker.delay_answers(400)
    started = time.monotonic()
    client.list_topics(timeout=PATIENCE_SECONDS)
    assert time.monotonic() - started >= 0.4


def test_down_and_up_again_keeps_what_is_stored(embedded_broker):
    embedded_broker.create_topic("reviews", 1)
    send(embedded_broker, "reviews", b"before")
    embedded_broker.go_down()
    with pytest.raises(KafkaException):
        producer(embedded_broker).list_topics(timeout=1)
    embedded_broker.come_up()
    assert send(embedded_broker, "reviews", b"after") == [None]
    assert read(embedded_broker, "reviews", 2) == [b"before", b"after"]


def test_closing_frees_the_port_and_ends_everything():
    broker = EmbeddedBroker({"reviews": 1})
    broker.close()
    broker.close()
    with pytest.raises(KafkaException):
        producer(broker).list_topics(timeout=1)
    with pytest.raises(ValueError, match="closed"):
        broker.create_topic("more", 1)


def test_it_dies_with_its_process_however_that_ends():
    code = (
        "import time\nfrom worker.demo.broker import EmbeddedBroker\n"
        "print(EmbeddedBroker({'reviews': 1}).bootstrap_servers, flush=True)\ntime.sleep(600)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True
    ) as process:
        servers = process.stdout.readline().strip()
        client = AdminClient({"bootstrap.servers": servers, **QUIET})
        assert "reviews" in client.list_topics(timeout=PATIENCE_SECONDS).topics
        os.kill(process.pid, signal.SIGKILL)
        process.wait(PATIENCE_SECONDS)
    with pytest.raises(KafkaException):
        AdminClient({"bootstrap.servers": servers, **QUIET}).list_topics(timeout=1)
