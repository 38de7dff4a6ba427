"""Guarded consumer: hands over every record of an assignment exactly once, in order, or proves that
there is none.

Faust's own delivery loses runs of events at rebalances: a fetch that began before the seek delivers
on beside it, and jumps in the offsets are taken for compaction and acknowledged. Here the unit is
the *micro-batch*, one fetch over all partitions, handed to the agent as one message, and one cursor
per partition decides what may be in it:

1. Input partitions are fetched only between a finished seek and the next rebalance.
2. Records below the cursor are dropped: they were handed over already.
3. A first record above the cursor is believed only when a second fetch from the cursor shows it
   again (compaction, transaction markers, retention); a jump inside one fetch is such a gap.
4. The cursor moves when a micro-batch is handed over, all of it or nothing.
5. A bounded run ends at offsets: records at or past a partition's end are not handed over, and it
   is finished when nothing below its end is left, which a second fetch from the cursor has to show
   too (markers, aborted records), or a fetch of it alone that comes back empty although the log
   goes on to the end (compaction). It reads one partition after the other; what is had elsewhere,
   as of files, before anything is fetched.

Faust commits no offsets: the transaction does (`worker.kafka.transaction`). Changelogs are never
fetched through here: a takeover restores them (`worker.stream.takeover`).
"""

import asyncio
import logging
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

import faust
from aiokafka.errors import NoOffsetForPartitionError, OffsetOutOfRangeError
from faust.transport.drivers import aiokafka as driver
from faust.types import TP
from yarl import URL

from worker.errors import Crash, Unanswered
from worker.events import Record
from worker.kafka.group import Membership
from worker.kafka.offsets import Start, cut_short
from worker.stream.assignment import Tenure
from worker.stream.bounded_reader import FileBacklog, Tail, file_backlogs, is_empty
from worker.stream.delivery import MicroBatch
from worker.stream.faust import FAUST_LOG
from worker.stream.faust.consumer_thread import ConsumerThread
from worker.stream.worker import StreamWorker

log = logging.getLogger(__name__)

# So long a bounded run waits for more of the partition that it has just read before it turns to
# another one.
TURN_SECONDS = 0.2
# So often what waits for the micro-batch before it looks for more to take along.
LOOK_SECONDS = 0.01
# Seconds between two checks of the input's id while a bounded run waits: commits check it, and
# there are none then.
CHECK_SECONDS = 5.0


