"""`verify` and `inspect --reviews` on the databases of a worker, running or not."""

import fcntl
import json
import shutil
from contextlib import ExitStack

import pytest
from rocksdict import Options, Rdict

from tests.cli.events import delete, sample
from tests.cli.stored import rows_after, store_rows
from worker.kafka.topics import partition_of
from worker.state.keys import ENTITY, PUBLISHED, REVIEW, parse_entity_key
from worker.storage.snapshot import PARTIAL_KEY


@pytest.fixture(scope="module")
def stored_rows():
    events = sample(40)
    others = [{**event, "entity_id": "other"} for event in events[20:]]
    return {0: rows_after(events[:20], 0), 1: rows_after(others, 1), 2: {}}


@pytest.fixture
def data_dir(tmp_path, stored_rows):
    for partition, rows in stored_rows.items():
        store_rows(tmp_path / "data", partition, rows)
    (tmp_path / "data" / "lock").touch()
    return tmp_path / "data"


def _key(rows, kind):
    return next(
        key for key in rows if key.startswith(ENTITY) and parse_entity_key(key).kind == kind
    )


def _is_review(key):
    return key.startswith(ENTITY) and parse_entity_key(key).kind == REVIEW


def test_verify_a_sound_state(run, data_dir):
    ended = run("verify", "--data-dir", data_dir)
    assert (ended.code, ended.err) == (0, "")
    first, second = map(json.loads, ended.out.splitlines())
    assert first == {
        "partition": 0,
        "entity_id": sample(1)[0]["entity_id"],
        "reviews": 20,
        "sentences": sum(len(event["sentences"]) for event in sample(20)),
        "ok": True,
        "problems": [],
        "next_offset": 20,
        "current": None,  # no broker answers
    }
    assert (second["partition"], second["entity_id"], second["ok"]) == (1, "other", True)
    assert run("verify").out == ended.out, "the settings name the same directory"


def test_verify_finds_a_wrong_summary(run, data_dir, stored_rows):
    """The summary is that of an earlier moment: the row itself is sound."""
    earlier = rows_after(sample(3), 0)
    store_rows(data_dir, 0, {_key(earlier, PUBLISHED): earlier[_key(earlier, PUBLISHED)]})
    ended = run("verify", "--data-dir", data_dir, "--json")
    assert ended.code == 1
    results = [json.loads(line) for line in ended.out.splitlines()]
    assert [result["ok"] for result in results] == [False, True]
    assert any("not published" in problem for problem in results[0]["problems"])
    assert (
        ended.err
        == "coversumm-worker: error: 1 of 2 entities differ from the brute-force summary\n"
    )


def test_verify_goes_on_after_a_corrupt_row(run, data_dir, stored_rows):
    key = _key(stored_rows[0], REVIEW)
    store_rows(data_dir, 0, {key: stored_rows[0][key][:-1] + b"?"})
    ended = run("verify", "--data-dir", data_dir)
    assert ended.code == 1
    first, second = map(json.loads, ended.out.splitlines())
    assert first["problems"][0].startswith("corrupt state row (review ")
    assert second["ok"]


def test_verify_skips_a_partial_copy(run, data_dir, stored_rows):
    """Its rows may end amid a transaction: here the reviews of a header are missing."""
    rows = {key: value for key, value in stored_rows[1].items() if not _is_review(key)}
    shutil.rmtree(data_dir / "v1" / "tables" / "entities-1.db")
    store_rows(data_dir, 1, rows)
    assert run("verify", "--data-dir", data_dir).code == 1
    store_rows(data_dir, 1, {PARTIAL_KEY: b"1"})
    ended = run("verify", "--data-dir", data_dir)
    assert ended.code == 0
    assert [json.loads(line)["partition"] for line in ended.out.splitlines()] == [0]
    assert ended.err == (
        "warning: partition 1 as of offset 20, a partial copy: its restore from the changelog has "
        "not ended; it was not verified\n"
    )
    store_rows(data_dir, 0, {PARTIAL_KEY: b"1"})
    ended = run("verify", "--data-dir", data_dir)
    assert (ended.code, ended.out) == (1, "")
    assert "nothing was verified" in ended.err.splitlines()[-1]


