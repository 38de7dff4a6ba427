"""Reads a changelog: to restore local state at a takeover, and as a standby that follows the owner.

Both apply committed rows with their offset in one atomic batch. librdkafka reads several times
faster than Faust's recovery, which also ignores errors and applies aborted rows.

A restore ends once its *position* passes the high watermark that an uncommitted reader saw at its
start: by then every transaction that was open below it is decided. It may read beyond that mark and
end within a later transaction. To get complete transactions, `worker.stream.takeover` asks for the
mark again until nothing more arrives. A standby never ends; it gets a new consumer after a long
silence, because an absent broker may have confused the old one permanently.

Compaction removes a tombstone some time after the row that it deletes. A reader that takes longer
than that from one end of the log to the next (a suspended machine, a clock that was wrong) may have
applied the row without ever seeing its tombstone: `StaleCopy`.
"""

import logging
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from confluent_kafka import OFFSET_INVALID, Consumer, KafkaError, TopicPartition

from worker.clock import Clock
from worker.errors import Crash, Unanswered
from worker.kafka.clients import READ_TO_END, Clients, Isolation
from worker.kafka.errors import is_retriable, refusal
from worker.kafka.offsets import TIMEOUT_SECONDS, InputLog, all_watermarks, offsets_at
from worker.kafka.topic_ids import TopicIds
from worker.kafka.topics import DELETE_RETENTION_MS
from worker.state import Changes

log = logging.getLogger(__name__)

# apply(partition, expected predecessor offset, changes in order, last offset)
Apply = Callable[[int, int, Changes, int], None]
# at_end(partition): the applied rows reach the log's end, so no transaction is cut
AtEnd = Callable[[int], None]
ROWS_PER_BATCH = 2_000
STALLED_SECONDS = 20.0  # seconds without progress before a restore starts a new consumer
IDLE_SECONDS = 60.0  # seconds without a row before a standby starts a new consumer
PAUSE_SECONDS = 1.0
UNKNOWN_LIFE_MS = 24 * 3600 * 1000  # Kafka's default of delete.retention.ms
UNKNOWN_LIFE = (
    "this client may not read delete.retention.ms of the changelog {0}, so each start restores all "
    "of its state, lest something deleted returns: allow DESCRIBE_CONFIGS on the topic; "
    "`coversumm-worker config --check` prints the command"
)
LEAST_READ_SECONDS = 10.0
"""Seconds that a reader always has: with a shorter life of tombstones no restore would end.

Kafka removes a tombstone only after two compactions of its partition.
"""


class StaleCopy(Unanswered):
    """A partition's rows may lack tombstones that compaction removed: build the copy again."""

    def __init__(self, topic: str, partition: int) -> None:
        super().__init__(
            f"{topic}-{partition} was not read to its end within the life of a tombstone "
            "(delete.retention.ms): its local copy is rebuilt"
        )
        self.partition = partition


