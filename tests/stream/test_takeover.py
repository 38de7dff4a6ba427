"""The takeover: the order of its steps, what a rebalance does to it, and which state may be
continued.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from tests.harness.eventually import eventually_here
from tests.harness.fake_clients import FakeClock
from tests.harness.patience import PATIENCE_SECONDS
from tests.harness.stream import CHANGELOG, INPUT, OUTPUT, Parts
from worker.errors import Crash, SetupError, Unanswered
from worker.kafka.changelog import LogBounds, StaleCopy
from worker.kafka.group import Membership
from worker.kafka.offsets import Start
from worker.state import FingerprintMismatch
from worker.state.rows import Output
from worker.storage.snapshot import PARTIAL_KEY
from worker.stream.assignment import Role
from worker.stream.gate import CHANGELOG_ID_KEY, OFFSET_KEY
from worker.stream.run_bounds import Ledger
from worker.stream.takeover import PAUSE_SECONDS

START = Start(5, True, 9)


class FakeReader:
    """A changelog reader that applies one row up to each goal, or waits until it is stopped."""

    def __init__(
        self,
        rig: Rig,
        starts: Mapping[int, int],
        apply: Callable[..., None],
        at_end: Callable[[int], None],
        since: float,
    ) -> None:
        self.rig, self.starts, self.apply, self.at_end = rig, dict(starts), apply, at_end
        self.rows_read = 0
        self.stopped = False
        self.stop_called = threading.Event()
        rig.readers.append(self)

    def stop(self) -> None:
        self.stopped = True
        self.stop_called.set()

    def restore(self, goals: Mapping[int, int], on_progress: Callable[[int, int], None]) -> int:
        self.rig.log.append(("restore", dict(self.starts), dict(goals)))
        on_progress(3, 2)
        if self.rig.restore_failures:
            raise self.rig.restore_failures.pop(0)
        if self.rig.restore_waits:
            self.rig.restoring.set()
            assert self.stop_called.wait(PATIENCE_SECONDS)
            return 0
        if self.stopped:
            return 0
        before = self.rows_read
        for partition, start in self.starts.items():
            if start < goals[partition]:
                self.apply(partition, start, {b"row": b"restored"}, goals[partition] - 1)
                self.starts[partition] = goals[partition]
                self.rows_read += 1
        self.rig.at_restore()
        on_progress(3, 0)
        return self.rows_read - before

    def follow(self) -> None:
        self.rig.log.append(("follow", self.starts))
        for partition, start in self.starts.items():
            self.apply(partition, start, {b"row": b"followed"}, start + 1)
            self.at_end(partition)
        self.rig.following.set()
        if self.rig.follow_stale:
            raise self.rig.follow_stale.pop()
        if self.rig.follow_failure:
            raise self.rig.follow_failure
        assert self.stop_called.wait(PATIENCE_SECONDS)


class Rig(Parts):
    """A takeover, and the order in which it asks what is around it."""

    def __init__(self, data_dir: Path) -> None:
        self.deaths: list[BaseException] = []
        super().__init__(data_dir, die=self.deaths.append, clock=FakeClock())
        self.log = self.logs.calls
        self.readers: list[FakeReader] = []
        self.restore_failures: list[Exception] = []  # of the next restores
        self.at_restore: Callable[[], None] = lambda: None  # happens when one has applied its rows
        self.follow_failure: Exception | None = None
        self.follow_stale: list[StaleCopy] = []
        self.begin_failures: list[Exception] = []  # of the next looks at the state
        self.sought: list[dict[int, int]] = []
        self.restore_waits = False
        self.restoring, self.following = threading.Event(), threading.Event()
        self.starts_wait: threading.Event | None = None
        self.logs.open_reader = lambda *arguments: FakeReader(self, *arguments)
        self.logs.ids.read = lambda: self.log.append("ids")
        answer = self.logs.input.starts
        self.logs.input.starts = lambda partitions: (self._wait(), answer(partitions))[1]
        check_partition = self.processor.check_partition
        self.processor.check_partition = lambda partition: (
            self._begin(),
            check_partition(partition),
        )[1]

    def _wait(self) -> None:
        if self.starts_wait:
            assert self.starts_wait.wait(PATIENCE_SECONDS)

    def _begin(self) -> None:
        if self.begin_failures:
            raise self.begin_failures.pop(0)

    async def _seek(self) -> None:
        assert self.assignment.starts is not None
        self.sought.append({p: start.offset for p, start in self.assignment.starts.items()})
        self.assignment.flow()

    def assigned(self, *inputs: int, start: Start = START) -> None:
        """The group has assigned these."""
        self.logs.committed = dict.fromkeys(inputs, start)
        self.processor.applied = dict.fromkeys(inputs, start.offset)
        self.assignment.assign(Membership(1, "member"), frozenset(inputs))

    async def recovered(self, actives: set[int], standbys: set[int] | None = None) -> None:
        self.assigned(*actives)
        await self.takeover.run(actives, standbys or set())

    async def flowing(self, actives: set[int], standbys: set[int] | None = None) -> None:
        """A takeover to its last step."""
        await self.recovered(actives, standbys)
        await self._seek()
        self.sought.clear()

    async def again(self) -> dict[int, int] | None:
        """A takeover after a doubt; what it found, None where it found nothing out."""
        found: list[dict[int, int]] = []
        self.assignment.suspend("no answer")
        await self.takeover.again(lambda starts: found.append(dict(starts)))
        return found[0] if found else None

    def stored(self, partition: int = 0) -> tuple[dict[bytes, bytes], int]:
        rows = dict(self.databases.rows(partition).scan(b""))
        rows.pop(OFFSET_KEY, None)
        rows.pop(CHANGELOG_ID_KEY, None)
        return rows, self.gate.stored_offset(partition)


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    made = Rig(tmp_path)
    yield made
    made.databases.close()


# -- the order -------------------------------------------------------------------------------------


async def test_offsets_first_then_the_end_of_the_log_then_the_restore_then_the_state(
    rig: Rig,
) -> None:
    await rig.recovered({0})
    assert rig.log == [
        *("offsets", "ids", ("bounds", [0]), ("restore", {0: 0}, {0: 10})),
        *(("bounds", [0]), ("restore", {0: 10}, {0: 10})),  # nothing more has come
    ]
    assert rig.stored() == ({b"row": b"restored"}, 9)
    assert rig.processor.begun == [0]
    assert rig.processor.forgotten == [[0]]  # what was cached of it may be from before its restore
    assert rig.assignment.positions == {0: 5}
    assert rig.assignment.starts == {0: START}  # for the seek
    assert rig.deaths == []


async def test_a_restore_continues_until_nothing_more_comes(rig: Rig) -> None:
    """Of what comes while it reads the first rows may be read with it: so may be the others, which
    belong to them.
    """
    ends = iter((14, 14, 17))

    def written_on() -> None:
        rig.logs.bounds = LogBounds(0, next(ends, 17), 0)

    rig.at_restore = written_on
    await rig.recovered({0})
    assert [entry[1:] for entry in rig.log if entry[0] == "restore"] == [
        ({0: 0}, {0: 10}),
        ({0: 10}, {0: 14}),
        ({0: 14}, {0: 14}),
    ]
    assert rig.stored() == ({b"row": b"restored"}, 13)


async def test_a_restore_that_is_stopped_asks_brokers_for_nothing_more(rig: Rig) -> None:
    """The group waits for it."""
    rig.at_restore = rig.assignment.revoke
    await rig.recovered({0})
    assert rig.log == ["offsets", "ids", ("bounds", [0]), ("restore", {0: 0}, {0: 10})]
    assert rig.assignment.positions == {}


async def test_only_a_restore_that_ends_leaves_a_whole_copy(rig: Rig) -> None:
    """One that a rebalance interrupts may have stored half a transaction."""
    rig.at_restore = rig.assignment.revoke
    await rig.recovered({0})
    assert rig.databases.rows(0).get(PARTIAL_KEY)
    await rig.takeover.let_go()
    rig.at_restore = lambda: None
    await rig.recovered({0})  # finds no more rows
    assert rig.stored() == ({b"row": b"restored"}, 9)


async def test_partitions_are_served_only_after_their_takeover(rig: Rig) -> None:
    """One that brokers cut short restores once more, or is given up for a rebalance; neither
    forgets what it knew before.
    """
    failures = [Unanswered("the first rows are not read")] * 2

    def check() -> None:
        assert rig.processor.begun == []
        if failures:
            raise failures.pop()

    rig.group.check = check  # type: ignore[method-assign]
    await rig.recovered({0, 1})
    assert rig.deaths == []
    assert failures == []
    assert sorted(rig.processor.begun) == [0, 1]


async def test_what_the_worker_left_open_is_decided_first(rig: Rig) -> None:
    """The offsets would wait until the broker gives up on it."""
    rig.is_doubtful = True
    await rig.recovered({0})
    assert rig.log[:2] == ["decide", "offsets"]


async def test_what_was_restored_continues_under_the_next_assignment(rig: Rig) -> None:
    """Only rows after the stored offset are read again, and the old assignment writes no more."""
    await rig.recovered({0})
    old = rig.readers[0]
    await rig.takeover.let_go()
    with pytest.raises(Crash):
        rig.gate.write(rig.assignment.epoch, 0, {b"late": b"1"}, 20)
    await rig.recovered({0})
    with pytest.raises(Crash):
        old.apply(0, 10, {b"late": b"1"}, 20)
    assert ("restore", {0: 10}, {0: 10}) in rig.log


async def test_a_restore_that_moves_is_progress(rig: Rig) -> None:
    """The watchdog must not end a restore that is merely long."""
    rig.restore_waits = True
    rig.assignment.progress.at = 0.0
    recovery = asyncio.ensure_future(rig.recovered({0}))
    await asyncio.to_thread(rig.restoring.wait, PATIENCE_SECONDS)
    assert rig.assignment.progress.at > 0
    assert rig.restores == [(3, 2)]
    await rig.takeover.let_go()
    await recovery


@pytest.mark.parametrize("step", ["restore_failures", "begin_failures"])
@pytest.mark.parametrize(
    "failure",
    [
        RuntimeError("disk full"),
        Crash("not a row"),
        SetupError("another fingerprint"),
        KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)),
    ],
)
async def test_a_takeover_that_fails_ends_the_process(
    rig: Rig, step: str, failure: Exception
) -> None:
    """Faust swallows what is raised here, and the worker would report ready."""
    setattr(rig, step, [failure])
    await rig.recovered({0})
    assert rig.deaths == [failure]


# -- brokers that do not answer --------------------------------------------------------------------


@pytest.mark.parametrize("step", ["restore_failures", "begin_failures"])
@pytest.mark.parametrize(
    "failure",
    [
        Unanswered("the restore stands still"),
        KafkaException(KafkaError(KafkaError.NOT_LEADER_FOR_PARTITION)),
    ],
)
async def test_a_takeover_begins_again_while_brokers_do_not_answer(
    rig: Rig, step: str, failure: Exception
) -> None:
    """All of it: what one step found out may be of another time than what the next one does."""
    setattr(rig, step, [failure] * 3)
    began_s = rig.surroundings.clock.monotonic()
    await rig.recovered({0})
    assert rig.deaths == []
    assert [entry for entry in rig.log if entry in ("offsets", "ids")] == ["offsets", "ids"] * 4
    assert rig.surroundings.clock.monotonic() - began_s == 3 * PAUSE_SECONDS
    assert rig.stored() == ({b"row": b"restored"}, 9)
    assert rig.assignment.positions == {0: 5}


@pytest.mark.parametrize("ending", ["let go", "revoked"])
async def test_a_takeover_that_waits_for_brokers_ends_with_its_assignment(
    rig: Rig, ending: str
) -> None:
    """At a rebalance the group waits for it: brokers may take long."""
    rig.restore_failures = [Unanswered("the restore stands still")] * 10_000
    began = len(rig.restore_failures) - 3
    sleep = rig.surroundings.clock.sleep
    reached = asyncio.Event()
    loop = asyncio.get_running_loop()

    def slept(seconds: float) -> None:
        sleep(seconds)
        if len(rig.restore_failures) == began:
            if ending == "revoked":
                rig.assignment.revoke()
            loop.call_soon_threadsafe(reached.set)

    rig.surroundings.clock.sleep = slept  # type: ignore[method-assign]
    recovery = asyncio.ensure_future(rig.recovered({0}))
    await asyncio.wait_for(reached.wait(), PATIENCE_SECONDS)
    if ending == "let go":
        await asyncio.wait_for(rig.takeover.let_go(), PATIENCE_SECONDS)
    await asyncio.wait_for(recovery, PATIENCE_SECONDS)
    assert rig.restore_failures, "it went on until brokers answered"
    assert rig.deaths == []
    assert rig.assignment.positions == {}


# -- after a doubt ---------------------------------------------------------------------------------


async def test_what_is_held_is_taken_over_again_with_everything_that_was_cached_forgotten(
    rig: Rig,
) -> None:
    await rig.flowing({0}, {1})
    await asyncio.to_thread(rig.following.wait, PATIENCE_SECONDS)
    tenure, reader = rig.assignment.tenure, rig.readers[0]
    rig.log.clear()
    rig.processor.forgotten.clear()
    rig.logs.committed = {0: Start(7, True, 9)}  # the commit in doubt had happened
    rig.processor.applied = {0: 7}
    rig.logs.bounds = LogBounds(0, 14, 0)
    assert await rig.again() == {0: 7}
    assert rig.log[:4] == ["offsets", "ids", ("bounds", [0]), ("restore", {0: 10}, {0: 14})]
    assert rig.stored() == ({b"row": b"restored"}, 13)
    assert rig.processor.forgotten == [[0], [0]]  # when it was let go of, and when it was restored
    assert rig.sought == [{0: 7}]
    assert rig.assignment.positions == {0: 7}
    assert rig.assignment.roles == {0: Role.ACTIVE, 1: Role.STANDBY}
    assert rig.assignment.tenure not in (None, tenure)
    with pytest.raises(Crash):
        reader.apply(0, 14, {b"late": b"1"}, 20)
    await rig.takeover.let_go()


async def test_a_commit_that_had_not_happened_is_read_again(rig: Rig) -> None:
    await rig.flowing({0})
    assert await rig.again() == {0: 5}
    assert rig.sought == [{0: 5}]


async def test_a_group_that_takes_the_partitions_back_meanwhile_goes_first(rig: Rig) -> None:
    """It waits for its end: the restore is not completed, and nothing is found out or read."""
    await rig.flowing({0})
    rig.logs.bounds = LogBounds(0, 14, 0)
    rig.at_restore = rig.assignment.revoke
    assert await rig.again() is None
    assert rig.readers[-1].stopped
    assert rig.sought == []
    assert rig.assignment.positions == {}
    assert rig.deaths == []


async def test_a_commit_alone_is_progress_after_a_doubt(rig: Rig) -> None:
    """Else the watchdog would never end a worker whose every commit is in doubt."""
    await rig.flowing({0})
    rig.assignment.suspend("no answer")
    rig.assignment.progress.at = 0.0
    await rig.takeover.begin_processing({0: START})
    assert rig.assignment.progress.at == 0.0
    rig.assignment.doubt = None
    await rig.takeover.begin_processing({0: START})
    assert rig.assignment.progress.at > 0


# -- rebalances ------------------------------------------------------------------------------------


async def test_a_rebalance_ends_a_restore_and_nothing_is_taken_over(rig: Rig) -> None:
    rig.restore_waits = True
    recovery = asyncio.ensure_future(rig.recovered({0}))
    await asyncio.to_thread(rig.restoring.wait, PATIENCE_SECONDS)
    await asyncio.wait_for(rig.takeover.let_go(), PATIENCE_SECONDS)
    await recovery
    assert rig.log == ["offsets", "ids", ("bounds", [0]), ("restore", {0: 0}, {0: 10})]
    # by the rebalance alone: no state was held against the input
    assert rig.processor.forgotten == [[]]
    assert rig.processor.made_from == {}
    assert rig.assignment.roles == rig.assignment.positions == {}
    assert rig.deaths == []


async def test_a_rebalance_before_the_restore_began_ends_it_too(rig: Rig) -> None:
    """It must not wait for the restore of an assignment that is over."""
    rig.restore_waits, rig.starts_wait = True, threading.Event()
    recovery = asyncio.ensure_future(rig.recovered({0}))
    await asyncio.sleep(0)
    rebalance = asyncio.ensure_future(rig.takeover.let_go())
    await asyncio.sleep(0)
    rig.starts_wait.set()
    await asyncio.wait_for(rebalance, PATIENCE_SECONDS)
    await recovery
    assert rig.processor.forgotten == [[]]
    assert rig.assignment.positions == {}
    assert rig.stored() == ({}, -1)
    rig.restore_waits, rig.starts_wait = False, None
    await rig.recovered({0})
    assert rig.assignment.positions == {0: 5}


@pytest.mark.parametrize("next_one", [(0, 1), (1,), ()])
async def test_a_recovery_of_a_past_assignment_takes_nothing_over(
    rig: Rig, next_one: tuple[int, ...]
) -> None:
    """Faust may end it when the consumer has the next one already: offsets and partitions would not
    belong together.
    """
    rig.assigned(*next_one)
    await rig.takeover.run({0}, set())
    assert rig.log == (["offsets", "ids"] if next_one else ["ids"])
    assert rig.assignment.roles == {}
    assert rig.deaths == []


async def test_a_standby_follows_until_the_next_rebalance(rig: Rig) -> None:
    await rig.recovered({0}, {0, 1})  # in two roles it is active
    await asyncio.to_thread(rig.following.wait, PATIENCE_SECONDS)
    assert rig.assignment.roles == {0: Role.ACTIVE, 1: Role.STANDBY}
    assert rig.log[-1] == ("follow", {1: 0})
    assert rig.stored(1) == ({b"row": b"followed"}, 1)
    follower: Any = rig.takeover._follower
    await asyncio.wait_for(rig.takeover.let_go(), PATIENCE_SECONDS)
    assert not follower.is_alive()
    await rig.recovered({1})  # promoted: continues where the standby ended
    assert ("restore", {1: 2}, {1: 10}) in rig.log
    assert rig.deaths == []


async def test_a_standby_that_may_lack_tombstones_builds_its_copy_again(rig: Rig) -> None:
    rig.follow_stale = [StaleCopy("changelog", 1)]
    await rig.recovered(set(), {1})
    follower: Any = rig.takeover._follower
    await eventually_here(lambda: len(rig.readers) == 2 and rig.following.is_set())
    await rig.takeover.let_go()
    assert not follower.is_alive()
    assert rig.log.count(("follow", {1: 0})) == 2  # not from behind the copy
    assert rig.deaths == []


async def test_a_restore_that_may_lack_tombstones_builds_its_copy_again(rig: Rig) -> None:
    await rig.recovered({0})
    await rig.takeover.let_go()
    rig.log.clear()
    rig.restore_failures = [StaleCopy("changelog", 0)]
    await rig.recovered({0})
    restores = [entry for entry in rig.log if entry[0] == "restore"]
    assert restores[:2] == [("restore", {0: 10}, {0: 10}), ("restore", {0: 0}, {0: 10})]
    assert rig.stored() == ({b"row": b"restored"}, 9)
    assert rig.deaths == []


async def test_a_standby_that_fails_ends_the_process(rig: Rig) -> None:
    rig.follow_failure = RuntimeError("disk full")
    await rig.recovered(set(), {1})
    follower: Any = rig.takeover._follower
    await asyncio.to_thread(follower.join, PATIENCE_SECONDS)
    assert rig.deaths == [rig.follow_failure]
    await rig.takeover.let_go()


class StandbyBounds:
    """The changelog's bounds of a standby: they come when the test lets them, after some
    failures.
    """

    def __init__(self, rig: Rig, *failures: Exception) -> None:
        self.asked, self.released = threading.Event(), threading.Event()
        self.threads: set[threading.Thread] = set()
        self._failures = list(failures)
        self._bounds = rig.logs.changelog.bounds
        rig.logs.changelog.bounds = self

    def __call__(self, partitions: list[int]) -> Any:
        if partitions != [1]:
            return self._bounds(partitions)
        self.threads.add(threading.current_thread())
        self.asked.set()
        assert self.released.wait(PATIENCE_SECONDS), (
            "the event loop waits for the bounds of a standby"
        )
        if self._failures:
            raise self._failures.pop(0)
        return self._bounds(partitions)


async def test_neither_the_event_loop_nor_active_partitions_wait_for_a_standby(rig: Rig) -> None:
    bounds = StandbyBounds(rig)
    await asyncio.wait_for(rig.flowing({0}, {1}), PATIENCE_SECONDS)
    await asyncio.to_thread(bounds.asked.wait, PATIENCE_SECONDS)
    assert rig.assignment.positions == {0: 5}
    assert not rig.following.is_set()
    bounds.released.set()
    await asyncio.to_thread(rig.following.wait, PATIENCE_SECONDS)
    assert rig.stored(1) == ({b"row": b"followed"}, 1)
    assert threading.main_thread() not in bounds.threads
    await rig.takeover.let_go()
    assert rig.deaths == []


async def test_a_standby_waits_for_brokers_by_itself(rig: Rig) -> None:
    """What is active was taken over already, and continues."""
    unanswered = KafkaException(KafkaError(KafkaError.NOT_LEADER_FOR_PARTITION))
    bounds = StandbyBounds(rig, Unanswered("no broker"), unanswered)
    bounds.released.set()
    began_s = rig.surroundings.clock.monotonic()
    await rig.recovered({0}, {1})
    await asyncio.to_thread(rig.following.wait, PATIENCE_SECONDS)
    assert rig.log.count("offsets") == 1
    assert rig.surroundings.clock.monotonic() - began_s == 2 * PAUSE_SECONDS
    await rig.takeover.let_go()
    assert rig.deaths == []


async def test_a_standby_that_brokers_refuse_ends_the_process(rig: Rig) -> None:
    refusal = KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))
    StandbyBounds(rig, refusal).released.set()
    await rig.recovered(set(), {1})
    follower: Any = rig.takeover._follower
    await asyncio.to_thread(follower.join, PATIENCE_SECONDS)
    assert rig.deaths == [refusal]
    await rig.takeover.let_go()


async def test_a_standby_of_a_past_assignment_begins_nothing(rig: Rig) -> None:
    """Its rows may be another one's to write by the time the broker answers."""
    rig.gate.restore_start = lambda partition, bounds: pytest.fail("opened")  # type: ignore[assignment]
    bounds = StandbyBounds(rig)
    await rig.recovered(set(), {1})
    await asyncio.to_thread(bounds.asked.wait, PATIENCE_SECONDS)
    letting_go = asyncio.ensure_future(rig.takeover.let_go())
    while not rig.takeover._leaving:
        await asyncio.sleep(0)
    bounds.released.set()
    await asyncio.wait_for(letting_go, PATIENCE_SECONDS)
    assert rig.readers == rig.deaths == []
    assert rig.assignment.roles == {}


