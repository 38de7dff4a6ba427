"""The table as Faust sees it: it hands rebalances and recoveries on, and Faust may do nothing of
its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from faust.stores.rocksdb import Store
from faust.types import TP

from tests.harness.stream import CHANGELOG, End, Parts, make_app
from worker.errors import Crash
from worker.state import TABLE_NAME, DamagedDatabase
from worker.storage.databases import Databases, database_path
from worker.stream.faust.application import CommittedTable
from worker.stream.gate import OFFSET_KEY


@pytest.fixture
def parts(tmp_path: Path) -> Parts:
    return Parts(tmp_path)


@pytest.fixture
def table(parts: Parts) -> Iterator[CommittedTable]:
    made = CommittedTable(
        make_app(parts.data_dir),
        name=TABLE_NAME,
        key_type=bytes,
        value_type=bytes,
        partitions=2,
        takeover=parts.takeover,
        surroundings=parts.surroundings,
    )
    made.loop = loop = asyncio.new_event_loop()  # Faust would make one and never close it
    yield made
    parts.databases.close()
    loop.close()


def test_the_databases_lie_where_faust_would_put_them(parts: Parts, table: CommittedTable) -> None:
    """Data directories from before the databases were the worker's own, and tools, find
    them there.
    """
    assert (
        Path(table.data.partition_path(1)).resolve() == database_path(parts.data_dir, 1).resolve()
    )
    assert Store.offset_key == OFFSET_KEY
    assert table.changelog_topic_name == CHANGELOG


def test_faust_gets_the_workers_own_databases(parts: Parts, table: CommittedTable) -> None:
    assert table.data._db_for_partition(0) is parts.databases.open(0)
    assert table.data._dbs == {}  # a reference there would keep a database open that is to be wiped


async def test_faust_opens_no_database_of_an_assignment(
    parts: Parts, table: CommittedTable
) -> None:
    """It would on the event loop, and a damaged one would end the process in a way that no restart
    cures.
    """
    parts.databases.open = pytest.fail  # type: ignore[method-assign]
    changelog = TP(CHANGELOG, 0)
    await table.data.assign_partitions(table, {changelog})
    assert table.persisted_offset(changelog) is None


async def test_databases_are_closed_with_their_partition_or_with_the_worker(
    parts: Parts, table: CommittedTable
) -> None:
    for partition in range(2):
        parts.databases.open(partition)
    other = Databases(parts.data_dir, 2**24, 2, print)  # RocksDB lets a database be open once
    table.data.revoke_partitions(table, {TP("another topic", 1), TP(CHANGELOG, 0)})
    other.open(0)
    with pytest.raises(Exception, match="lock"):
        other.open(1)
    await table.data.stop()
    other.open(1)
    other.close()


def test_a_damaged_database_ends_the_process_with_one_line(
    parts: Parts, table: CommittedTable
) -> None:
    """Faust would try again, or only log it."""
    parts.databases.write(0, {b"a": b"1"})
    parts.databases.close()
    folder = database_path(parts.data_dir, 0)
    (folder / "CURRENT").write_bytes(b"nonsense")
    with pytest.raises(End) as end:
        table.data._db_for_partition(0)
    assert isinstance(end.value.cause, DamagedDatabase)
    assert str(folder) in str(end.value.cause)
    assert "coversumm-worker reset --local" in str(end.value.cause)


async def test_recoveries_are_takeovers_of_their_partitions(
    table: CommittedTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[Any] = []

    async def run(actives: set[int], standbys: set[int]) -> None:
        taken.append((actives, standbys))

    monkeypatch.setattr(table._takeover, "run", run)
    await table.on_recovery_completed({TP(CHANGELOG, 0)}, {TP(CHANGELOG, 1)})
    assert taken == [({0}, {1})]


async def test_everything_is_let_go_before_faust_closes_databases(
    table: CommittedTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []

    async def let_go() -> None:
        calls.append("let go")

    async def on_rebalance(*_: Any) -> None:
        calls.append("databases")

    monkeypatch.setattr(table._takeover, "let_go", let_go)
    monkeypatch.setattr(table.data, "on_rebalance", on_rebalance)
    await table.on_rebalance(set(), set(), set(), 5)
    assert calls == ["let go", "databases"]


async def test_a_rebalance_that_cannot_let_go_ends_the_process(
    table: CommittedTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def let_go() -> None:
        raise RuntimeError("unexpected")

    monkeypatch.setattr(table._takeover, "let_go", let_go)
    with pytest.raises(End) as end:
        await table.on_rebalance(set(), set(), set(), 5)
    assert str(end.value.cause) == "unexpected"


def test_changelog_rows_from_faust_end_the_process(table: CommittedTable) -> None:
    """They might be uncommitted ones."""
    with pytest.raises(End) as end:
        table.apply_changelog_batch([object()])
    assert isinstance(end.value.cause, Crash)
    table.apply_changelog_batch([])
