"""Rules of delivery, each taken out: what the simulation must find.

A mutation patches the worker's own code for the length of a `with`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from tests.simulation.surroundings import Clients
from worker.errors import InDoubt
from worker.kafka import producer
from worker.kafka.changelog import ChangelogReader
from worker.kafka.clients import READ_TO_END
from worker.kafka.producer import TransactionalProducer
from worker.kafka.transactions import Transactions
from worker.processing import changed_rows
from worker.processing.partitions import Partitions
from worker.processing.processor import Processor
from worker.state.keys import APPLIED
from worker.state.overlay import Overlay
from worker.stream.bounded_reader import BoundedReader
from worker.stream.commit import Commit, CommitQueue
from worker.stream.delivery import Delivery
from worker.stream.faust.consumer import GuardedConsumer
from worker.stream.gate import OFFSET_KEY, Gate
from worker.stream.run_bounds import Ending
from worker.stream.settlement import Settlement
from worker.stream.takeover import Takeover

Mutation = Callable[[], AbstractContextManager[Any]]


def local_rows_before_the_transaction() -> AbstractContextManager[Any]:
    """The local batch is written before the transaction: a crash between leaves rows nobody else
    has.
    """
    commit = Commit.__call__

    def early(self: Any, flight: Any) -> None:
        for partition, changes in flight.batch.rows.items():
            self.gate.databases.write(partition, changes)
        commit(self, flight)

    return patch.object(Commit, "__call__", early)


def changelog_offset_before_its_rows() -> AbstractContextManager[Any]:
    """Offset and rows in two writes: a crash between leaves rows out for good."""
    apply = Gate.apply

    def in_two(
        self: Any, role: Any, epoch: int, partition: int, changes: Any, last: int, after: Any
    ) -> None:
        database = self.databases.open(partition)
        before = database.get(OFFSET_KEY)
        self.databases.write(partition, {OFFSET_KEY: str(last).encode()})
        database.file.rows.write({OFFSET_KEY: before})  # so that the gate takes the rows after it
        apply(self, role, epoch, partition, changes, last, after)

    return patch.object(Gate, "apply", in_two)


def rows_on_their_way_not_seen() -> AbstractContextManager[Any]:
    """What is processed while something is committed is processed on top of the rows
    before that.
    """
    return patch.object(Overlay, "add", lambda self, changes: None)


def sent_before_what_comes_before_it() -> AbstractContextManager[Any]:
    """A transaction is begun as soon as its micro-batch is processed, whatever became of the one
    before.
    """

    async def at_once(self: Any) -> None:
        """Nothing is waited for."""

    return patch.object(CommitQueue, "over", at_once)


def no_seek_back_after_a_dropped_fetch() -> AbstractContextManager[Any]:
    """What a fetch returned and nobody got is not read again."""
    return patch.object(GuardedConsumer, "read_again", lambda self, partitions: None)


def every_jump_believed() -> AbstractContextManager[Any]:
    """A first record above the cursor counts as a gap of the log at once; nothing is read again."""
    guard = GuardedConsumer.guard

    def believing(self: Any, fetched: Any, tenure: Any) -> Any:
        self._asked.update(self.cursors)
        return guard(self, fetched, tenure)

    return _both(
        patch.object(GuardedConsumer, "guard", believing), no_seek_back_after_a_dropped_fetch()
    )


def membership_read_live() -> AbstractContextManager[Any]:
    """The commit goes out under the group's present generation, whoever's the events were."""

    def live(group: str, membership: Any) -> bytes:
        return original(group, membership._replace(generation=-1, member_id=""))

    original = producer.group_metadata
    return _both(
        patch.object(producer, "group_metadata", live),
        patch.object(Delivery, "_check_chain", lambda self, batch: None),
    )


def stale_batches_taken() -> AbstractContextManager[Any]:
    """A micro-batch of a past tenure is delivered under the present one."""
    deliver = Delivery.deliver

    async def taking(self: Any, batch: Any) -> None:
        await deliver(self, replace(batch, tenure=self.assignment.tenure))

    return patch.object(Delivery, "deliver", taking)


def restore_of_uncommitted_rows() -> AbstractContextManager[Any]:
    """Restore and standby read what was never committed."""

    return _isolation("read_committed", READ_TO_END, "read_uncommitted")


def applied_offset_not_in_the_rows() -> AbstractContextManager[Any]:
    """Rows do not tell which records they hold."""
    return patch.object(changed_rows, "put_applied", lambda pending, applied: None)


def applied_records_processed_again() -> AbstractContextManager[Any]:
    """Records below the applied offset count once more."""
    return patch.object(Partitions, "new", lambda self, records: list(range(len(records))))


def caches_kept_over_a_rebalance() -> AbstractContextManager[Any]:
    """What is remembered of a partition outlives its assignment."""
    return patch.object(Processor, "forget", lambda self, partitions: None)


def old_local_state_believed() -> AbstractContextManager[Any]:
    """A database that was away for longer than tombstones live is read on, not rebuilt."""
    start = Gate.restore_start
    return patch.object(
        Gate,
        "restore_start",
        lambda self, partition, bounds: start(self, partition, bounds._replace(horizon=0)),
    )


def garbage_not_noted() -> AbstractContextManager[Any]:
    """A deleted entity's rows are forgotten, not removed."""
    return patch.object(changed_rows, "put_garbage", lambda pending, entity, incarnation: None)


