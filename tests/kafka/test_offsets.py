"""Questions about offsets, over a consumer whose answers a test gives (a real broker's:
tests/real_kafka).
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, KafkaError, KafkaException, TopicPartition

from tests.harness.fake_clients import FakeClients, FakeClock
from worker.clock import Clock
from worker.errors import Crash, SetupError, Unanswered
from worker.kafka.changelog import ChangelogLog, LogBounds
from worker.kafka.errors import is_retriable
from worker.kafka.offsets import CommittedOffset, InputLog, Start, all_watermarks, committed_offsets
from worker.kafka.topics import DELETE_RETENTION_MS

DAY_MS = 24 * 3600 * 1000


class FakeConsumer:
    """Answers for partitions 0 and 1 of any topic."""

    def __init__(self) -> None:
        self.offsets = {0: 7, 1: -1001}
        self.notes = {0: "a note", 1: "of nothing"}
        self.log = (5, 20)
        self.error: KafkaError | None = None
        self.not_yet = 0
        self.first_younger: dict[int, int] = {}  # by milliseconds asked for; -1 for others
        self.questions = 0  # about offsets of logs
        self.unled = 0
        self.open = True

    def committed(self, asked: list[Any], timeout: float) -> list[Any]:
        if self.not_yet:
            self.not_yet -= 1
            raise KafkaException(KafkaError(KafkaError.UNSTABLE_OFFSET_COMMIT))
        return [
            SimpleNamespace(
                partition=tp.partition,
                offset=self.offsets[tp.partition],
                error=self.error,
                metadata=self.notes.get(tp.partition),
            )
            for tp in asked
        ]

    def offsets_for_times(self, asked: list[Any], timeout: float) -> list[Any]:
        self.questions += 1
        if self.unled:
            self.unled -= 1
            return asked  # as librdkafka leaves what a leader does not answer for
        ends = {OFFSET_BEGINNING: self.log[0], OFFSET_END: self.log[1]}
        by_time = ends | self.first_younger
        return [TopicPartition(tp.topic, tp.partition, by_time.get(tp.offset, -1)) for tp in asked]

    def close(self) -> None:
        self.open = False


@pytest.fixture
def consumer() -> FakeConsumer:
    return FakeConsumer()


@pytest.fixture
def clients(consumer: FakeConsumer) -> FakeClients:
    return FakeClients(consumer=lambda: consumer)


def starts(
    clients: FakeClients, partitions: Iterable[int], clock: Clock = time, **options: Any
) -> dict[int, Start]:
    return InputLog(clients, "in", "group", clock, **options).starts(partitions)  # type: ignore[arg-type]


def test_a_partition_starts_at_its_committed_offset_or_at_the_start_of_the_log(
    clients: FakeClients, consumer: FakeConsumer
) -> None:
    assert starts(clients, [0, 1]) == {
        0: Start(7, True, 20, "a note"),
        1: Start(5, False, 20),
    }
    # A predecessor's pending transaction decides what is committed: only this level waits for it.
    assert [(asked.group, asked.isolation) for asked in clients.asked] == [
        ("group", "read_committed")
    ]
    assert not consumer.open


def test_a_pending_transaction_is_waited_for(clients: FakeClients, consumer: FakeConsumer) -> None:
    consumer.not_yet, clock = 10, FakeClock()
    began_s = clock.now_s
    assert starts(clients, [0], clock) == {0: Start(7, True, 20, "a note")}
    assert clock.now_s - began_s == pytest.approx(2.0)
    consumer.not_yet = 10
    assert committed_offsets(consumer, "in", [0, 1], 60, clock) == {0: CommittedOffset(7, "a note")}  # type: ignore[arg-type]


@pytest.mark.parametrize("offset", [4, 21])
def test_a_committed_offset_outside_the_log_is_refused(
    clients: FakeClients, consumer: FakeConsumer, offset: int
) -> None:
    consumer.offsets = {0: offset}
    with pytest.raises(SetupError, match=rf"offset {offset} of in-0 .* \[5, 20\].*another copy"):
        starts(clients, [0])
    assert not consumer.open


@pytest.mark.parametrize("offset", [5, 20])
def test_the_edges_of_the_log_belong_to_it(
    clients: FakeClients, consumer: FakeConsumer, offset: int
) -> None:
    consumer.offsets = {0: offset}
    assert starts(clients, [0]) == {0: Start(offset, True, 20, "a note")}


def test_what_is_had_file_ranges_or_not_read_any_more_need_not_be_in_the_log(
    clients: FakeClients, consumer: FakeConsumer
) -> None:
    """The log is [5, 20]: retention has taken what files still have, or what a run has read to its
    end.
    """
    consumer.offsets = {0: 3}
    wanted = {0: Start(3, True, 20, "a note")}
    assert starts(clients, [0], file_ranges={0: range(0, 6)}) == wanted
    assert starts(clients, [0], ends={0: 3}) == wanted
    for not_enough in ({"file_ranges": {0: range(4, 6)}}, {"ends": {0: 4}}):
        with pytest.raises(SetupError, match="outside the log"):
            starts(clients, [0], **not_enough)


def test_offsets_that_cannot_be_read_are_not_taken_for_none(
    clients: FakeClients, consumer: FakeConsumer
) -> None:
    consumer.error = KafkaError(KafkaError.COORDINATOR_NOT_AVAILABLE)
    with pytest.raises(
        Unanswered,
        match=r"could not fetch the committed offsets of in \(COORDINATOR_NOT_AVAILABLE",
    ):
        starts(clients, [0])
    consumer.error = KafkaError(KafkaError.INVALID_GROUP_ID)
    with pytest.raises(
        Crash, match=r"could not fetch the committed offsets of in \(INVALID_GROUP_ID"
    ) as crash:
        starts(clients, [0])
    assert not isinstance(crash.value, Unanswered)


def log_bounds(
    clients: FakeClients,
    partitions: Iterable[int] = (0,),
    life_ms: int | None = 30 * DAY_MS,
    clock: Clock = time,
    read_before: Iterable[int] = (),
) -> dict[int, LogBounds]:
    ids: Any = SimpleNamespace(tombstone_life_ms=lambda topic: life_ms)
    log = ChangelogLog(clients, "changelog", "group", ids, clock)
    log.reader(dict.fromkeys(read_before, 0), lambda *_: None, lambda _: None, 0.0)
    return log.bounds(partitions)


@pytest.mark.parametrize(
    ("life_ms", "counted_ms"),
    [
        (None, DAY_MS),  # unknown: Kafka's default
        (2 * DAY_MS, 2 * DAY_MS),
        (365 * DAY_MS, DELETE_RETENTION_MS),
    ],
)
def test_the_horizon_is_the_first_offset_younger_than_the_tombstones_life(
    clients: FakeClients, consumer: FakeConsumer, life_ms: int | None, counted_ms: int
) -> None:
    clock = FakeClock()
    consumer.first_younger = {int(clock.now_s * 1000) - counted_ms: 11}
    assert log_bounds(clients, [0, 1], life_ms, clock, read_before=[0]) == {
        0: LogBounds(5, 20, 11),
        1: LogBounds(5, 20, 11 if life_ms else 20),
    }
    assert not consumer.open


def test_the_bounds_are_an_uncommitted_readers(clients: FakeClients) -> None:
    """A committed reader's end lies before an open transaction: a restore up to it would miss its
    rows.
    """
    log_bounds(clients)
    assert [asked.isolation for asked in clients.asked] == ["read_uncommitted"]


def test_a_log_without_a_young_record_has_its_horizon_at_the_end(clients: FakeClients) -> None:
    assert log_bounds(clients) == {0: LogBounds(5, 20, 20)}


def test_the_broker_is_asked_as_often_for_many_partitions_as_for_one(
    clients: FakeClients, consumer: FakeConsumer
) -> None:
    """Else a takeover over a slow link takes as long as its partitions are many."""
    consumer.offsets = dict.fromkeys(range(500), 7)
    assert len(starts(clients, range(500))) == 500
    assert consumer.questions == 2
    assert len(log_bounds(clients, range(500))) == 500
    assert consumer.questions == 2 + 3
    assert all_watermarks(consumer, "in", [], 60) == {}  # type: ignore[arg-type]
    assert consumer.questions == 5


def test_a_partition_without_an_answer_is_asked_for_again(
    clients: FakeClients, consumer: FakeConsumer
) -> None:
    consumer.unled, clock = 2, FakeClock()
    began_s = clock.now_s
    assert all_watermarks(consumer, "in", [0, 1], 60, clock) == {0: range(5, 20), 1: range(5, 20)}  # type: ignore[arg-type]
    assert clock.now_s - began_s == pytest.approx(0.4)
    consumer.unled = 10_000
    with pytest.raises(KafkaException) as unanswered:
        all_watermarks(consumer, "in", [0], 60, clock)  # type: ignore[arg-type]
    assert is_retriable(unanswered.value)
