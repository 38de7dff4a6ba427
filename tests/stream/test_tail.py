"""The end of a partition in a bounded run: it is finished when nothing below its end is left, and
not before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.errors import KafkaConnectionError, NodeNotReadyError, OffsetOutOfRangeError
from aiokafka.protocol.fetch import (
    FetchRequest,
    FetchResponse_v4,
    FetchResponse_v5,
    FetchResponse_v10,
    FetchResponse_v11,
)
from faust.types import TP
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.harness.consumer_thread import Fetched
from tests.harness.fake_clients import FakeClock
from tests.harness.stream import INPUT, make_app
from tests.stream.faust.rig import FakeThread, Rig, offsets
from worker.errors import Crash, SetupError, Unanswered
from worker.kafka.offsets import CUT_SHORT_SECONDS
from worker.stream.bounded_reader import CHECK_SECONDS
from worker.stream.delivery import MicroBatch
from worker.stream.faust.consumer_thread import is_empty
from worker.stream.run_bounds import Ledger, RunBounds

A, B = TP(INPUT, 0), TP(INPUT, 1)


class Log:
    """What a partition holds: records, and offsets that a fetch passes without one (markers,
    aborted records).
    """

    def __init__(
        self, records: list[int], *, passed: Collection[int] = (), stable: int, end: int
    ) -> None:
        self.records = records
        self.passed = passed
        self.stable = stable
        self.end = end

    def after(self, position: int) -> int:
        """Where a fetch from here ends that returns no record: no hole is ever passed."""
        there = {*self.records, *self.passed}
        return max((o + 1 for o in there if position <= o < self.stable), default=position)


class TailThread(FakeThread):
    """A driver that moves its position past what holds no record, as aiokafka does; `most` records
    a fetch.
    """

    def __init__(self, logs: dict[TP, Log]) -> None:
        super().__init__({})
        self.tails = logs
        self.most = 10
        # fetches whose records are lost, and the position past them; none right after a seek
        self.losses = 0
        self.sought: set[TP] = set()
        self.asked: list[int] = []
        self.failure: Exception | None = None

    def seek(self, tp: TP, offset: int) -> None:
        super().seek(tp, offset)
        self.sought.add(tp)

    def read(self, tp: TP) -> list[Fetched]:
        log, position = self.tails[tp], self.positions[tp]
        self.ends[tp] = log.stable, log.end
        found = [offset for offset in log.records if position <= offset < log.stable]
        if self.losses and tp not in self.sought:
            self.losses -= 1
            self.positions[tp] = log.after(position)
            return []
        self.sought.discard(tp)
        self.positions[tp] = (
            found[self.most - 1] + 1 if len(found) >= self.most else log.after(position)
        )
        return [
            Fetched(tp.topic, tp.partition, o, 0, b"key", b"%d" % o) for o in found[: self.most]
        ]

    # aiokafka's client

    @property
    def _client(self) -> Any:
        return SimpleNamespace(
            cluster=SimpleNamespace(leader_for_partition=lambda tp: 1), send=self._send
        )

    async def _send(self, node: int, request: Any) -> Any:
        ((topic, ((partition, offset, _),)),) = request._topics
        self.asked.append(offset)
        if self.failure is not None:
            raise self.failure
        log = self.tails[TP(topic, partition)]
        held = any(offset <= o < log.stable for o in {*log.records, *log.passed})
        return answer(FetchResponse_v11, 0, log.stable, b"batches" if held else b"", partition)


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return make_app(tmp_path_factory.mktemp("app"))


async def bounded(app: Any, logs: dict[TP, Log], ends: dict[int, int], **starts: int) -> Rig:
    """A rig whose run ends there; it begins at 0 unless said otherwise."""
    rig = Rig(app, {}, TailThread(logs), RunBounds(ends=ends))
    await rig.join({tp.partition: starts.get(f"p{tp.partition}", 0) for tp in logs})
    return rig


async def until_finished(rig: Rig, *partitions: int, turns: int = 20) -> list[MicroBatch]:
    """The micro-batches up to the one with which the last of these partitions is finished."""
    batches: list[MicroBatch] = []
    for _ in range(turns):
        batch = await rig.poll()
        batches += [batch] if batch else []
        if set(partitions) <= {entity for batch in batches for entity in batch.finished}:
            return batches
    raise AssertionError(f"{partitions} are not finished")


# -- what is at the end of a log -------------------------------------------------------------------


async def test_the_last_record_is_the_end(app: Any) -> None:
    """Finished with the micro-batch of its last records, and not fetched any more."""
    rig = await bounded(app, {A: Log([0, 1, 2], stable=3, end=3)}, {0: 3})
    (batch,) = await until_finished(rig, 0)
    assert (offsets(batch), batch.starts, batch.ends, batch.finished) == (
        [0, 1, 2],
        {0: 0},
        {0: 3},
        {0},
    )
    fetches = len(rig.thread.fetched)
    assert await rig.poll() is None
    assert len(rig.thread.fetched) == fetches


async def test_an_open_transaction_below_the_end_is_waited_for(app: Any) -> None:
    log = Log([0, 1], stable=2, end=5)
    rig = await bounded(app, {A: log}, {0: 4})
    for _ in range(5):
        batch = await rig.poll()
        assert batch is None or not batch.finished
    assert rig.consumer.undecided(0) == 2  # of those below the end
    log.records, log.passed, log.stable = [0, 1, 2], {3, 4}, 5
    assert [offsets(batch) for batch in await until_finished(rig, 0)] == [[2], []]


async def test_a_log_that_ends_below_the_end_is_waited_for_only_as_long_as_a_leader_may_not_know_it(
    app: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """A record may still come; else the topic was created again, or records are lost: no
    transaction is open there.
    """
    log = Log([0, 1], stable=2, end=2)
    rig = await bounded(app, {A: log}, {0: 4})
    clock = FakeClock()
    rig.reader._clock = clock
    await rig.poll()
    await rig.poll()
    clock.sleep(CUT_SHORT_SECONDS - 1)
    await rig.poll()
    clock.sleep(2)
    with pytest.raises(
        SetupError, match=f"{INPUT}-0 ends at offset 2, and the plan of the replay at 4"
    ):
        await rig.poll()
    assert "open transaction" not in caplog.text
    rig = await bounded(app, {A: log}, {0: 4})
    rig.reader._clock = clock
    await rig.poll()
    await rig.poll()
    log.stable = log.end = 4
    log.records = [0, 1, 2, 3]
    clock.sleep(CUT_SHORT_SECONDS + 1)
    assert [offsets(batch) for batch in await until_finished(rig, 0)] == [[2, 3]]


async def test_while_it_waits_it_looks_whether_the_topic_is_the_same(app: Any) -> None:
    """Commits look, and there are none; brokers that do not answer are no other topic."""
    rig = await bounded(app, {A: Log([0, 1], stable=2, end=5)}, {0: 4})
    clock = FakeClock()
    rig.reader._clock = clock
    await rig.poll()
    ids = rig.parts.logs.ids
    ids.failure = Unanswered("away")
    await rig.poll()
    ids.failure = SetupError("another topic")
    await rig.poll()  # not at every look
    clock.sleep(CHECK_SECONDS)
    with pytest.raises(SetupError, match="another topic"):
        await rig.poll()


async def test_an_offset_that_is_gone_may_be_one_of_another_topic(
    app: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = await bounded(app, {A: Log([0, 1], stable=2, end=5)}, {0: 4})

    async def gone(*_: Any) -> Any:
        raise OffsetOutOfRangeError({A: 0})

    monkeypatch.setattr(rig.consumer, "_getmany", gone)
    with pytest.raises(Crash, match="has no offset 0"):
        await rig.poll()
    rig.parts.logs.ids.failure = SetupError("another topic")
    with pytest.raises(SetupError, match="another topic"):
        await rig.poll()


async def test_so_it_is_where_nothing_is_to_be_read(app: Any) -> None:
    """Else an offset would be committed that lies beyond what whoever comes next can see of the
    log.
    """
    log = Log([0, 1, 2], stable=1, end=3)
    rig = await bounded(app, {A: log}, {0: 3}, p0=3)
    for _ in range(5):
        assert await rig.poll() is None
    log.stable = 3
    (batch,) = await until_finished(rig, 0)
    assert (batch.records, batch.starts, batch.ends) == ((), {0: 3}, {0: 3})


# -- in turn ---------------------------------------------------------------------------------------


async def test_one_partition_is_read_after_the_other(app: Any) -> None:
    logs = {tp: Log(list(range(25)), stable=25, end=25) for tp in (A, B)}
    rig = await bounded(app, logs, {0: 25, 1: 25})
    batches = await until_finished(rig, 0, 1)
    assert [(list(batch.ends), len(batch.records)) for batch in batches] == [
        ([0], 10),
        ([0], 10),
        ([0], 5),
        ([1], 10),
        ([1], 10),
        ([1], 5),
    ]


async def test_a_partition_without_news_holds_up_no_other(app: Any) -> None:
    """It is left in the middle, for a transaction that is open, and gone back to once that is
    decided.
    """
    waiting = Log(list(range(10)), stable=4, end=10)
    rig = await bounded(
        app, {A: waiting, B: Log(list(range(15)), stable=15, end=15)}, {0: 10, 1: 15}
    )
    batches = await until_finished(rig, 1)
    assert [list(batch.ends) for batch in batches] == [[0], [1], [1]]
    waiting.stable = 10
    (rest,) = await until_finished(rig, 0)
    assert offsets(rest) == [4, 5, 6, 7, 8, 9]


@pytest.mark.parametrize(
    ("events", "size", "lengths"),
    [(10, 1000, [10, 10, 10, 5]), (25, 1000, [20, 15]), (40, 1000, [35]), (40, 60, [30, 5])],
)
async def test_a_micro_batch_is_filled_from_its_partition(
    app: Any, events: int, size: int, lengths: list[int]
) -> None:
    """By whole fetches, while they fit by events and bytes; ten records have 10 to 20 bytes."""
    logs = {A: Log(list(range(35)), stable=35, end=35), B: Log([0], stable=1, end=1)}
    rig = await bounded(app, logs, {0: 35, 1: 1})
    rig.reader._batch_events, rig.reader._batch_bytes = events, size
    batches = await until_finished(rig, 0)
    assert [len(batch.records) for batch in batches] == lengths
    assert [offset for batch in batches for offset in offsets(batch)] == [*range(35)]


# -- what proves nothing ---------------------------------------------------------------------------


@pytest.mark.parametrize("when", ["during", "after"])
async def test_nothing_is_finished_under_an_assignment_that_ended_meanwhile(
    app: Any, when: str
) -> None:
    rig = await bounded(app, {A: Log([], passed={0}, stable=1, end=1)}, {0: 1})
    await rig.poll()
    setattr(rig.thread, when, rig.revoke)
    assert await rig.poll() is None
    await rig.join({0: 0})
    (batch,) = await until_finished(rig, 0)
    assert batch.tenure == rig.held.tenure


async def test_what_is_over_by_the_ledger_is_not_finished_again(app: Any) -> None:
    class Over(Ledger):
        def is_over(self, partition: int) -> bool:
            return partition == 0

    logs = {A: Log([0, 1], stable=2, end=2), B: Log([0], stable=1, end=1)}
    rig = Rig(app, {}, TailThread(logs), RunBounds(ends={0: 1, 1: 1}, ledger=Over()))
    await rig.join({0: 1, 1: 0})
    (batch,) = await until_finished(rig, 1)
    assert batch.finished == {1}
    assert rig.thread.fetched == [{B}]


# -- holes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("failure", [NodeNotReadyError(), KafkaConnectionError()])
async def test_a_leader_that_does_not_answer_proves_no_hole_and_ends_nothing(
    app: Any, failure: Exception
) -> None:
    rig = await bounded(app, {A: Log([0], stable=4, end=4)}, {0: 4})
    thread = rig.thread
    assert isinstance(thread, TailThread)
    thread.failure = failure
    for _ in range(4):
        batch = await rig.poll()
        assert batch is None or not batch.finished
    assert thread.asked
    thread.failure = None
    assert await until_finished(rig, 0)


def answer(version: Any, error: int, stable: int, records: bytes, partition: int = 0) -> Any:
    """The answer to a fetch, as the wire brings it."""
    before = {4: (), 5: (0,), 10: (0,), 11: (0,)}[version.API_VERSION]  # the log's start
    replica = (-1,) if version.API_VERSION == 11 else ()
    row = (partition, error, stable, stable, *before, [], *replica, records)
    head = (0,) if version.API_VERSION < 7 else (0, 0, 0)
    return version.decode(version(*head, [(INPUT, [row])]).encode())


def client_of(reply: Callable[[Any], Any], leader: int | None = 1) -> Any:
    async def send(node: int, request: Any) -> Any:
        assert node == leader
        return reply(request)

    return SimpleNamespace(
        cluster=SimpleNamespace(leader_for_partition=lambda tp: leader), send=send
    )


@pytest.mark.parametrize(
    "version", [FetchResponse_v4, FetchResponse_v5, FetchResponse_v10, FetchResponse_v11]
)
@pytest.mark.parametrize(
    ("error", "stable", "records", "empty"),
    [
        (0, 6, b"", True),
        (0, 7, b"", True),
        (0, 5, b"", False),  # undecided below the end
        (0, 6, b"batch", False),
        (6, 6, b"", False),  # NOT_LEADER_OR_FOLLOWER
        (1, 6, b"", False),  # OFFSET_OUT_OF_RANGE
    ],
)
def test_a_partition_is_empty_by_an_answer_of_any_version(
    version: Any, error: int, stable: int, records: bytes, empty: bool
) -> None:
    asked = []

    def reply(request: Any) -> Any:
        wanted = {FetchRequest.API_KEY: (4, version.API_VERSION)}
        asked.append(request.prepare(wanted))
        return answer(version, error, stable, records)

    assert asyncio.run(is_empty(client_of(reply), A, 2, 6)) is empty
    (request,) = asked
    assert request.RESPONSE_TYPE is version
    assert request.isolation_level == 1
    assert request.encode()


def test_nothing_is_known_of_a_partition_without_a_leader_or_in_an_answer_that_was_throttled() -> (
    None
):
    nothing = SimpleNamespace(topics=[])  # a broker that throttles leaves everything out
    assert not asyncio.run(is_empty(client_of(lambda _: nothing), A, 2, 6))
    for leader in (None, -1):
        assert not asyncio.run(is_empty(client_of(lambda _: nothing, leader), A, 2, 6))


# -- the whole -------------------------------------------------------------------------------------

_KINDS = st.lists(st.sampled_from(["record", "passed", "hole"]), max_size=25)


@settings(max_examples=300, deadline=None)
@given(_KINDS, st.integers(0, 25), st.integers(1, 5), st.integers(0, 3))
def test_every_record_below_the_end_once_and_then_it_is_finished(
    app: Any, kinds: list[str], end: int, most: int, lost: int
) -> None:
    """Whatever the log holds on either side of the end, however little a fetch brings, and however
    many are lost.
    """
    end = min(end, len(kinds))
    log = Log(
        [offset for offset, kind in enumerate(kinds) if kind == "record"],
        passed={offset for offset, kind in enumerate(kinds) if kind == "passed"},
        stable=len(kinds),
        end=len(kinds),
    )

    async def live() -> list[MicroBatch]:
        rig = await bounded(app, {A: log}, {0: end})
        assert isinstance(rig.thread, TailThread)
        rig.thread.most, rig.thread.losses = most, lost
        rig.thread.sought.clear()
        return await until_finished(rig, 0, turns=200)

    batches = asyncio.run(live())
    assert [o for batch in batches for o in offsets(batch)] == [o for o in log.records if o < end]
    assert [batch.ends[0] for batch in batches if batch.finished] == [end]
    cursor = 0
    for batch in batches:
        assert batch.starts == {0: cursor}
        cursor = batch.ends[0]