def test_inspect_an_unknown_entity(run, data_dir):
    ended = run("inspect", "othe", "--reviews")
    assert ended == (1, "", "coversumm-worker: error: there is no entity 'othe'\n")


def test_an_entity_whose_partition_is_not_here(run, tmp_path, stored_rows):
    """There are two partitions, and rows of one: of an entity of the other nothing is known."""
    store_rows(tmp_path / "data", 1, stored_rows[1])
    store_rows(tmp_path / "data", 0, {})  # it was taken over before it had rows
    here = next(f"x{i}" for i in range(100) if partition_of(f"x{i}", 2) == 1)
    elsewhere = next(f"x{i}" for i in range(100) if partition_of(f"x{i}", 2) == 0)
    assert run("inspect", here, "--reviews").code == 1
    ended = run("inspect", elsewhere, "--reviews")
    assert (ended.code, ended.out) == (2, "")
    assert f"partition 0, where {elsewhere!r} belongs, is not here (here: 1)" in ended.err
    assert "COVERSUMM_DATA_DIR" in ended.err
    assert ended.err.count("\n") == 1


def test_databases_without_rows(run, tmp_path):
    store_rows(tmp_path / "data", 0, {})
    ended = run("inspect", "x", "--reviews")
    assert (ended.code, ended.out) == (2, "")
    assert "have no rows" in ended.err
    assert "COVERSUMM_DATA_DIR" in ended.err


def test_as_of_which_offset(run, data_dir, terminal):
    """Without a broker nobody can say more, and that is said."""
    terminal()
    as_of = "as of offset 20; no broker answered, so the group may be further"
    shown = run("verify", "--data-dir", data_dir).out
    assert f"partition 0 {as_of}" in shown
    assert f"partition 1 {as_of}" in shown


@pytest.mark.parametrize("command", [["verify"], ["inspect", "other", "--reviews"]])
def test_a_directory_in_use(run, data_dir, command):
    """The databases are open for writing, and the worker's lock is held: the answer is the same."""
    answer = run(*command)
    with ExitStack() as worker:
        lock = worker.enter_context((data_dir / "lock").open())
        fcntl.flock(lock, fcntl.LOCK_EX)
        for path in data_dir.glob("v1/tables/*.db"):
            worker.enter_context(Rdict(str(path), Options(raw_mode=True)))
        assert run(*command) == answer
    assert answer.code == 0


def test_the_reviews_of_an_entity(run, data_dir, terminal):
    """Deleted ones too: their versions are remembered."""
    events = [{**event, "review_version": 4} for event in sample(3)]
    events += [{**delete(events[0]), "review_version": 9}]
    store_rows(data_dir, 3, rows_after(events, 3))
    entity = events[0]["entity_id"]
    ended = run("inspect", entity, "--reviews")
    assert (ended.code, ended.err) == (0, "")
    rows = {
        row["review_id"]: row
        for row in map(json.loads, ended.out.splitlines())
        if row["partition"] == 3
    }
    assert rows.keys() == {event["review_id"] for event in events}
    gone, kept = rows[events[0]["review_id"]], rows[events[1]["review_id"]]
    assert (gone["version"], gone["deleted"], gone["sentences"]) == (9, True, {})
    assert (kept["version"], kept["deleted"]) == (4, False)
    assert list(kept["sentences"].values()) == [
        sentence["text"] for sentence in events[1]["sentences"]
    ]
    terminal()
    assert "deleted" in run("inspect", entity, "--reviews").out


@pytest.mark.parametrize("command", [["verify"], ["inspect", "other", "--reviews"]])
def test_a_directory_without_state(run, tmp_path, command):
    (tmp_path / "data").mkdir()
    ended = run(*command)
    assert ended.code == 2
    assert ended.err.startswith(
        f"coversumm-worker: error: there is no state of a worker in {tmp_path / 'data'}"
    )
    assert not list((tmp_path / "data").iterdir()), "looking must not create anything"


def test_reading_changes_nothing(run, data_dir):
    def contents():
        return {
            path: path.read_bytes()
            for path in data_dir.rglob("*")
            if path.is_file() and "LOG" not in path.name
        }

    before = contents()
    run("verify", "--data-dir", data_dir)
    run("inspect", "other", "--reviews")
    assert contents() == before
