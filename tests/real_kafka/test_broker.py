"""The broker fixture itself: other suites lean on these properties without looking."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer, TopicPartition

from tests.harness.broker import WITHOUT_TRANSACTIONS, KafkaBroker
from tests.harness.node import BrokerError
from tests.harness.patience import PATIENCE_SECONDS, TEST_SECONDS
from tests.harness.topics import read_topic

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(TEST_SECONDS)]


def test_data_and_address_survive_kill_and_restart(tmp_path: Path) -> None:
    with KafkaBroker(tmp_path / "broker") as broker:
        broker.create_topic("t", 1)
        address = broker.bootstrap_servers
        producer = Producer({"bootstrap.servers": address, "log_level": 0})
        producer.produce("t", value=b"kept")
        assert producer.flush(PATIENCE_SECONDS) == 0
        broker.kill()
        broker.start()
        assert broker.bootstrap_servers == address
        assert [message.value for message in read_topic(address, "t")] == [b"kept"]


def test_a_committed_reader_sees_no_aborted_record(kafka: KafkaBroker) -> None:
    kafka.create_topic("committed-only", 1)
    producer = Producer(
        {"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": "test-broker"}
    )
    producer.init_transactions(PATIENCE_SECONDS)
    for value in (b"aborted", b"committed"):
        producer.begin_transaction()
        producer.produce("committed-only", value=value)
        producer.flush(PATIENCE_SECONDS)
        (producer.commit_transaction if value == b"committed" else producer.abort_transaction)(
            PATIENCE_SECONDS
        )
    read = read_topic(kafka.bootstrap_servers, "committed-only")
    assert [(message.offset, message.value) for message in read] == [(2, b"committed")]


def test_a_broker_without_transactions_produces_but_has_no_coordinator(tmp_path: Path) -> None:
    with KafkaBroker(tmp_path / "broker", WITHOUT_TRANSACTIONS) as broker:
        broker.create_topic("t", 1)
        address = {"bootstrap.servers": broker.bootstrap_servers, "log_level": 0}
        plain = Producer(address)
        plain.produce("t", value=b"plain")
        assert plain.flush(PATIENCE_SECONDS) == 0
        with pytest.raises(KafkaException):
            Producer({**address, "transactional.id": "x"}).init_transactions(3)


def test_a_broker_that_cannot_start_says_why(tmp_path: Path) -> None:
    with pytest.raises(BrokerError, match=r"ended with 1[\s\S]*no\.such\.class"):
        KafkaBroker(tmp_path / "broker", {"metric.reporters": "no.such.class"}).start()


def test_partitions_have_the_murmur2_of_their_keys(kafka: KafkaBroker) -> None:
    """Faust and Kafka's own clients place a key by murmur2; `load.py` must too, or a worker sees
    foreign keys.
    """
    from tests.harness.topics import end_offsets, producer

    kafka.create_topic("murmur2", 4)
    sender = producer(kafka.bootstrap_servers)
    sender.produce("murmur2", key=b"21", value=b"")
    sender.flush(PATIENCE_SECONDS)
    # Kafka's UtilsTest: murmur2("21") = -973932308, so partition (h & 0x7fffffff) % 4.
    assert end_offsets(kafka.bootstrap_servers, "murmur2")[(-973932308 & 0x7FFFFFFF) % 4] == 1
    assert TopicPartition("murmur2", 0).topic == "murmur2"
