"""The guarded consumer: whatever fetches return and whenever the group rebalances, every record
once, in order.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from aiokafka.consumer.subscription_state import SubscriptionState
from aiokafka.errors import NoOffsetForPartitionError, OffsetOutOfRangeError
from faust.types import TP
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.harness.consumer_thread import Fetched
from tests.harness.patience import PATIENCE_SECONDS
from tests.harness.stream import INPUT, INSTANCE, End, make_app
from tests.stream.faust.rig import CHANGELOG, A, B, FakeThread, Rig, offsets
from worker.errors import Crash, SetupError
from worker.kafka.group import Membership
from worker.kafka.offsets import Start
from worker.stream.assignment import Tenure
from worker.stream.delivery import MicroBatch
from worker.stream.faust.consumer import _record_with_headers

Change = Callable[[Rig, int], Awaitable[None]]


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return make_app(tmp_path_factory.mktemp("app"))


# -- the four rules --------------------------------------------------------------------------------


async def test_a_fetch_becomes_one_micro_batch_with_its_records_unchanged(app: Any) -> None:
    rig = Rig(app, {A: [3, 4], B: [7]})
    await rig.join({0: 3, 1: 7})
    batch = await rig.poll()
    assert batch is not None
    assert batch.records == (
        (INPUT, 0, 3, 1003, b"key", b"3", (), None),
        (INPUT, 0, 4, 1004, b"key", b"4", (), None),
        (INPUT, 1, 7, 1007, b"key", b"7", (), None),
    )
    assert (batch.starts, batch.ends) == ({0: 3, 1: 7}, {0: 5, 1: 8})
    assert batch.tenure == rig.held.tenure == Tenure(0, Membership(2, "member", INSTANCE))
    message = rig.consumer._as_message(batch)
    assert message.value is batch
    assert message.generation_id == 2


async def test_records_have_their_headers_if_the_mapping_reads_them(app: Any) -> None:
    rig = Rig(app, {A: [3], B: []})
    await rig.join({0: 3})
    rig.consumer._as_record = _record_with_headers
    batch = await rig.poll()
    assert batch is not None
    assert [record.headers for record in batch.records] == [(("ce_type", b"3"),)]


async def test_a_gap_of_the_log_at_the_head_is_proven_by_the_second_read(app: Any) -> None:
    rig = Rig(app, {A: [6, 7, 15], B: []})
    await rig.join({0: 0})
    assert await rig.poll() is None
    batch = await rig.poll()
    assert offsets(batch) == [6, 7, 15]
    assert (batch.starts, batch.ends) == ({0: 0}, {0: 16})


async def test_what_was_asked_before_a_rebalance_proves_nothing_after_it(app: Any) -> None:
    rig = Rig(app, {A: [*range(20)], B: []})
    await rig.join({0: 0})
    rig.thread.positions[A] = 4
    assert await rig.poll() is None  # asked at 0
    await rig.revoke()
    await rig.join({0: 0})
    rig.thread.positions[A] = 4
    assert await rig.poll() is None
    assert offsets(await rig.poll()) == [*range(10)]


async def rebalance(rig: Rig, start: int) -> None:
    """A whole one, seek included."""
    await rig.revoke()
    await rig.join({0: start})


async def doubt(rig: Rig, start: int) -> None:
    """The group has not changed: the epoch alone shows that everything was taken over again."""
    await rig.doubt({0: start})


CHANGES = [
    (rebalance, Membership(3, "member", INSTANCE)),
    (doubt, Membership(2, "member", INSTANCE)),
]


@pytest.mark.parametrize("when", ["during", "after"])
@pytest.mark.parametrize(("change", "membership"), CHANGES)
async def test_records_of_a_fetch_that_another_tenure_overtook_are_read_again(
    app: Any, when: str, change: Change, membership: Membership
) -> None:
    rig = Rig(app, {A: [*range(15)], B: []})
    await rig.join({0: 10})
    before = rig.held.tenure
    setattr(rig.thread, when, lambda: change(rig, 10))
    assert await rig.poll() is None
    batch = await rig.poll()  # though no later record shows that they are missing
    assert offsets(batch) == [*range(10, 15)]
    assert batch.tenure == rig.held.tenure
    assert batch.tenure.membership == membership
    assert batch.tenure != before


async def test_nothing_is_fetched_while_a_commit_is_in_doubt(app: Any) -> None:
    rig = Rig(app, {A: [0], B: []})
    await rig.join({0: 0})
    rig.held.suspend("no answer")
    assert await rig.poll() is None
    assert rig.thread.fetched == []
    await rig.doubt({0: 0})
    assert offsets(await rig.poll()) == [0]


async def test_nothing_is_fetched_between_revocation_and_seek(app: Any) -> None:
    rig = Rig(app, {A: [0], B: []})
    rig.thread.assigned = {A}
    rig.thread.positions[A] = 0
    assert await rig.poll() is None  # before the first assignment
    await rig.assign({A})
    rig.consumer.resume_partitions({A})
    rig.consumer.resume_flow()
    assert await rig.poll() is None  # assigned, not restored
    await rig.seek({0: 0})
    await rig.revoke()
    rig.consumer.resume_flow()
    rig.consumer.resume_partitions({A})
    assert await rig.poll() is None  # revoked
    await rig.seek({0: 0})
    await rig.assign({A})
    assert await rig.poll() is None  # assigned again without a revocation
    assert rig.thread.fetched == []


async def test_a_stopped_flow_fetches_nothing(app: Any) -> None:
    rig = Rig(app, {A: [0], B: []})
    await rig.join({0: 0})
    rig.consumer.stop_flow()
    assert await rig.poll() is None
    assert rig.thread.fetched == []
    rig.consumer.resume_flow()
    rig.thread.after = _async(rig.consumer.stop_flow)
    assert await rig.poll() is None


async def test_changelogs_are_never_fetched(app: Any) -> None:
    rig = Rig(app, {A: [0], B: [], CHANGELOG: [0]})
    await rig.join({0: 0}, CHANGELOG)
    rig.consumer.resume_partitions({A, CHANGELOG})
    await rig.poll()
    assert rig.thread.fetched == [{A}]
    assert all(tp != CHANGELOG for tp, _ in rig.thread.seeks)
    assert await rig.consumer.highwaters(CHANGELOG) == {CHANGELOG: 0}
    assert await rig.consumer.earliest_offsets(CHANGELOG) == {CHANGELOG: 0}
    await rig.consumer.seek_wait({CHANGELOG: 5})
    assert all(tp != CHANGELOG for tp, _ in rig.thread.seeks)


async def test_lingering_merges_a_second_fetch_into_a_micro_batch_that_is_not_full(
    app: Any,
) -> None:
    rig = Rig(app, {A: [0, 1], B: []})
    await rig.join({0: 0, 1: 0})
    rig.reader._linger_seconds = 0.001

    async def arrive() -> None:
        rig.thread.logs = {A: [0, 1, 2], B: [4]}
        rig.consumer._asked[1] = 0  # B's gap is proven already

    rig.thread.after = arrive
    batch = await rig.poll()
    assert (offsets(batch), offsets(batch, B)) == ([0, 1, 2], [4])
    assert (batch.starts, batch.ends) == ({0: 0, 1: 0}, {0: 3, 1: 5})


async def test_gaps_at_the_head_and_between_merged_fetches_do_not_wait_for_each_other(
    app: Any,
) -> None:
    """Each asks for a fetch of its own: the question of the second must not be taken for the answer
    to the first.
    """

    class Few(FakeThread):
        def read(self, tp: TP) -> list[Fetched]:
            records = super().read(tp)[:2]
            if records:
                self.positions[tp] = records[-1].offset + 1
            return records

    log = {A: [1, 2, 4, 5, 7, 8]}
    rig = Rig(app, log, Few(log))
    await rig.join({0: 0})
    rig.reader._linger_seconds = 1e-6
    found = [offset for _ in range(30) for offset in offsets(await rig.poll())]
    assert found == log[A]


async def test_a_full_micro_batch_does_not_linger(app: Any) -> None:
    rig = Rig(app, {A: [*range(25)], B: []})
    await rig.join({0: 0})
    rig.reader._linger_seconds = 2 * PATIENCE_SECONDS
    assert offsets(await asyncio.wait_for(rig.poll(), PATIENCE_SECONDS)) == [*range(10)]


class Busy:
    """A delivery that is over with the micro-batch before after so many looks."""

    def __init__(self, rig: Rig, looks: int) -> None:
        self._rig, self._looks = rig, looks

    def commit_started(self, batch: MicroBatch) -> bool:
        assert batch is self._rig.reader._previous
        self._looks -= 1
        return self._looks < 0


@pytest.mark.parametrize("linger", [0.0, 0.001])
async def test_while_the_one_before_is_processed_a_micro_batch_takes_along_what_comes(
    app: Any, linger: float
) -> None:
    rig = Rig(app, {A: [0], B: []})
    await rig.join({0: 0})
    await rig.poll()
    rig.reader._delivery, rig.reader._linger_seconds = Busy(rig, 4), linger

    async def arrive() -> None:
        rig.thread.logs[A].append(len(rig.thread.logs[A]))
        rig.thread.after = arrive

    await arrive()
    assert offsets(await rig.poll()) == [*range(1, 6 if not linger else 7)]


async def test_it_waits_no_longer_when_it_is_full_or_the_tenure_is_another(app: Any) -> None:
    rig = Rig(app, {A: [0], B: []})
    await rig.join({0: 0})
    await rig.poll()
    rig.reader._delivery = Busy(rig, 10**9)
    rig.thread.logs[A] = [*range(30)]
    assert offsets(await asyncio.wait_for(rig.poll(), PATIENCE_SECONDS)) == [*range(1, 11)]
    await rig.revoke()
    await rig.join({0: 29})
    assert offsets(await asyncio.wait_for(rig.poll(), PATIENCE_SECONDS)) == [29]


async def test_it_waits_no_longer_than_a_micro_batch_may_take(app: Any) -> None:
    """A queue that lost what it held would be waited for without end."""
    rig = Rig(app, {A: [0], B: []})
    await rig.join({0: 0})
    await rig.poll()
    rig.reader._delivery, rig.reader._batch_seconds = Busy(rig, 10**9), 0.1
    rig.thread.logs[A] = [0, 1]
    assert offsets(await asyncio.wait_for(rig.poll(), PATIENCE_SECONDS)) == [1]


async def test_a_stale_no_committed_offset_of_the_driver_is_fetched_past(app: Any) -> None:
    rig = Rig(app, {A: [*range(5)], B: []})
    await rig.join({0: 0})

    async def fail() -> None:
        raise NoOffsetForPartitionError(A)

    rig.thread.after = fail  # with the records read and the position beyond them
    assert await rig.poll() is None
    assert offsets(await rig.poll()) == [*range(5)]


async def test_records_that_retention_removed_before_they_were_read_end_the_process(
    app: Any,
) -> None:
    rig = Rig(app, {A: [*range(5)], B: []})
    await rig.join({0: 0})

    async def overtaken() -> None:
        raise OffsetOutOfRangeError({A: 5})

    rig.thread.after = overtaken
    with pytest.raises(End) as end:
        await rig.consumer._drain_messages(rig.consumer)
    assert isinstance(end.value.cause, Crash)
    assert f"{INPUT}-0 has no offset 5: retention has removed records" in str(end.value.cause)


async def test_a_micro_batch_that_cannot_be_handed_over_ends_the_process(app: Any) -> None:
    rig = Rig(app, {A: [0], B: []})
    await rig.join({0: 0})

    async def full(_message: Any) -> None:
        raise RuntimeError("no room")

    rig.consumer.callback = full
    with pytest.raises(End) as end:
        await rig.consumer._drain_messages(rig.consumer)
    assert "no room" in str(end.value.cause)


# -- the whole -------------------------------------------------------------------------------------


class Adversary(FakeThread):
    """A driver that does at every fetch what the drawn plan says: everything the guard's rules are
    there for.
    """

    def __init__(self, logs: dict[TP, list[int]]) -> None:
        super().__init__(logs)
        self.bend: dict[TP, tuple[str, int]] = {}
        self.sought: set[TP] = set()

    def seek(self, tp: TP, offset: int) -> None:
        super().seek(tp, offset)
        self.sought.add(tp)

    def read(self, tp: TP) -> list[Fetched]:
        kind, amount = self.bend.pop(tp, ("honest", 10))
        # records vanish, but never right after a seek
        if kind == "ahead" and tp not in self.sought:
            self.positions[tp] += amount
        elif kind == "stale":
            self.positions[tp] = max(0, self.positions[tp] - amount)
        elif kind == "empty":
            return []
        elif kind == "short":
            self.sought.discard(tp)
            return super().read(tp)[:amount]  # the rest of what was read is lost
        self.sought.discard(tp)
        return super().read(tp)


_OFFSETS = st.lists(st.integers(1, 4), min_size=1, max_size=40).map(
    lambda steps: [sum(steps[: i + 1]) for i in range(len(steps))]
)
_BENDS = st.tuples(
    st.sampled_from(["honest", "ahead", "stale", "empty", "short"]), st.integers(1, 12)
)
_REBALANCES = st.sampled_from(
    [
        "",
        "",
        "",
        "before",
        "during",
        "after",
        "revoked during",
        "revoked after",
        "doubt during",
        "doubt after",
    ]
)
_TURNS = st.lists(
    st.tuples(
        _BENDS, _BENDS, _REBALANCES, st.booleans(), st.sampled_from([{A, B}, {A, B}, {A}, {B}])
    ),
    max_size=25,
)


class Life:
    """A worker's agent and group around the rig: commits some micro-batches, loses others to
    rebalances.
    """

    def __init__(self, rig: Rig, committed: dict[int, int]) -> None:
        self.rig = rig
        self.committed = committed
        self.delivered: dict[int, list[int]] = defaultdict(list)
        self.waiting: list[MicroBatch] = []
        self.assigned = {A, B}

    def commit(self) -> None:
        """The delivery's two checks, then the commit."""
        for batch in self.waiting:
            if batch.tenure == self.rig.held.tenure:
                for partition, start in batch.starts.items():
                    assert start == self.committed[partition], "the chain broke"
                for record in batch.records:
                    self.delivered[record.partition].append(record.offset)
                self.committed.update(batch.ends)
        self.waiting.clear()

    async def rebalance(self) -> None:
        await self.rig.revoke()
        await self.come_back()

    async def doubt(self) -> None:
        await self.rig.doubt({tp.partition: self.committed[tp.partition] for tp in self.assigned})

    async def come_back(self) -> None:
        await self.rig.join({tp.partition: self.committed[tp.partition] for tp in self.assigned})

    async def turn(
        self, bend_a: Any, bend_b: Any, rebalance: str, commit: bool, assigned: set[TP]
    ) -> None:
        thread = self.rig.thread
        thread.bend = {A: bend_a, B: bend_b}
        kind, _, when = rebalance.rpartition(" ")
        if rebalance and kind != "doubt":
            self.assigned = assigned
        if when == "before":
            await self.rebalance()
        elif when:
            what = {"": self.rebalance, "revoked": self.rig.revoke, "doubt": self.doubt}[kind]
            setattr(thread, when, what)
        batch = await self.rig.poll()
        if batch is not None:
            assert batch.tenure == self.rig.held.tenure
            self.waiting.append(batch)
        thread.during = thread.after = None
        if kind == "revoked":
            await self.come_back()
        if commit:
            self.commit()

    async def settle(self, logs: dict[TP, list[int]]) -> None:
        """No more mischief: all that is left arrives."""
        self.commit()
        self.rig.thread.bend = {}
        self.assigned = {A, B}
        await self.rebalance()
        for _ in range(2 * sum(map(len, logs.values())) + 4):
            batch = await self.rig.poll()
            self.waiting += [batch] if batch else []
            self.commit()


