"""From where to where a replay reads, over a consumer whose log a test gives (a real broker's: tests/real_kafka)."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from tests.harness.fake_clients import FakeClients
from worker.errors import SurroundingsError
from worker.kafka.ranges import Range, find_ranges


class FakeConsumer:
    """Partitions with the timestamps of their records, from an offset on."""

    def __init__(self, *logs: tuple[int, list[int]]) -> None:
        self.logs = logs
        self.failure: KafkaException | None = None
        self.open = True

    def get_watermark_offsets(self, asked: Any, timeout: float) -> tuple[int, int]:
        if self.failure is not None:
            raise self.failure
        start, times = self.logs[asked.partition]
        return start, start + len(times)

    def offsets_for_times(self, asked: list[Any], timeout: float) -> list[Any]:
        """`asked.offset` is a time; -1 where no record is that late, as librdkafka answers."""
        return [TopicPartition(tp.topic, tp.partition, self._at(tp.partition, tp.offset)) for tp in asked]

    def _at(self, partition: int, time_ms: int) -> int:
        start, times = self.logs[partition]
        return next((start + i for i, time in enumerate(times) if time >= time_ms), -1)

    def close(self) -> None:
        self.open = False


LOGS = ((0, [10, 20, 30]), (5, [10, 15, 40, 20]), (0, []), (7, []))


def ranges(consumer: FakeConsumer, **asked: Any) -> dict[int, tuple[int, int]]:
    clients = FakeClients(consumer=lambda: consumer)
    found = find_ranges(clients, "group", "in", len(consumer.logs), **asked)
    assert not consumer.open
    # As an uncommitted reader sees it: what is open below the end will be decided, and is waited for.
    assert [(one.group, one.isolation) for one in clients.asked] == [("group", "read_uncommitted")]
    for partition, one in found.items():
        assert one.log_start == consumer.logs[partition][0]
        assert one.size == one.end - one.first
    return {partition: (one.first, one.end) for partition, one in found.items()}


def test_all_of_each_partition_as_it_is_now() -> None:
    assert ranges(FakeConsumer(*LOGS)) == {0: (0, 3), 1: (5, 9), 2: (0, 0), 3: (7, 7)}


@pytest.mark.parametrize(
    ("until", "ends"),
    [(11, (1, 6)), (20, (1, 7)), (21, (2, 7)), (40, (3, 7)), (41, (3, 9)), (10, (0, None))],
)
def test_a_time_ends_at_the_first_record_at_or_past_it(until: int, ends: tuple[int, int | None]) -> None:
    """A prefix: what comes behind that record is left out, though its time may be earlier."""
    consumer = FakeConsumer(LOGS[0], (0, [0] * 5 + [10, 15, 40, 20]))
    found = ranges(consumer, until_ms=until)
    assert found[0] == (0, ends[0])
    assert found[1] == (0, ends[1] if ends[1] is not None else 5)


@pytest.mark.parametrize(("since", "firsts"), [(10, (0, 5)), (15, (1, 6)), (30, (2, 7)), (41, (3, 9))])
def test_a_time_begins_at_the_first_record_at_or_past_it(since: int, firsts: tuple[int, int]) -> None:
    found = ranges(FakeConsumer(*LOGS), since_ms=since)
    assert (found[0][0], found[1][0]) == firsts
    assert (found[2], found[3]) == ((0, 0), (7, 7))


def test_a_span_that_holds_nothing_is_empty() -> None:
    assert ranges(FakeConsumer(LOGS[0]), since_ms=25, until_ms=15) == {0: (1, 1)}


def test_partitions_that_are_left_out_have_an_empty_range() -> None:
    assert ranges(FakeConsumer(*LOGS), only={1}) == {0: (0, 0), 1: (5, 9), 2: (0, 0), 3: (7, 7)}


@pytest.mark.parametrize("log", [(5, [10, 20]), (5, [])])
def test_an_end_that_retention_has_removed_is_refused_by_what_is_gone(log: tuple[int, list[int]]) -> None:
    with pytest.raises(
        SurroundingsError,
        match=r"in-1: everything before 1970-01-01T00:00:00.010Z is gone.* 0 to 4: .*--partitions",
    ):
        ranges(FakeConsumer(LOGS[0], log), until_ms=10)
    assert ranges(FakeConsumer(LOGS[0], log), until_ms=10, only={0})[1] == (5, 5)


def test_a_broker_that_does_not_tell_is_one_line() -> None:
    consumer = FakeConsumer(*LOGS)
    consumer.failure = KafkaException(KafkaError(KafkaError._TRANSPORT))
    with pytest.raises(SurroundingsError, match=r"the offsets of in are not told \(_TRANSPORT"):
        ranges(consumer)
    assert not consumer.open


def test_a_range_that_ends_before_it_begins_has_no_size() -> None:
    assert Range(5, 3, 0).size == 0
