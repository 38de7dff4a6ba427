"""Questions about offsets: what a group has committed, and where a log begins and ends.

All are asked by standalone consumers, which join no group.
"""

import time
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    Consumer,
    KafkaError,
    KafkaException,
    TopicPartition,
)

from worker.clock import Clock
from worker.errors import Crash, SetupError
from worker.kafka.clients import Clients
from worker.kafka.errors import NOT_LED_YET, PASSING, refusal, retry, unanswered
from worker.kafka.topics import DELETE_RETENTION_MS

# How long the broker may take to answer for committed offsets; it waits for a predecessor's
# transaction to be decided.
OFFSETS_TIMEOUT_SECONDS = 60
BROKER_TIMEOUT_SECONDS = 30


class Start(NamedTuple):
    """Where an assigned partition is read from: the group's committed offset, or the log's start
    where there is none.

    `end` is where the log ended for a committed reader, `note` what was written beside the
    committed offset.
    """

    offset: int
    committed: bool
    end: int
    note: str = ""


class LogBounds(NamedTuple):
    """Offsets of a partition: its start, its end for an uncommitted reader, and where its
    tombstones are still complete.

    From `horizon` on no tombstone is old enough to have been compacted away; it is `end` where
    every record is that old.
    """

    start: int
    end: int
    horizon: int


def committed_offsets(
    consumer: Consumer,
    topic: str,
    partitions: Iterable[int],
    timeout_seconds: float,
    clock: Clock = time,
) -> list[TopicPartition]:
    """What the consumer's group has committed, a negative offset where nothing; waits for pending
    transactions.

    Raises KafkaException where the broker does not answer. An entry may have an `error` of its own.
    """
    asked = [TopicPartition(topic, partition) for partition in partitions]
    return retry(lambda: consumer.committed(asked, timeout=timeout_seconds), clock=clock)


def committed_notes(
    consumer: Consumer,
    topic: str,
    partitions: Iterable[int],
    timeout_seconds: float,
    clock: Clock = time,
) -> dict[int, tuple[int, str]]:
    """By partition the offset that the consumer's group has committed, and what is noted beside it,
    where it has.

    Raises KafkaException where the broker does not answer.
    """
    answers = committed_offsets(consumer, topic, partitions, timeout_seconds, clock)
    return {
        answer.partition: (answer.offset, answer.metadata or "")
        for answer in answers
        if answer.offset >= 0
    }


def committed_starts(
    clients: Clients,
    group: str,
    topic: str,
    partitions: Iterable[int],
    clock: Clock = time,
    elsewhere: Mapping[int, range] = {},
    ends: Mapping[int, int] = {},
) -> dict[int, Start]:
    """By partition, where the group goes on. Waits until the transaction of the partition's
    previous owner is decided.

    `elsewhere` are offsets by partition whose records are had from somewhere else; from `ends` on
    nothing is read any more.

    Raises:
        SetupError: a committed offset lies outside the log.
        Unanswered, KafkaException: brokers do not tell.
        Crash: the broker refuses to tell the offset of a partition.
    """
    partitions = list(partitions)
    consumer = clients.standalone_consumer(group, "read_committed")
    try:
        answers = committed_offsets(consumer, topic, partitions, OFFSETS_TIMEOUT_SECONDS, clock)
        for found in answers:
            if found.error:
                why = refusal(found.error, group, topic)
                if isinstance(why, SetupError):
                    raise why
                if found.error.code() in PASSING:
                    raise unanswered(
                        f"offsets of {topic}-{found.partition} are not told", found.error
                    )
                raise Crash(f"offsets of {topic}-{found.partition}: {found.error}")
        bounds = all_watermarks(consumer, topic, partitions, OFFSETS_TIMEOUT_SECONDS, clock)
        starts = {}
        for found in answers:
            low, end = bounds[found.partition].start, bounds[found.partition].stop
            committed = found.offset >= 0
            offset = found.offset if committed else low
            had = elsewhere.get(found.partition, range(low, end))
            low, high = min(low, had.start), max(end, had.stop)
            if not low <= offset <= high and offset < ends.get(found.partition, offset + 1):
                raise SetupError(
                    f"the committed offset {offset} of {topic}-{found.partition} is outside the log [{low}, {high}]: "
                    "records were removed before they were read, or the topic was created again; "
                    "decide with `coversumm-worker reset` where to go on"
                )
            starts[found.partition] = Start(
                offset, committed, end, (committed and found.metadata) or ""
            )
        return starts
    finally:
        consumer.close()


