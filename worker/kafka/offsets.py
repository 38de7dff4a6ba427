"""Offsets: what a group has committed, where a log begins and ends, and offsets by time.

Only consumers that join no group ask for them.
"""

import logging
import time
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, NamedTuple

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
from worker.kafka.errors import LEADER_PATIENCE, RETRIABLE, refusal, retry, unanswered

log = logging.getLogger(__name__)

TAKEOVER_SECONDS = 60  # seconds for each answer at a takeover, which waits for a transaction
TIMEOUT_SECONDS = 30  # seconds for any other answer of a broker
STALLED_SECONDS = 30.0
"""Seconds without a message before a search by time asks where the decided records end.

A partition whose records are all decided twice in a row counts as unreadable.
"""
MESSAGES_AT_ONCE = 1000
ANY_TIME = -1  # the timestamp of a record without one: no time is earlier
CUT_SHORT_SECONDS = 45.0
"""Seconds for which a log may end below a planned end.

A new leader knows the end of its log once its followers have fetched from it, or were removed from
the in-sync replicas (30 s).
"""


class CommittedOffset(NamedTuple):
    """The offset that a group has committed for a partition, and the note beside it."""

    offset: int
    note: str = ""


def committed_offsets(
    consumer: Consumer,
    topic: str,
    partitions: Iterable[int],
    timeout_seconds: float = TIMEOUT_SECONDS,
    clock: Clock = time,
) -> dict[int, CommittedOffset]:
    """Committed offsets of the consumer's group by partition; partitions without one are absent.

    A committed reader waits for transactions in flight; an uncommitted one gets the offsets before
    them. Raises KafkaException if the broker does not answer for a partition.
    """
    asked = [TopicPartition(topic, partition) for partition in partitions]
    answers = retry(lambda: consumer.committed(asked, timeout=timeout_seconds), clock=clock)
    for answer in answers:
        if answer.error:
            raise KafkaException(answer.error)
    return {
        answer.partition: CommittedOffset(answer.offset, answer.metadata or "")
        for answer in answers
        if answer.offset >= 0
    }


SKIPPED = "skipped-from "
"""Begins the note of an offset that `skip` has committed; the offset before the skips follows."""
OF_TOPICS = "topics"
"""Begins the note of a bridge's offsets. A bridge has no state."""
NOTHING = -1  # in that note: the group had committed nothing


def skip_note(before: CommittedOffset | None) -> str:
    """The note of the offset after a skipped record."""
    offset, note = before or (NOTHING, "")
    return note if note.startswith((SKIPPED, OF_TOPICS)) else f"{SKIPPED}{offset}"


class Start(NamedTuple):
    """Where to read a partition from: the committed offset, or the log's start without one."""

    offset: int
    committed: bool
    end: int  # of the log for a committed reader
    note: str = ""  # beside the committed offset

    @property
    def applied(self) -> int:
        """The least offset that the state must have applied: all but skipped records."""
        skipped = self.note.startswith(SKIPPED)
        return int(self.note.removeprefix(SKIPPED)) if skipped else self.offset


@dataclass(eq=False)
class InputLog:
    """The input topic as the worker's group reads it."""

    clients: Clients
    topic: str
    group: str
    clock: Clock = time
    first: Mapping[int, int] = field(default_factory=dict)
    """By partition the offset to begin at without a committed one; by default the log's start."""
    file_ranges: Mapping[int, range] = field(default_factory=dict)
    """By partition the offsets whose records come from files."""
    ends: Mapping[int, int] = field(default_factory=dict)  # by partition the first offset not read

    def starts(self, partitions: Iterable[int]) -> dict[int, Start]:
        """The offset by partition where the group resumes, once its previous owner's transaction is
        decided.

        Raises:
            SetupError: an offset is outside the log, or a permission is missing.
            Unanswered, KafkaException: the brokers do not answer.
            Crash: the broker refuses to return a committed offset.
        """
        partitions = list(partitions)
        with closing(self.clients.standalone_consumer(self.group, "read_committed")) as consumer:
            committed = self._committed(consumer, partitions)
            bounds = all_watermarks(consumer, self.topic, partitions, TAKEOVER_SECONDS, self.clock)
        return {p: self._start(p, bounds[p], committed.get(p)) for p in partitions}

    def _committed(self, consumer: Consumer, partitions: list[int]) -> dict[int, CommittedOffset]:
        try:
            return committed_offsets(consumer, self.topic, partitions, TAKEOVER_SECONDS, self.clock)
        except KafkaException as cause:
            error = cause.args[0]
            refused = refusal(error, self.group, self.topic)
            if isinstance(refused, SetupError):
                raise refused from cause
            what = f"could not fetch the committed offsets of {self.topic}"
            if error.code() in RETRIABLE:
                raise unanswered(what, error) from cause
            raise Crash(f"{what} ({error.name()}: {error.str()})") from cause

    def _start(self, partition: int, log: range, committed: CommittedOffset | None) -> Start:
        low, end = log.start, log.stop
        offset, note = committed or (low, "")
        in_files = self.file_ranges.get(partition, log)
        low, high = min(low, in_files.start), max(end, in_files.stop)
        if not low <= offset <= high and offset < self.ends.get(partition, offset + 1):
            raise SetupError(
                f"the committed offset {offset} of {self.topic}-{partition} is outside the log "
                f"[{low}, {high}]: records were removed before they were read, or the topic was "
                "created again; restore them into the topic from another copy before you start over"
            )
        if committed is None:
            offset = self._first_offset(partition, offset)
        return Start(offset, committed is not None, end, note)

    def _first_offset(self, partition: int, log_start: int) -> int:
        first = self.first.get(partition, log_start)
        if first < log_start and first not in self.file_ranges.get(partition, ()):
            raise SetupError(
                f"{self.topic}-{partition} is to be read from offset {first}, but its log begins "
                f"at {log_start} now: the records between were removed before they were read"
            )
        return first


