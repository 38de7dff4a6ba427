"""The reader of a bounded run: files before the log, one partition after another, up to its end."""

from __future__ import annotations

import logging
from collections.abc import Container, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, replace

from worker.errors import Crash, Unanswered
from worker.events import Record
from worker.kafka.offsets import CUT_SHORT_SECONDS, Start, cut_short
from worker.stream.assignment import Tenure
from worker.stream.delivery import MicroBatch
from worker.stream.faust.consumer import (
    FETCH_SECONDS,
    Fetched,
    GuardedConsumer,
    LiveReader,
    count,
    size_of,
)
from worker.stream.run_bounds import RunBounds
from worker.stream.worker import StreamWorker

log = logging.getLogger(__name__)

TURN_SECONDS = 0.2  # seconds to wait for more records of a partition before switching
CHECK_SECONDS = 5.0
"""Seconds between two checks of the input's id while nothing is read: only commits check it."""
BACKLOG_BYTES = 4 * 2**20  # bytes of file-backed records taken at once; a larger one comes alone


@dataclass(eq=False)
class Tail:
    """The end of a partition, and what proves that it is reached.

    The last offsets of a partition may hold no record: transaction markers, aborted records,
    records that compaction removed. So the *position* has to pass the end, not a record. A position
    is believed when a second fetch from the cursor arrives there again, like a gap: a position that
    was moved by a fetch from before a seek proves nothing.

    >>> tail = Tail(end=10)
    >>> tail.is_reached(cursor=7, position=12), tail.needs_second_fetch(cursor=7, position=12)
    (False, True)
    >>> tail.is_reached(cursor=7, position=12)
    True
    """

    end: int
    _: KW_ONLY
    is_in_log: bool = True  # False if files hold the records up to the end

    def __post_init__(self) -> None:
        self._shown: int | None = None  # the cursor from which the end was reached once
        self._hole: int | None = None
        self._is_waiting = False
        self._short_since: float | None = None

    def is_reached(self, cursor: int, position: int) -> bool:
        """True if nothing is left, with this cursor and the next fetch from this position."""
        return (
            cursor >= self.end
            or cursor == self._hole
            or (self._shown == cursor and self._leaves_nothing(position))
        )

    def needs_second_fetch(self, cursor: int, position: int) -> bool:
        """True if the end was reached for the first time from this cursor."""
        if self._shown == cursor or not self._leaves_nothing(position):
            return False
        self._shown = cursor
        return True

    def _leaves_nothing(self, position: int) -> bool:
        return position >= self.end or position == self._hole

    def is_hole_from(self, position: int) -> None:
        """The log has no record from this position to the end."""
        self._hole = position

    def wait(self, name: str, position: int, stable: int) -> None:
        """Log once that an open transaction lies before the end, with nothing left before it."""
        if position >= stable and not self._is_waiting:
            self._is_waiting = True
            log.warning(
                "%s: an open transaction of a producer begins at offset %d, before the end at %d: "
                "waiting until it is decided",
                name,
                stable,
                self.end,
            )

    def is_cut_short(self, high_watermark: int, now: float) -> bool:
        """True if the log has ended below the end for `CUT_SHORT_SECONDS`; `now` is monotonic."""
        if high_watermark >= self.end:
            self._short_since = None
        elif self._short_since is None:
            self._short_since = now
        return self._short_since is not None and now - self._short_since > CUT_SHORT_SECONDS


@dataclass(eq=False)
class FileBacklog:
    """The remaining file-backed records of one partition."""

    records: Iterator[Record]
    stop: int  # the offset after them, where the log continues or the run ends

    def take(self, most: int) -> tuple[tuple[Record, ...], int]:
        """The next records, at most `most`, and the offset after them or `stop`. Blocks."""
        taken: list[Record] = []
        size = 0
        for record in self.records:
            if record.offset >= self.stop:
                break
            taken.append(record)
            size += record.size
            if len(taken) >= most or size >= BACKLOG_BYTES:
                return tuple(taken), record.offset + 1
        return tuple(taken), self.stop


