"""The first record at or past a time, by partition.

A broker's index by time counts transaction markers, which have the broker's clock, and aborted
records. Its answer is a lower bound: no record below it is that late. A committed reader finds the
record from there.
"""

import logging
import time
from collections.abc import Iterable, Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from worker.clock import Clock
from worker.errors import SetupError
from worker.kafka.offsets import offsets_at, watermarks

log = logging.getLogger(__name__)

TIMEOUT_SECONDS = 30.0
STALLED_SECONDS = 30.0
"""Seconds without any message before the reader asks for the ends of what is decided. At the second
time in a row at which all of a partition is decided it counts as unreadable.
"""
MESSAGES_AT_ONCE = 1000
ANY_TIME = -1
"""Earlier than every timestamp: a record without one has this."""


def first_records_at(
    asker: Consumer,
    reader: Consumer,
    topic: str,
    bounds: Mapping[int, range],
    time_ms: int,
    clock: Clock = time,
) -> dict[int, int]:
    """By partition the offset of the first committed record whose timestamp (ms since 1970) is at
    or past a time.

    Where there is none it is the partition's end. Waits for open transactions that such a record
    may be in.

    Args:
        asker: asks for the lower bounds; it sees as far as the bounds go.
        reader: a committed reader with the options `READ_TO_END`; it has no partition assigned
            afterwards.
        topic: which one.
        bounds: by partition its start and its end.
        time_ms: the time.
        clock: measures how long nothing comes.

    Raises:
        SetupError: retention removed records before they were read, or nothing comes.
        KafkaException: the broker does not answer.
    """
    lower = offsets_at(asker, topic, bounds, time_ms, TIMEOUT_SECONDS, clock)
    spans = {p: range(min(lower.get(p, one.stop), one.stop), one.stop) for p, one in bounds.items()}
    return first_records(reader, topic, spans, time_ms, clock)


def first_records(
    reader: Consumer,
    topic: str,
    spans: Mapping[int, range],
    time_ms: int = ANY_TIME,
    clock: Clock = time,
) -> dict[int, int]:
    """The same within these offsets, without a lower bound."""
    search = _Search(topic, spans, time_ms)
    if not search.missing:
        return search.found
    reader.assign([TopicPartition(topic, p, spans[p].start) for p in search.missing])
    moved_at = clock.monotonic()
    decided: set[int] = set()
    while search.missing:
        messages = reader.consume(MESSAGES_AT_ONCE, 0.1)
        if done := search.take(messages):
            reader.incremental_unassign([TopicPartition(topic, p) for p in done])
        if messages:
            moved_at, decided = clock.monotonic(), set()
        elif clock.monotonic() - moved_at > STALLED_SECONDS:
            before, decided = decided, _decided(reader, topic, search.missing, clock)
            if stalled := before & decided:
                raise SetupError(
                    f"{topic}-{min(stalled)} was not read to offset {spans[min(stalled)].stop}: nothing came for "
                    f"{2 * STALLED_SECONDS:g} s; look at the brokers"
                )
            moved_at = clock.monotonic()
    return search.found


class _Search:
    """What is found of the partitions of a topic, and which are still searched."""

    def __init__(self, topic: str, spans: Mapping[int, range], time_ms: int) -> None:
        self._topic = topic
        self._time_ms = time_ms
        self.found = {p: span.stop for p, span in spans.items() if not span}
        self.missing = {p: span.stop for p, span in spans.items() if span}
        self._waiting: set[int] = set()

    def take(self, messages: Iterable[Any]) -> list[int]:
        """The partitions whose search ends with these messages."""
        done = []
        for message in messages:
            partition = message.partition()
            if partition not in self.missing:
                continue  # fetched before its search ended
            is_record = self._is_record(message)
            if message.offset() >= self.missing[partition]:
                self.found[partition] = self.missing.pop(partition)
            elif is_record and message.timestamp()[1] >= self._time_ms:
                self.found[partition] = message.offset()
                del self.missing[partition]
            else:
                if not is_record:
                    self._wait(partition, message.offset())
                continue
            done.append(partition)
        return done

    def _is_record(self, message: Any) -> bool:
        """False for the end of what is decided. Raises what else the broker says."""
        error = message.error()
        if error is None or error.code() == KafkaError._PARTITION_EOF:
            return error is None
        if error.code() == KafkaError._AUTO_OFFSET_RESET:
            raise SetupError(
                f"{self._topic}-{message.partition()}: retention removed records while they were searched for a time: "
                "give the same command again"
            )
        raise KafkaException(error)

    def _wait(self, partition: int, stable: int) -> None:
        """Say, once a partition, that an open transaction lies before the end."""
        if partition not in self._waiting:
            self._waiting.add(partition)
            log.warning(
                "%s-%d: an open transaction of a producer begins at offset %d, before the end at %d: waiting until it is decided",
                self._topic,
                partition,
                stable,
                self.missing[partition],
            )


def _decided(reader: Consumer, topic: str, ends: Mapping[int, int], clock: Clock) -> set[int]:
    """The partitions without an open transaction before these ends."""
    return {
        p
        for p, end in ends.items()
        if watermarks(reader, topic, p, TIMEOUT_SECONDS, clock).stop >= end
    }