# -- state and offsets -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("applied", "start"),
    [
        (10, Start(10, True, 10)),
        (10, Start(3, True, 10)),  # rewound: what is applied is ignored
        (10, Start(0, False, 10)),  # the group's offsets are gone, the state is not
        (None, Start(4, False, 10)),  # a new worker on a log that was cut
        (8, Start(10, True, 10, "skipped-from 8")),
        (9, Start(10, True, 10, "skipped-from 8")),
        (None, Start(1, True, 10, "skipped-from -1")),  # before anything was committed
    ],
)
async def test_state_at_or_ahead_of_the_offsets_is_taken_over(
    rig: Rig, applied: int | None, start: Start
) -> None:
    rig.processor.applied = {0: applied}
    await rig.takeover.begin_processing({0: start})
    assert rig.assignment.positions == {0: start.offset}


async def test_the_ledger_begins_before_anything_is_processed(rig: Rig) -> None:
    begun = []

    class BegunLedger(Ledger):
        def begin(self, starts: Mapping[int, Start]) -> None:
            assert rig.assignment.positions == {}
            begun.append(dict(starts))

    rig.takeover.ledger = BegunLedger()
    start = Start(4, True, 10, "a note")
    rig.processor.applied = {0: 4}
    await rig.takeover.begin_processing({0: start})
    assert begun == [{0: start}]