def file_backlogs(bounds: RunBounds, starts: Mapping[int, Start]) -> dict[int, FileBacklog]:
    """The file-backed records by partition, from its start on, if there are any."""
    if bounds.history is None:
        return {}
    found = {}
    for partition, offsets in bounds.history.partitions().items():
        start = starts.get(partition)
        stop = min(offsets.stop, bounds.ends.get(partition, offsets.stop))
        if start is not None and start.offset < stop:
            found[partition] = FileBacklog(bounds.history.read(partition, start.offset), stop)
    return found


class BoundedReader(LiveReader):
    """Reads each partition up to its end.

    One partition after another, so that a micro-batch has many events of few entities, and the
    entities of other partitions need not be in memory.
    """

    def __init__(self, consumer: GuardedConsumer, worker: StreamWorker) -> None:
        super().__init__(consumer, worker)
        self._topic = worker.settings.input_topic
        self._bounds = worker.bounds
        self._threads = worker.surroundings.threads
        self._clock = worker.surroundings.clock
        self._ids = worker.logs.ids
        self._backlogs: dict[int, FileBacklog] = {}
        self._tails: dict[int, Tail] = {}  # of partitions that are not finished
        self._latest: int | None = None  # the partition that was read last
        self._checked_at = 0.0  # the input's id

    def start(self, starts: Mapping[int, Start]) -> Mapping[int, int]:
        """See `LiveReader`. A partition is fetched after its files; a finished one at its end."""
        history = self._bounds.history
        files = history.partitions() if history else {}
        self._backlogs = file_backlogs(self._bounds, starts)
        self._tails = {
            partition: Tail(end, is_in_log=partition not in files or end > files[partition].stop)
            for partition, end in self._bounds.ends.items()
            if partition in starts and not self._bounds.ledger.is_over(partition)
        }
        return {
            partition: self._fetched_from(partition, start) for partition, start in starts.items()
        }

    def _fetched_from(self, partition: int, start: Start) -> int:
        if partition not in self._tails:
            return start.end
        backlog = self._backlogs.get(partition)
        return start.offset if backlog is None else min(backlog.stop, start.end)

    async def next(self) -> MicroBatch | None:
        """See `LiveReader`. Raises SetupError for an unplanned topic, and a log below its end."""
        await self._throttle()
        tenure = self._assignment.tenure
        if self._backlogs and tenure is not None:
            self._previous = await self._next_of_files(tenure)
        else:
            self._previous = await self._next_of_log(tenure)
        return self._previous

    async def _throttle(self) -> None:
        """Wait after the previous micro-batch, without fetching."""
        batch, self._previous = self._previous, None
        if batch is None:
            return
        size = sum(record.size for record in batch.records)
        seconds = self._bounds.throttle.pause(len(batch.records), size)
        while seconds > 0 and not self._input.should_stop:
            await self._input.sleep(min(seconds, 1.0))
            seconds -= 1.0
            self._assignment.progress.made()

    async def _next_of_files(self, tenure: Tenure) -> MicroBatch | None:
        partition, backlog = next(iter(self._backlogs.items()))
        records, following = await self._threads.beside(lambda: backlog.take(self._batch_events))
        if not self._input.holds(tenure):
            return None  # another seek has begun, or will
        if following == backlog.stop:
            del self._backlogs[partition]
        starts = {partition: self._input.cursors[partition]}
        self._input.cursors[partition] = following
        return MicroBatch(records, starts, {partition: following}, tenure)

    async def _next_of_log(self, tenure: Tenure | None) -> MicroBatch | None:
        fetched = await self._fetch_in_turn() or await self._fetch(FETCH_SECONDS, self._tails)
        if not fetched and self._tails and self._assignment.is_flowing:
            await self._look_for_holes()
        more = await self._fill(fetched) if fetched else []
        merged = self._input.merged([fetched, *more], tenure)
        if merged is None or tenure is None:
            return None
        return self._finish(self._input.guard(self._below_ends(merged), tenure), tenure)

    # -- fetches

    async def _fetch(self, seconds: float, partitions: Container[int]) -> Fetched:
        try:
            return await self._input.fetch(seconds, partitions)
        except Crash:
            await self._check_input(is_due=True)  # reports a topic that was created again
            raise

    async def _fetch_in_turn(self) -> Fetched:
        """More of the partition that was read last, or else of the next one that has records."""
        unfinished = sorted(
            self._tails, key=lambda partition: (partition != self._latest, partition)
        )
        for partition in unfinished:
            seconds = TURN_SECONDS if partition == self._latest else 0.0
            if fetched := await self._fetch(seconds, {partition}):
                self._latest = partition
                return fetched
        return {}

    async def _fill(self, fetched: Fetched) -> list[Fetched]:
        """More of the same partitions, while another fetch of that size fits the micro-batch."""
        more: list[Fetched] = []
        last, events, size = fetched, 0, 0
        while last and self._has_more(last):
            events, size = events + count(last), size + size_of(last)
            if (
                events + count(last) > self._batch_events
                or size + size_of(last) > self._batch_bytes
            ):
                break
            before, last = last, await self._fetch(TURN_SECONDS, set(fetched))
            more.append(last)
            if any(
                partition in before and records[0].offset != before[partition][-1].offset + 1
                for partition, records in last.items()
            ):
                break  # it has to be read again
        return more

    def _has_more(self, fetched: Fetched) -> bool:
        tails = self._tails
        return any(
            partition in tails and records[-1].offset + 1 < tails[partition].end
            for partition, records in fetched.items()
        )

    # -- ends

    def _below_ends(self, fetched: Fetched) -> Fetched:
        """The records below the ends, beyond which the topic continues."""
        ends = {partition: tail.end for partition, tail in self._tails.items()}
        return {
            partition: [record for record in records if record.offset < ends[partition]]
            for partition, records in fetched.items()
        }

    def _finish(self, batch: MicroBatch | None, tenure: Tenure) -> MicroBatch | None:
        """The micro-batch, with the ends of partitions that have nothing left below them."""
        finished = self._take_finished()
        if not finished:
            return batch
        if batch is None:
            batch = MicroBatch((), {}, {}, tenure)
        cursors = self._input.cursors
        starts = {partition: cursors[partition] for partition in finished}
        cursors |= finished
        return replace(
            batch,
            starts=starts | dict(batch.starts),
            ends=dict(batch.ends) | finished,
            finished=frozenset(finished),
        )

    def _take_finished(self) -> dict[int, int]:
        finished = {}
        for partition, tail in list(self._tails.items()):
            cursor = self._input.cursors[partition]
            position = self._input.fetch_position(partition) or 0
            if tail.is_in_log and (self._input.last_stable_offset(partition) or 0) < tail.end:
                continue  # an open transaction may lie below the end
            if tail.is_reached(cursor, position):
                finished[partition] = self._tails.pop(partition).end
            elif tail.needs_second_fetch(cursor, position):
                self._input.read_again({partition})
        return finished

    async def _look_for_holes(self) -> None:
        """After a fetch without records, look for what keeps each partition from its end.

        If the log reaches the end, ask for that partition alone; else log what it waits for.
        """
        await self._check_input()
        for partition, tail in list(self._tails.items()):
            position = self._input.fetch_position(partition)
            stable = self._input.last_stable_offset(partition)
            if position is None or stable is None or position >= tail.end:
                continue
            if stable < tail.end:
                self._wait(partition, tail, position, stable)
            elif await self._input.is_empty(partition, position, tail.end):
                tail.is_hole_from(position)

    def _wait(self, partition: int, tail: Tail, position: int, stable: int) -> None:
        """Log an open transaction before the end. Raises SetupError if the log ends below it."""
        high_watermark = self._input.high_watermark(partition)
        if tail.is_cut_short(high_watermark, self._clock.monotonic()):
            raise cut_short(self._topic, partition, high_watermark, tail.end)
        if high_watermark >= tail.end:
            tail.wait(f"{self._topic}-{partition}", position, stable)

    async def _check_input(self, *, is_due: bool = False) -> None:
        """Check the input's id every `CHECK_SECONDS`; raises what `TopicIds.read` raises."""
        now = self._clock.monotonic()
        if not is_due and now - self._checked_at < CHECK_SECONDS:
            return
        self._checked_at = now
        try:
            await self._threads.beside(self._ids.read)
        except Unanswered as cause:
            log.debug("could not check the id of %s: %s", self._topic, cause)