@settings(max_examples=300, deadline=None)
@given(
    st.tuples(_OFFSETS, _OFFSETS),
    st.integers(0, 30),
    st.integers(0, 30),
    _TURNS,
    st.sampled_from([0, 1e-6]),
)
def test_every_record_from_the_committed_offset_on_once_and_in_order(
    app: Any, logs: Any, start_a: int, start_b: int, turns: Any, linger: float
) -> None:
    """For any fetches (ahead, stale, cut short, gapped) and any rebalance around them."""
    log = {A: logs[0], B: logs[1]}
    starts = {0: start_a, 1: start_b}

    async def live() -> dict[int, list[int]]:
        rig = Rig(app, log, Adversary(log))
        rig.reader._linger_seconds = linger
        life = Life(rig, dict(starts))
        await life.come_back()
        for turn in turns:
            await life.turn(*turn)
        await life.settle(log)
        return life.delivered

    delivered = asyncio.run(live())
    for tp, offsets_ in log.items():
        assert delivered[tp.partition] == [o for o in offsets_ if o >= starts[tp.partition]]


# -- membership ------------------------------------------------------------------------------------


async def test_the_membership_is_captured_when_the_assignment_is_made_and_never_read_again(
    app: Any,
) -> None:
    rig = Rig(app, {A: [0], B: []})
    await rig.join({0: 0})
    rig.thread.generation, rig.thread.member_id = (
        -1,
        "",
    )  # what aiokafka has after a failed heartbeat
    batch = await rig.poll()
    assert batch.tenure.membership == Membership(2, "member", INSTANCE)
    assert rig.held.membership == Membership(2, "member", INSTANCE)