async def test_partitions_without_rows_are_taken_over_only_under_the_groups_fingerprint(
    rig: Rig,
) -> None:
    """Rows of one's own have said so already; without any, those of others are asked, also by a
    worker without partitions.
    """
    start = Start(0, False, 10)
    rig.processor.applied = {0: None, 1: 4}
    await rig.takeover.begin_processing({0: start, 1: start})
    assert rig.group.calls == ["agreed", "check"]
    rig.group.calls.clear()
    await rig.takeover.begin_processing({0: start})
    await rig.takeover.begin_processing({})
    assert rig.group.calls == ["check", "check"]
    rig.assignment.positions = {}
    rig.group.refusal = FingerprintMismatch({"k": ("5", "6")})
    await rig.recovered({0})
    assert rig.deaths == [rig.group.refusal]
    assert rig.assignment.positions == {}


BEHIND = f"the state ends at {{}}: records or rows of the changelog {CHANGELOG} are gone"


@pytest.mark.parametrize(
    ("applied", "start", "complaint"),
    [
        (9, Start(10, True, 20), BEHIND.format(9)),
        (None, Start(10, True, 20), BEHIND.format(0)),
        (7, Start(10, True, 20, "skipped-from 8"), BEHIND.format(7)),
        (None, Start(10, True, 20, "skipped-from 8"), BEHIND.format(0)),
        # retention passed over unread records
        (9, Start(10, False, 20), BEHIND.format(9)),
        (11, Start(0, False, 10), "created again"),
    ],
)
async def test_state_that_does_not_fit_the_offsets_is_refused(
    rig: Rig, applied: int | None, start: Start, complaint: str
) -> None:
    rig.processor.applied = {0: applied}
    with pytest.raises(SetupError, match=f"{complaint}.*coversumm-worker reset"):
        await rig.takeover.begin_processing({0: start})
    assert rig.assignment.positions == {}


