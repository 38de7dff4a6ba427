"""Reading a changelog back: the restore at takeover, and the standby that follows the owner.

Both are one loop over a librdkafka consumer (several times faster than Faust's own recovery; it
neither swallows errors nor applies aborted rows): read committed rows, apply them with their offset
in one atomic batch. A restore ends when its *position* has passed the high watermark that an
uncommitted reader saw at its start: by then every open transaction below is decided. Some of what
it has read may lie beyond that, and go on beyond what it has read: whoever wants whole transactions
asks for the mark again, until nothing more comes (`worker.stream.takeover`). A standby never ends;
a consumer that has heard nothing for long gets a successor, because a broker's absence may have
confused it for good.
"""

import logging
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from confluent_kafka import OFFSET_INVALID, Consumer, KafkaError, TopicPartition

from worker.clock import Clock
from worker.errors import Crash, Unanswered
from worker.kafka.clients import READ_TO_END, Clients, Isolation
from worker.kafka.errors import passes, refusal
from worker.state import Changes

log = logging.getLogger(__name__)

# apply(partition, expected predecessor offset, changes in order, last offset)
Apply = Callable[[int, int, Changes, int], None]
ROWS_PER_BATCH = 2_000
# A restore that does not move for so long has a confused consumer, or no leader to read from: it
# begins again where it is.
STALLED_SECONDS = 20.0
# A standby that has read nothing for so long begins again, too: where nothing was written, that
# costs one question a minute.
IDLE_SECONDS = 60.0
PAUSE_SECONDS = 1.0


