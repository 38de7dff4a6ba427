"""Rows in memory and in RocksDB are the same thing: one set of tests for both."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rocksdict import Options, Rdict

from worker.state import MemoryRows
from worker.state.store import successor
from worker.storage.rows import RocksRows, write_rows


class RocksWriter(RocksRows):
    """RocksDB rows that a test can write, as the worker's table does: one batch."""

    def __init__(self, folder):
        options = Options(raw_mode=True)
        options.create_if_missing(True)
        self.database = Rdict(str(folder), options)
        super().__init__(self.database)

    def write(self, changes):
        write_rows(self.database, changes)


@pytest.fixture(params=["memory", "rocks"])
def rows(request, tmp_path):
    if request.param == "memory":
        yield MemoryRows()
    else:
        writer = RocksWriter(tmp_path / "db")
        yield writer
        writer.database.close()


def test_get(rows):
    rows.write({b"a": b"1", b"b": b""})
    assert rows.get(b"a") == b"1"
    assert rows.get(b"b") == b""
    assert rows.get(b"c") is None


def test_write_replaces_and_removes(rows):
    rows.write({b"a": b"1", b"b": b"2"})
    rows.write({b"a": b"3", b"b": None, b"never": None})
    assert rows.get(b"a") == b"3"
    assert rows.get(b"b") is None
    assert list(rows.scan(b"")) == [(b"a", b"3")]


def test_scan_is_ascending_and_bounded_by_the_prefix(rows):
    keys = [b"a", b"a\x00", b"ab", b"a\xff", b"a\xff\xff", b"b", b"\xff", b"\xff\xff", b""]
    rows.write({key: b"v" + key for key in reversed(keys) if key})
    assert [key for key, _ in rows.scan(b"a")] == [b"a", b"a\x00", b"ab", b"a\xff", b"a\xff\xff"]
    assert [key for key, _ in rows.scan(b"a\xff")] == [b"a\xff", b"a\xff\xff"]
    assert [key for key, _ in rows.scan(b"\xff")] == [b"\xff", b"\xff\xff"]
    assert [key for key, _ in rows.scan(b"aa")] == []
    assert all(value == b"v" + key for key, value in rows.scan(b""))


def test_scan_is_a_view_of_the_moment_it_began(rows):
    rows.write({b"a1": b"", b"a2": b"", b"a3": b""})
    scan = rows.scan(b"a")
    first = next(scan)
    rows.write({b"a2": None, b"a25": b"", b"a3": b"new"})
    assert [first, *scan] == [(b"a1", b""), (b"a2", b""), (b"a3", b"")]
    assert [key for key, _ in rows.scan(b"a")] == [b"a1", b"a25", b"a3"]


changes = st.dictionaries(
    st.binary(max_size=3), st.one_of(st.none(), st.binary(max_size=4)), max_size=8
)


@settings(max_examples=100, deadline=None)
@given(st.lists(changes, max_size=5), st.binary(max_size=2))
def test_memory_is_an_ordered_map(batches, prefix):
    rows, model = MemoryRows(), {}
    for batch in batches:
        rows.write(batch)
        model.update(batch)
    model = {key: value for key, value in model.items() if value is not None}
    assert list(rows.scan(prefix)) == sorted(
        (k, v) for k, v in model.items() if k.startswith(prefix)
    )
    assert len(rows) == len(model)
    assert all(rows.get(key) == value for key, value in model.items())


@given(st.binary(max_size=5), st.binary(max_size=5))
def test_successor_bounds_the_prefix(prefix, key):
    upper = successor(prefix)
    assert key.startswith(prefix) == (key >= prefix and (upper is None or key < upper))