async def test_a_takeover_that_gave_way_to_the_group_seeks_nothing(app: Any) -> None:
    """The brokers that did not let it be done would not tell the offsets either."""
    rig = Rig(app, {A: [0]})
    await rig.join({0: 0})
    await rig.consumer.on_partitions_revoked({A})
    rig.parts.logs.input.starts = None  # to be asked by nobody
    rig.held.starts = None
    await rig.consumer.perform_seek()
    assert not rig.held.is_flowing


async def test_a_tenure_lasts_until_its_partitions_are_revoked(app: Any) -> None:
    """What is handed over later, or not committed by then, is read again after the takeover."""
    rig = Rig(app, {A: [0], B: []})
    assert rig.held.tenure is None
    await rig.join({0: 0})
    assert rig.held.tenure == Tenure(0, Membership(2, "member", INSTANCE))
    await rig.consumer.on_partitions_revoked({A, B})
    assert rig.held.tenure is None


@pytest.mark.parametrize(("generation", "member_id"), [(-2, "member"), (5, "")])
async def test_a_negative_or_empty_membership_ends_the_process(
    app: Any, generation: int, member_id: str
) -> None:
    rig = Rig(app, {A: [], B: []})
    rig.thread.generation, rig.thread.member_id = generation, member_id
    with pytest.raises(End) as end:
        await rig.assign({A})
    assert isinstance(end.value.cause, Crash)