def takeover_of_what_is_committed_by_then() -> AbstractContextManager[Any]:
    """The takeover waits for no transaction of its predecessor, neither for its offsets nor for its
    rows.
    """

    return _both(
        patch("tests.simulation.broker.Group.is_pending", lambda self, partitions: False),
        _isolation("read_uncommitted", {}, "read_committed"),
    )


def restore_to_the_end_of_its_beginning() -> AbstractContextManager[Any]:
    """A restore ends as soon as it has passed the end that it was given, wherever that
    is by then.
    """
    restore = ChangelogReader.restore

    def once(self: Any, goals: Any, on_progress: Any) -> int:
        restore(self, goals, on_progress)
        return 0

    return patch.object(ChangelogReader, "restore", once)


def acknowledged_before_it_is_committed() -> AbstractContextManager[Any]:
    """A rebalance waits for what is processed, not for its commit."""

    async def at_once(self: Any, work: Any) -> None:
        await work(True)

    return patch.object(CommitQueue, "then", at_once)


def failed_commits_passed_over() -> AbstractContextManager[Any]:
    """After a failed commit the worker aborts and goes on with the next micro-batch."""
    commit = Commit.__call__

    def passing_over(self: Any, flight: Any) -> None:
        try:
            commit(self, flight)
        except InDoubt:
            self.processor.committed(flight.batch)

    return patch.object(Commit, "__call__", passing_over)


def doubtful_commits_retried() -> AbstractContextManager[Any]:
    """After a commit without an answer the worker commits the same once more, without a look at
    what became of the first.
    """
    commit = TransactionalProducer.commit

    def again(self: Any, *arguments: Any) -> dict[int, int]:
        try:
            return commit(self, *arguments)
        except InDoubt:
            return commit(self, *arguments)

    return patch.object(TransactionalProducer, "commit", again)


def doubts_not_decided() -> AbstractContextManager[Any]:
    """It is looked at what is committed while the transaction may still be: offsets and rows as of
    now, whoever holds the id.
    """
    return _both(
        patch.object(Transactions, "decide", lambda self, seconds: None),
        takeover_of_what_is_committed_by_then(),
    )


def doubts_taken_for_failures() -> AbstractContextManager[Any]:
    """What a commit in doubt would have committed is done again from where the worker was, not from
    where the group is.
    """
    fetch_starts = Takeover.fetch_starts

    async def as_before(self: Any) -> Any:
        held = dict(self.assignment.positions) or getattr(self, "_held_before", {})
        starts = await fetch_starts(self)
        if self.assignment.doubt is not None:
            starts = {
                p: start._replace(offset=held.get(p, start.offset)) for p, start in starts.items()
            }
            self.assignment.starts = starts
        return starts

    def let_go(self: Any) -> Any:
        self._held_before = dict(self.assignment.positions)
        return original(self)

    original = Takeover.let_go
    return _both(
        patch.object(Takeover, "fetch_starts", as_before),
        patch.object(Takeover, "let_go", let_go),
        patch.object(Partitions, "new", lambda self, records: list(range(len(records)))),
    )


def caches_kept_over_a_doubt() -> AbstractContextManager[Any]:
    """What was processed and not committed is remembered as if it were."""
    forget = Processor.forget

    def keeping(self: Any, partitions: Any) -> None:
        if not self.in_doubt:
            forget(self, partitions)

    settle = Settlement.settle

    async def marking(self: Any, doubt: Any, next_offsets: Any) -> bool:
        processor = self.takeover.processor.processor
        processor.in_doubt = True
        try:
            return await settle(self, doubt, next_offsets)
        finally:
            processor.in_doubt = False

    return _both(
        patch.object(Processor, "in_doubt", False, create=True),
        patch.object(Processor, "forget", keeping),
        patch.object(Settlement, "settle", marking),
    )


def open_transactions_below_the_end_passed_over() -> AbstractContextManager[Any]:
    """A partition whose last stable offset lies below its end is finished."""
    return patch.object(GuardedConsumer, "last_stable_offset", lambda self, partition: 10**9)


