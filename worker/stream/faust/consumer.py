"""The guarded consumer hands over every record of an assignment exactly once, in order.

Faust's own delivery loses runs of events at rebalances: a fetch that began before the seek delivers
beside it, and Faust takes a jump in the offsets for compaction. Here the unit is the *micro-batch*,
which goes to the agent as one message. One cursor per partition decides what may be in it:

1. Input partitions are fetched only between a finished seek and the next rebalance.
2. Records below the cursor are dropped: they were handed over already.
3. A first record above the cursor is believed only when a second fetch from the cursor shows it
   again (compaction, transaction markers, retention); a jump inside one fetch is such a gap.
4. The cursor moves when a micro-batch is handed over, all of it or nothing.

A reader chooses which partitions are fetched next, and how many fetches become one micro-batch:
`LiveReader`, or `worker.stream.bounded_reader` for a run with an end. The transaction commits the
offsets, not Faust (`worker.kafka.transactions`). A takeover reads the changelogs
(`worker.stream.takeover`).
"""

import asyncio
import logging
from collections import defaultdict, deque
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

from aiokafka.errors import NoOffsetForPartitionError, OffsetOutOfRangeError
from faust.transport.drivers import aiokafka as driver
from faust.types import TP

from worker.errors import Crash
from worker.events import Record, Rejected
from worker.events.messages import attempts_in
from worker.kafka.group import Membership
from worker.kafka.offsets import Start
from worker.stream.assignment import Tenure
from worker.stream.delivery import MicroBatch
from worker.stream.faust import FAUST_LOG
from worker.stream.faust.consumer_thread import ConsumerThread, is_empty
from worker.stream.faust.records import Memory
from worker.stream.worker import StreamWorker

log = logging.getLogger(__name__)

FETCH_SECONDS = 1.0  # longest wait for records of any partition
BUSY_POLL_SECONDS = 0.01  # poll interval while the previous micro-batch is busy

Fetched = dict[int, list[Any]]  # records of the consumer's client, by partition


