"""How pauses are read from what brokers wrote down; no Kafka is needed to look at it."""

from __future__ import annotations

from tests.harness.pauses import Pause, longest, pauses
from tests.harness.recovered import Commit
from tests.harness.topics import Message


def record(offset: int, at_ms: int, partition: int = 0) -> Message:
    return Message("in", partition, offset, at_ms, b"k", b"v", ())


def commit(offset: int, at_ms: int, partition: int = 0) -> Commit:
    return Commit(partition, offset, False, at_ms)


STEADY = [record(number, 100 * number) for number in range(100)]


def test_under_a_steady_load_it_is_the_time_between_commits() -> None:
    found = pauses(STEADY, [commit(5, 600), commit(20, 2100), commit(90, 9100)])
    assert found == [Pause(0, 0, 600), Pause(0, 600, 2100), Pause(0, 2100, 9100)]
    assert longest(found) == {0: 7.0}


def test_a_partition_without_records_does_not_pause() -> None:
    """Nothing came between 100 and 5000: the pause begins with what came then."""
    found = pauses(
        [record(0, 0), record(1, 100), record(2, 5000)], [commit(2, 200), commit(3, 5300)]
    )
    assert found[1] == Pause(0, 5000, 5300)


def test_a_commit_that_goes_no_further_ends_no_pause() -> None:
    found = pauses(STEADY, [commit(5, 600), commit(5, 3000), commit(3, 4000), commit(40, 5000)])
    assert found[1:] == [Pause(0, 600, 5000)]


def test_offsets_may_have_gaps() -> None:
    """Transactional producers leave some: the record behind the committed offset is the next one
    that there is.
    """
    found = pauses([record(0, 0), record(4, 1000)], [commit(2, 100), commit(5, 1700)])
    assert found[1] == Pause(0, 1000, 1700)


def test_partitions_are_apart_and_so_are_times() -> None:
    records = [*STEADY, *(record(number, 100 * number, 1) for number in range(100))]
    found = pauses(
        records, [commit(10, 1000), commit(50, 5000), commit(60, 6000, 1), commit(90, 9000)]
    )
    assert longest(found) == {0: 4.0, 1: 6.0}
    assert longest(found, 6500, 9500) == {0: 4.0}
    assert longest(found, 0, 900) == {0: 1.0, 1: 6.0}