def records_beyond_the_end_handed_over() -> AbstractContextManager[Any]:
    """What lies beyond the end is processed too."""
    return patch.object(BoundedReader, "_below_ends", lambda self, fetched: fetched)


def notes_forgotten() -> AbstractContextManager[Any]:
    """The account is kept in memory, and not committed."""
    commit = TransactionalProducer.commit

    def without(self: Any, *arguments: Any) -> dict[int, int]:
        *others, _notes = arguments
        return commit(self, *others, {})

    return patch.object(TransactionalProducer, "commit", without)


def finals_apart_from_their_rows() -> AbstractContextManager[Any]:
    """What is published at the end goes out in one transaction, and its row away in the next."""
    finish = Processor.finish

    def in_two(self: Any, partition: int, end: int) -> Any:
        batch = finish(self, partition, end)
        if not batch.messages or getattr(self, "is_published", False):
            self.is_published = False
            return replace(batch, messages=[])
        self.is_published = True
        applied = self._partitions[partition].next_offset or 0
        rows = {
            key: value
            for key, value in batch.rows[partition].items()
            if value is not None and key != APPLIED
        }
        return replace(
            batch, rows={partition: rows}, next_offsets={partition: applied}, is_end=False
        )

    return patch.object(Processor, "finish", in_two)


def finals_of_deleted_entities() -> AbstractContextManager[Any]:
    """The last change of an entity outlives it."""
    put = changed_rows.put_last_change

    def keeping(pending: Any, entity: bytes, topic: Any, change: Any) -> None:
        if change is not None:
            put(pending, entity, topic, change)

    return patch.object(changed_rows, "put_last_change", keeping)


def ends_with_its_own_partitions() -> AbstractContextManager[Any]:
    """A process ends when nothing is left to be done here, whatever the others have to do."""

    async def here(self: Any) -> bool:
        return True

    return patch.object(Ending, "_is_over", here)


def _isolation(wanted: str, options: Any, level: str) -> AbstractContextManager[Any]:
    """Consumers that are asked for at the wanted level with these options read at another."""
    standalone_consumer = Clients.standalone_consumer

    def other(self: Any, group: str, isolation: str, given: Any = None) -> Any:
        isolation = level if (isolation, given or {}) == (wanted, options) else isolation
        return standalone_consumer(self, group, isolation, given or {})

    return patch.object(Clients, "standalone_consumer", other)


def _both(*patches: Any) -> AbstractContextManager[Any]:
    stack = ExitStack()
    for manager in patches:
        stack.enter_context(manager)
    return stack


MUTATIONS: dict[str, Mutation] = {
    mutation.__name__: mutation
    for mutation in (
        local_rows_before_the_transaction,
        changelog_offset_before_its_rows,
        rows_on_their_way_not_seen,
        sent_before_what_comes_before_it,
        no_seek_back_after_a_dropped_fetch,
        every_jump_believed,
        membership_read_live,
        stale_batches_taken,
        restore_of_uncommitted_rows,
        applied_offset_not_in_the_rows,
        applied_records_processed_again,
        caches_kept_over_a_rebalance,
        old_local_state_believed,
        garbage_not_noted,
        takeover_of_what_is_committed_by_then,
        acknowledged_before_it_is_committed,
        failed_commits_passed_over,
        doubtful_commits_retried,
        doubts_not_decided,
        doubts_taken_for_failures,
        caches_kept_over_a_doubt,
    )
}

REPLAY_MUTATIONS: dict[str, Mutation] = {
    mutation.__name__: mutation
    for mutation in (
        records_beyond_the_end_handed_over,
        notes_forgotten,
        finals_apart_from_their_rows,
        finals_of_deleted_entities,
        ends_with_its_own_partitions,
        open_transactions_below_the_end_passed_over,
    )
}
"""Those that replays bring to light. `make test` tries the first; the last takes 200 seeds."""

FOCUS = {
    "no_seek_back_after_a_dropped_fetch": "slow_fetch",
    "every_jump_believed": "slow_fetch",
    "old_local_state_believed": "absence",
    "takeover_of_what_is_committed_by_then": "zombie",
    "membership_read_live": "zombie",
    "acknowledged_before_it_is_committed": "zombie",
    "rows_on_their_way_not_seen": "arm",
    "sent_before_what_comes_before_it": "arm",
    "failed_commits_passed_over": "arm",
    "doubtful_commits_retried": "arm",
    "doubts_not_decided": "arm",
    "doubts_taken_for_failures": "arm",
    "caches_kept_over_a_doubt": "arm",
}
"""The kind of step that brings a mutation to light the soonest: in plans full of it, tests need
fewer seeds.
"""