class GuardedConsumer(driver.Consumer):
    """The driver's consumer under the rules of this module."""

    logger = FAUST_LOG
    transport: Any  # `worker.stream.faust.application.GuardedTransport`

    def on_init(self) -> None:
        """Start with nothing assigned and nothing to fetch."""
        super().on_init()
        self.cursors: dict[int, int] = {}  # the offset after the last record handed over
        self._asked: dict[int, int] = {}  # the cursor from which a gap was seen once
        self.times: defaultdict[int, deque[tuple[int, int]]] = defaultdict(deque)
        """By partition, offset and timestamp in ms of the first record of each micro-batch."""
        worker: StreamWorker = self.transport.worker
        self._held = worker.assignment
        self._takeover = worker.takeover
        self._input_topic = worker.settings.input_topic
        self._instance_id = worker.settings.group_instance_id
        self._ends = worker.bounds.ends
        self._die = worker.surroundings.die
        self._tracing = worker.surroundings.tracing
        self._as_record = _record_with_headers if worker.with_headers else _record
        self._reader: LiveReader = self.transport.reader(self, worker)

    def _new_consumer_thread(self) -> ConsumerThread:
        return ConsumerThread(self, loop=self.loop, beacon=self.beacon)

    def _input(self, partition: int) -> TP:
        return TP(self._input_topic, partition)

    def _is_input(self, tp: TP) -> bool:
        return bool(tp.topic == self._input_topic)

    # -- assignment

    async def on_partitions_revoked(self, revoked: set[TP]) -> None:
        """Stop handing over. A commit in flight ends under the old membership."""
        self._held.revoke()
        await super().on_partitions_revoked(revoked)

    async def on_partitions_assigned(self, assigned: set[TP], generation_id: int = 0) -> None:
        """Capture the membership; cursors come from the seek after the restore."""
        self.cursors.clear()
        self._asked.clear()
        self.times.clear()
        self._reader.start({})
        coordinator = self._thread._ensure_consumer()._coordinator
        membership = Membership(coordinator.generation, coordinator.member_id, self._instance_id)
        if membership.generation < 0 or not membership.member_id:
            self._die(Crash("the group coordinator assigned partitions without a membership"))
        self._held.assign(
            membership, frozenset(tp.partition for tp in assigned if self._is_input(tp))
        )
        await super().on_partitions_assigned(assigned, generation_id)

    def leave_group(self) -> None:
        """See `ConsumerThread.leave_group`; nothing happens without a membership."""
        if self._held.membership is not None:
            self._thread.leave_group()

    def group_assigned(self, has_owners: bool) -> None:
        """The group has assigned; `has_owners`: it gave partitions of the input to its members."""
        self._thread.has_owners = has_owners

    def join_again(self) -> None:
        """Let the group rebalance with this member's present description."""
        self._thread._ensure_consumer()._coordinator.request_rejoin()

    async def perform_seek(self) -> None:
        """Set every cursor: the last step of a takeover, after the restore."""
        held = self._held
        held.pause()
        if held.starts is None:
            if not held.is_lasting:
                return  # the takeover gave way to the group, and the next one seeks
            try:
                await self._takeover.fetch_starts()
            except Exception as cause:
                self._die(cause)
        starts = held.take_starts()
        self._asked.clear()
        fetched_from = self._reader.start(starts)
        for partition, start in starts.items():
            await self.seek(self._input(partition), fetched_from[partition])
            self.cursors[partition] = start.offset
        held.flow()

    # -- fetches

    async def _drain_messages(self, fetcher: Any) -> None:
        """Hand over one micro-batch after another; Faust's fetcher service runs this."""
        try:
            while not (self.should_stop or fetcher.should_stop):
                batch = await self._reader.next()
                if batch is not None:
                    await self.callback(self._as_message(batch))
        except (*self.consumer_stopped_errors, asyncio.CancelledError):
            if self.app.should_stop or fetcher.should_stop:
                return
            raise
        except Exception as cause:
            self._die(cause)

    async def fetch(self, seconds: float, partitions: Container[int] | None = None) -> Fetched:
        """Records of these partitions, or of all; waits for the first one.

        Raises Crash if the log has no record at a partition's position.
        """
        tps = {
            tp
            for tp in self._get_active_partitions()
            if self._is_input(tp) and (partitions is None or tp.partition in partitions)
        }
        if not (tps and self._held.is_flowing and self.flow_active):
            await self.sleep(0.02 if seconds else 0)
            return {}
        Memory.renew()
        try:
            fetched = await self._getmany(tps, seconds)
        except NoOffsetForPartitionError as stale:
            # aiokafka looked for a committed offset before our seek, found none, and kept the error
            # for the first fetch. Every cursor is explicit here, so the fetch is repeated. If the
            # error lasts, the watchdog ends the process.
            log.debug("fetching again: %r", stale)
            self.read_again(tp.partition for tp in tps)
            return {}
        except OffsetOutOfRangeError as gone:
            raise Crash(_not_in_log(gone.args[0])) from gone
        return {tp.partition: records for tp, records in fetched.items()}

    def holds(self, tenure: Tenure | None) -> bool:
        """True if what was fetched under this tenure may be handed over."""
        return tenure is not None and self.flow_active and tenure == self._held.tenure

    def read_again(self, partitions: Iterable[int]) -> None:
        """Fetch from the cursors next: a dropped fetch may have moved the position after a seek."""
        for partition in partitions:
            if self._held.is_flowing and partition in self.cursors:
                self._thread.seek(self._input(partition), self.cursors[partition])

    def merged(self, fetches: Sequence[Fetched], tenure: Tenure | None) -> Fetched | None:
        """Several fetches as one; None if the tenure has ended, and they are read again.

        A jump between two fetches is no jump inside one: it is read again.
        """
        if not self.holds(tenure):
            self.read_again({partition for fetched in fetches for partition in fetched})
            return None
        merged, *others = fetches
        for fetched in others:
            self._append(merged, fetched)
        return merged

    def _append(self, merged: Fetched, more: Fetched) -> None:
        for partition, records in more.items():
            before = merged.setdefault(partition, [])
            following = before[-1].offset + 1 if before else None
            fresh = [
                record for record in records if following is None or record.offset >= following
            ]
            if following is not None and fresh and fresh[0].offset > following:
                if self._asked.get(partition) != self.cursors.get(partition):
                    # else this fetch is the proof of a gap at the head
                    self._asked[partition] = following
                self._thread.seek(self._input(partition), following)
            else:
                before.extend(fresh)

    def guard(self, fetched: Fetched, tenure: Tenure) -> MicroBatch | None:
        """The records that follow the cursors by rules 2 to 4; moves the cursors behind them.

        It has no `await`, so that nothing changes in between.
        """
        handed: list[Record] = []
        contexts: dict[tuple[int, int], bytes] = {}
        starts: dict[int, int] = {}
        ends: dict[int, int] = {}
        for partition, records in fetched.items():
            cursor = self.cursors.get(partition)
            if cursor is None:
                continue
            fresh = [record for record in records if record.offset >= cursor]
            if not fresh:
                continue
            if fresh[0].offset > cursor and self._asked.get(partition) != cursor:
                self._asked[partition] = cursor
                self._thread.seek(self._input(partition), cursor)
                continue
            handed.extend(map(self._as_record, fresh))
            if not self._ends:  # a bounded run reads the past
                self.times[partition].append((fresh[0].offset, fresh[0].timestamp or 0))
            contexts |= self._tracing.contexts(fresh)
            starts[partition] = cursor
            ends[partition] = self.cursors[partition] = fresh[-1].offset + 1
        if not handed:
            return None
        return MicroBatch(tuple(handed), starts, ends, tenure, contexts=contexts)

    async def is_empty(self, partition: int, position: int, end: int) -> bool:
        """True if the log has no record from a position to an end."""
        client = self._thread._ensure_consumer()._client
        tp = self._input(partition)
        return bool(await self._thread.call_thread(is_empty, client, tp, position, end))

    def _as_message(self, batch: MicroBatch) -> Any:
        """One Faust message for the micro-batch: a message per record would cost far more."""
        partition, end = list(batch.ends.items())[-1]
        tp = self._input(partition)
        own = (tp.topic, partition, max(0, end - 1), 0.0, 0, (), b"", batch, None, 0, 0, tp)
        return driver.ConsumerMessage(*own, generation_id=batch.tenure.membership.generation)

    def resume_partitions(self, tps: Any) -> None:
        """Resume input partitions. Changelogs stay paused: a takeover reads them itself."""
        super().resume_partitions({tp for tp in tps if self._is_input(tp)})

    # -- positions

    def fetch_position(self, partition: int) -> int | None:
        """Where the next fetch begins: unlike the cursor, beyond transaction markers."""
        state = self._fetch_state(partition)
        return int(state.position) if state is not None and state.has_valid_position else None

    def last_stable_offset(self, partition: int) -> int | None:
        """The end for a committed reader, as of the last fetch; None before the first one."""
        state = self._fetch_state(partition)
        return None if state is None or state.lso is None or state.lso < 0 else int(state.lso)

    def high_watermark(self, partition: int) -> int:
        """The end of the log, as of the last fetch."""
        return int(self._fetch_state(partition).highwater)

    def stable_end(self, partition: int) -> int | None:
        """The last stable offset, or the end of a bounded run if that comes first."""
        stable = self.last_stable_offset(partition)
        return None if stable is None else min(stable, self._ends.get(partition, stable))

    def undecided(self, partition: int) -> int:
        """Offsets behind an open transaction of a producer, as of the last fetch."""
        stable = self.stable_end(partition)
        if stable is None:
            return 0
        end = self.high_watermark(partition)
        return max(0, min(end, self._ends.get(partition, end)) - stable)

    def heard_at(self) -> float | None:
        """`time.monotonic()` of any broker's last answer, None before the first connection."""
        consumer = self._thread._consumer
        connections = list(consumer._client._conns.values()) if consumer is not None else []
        return max((connection._last_action for connection in connections), default=None)

    def _fetch_state(self, partition: int) -> Any:
        """aiokafka's state of an input partition; None if it is not assigned."""
        subscription = self._thread._ensure_consumer()._subscription.subscription
        assignment = subscription.assignment if subscription else None
        return assignment.state_value(self._input(partition)) if assignment else None

    # -- what Faust would do: recovery, gaps and commits

    async def highwaters(self, *tps: TP) -> Mapping[TP, int]:
        """0 for each: Faust recovers nothing."""
        return dict.fromkeys(tps, 0)

    async def earliest_offsets(self, *tps: TP) -> Mapping[TP, int]:
        """0 for each: Faust recovers nothing."""
        return dict.fromkeys(tps, 0)

    async def seek_wait(self, partitions: Mapping[TP, int]) -> None:
        """Nothing to seek: changelogs are not read through this consumer."""

    def on_buffer_full(self, tp: TP) -> None:
        """Nothing: a full queue already holds back the next micro-batch."""

    async def _add_gap(self, tp: TP, offset_from: int, offset_to: int) -> None:
        """Nothing: `guard` proves gaps; Faust acknowledges none."""

    def _new_offset(self, tp: TP) -> int | None:
        """None: the transaction commits offsets, Faust commits none."""
        self._acked[tp].clear()
        self._acked_index[tp].clear()
        return None

    async def verify_all_partitions_active(self) -> None:
        """Nothing: Faust would judge by its own commits, which do not exist. See the watchdog."""


