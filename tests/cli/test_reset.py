"""`reset` as far as no broker is asked: what it finds, asks and removes. The rest is in
`tests/real_kafka/test_tools.py`.
"""

import fcntl
import json
from concurrent.futures import Future
from types import SimpleNamespace

import pytest
from confluent_kafka import Producer

from tests.harness.patience import PATIENCE_SECONDS
from worker.errors import SetupError
from worker.operations import removal
from worker.operations.removal import EXPIRY_SECONDS, input_beginnings, refuse_members
from worker.settings import Settings

KEPT_BYTES = 5 * 2**20
"""Of each partition; beyond it the embedded broker removes the oldest records, as
retention does.
"""


@pytest.fixture
def folders(tmp_path):
    """A database, and what an interrupted reset left of another."""
    tables = tmp_path / "data" / "v1" / "tables"
    made = [tables / "entities-0.db", tables / "entities-1.db.removed"]
    for folder in made:
        folder.mkdir(parents=True)
        (folder / "000001.sst").write_bytes(b"12345")
    return made


@pytest.mark.parametrize("more", [[], ["--json"], ["--offsets"]])
def test_without_a_terminal_it_needs_to_be_told(run, folders, tmp_path, more):
    """No broker is asked either: none is there."""
    before = sorted(tmp_path.rglob("*"))
    ended = run("reset", "--local", *more)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("coversumm-worker: error: standard input is not a terminal")
    assert "pass --yes" in ended.err
    assert ended.err.count("\n") == 1
    assert sorted(tmp_path.rglob("*")) == before


def test_a_dry_run_says_what_a_real_one_does(run, folders, tmp_path):
    before = sorted(tmp_path.rglob("*"))
    planned = run("reset", "--local", "--dry-run")
    (row,) = map(json.loads, planned.out.splitlines())
    assert (row["databases"], row["bytes"], row["status"]) == (2, 10, "planned")
    assert sorted(tmp_path.rglob("*")) == before
    done = run("reset", "--local", "--yes")
    assert done.code == 0
    assert json.loads(done.out) == {**row, "status": "done"}
    assert done.err == planned.err
    assert done.err.splitlines() == [
        f"local: {tmp_path / 'data'}: 2 databases, 10 bytes",
        "the next `run` restores the databases from the changelog, and publishes nothing again",
    ]
    assert not any(folder.exists() for folder in folders)
    (row,) = map(json.loads, run("reset", "--local", "--yes").out.splitlines())
    assert row["databases"] == 0


@pytest.mark.parametrize("more", [[], ["--dry-run"]])
def test_a_directory_in_use(run, folders, tmp_path, more):
    with (tmp_path / "data" / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        ended = run("reset", "--local", "--yes", *more)
    assert ended.code == 2
    assert "its worker is running" in ended.err
    assert all(folder.exists() for folder in folders)


def test_it_says_which_input_cannot_be_read_again(run, monkeypatch, embedded_broker):
    """The embedded broker does not describe groups, so nothing else is planned here."""
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", embedded_broker.bootstrap_servers)
    monkeypatch.setattr(removal, "planned", lambda *_, **__: [])
    settings = Settings.from_environment()
    assert "first records" not in run("reset", "--dry-run").err  # no input topic
    embedded_broker.create_topic(settings.input_topic, 3)
    producer = Producer({"bootstrap.servers": embedded_broker.bootstrap_servers})
    for partition, events in ((0, 1), (1, 8), (2, 0)):
        for _ in range(events):
            producer.produce(settings.input_topic, bytes(900_000), partition=partition)
            assert producer.flush(PATIENCE_SECONDS) == 0
    removed = 8 - KEPT_BYTES // 900_000
    assert input_beginnings(settings) == {1: removed}
    message = f"the first records of {settings.input_topic} are gone (partition 1 at {removed})"
    for all_of_it in ((), ("--offsets", "--changelog")):
        assert message in run("reset", "--dry-run", *all_of_it).err
    for less in ("--offsets", "--changelog"):  # the input need not be read again
        assert "first records" not in run("reset", "--dry-run", less).err


class Group:
    """Has a member until some time."""

    def __init__(self, clock, seconds):
        self.clock, self.until = clock, clock.now_s + seconds

    def describe_consumer_groups(self, groups, request_timeout):
        member = SimpleNamespace(
            client_id="faust-0.15.3", group_instance_id="worker-0", host="/10.0.0.7"
        )
        answer = Future()
        answer.set_result(
            SimpleNamespace(members=[member] if self.clock.now_s < self.until else [])
        )
        return dict.fromkeys(groups, answer)


def refuse(clock, seconds):
    """The lines of a reset whose group has a member for so many seconds."""
    lines = []
    group = Group(clock, seconds)
    refuse_members(group, "hotels", 10.0, lines.append, clock)
    return lines


def test_a_group_without_members_is_waited_for_by_nobody(clock):
    began = clock.now_s
    assert refuse(clock, 0.0) == []
    assert clock.now_s == began


def test_a_stopped_worker_is_waited_for_until_its_session_is_over(clock):
    began = clock.now_s
    assert refuse(clock, 9.0) == [
        "waiting up to 10 s for the end of the sessions of worker-0 at 10.0.0.7"
    ]
    assert 9.0 <= clock.now_s - began < 10.0


def test_a_running_worker_is_named(clock):
    with pytest.raises(
        SetupError, match=r"group hotels .* has running workers: worker-0 at 10\.0\.0\.7"
    ):
        refuse(clock, 10.0 + EXPIRY_SECONDS + 1.0)