@pytest.mark.parametrize(
    ("stored", "current", "noted"),
    [
        ("one", "one", "one"),
        ("", "one", "one"),  # a broker that did not tell: it is noted from now on
        ("one", "", "one"),  # a broker that does not tell: offsets alone decide
        ("", "", ""),
    ],
)
async def test_the_topic_that_the_state_was_made_from_is_taken_over(
    rig: Rig, stored: str, current: str, noted: str
) -> None:
    rig.processor.applied, rig.processor.made_from, rig.logs.ids.by_topic = (
        {0: 10},
        {0: stored},
        {INPUT: current},
    )
    await rig.takeover.begin_processing({0: Start(10, True, 10)})
    assert rig.processor.made_from == {0: noted}


@pytest.mark.parametrize(
    ("stored", "current"), [("one", "one"), ("", "one"), ("one", ""), ("", "")]
)
async def test_a_state_beyond_the_end_is_a_successors_only_in_the_topic_it_was_made_from(
    rig: Rig, stored: str, current: str
) -> None:
    """A takeover that is paused between offsets and restore finds the rows of whoever took over
    meanwhile.
    """
    rig.processor.applied, rig.processor.made_from, rig.logs.ids.by_topic = (
        {0: 12},
        {0: stored},
        {INPUT: current},
    )
    if stored and current:
        await rig.takeover.begin_processing({0: Start(10, True, 10)})
        assert rig.assignment.positions == {0: 10}
    else:
        with pytest.raises(SetupError, match="created again"):
            await rig.takeover.begin_processing({0: Start(10, True, 10)})


