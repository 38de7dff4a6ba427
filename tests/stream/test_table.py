"""The table: its gate, where a restore starts, and the order of a takeover (on a real broker: tests/real_kafka)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from faust.types import TP

from tests.harness.faust_app import End, die, make_app, make_table
from tests.harness.patience import PATIENCE_SECONDS
from worker.errors import Crash
from worker.kafka.topics import DELETE_RETENTION_MS
from worker.state import DamagedDatabase
from worker.stream import table as module
from worker.stream.consumer import Start
from worker.stream.table import ACTIVE, CHANGELOG_ID_KEY, STANDBY, CommittedTable

CHANGELOG = "tests-entities-changelog"
START = Start(5, True, 9)
STARTS = {0: START}


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[CommittedTable]:
    app = make_app(tmp_path / "data")
    made = make_table(app)
    made.loop = loop = asyncio.new_event_loop()  # Faust would make one and never close it
    monkeypatch.setattr(module, "die", die)
    yield made
    made.data._dbs.clear()
    loop.close()


def hold(table: CommittedTable, partition: int = 0, role: str = ACTIVE) -> None:
    table._roles[partition] = role


def stored(table: CommittedTable, partition: int = 0) -> tuple[dict[bytes, bytes], int]:
    """The rows on disk, and the changelog offset they belong to."""
    rows = dict(table._database(partition).items())
    rows.pop(table.data.offset_key, None)
    rows.pop(CHANGELOG_ID_KEY, None)
    return rows, table._stored_offset(partition)


class OneWrite:
    """A RocksDB that counts what goes into it, and lets nothing by but whole batches."""

    def __init__(self, database: Any) -> None:
        self.get, self.writes = database.get, 0
        self._write = database.write

    def write(self, batch: Any) -> None:
        self.writes += 1
        self._write(batch)


# -- the gate ---------------------------------------------------------------------------------------------------------


def test_rows_and_their_changelog_offset_are_one_atomic_write(
    table: CommittedTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold(table)
    table.write(0, {b"gone": b"1"}, 3)
    database = OneWrite(table._database(0))
    monkeypatch.setattr(table, "_database", lambda partition: database)
    table.write(0, {b"a": b"1", b"gone": None, b"": b"empty key", b"empty value": b""}, 9)
    monkeypatch.undo()
    assert database.writes == 1
    assert stored(table) == ({b"a": b"1", b"": b"empty key", b"empty value": b""}, 9)
    assert table.rows(0).get(b"a") == b"1"


def test_partitions_are_apart(table: CommittedTable) -> None:
    hold(table, 0), hold(table, 1)
    table.write(0, {b"a": b"0"}, 5)
    table.write(1, {b"a": b"1"}, 2)
    assert (stored(table, 0), stored(table, 1)) == (({b"a": b"0"}, 5), ({b"a": b"1"}, 2))


@pytest.mark.parametrize("role", [None, STANDBY])
def test_the_gate_refuses_rows_for_a_partition_in_another_role(
    table: CommittedTable, role: str | None
) -> None:
    if role:
        hold(table, role=role)
    with pytest.raises(Crash, match="no longer active"):
        table.write(0, {b"a": b"1"}, 1)
    assert stored(table) == ({}, -1)


def test_the_gate_refuses_a_standbys_rows_for_an_active_partition(table: CommittedTable) -> None:
    hold(table)
    with pytest.raises(Crash, match="no longer standby"):
        table._apply(STANDBY, table._epoch, 0, {b"a": b"1"}, 1, after=0)
    assert stored(table) == ({}, -1)


def test_the_gate_refuses_rows_of_a_past_assignment(table: CommittedTable) -> None:
    hold(table)
    past, table._epoch = table._epoch, table._epoch + 1
    with pytest.raises(Crash, match="no longer"):
        table._apply(ACTIVE, past, 0, {b"a": b"1"}, 1, after=0)
    assert stored(table) == ({}, -1)


@pytest.mark.parametrize("offset", [6, 7])
def test_the_gate_refuses_to_go_back(table: CommittedTable, offset: int) -> None:
    hold(table)
    table.write(0, {b"a": b"1"}, 7)
    with pytest.raises(Crash, match="go back"):
        table.write(0, {b"a": b"2"}, offset)
    assert stored(table) == ({b"a": b"1"}, 7)


@pytest.mark.parametrize("after", [6, 7])
def test_the_gate_refuses_a_restore_from_before_what_is_stored(table: CommittedTable, after: int) -> None:
    """Its rows would be older than the stored ones, although its last offset is newer."""
    hold(table)
    table.write(0, {b"a": b"1"}, 7)
    with pytest.raises(Crash, match="go back"):
        table._apply(ACTIVE, table._epoch, 0, {b"a": b"old"}, 9, after=after)
    table._apply(ACTIVE, table._epoch, 0, {b"a": b"2"}, 9, after=8)
    assert stored(table) == ({b"a": b"2"}, 9)


def test_the_gate_lets_one_writer_through_at_a_time(
    table: CommittedTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold(table)
    database = table._database(0)
    entered, go_on, second = threading.Event(), threading.Event(), threading.Event()
    inside: list[Any] = []

    class Slow(OneWrite):
        def write(self, batch: Any) -> None:
            inside.append(batch)
            entered.set()
            assert go_on.wait(PATIENCE_SECONDS)
            super().write(batch)

    slow = Slow(database)
    monkeypatch.setattr(table, "_database", lambda partition: slow)
    writers = [
        threading.Thread(target=table.write, args=(0, {b"a": b"1"}, 1)),
        threading.Thread(target=lambda: (table.write(0, {b"a": b"2"}, 2), second.set())),
    ]
    writers[0].start()
    assert entered.wait(PATIENCE_SECONDS)
    writers[1].start()
    assert not second.wait(0.2)
    assert len(inside) == 1, "the second writer is through the gate with the first"
    go_on.set()
    for writer in writers:
        writer.join(PATIENCE_SECONDS)
    monkeypatch.undo()
    assert stored(table) == ({b"a": b"2"}, 2)


# -- where a restore starts -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stored_offset", "low", "high", "horizon", "start", "kept"),
    [
        (None, 3, 50, 3, 3, False),  # nothing here
        (20, 0, 50, 0, 21, True),
        (20, 0, 21, 0, 21, True),  # up to date
        (20, 0, 22, 22, 0, False),  # no row within the tombstones' life
        (20, 21, 50, 0, 21, True),  # the log begins right after it
        (20, 22, 50, 0, 22, False),  # rows after it are gone
        (20, 0, 20, 0, 0, False),  # the log ends before it: another log
        (20, 0, 50, 21, 21, True),
        (20, 0, 50, 22, 0, False),  # older than the tombstones' life
        (20, 0, 21, 40, 21, True),  # nothing after it, however old
    ],
)
def test_a_restore_starts_after_the_stored_offset_unless_the_log_says_otherwise(
    table: CommittedTable,
    stored_offset: int | None,
    low: int,
    high: int,
    horizon: int,
    start: int,
    kept: bool,
) -> None:
    """Local rows that do not belong to the log, or whose deletion may be compacted away, are wiped and rebuilt."""
    hold(table)
    if stored_offset is not None:
        table.write(0, {b"a": b"1"}, stored_offset)
    assert table._start(0, low, high, horizon) == start
    assert stored(table) == (({b"a": b"1"}, stored_offset) if kept else ({}, -1))
    table.write(0, {b"b": b"2"}, 60)  # a wiped database works again
    assert stored(table)[1] == 60


@pytest.mark.parametrize(
    ("written_under", "found", "kept"),
    [
        ("one", "one", True),
        ("one", "two", False),  # made anew, and its log is as long
        ("", "two", True),  # rows from before ids were stored
        ("one", "", True),  # a broker that does not tell
    ],
)
def test_local_rows_of_another_changelog_of_the_name_are_wiped(
    table: CommittedTable, written_under: str, found: str, kept: bool
) -> None:
    hold(table)
    table.app.topic_ids.told = {CHANGELOG: written_under}
    table.write(0, {b"a": b"1"}, 20)
    table.app.topic_ids.told = {CHANGELOG: found}
    assert table._start(0, 0, 50, 0) == (21 if kept else 0)
    assert stored(table) == (({b"a": b"1"}, 20) if kept else ({}, -1))


def test_the_changelogs_id_goes_with_its_offset_and_is_kept_where_nobody_tells(table: CommittedTable) -> None:
    hold(table)
    for told, kept in (("", None), ("one", b"one"), ("", b"one"), ("two", b"two")):
        table.app.topic_ids.told = {CHANGELOG: told}
        table.write(0, {}, table._stored_offset(0) + 1)
        assert table.rows(0).get(CHANGELOG_ID_KEY) == kept


def test_the_changelog_keeps_tombstones_long() -> None:
    assert DELETE_RETENTION_MS >= 30 * 24 * 3600 * 1000


# -- damage -----------------------------------------------------------------------------------------------------------


def closed(table: CommittedTable, partition: int = 0) -> Path:
    """The folder of a database that was closed."""
    table.data._dbs.pop(partition).close()
    return Path(table.data.partition_path(partition))


def test_a_damaged_database_ends_the_process_with_one_line(table: CommittedTable) -> None:
    hold(table)
    table.write(0, {b"a": b"1"}, 7)
    folder = closed(table)
    (folder / "CURRENT").write_bytes(b"nonsense")
    with pytest.raises(End) as end:
        table._stored_offset(0)
    assert isinstance(end.value.cause, DamagedDatabase)
    assert str(folder) in str(end.value.cause)
    assert "coversumm-worker reset --local" in str(end.value.cause)


def test_a_manifest_that_names_too_few_files_ends_the_process(table: CommittedTable) -> None:
    """RocksDB itself opens it: the newest offset, and rows missing under it."""
    hold(table)
    table.write(0, {b"a": b"1"}, 7)
    manifest = next(Path(table.data.partition_path(0)).glob("MANIFEST-*"))
    size = manifest.stat().st_size
    table._database(0).flush()
    table.write(0, {b"b": b"1"}, 8)
    files = {
        path.name: path.read_bytes() for path in manifest.parent.iterdir() if path.name != "LOCK"
    }  # as `kill -9` leaves it
    folder = closed(table)
    for path in folder.iterdir():
        path.unlink()
    for name, content in files.items():
        (folder / name).write_bytes(content)
    assert stored(table) == ({b"a": b"1", b"b": b"1"}, 8)
    closed(table)
    for path in folder.iterdir():
        path.unlink()
    for name, content in files.items():
        (folder / name).write_bytes(content[:size] if name == manifest.name else content)
    with pytest.raises(End) as end:
        table._stored_offset(0)
    assert isinstance(end.value.cause, DamagedDatabase)
    assert "manifest" in str(end.value.cause)


def test_an_unforeseen_error_of_rocksdb_is_raised_as_it_is(
    table: CommittedTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    def locked(path: Path, read_only: bool) -> Any:
        raise OSError("IO error: lock hold by current process")

    monkeypatch.setattr(table.data, "rocksdb_options", SimpleNamespace(open=locked))
    with pytest.raises(OSError, match="lock hold"):
        table._database(0)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        ("IO error: No space left on device: While appending to file: /data/000010.log", Crash),
        ("Corruption: block checksum mismatch", DamagedDatabase),
    ],
)
def test_a_write_that_rocksdb_refuses_is_told(
    table: CommittedTable, monkeypatch: pytest.MonkeyPatch, error: str, expected: type[Exception]
) -> None:
    hold(table)
    database = table._database(0)

    def write(batch: Any) -> None:
        raise Exception(error)

    monkeypatch.setattr(table, "_database", lambda partition: SimpleNamespace(get=database.get, write=write))
    with pytest.raises(expected) as refused:
        table.write(0, {b"a": b"1"}, 1)
    assert str(table.data.partition_path(0)) in str(refused.value)


# -- takeover ---------------------------------------------------------------------------------------------------------


class FakeReader:
    """A changelog reader that applies one row, or waits until it is stopped."""

    def __init__(self, rig: Rig, starts: Mapping[int, int], apply: Callable[..., None]) -> None:
        self.rig, self.starts, self.apply = rig, dict(starts), apply
        self.stopped = False
        self.stop_called = threading.Event()
        rig.readers.append(self)

    def stop(self) -> None:
        self.stopped = True
        self.stop_called.set()

    def restore(self, goals: Mapping[int, int], on_progress: Callable[[int, int], None]) -> int:
        self.rig.log.append(("restore", self.starts, dict(goals)))
        if self.rig.restore_failure:
            raise self.rig.restore_failure
        if self.rig.restore_waits:
            self.rig.restoring.set()
            assert self.stop_called.wait(PATIENCE_SECONDS)
            return 0
        if self.stopped:
            return 0
        for partition, start in self.starts.items():
            self.apply(partition, start, {b"row": b"restored"}, goals[partition] - 1)
        return len(self.starts)

    def follow(self) -> None:
        self.rig.log.append(("follow", self.starts))
        for partition, start in self.starts.items():
            self.apply(partition, start, {b"row": b"followed"}, start + 1)
        self.rig.following.set()
        if self.rig.follow_failure:
            raise self.rig.follow_failure
        assert self.stop_called.wait(PATIENCE_SECONDS)


class Rig:
    """What is around the table in a takeover, and the order in which it is asked."""

    def __init__(self, table: CommittedTable, monkeypatch: pytest.MonkeyPatch) -> None:
        self.table = table
        self.log: list[Any] = []
        self.readers: list[FakeReader] = []
        self.restore_failure: Exception | None = None
        self.follow_failure: Exception | None = None
        self.restore_waits = False
        self.restoring, self.following = threading.Event(), threading.Event()
        self.starts_wait: asyncio.Event | None = None
        self.assigned: set[int] | None = None  # None: what recovered is
        self.take_over_failure: Exception | None = None
        self.deaths: list[BaseException] = []
        table.app.consumer = SimpleNamespace(fetch_starts=self._fetch_starts)
        table.app.topic_ids.read = lambda: self.log.append("ids")
        table.app.delivery = SimpleNamespace(take_over=self._take_over, let_go=self._let_go)
        monkeypatch.setattr(table, "_log_bounds", self._log_bounds)
        monkeypatch.setattr(
            module, "ChangelogReader", lambda config, topic, starts, apply: FakeReader(self, starts, apply)
        )
        monkeypatch.setattr(module, "die", self.deaths.append)

    async def _fetch_starts(self) -> dict[int, Start]:
        self.log.append("offsets")
        if self.starts_wait:
            await self.starts_wait.wait()
        assigned = self._recovering if self.assigned is None else self.assigned
        return dict.fromkeys(assigned, START)

    async def _take_over(self, starts: Any) -> None:
        self.log.append(("delivery", starts))
        if self.take_over_failure:
            raise self.take_over_failure

    async def _let_go(self) -> None:
        self.log.append("let go")

    def _log_bounds(self, partitions: list[int]) -> dict[int, tuple[int, int, int]]:
        self.log.append(("bounds", partitions))
        return dict.fromkeys(partitions, (0, 10, 0))

    async def recovered(self, actives: set[int], standbys: set[int] | None = None) -> None:
        self._recovering = actives
        await self.table.on_recovery_completed(
            {TP(CHANGELOG, p) for p in actives}, {TP(CHANGELOG, p) for p in standbys or ()}
        )

    async def rebalance(self) -> None:
        await self.table._let_go()


@pytest.fixture
def rig(table: CommittedTable, monkeypatch: pytest.MonkeyPatch) -> Rig:
    return Rig(table, monkeypatch)


@pytest.mark.asyncio
async def test_offsets_first_then_the_end_of_the_log_then_the_restore_then_the_input(rig: Rig) -> None:
    await rig.recovered({0})
    assert rig.log == [
        "offsets",
        "ids",
        ("bounds", [0]),
        ("restore", {0: 0}, {0: 10}),
        ("delivery", STARTS),
    ]
    assert stored(rig.table) == ({b"row": b"restored"}, 9)
    assert rig.deaths == []


@pytest.mark.asyncio
async def test_what_was_restored_goes_on_under_the_next_assignment(rig: Rig) -> None:
    """Only rows after the stored offset are read again, and the old assignment can write no more."""
    await rig.recovered({0})
    old = rig.readers[0]
    await rig.rebalance()
    assert rig.log[-1] == "let go"
    with pytest.raises(Crash):
        rig.table.write(0, {b"late": b"1"}, 20)
    await rig.recovered({0})
    with pytest.raises(Crash):
        old.apply(0, 10, {b"late": b"1"}, 20)
    assert ("restore", {0: 10}, {0: 10}) in rig.log


@pytest.mark.asyncio
async def test_a_rebalance_ends_a_restore_and_nothing_is_taken_over(rig: Rig) -> None:
    rig.restore_waits = True
    recovery = asyncio.ensure_future(rig.recovered({0}))
    await asyncio.to_thread(rig.restoring.wait, PATIENCE_SECONDS)
    await asyncio.wait_for(rig.rebalance(), PATIENCE_SECONDS)
    await recovery
    assert rig.log == ["offsets", "ids", ("bounds", [0]), ("restore", {0: 0}, {0: 10}), "let go"]
    assert rig.table._roles == {}
    assert rig.deaths == []


@pytest.mark.asyncio
async def test_a_rebalance_before_the_restore_began_ends_it_too(rig: Rig) -> None:
    """It must not wait for the restore of an assignment that is over."""
    rig.restore_waits, rig.starts_wait = True, asyncio.Event()
    recovery = asyncio.ensure_future(rig.recovered({0}))
    await asyncio.sleep(0)
    rebalance = asyncio.ensure_future(rig.rebalance())
    await asyncio.sleep(0)
    rig.starts_wait.set()
    await asyncio.wait_for(rebalance, PATIENCE_SECONDS)
    await recovery
    assert ("delivery", STARTS) not in rig.log
    assert stored(rig.table) == ({}, -1)
    rig.restore_waits, rig.starts_wait = False, None
    await rig.recovered({0})
    assert rig.log[-1] == ("delivery", STARTS)


@pytest.mark.asyncio
async def test_a_standby_follows_until_the_next_rebalance(rig: Rig) -> None:
    await rig.recovered({0}, {0, 1})  # in two roles it is active
    await asyncio.to_thread(rig.following.wait, PATIENCE_SECONDS)
    assert rig.table._roles == {0: ACTIVE, 1: STANDBY}
    assert rig.log[-1] == ("follow", {1: 0})
    assert stored(rig.table, 1) == ({b"row": b"followed"}, 1)
    follower = rig.table._follower
    assert follower is not None
    await asyncio.wait_for(rig.rebalance(), PATIENCE_SECONDS)
    assert not follower.is_alive()
    await rig.recovered({1})  # promoted: goes on where the standby ended
    assert ("restore", {1: 2}, {1: 10}) in rig.log
    assert rig.deaths == []


@pytest.mark.asyncio
async def test_a_standby_that_fails_ends_the_process(rig: Rig) -> None:
    rig.follow_failure = RuntimeError("disk full")
    await rig.recovered(set(), {1})
    follower = rig.table._follower
    assert follower is not None
    await asyncio.to_thread(follower.join, PATIENCE_SECONDS)
    assert rig.deaths == [rig.follow_failure]
    await rig.rebalance()


@pytest.mark.asyncio
@pytest.mark.parametrize("step", ["restore_failure", "take_over_failure"])
async def test_a_takeover_that_fails_ends_the_process(rig: Rig, step: str) -> None:
    """Faust swallows what is raised here, and the worker would report ready."""
    failure = RuntimeError("disk full")
    setattr(rig, step, failure)
    await rig.recovered({0})
    assert rig.deaths == [failure]


@pytest.mark.asyncio
async def test_a_worker_without_partitions_takes_over_nothing(rig: Rig) -> None:
    await rig.recovered(set())
    assert rig.log == ["offsets", "ids", ("delivery", {})]
    assert rig.readers == []


@pytest.mark.asyncio
@pytest.mark.parametrize("next_one", [{0, 1}, {1}, set()])
async def test_a_recovery_of_a_past_assignment_takes_nothing_over(rig: Rig, next_one: set[int]) -> None:
    """Faust may end it when the consumer has the next one already: offsets and partitions would not belong together."""
    rig.assigned = next_one
    await rig.recovered({0})
    assert rig.log == ["offsets", "ids"]
    assert rig.table._roles == {}
    assert rig.deaths == []


def test_changelog_rows_from_faust_end_the_process(table: CommittedTable) -> None:
    """They might be uncommitted ones."""
    with pytest.raises(End) as end:
        table.apply_changelog_batch([object()])
    assert isinstance(end.value.cause, Crash)
    table.apply_changelog_batch([])