def watermarks(
    consumer: Consumer, topic: str, partition: int, timeout_seconds: float, clock: Clock = time
) -> range:
    """The first offset of an existing partition, and its end for the consumer's isolation level.

    Waits for a leader if the partition was just created or moved. Raises KafkaException if the
    broker does not answer.
    """
    asked = TopicPartition(topic, partition)
    return range(
        *retry(
            lambda: consumer.get_watermark_offsets(asked, timeout=timeout_seconds),
            LEADER_PATIENCE,
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
    """`watermarks` by partition, with two requests to each leader, however many it leads."""
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
    time_ms: int,
    timeout_seconds: float,
    clock: Clock = time,
) -> dict[int, int]:
    """The first offset by partition whose timestamp is not before `time_ms`, if any.

    A transaction marker or an aborted record may be there, with the broker's clock;
    `first_records_at` finds the first record. Waits as `watermarks` does. Raises KafkaException if
    the broker does not answer.
    """
    # A negative time would ask the broker for an end of the log.
    found = _offsets_at(consumer, topic, partitions, max(time_ms, 0), timeout_seconds, clock)
    return {partition: offset for partition, offset in found.items() if offset >= 0}


def _offsets_at(
    consumer: Consumer,
    topic: str,
    partitions: Iterable[int],
    time_ms: int,
    timeout_seconds: float,
    clock: Clock,
) -> dict[int, int]:
    """The offset at a time by partition, -1 for none; OFFSET_BEGINNING and OFFSET_END are times.

    librdkafka passes the time to the broker, and Kafka's protocol has these two among its
    timestamps.
    """
    asked = [TopicPartition(topic, partition, time_ms) for partition in partitions]

    def ask() -> dict[int, int]:
        answers = consumer.offsets_for_times(asked, timeout=timeout_seconds)
        for answer in answers:
            if answer.error is not None:
                raise KafkaException(answer.error)
            if time_ms < 0 and answer.offset < 0:  # the leader did not answer for it
                raise KafkaException(KafkaError(KafkaError.OFFSET_NOT_AVAILABLE))
        return {answer.partition: answer.offset for answer in answers}

    return retry(ask, LEADER_PATIENCE, clock) if asked else {}


def first_records_at(
    asker: Consumer, reader: Consumer, topic: str, bounds: Mapping[int, range], time_ms: int
) -> dict[int, int]:
    """The offset by partition of the first committed record at or after a time, else the end.

    The broker's index by time counts transaction markers and aborted records, so its answer is a
    lower bound; a committed reader with the options `READ_TO_END` finds the record from there. It
    ends without partitions. Waits for open transactions that may contain such a record. `asker`
    fetches the lower bounds; it sees as far as the bounds go.

    Raises SetupError if retention removed records before they were read, or none arrive, and
    KafkaException if the broker does not answer.
    """
    lower = offsets_at(asker, topic, bounds, time_ms, TIMEOUT_SECONDS)
    spans = {
        p: range(min(lower.get(p, bound.stop), bound.stop), bound.stop)
        for p, bound in bounds.items()
    }
    return first_records(reader, topic, spans, time_ms)


def first_records(
    reader: Consumer,
    topic: str,
    spans: Mapping[int, range],
    time_ms: int = ANY_TIME,
    clock: Clock = time,
) -> dict[int, int]:
    """`first_records_at` within these offsets, without a lower bound."""
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
            before, decided = decided, search.decided(reader, clock)
            if stalled := before & decided:
                raise SetupError(
                    f"{topic}-{min(stalled)} was not read to offset {spans[min(stalled)].stop}: "
                    f"no message for {2 * STALLED_SECONDS:g} s; check the brokers"
                )
            moved_at = clock.monotonic()
    return search.found


class _Search:
    """The offsets found in the partitions of a topic, and the ends of those still searched."""

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
        """False for the end of the decided records. Raises any other error."""
        error = message.error()
        if error is None or error.code() == KafkaError._PARTITION_EOF:
            return error is None
        if error.code() == KafkaError._AUTO_OFFSET_RESET:
            raise SetupError(
                f"{self._topic}-{message.partition()}: retention removed records during the search "
                "by time: give the same command again"
            )
        raise KafkaException(error)

    def decided(self, reader: Consumer, clock: Clock) -> set[int]:
        """The partitions without an open transaction before their end. Logs those that have one: a
        search that begins within it may not learn that it is at the end of the decided records.
        """
        found = set()
        for partition, end in self.missing.items():
            stable = watermarks(reader, self._topic, partition, TIMEOUT_SECONDS, clock).stop
            if stable >= end:
                found.add(partition)
            else:
                self._wait(partition, stable)
        return found

    def _wait(self, partition: int, stable: int) -> None:
        if partition not in self._waiting:
            self._waiting.add(partition)
            log.warning(
                "%s-%d: an open transaction of a producer begins at offset %d, before the end at "
                "%d: waiting until it is decided",
                self._topic,
                partition,
                stable,
                self.missing[partition],
            )


def cut_short(topic: str, partition: int, found: int, end: int) -> SetupError:
    """The error for a log that ends below its planned end."""
    return SetupError(
        f"{topic}-{partition} ends at offset {found}, and the plan of the replay at {end}: the "
        "topic was deleted and created again, or a broker lost records; start over with "
        "`coversumm-worker reset`"
    )
