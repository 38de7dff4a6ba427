"""Guarded consumer: hands over every record of an assignment exactly once, in order, or proves that there is none.

Faust's own delivery loses runs of events at rebalances: a fetch that began before the seek delivers on beside it, and jumps in
the offsets are taken for compaction and acknowledged. Here the unit is the *micro-batch*, one fetch over all partitions,
handed to the agent as one message, and one cursor per partition decides what may be in it:

1. Input partitions are fetched only between a finished seek and the next rebalance.
2. Records below the cursor are dropped: they were handed over already.
3. A first record above the cursor is believed only when a second fetch from the cursor shows it again (compaction, transaction
   markers, retention); a jump inside one fetch is such a gap.
4. The cursor moves when a micro-batch is handed over, all of it or nothing.

Faust commits no offsets: the transaction does (`worker.kafka.transaction`). Changelogs are never fetched through here: a
takeover restores them (`worker.stream.takeover`).
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping
from typing import Any

import faust
from aiokafka.errors import NoOffsetForPartitionError
from faust.transport.drivers import aiokafka as driver
from faust.types import TP
from yarl import URL

from worker.errors import Crash
from worker.events import Record
from worker.kafka.membership import Membership
from worker.stream.assignment import Tenure
from worker.stream.consumer_thread import ConsumerThread
from worker.stream.faust_log import FAUST_LOG
from worker.stream.micro_batch import MicroBatch
from worker.stream.worker import StreamWorker

log = logging.getLogger(__name__)


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
        self._instance_id = worker.settings.group_instance_id
        self._linger_seconds = worker.settings.batch_linger_ms / 1000
        self._batch_events = worker.settings.batch_size
        self._die = worker.surroundings.die

    def _new_consumer_thread(self) -> ConsumerThread:
        return ConsumerThread(self, loop=self.loop, beacon=self.beacon)

    # -- assignment ---------------------------------------------------------------------------------------------------

    async def on_partitions_revoked(self, revoked: set[TP]) -> None:
        """Stop handing over; a commit under way ends under the old membership, and what is not begun is read again."""
        self._held.revoke()
        await super().on_partitions_revoked(revoked)

    async def on_partitions_assigned(self, assigned: set[TP], generation_id: int = 0) -> None:
        """Capture the membership; cursors come from the seek after the restore."""
        self.cursors.clear()
        self._asked.clear()
        coordinator = self._thread._ensure_consumer()._coordinator
        membership = Membership(coordinator.generation, coordinator.member_id, self._instance_id)
        if membership.generation < 0 or not membership.member_id:
            self._die(Crash("the group coordinator assigned partitions without a membership"))
        self._held.assign(membership, frozenset(tp.partition for tp in assigned if self._is_input(tp)))
        await super().on_partitions_assigned(assigned, generation_id)

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
        for partition, start in starts.items():
            await self.seek(TP(self._input_topic, partition), start.offset)
            self.cursors[partition] = start.offset
        held.flow()

    # -- fetching -----------------------------------------------------------------------------------------------------

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
        """Nothing: a full queue holds the next micro-batch back by itself, whatever partitions it is of."""

    async def _drain_messages(self, fetcher: Any) -> None:
        """Run the fetch loop (Faust calls it from its fetcher service)."""
        try:
            while not (self.should_stop or fetcher.should_stop):
                batch = await self._next_micro_batch()
                if batch is not None:
                    await self.callback(self._as_message(batch))
        except (*self.consumer_stopped_errors, asyncio.CancelledError):
            if self.app.should_stop or fetcher.should_stop:
                return
            raise
        except Exception as cause:
            self._die(cause)

    async def _next_micro_batch(self) -> MicroBatch | None:
        tenure = self._held.tenure
        fetched, more = await self._fetch(timeout_seconds=1.0), {}
        if fetched and self._linger_seconds and _count(fetched) < self._batch_events:
            await self.sleep(self._linger_seconds)
            more = await self._fetch(timeout_seconds=0.0)
        if fetched and tenure is not None and self.flow_active and tenure == self._held.tenure:
            self._merge(fetched, more)
            return self._guard(fetched, tenure)
        self._read_again(fetched | more)
        return None

    async def _fetch(self, timeout_seconds: float) -> dict[TP, list[Any]]:
        tps = {tp for tp in self._get_active_partitions() if self._is_input(tp)}
        if not (tps and self._held.is_flowing and self.flow_active):
            await self.sleep(0.02 if timeout_seconds else 0)
            return {}
        try:
            return dict(await self._getmany(tps, timeout_seconds))
        except NoOffsetForPartitionError as stale:
            # aiokafka looked for a committed offset between the assignment and our seek, found none, and kept the error for
            # the first fetch after it. Every cursor is explicit here; if it came back for ever, the watchdog would end it.
            log.debug("fetching again: %r", stale)
            self._read_again(tps)
            return {}

    def _read_again(self, fetched: Iterable[TP]) -> None:
        """Go back to the cursors after a fetch that is dropped: it may have read on from where the seek had just put them."""
        for tp in fetched:
            if self._held.is_flowing and tp.partition in self.cursors:
                self._thread.seek(tp, self.cursors[tp.partition])

    def _merge(self, fetched: dict[TP, list[Any]], more: Mapping[TP, list[Any]]) -> None:
        """Append a second fetch to the first; a jump between the two is no jump inside one, and is to be read again."""
        for tp, records in more.items():
            before = fetched.setdefault(tp, [])
            following = before[-1].offset + 1 if before else None
            fresh = [record for record in records if following is None or record.offset >= following]
            if following is not None and fresh and fresh[0].offset > following:
                self._asked[tp.partition] = following
                self._thread.seek(tp, following)
            else:
                before.extend(fresh)

    def _guard(self, fetched: Mapping[TP, list[Any]], tenure: Tenure) -> MicroBatch | None:
        """Apply rules 2 to 4 to a fetch; no `await`, so that nothing moves meanwhile."""
        handed: list[Record] = []
        starts: dict[int, int] = {}
        ends: dict[int, int] = {}
        for tp, records in fetched.items():
            cursor = self.cursors.get(tp.partition)
            if cursor is None:
                continue
            fresh = [record for record in records if record.offset >= cursor]
            if not fresh:
                continue
            if fresh[0].offset > cursor and self._asked.get(tp.partition) != cursor:
                self._asked[tp.partition] = cursor
                self._thread.seek(tp, cursor)
                continue
            handed.extend(
                Record(r.topic, r.partition, r.offset, r.timestamp or 0, r.key, r.value) for r in fresh
            )
            starts[tp.partition] = cursor
            ends[tp.partition] = self.cursors[tp.partition] = fresh[-1].offset + 1
        return MicroBatch(tuple(handed), starts, ends, tenure) if handed else None

    def _as_message(self, batch: MicroBatch) -> Any:
        """One Faust message for the whole micro-batch: per-record work in asyncio would be most of the cost of an event."""
        last = batch.records[-1]
        tp = TP(last.topic, last.partition)
        return driver.ConsumerMessage(
            last.topic,
            last.partition,
            last.offset,
            last.timestamp_ms / 1000,
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

    # -- what Faust may not do here -----------------------------------------------------------------------------------

    async def _add_gap(self, tp: TP, offset_from: int, offset_to: int) -> None:
        """Gaps are proven by `_guard`, never acknowledged."""

    def _new_offset(self, tp: TP) -> int | None:
        """Offsets are committed by the transaction: there is never one for Faust to commit."""
        self._acked[tp].clear()
        self._acked_index[tp].clear()
        return None

    async def verify_all_partitions_active(self) -> None:
        """Nothing: Faust would judge by fetches of changelogs and by its own commits, which there are none of here.

        Whether a partition is processed is looked at by the watchdog.
        """

    # -- what status and watchdog ask ---------------------------------------------------------------------------------

    def stable_end(self, partition: int) -> int | None:
        """The last stable offset of an input partition, None before the first fetch and between assignments."""
        state = self._fetch_state(partition)
        return None if state is None or state.lso is None or state.lso < 0 else int(state.lso)

    def undecided(self, partition: int) -> int:
        """Records of an input partition behind an open transaction of an upstream producer, as far as fetches told."""
        state, stable = self._fetch_state(partition), self.stable_end(partition)
        return 0 if state is None or stable is None else max(0, int(state.highwater) - stable)

    def fetch_position(self, partition: int) -> int | None:
        """The offset the next fetch starts from: past transaction markers, where the cursor is not."""
        state = self._fetch_state(partition)
        return int(state.position) if state is not None and state.has_valid_position else None

    def heard_at(self) -> float | None:
        """`time.monotonic()` of the last answer of any broker, None before the first; connections are made by an answer."""
        consumer = self._thread._consumer
        connections = list(consumer._client._conns.values()) if consumer is not None else []
        return max((connection._last_action for connection in connections), default=None)

    def _fetch_state(self, partition: int) -> Any:
        """What aiokafka knows of an input partition, None where it is not assigned (its own methods assert that it is)."""
        subscription = self._thread._ensure_consumer()._subscription.subscription
        assignment = subscription.assignment if subscription else None
        return assignment.state_value(TP(self._input_topic, partition)) if assignment else None


class GuardedTransport(driver.Transport):
    """Faust's aiokafka transport with the guarded consumer in it."""

    Consumer = GuardedConsumer

    def __init__(self, url: URL, app: faust.App, worker: StreamWorker) -> None:
        super().__init__(url, app)
        self.worker = worker


def _count(fetched: Mapping[TP, list[Any]]) -> int:
    return sum(len(records) for records in fetched.values())
