"""Ranges of a topic by time on a real Kafka, whose index by time counts transaction markers and
aborted records.
"""

from __future__ import annotations

import logging
import threading
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition

from tests.harness.broker import KafkaBroker
from tests.harness.eventually import eventually
from tests.harness.patience import PATIENCE_SECONDS, TEST_SECONDS
from tests.harness.topics import producer
from worker.errors import SetupError
from worker.kafka.clients import KafkaClients
from worker.kafka.reader import TopicReader
from worker.replay.ranges import find_ranges
from worker.settings import Settings

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(TEST_SECONDS)]

YEAR_2023_MS = 1_672_531_200_000


class Log:
    """A topic whose records have old timestamps: minutes of the year 2023."""

    def __init__(self, broker: KafkaBroker, topic: str, partitions: int = 1, **config: Any) -> None:
        self.broker, self.topic, self.partitions = broker, topic, partitions
        broker.create_topic(topic, partitions, config={"retention.ms": "-1", **config})
        self.clients = KafkaClients(
            Settings(bootstrap_servers=broker.bootstrap_servers, app_id=f"{topic}-reader")
        )

    def transactional(self, number: int = 0) -> Producer:
        made = producer(
            self.broker.bootstrap_servers,
            **{
                "transactional.id": f"{self.topic}-{number}",
                # or the broker would end a transaction that a slow test leaves open
                "transaction.timeout.ms": 900_000,
            },
        )
        made.init_transactions(PATIENCE_SECONDS)
        return made

    def write(
        self,
        minutes: Any,
        *,
        by: Producer | None = None,
        partition: int = 0,
        commit: bool | None = True,
    ) -> None:
        """Records of these minutes, in one transaction of `by` if given, which is left open where
        `commit` is None.
        """
        sender = by or producer(self.broker.bootstrap_servers)
        if by is not None:
            sender.begin_transaction()
        for minute in minutes:
            sender.produce(self.topic, b"%d" % minute, partition=partition, timestamp=_at(minute))
        assert sender.flush(PATIENCE_SECONDS) == 0
        if by is not None and commit is not None:
            sender.commit_transaction() if commit else sender.abort_transaction()

    def range(self, **asked: Any) -> tuple[int, int]:
        """Of partition 0."""
        found = find_ranges(self.clients, self.topic, self.topic, self.partitions, **asked)[0]
        return found.first, found.end

    def offset_of(self, minute: int) -> int:
        """Of the first committed record of that minute or a later one."""
        with TopicReader(self.clients, self.topic, self.topic) as reader:
            return next(
                stored.record.offset
                for stored in reader.read(0)
                if int(stored.record.value or b"") >= minute
            )


def _at(minute: int) -> int:
    return YEAR_2023_MS + minute * 60_000


def test_a_time_is_that_of_a_record_and_not_of_a_marker(kafka: KafkaBroker) -> None:
    """Transactions of ten, now and then an aborted one whose records are late: the markers have the
    clock of the broker.
    """
    log = Log(kafka, "times.markers", 3)
    sender = log.transactional()
    for partition in range(2):
        for number in range(5):
            log.write(range(10 * number, 10 * number + 10), by=sender, partition=partition)
            log.write([1000], by=sender, partition=partition, commit=False)
    for minute in (0, 25, 30):
        assert log.range(until_ms=_at(minute)) == (0, log.offset_of(minute))
        assert log.range(since_ms=_at(minute)) == (log.offset_of(minute), log.range()[1])
    assert log.range(until_ms=_at(50)) == (0, log.range()[1])  # none is so late
    assert log.range(since_ms=_at(20), until_ms=_at(30)) == (log.offset_of(20), log.offset_of(30))
    found = find_ranges(log.clients, log.topic, log.topic, 3, until_ms=_at(30))
    assert [found[p].end for p in range(3)] == [log.offset_of(30), log.offset_of(30), 0]
    with TopicReader(log.clients, log.topic, log.topic) as reader:
        found_at = reader.offsets_at(_at(30))
        assert found_at == {0: log.offset_of(30), 1: log.offset_of(30), 2: 0}
        values = [stored.record.value for stored in reader.read(1, found_at[1])]
        assert values == [b"%d" % minute for minute in range(30, 50)]  # the reader is as it was


def test_a_reader_ends_before_an_open_transaction(kafka: KafkaBroker) -> None:
    log = Log(kafka, "times.ends", 3)
    writer, other = log.transactional(0), log.transactional(1)
    log.write(range(3), by=writer)
    log.write([3], by=other, commit=None)
    log.write(range(4, 8), by=writer)
    log.write(range(2), by=writer, partition=1)

    def found() -> tuple[list[range], list[bytes | None]]:
        with TopicReader(log.clients, log.topic, log.topic) as reader:
            bounds = [reader.bounds(p) for p in reader.partitions]
            return bounds, [stored.record.value for stored in reader.read(0)]

    # Records and the marker of a transaction, up to the open one. Markers follow a commit.
    expected = ([range(4), range(3), range(0)], [b"0", b"1", b"2"])
    eventually(lambda: found() == expected, lambda: str(found()))
    other.abort_transaction()


@pytest.mark.long
def test_an_open_transaction_before_that_record_is_waited_for(
    kafka: KafkaBroker, caplog: pytest.LogCaptureFixture
) -> None:
    log = Log(kafka, "times.open")
    writer, other = log.transactional(0), log.transactional(1)
    log.write(range(10), by=writer)
    log.write([10, 11, 12], by=other, commit=None)
    log.write(range(20, 30), by=writer)
    assert log.range(until_ms=_at(5)) == (0, 5)  # before it nothing is waited for
    found: list[tuple[int, int]] = []
    asking = threading.Thread(target=lambda: found.append(log.range(until_ms=_at(11))))
    with caplog.at_level(logging.WARNING, "worker.kafka"):
        asking.start()
        eventually(lambda: "times.open-0: an open transaction" in caplog.text, lambda: caplog.text)
    assert not found
    other.abort_transaction()
    asking.join(PATIENCE_SECONDS)
    assert found == [(0, log.offset_of(20))]


@pytest.mark.long
def test_the_clock_of_the_broker_counts_where_it_writes_the_timestamps(kafka: KafkaBroker) -> None:
    log = Log(kafka, "times.appended", **{"message.timestamp.type": "LogAppendTime"})
    log.write(range(10), by=log.transactional())
    assert log.range(until_ms=_at(5)) == (0, 0)
    assert log.range(since_ms=_at(5)) == (0, 11)


@pytest.mark.long
def test_an_end_in_what_retention_has_removed_is_refused_though_markers_are_left(
    kafka: KafkaBroker,
) -> None:
    # One segment: until the broker removes one below the log's start, its index answers for that
    # one alone.
    log = Log(kafka, "times.removed", **{"segment.ms": str(10**15)})
    sender = log.transactional()
    log.write(range(10), by=sender)
    log.write(range(10, 20), by=sender)
    admin = kafka.admin()  # its futures fail once it is collected
    for future in admin.delete_records([TopicPartition(log.topic, 0, 10)]).values():
        future.result(PATIENCE_SECONDS)
    with pytest.raises(SetupError, match=r"times.removed-0: everything before .* 0 to 9"):
        log.range(until_ms=_at(5))
    assert log.range(until_ms=_at(15)) == (10, 16)
