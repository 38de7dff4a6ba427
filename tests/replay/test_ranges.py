"""From where to where a replay reads, over a consumer whose log a test gives (a real broker's:
tests/real_kafka).
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from tests.harness.fake_clients import FakeClients, FakeClock
from worker.errors import SetupError
from worker.kafka.offsets import first_records
from worker.replay.ranges import Range, _of_log, check_ends, find_ranges


class Unseen(int):
    """The timestamp of a transaction marker or an aborted record: the index by time has it, no
    reader is shown it.
    """


class FakeConsumer:
    """Partitions with the timestamps of their records, from an offset on."""

    def __init__(self, *logs: tuple[int, list[int]]) -> None:
        self.logs = logs
        self.stable = {
            partition: start + len(times) for partition, (start, times) in enumerate(logs)
        }
        self.failure: KafkaException | None = None
        self.refusal: int | None = None  # of a fetch
        self.open = True
        self.when_idle: list[Callable[[], None]] = []  # what happens while nothing comes
        self._positions: dict[int, int] = {}
        self._told: set[tuple[int, int]] = set()

    def get_watermark_offsets(self, asked: Any, timeout: float) -> tuple[int, int]:
        if self.failure is not None:
            raise self.failure
        start, times = self.logs[asked.partition]
        return start, start + len(times)

    def offsets_for_times(self, asked: list[Any], timeout: float) -> list[Any]:
        """`asked.offset` is a time; -1 where no record is that late, as librdkafka answers."""
        return [
            TopicPartition(tp.topic, tp.partition, self._at(tp.partition, tp.offset))
            for tp in asked
        ]

    def _at(self, partition: int, time_ms: int) -> int:
        start, times = self.logs[partition]
        return next((start + i for i, time in enumerate(times) if time >= time_ms), -1)

    def assign(self, tps: list[Any]) -> None:
        self._positions = {tp.partition: tp.offset for tp in tps}
        self._told = set()

    def incremental_unassign(self, tps: list[Any]) -> None:
        for tp in tps:
            del self._positions[tp.partition]

    def consume(self, count: int, timeout: float) -> list[Any]:
        """One step of each partition; the end of what is decided comes once."""
        if self.refusal is not None:
            return [_message(partition, -1, error=self.refusal) for partition in self._positions]
        found = []
        for partition, position in self._positions.items():
            start, times = self.logs[partition]
            stable = self.stable[partition]
            seen = (o for o in range(position, stable) if not isinstance(times[o - start], Unseen))
            offset = next(seen, None)
            if offset is not None:
                found.append(_message(partition, offset, times[offset - start]))
                self._positions[partition] = offset + 1
            elif (partition, stable) not in self._told:
                self._told.add((partition, stable))
                found.append(_message(partition, stable, error=KafkaError._PARTITION_EOF))
        if not found and self.when_idle:
            self.when_idle.pop(0)()
        return found

    def close(self) -> None:
        self.open = False


def _message(partition: int, offset: int, time_ms: int = -1, error: int | None = None) -> Any:
    return SimpleNamespace(
        partition=lambda: partition,
        offset=lambda: offset,
        timestamp=lambda: (1, time_ms),
        error=lambda: None if error is None else KafkaError(error),
    )


LOGS = ((0, [10, 20, 30]), (5, [10, 15, 40, 20]), (0, []), (7, []))


def ranges(consumer: FakeConsumer, **asked: Any) -> dict[int, tuple[int, int]]:
    clients = FakeClients(consumer=lambda: consumer)
    found = find_ranges(clients, "group", "in", len(consumer.logs), **asked)
    assert not consumer.open
    # As an uncommitted reader sees it: what is open below the end will be decided, and is waited
    # for.
    assert [(client.group, client.isolation) for client in clients.asked] == [
        ("group", "read_uncommitted"),
        ("group", "read_committed"),  # of a time only committed records count
    ]
    for partition, span in found.items():
        assert span.log_start == consumer.logs[partition][0]
        assert span.size == span.end - span.first
    return {partition: (span.first, span.end) for partition, span in found.items()}


def test_all_of_each_partition_as_it_is_now() -> None:
    assert ranges(FakeConsumer(*LOGS)) == {0: (0, 3), 1: (5, 9), 2: (0, 0), 3: (7, 7)}


@pytest.mark.parametrize(
    ("until", "ends"),
    [(11, (1, 6)), (20, (1, 7)), (21, (2, 7)), (40, (3, 7)), (41, (3, 9)), (10, (0, None))],
)
def test_a_time_ends_at_the_first_record_at_or_past_it(
    until: int, ends: tuple[int, int | None]
) -> None:
    """A prefix: what comes behind that record is left out, though its time may be earlier."""
    consumer = FakeConsumer(LOGS[0], (0, [0] * 5 + [10, 15, 40, 20]))
    found = ranges(consumer, until_ms=until)
    assert found[0] == (0, ends[0])
    assert found[1] == (0, ends[1] if ends[1] is not None else 5)


@pytest.mark.parametrize(
    ("since", "firsts"), [(10, (0, 5)), (15, (1, 6)), (30, (2, 7)), (41, (3, 9))]
)
def test_a_time_begins_at_the_first_record_at_or_past_it(
    since: int, firsts: tuple[int, int]
) -> None:
    found = ranges(FakeConsumer(*LOGS), since_ms=since)
    assert (found[0][0], found[1][0]) == firsts
    assert (found[2], found[3]) == ((0, 0), (7, 7))


@pytest.mark.parametrize("log", [(5, [10, 20]), (5, [])])
def test_an_end_that_retention_has_removed_is_refused_by_what_is_gone(
    log: tuple[int, list[int]],
) -> None:
    with pytest.raises(
        SetupError,
        match=r"in-1: everything before 1970-01-01T00:00:00.010Z is gone.* 0 to 4: .*--partitions",
    ):
        ranges(FakeConsumer(LOGS[0], log), until_ms=10)
    assert ranges(FakeConsumer(LOGS[0], log), until_ms=10, only={0})[1] == (5, 5)


@pytest.mark.parametrize("log", [(5, [10, 20]), (5, [])])
def test_a_log_may_begin_after_the_end_if_files_have_the_records_before(
    log: tuple[int, list[int]],
) -> None:
    """Files replace what retention has removed."""
    consumer = FakeConsumer(LOGS[0], log)
    assert ranges(consumer, until_ms=10, file_ranges={1: range(5)}) == {0: (0, 0), 1: (5, 5)}
    with pytest.raises(SetupError, match="in-1: everything before"):
        ranges(consumer, until_ms=10, file_ranges={0: range(5)})


def test_a_broker_that_does_not_tell_is_one_line() -> None:
    consumer = FakeConsumer(*LOGS)
    consumer.failure = KafkaException(KafkaError(KafkaError._TRANSPORT))
    with pytest.raises(SetupError, match=r"could not fetch offsets of in \(_TRANSPORT"):
        ranges(consumer)
    assert not consumer.open


MARKED = (0, [10, 20, Unseen(1000), 30, Unseen(1000), 40, 50, Unseen(90), Unseen(1000)])
"""Records in transactions, the last but one of them aborted; the markers have the clock of the
broker.
"""


@pytest.mark.parametrize(
    ("until", "end"), [(5, 0), (15, 1), (25, 3), (35, 5), (45, 6), (60, 9), (95, 9), (2000, 9)]
)
def test_a_time_is_that_of_a_record_and_not_of_a_marker(until: int, end: int) -> None:
    assert ranges(FakeConsumer(LOGS[0], MARKED), until_ms=until)[1] == (0, end)
    assert ranges(FakeConsumer(LOGS[0], MARKED), since_ms=until)[1] == (end, 9)


def test_a_time_in_an_open_transaction_is_known_once_that_is_decided(
    caplog: pytest.LogCaptureFixture,
) -> None:
    consumer = FakeConsumer((0, [10, Unseen(20), 30, Unseen(1000)]))
    consumer.stable[0] = 1
    consumer.when_idle = [lambda: None, lambda: consumer.stable.update({0: 4})]
    assert ranges(consumer, until_ms=15) == {0: (0, 2)}
    assert (
        caplog.text.count(
            "in-0: an open transaction of a producer begins at offset 1, before the end at 4"
        )
        == 1
    )


def test_what_is_left_of_a_log_may_be_markers_alone() -> None:
    consumer = FakeConsumer((5, [Unseen(1000), 10]))
    with pytest.raises(SetupError, match=r"in-0: everything before .* is gone.* 0 to 4"):
        ranges(consumer, until_ms=10)
    assert ranges(FakeConsumer((5, [Unseen(1000), 10])), until_ms=11) == {0: (5, 7)}


def test_records_that_retention_removes_meanwhile_are_one_line() -> None:
    consumer = FakeConsumer(*LOGS)
    consumer.refusal = KafkaError._AUTO_OFFSET_RESET
    with pytest.raises(SetupError, match="in-0: retention removed records during"):
        ranges(consumer, since_ms=10)


@pytest.mark.parametrize("is_read", [True, False])
def test_an_open_transaction_is_waited_for_and_what_is_decided_is_not(is_read: bool) -> None:
    clock, consumer = FakeClock(), FakeConsumer((0, [10, 20]))
    clock.tick_s = 10.0
    consumer.stable[0], decided_at = 1, 20

    def passes() -> None:
        if is_read and len(consumer.when_idle) == 0:
            consumer.stable[0] = 2

    consumer.when_idle = [passes] * 40
    bounds = lambda *_, **__: (0, 2 if len(consumer.when_idle) < decided_at else 1)  # noqa: E731
    consumer.get_watermark_offsets = bounds  # type: ignore[method-assign]
    asked = consumer, "in", {0: range(1, 2)}, 15, clock
    if is_read:
        decided_at = 3
        assert first_records(*asked) == {0: 1}  # type: ignore[arg-type]
        return
    with pytest.raises(SetupError, match="in-0 was not read to offset 2: no message for 60 s"):
        first_records(*asked)  # type: ignore[arg-type]
    assert 10 < len(consumer.when_idle) < decided_at


def test_an_open_transaction_is_named_though_no_event_tells_where_it_begins(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock, consumer = FakeClock(), FakeConsumer((0, [10, 20]))
    clock.tick_s = 10.0
    consumer.stable[0] = 1
    consumer.when_idle = [lambda: None] * 20 + [lambda: consumer.stable.update({0: 2})]
    consume = consumer.consume
    consumer.consume = lambda *asked: [m for m in consume(*asked) if m.error() is None]  # type: ignore[method-assign]
    consumer.get_watermark_offsets = lambda *_, **__: (0, consumer.stable[0])  # type: ignore[method-assign]
    assert first_records(consumer, "in", {0: range(1, 2)}, 15, clock) == {0: 1}  # type: ignore[arg-type]
    assert caplog.text.count("in-0: an open transaction of a producer begins at offset 1") == 1


def test_a_log_that_ends_below_the_plan_is_refused_unless_its_leader_finds_the_end() -> None:
    """A new leader may tell an older end for some seconds."""
    clock, consumer = FakeClock(), FakeConsumer(*LOGS)
    clients = FakeClients(consumer=lambda: consumer)
    check_ends(clients, "group", "in", {0: 3, 1: 9}, clock)
    started = clock.now_s
    with pytest.raises(
        SetupError, match=r"in-1 ends at offset 9, and the plan of the replay at 10: .* reset`"
    ):
        check_ends(clients, "group", "in", {0: 3, 1: 10}, clock)
    assert 30 < clock.now_s - started < 60
    ends = iter([8, 8, 9])
    consumer.get_watermark_offsets = lambda asked, timeout: (5, next(ends))  # type: ignore[method-assign]
    check_ends(clients, "group", "in", {1: 9}, clock)
    assert not consumer.open


def test_one_offset_between_the_files_and_the_log_is_a_hole() -> None:
    logs = {0: Range(5, 9, 5)}
    for files in (range(5), range(2, 5), range(7)):
        assert _of_log(logs, 0, files, "in") == logs[0]
    with pytest.raises(SetupError, match="in-0: the files end before offset 4, and the log begins"):
        _of_log(logs, 0, range(4), "in")