def watermarks(
    consumer: Consumer, topic: str, partition: int, timeout_seconds: float, clock: Clock = time
) -> range:
    """From the first offset of a partition that is known to be there to its end, for the consumer's
    isolation level.

    Waits where it has no leader yet: it was created or moved just now. Raises KafkaException where
    the broker does not tell.
    """
    asked = TopicPartition(topic, partition)
    return range(
        *retry(
            lambda: consumer.get_watermark_offsets(asked, timeout=timeout_seconds),
            NOT_LED_YET,
            clock,
        )
    )


def all_watermarks(
    consumer: Consumer,
    topic: str,
    partitions: Iterable[int],
    timeout_seconds: float,
    clock: Clock = time,
) -> dict[int, range]:
    """By partition what `watermarks` returns for one: two requests to each leader, however many
    partitions it leads.
    """
    partitions = list(partitions)
    starts, ends = (
        _offsets_at(consumer, topic, partitions, special, timeout_seconds, clock)
        for special in (OFFSET_BEGINNING, OFFSET_END)
    )
    return {partition: range(starts[partition], ends[partition]) for partition in partitions}


def offsets_at(
    consumer: Consumer,
    topic: str,
    partitions: Iterable[int],
    moment_ms: int,
    timeout_seconds: float,
    clock: Clock = time,
) -> dict[int, int]:
    """By partition the first offset whose timestamp (ms since 1970) is at or past the moment, where
    there is one.

    A transaction marker or an aborted record may be there; `worker.kafka.ranges` finds the first
    record. Waits as `watermarks` does. Raises KafkaException where the broker does not tell.
    """
    # A negative moment would ask the broker for an end of the log.
    found = _offsets_at(consumer, topic, partitions, max(moment_ms, 0), timeout_seconds, clock)
    return {partition: offset for partition, offset in found.items() if offset >= 0}


def _offsets_at(
    consumer: Consumer,
    topic: str,
    partitions: Iterable[int],
    moment: int,
    timeout_seconds: float,
    clock: Clock,
) -> dict[int, int]:
    """By partition the offset at a moment in ms, -1 for none, or at an end of the log:
    OFFSET_BEGINNING, OFFSET_END.

    librdkafka passes the moment to the broker as it is, and Kafka's protocol has these two among
    its timestamps.
    """
    asked = [TopicPartition(topic, partition, moment) for partition in partitions]

    def ask() -> dict[int, int]:
        answers = consumer.offsets_for_times(asked, timeout=timeout_seconds)
        for answer in answers:
            if answer.error is not None:
                raise KafkaException(answer.error)
            if moment < 0 and answer.offset < 0:  # its leader has left it out
                raise KafkaException(KafkaError(KafkaError.OFFSET_NOT_AVAILABLE))
        return {answer.partition: answer.offset for answer in answers}

    return retry(ask, NOT_LED_YET, clock) if asked else {}


def log_bounds(
    clients: Clients,
    group: str,
    topic: str,
    partitions: Iterable[int],
    life_ms: int | None,
    clock: Clock = time,
) -> dict[int, LogBounds]:
    """By partition, the bounds of a compacted topic now.

    Args:
        clients: make the consumer.
        group: under whose name it asks.
        topic: which one.
        partitions: of the topic.
        life_ms: how long it keeps tombstones; None where the broker does not tell. At most
            `DELETE_RETENTION_MS` is counted on.
        clock: its `time` says how old a tombstone is.

    Raises KafkaException where the broker does not answer.
    """
    partitions = list(partitions)
    consumer = clients.standalone_consumer(group, "read_uncommitted")
    try:
        # What holds the horizon may be a marker: it has the clock of the broker, which tombstones
        # are removed by.
        horizon_ms = int(clock.time() * 1000) - min(
            life_ms or DELETE_RETENTION_MS, DELETE_RETENTION_MS
        )
        horizons = offsets_at(
            consumer, topic, partitions, horizon_ms, BROKER_TIMEOUT_SECONDS, clock
        )
        bounds = all_watermarks(consumer, topic, partitions, BROKER_TIMEOUT_SECONDS, clock)
        return {
            p: LogBounds(one.start, one.stop, horizons.get(p, one.stop))
            for p, one in bounds.items()
        }
    finally:
        consumer.close()
