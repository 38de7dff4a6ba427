"""All partitions of a topic read by one consumer, merged by time."""

import random
from heapq import merge

import pytest
from confluent_kafka.admin import NewTopic

from tests.harness import KafkaBroker
from tests.harness.topics import producer
from worker.kafka import reader
from worker.kafka.clients import KafkaClients
from worker.kafka.reader import Stored, TopicReader
from worker.replay.bodies import in_order_of_commits
from worker.settings import Settings

TOPIC, PARTITIONS, MESSAGES = "merged", 5, 5000


def when(stored: Stored) -> tuple[int, int, int]:
    return stored.record.timestamp_ms, stored.record.partition, stored.record.offset


@pytest.mark.parametrize("buffer_bytes", [20_000, 2**20])
def test_one_consumer_gives_the_merge_of_all_partitions(
    kafka: KafkaBroker, monkeypatch: pytest.MonkeyPatch, buffer_bytes: int
) -> None:
    """Also with full buffers: one partition is far ahead of the others, another one empty."""
    topic = f"{TOPIC}-{buffer_bytes}"
    admin = kafka.admin()
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(60)
    drawn = random.Random(5)
    sending = producer(kafka.bootstrap_servers)
    for number in range(MESSAGES):
        partition = drawn.choice([0, 1, 1, 1, 2, 3])
        moment = 1_700_000_000_000 + number + (MESSAGES if partition == 1 else 0)
        value = b"%d " % number + bytes(drawn.randrange(400))
        sending.produce(topic, value, partition=partition, timestamp=moment)
    assert sending.flush(60) == 0

    clients = KafkaClients(Settings(bootstrap_servers=kafka.bootstrap_servers))
    monkeypatch.setattr(reader, "BUFFERS_BYTES", PARTITIONS * buffer_bytes)
    monkeypatch.setattr(reader, "LEAST_BUFFER_BYTES", buffer_bytes)
    with TopicReader(clients, topic, topic) as one:
        streams = [list(one.read(partition)) for partition in one.partitions]
    wanted = [stored.record.value for stored in merge(*streams, key=when)]
    assert len(wanted) == MESSAGES
    assert list(in_order_of_commits(clients, topic)) == wanted