class LiveReader:
    """Reads all partitions at once, without an end."""

    def __init__(self, consumer: GuardedConsumer, worker: StreamWorker) -> None:
        self._input = consumer
        self._assignment = worker.assignment
        self._delivery = worker.delivery
        self._linger_seconds = worker.settings.batch_linger_ms / 1000
        self._batch_seconds = worker.settings.batch_ms / 1000
        self._batch_events = worker.settings.batch_size
        self._batch_bytes = worker.settings.batch_bytes
        self._previous: MicroBatch | None = None

    def start(self, starts: Mapping[int, Start]) -> Mapping[int, int]:
        """Begin at these offsets; returns by partition the offset to fetch from."""
        return {partition: start.offset for partition, start in starts.items()}

    async def next(self) -> MicroBatch | None:
        """The next micro-batch; None if there is nothing to hand over."""
        tenure = self._assignment.tenure
        fetched = await self._input.fetch(FETCH_SECONDS)
        more = await self._linger(fetched) if fetched else []
        merged = self._input.merged([fetched, *more], tenure)
        if merged is None or tenure is None:
            return None
        batch = self._input.guard(merged, tenure)
        self._previous = batch or self._previous
        return batch

    async def _linger(self, fetched: Fetched) -> list[Fetched]:
        """The records that arrive during the linger time, and while the previous micro-batch is
        busy.

        Each micro-batch waits for the commits before its own, and a small one takes nearly as long
        as a large one. So a micro-batch that would wait takes more records first.
        """
        more: list[Fetched] = []
        events, size, waited = count(fetched), size_of(fetched), 0.0
        seconds = self._linger_seconds or self._busy_seconds(waited)
        while events < self._batch_events and size < self._batch_bytes and seconds:
            await self._input.sleep(seconds)
            more.append(await self._input.fetch(0.0))
            events, size = events + count(more[-1]), size + size_of(more[-1])
            waited += seconds
            seconds = self._busy_seconds(waited)
        return more

    def _busy_seconds(self, waited: float) -> float:
        """Seconds until the next look at the previous micro-batch of this tenure; 0 if not busy."""
        previous = self._previous
        is_busy = (
            previous is not None
            and previous.tenure == self._assignment.tenure
            and not self._delivery.commit_started(previous)
            and not self._input.should_stop
            and waited < self._batch_seconds  # a queue that lost it would never let it begin
        )
        return BUSY_POLL_SECONDS if is_busy else 0.0


def count(fetched: Mapping[int, Sequence[Any]]) -> int:
    """The number of records."""
    return sum(len(records) for records in fetched.values())


def size_of(fetched: Fetched) -> int:
    """Bytes of the values."""
    return sum(len(record.value or b"") for records in fetched.values() for record in records)


def _record(fetched: Any) -> Record:
    refused = fetched.checksum
    return Record(
        fetched.topic,
        fetched.partition,
        fetched.offset,
        fetched.timestamp or 0,
        fetched.key,
        fetched.value,
        attempts_in(fetched.headers),
        refused if isinstance(refused, Rejected) else None,
    )


def _record_with_headers(fetched: Any) -> Record:
    return _record(fetched)._replace(headers=fetched.headers)


def _not_in_log(offsets: Mapping[TP, int]) -> str:
    named = ", ".join(
        f"{tp.topic}-{tp.partition} has no offset {offset}" for tp, offset in offsets.items()
    )
    return (
        f"{named}: retention has removed records before they were read, or the log was cut short; "
        "keep records for longer than the worker may lag, put them back if you can, or start over "
        "with `coversumm-worker reset`"
    )