# -- what Faust may not do -------------------------------------------------------------------------


async def test_faust_commits_no_offset_whatever_is_acknowledged(app: Any) -> None:
    rig = Rig(app, {A: [0, 1], B: []})
    await rig.join({0: 0})
    rig.consumer._acked[A], rig.consumer._acked_index[A] = (
        [0, 1],
        {0, 1},
    )  # as after two acknowledgements
    await rig.consumer.commit()
    await rig.consumer.force_commit()
    assert rig.thread.commits == []


async def test_faust_acknowledges_no_gap(app: Any) -> None:
    rig = Rig(app, {A: [], B: []})
    await rig.join({0: 0})
    await rig.consumer._add_gap(A, 0, 50)
    assert not rig.consumer._gap.get(A)
    assert rig.consumer._new_offset(A) is None


# -- where to start --------------------------------------------------------------------------------


async def test_the_seek_goes_to_the_offsets_of_the_takeovers_first_step(app: Any) -> None:
    rig = Rig(app, {A: [*range(5, 20)], B: [*range(5, 20)]})
    await rig.assign({A, B, CHANGELOG})
    committed = rig.parts.logs.committed = {0: Start(7, True, 20), 1: Start(5, False, 20)}
    assert await rig.parts.takeover.fetch_starts() == committed
    # by somebody else meanwhile: the state does not have it
    rig.parts.logs.committed = {0: Start(19, True, 20)}
    await rig.consumer.perform_seek()
    assert (rig.consumer.cursors, rig.thread.positions) == ({0: 7, 1: 5}, {A: 7, B: 5})


