"""Looks from other threads: of one moment, and gone before their database is closed."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tests.harness.patience import PATIENCE_SECONDS
from tests.harness.stream import die
from worker.storage.databases import Databases, database_path
from worker.storage.rows import NotOpen


def made(folder: Path) -> Databases:
    return Databases(folder, 32 * 2**20, 1, die)


def test_a_look_is_at_one_moment(tmp_path: Path) -> None:
    databases = made(tmp_path)
    databases.open(0)
    databases.write(0, {b"a1": b"1", b"a3": b"1", b"b": b"1"})
    with databases.look(0, b"a") as rows:
        databases.write(0, {b"a1": b"2", b"a2": b"2", b"a3": None})
        databases.open(0).flush()
        assert list(rows.scan(b"a")) == [(b"a1", b"1"), (b"a3", b"1")]
        assert [rows.get(key) for key in (b"a1", b"a2", b"a3", b"a", b"b")] == [
            b"1",
            None,
            b"1",
            None,
            None,
        ]
    with databases.look(0, b"b") as rows:
        assert [rows.get(key) for key in (b"a1", b"a2", b"b")] == [b"2", b"2", b"1"]


def test_a_look_opens_nothing(tmp_path: Path) -> None:
    databases = made(tmp_path)
    with pytest.raises(NotOpen), databases.look(0, b""):
        pass
    assert not database_path(tmp_path, 0).exists()


def test_a_database_closes_under_those_who_look_and_opens_again_at_once(tmp_path: Path) -> None:
    """Who reads meets NotOpen at the next row, whatever frames its error holds; RocksDB opens a
    database once.
    """
    databases = made(tmp_path)
    databases.open(0)
    databases.write(0, {b"%05d" % i: b"x" for i in range(20_000)})
    reading = threading.Event()
    errors: list[BaseException] = []

    def read() -> None:
        try:
            with databases.look(0, b"") as rows:
                while True:
                    for _ in rows.scan(b"0"):
                        reading.set()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    assert reading.wait(PATIENCE_SECONDS)
    databases.close([0])
    assert len(databases.open(0).get(b"00000")) == 1
    for thread in threads:
        thread.join(PATIENCE_SECONDS)
    assert [type(error) for error in errors] == [NotOpen] * 3
    databases.wipe(0)
    assert databases.open(0).get(b"00000") is None


def test_looks_at_rows_of_an_earlier_life_see_all_up_to_their_end(tmp_path: Path) -> None:
    """RocksDB's iterator points to the bound that it was made with: where nobody keeps it, rows
    seem to be missing.
    """
    prefixes = [b"\xf0%05d" % number + b"x" * (number % 50) for number in range(3000)]
    rows = {prefix + b"row": b"row" for prefix in prefixes}
    databases = made(tmp_path)
    databases.open(0)
    databases.write(0, {b"A": b"applied", **rows})
    databases.close()
    databases = made(tmp_path)
    databases.open(0)
    for prefix in prefixes[::7]:
        with databases.look(0, prefix) as look:
            # what takes the place of memory that was given up
            _ = [bytes(size) for size in range(64)]
            assert len(list(look.scan(prefix))) == 1
            assert look.get(b"A") == b"applied"


def test_closing_waits_for_who_still_looks(tmp_path: Path) -> None:
    databases = made(tmp_path)
    databases.open(0)
    closing = threading.Thread(target=lambda: databases.close([0]))
    with databases.look(0, b""):
        closing.start()
        closing.join(0.5)
        assert closing.is_alive()
    closing.join(PATIENCE_SECONDS)
    assert not closing.is_alive()