@pytest.mark.parametrize(
    ("stored", "current"),
    [
        (None, "one"),
        (Output(1, OUTPUT, "one"), "one"),
        (Output(1, OUTPUT, ""), "one"),
        (Output(1, OUTPUT, "one"), ""),
    ],
)
async def test_the_output_that_the_state_was_published_to_is_taken_over(
    rig: Rig, stored: Output | None, current: str
) -> None:
    rig.processor.published_to = {} if stored is None else {0: stored}
    rig.processor.applied, rig.logs.ids.by_topic = {0: 10}, {OUTPUT: current}
    await rig.takeover.begin_processing({0: Start(10, True, 10)})
    assert rig.processor.published_to == {0: Output(1, OUTPUT, current)}


async def test_an_output_topic_created_again_is_refused(rig: Rig) -> None:
    rig.processor.applied, rig.processor.published_to = {0: 10}, {0: Output(1, OUTPUT, "one")}
    rig.logs.ids.by_topic = {OUTPUT: "two"}
    message = (
        rf"{OUTPUT} with the id one, .* the id two: .*created again.*coversumm-worker "
        r"reset.*another COVERSUMM_OUTPUT_TOPIC"
    )
    with pytest.raises(SetupError, match=message):
        await rig.takeover.begin_processing({0: Start(10, True, 10)})
    assert rig.assignment.positions == {}