async def test_every_assignment_asks_for_its_own_offsets(app: Any) -> None:
    rig = Rig(app, {A: [], B: []})
    await rig.assign({A})
    rig.parts.logs.committed = {0: Start(7, True, 20)}
    await rig.parts.takeover.fetch_starts()  # of a takeover that a rebalance overtook
    await rig.revoke()
    await rig.assign({A})
    rig.parts.logs.committed = {0: Start(19, True, 20)}
    await rig.consumer.perform_seek()
    assert rig.consumer.cursors == {0: 19}
    await rig.consumer.perform_seek()
    assert rig.consumer.cursors == {0: 19}


async def test_offsets_that_cannot_be_had_end_the_process(app: Any) -> None:
    rig = Rig(app, {A: [], B: []})
    await rig.assign({A})
    refusal = SetupError("outside the log")

    def refuse(partitions: Any) -> Any:
        raise refusal

    rig.parts.takeover.logs.input.starts = refuse
    with pytest.raises(End) as end:
        await rig.consumer.perform_seek()
    assert end.value.cause is refusal
    assert not rig.held.is_flowing


# -- what status and watchdog ask ------------------------------------------------------------------


async def test_lag_can_be_asked_for_at_any_moment_of_a_rebalance(app: Any) -> None:
    """The watchdog's thread asks, and would die of an exception: aiokafka's own methods assert the
    assignment.
    """
    rig = Rig(app, {A: [], B: []})
    subscriptions = SubscriptionState()
    rig.thread._subscription = subscriptions

    def asked() -> tuple[int | None, int, int | None]:
        return rig.consumer.stable_end(0), rig.consumer.undecided(0), rig.consumer.fetch_position(0)

    assert asked() == (None, 0, None)
    subscriptions.subscribe({INPUT})
    assert asked() == (None, 0, None)
    subscriptions.assign_from_subscribed({B})
    assert asked() == (None, 0, None)
    subscriptions.assign_from_subscribed({A, B})
    assert asked() == (None, 0, None)
    state = subscriptions.subscription.assignment.state_value(A)
    state.lso = -1  # not asked for yet
    assert asked() == (None, 0, None)
    state.lso, state.highwater = 40, 45
    state.reset_to(38)
    assert asked() == (40, 5, 38)


def _async(action: Callable[[], None]) -> Callable[[], Awaitable[None]]:
    async def run() -> None:
        action()

    return run
