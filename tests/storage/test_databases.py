"""RocksDB's memory has one bound for all databases of a worker, however many there are."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from rocksdict import WriteBatch

from tests.harness.patience import PATIENCE_SECONDS
from worker.errors import SurroundingsError
from worker.storage import databases as module
from worker.storage.databases import (
    MAX_OPEN_FILES,
    MAX_WRITE_BUFFER,
    MIN_OPEN_FILES,
    MIN_WRITE_BUFFER,
    OTHER_FILES,
    SPARE_FILES,
    WRITE_SHARE,
    Databases,
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

shared = sys.argv[2] == "shared"
databases = [Databases({BUDGET}, {PARTITIONS}) for _ in range(1 if shared else {PARTITIONS})]
opened = [databases[p % len(databases)].open(Path(sys.argv[1]) / str(p)) for p in range({PARTITIONS})]
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


def peak_bytes(directory: Path, how: str) -> int:
    run = [sys.executable, "-c", FILL_AND_READ, str(directory), how]
    done = subprocess.run(run, capture_output=True, text=True, timeout=PATIENCE_SECONDS)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads the peak memory from /proc")
def test_many_databases_take_no_more_memory_than_the_budget(tmp_path: Path) -> None:
    """Besides blocks and buffers a process has compactions under way, readers of files, its heap's fragments."""
    assert peak_bytes(tmp_path / "shared", "shared") < 4 * BUDGET


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads the peak memory from /proc")
def test_a_budget_for_each_database_would_be_noticed(tmp_path: Path) -> None:
    """What the test above is worth: the same load on databases that share nothing takes several times as much."""
    assert peak_bytes(tmp_path / "apart", "apart") > 5 * BUDGET


def test_what_is_read_and_written_counts_in_the_budget(tmp_path: Path) -> None:
    databases = Databases(16 * MIB, 2)
    one, other = (databases.open(tmp_path / str(p)) for p in range(2))
    assert databases.memory_bytes < MIB
    batch = WriteBatch(raw_mode=True)
    for row in range(1000):
        batch.put(b"%d" % row, b"x" * 1000)
    one.write(batch)
    written = databases.memory_bytes
    assert written > 900_000  # the write buffer is charged to the cache
    one.flush()
    assert sum(1 for _ in one.items()) == 1000
    assert other.get(b"1") is None
    one.close()
    other.close()


def test_rows_outlive_the_process_that_wrote_them(tmp_path: Path) -> None:
    database = Databases(16 * MIB, 2).open(tmp_path / "0.db")
    database.put(b"key", b"value")
    database.close()
    again = Databases(64 * MIB, 8).open(tmp_path / "0.db")
    assert again.get(b"key") == b"value"
    again.close()


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
def test_a_write_buffer_is_a_databases_share_of_the_bound(budget: int, partitions: int, each: int) -> None:
    made = Databases(budget, partitions)
    assert made.write_buffer_bytes == each
    assert each == MIN_WRITE_BUFFER or each * partitions <= budget // WRITE_SHARE


def test_the_open_files_are_bounded_in_sum() -> None:
    for partitions in (1, 8, 64, 500):
        needed = SPARE_FILES + partitions * (MIN_OPEN_FILES + OTHER_FILES)
        assert open_files_each(partitions, needed) == MIN_OPEN_FILES
        with pytest.raises(
            SurroundingsError, match=rf"{partitions} partitions may need {needed}: .*ulimit -n {needed}"
        ):
            open_files_each(partitions, needed - 1)
        for limit in (needed, 2 * needed, 65_536):
            each = open_files_each(partitions, limit)
            assert each <= MAX_OPEN_FILES
            assert SPARE_FILES + partitions * (each + OTHER_FILES) <= limit


def test_the_process_raises_its_own_limit_of_files() -> None:
    code = (
        "import resource\n"
        "from worker.storage.databases import Databases\n"
        "_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (300, hard))\n"
        "Databases(2**24, 64)\n"
        "print(resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 300 or hard)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE_SECONDS
    )
    assert done.stdout.strip() == "True", done.stderr


def test_the_table_uses_the_shared_databases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Faust's store opens every partition through them."""
    from tests.harness.faust_app import make_app, make_table

    opened: list[Path] = []
    really_open = Databases.open

    def noted(self: Databases, path: Path, *, read_only: bool = False) -> object:
        opened.append(path)
        return really_open(self, path, read_only=read_only)

    monkeypatch.setattr(module.Databases, "open", noted)
    table = make_table(make_app(tmp_path))
    (tmp_path / "v1" / "tables").mkdir(parents=True, exist_ok=True)
    for partition in range(2):
        assert table.rows(partition).get(b"nothing") is None
    assert [path.name for path in opened] == ["entities-0.db", "entities-1.db"]
    assert table.data.rocksdb_options.memory_bytes >= 0
