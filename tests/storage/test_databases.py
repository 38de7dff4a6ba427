"""RocksDB's memory has one bound for all databases of a worker, however many there are."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from rocksdict import Rdict, WriteBatch

from tests.harness.patience import PATIENCE_SECONDS
from tests.harness.stream import End, die
from worker.errors import Crash, SetupError
from worker.state import DamagedDatabase
from worker.storage.databases import (
    MAX_OPEN_FILES,
    MAX_WRITE_BUFFER,
    MIN_OPEN_FILES,
    MIN_WRITE_BUFFER,
    OTHER_FILES,
    SPARE_FILES,
    WRITE_SHARE,
    Databases,
    database_path,
    open_files_each,
)

MIB = 2**20
PARTITIONS = 24
ROWS = 9_000
"""Of each partition, 1 KB each."""
BUDGET = 32 * MIB

# In a process of its own: what it takes can be measured there, and nothing else takes any.
FILL_AND_READ = f"""
import random, resource, sys
from pathlib import Path
from rocksdict import WriteBatch
from worker.storage.databases import Databases

def peak_bytes():
    for line in open("/proc/self/status"):
        if line.startswith("VmHWM"):
            return int(line.split()[1]) * 1024

databases = Databases(Path(sys.argv[1]), {BUDGET}, {PARTITIONS}, print)
opened = [databases.open(p) for p in range({PARTITIONS})]
noise = random.Random(1).randbytes({MIB})
before = peak_bytes()
for start in range(0, {ROWS}, 1000):
    for database in opened:
        batch = WriteBatch(raw_mode=True)
        for row in range(start, start + 1000):
            batch.put(b"%06d" % (row * 7919 % {ROWS}), noise[row * 37 % 1000000:][:1000])
        database.write(batch)
for database in opened:
    assert sum(1 for _ in database.items()) == {ROWS}
