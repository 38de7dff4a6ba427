"""What a reader of the changelog does when nothing comes, or an error does (what it reads:
tests/real_kafka).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from tests.harness.fake_clients import FakeClients, FakeClock, fake_message
from worker.errors import Crash, Unanswered
from worker.kafka.changelog import (
    IDLE_SECONDS,
    PAUSE_SECONDS,
    STALLED_SECONDS,
    ChangelogReader,
    StaleCopy,
)

TOPIC = "changelog"
ENOUGH = 50
"""Reads after which a follower is stopped whatever it does."""
LIFE_SECONDS = 1000.0  # of a tombstone


def row(offset: int, error: KafkaError | None = None) -> Any:
    """A record of partition 0, or an error in its place."""
    return fake_message(partition=0, offset=offset, key=b"key", value=b"%d" % offset, error=error)


class FakeConsumer:
    """One of those that a reader makes one after another; `Rig` says what it reads."""

    def __init__(self, rig: Rig) -> None:
        self._rig = rig
        self.assigned: dict[int, int] = {}
        self.is_open = True

    def assign(self, partitions: list[TopicPartition]) -> None:
        self.assigned = {partition.partition: partition.offset for partition in partitions}

    def assignment(self) -> list[TopicPartition]:
        return []

    def position(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        return partitions

    def consume(self, number: int, timeout: float) -> list[Any]:
        assert self.is_open
        return self._rig.read()

    def close(self) -> None:
        self.is_open = False


class Rig:
    """A reader from offset 5 on; `reads` are what its next reads bring, and after them nothing
    does. Its bounds were fetched `since` seconds ago, in negative numbers.
    """

    def __init__(self, since: float = 0.0) -> None:
        self.clock = FakeClock()
        self.consumers: list[FakeConsumer] = []
        self.reads: list[list[Any] | BaseException] = []
        self.applied: list[tuple[int, int]] = []
        self.ended: list[int] = []
        self.progress: list[tuple[int, int]] = []
        self.at_read: Callable[[], None] = lambda: None
        self._count = 0
        clients = FakeClients(consumer=self._consumer)
        self.reader = ChangelogReader(
            clients,
            "group",
            TOPIC,
            {0: 5},
            self._apply,
            self.ended.append,
            tombstone_seconds=LIFE_SECONDS,
            since=self.clock.time() + since,
            clock=self.clock,
        )

    def _consumer(self) -> Any:
        self.consumers.append(FakeConsumer(self))
        return self.consumers[-1]

    def _apply(self, partition: int, first: int, changes: Any, last: int) -> None:
        self.applied.append((first, last))

    def read(self) -> list[Any]:
        self.clock.now_s += 1
        self._count += 1
        self.at_read()
        if self._count == ENOUGH:
            self.reader.stop()
        found = self.reads.pop(0) if self.reads else []
        if isinstance(found, BaseException):
            raise found
        return found

    def restore(self, goal: int = 9) -> int:
        return self.reader.restore({0: goal}, lambda rows, left: self.progress.append((rows, left)))


@pytest.fixture
def rig() -> Rig:
    return Rig()


# -- restore ---------------------------------------------------------------------------------------


def test_a_restore_that_stands_still_may_be_begun_again(rig: Rig) -> None:
    began_s = rig.clock.now_s
    rig.reads = [[row(5), row(6)]]
    with pytest.raises(Unanswered, match=r"restore of changelog \[0\] makes no progress"):
        rig.restore()
    # since it last moved
    assert 1 + STALLED_SECONDS < rig.clock.now_s - began_s <= 3 + STALLED_SECONDS
    assert rig.applied == [(5, 6)]
    assert not rig.consumers[0].is_open


def test_only_a_restore_that_moves_tells_of_progress(rig: Rig) -> None:
    """The watchdog must not take standing still for work."""
    rig.reads = [[], [row(5)], [], [], [row(6), row(8)]]
    assert rig.restore() == 3
    assert rig.progress == [(1, 3), (3, 0)]


def test_a_restore_that_is_called_again_continues_where_it_was(rig: Rig) -> None:
    rig.reads = [[row(5), row(6), row(9)], [row(11)]]
    assert rig.restore(9) == 3
    assert rig.restore(10) == 0  # it is there already
    assert rig.restore(12) == 1
    assert rig.applied == [(5, 9), (10, 11)]
    assert [consumer.assigned for consumer in rig.consumers] == [{0: 5}, {0: 10}]
    assert not any(consumer.is_open for consumer in rig.consumers)
    assert (rig.reader.rows_read, rig.progress) == (4, [(3, 0), (4, 0)])


def test_a_restore_that_is_stopped_is_known_to_be_incomplete(rig: Rig) -> None:
    rig.at_read = rig.reader.stop
    rig.restore()
    assert rig.reader.stopped


# -- the standby -----------------------------------------------------------------------------------


def test_a_standby_that_hears_nothing_for_long_continues_with_a_new_consumer(rig: Rig) -> None:
    """A broker's absence may have confused the one before permanently."""
    rig.clock.tick_s = IDLE_SECONDS / 4
    rig.reads = [[row(5), row(6)]]
    rig.reader.follow()
    assert len(rig.consumers) > 2
    assert [consumer.assigned for consumer in rig.consumers[:2]] == [{0: 5}, {0: 7}]  # where it was
    assert not any(consumer.is_open for consumer in rig.consumers)