class GuardedConsumer(driver.Consumer):
    """The aiokafka driver's consumer under the four rules of this module."""

    logger = FAUST_LOG
    transport: "GuardedTransport"

    def on_init(self) -> None:
        """Start with nothing assigned and nothing to fetch."""
        super().on_init()
        self.cursors: dict[int, int] = {}
        self._asked: dict[int, int] = {}
        worker = self.transport.worker
        self._held = worker.assignment
        self._takeover = worker.takeover
        self._takeover.seek = self.perform_seek
        self._input_topic = worker.settings.input_topic
        self._bounds = worker.bounds
        self._tails: dict[int, Tail] = {}  # of partitions that are not finished yet
        self._over: set[int] = set()  # partitions that are
        self._past: dict[int, FileBacklog] = {}  # what is had elsewhere, and not handed over yet
        self._latest: int | None = None  # which of them was read last
        self._instance_id = worker.settings.group_instance_id
        self._delivery = worker.delivery
        self._handed_over: MicroBatch | None = None  # last
        self._linger_seconds = worker.settings.batch_linger_ms / 1000
        self._batch_seconds = worker.settings.batch_ms / 1000
        self._batch_events = worker.settings.batch_size
        self._batch_bytes = worker.settings.batch_bytes
        self._die = worker.surroundings.die
        self._threads = worker.surroundings.threads
        self._clock = worker.surroundings.clock
        self._ids = worker.logs.ids
        self._checked_at = 0.0  # the input's id, while nothing comes
        self._tracing = worker.surroundings.tracing

    def _new_consumer_thread(self) -> ConsumerThread:
        return ConsumerThread(self, loop=self.loop, beacon=self.beacon)

    # -- assignment
    # ---------------------------------------------------------------------------------------------------

    async def on_partitions_revoked(self, revoked: set[TP]) -> None:
        """Stop handing over; a commit under way ends under the old membership, and what is not
        begun is read again.
        """
        self._held.revoke()
        await super().on_partitions_revoked(revoked)

    async def on_partitions_assigned(self, assigned: set[TP], generation_id: int = 0) -> None:
        """Capture the membership; cursors come from the seek after the restore."""
        self.cursors.clear()
        self._asked.clear()
        self._tails.clear()
        self._past.clear()
        coordinator = self._thread._ensure_consumer()._coordinator
        membership = Membership(coordinator.generation, coordinator.member_id, self._instance_id)
        if membership.generation < 0 or not membership.member_id:
            self._die(Crash("the group coordinator assigned partitions without a membership"))
        self._held.assign(
            membership, frozenset(tp.partition for tp in assigned if self._is_input(tp))
        )
        await super().on_partitions_assigned(assigned, generation_id)

    def leave_group(self) -> None:
        """See `ConsumerThread.leave_group`; nothing happens where there is no membership."""
        if self._held.membership is not None:
            self._thread.leave_group()

    def join_again(self) -> None:
        """Let the group rebalance, with what this member now says of itself."""
        self._thread._ensure_consumer()._coordinator.request_rejoin()

    def _is_input(self, tp: TP) -> bool:
        return bool(tp.topic == self._input_topic)

    async def perform_seek(self) -> None:
        """Set every cursor: the last step of a takeover, after the restore."""
        held = self._held
        held.is_flowing = False
        if held.starts is None and not held.is_lasting:
            return  # the takeover gave way to the group, and the next one seeks
        try:
            starts = held.starts if held.starts is not None else await self._takeover.fetch_starts()
        except Exception as cause:
            self._die(cause)
        held.starts = None
        self._asked.clear()
        had = self._bounds.history.partitions() if self._bounds.history else {}
        self._past = file_backlogs(self._bounds, starts)
        self._tails = {
            partition: Tail(end, is_in_log=partition not in had or end > had[partition].stop)
            for partition, end in self._bounds.ends.items()
            if partition in starts and not self._bounds.ledger.is_over(partition)
        }
        self._over = {p for p in starts if p in self._bounds.ends} - self._tails.keys()
        for partition, start in starts.items():
            await self.seek(TP(self._input_topic, partition), self._fetched_from(partition, start))
            self.cursors[partition] = start.offset
        held.flow()

    def _fetched_from(self, partition: int, start: Start) -> int:
        """Where the log is read: after what is had elsewhere; at its end where nothing is read any
        more.
        """
        if partition in self._over:
            return start.end
        past = self._past.get(partition)
        return start.offset if past is None else min(past.stop, start.end)

    # -- fetching
    # -----------------------------------------------------------------------------------------------------

    def resume_partitions(self, tps: Any) -> None:
        """Resume input partitions; changelogs stay paused, a takeover reads them itself."""
        super().resume_partitions({tp for tp in tps if self._is_input(tp)})

    async def highwaters(self, *tps: TP) -> Mapping[TP, int]:
        """Nothing for Faust to recover."""
        return dict.fromkeys(tps, 0)

    async def earliest_offsets(self, *tps: TP) -> Mapping[TP, int]:
        """Nothing for Faust to recover."""
        return dict.fromkeys(tps, 0)

    async def seek_wait(self, partitions: Mapping[TP, int]) -> None:
        """Changelogs are not read through this consumer: nothing to seek."""

    def on_buffer_full(self, tp: TP) -> None:
        """Nothing: a full queue holds the next micro-batch back by itself, whatever partitions it
        is of.
        """

    async def _drain_messages(self, fetcher: Any) -> None:
        """Run the fetch loop (Faust calls it from its fetcher service)."""
        try:
            while not (self.should_stop or fetcher.should_stop):
                batch = await self._next_micro_batch()
                if batch is not None:
                    self._handed_over = batch
                    await self.callback(self._as_message(batch))
                    await self._hold_back(batch)
        except (*self.consumer_stopped_errors, asyncio.CancelledError):
            if self.app.should_stop or fetcher.should_stop:
                return
            raise
        except Exception as cause:
            self._die(cause)

    async def _hold_back(self, batch: MicroBatch) -> None:
        """Wait where the run is to go slower: what is not asked for is not fetched."""
        size = sum(len(record.value or b"") + len(record.key or b"") for record in batch.records)
        seconds = self._bounds.throttle.pause(len(batch.records), size)
        while seconds > 0 and not self.should_stop:
            await self.sleep(min(seconds, 1.0))
            seconds -= 1.0
            self._held.progress.made()

    async def _next_micro_batch(self) -> MicroBatch | None:
        tenure = self._held.tenure
        if self._past and tenure is not None:
            return await self._next_of_past(tenure)
        fetched = await self._fetch_in_turn() or await self._fetch(timeout_seconds=1.0)
        if not fetched and self._tails and self._held.is_flowing:
            await self._look_for_holes()
        more = await self._fetch_more(fetched) if fetched else []
        if (
            (fetched or self._tails)
            and tenure is not None
            and self.flow_active
            and tenure == self._held.tenure
        ):
            for one in more:
                self._merge(fetched, one)
            return self._guard(fetched, tenure)
        self._read_again({tp for one in (fetched, *more) for tp in one})
        return None

    async def _next_of_past(self, tenure: Tenure) -> MicroBatch | None:
        """The next records of a partition that are had elsewhere; one partition after the other."""
        partition, past = next(iter(self._past.items()))
        records, following = await self._threads.beside(lambda: past.take(self._batch_events))
        if not self.flow_active or tenure != self._held.tenure:
            return None  # another seek has begun, or will
        if following == past.stop:
            del self._past[partition]
        starts = {partition: self.cursors[partition]}
        self.cursors[partition] = following
        return MicroBatch(records, starts, {partition: following}, tenure)

    async def _fetch_in_turn(self) -> dict[TP, list[Any]]:
        """In a bounded run: more of the partition that was read last, then of the next one that has
        something.

        One after another, so that a micro-batch has many events of few entities, and the others'
        need not be in memory.
        """
        unfinished = sorted(
            self._tails, key=lambda partition: (partition != self._latest, partition)
        )
        for partition in unfinished:
            seconds = TURN_SECONDS if partition == self._latest else 0.0
            if fetched := await self._fetch(seconds, {partition}):
                self._latest = partition
                return fetched
        return {}

    async def _fetch_more(self, fetched: Mapping[TP, list[Any]]) -> list[dict[TP, list[Any]]]:
        """What makes a micro-batch larger: whatever comes while it lingers, or waits for the one
        before it; in a bounded run what is there already.

        One that is handed over before it can be processed would be smaller, and leave more to those
        after it: each has to wait for the commits before its own, and small ones take nearly as
        long as large ones.
        """
        if self._tails:
            return await self._fill(fetched)
        more: list[dict[TP, list[Any]]] = []
        events, waited = _count(fetched), 0.0
        seconds = self._linger_seconds or self._look_again(waited)
        while events < self._batch_events and seconds:
            await self.sleep(seconds)
            more.append(await self._fetch(timeout_seconds=0.0))
            events, waited = events + _count(more[-1]), waited + seconds
            seconds = self._look_again(waited)
        return more

    def _look_again(self, waited: float) -> float:
        """Seconds until then, while a micro-batch of this tenure is on its way to the delivery or
        processed there; else 0.
        """
        before = self._handed_over
        has_to_wait = (
            before is not None
            and before.tenure == self._held.tenure
            and not self._delivery.commit_started(before)
            and not self.should_stop
            and waited
            < self._batch_seconds  # what waits for a queue to move would wait for ever if that had lost something
        )
        return LOOK_SECONDS if has_to_wait else 0.0

    async def _fill(self, fetched: Mapping[TP, list[Any]]) -> list[dict[TP, list[Any]]]:
        """More of the same partitions, as long as another fetch like the last one still belongs
        into the micro-batch.
        """
        more: list[dict[TP, list[Any]]] = []
        last, events, size = fetched, 0, 0
        while last and self._has_more(last):
            events, size = events + _count(last), size + _size(last)
            if events + _count(last) > self._batch_events or size + _size(last) > self._batch_bytes:
                break
            before, last = last, await self._fetch(TURN_SECONDS, {tp.partition for tp in fetched})
            more.append(last)
            if any(
                tp in before and records[0].offset != _following(before[tp])
                for tp, records in last.items()
            ):
                break  # it is to be read again
        return more

    def _has_more(self, fetched: Mapping[TP, list[Any]]) -> bool:
        """Whether one of these partitions goes on after these records."""
        tails = self._tails
        return any(
            tp.partition in tails and _following(records) < tails[tp.partition].end
            for tp, records in fetched.items()
        )

    async def _fetch(
        self, timeout_seconds: float, partitions: Container[int] | None = None
    ) -> dict[TP, list[Any]]:
        """What is there, of these partitions or of all; waits for something."""
        tps = {
            tp
            for tp in self._get_active_partitions()
            if self._is_input(tp)
            and tp.partition not in self._over
            and (partitions is None or tp.partition in partitions)
        }
        if not (tps and self._held.is_flowing and self.flow_active):
            await self.sleep(0.02 if timeout_seconds else 0)
            return {}
        try:
            return dict(await self._getmany(tps, timeout_seconds))
        except NoOffsetForPartitionError as stale:
            # aiokafka looked for a committed offset between the assignment and our seek, found
            # none, and kept the error for the first fetch after it. Every cursor is explicit here;
            # if it came back for ever, the watchdog would end it.
            log.debug("fetching again: %r", stale)
            self._read_again(tps)
            return {}
        except OffsetOutOfRangeError as gone:
            if self._tails:
                self._checked_at = 0.0
                await self._check_input()
            raise Crash(_not_in_log(gone.args[0])) from gone

    def _read_again(self, fetched: Iterable[TP]) -> None:
        """Go back to the cursors after a fetch that is dropped: it may have read on from where the
        seek had just put them.
        """
        for tp in fetched:
            if self._held.is_flowing and tp.partition in self.cursors:
                self._thread.seek(tp, self.cursors[tp.partition])

    def _merge(self, fetched: dict[TP, list[Any]], more: Mapping[TP, list[Any]]) -> None:
        """Append a second fetch to the first; a jump between the two is no jump inside one, and is
        to be read again.
        """
        for tp, records in more.items():
            before = fetched.setdefault(tp, [])
            following = before[-1].offset + 1 if before else None
            fresh = [
                record for record in records if following is None or record.offset >= following
            ]
            if following is not None and fresh and fresh[0].offset > following:
                if self._asked.get(tp.partition) != self.cursors.get(tp.partition):
                    self._asked[tp.partition] = (
                        following  # else this fetch is the proof of a gap at the head
                    )
                self._thread.seek(tp, following)
            else:
                before.extend(fresh)

    def _guard(self, fetched: Mapping[TP, list[Any]], tenure: Tenure) -> MicroBatch | None:
        """Apply rules 2 to 4 to a fetch; no `await`, so that nothing moves meanwhile."""
        handed: list[Record] = []
        contexts: dict[tuple[int, int], bytes] = {}
        starts: dict[int, int] = {}
        ends: dict[int, int] = {}
        for tp, records in fetched.items():
            cursor = self.cursors.get(tp.partition)
            if cursor is None:
                continue
            end = self._tails[tp.partition].end if tp.partition in self._tails else None
            fresh = [
                record
                for record in records
                if record.offset >= cursor and (end is None or record.offset < end)
            ]
            if not fresh:
                continue
            if fresh[0].offset > cursor and self._asked.get(tp.partition) != cursor:
                self._asked[tp.partition] = cursor
                self._thread.seek(tp, cursor)
                continue
            handed.extend(
                Record(r.topic, r.partition, r.offset, r.timestamp or 0, r.key, r.value)
                for r in fresh
            )
            contexts |= self._tracing.contexts(fresh)
            starts[tp.partition] = cursor
            ends[tp.partition] = self.cursors[tp.partition] = fresh[-1].offset + 1
        finished = self._finished()
        starts = {partition: self.cursors[partition] for partition in finished} | starts
        ends |= finished
        self.cursors |= finished
        self._over |= finished.keys()
        return (
            MicroBatch(tuple(handed), starts, ends, tenure, frozenset(finished), contexts)
            if handed or finished
            else None
        )

    def _finished(self) -> dict[int, int]:
        """Partitions of which nothing below their end is left, or undecided, with their ends."""
        finished = {}
        for partition, tail in list(self._tails.items()):
            cursor, position = self.cursors[partition], self.fetch_position(partition) or 0
            if tail.is_in_log and (self._stable_end(partition) or 0) < tail.end:
                continue
            if tail.is_reached(cursor, position):
                finished[partition] = self._tails.pop(partition).end
            elif tail.is_to_be_shown_again(cursor, position):
                self._thread.seek(TP(self._input_topic, partition), cursor)
        return finished

    async def _look_for_holes(self) -> None:
        """Where nothing comes although the log goes on to a partition's end: ask for it alone, or
        say what it waits for.

        Raises SetupError where the topic is not the planned one, or its log ends below the
        end.
        """
        await self._check_input()
        for partition, tail in list(self._tails.items()):
            position, stable = self.fetch_position(partition), self._stable_end(partition)
            if position is None or stable is None or position >= tail.end:
                continue
            if stable < tail.end:
                self._wait(tail, TP(self._input_topic, partition), position, stable)
                continue
            client = self._thread._ensure_consumer()._client
            tp = TP(self._input_topic, partition)
            if await self._thread.call_thread(is_empty, client, tp, position, tail.end):
                tail.is_hole_from(position)

    def _wait(self, tail: Tail, tp: TP, position: int, stable: int) -> None:
        """An open transaction lies before the end, or the log ends below it: nothing would ever
        come then.
        """
        highwater = int(self._fetch_state(tp.partition).highwater)
        if tail.is_cut_short(highwater, self._clock.monotonic()):
            raise cut_short(tp.topic, tp.partition, highwater, tail.end)
        if highwater >= tail.end:
            tail.wait(tp, position, stable)

    async def _check_input(self) -> None:
        """Raise SetupError, from time to time, where the input is another topic than it was;
        see `TopicIds.read`.
        """
        now = self._clock.monotonic()
        if now - self._checked_at < CHECK_SECONDS:
            return
        self._checked_at = now
        try:
            await self._threads.beside(self._ids.read)
        except Unanswered as cause:
            log.debug("could not check the id of %s: %s", self._input_topic, cause)

    def _as_message(self, batch: MicroBatch) -> Any:
        """One Faust message for the whole micro-batch: per-record work in asyncio would be most of
        the cost of an event.
        """
        partition, end = list(batch.ends.items())[-1]
        tp = TP(self._input_topic, partition)
        return driver.ConsumerMessage(
            tp.topic,
            partition,
            max(0, end - 1),
            0.0,
            0,
            (),
            b"",
            batch,
            None,
            0,
            0,
            tp,
            generation_id=batch.tenure.membership.generation,
        )

    # -- what Faust may not do here
    # -----------------------------------------------------------------------------------

    async def _add_gap(self, tp: TP, offset_from: int, offset_to: int) -> None:
        """Gaps are proven by `_guard`, never acknowledged."""

    def _new_offset(self, tp: TP) -> int | None:
        """Offsets are committed by the transaction: there is never one for Faust to commit."""
        self._acked[tp].clear()
        self._acked_index[tp].clear()
        return None

    async def verify_all_partitions_active(self) -> None:
        """Nothing: Faust would judge by fetches of changelogs and by its own commits, which there
        are none of here.

        Whether a partition is processed is looked at by the watchdog.
        """

    # -- what status and watchdog ask
    # ---------------------------------------------------------------------------------

    def stable_end(self, partition: int) -> int | None:
        """The last stable offset of an input partition, None before the first fetch and between
        assignments.

        In a bounded run nothing beyond its end counts.
        """
        stable = self._stable_end(partition)
        return None if stable is None else min(stable, self._bounds.ends.get(partition, stable))

    def _stable_end(self, partition: int) -> int | None:
        state = self._fetch_state(partition)
        return None if state is None or state.lso is None or state.lso < 0 else int(state.lso)

    def undecided(self, partition: int) -> int:
        """Records of an input partition behind an open transaction of an upstream producer, as far
        as fetches told.
        """
        state, stable = self._fetch_state(partition), self.stable_end(partition)
        if state is None or stable is None:
            return 0
        end = int(state.highwater)
        return max(0, min(end, self._bounds.ends.get(partition, end)) - stable)

    def fetch_position(self, partition: int) -> int | None:
        """The offset the next fetch starts from: past transaction markers, where the
        cursor is not.
        """
        state = self._fetch_state(partition)
        return int(state.position) if state is not None and state.has_valid_position else None

    def heard_at(self) -> float | None:
        """`time.monotonic()` of the last answer of any broker, None before the first; connections
        are made by an answer.
        """
        consumer = self._thread._consumer
        connections = list(consumer._client._conns.values()) if consumer is not None else []
        return max((connection._last_action for connection in connections), default=None)

    def _fetch_state(self, partition: int) -> Any:
        """What aiokafka knows of an input partition, None where it is not assigned (its own methods
        assert that it is).
        """
        subscription = self._thread._ensure_consumer()._subscription.subscription
        assignment = subscription.assignment if subscription else None
        return assignment.state_value(TP(self._input_topic, partition)) if assignment else None


class GuardedTransport(driver.Transport):
    """Faust's aiokafka transport with the guarded consumer in it."""

    Consumer = GuardedConsumer

    def __init__(self, url: URL, app: faust.App, worker: StreamWorker) -> None:
        super().__init__(url, app)
        self.worker = worker


def _not_in_log(offsets: Mapping[TP, int]) -> str:
    """What it means that the log has no such offset (any more), by partition."""
    named = ", ".join(
        f"{tp.topic}-{tp.partition} has no offset {offset}" for tp, offset in offsets.items()
    )
    return (
        f"{named}: retention has removed records before they were read, or the log was cut short; keep them for longer than they "
        "wait, put them back if you can, or start over with `coversumm-worker reset`"
    )


def _following(records: Sequence[Any]) -> int:
    return int(records[-1].offset) + 1


def _count(fetched: Mapping[TP, list[Any]]) -> int:
    return sum(len(records) for records in fetched.values())


def _size(fetched: Mapping[TP, list[Any]]) -> int:
    return sum(len(record.value or b"") for records in fetched.values() for record in records)
