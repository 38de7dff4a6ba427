"""A database looked at from beside the process that writes it: one moment, all of it, whatever is
flushed and compacted.
"""

import fcntl
import json
import os
import threading
import time
from types import SimpleNamespace

import pytest
from rocksdict import Options, Rdict

from tests.harness.drive import config
from tests.harness.patience import PATIENCE_SECONDS
from worker.errors import SetupError
from worker.events import Record, read_line
from worker.processing.processor import Processor
from worker.state import DamagedDatabase, MemoryRows
from worker.state.keys import APPLIED, ENTITY, PUBLISHED, parse_entity_key
from worker.storage import snapshot as stored
from worker.storage import verify as verification
from worker.storage.rows import write_rows
from worker.storage.snapshot import PARTIAL_KEY, stored_partition
from worker.storage.verify import verify_data_dir

EVENTS = [
    {
        "type": "review.upserted",
        "entity_id": "e",
        "review_id": f"r{i}",
        "sentences": [{"text": f"Sentence {i}.", "embedding": [1.0, i % 7, i % 3]}],
    }
    for i in range(12)
]


def transactions(events=EVENTS):
    """The rows that each event changes."""
    rows = MemoryRows()
    processor = Processor(
        config(k=3, limits={"model": None, "embeds": False}), lambda _: rows, None
    )
    for offset, event in enumerate(events):
        batch = processor.process(
            [Record("reviews", 0, offset, 0, *read_line(json.dumps(event).encode()))]
        )
        rows.write(batch.rows[0])
        processor.committed(batch)
        yield dict(batch.rows[0])


@pytest.fixture
def data_dir(tmp_path):
    (tmp_path / "v1" / "tables").mkdir(parents=True)
    (tmp_path / "lock").touch()
    return tmp_path


@pytest.fixture
def path(data_dir):
    return data_dir / "v1" / "tables" / "entities-0.db"


@pytest.fixture
def running(data_dir):
    """A worker holds the lock."""
    with (data_dir / "lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def busy(path):
    """Small write buffers: flushes and compactions all the time."""
    options = Options(raw_mode=True)
    options.set_write_buffer_size(128 * 2**10)
    options.set_target_file_size_base(256 * 2**10)
    return Rdict(str(path), options)


def test_views_beside_a_writer(path, running):
    """Rows are numbered as they are written; a view without one of them, or with half a batch,
    would show.
    """
    first = next(transactions())
    stop = threading.Event()
    database = busy(path)
    write_rows(database, first)

    def work():
        number = 0
        while not stop.is_set():
            rows = {b"x%010d" % (number + i): os.urandom(400) for i in range(20)}
            number += 20
            write_rows(database, {**rows, b"n": b"%d" % number})
            stop.wait(0.0005)

    writer = threading.Thread(target=work)
    writer.start()
    try:
        seen = []
        started = time.monotonic()
        while len(set(seen)) < 50:
            assert time.monotonic() - started < PATIENCE_SECONDS, "the writer stands still"
            with stored_partition(0, path) as part:
                count = int(part.rows.get(b"n") or b"0")
                assert [key for key, _ in part.rows.scan(b"x")] == [
                    b"x%010d" % i for i in range(count)
                ]
                seen.append(count)
        assert seen == sorted(seen)
    finally:
        stop.set()
        writer.join()
        database.close()


def test_a_view_counts_only_if_the_manifest_stood_still(path, running, monkeypatch):
    """The writer writes its log out to a table while the view is opened: it is opened again."""
    database = busy(path)
    write_rows(database, next(transactions()))
    opened = []

    def opening(*arguments, **options):
        view = Rdict(*arguments, **options)
        opened.append(view)
        if len(opened) <= 2:
            database[b"x%d" % len(opened)] = b"1"
            database.flush()
        return view

    monkeypatch.setattr(stored, "Rdict", opening)
    with stored_partition(0, path) as part:
        assert len(opened) == 3
        assert [key for key, _ in part.rows.scan(b"x")] == [b"x1", b"x2"]
    monkeypatch.setattr(stored, "OPEN_SECONDS", 0)
    opened.clear()
    with (
        pytest.raises(SetupError, match="no consistent snapshot of the database"),
        stored_partition(0, path),
    ):
        pass
    database.close()


def test_what_a_killed_worker_left(path):
    """Its last rows are in the log alone."""
    pid = os.fork()
    if pid == 0:
        database = busy(path)
        for changes in transactions():
            write_rows(database, changes)
        os._exit(0)
    os.waitpid(pid, 0)
    with stored_partition(0, path) as part:
        assert part.next_offset == len(EVENTS)
    (check,) = verify_data_dir(path.parents[2])
    assert (check.problems, check.entity.reviews) == ((), len(EVENTS))


def test_a_damaged_file_is_a_result(path):
    database = busy(path)
    for changes in transactions():
        write_rows(database, changes)
    database.flush()
    database.close()
    for table in path.glob("*.sst"):
        os.truncate(table, 100)
    (check,) = verify_data_dir(path.parents[2])
    assert check.entity is None
    assert str(path) in check.problems[0]
    with pytest.raises(DamagedDatabase), stored_partition(0, path):
        pass


def half_and_rest(changes):
    """A transaction as a standby may stand in the middle of it: reviews first, what was published
    of them later.
    """
    late = {
        key
        for key in changes
        if key == APPLIED
        or (key.startswith(ENTITY) and parse_entity_key(key).kind in (None, PUBLISHED))
    }
    assert late != set(changes)
    return {k: v for k, v in changes.items() if k not in late}, {k: changes[k] for k in late}


@pytest.mark.parametrize("is_worker_running", [True, False])
def test_a_copy_cut_amid_a_transaction_is_not_verified(
    path, data_dir, request, monkeypatch, is_worker_running
):
    """A running worker's copy is looked at again, in later snapshots."""
    if is_worker_running:
        request.getfixturevalue("running")
    *earlier, last = transactions()
    half, rest = half_and_rest(last)
    database = busy(path)
    for changes in (*earlier, {**half, PARTIAL_KEY: b"1"}):
        write_rows(database, changes)
    looks = iter([(), (), [{**rest, PARTIAL_KEY: None}]])

    def sleep(_seconds):
        for changes in next(looks, ()):
            write_rows(database, changes)

    monkeypatch.setattr(verification, "time", SimpleNamespace(sleep=sleep))
    seen = []
    checks = list(verify_data_dir(data_dir, lambda part, _: seen.append(part.is_partial)))
    if is_worker_running:
        assert seen == [False]
        assert [(check.problems, check.entity.reviews) for check in checks] == [((), len(EVENTS))]
        assert not list(looks)
    else:
        assert (seen, checks) == ([True], [])
    database.close()


def test_a_difference_in_a_whole_copy_counts_at_once(path, data_dir, monkeypatch):
    monkeypatch.setattr(verification, "POLL_SECONDS", 3600)
    *earlier, last = transactions()
    database = busy(path)
    for changes in (*earlier, half_and_rest(last)[0]):
        write_rows(database, changes)
    database.close()
    (check,) = verify_data_dir(data_dir)
    assert check.problems