async def test_a_facets_topic_created_again_is_refused(rig: Rig) -> None:
    rig.logs.facets = "facets"
    rig.processor.applied, rig.processor.facets_to = {0: 10}, {0: Output(1, "facets", "old")}
    rig.logs.ids.by_topic = {OUTPUT: "old", "facets": "new"}
    with pytest.raises(SetupError, match=r"facets of partition 0.*another COVERSUMM_FACETS_TOPIC"):
        await rig.takeover.begin_processing({0: Start(10, True, 10)})


@pytest.mark.parametrize("stored", [{}, {0: Output(1, "facets", "theirs")}])
async def test_each_output_topic_is_recorded_with_its_own_id(
    rig: Rig, stored: dict[int, Output]
) -> None:
    rig.logs.facets = "facets"
    rig.processor.applied, rig.processor.facets_to = {0: 10}, stored
    rig.logs.ids.by_topic = {OUTPUT: "its own", "facets": "theirs"}
    await rig.takeover.begin_processing({0: Start(10, True, 10)})
    assert rig.processor.published_to == {0: Output(1, OUTPUT, "its own")}
    assert rig.processor.facets_to == {0: Output(1, "facets", "theirs")}


async def test_an_output_of_another_name_is_taken_and_told(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    rig.processor.applied, rig.processor.published_to = {0: 10}, {0: Output(1, "others", "one")}
    rig.logs.ids.by_topic = {OUTPUT: "two"}
    await rig.takeover.begin_processing({0: Start(10, True, 10)})
    assert rig.processor.published_to == {0: Output(1, OUTPUT, "two")}
    message = f"to others before; from here on only those that change are published to {OUTPUT}"
    assert message in caplog.text


async def test_where_nothing_is_published_no_output_is_looked_at(rig: Rig) -> None:
    rig.logs.output = None
    await rig.takeover.begin_processing({0: Start(0, False, 10)})
    assert rig.processor.published_to == {}


async def test_an_input_topic_created_again_is_refused_though_its_log_is_longer(rig: Rig) -> None:
    rig.processor.applied, rig.processor.made_from = {0: 10}, {0: "one"}
    rig.logs.ids.by_topic = {INPUT: "two"}
    with pytest.raises(
        SetupError, match=r"the id one, .* the id two: .*created again.*coversumm-worker reset"
    ):
        await rig.takeover.begin_processing({0: Start(10, True, 5000)})
    assert rig.assignment.positions == {}