@dataclass(eq=False)
class ChangelogReader:
    """Applies the committed rows of some changelog partitions. Its consumer joins no group.

    `restore` and `follow` raise StaleCopy if a partition's end is not reached within
    `tombstone_seconds`.
    """

    clients: Clients
    group: str
    topic: str
    starts: Mapping[int, int]  # by partition the first offset to apply
    apply: Apply
    at_end: AtEnd
    tombstone_seconds: float = DELETE_RETENTION_MS / 1000
    since: float | None = None  # when `starts` were found to lack no tombstone, by default now
    clock: Clock = time

    def __post_init__(self) -> None:
        self._next = dict(self.starts)
        # By partition: when its copy last lacked no tombstone. Compaction uses the time of day.
        since = self.clock.time() if self.since is None else self.since
        self._complete_at = dict.fromkeys(self.starts, since)
        self._stop = threading.Event()
        self.rows_read = 0
        self._consumer: Consumer  # while it reads

    def stop(self) -> None:
        """Let the running loop end after its current batch."""
        self._stop.set()

    @property
    def stopped(self) -> bool:
        """True if `stop` was called: a restore that returns then is incomplete."""
        return self._stop.is_set()

    def restore(self, goals: Mapping[int, int], on_progress: Callable[[int, int], None]) -> int:
        """Apply rows until each partition's position reaches its goal; return their number.

        A second call resumes there. `on_progress(rows read, offsets remaining)` is called after
        each step forward. Raises Unanswered if the restore stalls.
        """
        open_partitions = {p for p, position in self._next.items() if position < goals[p]}
        if not open_partitions:
            return 0
        rows_before, moved_at = self.rows_read, self.clock.monotonic()
        with self._reading(open_partitions):
            while open_partitions and not self._stop.is_set():
                before = dict(self._next)
                self._step()
                open_partitions -= {p for p in open_partitions if self._next[p] >= goals[p]}
                if before != self._next:
                    moved_at = self.clock.monotonic()
                    on_progress(
                        self.rows_read,
                        sum(max(0, goals[p] - self._next[p]) for p in open_partitions),
                    )
                elif self.clock.monotonic() - moved_at > STALLED_SECONDS:
                    raise Unanswered(
                        f"the restore of {self.topic} {sorted(open_partitions)} makes no progress"
                    )
        return self.rows_read - rows_before

    def follow(self) -> None:
        """Apply rows as they are committed, until `stop`."""
        while not self._stop.is_set():
            try:
                with self._reading(self._next):
                    self._follow_until_idle()
            except Exception as cause:
                if isinstance(cause, StaleCopy) or not is_retriable(cause):
                    raise
                log.debug("the standby starts a new consumer: %s", cause)
                self.clock.sleep(PAUSE_SECONDS)

    def _follow_until_idle(self) -> None:
        moved_at = self.clock.monotonic()
        while not self._stop.is_set() and self.clock.monotonic() - moved_at <= IDLE_SECONDS:
            before = dict(self._next)
            self._step()
            if before != self._next:
                moved_at = self.clock.monotonic()

    @contextmanager
    def _reading(self, partitions: Iterable[int]) -> Iterator[None]:
        """Hold a new consumer of these partitions at their positions."""
        self._consumer = self.clients.standalone_consumer(self.group, "read_committed", READ_TO_END)
        with closing(self._consumer):
            self._consumer.assign(
                [TopicPartition(self.topic, p, self._next[p]) for p in sorted(partitions)]
            )
            yield

    def _step(self) -> None:
        changes: dict[int, dict[bytes, bytes | None]] = {}
        last: dict[int, int] = {}
        passed: dict[int, int] = {}
        at_end: set[int] = set()
        for message in self._consumer.consume(ROWS_PER_BATCH, 0.1):
            partition, offset, error = message.partition(), message.offset(), message.error()
            if error is not None and error.code() != KafkaError._PARTITION_EOF:
                raise refusal(error, self.group, self.topic)
            assert partition is not None
            assert offset is not None
            if error is not None:
                passed[partition] = offset  # beyond transaction markers and aborted rows
                at_end.add(partition)
                continue
            at_end.discard(partition)
            key = message.key()
            if key is None:
                raise Crash(
                    f"{self.topic}-{partition} has a record without a key at {offset}: the worker "
                    "did not write it"
                )
            changes.setdefault(partition, {})[key] = message.value()
            last[partition] = offset
            self.rows_read += 1
        now = self.clock.time()
        for partition, rows in changes.items():
            if now - self._complete_at[partition] > self.tombstone_seconds:
                raise StaleCopy(self.topic, partition)
            self.apply(partition, self._next[partition], rows, last[partition])
            self._next[partition] = last[partition] + 1
        for partition in at_end:
            self.at_end(partition)
            self._complete_at[partition] = now
        for partition, offset in self._positions(passed).items():
            self._next[partition] = max(self._next[partition], offset)

    def _positions(self, passed: dict[int, int]) -> dict[int, int]:
        """The ends of partitions in this step, or the consumer's positions beyond them."""
        for found in self._consumer.position(self._consumer.assignment()):
            if found.offset != OFFSET_INVALID and found.offset >= 0:
                passed[found.partition] = max(found.offset, passed.get(found.partition, 0))
        return passed


OPTIONS: Final[Mapping[str, Any]] = {
    **READ_TO_END,
    "auto.offset.reset": "earliest",  # retention may have removed the beginning
    "fetch.message.max.bytes": 16 * 1024,  # one record is enough
}


class FirstRow(NamedTuple):
    """A partition's first row; that of an open transaction may still be aborted."""

    partition: int
    key: bytes | None
    value: bytes | None
    is_committed: bool


def first_rows(
    clients: Clients, group: str, topic: str, partitions: Iterable[int], clock: Clock = time
) -> Iterator[FirstRow]:
    """The first row of each partition that has one, committed ones first, in the order of arrival.

    Raises Unanswered if they do not arrive in time, SetupError if a permission is missing.
    """
    ends = yield from _read(
        clients, group, topic, "read_committed", dict.fromkeys(partitions, 0), clock
    )
    yield from _read(clients, group, topic, "read_uncommitted", ends, clock)


