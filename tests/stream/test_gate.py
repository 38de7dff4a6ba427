"""The gate: who may write rows, that they and their offset are one write, and where a restore
starts.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness.patience import PATIENCE_SECONDS
from tests.harness.stream import CHANGELOG, Parts
from worker.errors import Crash
from worker.kafka.changelog import LogBounds
from worker.kafka.topics import DELETE_RETENTION_MS
from worker.storage.snapshot import PARTIAL_KEY
from worker.stream.assignment import Role
from worker.stream.gate import CHANGELOG_ID_KEY, OFFSET_KEY


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[Parts]:
    made = Parts(tmp_path)
    yield made
    made.databases.close()


def hold(parts: Parts, partition: int = 0, role: Role = Role.ACTIVE) -> None:
    parts.assignment.roles[partition] = role


def stored(parts: Parts, partition: int = 0) -> tuple[dict[bytes, bytes], int]:
    """The rows on disk, and the changelog offset they belong to."""
    rows = dict(parts.databases.rows(partition).scan(b""))
    rows.pop(OFFSET_KEY, None)
    rows.pop(CHANGELOG_ID_KEY, None)
    rows.pop(PARTIAL_KEY, None)
    return rows, parts.gate.stored_offset(partition)


def test_rows_and_their_changelog_offset_are_one_write(
    parts: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold(parts)
    parts.gate.write(parts.assignment.epoch, 0, {b"gone": b"1"}, 3)
    writes: list[Any] = []
    write = parts.databases.write
    monkeypatch.setattr(
        parts.databases, "write", lambda *batch: (writes.append(batch), write(*batch))
    )
    parts.gate.write(
        parts.assignment.epoch,
        0,
        {b"a": b"1", b"gone": None, b"": b"empty key", b"empty value": b""},
        9,
    )
    assert len(writes) == 1
    assert stored(parts) == ({b"a": b"1", b"": b"empty key", b"empty value": b""}, 9)
    assert parts.databases.rows(0).get(b"a") == b"1"


@pytest.mark.parametrize("role", [None, Role.STANDBY])
def test_the_gate_refuses_rows_for_a_partition_in_another_role(
    parts: Parts, role: Role | None
) -> None:
    if role:
        hold(parts, role=role)
    with pytest.raises(Crash, match="no longer active"):
        parts.gate.write(parts.assignment.epoch, 0, {b"a": b"1"}, 1)
    assert stored(parts) == ({}, -1)


def test_the_gate_refuses_a_standbys_rows_for_an_active_partition(parts: Parts) -> None:
    hold(parts)
    with pytest.raises(Crash, match="no longer standby"):
        parts.gate.apply(Role.STANDBY, parts.assignment.epoch, 0, {b"a": b"1"}, 1, after=0)
    assert stored(parts) == ({}, -1)


def test_the_gate_refuses_rows_of_a_past_assignment(parts: Parts) -> None:
    hold(parts)
    past, parts.assignment.epoch = parts.assignment.epoch, parts.assignment.epoch + 1
    with pytest.raises(Crash, match="no longer"):
        parts.gate.apply(Role.ACTIVE, past, 0, {b"a": b"1"}, 1, after=0)
    with pytest.raises(Crash, match="no longer"):
        parts.gate.write(past, 0, {b"a": b"1"}, 1)
    assert stored(parts) == ({}, -1)


@pytest.mark.parametrize("offset", [6, 7])
def test_the_gate_refuses_to_go_back(parts: Parts, offset: int) -> None:
    hold(parts)
    parts.gate.write(parts.assignment.epoch, 0, {b"a": b"1"}, 7)
    with pytest.raises(Crash, match="go back"):
        parts.gate.write(parts.assignment.epoch, 0, {b"a": b"2"}, offset)
    assert stored(parts) == ({b"a": b"1"}, 7)


@pytest.mark.parametrize("after", [6, 7])
def test_the_gate_refuses_a_restore_from_before_what_is_stored(parts: Parts, after: int) -> None:
    """Its rows would be older than the stored ones, although its last offset is newer."""
    hold(parts)
    parts.gate.write(parts.assignment.epoch, 0, {b"a": b"1"}, 7)
    with pytest.raises(Crash, match="go back"):
        parts.gate.apply(Role.ACTIVE, parts.assignment.epoch, 0, {b"a": b"old"}, 9, after=after)
    parts.gate.apply(Role.ACTIVE, parts.assignment.epoch, 0, {b"a": b"2"}, 9, after=8)
    assert stored(parts) == ({b"a": b"2"}, 9)


@pytest.mark.parametrize("role", [Role.ACTIVE, Role.STANDBY])
def test_rows_read_from_the_changelog_make_a_partial_copy_until_its_end(
    parts: Parts, role: Role
) -> None:
    hold(parts, role=role)
    epoch, rows = parts.assignment.epoch, parts.databases.rows(0)
    parts.gate.apply(role, epoch, 0, {b"a": b"1"}, 3, after=0)
    assert rows.get(PARTIAL_KEY)
    with pytest.raises(Crash, match="no longer"):
        parts.gate.mark_whole(role, epoch + 1, 0)
    assert rows.get(PARTIAL_KEY)
    parts.gate.mark_whole(role, epoch, 0)
    assert rows.get(PARTIAL_KEY) is None
    assert stored(parts) == ({b"a": b"1"}, 3)


def test_a_commit_leaves_a_whole_copy(parts: Parts) -> None:
    hold(parts)
    parts.gate.apply(Role.ACTIVE, parts.assignment.epoch, 0, {b"a": b"1"}, 3, after=0)
    parts.gate.write(parts.assignment.epoch, 0, {b"a": b"2"}, 5)
    assert parts.databases.rows(0).get(PARTIAL_KEY) is None


def test_the_gate_lets_one_writer_through_at_a_time(
    parts: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold(parts)
    entered, go_on, second = threading.Event(), threading.Event(), threading.Event()
    inside: list[Any] = []
    write = parts.databases.write

    def slow(partition: int, changes: Any) -> None:
        inside.append(changes)
        entered.set()
        assert go_on.wait(PATIENCE_SECONDS)
        write(partition, changes)

    monkeypatch.setattr(parts.databases, "write", slow)
    writers = [
        threading.Thread(
            target=parts.gate.write, args=(parts.assignment.epoch, 0, {b"a": b"1"}, 1)
        ),
        threading.Thread(
            target=lambda: (
                parts.gate.write(parts.assignment.epoch, 0, {b"a": b"2"}, 2),
                second.set(),
            )
        ),
    ]
    writers[0].start()
    assert entered.wait(PATIENCE_SECONDS)
    writers[1].start()
    assert not second.wait(0.2)
    assert len(inside) == 1, "the second writer is through the gate with the first"
    go_on.set()
    for writer in writers:
        writer.join(PATIENCE_SECONDS)
    assert stored(parts) == ({b"a": b"2"}, 2)


# -- where a restore starts ------------------------------------------------------------------------


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
    parts: Parts,
    stored_offset: int | None,
    low: int,
    high: int,
    horizon: int,
    start: int,
    kept: bool,
) -> None:
    """Local rows that do not belong to the log, or whose deletion may be compacted away, are wiped
    and rebuilt.
    """
    hold(parts)
    if stored_offset is not None:
        parts.gate.write(parts.assignment.epoch, 0, {b"a": b"1"}, stored_offset)
    assert parts.gate.restore_start(0, LogBounds(low, high, horizon)) == start
    assert stored(parts) == (({b"a": b"1"}, stored_offset) if kept else ({}, -1))
    parts.gate.write(parts.assignment.epoch, 0, {b"b": b"2"}, 60)  # a wiped database works again
    assert stored(parts)[1] == 60


@pytest.mark.parametrize(
    ("written_under", "found", "kept"),
    [
        ("one", "one", True),
        ("one", "two", False),  # created again, and its log is as long
        ("", "two", True),  # rows from before ids were stored
        ("one", "", True),  # a broker that does not tell
    ],
)
def test_local_rows_of_another_changelog_of_the_name_are_wiped(
    parts: Parts, written_under: str, found: str, kept: bool
) -> None:
    hold(parts)
    parts.logs.ids.by_topic = {CHANGELOG: written_under}
    parts.gate.write(parts.assignment.epoch, 0, {b"a": b"1"}, 20)
    parts.logs.ids.by_topic = {CHANGELOG: found}
    assert parts.gate.restore_start(0, LogBounds(0, 50, 0)) == (21 if kept else 0)
    assert stored(parts) == (({b"a": b"1"}, 20) if kept else ({}, -1))


def test_the_changelogs_id_goes_with_its_offset_and_is_kept_where_nobody_tells(
    parts: Parts,
) -> None:
    hold(parts)
    for topic_id, kept in (("", None), ("one", b"one"), ("", b"one"), ("two", b"two")):
        parts.logs.ids.by_topic = {CHANGELOG: topic_id}
        parts.gate.write(parts.assignment.epoch, 0, {}, parts.gate.stored_offset(0) + 1)
        assert parts.databases.rows(0).get(CHANGELOG_ID_KEY) == kept


def test_the_changelog_keeps_tombstones_long() -> None:
    assert DELETE_RETENTION_MS >= 30 * 24 * 3600 * 1000
