"""The vector store: what is kept is found again, by several processes, within its bytes, and
whatever happens to its files.
"""

import logging
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from tests.harness.drive import FakeEngine
from tests.harness.patience import PATIENCE_SECONDS
from tests.storage.vector_store import IDENTITY, MIB, opened, vector
from worker.settings import Settings
from worker.storage import vectors as stored
from worker.storage.vectors import DATABASE, DamagedStore, contents, disk_bytes, open_vector_store

OTHERS = [
    IDENTITY._replace(model="model@2"),
    IDENTITY._replace(machine="x86_64 avx512"),
    IDENTITY._replace(software="onnxruntime 2"),
    IDENTITY._replace(probe="other bits"),
]


@pytest.fixture
def store(tmp_path):
    store = opened(tmp_path)
    yield store
    store.close()


class Clock:
    now = 0.0

    def monotonic(self):
        return self.now


def as_lists(found):
    return {text: vector_found.tolist() for text, vector_found in found.items()}


@pytest.mark.parametrize("other", OTHERS)
def test_another_engine_finds_nothing(store, tmp_path, other):
    store.add({"a": vector(1)})
    reader = opened(tmp_path, other)
    assert not reader.is_writer
    assert reader.find(["a"]) == {}
    reader.close()
    store.close()
    writer = opened(tmp_path, other)
    assert writer.find(["a"]) == {}
    writer.add({"a": vector(9)})
    writer.close()
    again = opened(tmp_path)
    assert as_lists(again.find(["a"])) == {"a": [1, 2, 3, 4]}
    again.close()


def test_a_reader_sees_what_is_written_later_and_keeps_nothing(store, tmp_path):
    clock = Clock()
    reader = opened(tmp_path, clock=clock)
    store.add({"a": vector(1)})
    reader.add({"mine": vector(5)})
    assert reader.find(["a", "mine"]) == {}
    clock.now += stored.LOOK_SECONDS
    assert list(reader.find(["a", "mine"])) == ["a"]
    assert store.find(["mine"]) == {}
    reader.close()


def test_a_reader_writes_when_the_writer_has_ended(store, tmp_path, caplog):
    caplog.set_level(logging.INFO)
    clock = Clock()
    reader = opened(tmp_path, clock=clock)
    assert not reader.is_writer
    store.add({"a": vector(1)})
    store.close()
    for _ in range(3):
        clock.now += stored.LOOK_SECONDS
        assert list(reader.find(["a"])) == ["a"]
    assert reader.is_writer
    reader.add({"b": vector(2)})
    assert list(reader.find(["b"])) == ["b"]
    reader.close()
    logged = [
        line.rpartition(": this process ")[2] for line in caplog.messages if "this process" in line
    ]
    assert logged == ["reads it, another one writes: its own vectors are not stored", "writes it"]


def test_a_reader_beside_a_writer_that_drops_tables(tmp_path, caplog):
    """It opens a new view for every lookup, while tables come and go all the time."""
    identity = IDENTITY._replace(dimension=2000)
    writer = opened(tmp_path, identity)
    clock = Clock()
    reader = opened(tmp_path, identity, clock=clock)
    stop = threading.Event()
    written = [0]

    def write():
        while not stop.is_set():
            first = written[0]
            writer.add({f"text {i}": vector(i % 9999, 2000) for i in range(first, first + 50)})
            written[0] += 50

    thread = threading.Thread(target=write)
    thread.start()
    try:
        give_up = time.monotonic() + PATIENCE_SECONDS
        looks = found_last = 0
        while (written[0] < 20_000 or looks < 30) and time.monotonic() < give_up:
            last = written[0] - 1
            clock.now += stored.LOOK_SECONDS
            found = reader.find([f"text {i}" for i in range(max(0, last - 4), last + 1)])
            for text, found_vector in found.items():
                assert found_vector.tolist() == vector(int(text[5:]) % 9999, 2000).tolist()
            found_last += f"text {last}" in found
            looks += 1
    finally:
        stop.set()
        thread.join()
        writer.close()
        reader.close()
    assert looks >= 30
    assert found_last > looks // 4  # where no view can be had in time, the last one serves
    assert not [line for line in caplog.messages if "continuing without it" in line]


def _write(folder, ready, go_on):
    store = opened(folder)
    store.add({f"text {i}": vector(i) for i in range(500)})
    ready.set()
    go_on.wait()
    os.kill(os.getpid(), signal.SIGKILL)


def _read(folder, results):
    store = opened(folder)
    found = as_lists(store.find([f"text {i}" for i in range(501)]))
    results.put((store.is_writer, found))
    store.close()


def test_processes_share_it_and_a_killed_writer_leaves_it_readable(tmp_path):
    spawn = multiprocessing.get_context("spawn")
    ready, go_on, results = spawn.Event(), spawn.Event(), spawn.Queue()
    writer = spawn.Process(target=_write, args=(tmp_path, ready, go_on))
    writer.start()
    expected = {f"text {i}": vector(i).tolist() for i in range(500)}
    assert ready.wait(60)
    for is_writer in (False, True):
        reader = spawn.Process(target=_read, args=(tmp_path, results))
        reader.start()
        assert results.get(timeout=60) == (is_writer, expected)
        reader.join()
        go_on.set()
        writer.join()
    assert writer.exitcode == -signal.SIGKILL