def _read(
    clients: Clients,
    group: str,
    topic: str,
    isolation: Isolation,
    starts: Mapping[int, int],
    clock: Clock,
) -> Generator[FirstRow, None, dict[int, int]]:
    """Yield the first rows from these offsets; return the ends of partitions without one."""
    found: set[int] = set()
    ends: dict[int, int] = {}
    if not starts:
        return ends
    give_up = clock.monotonic() + TIMEOUT_SECONDS
    with closing(clients.standalone_consumer(group, isolation, OPTIONS)) as consumer:
        consumer.assign(
            [TopicPartition(topic, partition, start) for partition, start in starts.items()]
        )
        while missing := starts.keys() - found - ends.keys():
            if clock.monotonic() > give_up:
                raise Unanswered(
                    f"the first rows of {topic} {sorted(missing)} did not arrive within "
                    f"{TIMEOUT_SECONDS} s"
                )
            for message in consumer.consume(len(missing), 0.1):
                partition, offset, error = message.partition(), message.offset(), message.error()
                if error is not None and error.code() != KafkaError._PARTITION_EOF:
                    raise refusal(error, group, topic)
                assert partition is not None
                assert offset is not None
                if partition not in missing or partition in found:
                    continue
                if error is not None:
                    ends[partition] = offset
                else:
                    found.add(partition)
                    yield FirstRow(
                        partition, message.key(), message.value(), isolation == "read_committed"
                    )
        return ends


class LogBounds(NamedTuple):
    """Offsets of a partition."""

    start: int
    end: int  # for an uncommitted reader
    horizon: int
    """Compaction has removed no tombstone from here on; `end` if every record is older than
    tombstones live.
    """


@dataclass(eq=False)
class ChangelogLog:
    """The changelog topic. Its readers use the worker's group, join nothing and commit nothing."""

    clients: Clients
    topic: str
    group: str
    ids: TopicIds
    clock: Clock = time
    _tombstone_ms: int = field(default=DELETE_RETENTION_MS, init=False)
    _read: set[int] = field(default_factory=set, init=False)  # partitions that had a reader

    def bounds(self, partitions: Iterable[int]) -> dict[int, LogBounds]:
        """Present bounds by partition. Raises KafkaException and Unanswered without an answer.

        As long as the life of tombstones is unknown, no copy of an earlier process is trusted, and
        one of this process for UNKNOWN_LIFE_MS.
        """
        partitions = list(partitions)
        life_ms = self.ids.tombstone_life_ms(self.topic)
        if life_ms is None and not self._read:
            log.warning("%s", UNKNOWN_LIFE.format(self.topic))
        known_ms = UNKNOWN_LIFE_MS if life_ms is None else life_ms
        self._tombstone_ms = min(known_ms, DELETE_RETENTION_MS)
        with closing(self.clients.standalone_consumer(self.group, "read_uncommitted")) as consumer:
            # The horizon may be at a transaction marker: its time is the broker's, as for
            # compaction.
            horizon_ms = int(self.clock.time() * 1000) - self._tombstone_ms
            asked = consumer, self.topic, partitions
            horizons = offsets_at(*asked, horizon_ms, TIMEOUT_SECONDS, self.clock)
            if life_ms is None:
                horizons = {p: horizon for p, horizon in horizons.items() if p in self._read}
            bounds = all_watermarks(*asked, TIMEOUT_SECONDS, self.clock)
        return {
            p: LogBounds(bound.start, bound.stop, horizons.get(p, bound.stop))
            for p, bound in bounds.items()
        }

    def reader(
        self, starts: Mapping[int, int], apply: Apply, at_end: AtEnd, since: float
    ) -> ChangelogReader:
        """A reader from these offsets on; `since` is when their bounds were fetched."""
        self._read |= starts.keys()
        return ChangelogReader(
            clients=self.clients,
            group=self.group,
            topic=self.topic,
            starts=starts,
            apply=apply,
            at_end=at_end,
            tombstone_seconds=max(self._tombstone_ms / 1000, LEAST_READ_SECONDS),
            since=since,
            clock=self.clock,
        )

    def first_rows(self, partitions: Iterable[int]) -> Iterator[FirstRow]:
        """The first row of each partition that has one. Raises Unanswered and SetupError."""
        return first_rows(self.clients, self.group, self.topic, partitions, self.clock)


@dataclass(frozen=True)
class Logs:
    """A worker's input and changelog, its output topics (None: no output), and the topics' ids."""

    input: InputLog
    changelog: ChangelogLog
    ids: TopicIds
    output: str | None = None
    facets: str | None = None
