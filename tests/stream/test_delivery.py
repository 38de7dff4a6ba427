"""The commit protocol: what it drops, what it refuses, in which order it commits, and what a doubt
ends.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from tests.harness.eventually import eventually_here
from tests.harness.patience import PATIENCE_SECONDS
from tests.harness.stream import End, Group, Ids, WatchedThreads, die
from worker.errors import Crash, Fenced, InDoubt, Unanswered
from worker.events import Message, Record
from worker.kafka.group import Membership
from worker.processing.pace import TransactionSize
from worker.processing.processor import ProcessedBatch
from worker.processing.stats import Stats
from worker.state import FingerprintMismatch
from worker.stream.assignment import Assignment, Tenure
from worker.stream.commit import Commit, CommitQueue
from worker.stream.delivery import Delivery, MicroBatch
from worker.stream.feed import ChangeFeed
from worker.stream.journal import DeadLetterLog, Journal
from worker.stream.run_bounds import NO_LEDGER, Ledger
from worker.stream.surroundings import ProcessorThread, Surroundings, Threads

MEMBER = Membership(5, "member")
NOW = Tenure(3, MEMBER)
MESSAGE = Message("out", 0, b"k", b"v", [])


class Rig:
    """A delivery between fakes, and the order in which it uses them."""

    def __init__(
        self,
        takes: int = 1000,
        ledger: Ledger = NO_LEDGER,
        size: TransactionSize | None = None,
        schemas: Any = None,
    ) -> None:
        self.log: list[Any] = []
        self.feed = ChangeFeed(MESSAGE.topic, "facets", Threads())
        self.notes: list[dict[int, str]] = []  # of each transaction
        self.epochs: list[int] = []  # under which rows were written
        self.done: list[MicroBatch] = []
        self.left: dict[int, int] = {}  # by partition, transactions of its end that are left
        self.takes = takes  # records that the processor takes at once
        self.failures: dict[str, Exception] = {}
        self.ids = Ids()
        self.stored = (
            99  # the changelog offset of every partition; a commit's rows end at 100 and more
        )
        self.group: Any = Group()
        self.rows_of: Callable[[int], dict[bytes, bytes | None]] = lambda partition: {b"row": b"1"}
        self.blocked: threading.Event | None = None
        # what a doubt comes to, and what happens until then
        self.settles: Callable[[], bool] = lambda: False
        self.metrics: Any = SimpleNamespace(
            observe_batch=lambda stats: self._note("observe"),
            observe_doubt=lambda committed: self._note("doubt", committed),
            observe_commit=lambda seconds: None,
        )
        logs: Any = SimpleNamespace(
            input=SimpleNamespace(topic="in"),
            changelog=SimpleNamespace(topic="changelog"),
            ids=self.ids,
            output="out",
            facets=None,
        )
        producer: Any = SimpleNamespace(commit=self._transaction)
        gate: Any = SimpleNamespace(
            write=lambda *given: self.write_step(*given),
            stored_offset=lambda partition: self.stored,
        )
        processor: Any = self
        self.threads = WatchedThreads()
        surroundings = Surroundings(
            clients=None,  # type: ignore[arg-type]
            databases=None,  # type: ignore[arg-type]
            threads=self.threads,
            die=die,
        )
        self.assignment = Assignment(surroundings.clock, Journal(surroundings.clock, 2))
        settings: Any = SimpleNamespace(input_topic="in")
        settlement: Any = SimpleNamespace(
            settle=self._settle,
            commit_answered=lambda: self._note("commit answered"),
            commit_begins=lambda: None,
        )
        commit = Commit(
            producer,
            logs,
            self.group,
            gate,
            processor,
            self.metrics,
            DeadLetterLog(surroundings.threads),
            self.feed,
            size or TransactionSize(),
            surroundings.clock,
            ledger,
        )
        self.delivery = Delivery(
            settings,
            self.assignment,
            ProcessorThread(processor, surroundings.threads.in_order("processing")),
            CommitQueue(commit, settlement, self.assignment, surroundings),
            surroundings,
            schemas,
        )

    async def deliver(self, batch: MicroBatch) -> None:
        """Deliver it, and wait until nothing of it is under way any more, or the process
        has ended.
        """
        await self.begin(batch)
        await self.threads.all_ended()

    async def begin(self, batch: MicroBatch) -> None:
        """Deliver it, until the next one may come."""

        async def done() -> None:
            self.done.append(batch)

        await self.delivery.deliver(batch, done)

    def _note(self, what: str, *details: Any) -> None:
        self.log.append((what, *details) if details else what)
        if what in self.failures:
            raise self.failures[what]

    # the processor

    def process(self, records: Sequence[Record]) -> ProcessedBatch:
        self._note("process", [(r.partition, r.offset) for r in records])
        taken = records[: self.takes]
        next_offsets = {r.partition: r.offset + 1 for r in taken}
        rows = {p: self.rows_of(p) for p in next_offsets}
        return ProcessedBatch([MESSAGE], rows, next_offsets, Stats(), [], len(taken))

    def finish(self, partition: int, end: int) -> ProcessedBatch:
        self._note("finish", partition, end)
        self.left[partition] = left = self.left.get(partition, 1) - 1
        return ProcessedBatch(
            [MESSAGE],
            {partition: self.rows_of(partition)},
            {partition: end if not left else end - 1},
            Stats(),
            [],
            0,
            not left,
        )

    def committed(self, batch: ProcessedBatch) -> None:
        self._note("caches")

    # producer and gate

    def _transaction(
        self,
        messages: Any,
        changelog: str,
        rows: Mapping[int, Any],
        input_topic: str,
        next_offsets: Mapping[int, int],
        membership: Membership,
        check: Callable[[Mapping[int, int]], None],
        notes: Mapping[int, str],
    ) -> dict[int, int]:
        self._note("transaction", dict(next_offsets), membership)
        self.notes.append(dict(notes))
        last_offsets = {p: 100 + p for p, changes in rows.items() if changes}
        check(last_offsets)
        assert (list(messages), changelog, input_topic) == ([MESSAGE], "changelog", "in")
        if self.blocked:
            self.blocked.wait(PATIENCE_SECONDS)
        self.transaction_step()
        if "answer" in self.failures:
            raise self.failures["answer"]
        return last_offsets

    def transaction_step(self) -> None:
        """What a transaction waits for, and what it is answered."""

    def write_step(self, epoch: int, partition: int, changes: Any, last_offset: int) -> None:
        self.epochs.append(epoch)
        self._note("write", partition, dict(changes), last_offset)

    async def _settle(self, doubt: InDoubt, next_offsets: Mapping[int, int]) -> bool:
        self._note("settle", str(doubt), dict(next_offsets))
        self.assignment.suspend(str(doubt))
        return self.settles()

    def take_over(self, **starts: int) -> None:
        """A takeover has ended: these partitions are processed from these offsets on."""
        self.assignment.epoch, self.assignment.membership = NOW
        self.assignment.is_flowing = True
        self.assignment.positions = {int(name[1:]): offset for name, offset in starts.items()}

    def take_over_again(self, **starts: int) -> None:
        """The takeover that settles a doubt has ended, under the same membership."""
        self.take_over(**starts)
        self.assignment.epoch += 1

    def transactions(self) -> list[dict[int, int]]:
        """The offsets of all that were begun, in order."""
        return [entry[1] for entry in self.log if entry[0] == "transaction"]

    def steps(self, *names: str) -> list[str]:
        """What was done, in order; only these, where any are named."""
        done = [entry if isinstance(entry, str) else entry[0] for entry in self.log]
        return [name for name in done if not names or name in names]


def batch(*records: tuple[int, int], starts: dict[int, int], tenure: Tenure = NOW) -> MicroBatch:
    made = tuple(Record("in", p, offset, 0, b"", b"") for p, offset in records)
    return MicroBatch(made, starts, {p: offset + 1 for p, offset in records}, tenure)


class NotingLedger(Ledger):
    """Notes each batch by its number, and records those that are committed."""

    def __init__(self) -> None:
        self.number = 0
        self.commits: list[Any] = []

    def notes(self, batch: ProcessedBatch) -> Mapping[int, str]:
        self.number += 1
        return dict.fromkeys(batch.next_offsets, f"note {self.number}")

    def committed(self, batch: ProcessedBatch, notes: Mapping[int, str]) -> None:
        self.commits.append((dict(batch.next_offsets), dict(notes)))


# -- the end of a bounded run ----------------------------------------------------------------------


async def test_a_commit_has_the_notes_of_its_batch_and_then_the_ledger_gets_it() -> None:
    ledger = NotingLedger()
    rig = Rig(ledger=ledger)
    rig.take_over(p0=5, p1=8)
    await rig.deliver(batch((0, 5), (1, 8), starts={0: 5, 1: 8}))
    assert rig.notes == [{0: "note 1", 1: "note 1"}]
    assert ledger.commits == [({0: 6, 1: 9}, {0: "note 1", 1: "note 1"})]


async def test_a_partition_is_finished_after_its_last_records_in_any_number_of_transactions() -> (
    None
):
    rig = Rig()
    rig.take_over(p0=5, p1=8)
    rig.left = {1: 3}
    last = batch((0, 5), (1, 8), starts={0: 5, 1: 8})
    last = MicroBatch(last.records, last.starts, {0: 6, 1: 12}, last.tenure, frozenset({1}))
    await rig.deliver(last)
    assert [entry for entry in rig.log if entry[0] in ("process", "finish")] == [
        ("process", [(0, 5), (1, 8)]),
        ("finish", 1, 12),
        ("finish", 1, 12),
        ("finish", 1, 12),
    ]
    assert rig.transactions() == [{0: 6, 1: 9}, {1: 11}, {1: 11}, {1: 12}]
    assert rig.assignment.positions == {0: 6, 1: 12}


async def test_partitions_without_records_are_finished_each_by_itself() -> None:
    rig = Rig()
    rig.take_over(p0=5, p1=8)
    await rig.deliver(MicroBatch((), {1: 8, 0: 5}, {1: 8, 0: 7}, NOW, frozenset({0, 1})))
    assert [entry for entry in rig.log if entry[0] in ("process", "finish")] == [
        ("finish", 0, 7),
        ("finish", 1, 8),
    ]
    assert rig.assignment.positions == {0: 7, 1: 8}


async def test_a_rebalance_ends_an_end_between_two_of_its_transactions() -> None:
    rig = Rig()
    rig.take_over(p0=5)
    rig.left = {0: 3}

    def revoke(partition: int) -> dict[bytes, bytes | None]:
        if rig.left[partition] == 1:
            rig.assignment.revoke()
        return {}

    rig.rows_of = revoke
    await rig.deliver(MicroBatch((), {0: 5}, {0: 7}, NOW, frozenset({0})))
    assert rig.steps("finish") == ["finish", "finish"]
    assert rig.transactions() == [{0: 6}]
    assert rig.assignment.positions == {0: 5}


async def test_a_doubt_about_an_end_is_settled_and_the_rest_is_for_who_takes_over() -> None:
    rig = Rig()
    rig.take_over(p0=5, p1=8)
    rig.failures = {"transaction": InDoubt("no answer")}
    await rig.deliver(MicroBatch((), {0: 5, 1: 8}, {0: 7, 1: 8}, NOW, frozenset({0, 1})))
    assert [entry for entry in rig.log if entry[0] == "settle"] == [("settle", "no answer", {0: 7})]
    assert rig.transactions() == [{0: 7}]


# -- the order -------------------------------------------------------------------------------------


async def test_process_then_transaction_then_local_rows_then_caches() -> None:
    rig = Rig()
    rig.take_over(p0=5, p1=8)
    await rig.deliver(batch((0, 5), (0, 6), (1, 9), starts={0: 5, 1: 8}))
    assert rig.log == [
        ("process", [(0, 5), (0, 6), (1, 9)]),
        ("transaction", {0: 7, 1: 10}, MEMBER),
        ("write", 0, {b"row": b"1"}, 100),
        ("write", 1, {b"row": b"1"}, 101),
        "caches",
        "observe",
        "commit answered",
    ]
    assert rig.assignment.positions == {0: 7, 1: 10}
    assert not rig.assignment.progress.is_busy


async def test_the_next_micro_batch_may_come_when_the_last_commit_of_this_one_has_begun() -> None:
    rig = Rig()
    rig.take_over(p0=5)
    first, second = batch((0, 5), starts={0: 5}), batch((0, 6), starts={0: 6})
    seen: list[tuple[bool, bool]] = []

    def look(_partition: int) -> dict[bytes, bytes | None]:
        seen.append((rig.delivery.commit_started(first), rig.delivery.commit_started(second)))
        return {b"row": b"1"}

    rig.rows_of = look  # while it is processed
    await rig.begin(first)
    await rig.begin(second)
    assert seen == [(False, False), (True, False)]
    assert rig.delivery.commit_started(second)
    assert not rig.delivery.commit_started(first)
    rig.take_over(p0=9)
    dropped = batch((0, 7), starts={0: 7}, tenure=NOW)
    await rig.begin(dropped)
    assert rig.delivery.commit_started(dropped)
    await rig.threads.all_ended()


async def test_subscribers_see_changes_after_the_commit_and_never_before() -> None:
    rig = Rig()
    rig.take_over(p0=5)
    rig.feed.subscribe([b"k"])
    seen: list[int] = []
    rig.rows_of = lambda _partition: seen.append(rig.feed.take().changes) or {b"row": b"1"}
    await rig.deliver(batch((0, 5), starts={0: 5}))
    assert seen == [0]  # its rows are made before the transaction
    lately = rig.feed.take()
    assert (lately.changes, lately.last, lately.watched) == (1, [MESSAGE], {b"k": (1, [MESSAGE])})
    rig.failures = {"transaction": Crash("refused")}
    with pytest.raises(End):
        await rig.deliver(batch((0, 6), starts={0: 6}))
    assert rig.feed.take().changes == 0


@pytest.mark.parametrize(
    "failure", [Crash("refused"), Fenced("another one"), RuntimeError("unexpected"), MemoryError()]
)
async def test_a_transaction_that_failed_without_a_doubt_ends_the_process_and_writes_nothing(
    failure: Exception,
) -> None:
    rig = Rig()
    rig.take_over(p0=5)
    rig.failures = {"transaction": failure}
    with pytest.raises(End) as end:
        await rig.deliver(batch((0, 5), starts={0: 5}))
    assert end.value.cause is failure
    assert rig.steps() == ["process", "transaction"]
    assert rig.assignment.positions == {0: 5}


async def test_another_fingerprint_in_the_group_refuses_the_commit() -> None:
    rig = Rig()
    rig.take_over(p0=5)
    await rig.deliver(batch((0, 5), starts={0: 5}))
    assert rig.group.calls == ["check", "agreed"]  # from here on everybody else finds this one
    rig.log.clear()
    rig.group.refusal = FingerprintMismatch({"k": ("5", "6")})
    with pytest.raises(End) as end:
        await rig.deliver(batch((0, 6), starts={0: 6}))
    assert end.value.cause is rig.group.refusal
    assert rig.steps() == ["process", "transaction"]
    assert rig.group.calls[2:] == ["check"]


@pytest.mark.parametrize("step", ["process", "write", "caches"])
async def test_a_failure_of_any_step_ends_the_process(step: str) -> None:
    rig = Rig()
    rig.take_over(p0=5)
    rig.failures = {step: RuntimeError("unexpected")}
    with pytest.raises(End) as end:
        await rig.deliver(batch((0, 5), starts={0: 5}))
    assert end.value.cause is rig.failures[step]
    assert rig.steps()[-1] == step


@pytest.mark.parametrize("step", ["transaction", "process"])
async def test_the_event_loop_continues(step: str) -> None:
    """It heartbeats and answers requests while librdkafka or the model works."""
    rig = Rig()
    rig.take_over(p0=5)
    rig.blocked = threading.Event()
    if step == "process":
        process = rig.process
        rig.process = lambda records: (rig.blocked.wait(PATIENCE_SECONDS), process(records))[1]  # type: ignore[method-assign, union-attr]
    running = asyncio.ensure_future(rig.deliver(batch((0, 5), starts={0: 5})))
    await rig.threads.idle(held=1)
    assert not running.done()
    assert rig.assignment.progress.is_busy
    rig.blocked.set()
    await running


# -- the next one, while one is committed ----------------------------------------------------------


class Held:
    """A step of the rig that waits for a signal, the first time; or for the end of its test."""

    def __init__(self, rig: Rig, step: str) -> None:
        self.reached, self._continue = threading.Event(), threading.Event()
        self._loop = asyncio.get_running_loop()
        self._original = getattr(rig, step)
        setattr(rig, step, self)

    def __call__(self, *arguments: Any) -> Any:
        result = self._original(*arguments)
        if not self.reached.is_set():
            self.reached.set()
            while not (self._continue.wait(0.02) or self._loop.is_closed()):
                pass
        return result

    async def wait(self) -> None:
        assert await asyncio.to_thread(self.reached.wait, PATIENCE_SECONDS)

    def go_on(self) -> None:
        self._continue.set()


@pytest.mark.parametrize("step", ["transaction_step", "write_step", "committed"])
async def test_it_is_processed_meanwhile_and_sent_when_the_rows_of_the_one_before_are_stored(
    step: str,
) -> None:
    rig = Rig()
    rig.take_over(p0=5)
    held = Held(rig, step)
    await rig.begin(batch((0, 5), starts={0: 5}))
    await held.wait()
    ahead = asyncio.ensure_future(rig.begin(batch((0, 6), starts={0: 6})))
    await eventually_here(lambda: rig.steps("process") == ["process", "process"])
    await rig.threads.idle(held=1)
    assert rig.transactions() == [{0: 6}]
    assert not ahead.done()  # so a third one does not come
    assert (rig.done, rig.assignment.positions) == ([], {0: 5})
    held.go_on()
    await ahead
    await rig.threads.all_ended()
    assert rig.steps("transaction", "write", "caches") == ["transaction", "write", "caches"] * 2
    assert rig.assignment.positions == {0: 7}
    assert [transaction.ends for transaction in rig.done] == [{0: 6}, {0: 7}]
    assert rig.epochs == [NOW.epoch, NOW.epoch]


async def test_a_commit_under_way_is_work_for_the_watchdog() -> None:
    rig = Rig()
    rig.take_over(p0=5)
    held = Held(rig, "transaction_step")
    await rig.begin(batch((0, 5), starts={0: 5}))
    await held.wait()
    assert rig.assignment.progress.is_busy
    held.go_on()
    await rig.threads.all_ended()
    assert not rig.assignment.progress.is_busy


async def test_what_is_ahead_when_the_group_takes_the_partitions_back_is_thrown_away() -> None:
    rig = Rig()
    rig.take_over(p0=5)
    held = Held(rig, "transaction_step")
    await rig.begin(batch((0, 5), starts={0: 5}))
    await held.wait()
    ahead = asyncio.ensure_future(rig.begin(batch((0, 6), starts={0: 6})))
    await eventually_here(lambda: rig.steps("process") == ["process", "process"])
    rig.assignment.revoke()
    late = asyncio.ensure_future(rig.begin(batch((0, 7), starts={0: 7})))
    held.go_on()
    await asyncio.gather(ahead, late)
    await rig.threads.all_ended()
    assert rig.transactions() == [{0: 6}]
    assert rig.steps("process") == ["process", "process"]
    assert rig.assignment.positions == {0: 6}  # what was committed, was
    assert len(rig.done) == 3


async def test_what_is_processed_when_the_group_takes_the_partitions_back_is_not_begun() -> None:
    rig = Rig()
    rig.take_over(p0=5)
    rig.rows_of = lambda partition: (rig.assignment.revoke(), {})[1]  # type: ignore[func-returns-value]
    await rig.deliver(batch((0, 5), starts={0: 5}))
    assert rig.steps() == ["process"]
    assert (len(rig.done), rig.assignment.positions) == (1, {0: 5})


@pytest.mark.parametrize("is_settled_here", [True, False])
async def test_what_is_ahead_of_a_doubt_is_thrown_away(is_settled_here: bool) -> None:
    rig = Rig()
    rig.take_over(p0=5)
    held = Held(rig, "transaction_step")
    rig.failures = {"answer": DOUBT}
    if is_settled_here:
        rig.settles = lambda: (rig.take_over_again(p0=6), True)[1]  # type: ignore[func-returns-value]
    await rig.begin(batch((0, 5), starts={0: 5}))
    await held.wait()
    ahead = asyncio.ensure_future(rig.begin(batch((0, 6), starts={0: 6})))
    await eventually_here(lambda: rig.steps("process") == ["process", "process"])
    held.go_on()
    await ahead
    await rig.threads.all_ended()
    assert rig.transactions() == [{0: 6}]
    assert rig.assignment.positions == {0: 6 if is_settled_here else 5}
    assert len(rig.done) == 2
    if is_settled_here:
        rig.failures = {}
        await rig.deliver(batch((0, 6), starts={0: 6}, tenure=Tenure(NOW.epoch + 1, MEMBER)))
        assert rig.transactions() == [{0: 6}, {0: 7}]


async def test_before_a_failure_ahead_ends_the_process_the_commit_under_way_is_seen_through() -> (
    None
):
    """Else its transaction stays open, and all readers wait."""
    rig = Rig()
    rig.take_over(p0=5)
    held = Held(rig, "transaction_step")
    await rig.begin(batch((0, 5), starts={0: 5}))
    await held.wait()
    rig.failures = {"process": RuntimeError("unexpected")}
    ahead = asyncio.ensure_future(rig.begin(batch((0, 6), starts={0: 6})))
    await eventually_here(lambda: rig.steps("process") == ["process", "process"])
    await rig.threads.idle(held=1)
    assert not ahead.done()
    held.go_on()
    with pytest.raises(End) as end:
        await ahead
    assert end.value.cause is rig.failures["process"]
    assert rig.steps("write", "caches") == ["write", "caches"]


async def test_of_what_is_ahead_of_a_commit_that_ends_the_process_nothing_is_sent() -> None:
    rig = Rig()
    rig.take_over(p0=5)
    held = Held(rig, "transaction_step")
    rig.failures = {"answer": Crash("refused")}
    await rig.begin(batch((0, 5), starts={0: 5}))
    await held.wait()
    ahead = asyncio.ensure_future(rig.begin(batch((0, 6), starts={0: 6})))
    await eventually_here(lambda: rig.steps("process") == ["process", "process"])
    held.go_on()
    with pytest.raises(End):
        await ahead
    assert rig.transactions() == [{0: 6}]


async def test_what_is_ahead_follows_what_is_not_committed_yet() -> None:
    rig = Rig()
    rig.take_over(p0=5)
    held = Held(rig, "transaction_step")
    await rig.begin(batch((0, 5), starts={0: 5}))
    await held.wait()
    gap = asyncio.ensure_future(rig.begin(batch((0, 7), starts={0: 7})))
    with pytest.raises(End) as end:
        await gap
    held.go_on()
    assert "begins at 7, not at 6" in str(end.value.cause)


# -- the guard -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "tenure",
    [
        Tenure(3, Membership(4, "member")),
        Tenure(3, Membership(5, "another")),
        Tenure(4, Membership(6, "member")),
        Tenure(2, MEMBER),  # from before a doubt, in a group that has not changed
    ],
)
async def test_a_micro_batch_of_another_tenure_is_dropped(tenure: Tenure) -> None:
    """It will be read again by its new owner, perhaps this very worker."""
    rig = Rig()
    rig.take_over(p0=5)
    await rig.deliver(batch((0, 99), starts={0: 99}, tenure=tenure))
    assert rig.log == []
    assert rig.assignment.positions == {0: 5}


async def test_a_rebalance_ends_a_micro_batch_between_two_commits() -> None:
    """Faust waits for it, and the group not for ever: dozens of commits may be too many."""
    rig = Rig(takes=1)
    rig.take_over(p0=5)
    committed = rig.committed

    def revoked(processed: ProcessedBatch) -> None:
        committed(processed)
        rig.assignment.revoke()

    rig.committed = revoked  # type: ignore[method-assign]
    await rig.deliver(batch((0, 5), (0, 6), (0, 7), starts={0: 5}))
    assert rig.transactions() == [{0: 6}]
    assert rig.assignment.positions == {0: 5}


@pytest.mark.parametrize("start", [4, 6])
async def test_a_micro_batch_that_does_not_follow_the_last_one_ends_the_process(start: int) -> None:
    rig = Rig()
    rig.take_over(p0=3, p1=1)
    await rig.deliver(batch((0, 4), starts={0: 3}))
    rig.log.clear()
    with pytest.raises(End) as end:
        await rig.deliver(batch((1, 1), (0, start), starts={1: 1, 0: start}))
    assert isinstance(end.value.cause, Crash)
    assert f"begins at {start}, not at 5" in str(end.value.cause)
    assert rig.log == []


async def test_a_partition_that_was_not_taken_over_ends_the_process() -> None:
    rig = Rig()
    rig.take_over(p0=3)
    with pytest.raises(End) as end:
        await rig.deliver(batch((1, 0), starts={1: 0}))
    assert isinstance(end.value.cause, Crash)


# -- a commit in doubt -----------------------------------------------------------------------------

DOUBT = InDoubt("no answer")


async def test_a_transaction_that_failed_for_its_size_is_settled_as_such_and_is_progress() -> None:
    """The next one is smaller: a watchdog that ended the worker would make it begin from what is
    too large.
    """
    rig = Rig(size=TransactionSize(seconds=0.0))
    process = rig.process
    rig.process = lambda records: replace(process(records), size=1_000_000)  # type: ignore[method-assign]
    rig.take_over(p0=5)
    rig.failures = {"transaction": DOUBT}
    rig.assignment.progress.at = 0.0
    await rig.deliver(batch((0, 5), (0, 6), starts={0: 5}))
    ((_, reason, _),) = [entry for entry in rig.log if entry[0] == "settle"]
    assert reason.startswith("no answer; it had 1000000 bytes and failed after")
    assert rig.assignment.progress.at > 0


@pytest.mark.parametrize("happened", [True, False])
async def test_a_doubt_is_settled_and_its_micro_batch_counts_only_if_it_happened(
    happened: bool,
) -> None:
    """What is stored here, and what caches hold, the settlement brings to what was committed: none
    of it is done twice.
    """
    rig = Rig()
    rig.take_over(p0=5)
    rig.failures = {"transaction": DOUBT}
    rig.settles = lambda: happened
    rig.feed.subscribe([])
    await rig.deliver(batch((0, 5), (0, 6), starts={0: 5}))
    assert rig.log == [
        ("process", [(0, 5), (0, 6)]),
        ("transaction", {0: 7}, MEMBER),
        ("settle", "no answer", {0: 7}),
        ("doubt", happened),
        *(["observe"] if happened else []),
    ]
    assert rig.feed.take().changes == happened


@pytest.mark.parametrize("position", [5, 6, 7])
async def test_a_doubt_ends_its_micro_batch_where_the_takeover_says(position: int) -> None:
    """The rest of it is read again: to continue with it, or to take its end for the position, could
    lose or repeat events.
    """
    rig = Rig(takes=1)
    rig.take_over(p0=5)
    rig.failures = {"transaction": DOUBT}
    rig.settles = lambda: (rig.take_over_again(p0=position), position > 5)[1]  # type: ignore[func-returns-value]
    await rig.deliver(batch((0, 5), (0, 6), (0, 7), starts={0: 5}))
    assert rig.steps("transaction") == ["transaction"]
    assert rig.assignment.positions == {0: position}
    rig.failures = {}
    await rig.deliver(batch((0, 5), (0, 6), (0, 7), starts={0: 5}))  # of before: dropped
    assert rig.steps("transaction") == ["transaction"]
    again = Tenure(NOW.epoch + 1, MEMBER)
    await rig.deliver(batch((0, 7), starts={0: position}, tenure=again))
    assert rig.assignment.positions == {0: 8}


async def test_a_doubt_while_the_group_takes_the_partitions_back_is_the_next_owners() -> None:
    rig = Rig()
    rig.take_over(p0=5)
    rig.failures = {"transaction": DOUBT}
    rig.settles = lambda: bool(rig.assignment.revoke())  # type: ignore[func-returns-value]
    await rig.deliver(batch((0, 5), starts={0: 5}))
    assert rig.assignment.positions == {0: 5}
    assert rig.steps("write", "caches", "observe", "commit answered") == []


@pytest.mark.parametrize("cause", [Fenced("another one"), Crash("no commit was answered")])
async def test_a_doubt_that_cannot_be_settled_ends_the_process(cause: Exception) -> None:
    rig = Rig()
    rig.take_over(p0=5)
    rig.failures = {"transaction": DOUBT, "settle": cause}
    with pytest.raises(End) as end:
        await rig.deliver(batch((0, 5), starts={0: 5}))
    assert end.value.cause is cause


async def test_a_doubt_is_no_progress() -> None:
    """The watchdog ends a worker whose commits are never answered."""
    rig = Rig()
    rig.take_over(p0=5)
    rig.failures = {"transaction": DOUBT}
    rig.assignment.progress.at = 0.0
    await rig.deliver(batch((0, 5), starts={0: 5}))
    assert rig.assignment.progress.at == 0.0
    assert not rig.assignment.progress.is_busy


async def test_a_topic_created_again_in_mid_flight_ends_the_process_before_the_commit() -> None:
    rig = Rig()
    rig.take_over(p0=5)
    rig.ids.failure = Crash("created again")
    with pytest.raises(End) as end:
        await rig.deliver(batch((0, 5), starts={0: 5}))
    assert end.value.cause is rig.ids.failure
    assert rig.steps() == ["process", "transaction"]
    assert rig.ids.asked == [["in", "out", "changelog"]]


async def test_rows_that_are_not_behind_the_stored_ones_end_the_process_before_the_commit() -> None:
    """They are in a changelog that was created again, whose log begins anew."""
    rig = Rig()
    rig.take_over(p0=5)
    rig.rows_of = lambda partition: {b"one": b"1", b"two": b"2"}  # at 99 and 100
    with pytest.raises(End) as end:
        await rig.deliver(batch((0, 5), starts={0: 5}))
    assert isinstance(end.value.cause, Unanswered)  # which the producer turns into a doubt
    assert "the topic was deleted and created again" in str(end.value.cause)
    assert rig.steps() == ["process", "transaction"]


# -- schemas ---------------------------------------------------------------------------------------


class Schemas:
    """Schemas that come with the third request."""

    waiting = None

    def __init__(self) -> None:
        self.asked: list[list[int]] = []
        self.on_request: Callable[[], None] = lambda: None

    def missing(self, records: Sequence[Record]) -> list[int]:
        return [7] if len(self.asked) < 3 and records else []

    def fetch(self, ids: Sequence[int]) -> None:
        self.asked.append(list(ids))
        self.on_request()


async def test_records_wait_for_their_schemas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("worker.stream.delivery.SCHEMA_PAUSE_SECONDS", 0)
    schemas = Schemas()
    rig = Rig(schemas=schemas)
    rig.take_over(p0=5)
    await rig.deliver(batch((0, 5), starts={0: 5}))
    assert schemas.asked == [[7]] * 3
    assert rig.assignment.positions == {0: 6}


async def test_a_rebalance_does_not_wait_for_a_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("worker.stream.delivery.SCHEMA_PAUSE_SECONDS", 0)
    schemas = Schemas()
    rig = Rig(schemas=schemas)
    rig.take_over(p0=5)
    schemas.on_request = rig.assignment.revoke
    await rig.deliver(batch((0, 5), starts={0: 5}))
    assert schemas.asked == [[7]]
    assert rig.transactions() == []
    assert (len(rig.done), rig.assignment.positions) == (1, {0: 5})