class ChangelogReader:
    """Applies the committed rows of some changelog partitions.

    Args:
        clients: make the consumer.
        group: under whose name it asks.
        topic: the changelog topic.
        starts: by partition the first offset to apply.
        apply: writes rows and offset atomically.
        clock: measures how long a restore stands still.
    """

    def __init__(
        self,
        clients: Clients,
        group: str,
        topic: str,
        starts: Mapping[int, int],
        apply: Apply,
        clock: Clock = time,
    ) -> None:
        self._clients, self._group, self._topic = clients, group, topic
        self._next = dict(starts)
        self._apply = apply
        self._clock = clock
        self._stop = threading.Event()
        self.rows_read = 0
        self._consumer: Consumer  # while it reads

    def stop(self) -> None:
        """Let the running loop end after the batch in hand."""
        self._stop.set()

    @property
    def stopped(self) -> bool:
        """Whether `stop` was called: a restore that returns then is incomplete."""
        return self._stop.is_set()

    def restore(self, goals: Mapping[int, int], on_progress: Callable[[int, int], None]) -> int:
        """Apply rows until every partition's position has reached its goal; return how many. Called
        again it goes on from there.

        `on_progress(rows read, offsets remaining)` is called whenever it has moved. Raises
        Unanswered when it stands still.
        """
        open_partitions = {p for p, position in self._next.items() if position < goals[p]}
        if not open_partitions:
            return 0
        rows_before, moved_at = self.rows_read, self._clock.monotonic()
        with self._reading(open_partitions):
            while open_partitions and not self._stop.is_set():
                before = dict(self._next)
                self._step()
                open_partitions -= {p for p in open_partitions if self._next[p] >= goals[p]}
                if before != self._next:
                    moved_at = self._clock.monotonic()
                    on_progress(
                        self.rows_read,
                        sum(max(0, goals[p] - self._next[p]) for p in open_partitions),
                    )
                elif self._clock.monotonic() - moved_at > STALLED_SECONDS:
                    raise Unanswered(
                        f"the restore of {self._topic} {sorted(open_partitions)} stands still"
                    )
        return self.rows_read - rows_before

    def follow(self) -> None:
        """Apply rows as they are committed, until `stop`."""
        while not self._stop.is_set():
            try:
                with self._reading(self._next):
                    self._follow_for_a_while()
            except Exception as cause:
                if not passes(cause):
                    raise
                log.debug("following anew: %s", cause)
                self._clock.sleep(PAUSE_SECONDS)

    def _follow_for_a_while(self) -> None:
        """Until `stop`, or until nothing has come for long."""
        moved_at = self._clock.monotonic()
        while not self._stop.is_set() and self._clock.monotonic() - moved_at <= IDLE_SECONDS:
            before = dict(self._next)
            self._step()
            if before != self._next:
                moved_at = self._clock.monotonic()

    @contextmanager
    def _reading(self, partitions: Iterable[int]) -> Iterator[None]:
        """With a new consumer of these partitions, from where they are on."""
        self._consumer = self._clients.standalone_consumer(
            self._group, "read_committed", READ_TO_END
        )
        try:
            self._consumer.assign(
                [TopicPartition(self._topic, p, self._next[p]) for p in sorted(partitions)]
            )
            yield
        finally:
            self._consumer.close()

    def _step(self) -> None:
        changes: dict[int, dict[bytes, bytes | None]] = {}
        last: dict[int, int] = {}
        passed: dict[int, int] = {}
        for message in self._consumer.consume(ROWS_PER_BATCH, 0.1):
            partition, offset, error = message.partition(), message.offset(), message.error()
            if error is not None and error.code() != KafkaError._PARTITION_EOF:
                raise refusal(error, self._group, self._topic)
            assert partition is not None
            assert offset is not None
            if error is not None:
                passed[partition] = offset  # the end, transaction markers and aborted rows included
                continue
            key = message.key()
            if key is None:
                raise Crash(
                    f"{self._topic}-{partition} has a record without a key at {offset}: not one of the worker's rows"
                )
            changes.setdefault(partition, {})[key] = message.value()
            last[partition] = offset
            self.rows_read += 1
        for partition, rows in changes.items():
            self._apply(partition, self._next[partition], rows, last[partition])
            self._next[partition] = last[partition] + 1
        for partition, offset in self._positions(passed).items():
            self._next[partition] = max(self._next[partition], offset)

    def _positions(self, passed: dict[int, int]) -> dict[int, int]:
        """The end-of-partition offsets of this step, or the consumer's own positions where it
        reported none.
        """
        for found in self._consumer.position(self._consumer.assignment()):
            if found.offset != OFFSET_INVALID and found.offset >= 0:
                passed[found.partition] = max(found.offset, passed.get(found.partition, 0))
        return passed


TIMEOUT_SECONDS = 30
OPTIONS: Final[Mapping[str, Any]] = {
    **READ_TO_END,
    "auto.offset.reset": "earliest",  # a log may have lost its beginning
    "fetch.message.max.bytes": 16 * 1024,  # one record is enough
}


class FirstRow(NamedTuple):
    """A partition's first row; one of an open transaction may yet be aborted."""

    partition: int
    key: bytes | None
    value: bytes | None
    is_committed: bool


def first_rows(
    clients: Clients, group: str, topic: str, partitions: Iterable[int], clock: Clock = time
) -> Iterator[FirstRow]:
    """The first row of each of these partitions that has any, asked for under the name of the
    group.

    They come as they are read, committed ones first. Raises Unanswered where they are not read in
    time, SetupError where the broker does not allow it.
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
    """The first rows from these offsets on; returned is by partition where it ends without any."""
    found: set[int] = set()
    ends: dict[int, int] = {}
    if not starts:
        return ends
    give_up = clock.monotonic() + TIMEOUT_SECONDS
    consumer = clients.standalone_consumer(group, isolation, OPTIONS)
    try:
        consumer.assign(
            [TopicPartition(topic, partition, start) for partition, start in starts.items()]
        )
        while missing := starts.keys() - found - ends.keys():
            if clock.monotonic() > give_up:
                raise Unanswered(
                    f"the first rows of {topic} {sorted(missing)} were not read in {TIMEOUT_SECONDS} s"
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
    finally:
        consumer.close()