print(peak_bytes() - before)
"""


@pytest.mark.long
@pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="reads the peak memory from /proc"
)
def test_many_databases_take_no_more_memory_than_the_budget(tmp_path: Path) -> None:
    """Besides blocks and buffers a process has compactions under way, readers of files, its heap's
    fragments. Databases that share nothing take more than five budgets.
    """
    run = [sys.executable, "-c", FILL_AND_READ, str(tmp_path)]
    done = subprocess.run(run, capture_output=True, text=True, timeout=PATIENCE_SECONDS)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 4 * BUDGET


def test_what_is_read_and_written_counts_in_the_budget(tmp_path: Path) -> None:
    databases = Databases(tmp_path, 16 * MIB, 2, die)
    first, other = databases.open(0), databases.open(1)
    assert databases.memory_bytes < MIB
    batch = WriteBatch(raw_mode=True)
    for row in range(1000):
        batch.put(b"%d" % row, b"x" * 1000)
    first.write(batch)
    written = databases.memory_bytes
    assert written > 900_000  # the write buffer is charged to the cache
    first.flush()
    assert sum(1 for _ in first.items()) == 1000
    assert other.get(b"1") is None
    first.close()
    other.close()


@pytest.mark.parametrize(
    ("budget", "partitions", "each"),
    [
        (256 * MIB, 1, MAX_WRITE_BUFFER),
        (256 * MIB, 8, MAX_WRITE_BUFFER),
        (256 * MIB, 16, 4 * MIB),
        (256 * MIB, 64, MIB),
        (16 * MIB, 64, MIN_WRITE_BUFFER),
    ],
)
def test_a_write_buffer_is_a_databases_share_of_the_bound(
    budget: int, partitions: int, each: int
) -> None:
    made = Databases(Path("/nowhere"), budget, partitions, die)
    assert made.write_buffer_bytes == each
    assert each == MIN_WRITE_BUFFER or each * partitions <= budget // WRITE_SHARE


def test_the_open_files_are_bounded_in_sum() -> None:
    for partitions in (1, 8, 64, 500):
        needed = SPARE_FILES + partitions * (MIN_OPEN_FILES + OTHER_FILES)
        assert open_files_each(partitions, needed) == MIN_OPEN_FILES
        with pytest.raises(
            SetupError, match=rf"{partitions} partitions? may need {needed}: .*ulimit -n {needed}"
        ):
            open_files_each(partitions, needed - 1)
        for limit in (needed, 2 * needed, 65_536):
            each = open_files_each(partitions, limit)
            assert each <= MAX_OPEN_FILES
            assert SPARE_FILES + partitions * (each + OTHER_FILES) <= limit


def test_the_process_raises_its_own_limit_of_files() -> None:
    code = (
        "import resource\n"
        "from pathlib import Path\n"
        "from worker.storage.databases import Databases\n"
        "_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (300, hard))\n"
        "Databases(Path('/nowhere'), 2**24, 64, print)\n"
        "print(resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 300 or hard)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE_SECONDS
    )
    assert done.stdout.strip() == "True", done.stderr


class OneWrite:
    """A RocksDB that lets nothing by but whole batches, and counts them."""

    def __init__(self, database: Rdict) -> None:
        self.get, self.iter, self.writes = database.get, database.iter, 0
        self._write = database.write

    def write(self, batch: WriteBatch) -> None:
        self.writes += 1
        self._write(batch)


def test_rows_are_written_in_one_atomic_batch(tmp_path: Path) -> None:
    databases = Databases(tmp_path, 16 * MIB, 2, die)
    databases.write(0, {b"gone": b"1"})
    database = databases._open[0] = OneWrite(databases.open(0))  # type: ignore[assignment]
    databases.write(0, {b"a": b"1", b"gone": None, b"": b"empty key", b"empty value": b""})
    assert database.writes == 1
    assert dict(databases.rows(0).scan(b"")) == {b"": b"empty key", b"a": b"1", b"empty value": b""}


def test_a_wiped_database_is_empty_and_works_again(tmp_path: Path) -> None:
    databases = Databases(tmp_path, 16 * MIB, 2, die)
    databases.write(0, {b"a": b"1"})
    databases.write(1, {b"a": b"1"})
    databases.wipe(0)
    assert databases.rows(0).get(b"a") is None
    assert databases.rows(1).get(b"a") == b"1"
    databases.write(0, {b"b": b"2"})
    assert databases.rows(0).get(b"b") == b"2"
    databases.close()


# -- damage ----------------------------------------------------------------------------------------


def test_a_damaged_database_ends_the_process_with_one_line(tmp_path: Path) -> None:
    databases = Databases(tmp_path, 16 * MIB, 2, die)
    databases.write(0, {b"a": b"1"})
    databases.close()
    folder = database_path(tmp_path, 0)
    (folder / "CURRENT").write_bytes(b"nonsense")
    with pytest.raises(End) as end:
        databases.open(0)
    assert isinstance(end.value.cause, DamagedDatabase)
    assert str(folder) in str(end.value.cause)
    assert "coversumm-worker reset --local" in str(end.value.cause)


def test_a_manifest_that_names_too_few_files_ends_the_process(tmp_path: Path) -> None:
    """RocksDB itself opens it: the newest offset, and rows missing under it."""
    databases = Databases(tmp_path, 16 * MIB, 2, die)
    databases.write(0, {b"a": b"1"})
    folder = database_path(tmp_path, 0)
    manifest = next(folder.glob("MANIFEST-*"))
    size = manifest.stat().st_size
    databases.open(0).flush()
    databases.write(0, {b"b": b"1"})
    # as `kill -9` leaves it
    files = {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "LOCK"}
    databases.close()

    def put_back(cut: bool) -> None:
        for path in folder.iterdir():
            path.unlink()
        for name, content in files.items():
            (folder / name).write_bytes(
                content[:size] if cut and name == manifest.name else content
            )

    put_back(cut=False)
    assert dict(databases.rows(0).scan(b"")) == {b"a": b"1", b"b": b"1"}
    databases.close()
    put_back(cut=True)
    with pytest.raises(End) as end:
        databases.open(0)
    assert isinstance(end.value.cause, DamagedDatabase)
    assert "manifest" in str(end.value.cause)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        ("IO error: No space left on device: While appending to file: /data/000010.log", Crash),
        ("Corruption: block checksum mismatch", DamagedDatabase),
    ],
)
def test_a_write_that_rocksdb_refuses_is_told(
    tmp_path: Path, error: str, expected: type[Exception]
) -> None:
    databases = Databases(tmp_path, 16 * MIB, 2, die)

    def write(batch: WriteBatch) -> None:
        raise Exception(error)

    databases._open[0] = SimpleNamespace(write=write)  # type: ignore[assignment]
    with pytest.raises(expected) as refused:
        databases.write(0, {b"a": b"1"})
    assert str(database_path(tmp_path, 0)) in str(refused.value)
