"""What compares changelog, commits and local copies finds every kind of difference, and none where
there is none.
"""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from rocksdict import Options, Rdict

from tests.harness.compare import Difference
from tests.harness.recovered import (
    Commit,
    Copy,
    commits,
    compare_commits,
    compare_copies,
    read_copies,
)
from tests.harness.topics import Message
from worker.state.keys import APPLIED
from worker.state.rows import Applied, encode_applied


def record(offset: int, key: bytes, value: bytes | None, partition: int = 0) -> Message:
    """A record of a changelog."""
    return Message("changelog", partition, offset, 0, key, value, ())


def applied(offset: int, next_offset: int, partition: int = 0) -> Message:
    """A changelog record that says how far the input is applied."""
    return record(offset, APPLIED, encode_applied(APPLIED, Applied(next_offset, "in")), partition)


def kinds(differences: list[Difference]) -> list[str]:
    """Invariant and kind of each."""
    return [f"{difference.invariant} {difference.kind}" for difference in differences]


LOG = [
    record(0, b"a", b"1"),
    record(1, b"b", b"1"),
    applied(2, 10),
    # An aborted transaction and markers leave gaps.
    record(7, b"a", None),
    record(8, b"b", b"2"),
    applied(9, 20),
]
AFTER_FIRST = {b"a": b"1", b"b": b"1", APPLIED: LOG[2].value or b""}
AFTER_ALL = {b"b": b"2", APPLIED: LOG[5].value or b""}


def copy(offset: int, rows: dict[bytes, bytes], name: str = "w0/entities-0.db") -> Copy:
    """A copy of partition 0."""
    return Copy(name, 0, offset, rows)


def test_copies_that_are_right_at_their_own_offset() -> None:
    assert compare_copies([copy(9, AFTER_ALL), copy(2, AFTER_FIRST, "w1/entities-0.db")], LOG) == []


@pytest.mark.parametrize(
    ("copies", "found"),
    [
        ([], ["I8 lost"]),
        ([copy(2, AFTER_FIRST)], ["I8 lost"]),
        ([copy(9, {**AFTER_ALL, b"a": b"1"})], ["I8 additional"]),
        ([copy(9, {APPLIED: AFTER_ALL[APPLIED]})], ["I8 lost"]),
        ([copy(9, {**AFTER_ALL, b"b": b"1"})], ["I8 wrong"]),
        ([copy(9, AFTER_ALL), copy(2, {**AFTER_FIRST, b"b": b"2"})], ["I8 wrong"]),
        ([copy(9, AFTER_ALL), copy(8, {b"b": b"2", APPLIED: AFTER_FIRST[APPLIED]})], []),
        ([copy(9, AFTER_ALL), copy(5, AFTER_FIRST)], ["I8 wrong"]),
    ],
    ids=[
        "no copy at all",
        "none complete",
        "a deleted row is back",
        "a row missing",
        "an old value",
        "a copy behind that is ahead in one row",
        "between transactions",
        "at an offset without a row",
    ],
)
def test_wrong_copies_are_found(copies: list[Copy], found: list[str]) -> None:
    assert kinds(compare_copies(copies, LOG)) == found


def test_of_a_compacted_log_only_the_end_is_compared() -> None:
    compacted = LOG[3:]
    stale = copy(2, AFTER_FIRST, "w1/entities-0.db")
    assert compare_copies([copy(9, AFTER_ALL), stale], compacted) != []
    assert compare_copies([copy(9, AFTER_ALL), stale], compacted, compacted=True) == []
    assert kinds(compare_copies([copy(9, AFTER_FIRST)], compacted, compacted=True)) != []


@pytest.mark.parametrize(
    ("offsets", "found"),
    [
        ([10, 20], []),
        ([10, 10, 20, 20], []),
        ([10, 20, 30], ["I5 lost"]),
        ([10], ["I5 additional"]),
        ([20, 10], ["I5 reordered"]),
        ([10, 15, 20], ["I5 lost"]),
    ],
    ids=["equal", "committed again", "rows missing", "offset missing", "order", "in between"],
)
def test_commits_are_the_applied_offsets(offsets: list[int], found: list[str]) -> None:
    assert kinds(compare_commits([Commit(0, offset, False) for offset in offsets], LOG)) == found


def test_what_was_committed_by_hand_has_no_rows() -> None:
    by_hand = [Commit(0, 10, False), Commit(0, 20, False), Commit(0, 0, True), Commit(0, 20, False)]
    assert compare_commits(by_hand, LOG) == []


def test_entries_of_the_offsets_topic() -> None:
    """Both layouts, another group, another topic, a tombstone, a group's own entry."""

    def entry(key: bytes, value: bytes | None) -> Message:
        return Message("__consumer_offsets", 0, 0, 1234, key, value, ())

    def key(group: bytes, topic: bytes, partition: int) -> bytes:
        names = struct.pack(f">h{len(group)}sh{len(topic)}s", len(group), group, len(topic), topic)
        return b"\0\1" + names + struct.pack(">i", partition)

    third = struct.pack(">hqih", 3, 41, -1, 0) + bytes(8)
    fourth = struct.pack(">hqi", 4, 42, -1) + b"\1" + bytes(9)
    by_hand = struct.pack(">hqih", 3, 7, -1, 7) + b"by hand" + bytes(8)
    entries = [
        entry(key(b"g", b"in", 2), third),
        entry(key(b"g", b"in", 3), fourth),
        entry(key(b"g", b"in", 2), by_hand),
        entry(key(b"other", b"in", 2), third),
        entry(key(b"g", b"other", 2), third),
        entry(key(b"g", b"in", 2), None),
        entry(b"\0\2" + key(b"g", b"in", 2)[2:], third),
    ]
    expected = [Commit(2, 41, False, 1234), Commit(3, 42, False, 1234), Commit(2, 7, True, 1234)]
    assert commits(entries, "g", "in") == expected


def test_copies_are_read_from_data_directories(tmp_path: Path) -> None:
    """The rows without the keys beside them; a database without rows is no copy yet."""
    for name, rows in {
        "entities-3.db": {b"a": b"1", b"__faust\0offset__": b"9"},
        "entities-4.db": {},
    }.items():
        path = tmp_path / "worker-0" / "data" / "v1" / "tables" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        database = Rdict(str(path), Options(raw_mode=True))
        for key, value in rows.items():
            database[key] = value
        database.close()
    (found,) = read_copies([tmp_path / "worker-0" / "data"])
    assert found == Copy("worker-0/entities-3.db", 3, 9, {b"a": b"1"})
