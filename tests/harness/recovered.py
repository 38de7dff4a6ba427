"""The state itself: what the changelog says, against the offsets that were committed (I5) and
against local copies (I8).

The commits are read from the broker's own offsets topic, as a committed reader sees it: not only
where the group ended but every offset that it ever committed. A copy is one partition's RocksDB in
one worker's data directory, of an ended worker. It may be behind, when another worker took the
partition over; it may never differ from the changelog up to its own offset.
"""

from __future__ import annotations

import re
import struct
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from rocksdict import AccessType, Options, Rdict

from tests.harness.compare import Difference
from tests.harness.topics import Message
from worker.state.keys import APPLIED
from worker.state.rows import decode_applied

OFFSETS_TOPIC = "__consumer_offsets"
BY_HAND = "by hand"
"""The metadata of offsets that a test sets."""
FAUST = b"__faust"
"""How the keys begin that are in a copy alone, beside the rows."""
OFFSET_KEY = FAUST + b"\0offset__"


class Commit(NamedTuple):
    """One entry of the offsets topic, and when it was written. `by_hand` when its metadata says so:
    a replay's has its account there, a worker's has none.
    """

    partition: int
    offset: int
    by_hand: bool
    at_ms: int = 0


class Copy(NamedTuple):
    """One partition in one data directory: the changelog offset it says it has, and its rows."""

    name: str
    partition: int
    offset: int
    rows: Mapping[bytes, bytes]


def commits(messages: Iterable[Message], group: str, topic: str) -> list[Commit]:
    """The group's commits of a topic, in order within each partition."""
    wanted = struct.pack(
        f">h{len(group.encode())}sh{len(topic.encode())}s", *_string(group), *_string(topic)
    )
    found = []
    for message in messages:
        key, value = message.key or b"", message.value
        if value is None or key[:2] not in (b"\0\0", b"\0\1") or key[2:-4] != wanted:
            continue
        version, offset = struct.unpack_from(">hq", value)
        assert version in (3, 4), f"offsets of version {version} are unknown here"
        # Version 3 counts metadata in 16 bits, version 4 in a varint, which is one byte if short.
        text = value[16:] if version == 3 else value[15:]
        is_by_hand = text.startswith(BY_HAND.encode())
        found.append(
            Commit(int.from_bytes(key[-4:], "big"), offset, is_by_hand, message.timestamp_ms)
        )
    return found


def _string(text: str) -> tuple[int, bytes]:
    return len(text.encode()), text.encode()


def compare_commits(found: Iterable[Commit], changelog: Iterable[Message]) -> list[Difference]:
    """I5: the applied offsets that the changelog ever held are the offsets that were ever
    committed, in the same order.

    An offset that is committed again (records read a second time and ignored) has no new row.
    """
    committed: dict[int, list[int]] = defaultdict(list)
    for commit in found:
        if not commit.by_hand and commit.offset not in committed[commit.partition][-1:]:
            committed[commit.partition].append(commit.offset)
    applied: dict[int, list[int]] = defaultdict(list)
    for message in changelog:
        if message.key == APPLIED and message.value is not None:
            applied[message.partition].append(decode_applied(APPLIED, message.value).next_offset)
    differences = []
    for partition in sorted(committed.keys() | applied.keys()):
        where, stored, other = f"partition {partition}", committed[partition], applied[partition]
        differences += [
            Difference("I5", "lost", where, f"offset {offset} was committed, its rows are missing")
            for offset in sorted(set(stored) - set(other))
        ]
        differences += [
            Difference(
                "I5", "additional", where, f"rows up to offset {offset}, which was never committed"
            )
            for offset in sorted(set(other) - set(stored))
        ]
        if set(stored) == set(other) and stored != other:
            differences.append(
                Difference("I5", "reordered", where, "commits and rows have other orders")
            )
    return differences


def read_copies(data_dirs: Iterable[Path]) -> Iterator[Copy]:
    """Every partition's RocksDB under these directories; those that never got a row are
    left out.
    """
    for data_dir in data_dirs:
        for path in sorted(data_dir.glob("**/*.db")):
            number = re.search(r"-(\d+)\.db$", path.name)
            assert number is not None, path
            database = Rdict(str(path), Options(raw_mode=True), access_type=AccessType.read_only())
            try:
                rows = {bytes(key): bytes(value) for key, value in database.items()}
            finally:
                database.close()
            if OFFSET_KEY in rows:
                kept = {key: value for key, value in rows.items() if not key.startswith(FAUST)}
                name = f"{data_dir.parent.name}/{path.name}"
                yield Copy(name, int(number[1]), int(rows[OFFSET_KEY]), kept)


def compare_copies(
    copies: Iterable[Copy], changelog: Sequence[Message], *, compacted: bool = False
) -> list[Difference]:
    """I8: each copy is what the changelog's records up to its offset make, and one of each
    partition is complete.

    Of a compacted changelog only the end can be rebuilt: then copies that are behind are not
    compared.
    """
    logs: dict[int, list[Message]] = defaultdict(list)
    for message in changelog:
        logs[message.partition].append(message)
    held: dict[int, list[Copy]] = defaultdict(list)
    for copy in copies:
        held[copy.partition].append(copy)
    differences = []
    for partition in sorted(logs.keys() | held.keys()):
        log, last = logs[partition], logs[partition][-1].offset if logs[partition] else -1
        mine = sorted(held[partition], key=lambda copy: copy.offset)
        if not mine or mine[-1].offset < last:
            at = mine[-1].offset if mine else None
            differences.append(
                Difference(
                    "I8",
                    "lost",
                    f"partition {partition}",
                    f"the log ends at {last}, the best copy at {at}",
                )
            )
        differences += _compare_partition(
            [copy for copy in mine if not compacted or copy.offset >= last], log
        )
    return differences


def _compare_partition(copies: Sequence[Copy], log: Sequence[Message]) -> Iterator[Difference]:
    """`copies` in the order of their offsets: the state is built once, and looked at where a copy
    stands.
    """
    state: dict[bytes, bytes] = {}
    read = 0
    for copy in copies:
        while read < len(log) and log[read].offset <= copy.offset:
            _apply(state, log[read])
            read += 1
        if not read or log[read - 1].offset != copy.offset:
            yield Difference(
                "I8", "wrong", copy.name, f"stands at {copy.offset}, where the log has no row"
            )
        for key in sorted(
            key for key in state.keys() | copy.rows if state.get(key) != copy.rows.get(key)
        ):
            kind = "lost" if key not in copy.rows else "additional" if key not in state else "wrong"
            yield Difference(
                "I8", kind, copy.name, f"row {key!r} at changelog offset {copy.offset}"
            )


def _apply(state: dict[bytes, bytes], message: Message) -> None:
    if message.value is None:
        state.pop(message.key or b"", None)
    else:
        state[message.key or b""] = message.value