def test_a_standby_that_hears_now_and_then_keeps_its_consumer(rig: Rig) -> None:
    rig.clock.tick_s = IDLE_SECONDS / 10
    rig.reads = [[row(offset)] for offset in range(5, 5 + ENOUGH)]
    rig.reader.follow()
    assert len(rig.consumers) == 1


def test_rows_after_the_logs_end_begin_a_transaction_that_may_be_cut(rig: Rig) -> None:
    end = KafkaError(KafkaError._PARTITION_EOF)
    rig.reads = [[row(5), row(7, end)], [row(8)], [row(9), row(11, end), row(12)], [row(14, end)]]
    ends: list[int] = []
    rig.at_read = lambda: ends.append(len(rig.ended))
    rig.reader.follow()
    assert ends[:6] == [0, 1, 1, 1, 2, 2]


def test_rows_after_a_break_as_long_as_a_tombstones_life_are_refused(rig: Rig) -> None:
    """Compaction may have removed tombstones of rows that were read before the break."""
    end = KafkaError(KafkaError._PARTITION_EOF)
    rig.reads = [[row(5), row(6, end)], [], [row(6)], [row(7)]]
    breaks = [0.0, LIFE_SECONDS - 5, 0.0, 5.0]

    def wait() -> None:
        rig.clock.now_s += breaks.pop(0)

    rig.at_read = wait
    with pytest.raises(StaleCopy) as raised:
        rig.reader.follow()
    assert raised.value.partition == 0
    assert rig.applied == [(5, 5), (6, 6)]


def test_the_life_of_tombstones_counts_from_when_the_bounds_were_fetched() -> None:
    rig = Rig(since=-LIFE_SECONDS)
    rig.reads = [[row(5)]]
    with pytest.raises(StaleCopy):
        rig.restore()
    assert rig.applied == []


@pytest.mark.parametrize("raised", [True, False])
def test_a_standby_follows_again_after_an_error_that_passes(rig: Rig, raised: bool) -> None:
    error = KafkaError(KafkaError.NOT_LEADER_FOR_PARTITION)
    rig.reads = [[row(5)], KafkaException(error) if raised else [row(0, error)], [row(6)]]
    began_s = rig.clock.now_s
    rig.reader.follow()
    assert rig.applied == [(5, 5), (6, 6)]
    assert [consumer.assigned for consumer in rig.consumers] == [{0: 5}, {0: 6}]
    assert rig.clock.now_s - began_s >= ENOUGH + PAUSE_SECONDS  # and not at once


@pytest.mark.parametrize(
    "failure",
    [RuntimeError("disk full"), Crash("not a row"), KafkaException(KafkaError(KafkaError._FENCED))],
)
def test_a_standby_ends_with_any_other_error(rig: Rig, failure: Exception) -> None:
    rig.reads = [failure]
    with pytest.raises(type(failure)):
        rig.reader.follow()
    assert [consumer.is_open for consumer in rig.consumers] == [False]


def test_a_standby_that_is_stopped_makes_no_more_consumers(rig: Rig) -> None:
    rig.reads = [KafkaException(KafkaError(KafkaError._TRANSPORT))]
    rig.at_read = rig.reader.stop
    rig.reader.follow()
    assert [consumer.is_open for consumer in rig.consumers] == [False]