def test_it_stays_within_its_bytes_and_the_oldest_go(tmp_path):
    identity, dimension = IDENTITY._replace(dimension=2000), 2000
    bound = 16 * MIB
    store = opened(tmp_path, identity, bound)
    noise = np.random.default_rng(1)
    largest = 0
    for i in range(0, 12_000, 50):
        store.add(
            {f"text {i + j}": noise.integers(-9999, 9999, dimension, np.int16) for j in range(50)}
        )
        largest = max(largest, disk_bytes(tmp_path / DATABASE))
    assert bound / 2 < largest <= bound  # 48 MB were written
    kept = [i for i in range(12_000) if store.find([f"text {i}"])]
    assert 2000 < len(kept) < 4500
    assert kept[-1] == 11_999
    assert kept[0] > 7000
    (held,) = contents(tmp_path)
    assert held.vectors == len(kept)
    assert held.engine["model"] == "model@1", (
        "what an engine is does not go with its oldest vectors"
    )
    store.close()


def test_a_damaged_row_is_absent_told_once_and_made_again(store, caplog):
    store.add({"a": vector(1), "b": vector(2), "c": vector(3)})
    for text in "ab":
        key = store._rows.key(text)
        store._database[key] = store._database[key][:-1] + b"?"
    assert list(store.find(["a", "b", "c"])) == ["c"]
    assert list(store.find(["a"])) == []
    assert len(caplog.messages) == 1
    store.add({"a": vector(1)})
    assert list(store.find(["a"])) == ["a"]


def _damage(folder):
    """Tables and manifest are not what they were."""
    for path in (folder / DATABASE).iterdir():
        if path.name.startswith(("MANIFEST", "CURRENT")):
            path.write_bytes(b"nonsense\n")


def settings(folder, **changes):
    return Settings(vector_store_dir=folder, **changes)


def test_a_damaged_store_is_told_in_a_line_and_not_used(tmp_path, store, caplog):
    store.add({"a": vector(1)})
    store.close()
    _damage(tmp_path)
    with pytest.raises(DamagedStore, match="delete the folder: it is only a cache"):
        opened(tmp_path)
    assert open_vector_store(settings(tmp_path), FakeEngine()) is None
    (line,) = caplog.messages
    assert f"COVERSUMM_VECTOR_STORE_DIR={tmp_path} cannot be used" in line
    assert "\n" not in line
    assert line.endswith("continuing without it")


def test_damage_that_is_met_later_ends_its_use(store, tmp_path, caplog):
    """A table is cut short under the running process; a bloom filter that was not read yet is gone
    with it.
    """
    store.add({f"text {i}": vector(i) for i in range(2000)})
    store._database.flush()
    store.close()
    (table,) = (tmp_path / DATABASE).glob("*.sst")
    again = opened(tmp_path)
    data = bytearray(table.read_bytes())
    data[:40_000] = os.urandom(40_000)
    table.write_bytes(data)
    assert again.find([f"text {i}" for i in range(2000)]) == {}
    again.add({"a": vector(1)})
    assert again.find(["a"]) == {}
    (line,) = caplog.messages
    assert line.endswith("continuing without it")


def test_a_disk_that_takes_no_more_ends_its_use_and_not_the_worker(tmp_path, caplog):
    """Files may not grow past a size, which fails writes as a full disk does."""
    program = (
        "import resource, signal, sys, numpy as np\n"
        "from tests.storage.vector_store import opened, vector\n"
        "from pathlib import Path\n"
        "store = opened(Path(sys.argv[1]))\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))\n"
        "for i in range(1000): store.add({f'text {i} {j}': vector(j) for j in range(10)})\n"
        "assert not store.is_writer and store.find(['text 0 0']) == {}\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        cwd=Path(__file__).parents[2],
    )
    assert ended.returncode == 0, ended.stderr
    (line,) = ended.stderr.splitlines()
    assert "cannot be used (IO error: " in line
    assert line.endswith("continuing without it")
    again = opened(tmp_path)
    assert list(again.find(["text 0 0"])) == ["text 0 0"], "what was written before is there"
    again.close()


def test_it_is_opened_where_it_is_set_and_there_is_an_engine(tmp_path):
    assert open_vector_store(Settings(), FakeEngine()) is None
    assert open_vector_store(settings(tmp_path), None) is None
    store = open_vector_store(settings(tmp_path), FakeEngine())
    store.add({"a": vector(1, FakeEngine.dimension)})
    (held,) = contents(tmp_path)
    assert (held.vectors, held.engine["model"], held.engine["dimension"]) == (1, "fake", 3)
    assert store.disk_bytes > 0
    store.close()
