"""The commit protocol: what it drops, what it refuses, in which order it commits, and that it never hangs."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from tests.harness.faust_app import End, Ids, die
from tests.harness.patience import PATIENCE_SECONDS
from worker.errors import Crash, Fenced, SurroundingsError
from worker.events import Message, Record
from worker.kafka.transaction import Membership
from worker.limits import Limit
from worker.processing.processor import Batch, Stats
from worker.stream import delivery as module
from worker.stream.consumer import MicroBatch, Start
from worker.stream.delivery import Delivery

NOW, PAST = Membership(5, "member"), Membership(4, "member")
MESSAGE = Message("out", 0, b"k", b"v", [])


class Rig:
    """A delivery between fakes, and the order in which it uses them."""

    def __init__(
        self,
        deadline_seconds: float = PATIENCE_SECONDS,
        batch_bytes: int = 1000,
        batch_events: int = 1000,
        takes: int = 1000,
    ) -> None:
        self.log: list[Any] = []
        self.takes = takes  # records that the processor takes at once
        self.failures: dict[str, Exception] = {}
        self.applied: dict[int, int | None] = {}
        self.made_from: dict[int, str] = {}  # by partition: the topic id in its rows
        self.ids = Ids()
        self.membership: Membership | None = NOW
        self.rows_of: Callable[[int], dict[bytes, bytes | None]] = lambda partition: {b"row": b"1"}
        self.blocked: threading.Event | None = None
        self.delivery = Delivery(
            processor=self,  # type: ignore[arg-type]
            producer=SimpleNamespace(commit=self._transaction),  # type: ignore[arg-type]
            table=SimpleNamespace(write=self._write),
            changelog_topic="changelog",
            input_topic="in",
            batch_events=batch_events,
            batch_bytes=batch_bytes,
            deadline_seconds=deadline_seconds,
            membership=lambda: self.membership,
            topic_ids=self.ids,
            metrics=SimpleNamespace(
                observe_batch=lambda stats: self._note("observe"),
                observe_commit=lambda seconds: None,
                observe_limit=lambda limit: self._note("limit", limit),
            ),
        )

    def _note(self, what: str, *details: Any) -> None:
        self.log.append((what, *details) if details else what)
        if what in self.failures:
            raise self.failures[what]

    # the processor

    def check_partition(self, partition: int) -> int | None:
        return self.applied.get(partition)

    def topic_id(self, partition: int) -> str:
        return self.made_from.get(partition, "")

    def reads_from(self, partition: int, topic_id: str) -> None:
        self.made_from[partition] = topic_id or self.topic_id(partition)

    def process(self, records: Sequence[Record]) -> Batch:
        self._note("process", [(r.partition, r.offset) for r in records])
        taken = records[: self.takes]
        next_offsets = {r.partition: r.offset + 1 for r in taken}
        rows = {p: self.rows_of(p) for p in next_offsets}
        return Batch([MESSAGE], rows, next_offsets, Stats(), [], len(taken))

    def committed(self, batch: Batch) -> None:
        self._note("caches")

    def forget(self, partitions: Iterable[int]) -> None:
        self._note("forget", sorted(partitions))

    # producer and table

    def _transaction(
        self,
        messages: Any,
        changelog: str,
        rows: Mapping[int, Any],
        input_topic: str,
        next_offsets: Mapping[int, int],
        membership: Membership,
        check_topics: Callable[[], None],
    ) -> dict[int, int]:
        self._note("transaction", dict(next_offsets), membership)
        check_topics()
        assert (list(messages), changelog, input_topic) == ([MESSAGE], "changelog", "in")
        if self.blocked:
            self.blocked.wait(PATIENCE_SECONDS)
        return {p: 100 + p for p, changes in rows.items() if changes}

    def _write(self, partition: int, changes: Any, last_offset: int) -> None:
        self._note("write", partition, dict(changes), last_offset)

    async def take_over(self, **starts: int) -> None:
        offsets = {int(name[1:]): offset for name, offset in starts.items()}
        self.applied.update(offsets)
        await self.delivery.take_over({p: Start(o, True, 10**6) for p, o in offsets.items()})
        self.log.clear()


@pytest.fixture(autouse=True)
def _stay_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "die", die)


def batch(
    *records: tuple[int, int], starts: dict[int, int], membership: Membership = NOW, size: int = 0
) -> MicroBatch:
    made = tuple(Record("in", p, offset, 0, b"", b"x" * size) for p, offset in records)
    return MicroBatch(made, starts, {p: offset + 1 for p, offset in records}, membership)


# -- the order --------------------------------------------------------------------------------------------------------


@pytest.mark.asyncio
async def test_process_then_transaction_then_local_rows_then_caches() -> None:
    rig = Rig()
    await rig.take_over(p0=5, p1=8)
    await rig.delivery.deliver(batch((0, 5), (0, 6), (1, 9), starts={0: 5, 1: 8}))
    assert rig.log == [
        ("process", [(0, 5), (0, 6), (1, 9)]),
        ("transaction", {0: 7, 1: 10}, NOW),
        ("write", 0, {b"row": b"1"}, 100),
        ("write", 1, {b"row": b"1"}, 101),
        "caches",
        "observe",
    ]
    assert rig.delivery.positions == {0: 7, 1: 10}
    assert rig.delivery.busy_since is None


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "failure", [Crash("in doubt"), Fenced("another one"), RuntimeError("unexpected"), MemoryError()]
)
async def test_a_transaction_that_failed_or_is_in_doubt_ends_the_process_and_writes_nothing(
    failure: Exception,
) -> None:
    rig = Rig()
    await rig.take_over(p0=5)
    rig.failures = {"transaction": failure}
    with pytest.raises(End) as end:
        await rig.delivery.deliver(batch((0, 5), starts={0: 5}))
    assert end.value.cause is failure
    assert [what if isinstance(what, str) else what[0] for what in rig.log] == ["process", "transaction"]
    assert rig.delivery.positions == {0: 5}


@pytest.mark.asyncio
@pytest.mark.parametrize("step", ["process", "write", "caches"])
async def test_a_failure_of_any_step_ends_the_process(step: str) -> None:
    rig = Rig()
    await rig.take_over(p0=5)
    rig.failures = {step: RuntimeError("unexpected")}
    with pytest.raises(End) as end:
        await rig.delivery.deliver(batch((0, 5), starts={0: 5}))
    assert end.value.cause is rig.failures[step]
    assert (rig.log[-1] if isinstance(rig.log[-1], str) else rig.log[-1][0]) == step


@pytest.mark.asyncio
async def test_a_partition_without_rows_is_not_written() -> None:
    rig = Rig()
    await rig.take_over(p0=5, p1=8)
    rig.rows_of = lambda partition: {b"row": None} if partition else {}
    await rig.delivery.deliver(batch((0, 5), (1, 8), starts={0: 5, 1: 8}))
    assert [step for step in rig.log if step[0] == "write"] == [("write", 1, {b"row": None}, 101)]


@pytest.mark.asyncio
@pytest.mark.parametrize("step", ["transaction", "process"])
async def test_the_event_loop_goes_on_meanwhile(step: str) -> None:
    """It heartbeats and answers requests while librdkafka or the model works."""
    rig = Rig()
    await rig.take_over(p0=5)
    rig.blocked = threading.Event()
    if step == "process":
        process = rig.process
        rig.process = lambda records: (rig.blocked.wait(PATIENCE_SECONDS), process(records))[1]  # type: ignore[method-assign, union-attr]
    running = asyncio.ensure_future(rig.delivery.deliver(batch((0, 5), starts={0: 5})))
    for _ in range(20):
        await asyncio.sleep(0.001)
    assert not running.done()
    assert rig.delivery.busy_since is not None
    rig.blocked.set()
    await running


# -- the guard --------------------------------------------------------------------------------------------------------


@pytest.mark.asyncio
@pytest.mark.parametrize("membership", [PAST, Membership(5, "another"), Membership(6, "member")])
async def test_a_micro_batch_of_another_assignment_is_dropped(membership: Membership) -> None:
    """It will be read again by its new owner, perhaps this very worker."""
    rig = Rig()
    await rig.take_over(p0=5)
    await rig.delivery.deliver(batch((0, 99), starts={0: 99}, membership=membership))
    assert rig.log == []
    assert rig.delivery.positions == {0: 5}


@pytest.mark.asyncio
async def test_a_rebalance_ends_a_micro_batch_between_two_commits() -> None:
    """Faust waits for it, and the group does not wait for ever: dozens of commits may be too many."""
    rig = Rig(takes=1)
    await rig.take_over(p0=5)
    committed = rig.committed

    def revoked(processed: Batch) -> None:
        committed(processed)
        rig.membership = None

    rig.committed = revoked  # type: ignore[method-assign]
    await rig.delivery.deliver(batch((0, 5), (0, 6), (0, 7), starts={0: 5}))
    assert [entry[1] for entry in rig.log if entry[0] == "transaction"] == [{0: 6}]


@pytest.mark.asyncio
@pytest.mark.parametrize("start", [4, 6])
async def test_a_micro_batch_that_does_not_follow_the_last_one_ends_the_process(start: int) -> None:
    rig = Rig()
    await rig.take_over(p0=3, p1=1)
    await rig.delivery.deliver(batch((0, 4), starts={0: 3}))
    rig.log.clear()
    with pytest.raises(End) as end:
        await rig.delivery.deliver(batch((1, 1), (0, start), starts={1: 1, 0: start}))
    assert isinstance(end.value.cause, Crash)
    assert f"begins at {start}, not 5" in str(end.value.cause)
    assert rig.log == []


@pytest.mark.asyncio
async def test_a_gap_that_the_consumer_proved_is_no_break() -> None:
    rig = Rig()
    await rig.take_over(p0=3)
    await rig.delivery.deliver(batch((0, 90), starts={0: 3}))
    await rig.delivery.deliver(batch((0, 95), starts={0: 91}))
    assert rig.delivery.positions == {0: 96}


@pytest.mark.asyncio
async def test_a_partition_that_was_not_taken_over_ends_the_process() -> None:
    rig = Rig()
    await rig.take_over(p0=3)
    with pytest.raises(End) as end:
        await rig.delivery.deliver(batch((1, 0), starts={1: 0}))
    assert isinstance(end.value.cause, Crash)


# -- deadline and bounds ----------------------------------------------------------------------------------------------


@pytest.mark.asyncio
async def test_a_commit_past_its_deadline_ends_the_process_though_the_producer_blocks() -> None:
    """librdkafka has been seen to block for minutes past its own timeouts."""
    rig = Rig(deadline_seconds=0.05)
    await rig.take_over(p0=5)
    rig.blocked = threading.Event()
    try:
        with pytest.raises(End) as end:
            await asyncio.wait_for(rig.delivery.deliver(batch((0, 5), starts={0: 5})), PATIENCE_SECONDS)
        assert isinstance(end.value.cause, Crash)
        assert "0.05 s" in str(end.value.cause)
    finally:
        rig.blocked.set()


@pytest.mark.asyncio
async def test_a_micro_batch_is_committed_in_parts_of_limited_bytes() -> None:
    rig = Rig(batch_bytes=250)
    await rig.take_over(p0=0)
    await rig.delivery.deliver(batch(*[(0, o) for o in range(5)], starts={0: 0}, size=100))
    assert [step[1] for step in rig.log if step[0] == "process"] == [
        [(0, 0), (0, 1)],
        [(0, 2), (0, 3)],
        [(0, 4)],
    ]
    assert [step[1] for step in rig.log if step[0] == "transaction"] == [{0: 2}, {0: 4}, {0: 5}]


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("limits", "parts", "hit"),
    [
        ({"batch_bytes": 500}, [5], None),  # exactly at the limit
        ({"batch_bytes": 499}, [4, 1], Limit.BATCH_BYTES),
        ({"batch_events": 5}, [5], None),
        ({"batch_events": 4}, [4, 1], Limit.BATCH_EVENTS),
    ],
)
async def test_what_is_beyond_a_limit_is_the_next_part_and_counted(
    limits: dict[str, int], parts: list[int], hit: Limit | None
) -> None:
    rig = Rig(**limits)
    await rig.take_over(p0=0)
    await rig.delivery.deliver(batch(*[(0, o) for o in range(5)], starts={0: 0}, size=100))
    assert [len(step[1]) for step in rig.log if step[0] == "process"] == parts
    assert [step[1] for step in rig.log if step[0] == "limit"] == ([hit] if hit else [])


@pytest.mark.asyncio
async def test_what_the_processor_left_is_processed_after_the_commit_of_what_it_took() -> None:
    rig = Rig(takes=2)
    await rig.take_over(p0=0)
    await rig.delivery.deliver(batch(*[(0, o) for o in range(5)], starts={0: 0}))
    steps = [step for step in rig.log if step[0] in ("process", "transaction")]
    assert steps == [
        ("process", [(0, 0), (0, 1), (0, 2), (0, 3), (0, 4)]),
        ("transaction", {0: 2}, NOW),
        ("process", [(0, 2), (0, 3), (0, 4)]),
        ("transaction", {0: 4}, NOW),
        ("process", [(0, 4)]),
        ("transaction", {0: 5}, NOW),
    ]


@pytest.mark.asyncio
async def test_a_single_record_beyond_the_byte_limit_goes_alone() -> None:
    rig = Rig(batch_bytes=50)
    await rig.take_over(p0=0)
    await rig.delivery.deliver(batch((0, 0), (0, 1), starts={0: 0}, size=100))
    assert [step[1] for step in rig.log if step[0] == "process"] == [[(0, 0)], [(0, 1)]]


# -- state and offsets ------------------------------------------------------------------------------------------------


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("applied", "start"),
    [
        (10, Start(10, True, 10)),
        (10, Start(3, True, 10)),  # rewound: what is applied is ignored
        (10, Start(0, False, 10)),  # the group's offsets are gone, the state is not
        (None, Start(4, False, 10)),  # a new worker on a log that was cut
    ],
)
async def test_state_at_or_ahead_of_the_offsets_is_taken_over(applied: int | None, start: Start) -> None:
    rig = Rig()
    rig.applied = {0: applied}
    await rig.delivery.take_over({0: start})
    assert rig.delivery.positions == {0: start.offset}
    await rig.delivery.deliver(batch((0, start.offset), starts={0: start.offset}))


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("applied", "start", "complaint"),
    [
        (9, Start(10, True, 20), "the state ends at 9"),
        (None, Start(10, True, 20), "the state ends at 0"),
        (9, Start(10, False, 20), "the state ends at 9"),  # retention passed over unread records
        (11, Start(0, False, 10), "made anew"),
    ],
)
async def test_state_that_does_not_fit_the_offsets_is_refused(
    applied: int | None, start: Start, complaint: str
) -> None:
    rig = Rig()
    rig.applied = {0: applied}
    with pytest.raises(SurroundingsError, match=f"{complaint}.*coversumm-worker reset"):
        await rig.delivery.take_over({0: start})
    assert rig.delivery.positions == {}


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("stored", "told", "noted"),
    [
        ("one", "one", "one"),
        ("", "one", "one"),  # rows of an older format: taken over, and it is noted from now on
        ("one", "", "one"),  # a broker that does not tell: offsets alone decide
        ("", "", ""),
    ],
)
async def test_the_topic_that_the_state_was_made_from_is_taken_over(
    stored: str, told: str, noted: str
) -> None:
    rig = Rig()
    rig.applied, rig.made_from, rig.ids.told = {0: 10}, {0: stored}, {"in": told}
    await rig.delivery.take_over({0: Start(10, True, 10)})
    assert rig.made_from == {0: noted}


@pytest.mark.asyncio
@pytest.mark.parametrize(("stored", "told"), [("one", "one"), ("", "one"), ("one", ""), ("", "")])
async def test_a_state_beyond_the_end_is_a_successors_only_in_the_topic_it_was_made_from(
    stored: str, told: str
) -> None:
    """A takeover that is paused between offsets and restore finds the rows of whoever took over meanwhile."""
    rig = Rig()
    rig.applied, rig.made_from, rig.ids.told = {0: 12}, {0: stored}, {"in": told}
    if stored and told:
        await rig.delivery.take_over({0: Start(10, True, 10)})
        assert rig.delivery.positions == {0: 10}
    else:
        with pytest.raises(SurroundingsError, match="made anew"):
            await rig.delivery.take_over({0: Start(10, True, 10)})


@pytest.mark.asyncio
async def test_an_input_topic_made_anew_is_refused_though_its_log_is_longer() -> None:
    rig = Rig()
    rig.applied, rig.made_from, rig.ids.told = {0: 10}, {0: "one"}, {"in": "two"}
    with pytest.raises(
        SurroundingsError, match=r"the id one, .* the id two: .*made anew.*coversumm-worker reset"
    ):
        await rig.delivery.take_over({0: Start(10, True, 5000)})
    assert rig.delivery.positions == {}


@pytest.mark.asyncio
async def test_a_topic_made_anew_in_mid_flight_ends_the_process_before_the_commit() -> None:
    rig = Rig()
    await rig.take_over(p0=5)
    rig.ids.failure = Crash("made anew")
    with pytest.raises(End) as end:
        await rig.delivery.deliver(batch((0, 5), starts={0: 5}))
    assert end.value.cause is rig.ids.failure
    assert [what if isinstance(what, str) else what[0] for what in rig.log] == ["process", "transaction"]


@pytest.mark.asyncio
async def test_a_takeover_reads_the_state_anew() -> None:
    """What was cached of a partition may be from before its restore."""
    rig = Rig()
    rig.applied = {0: 10}
    await rig.delivery.take_over({0: Start(10, True, 10)})
    assert rig.log == [("forget", [0])]


@pytest.mark.asyncio
async def test_an_assignment_that_ended_is_forgotten() -> None:
    rig = Rig()
    await rig.take_over(p0=5, p1=6)
    await rig.delivery.let_go()
    assert rig.log == [("forget", [0, 1])]
    assert rig.delivery.positions == {}
    with pytest.raises(End):
        await rig.delivery.deliver(batch((0, 5), starts={0: 5}))
