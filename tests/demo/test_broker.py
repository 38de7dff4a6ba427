"""The embedded broker: real clients on it, its faults (`tests.harness.embedded`), and its end."""

import os
import signal
import subprocess
import sys

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient

from tests.harness.patience import PATIENCE_SECONDS
from worker.demo.broker import EmbeddedBroker

QUIET = {"log_level": 0}


def producer(broker, **settings):
    return Producer({"bootstrap.servers": broker.bootstrap_servers, **QUIET, **settings})


def test_a_topic_that_exists_is_refused(embedded_broker):
    embedded_broker.create_topic("reviews", 1)
    with pytest.raises(ValueError, match=r"reviews.*TOPIC_ALREADY_EXISTS"):
        embedded_broker.create_topic("reviews", 1)


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
