"""The tools for the bad day, on a real Kafka: dead letters sent again, state thrown away, a running
worker verified.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from tests.harness.broker import KafkaBroker
from tests.harness.eventually import eventually
from tests.harness.load import HashedVectors, Mix, Sent, Stream, read_reviews
from tests.harness.patience import PATIENCE_SECONDS, TEST_SECONDS
from tests.harness.process import die_with_parent
from tests.harness.small_load import (
    DIMENSION,
    FACETS,
    LARGE_MESSAGES,
    SETTINGS,
    check,
    events,
    feed,
)
from tests.harness.topics import Message, committed_offsets, producer, read_topic
from tests.harness.workers import (
    COMMAND,
    ROOT,
    Pipeline,
    WorkerProcess,
    clean_environment,
    pipeline,
    run_command,
)
from worker.events import Reason, Record, Rejected, dead_letter_message

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(TEST_SECONDS)]

QUIET = Mix(**dict.fromkeys(vars(Mix()), 0.0))


@pytest.fixture
def site(kafka: KafkaBroker, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Pipeline]:
    """A pipeline of the test's own name; its parameter adds settings."""
    name = request.node.originalname.removeprefix("test_").replace("_", "-")
    settings = SETTINGS | getattr(request, "param", {})
    with pipeline(kafka, name, tmp_path, settings=settings, input_config=LARGE_MESSAGES) as made:
        yield made


def environment(site: Pipeline, worker: WorkerProcess | None = None) -> dict[str, str]:
    """Of a command beside a worker, or for a data directory where none was."""
    own = (
        {"COVERSUMM_DATA_DIR": str(site.directory / "none")}
        if worker is None
        else worker.environment
    )
    return clean_environment({**site.environment, **own})


def tool(
    site: Pipeline, *arguments: str, worker: WorkerProcess | None = None
) -> subprocess.CompletedProcess[str]:
    """A command, ended."""
    return run_command(*arguments, environment=environment(site, worker))


def printed(ended: subprocess.CompletedProcess[str], code: int = 0) -> list[dict[str, Any]]:
    """Its JSON lines."""
    assert ended.returncode == code, (ended.returncode, ended.stdout[-2000:], ended.stderr[-2000:])
    return [json.loads(line) for line in ended.stdout.splitlines()]


# -- dead letters ----------------------------------------------------------------------------------


@pytest.mark.long
def test_dead_letters_after_a_fix(site: Pipeline) -> None:
    """A setting was too small; it is put right, and what it refused is sent again:
    applied, once.
    """
    load = list(Stream(read_reviews(limit=120, seed=4), HashedVectors(DIMENSION), mix=QUIET))
    worker = site.worker(max_text_bytes="60").start()
    worker.wait_ready()
    feed(site, load)
    site.wait_caught_up()
    worker.terminate()
    del worker.environment["COVERSUMM_MAX_TEXT_BYTES"]
    letters = printed(tool(site, "dlq", "list"))
    assert 10 < len(letters) < len(load)
    assert {(row["reason"], row["sent"]) for row in letters} == {("text_too_long", False)}
    assert printed(tool(site, "dlq", "send", "--dry-run"))[0]["sent"] == len(letters)
    unasked = tool(site, "dlq", "send")
    assert unasked.returncode == 2
    assert "pass --yes" in unasked.stderr
    assert unasked.stderr.count("\n") == 1
    assert len(read_topic(site.broker.bootstrap_servers, site.input_topic)) == len(load)

    worker.start().wait_ready()
    place = f"{letters[3]['partition']}:{letters[3]['offset']}"
    assert printed(tool(site, "dlq", "send", "--yes", place))[0]["sent"] == 1
    assert [row["sent"] for row in printed(tool(site, "dlq", "list"))].count(True) == 1
    rest = tool(site, "dlq", "send", "--yes", "--reason", "text_too_long")
    assert (
        f"to be sent to {site.input_topic} again, each once: "
        f"{len(letters) - 1} dead letters ({len(letters) - 1} text_too_long)" in rest.stderr
    )
    closing = printed(rest)[0]
    assert (closing["sent"], closing["already_sent"], closing["impossible"]) == (
        len(letters) - 1,
        1,
        0,
    )
    assert printed(tool(site, "dlq", "send", "--yes"))[0]["sent"] == 0
    assert {row["sent"] for row in printed(tool(site, "dlq", "list"))} == {True}

    site.wait_caught_up()
    applied = worker.metrics()
    name = 'coversumm_events_total{outcome="applied",type="review.upserted"}'
    assert applied[name] == len(letters)
    site.stop()
    site.verify_state()
    records = read_topic(site.broker.bootstrap_servers, site.input_topic)
    assert sorted((m.partition, m.key, m.value) for m in records[:]) == sorted(
        (m.partition, m.key, m.value)
        for m in [
            *records_of(load, records),
            *read_topic(site.broker.bootstrap_servers, site.dlq_topic),
        ]
    )


def records_of(load: Sequence[Sent], records: Sequence[Message]) -> list[Message]:
    """Of all records the first of each that was sent."""
    first: dict[Sent, Message] = {}
    for message in records:
        first.setdefault(Sent(message.key, message.value), message)
    assert first.keys() == set(load)
    return list(first.values())


class Letters:
    """A dead letter topic filled by hand, in small transactions with aborted ones between."""

    def __init__(
        self, site: Pipeline, count: int, reasons: Sequence[Reason] = (Reason.BAD_JSON,)
    ) -> None:
        self.site = site
        assert tool(site, "topics", "--replication-factor", "1").returncode == 0
        records = [
            Record(
                site.input_topic, i % site.partitions, i, 0, b"key-%d" % (i % 7), b"value %d" % i
            )
            for i in range(count)
        ]
        self.expected = [(record.partition, record.key, record.value) for record in records]
        writer = producer(
            site.broker.bootstrap_servers, **{"transactional.id": f"{site.name}-writer"}
        )
        writer.init_transactions(PATIENCE_SECONDS)
        for at in range(0, count, 100):
            for commit in (False, True):
                writer.begin_transaction()
                for i, record in enumerate(records[at : at + 100], at):
                    rejected = Rejected(reasons[i // site.partitions % len(reasons)], "by hand")
                    letter = dead_letter_message(site.dlq_topic, record, rejected, "1", 10**6)
                    writer.produce(
                        letter.topic,
                        letter.value,
                        letter.key,
                        letter.partition,
                        headers=letter.headers,
                    )
                assert writer.flush(PATIENCE_SECONDS) == 0
                (writer.commit_transaction if commit else writer.abort_transaction)(
                    PATIENCE_SECONDS
                )

    def sent(self) -> list[tuple[int, bytes | None, bytes | None]]:
        """What a committed reader finds in the input topic."""
        found = read_topic(self.site.broker.bootstrap_servers, self.site.input_topic)
        return [(message.partition, message.key, message.value) for message in found]

    def all_once(self) -> bool:
        """Each exactly once, in its partition, and there in order."""
        wanted = [row for p in range(self.site.partitions) for row in self.expected if row[0] == p]
        return self.sent() == wanted


# `dlq send` in small transactions that a test can stop in the middle. {when}: what happens around
# the {at}-th commit.
PATIENT = """
import os, signal, sys, time
from confluent_kafka import Producer
import worker.kafka.clients as clients
import worker.operations.letter_sending as resend
from worker.cli import main

class Patient(Producer):
    commits = 0
    def init_transactions(self, *timeout):
        time.sleep({late})
        super().init_transactions(*timeout)
    def commit_transaction(self, *timeout):
        Patient.commits += 1
        meant = Patient.commits == {at}
        if meant and {when!r} == "killed before":
            os.kill(os.getpid(), signal.SIGKILL)
        if {when!r} == "slow":
            time.sleep(2)  # a run beside it has the time of forty of these to begin
        super().commit_transaction(*timeout)
        if meant and {when!r} == "killed after":
            os.kill(os.getpid(), signal.SIGKILL)

clients.Producer = Patient
resend.TRANSACTION_LETTERS = 10
sys.argv[1:] = ["dlq", "send", "--yes"]
main()
"""


def patient(site: Pipeline, when: str, at: int = 0, late: float = 0) -> subprocess.Popen[str]:
    """A run that is slow, or dies."""
    return subprocess.Popen(
        [sys.executable, "-c", PATIENT.format(when=when, at=at, late=late)],
        cwd=ROOT,
        env=environment(site),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=die_with_parent,
    )


@pytest.mark.long
def test_kill_9_while_sending(site: Pipeline) -> None:
    """Before and after a commit, early and late; the last run sends the rest. Each letter once, in
    order.
    """
    letters = Letters(site, 400)
    for when, at in (
        ("killed before", 1),
        ("killed after", 2),
        ("killed before", 9),
        ("killed after", 12),
    ):
        before = len(letters.sent())
        run = patient(site, when, at)
        run.communicate(timeout=PATIENCE_SECONDS)
        assert run.returncode == -9
        commits = at if when == "killed after" else at - 1
        assert len(letters.sent()) == before + 10 * commits
    closing = printed(tool(site, "dlq", "send", "--yes"))[0]
    assert closing["sent"] + closing["already_sent"] == 400
    assert closing["already_sent"] == 10 * (0 + 2 + 8 + 12)
    assert letters.all_once()
    assert printed(tool(site, "dlq", "send", "--yes"))[0]["sent"] == 0
    assert letters.all_once()


@pytest.mark.long
def test_two_runs_at_once(site: Pipeline) -> None:
    """The younger takes over; the older ends with exit code 4, and has sent nothing that the
    younger sends again.
    """
    letters = Letters(site, 400)
    older = patient(site, "slow")
    eventually(letters.sent, every_s=0.05)
    younger = patient(site, "late", late=1)  # it must not have read by then what the older has sent
    _, said = older.communicate(timeout=PATIENCE_SECONDS)
    assert older.returncode == 4, said
    assert "another `dlq send`" in said
    assert [line.startswith("coversumm-worker: error:") for line in said.splitlines()] == [
        False,
        True,
    ]
    closing, _ = younger.communicate(timeout=PATIENCE_SECONDS)
    assert younger.returncode == 0
    assert 0 < json.loads(closing)["sent"] < 400
    assert letters.all_once()


@pytest.mark.long
def test_a_list_beside_an_open_transaction(site: Pipeline) -> None:
    """It ends before what is undecided, at once, and does not wait for it."""
    letters = Letters(site, 200)
    patience_ms = int(2000 * PATIENCE_SECONDS)
    writer = producer(
        site.broker.bootstrap_servers,
        **{"transactional.id": f"{site.name}-open", "transaction.timeout.ms": patience_ms},
    )
    writer.init_transactions(PATIENCE_SECONDS)
    writer.begin_transaction()
    for partition in range(site.partitions):
        writer.produce(site.dlq_topic, b"undecided", b"k", partition)
    assert writer.flush(PATIENCE_SECONDS) == 0
    assert len(printed(tool(site, "dlq", "list"))) == 200
    assert printed(tool(site, "dlq", "send", "--yes"))[0]["sent"] == 200
    assert letters.all_once()
    writer.commit_transaction(PATIENCE_SECONDS)
    assert len(printed(tool(site, "dlq", "list"))) == 200 + site.partitions


@pytest.mark.long
def test_letters_that_lie_too_scattered(site: Pipeline) -> None:
    """Every other one, two thousand times in a partition: it stops before it would forget, and says
    what to do.
    """
    letters = Letters(site, 16_000, (Reason.BAD_JSON, Reason.NO_KEY))
    ended = tool(site, "dlq", "send", "--yes", "--reason", "no_key")
    assert ended.returncode == 2
    assert "too scattered" in ended.stderr
    assert "Traceback" not in ended.stderr
    some = len(letters.sent())
    assert some == json.loads(ended.stdout)["sent"] >= 1000
    closing = printed(tool(site, "dlq", "send", "--yes"))[0]
    assert (closing["sent"], closing["already_sent"]) == (16_000 - some, some)
    assert sorted(letters.sent()) == sorted(letters.expected)


@pytest.mark.long
def test_letters_that_are_cut_or_cannot_be_sent(site: Pipeline) -> None:
    """The original of a cut one is read where it came from, and it must be that one."""
    assert tool(site, "topics", "--replication-factor", "1").returncode == 0
    long = [bytes([65 + i]) * 300_000 for i in range(3)]
    writer = producer(site.broker.bootstrap_servers)
    for value in long:
        writer.produce(site.input_topic, value, b"k", 1)
    assert writer.flush(PATIENCE_SECONDS) == 0
    sources = [
        Record(site.input_topic, 1, 0, 0, b"k", long[0]),  # to be gone
        Record(site.input_topic, 1, 1, 0, b"k", long[1]),
        Record(site.input_topic, 1, 2, 0, b"k", long[0]),  # of a topic that was created again since
        Record(site.input_topic, site.partitions, 5, 0, b"k", b"v"),
        Record("another.topic", 0, 5, 0, b"k", b"v"),
    ]
    for record in sources:
        letter = dead_letter_message(
            site.dlq_topic, record, Rejected(Reason.TOO_LARGE, ""), "1", max_bytes=100_000
        )
        writer.produce(letter.topic, letter.value, letter.key, 0, headers=letter.headers)
    writer.produce(site.dlq_topic, b"somebody else's", b"k", 0)
    assert writer.flush(PATIENCE_SECONDS) == 0
    admin = site.broker.admin()
    for future in admin.delete_records([TopicPartition(site.input_topic, 1, 1)]).values():
        future.result(PATIENCE_SECONDS)
    ended = tool(site, "dlq", "send", "--yes")
    assert printed(ended, 1) == [
        {"topic": site.input_topic, "sent": 1, "already_sent": 0, "impossible": 5, "dry_run": False}
    ]
    for why in (
        "is gone",
        "created again",
        f"no partition {site.partitions}",
        "another.topic",
        "do not say",
    ):
        assert why in ended.stderr
    *_, last = read_topic(site.broker.bootstrap_servers, site.input_topic)
    assert (last.partition, last.key, last.value) == (1, b"k", long[1])
    assert printed(tool(site, "dlq", "send", "--yes"), 1)[0]["already_sent"] == 1


# -- reset -----------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("site", [FACETS], indirect=True, ids=["facets"])
def test_reset_and_a_new_epoch(site: Pipeline) -> None:
    """What a dry run says is what goes; refused while anybody runs; and the next epoch agrees with
    the first.
    """
    (worker,) = site.start(1)
    load = events(300)
    feed(site, load)
    site.wait_caught_up()
    refused = tool(site, "reset", "--yes", "--offsets", worker=worker)
    assert refused.returncode == 2
    assert site.name in refused.stderr
    assert "running workers" in refused.stderr
    assert "faust" not in refused.stderr, "its instance id names it"
    refused = tool(site, "reset", "--yes", "--local", worker=worker)
    assert refused.returncode == 2
    assert str(worker.data_dir) in refused.stderr
    site.stop()
    before = footprint(site, worker)
    planned = tool(site, "reset", "--dry-run", worker=worker)
    local, offsets, changelog = printed(planned)
    assert footprint(site, worker) == before
    assert (local["step"], local["databases"], local["status"]) == (
        "local",
        site.partitions,
        "planned",
    )
    assert local["bytes"] > 0
    assert offsets["offsets"] == {
        site.input_topic: {str(p): offset for p, offset in sorted(before[0].items()) if offset >= 0}
    }
    assert sum(changelog["offsets"].values()) >= before[1]
    assert "COVERSUMM_EPOCH" in planned.stderr
    config = changelog_config(site)
    topics = [site.output_topic, site.environment["COVERSUMM_FACETS_TOPIC"]]
    first = [read_topic(site.broker.bootstrap_servers, topic) for topic in topics]

    unasked = tool(site, "reset", worker=worker)
    assert unasked.returncode == 2
    assert "pass --yes" in unasked.stderr
    assert unasked.stderr.count("\n") == 1
    assert footprint(site, worker) == before

    done = tool(site, "reset", "--yes", worker=worker)
    said = done.stderr.splitlines()
    assert (
        said[0]
        == f"local: {worker.data_dir}: {local['databases']} databases, {local['bytes']:,} bytes"
    )
    assert said[3].startswith("the next `run` builds everything again")
    for line, what, topic, setting in zip(
        said[4:], ("summaries", "facets"), topics, ("OUTPUT", "FACETS"), strict=True
    ):
        assert line.startswith(f"warning: {topic} still holds {what} of epoch 1: ")
        assert f"Set COVERSUMM_EPOCH and COVERSUMM_{setting}_TOPIC to new ones" in line
    assert [row["status"] for row in printed(done)] == ["done"] * 3
    assert footprint(site, worker)[:2] == (dict.fromkeys(range(site.partitions), -1001), 0)
    assert sorted(path.name for path in worker.data_dir.glob("**/*.db*")) == []
    assert (worker.data_dir / "lock").exists()
    assert changelog_config(site) == config

    second = [f"{topic}.second" for topic in topics]
    worker.environment |= {
        "COVERSUMM_EPOCH": "2",
        "COVERSUMM_OUTPUT_TOPIC": second[0],
        "COVERSUMM_FACETS_TOPIC": second[1],
    }
    worker.start().wait_ready()
    site.wait_caught_up()
    site.stop()
    site.verify_state()
    for before_reset, topic in zip(first, second, strict=True):
        again = read_topic(site.broker.bootstrap_servers, topic)
        assert len(before_reset) > 100
        assert list(map(comparable, again)) == list(map(comparable, before_reset))
        epochs = {json.loads(message.value)["epoch"] for message in again if message.value}
        assert epochs == {2}


def footprint(site: Pipeline, worker: WorkerProcess) -> tuple[dict[int, int], int, dict[str, int]]:
    """Committed offsets, changelog rows, and sizes of the local files."""
    return (
        committed_offsets(site.broker.bootstrap_servers, site.input_topic, site.name),
        len(read_topic(site.broker.bootstrap_servers, site.changelog_topic)),
        {
            str(path): path.stat().st_size
            for path in worker.data_dir.rglob("*")
            if path.is_file() and path.suffix == ".sst"
        },
    )


def changelog_config(site: Pipeline) -> tuple[int, str, str]:
    """Partitions, cleanup policy and life of tombstones."""
    from confluent_kafka.admin import ConfigResource

    admin = site.broker.admin()
    resource = ConfigResource(ConfigResource.Type.TOPIC, site.changelog_topic)
    config = admin.describe_configs([resource])[resource].result(PATIENCE_SECONDS)
    topic = admin.list_topics(timeout=PATIENCE_SECONDS).topics[site.changelog_topic]
    return (
        len(topic.partitions),
        config["cleanup.policy"].value,
        config["delete.retention.ms"].value,
    )


def comparable(message: Message) -> tuple[int, bytes | None, Any]:
    """What two epochs have in common."""
    body = json.loads(message.value) if message.value is not None else None
    for name in ("epoch",) if body else ():
        del body[name]
    return message.partition, message.key, body


@pytest.mark.parametrize("steps", [["--local", "--offsets"], ["--offsets"]], ids=" ".join)
@pytest.mark.long
def test_a_reset_that_was_interrupted(kafka: KafkaBroker, tmp_path: Path, steps: list[str]) -> None:
    """After any of its first steps the worker goes on as if nothing had been: right, and nothing is
    published again.
    """
    name = f"interrupted{'-'.join(steps).replace('--', '-')}"
    with pipeline(kafka, name, tmp_path, settings=SETTINGS) as site:
        (worker,) = site.start(1)
        load = events(200)
        feed(site, load[:150])
        site.wait_caught_up()
        site.stop()
        assert tool(site, "reset", "--yes", *steps, worker=worker).returncode == 0
        worker.start().wait_ready()
        feed(site, load[150:])
        site.wait_caught_up()
        assert check(site)["records"] == len(load)


@pytest.mark.long
def test_reset_says_what_cannot_be_read_again(site: Pipeline) -> None:
    feed(site, events(100))
    assert "are gone" not in tool(site, "reset", "--dry-run").stderr
    admin = AdminClient({"bootstrap.servers": site.broker.bootstrap_servers})
    for future in admin.delete_records([TopicPartition(site.input_topic, 0, 5)]).values():
        future.result(PATIENCE_SECONDS)
    ended = tool(site, "reset", "--dry-run")
    assert ended.returncode == 0, ended.stderr
    assert (
        f"warning: the first records of {site.input_topic} are gone (partition 0 at 5)"
        in ended.stderr
    )
    assert not Path(environment(site)["COVERSUMM_DATA_DIR"]).exists(), (
        "looking must not create anything"
    )


def test_reset_local_needs_no_broker(site: Pipeline) -> None:
    worker = site.worker()
    worker.environment["KAFKA_BOOTSTRAP_SERVERS"] = "127.0.0.1:1"
    (worker.data_dir / "v1" / "tables" / "entities-0.db").mkdir(parents=True)
    (row,) = printed(tool(site, "reset", "--yes", "--local", worker=worker))
    assert (row["databases"], row["status"]) == (1, "done")
    assert not list(worker.data_dir.glob("**/*.db*"))


# -- a running worker ------------------------------------------------------------------------------


@pytest.mark.long
def test_verify_while_the_worker_is_busy(site: Pipeline) -> None:
    """Two workers with standbys, small write buffers, a load without a pause: every view of each is
    right.
    """
    site.settings = {
        **SETTINGS,
        "COVERSUMM_STANDBY_REPLICAS": "1",
        "COVERSUMM_ROCKSDB_BYTES": "16MiB",
        "COVERSUMM_BATCH_SIZE": "30",
    }
    workers = site.start(2)
    load = events(700)
    feeder = threading.Thread(
        target=feed, args=[site, load], kwargs={"chunk": 20, "events_per_s": 70}, daemon=True
    )
    feeder.start()
    time.sleep(2)
    looks = entities = 0
    while feeder.is_alive():
        for worker in workers:
            checks = printed(tool(site, "verify", worker=worker))
            assert all(row["ok"] for row in checks)
            looks, entities = looks + 1, entities + len(checks)
    assert looks >= 2
    assert entities > 10
    site.wait_caught_up()
    check(site)


@pytest.mark.long
def test_the_history_of_an_entity(site: Pipeline) -> None:
    (worker,) = site.start(1)
    feed(site, events(200))
    site.wait_caught_up()
    published = read_topic(site.broker.bootstrap_servers, site.output_topic)
    counts: dict[bytes, int] = {}
    for message in published:
        counts[message.key or b""] = counts.get(message.key or b"", 0) + 1
    entity = max(counts, key=lambda key: counts[key])
    bodies = [
        message.value and json.loads(message.value)
        for message in published
        if message.key == entity
    ]
    ended = tool(site, "inspect", entity.decode(), "--history", "100000")
    rows = printed(ended)
    assert len(rows) == len(bodies) > 5
    for row, body in zip(rows, bodies, strict=True):
        assert row["tombstone"] == (body is None)
        if body is not None:
            assert {name: row[name] for name in ("sequence", "cause", "added", "removed")} == {
                name: body[name] for name in ("sequence", "cause", "added", "removed")
            }
    assert not any(row["incomplete"] for row in rows)
    assert printed(tool(site, "inspect", entity.decode(), "--history", "2")) == rows[-2:]
    reviews = printed(tool(site, "inspect", entity.decode(), "--reviews", worker=worker))
    view = printed(tool(site, "inspect", entity.decode(), worker=worker))[0]
    assert sum(not review["deleted"] for review in reviews) == view["review_count"]
    assert sum(len(review["sentences"]) for review in reviews) == view["sentence_count"]
    assert printed(tool(site, "inspect", "nobody at all", "--history"), 1) == []


# -- copies that were left behind ------------------------------------------------------------------


@pytest.mark.long
def test_a_partition_that_moved_leaves_an_old_copy_and_it_is_told(site: Pipeline) -> None:
    """The first worker's databases stay; a second one has some of their partitions, and gets on
    with them.
    """
    (first,) = site.start(1)
    load = events(300)
    feed(site, load[:150])
    site.wait_caught_up()
    then = {
        row["partition"]: row["next_offset"] for row in printed(tool(site, "verify", worker=first))
    }
    (second,) = site.start(1)
    feed(site, load[150:])
    site.wait_caught_up()
    now = committed_offsets(site.broker.bootstrap_servers, site.input_topic, site.name)
    own = {path.name for path in second.data_dir.glob("v1/tables/*.db")}
    moved = {partition for partition in then if f"entities-{partition}.db" in own}
    assert moved
    assert moved != set(then)

    for running in (True, False):
        if not running:
            for worker in (first, second):
                worker.kill()  # one that says goodbye hands its partitions to the other
        checked = tool(site, "verify", worker=first)
        rows = printed(checked)
        assert {row["partition"]: row["current"] for row in rows} == {
            p: p not in moved for p in then
        }
        assert {row["partition"]: row["next_offset"] for row in rows} == {
            p: then[p] if p in moved else now[p] for p in then
        }
        assert set(checked.stderr.splitlines()) >= {
            f"warning: partition {p} as of offset {then[p]:,}, an old copy: the group is at "
            f"{now[p]:,}, another worker owns it now; this copy was verified"
            for p in moved
        }
        beside = printed(tool(site, "verify", worker=second))
        assert {(row["partition"], row["current"]) for row in beside} >= {(p, True) for p in moved}

    entities = {
        row["partition"]: row["entity_id"] for row in rows if row["entity_id"].isprintable()
    }
    assert moved & entities.keys()
    assert entities.keys() - moved
    for partition, entity in entities.items():
        reviews = tool(site, "inspect", entity, "--reviews", worker=first)
        assert ("another worker owns it now" in reviews.stderr) == (partition in moved)
        if partition not in moved:
            refused = tool(site, "inspect", entity, "--reviews", worker=second)
            assert (refused.returncode, refused.stdout) == (2, "")
            said = f"partition {partition}, where {entity!r} belongs, is not here (here: "
            assert said in refused.stderr
            here = refused.stderr.partition(said)[2].partition(")")[0].split(", ")
            assert {str(p) for p in moved} <= set(here)
            assert str(partition) not in here
            assert "COVERSUMM_DATA_DIR" in refused.stderr
    first.environment["KAFKA_BOOTSTRAP_SERVERS"] = "127.0.0.1:1"
    unknown = tool(site, "verify", worker=first)
    assert {row["current"] for row in printed(unknown)} == {None}
    assert unknown.stderr == ""
    first.environment |= {
        "KAFKA_BOOTSTRAP_SERVERS": site.broker.bootstrap_servers,
        "COVERSUMM_APP_ID": "another-group",
    }
    assert {row["current"] for row in printed(tool(site, "verify", worker=first))} == {None}


# -- send ------------------------------------------------------------------------------------------


@pytest.mark.long
def test_sending_goes_on_where_the_broker_died(tmp_path: Path) -> None:
    """All lines before the one that the message names are acknowledged: resuming there loses
    nothing and repeats no more than the message says.
    """
    lines = [
        json.dumps(
            {
                "type": "review.upserted",
                "entity_id": f"e{i % 11}",
                "review_id": f"r{i}",
                "text": "Good.",
            }
        )
        for i in range(2000)
    ]
    path = tmp_path / "events.jsonl"
    path.write_text("\n".join(lines))
    with KafkaBroker(tmp_path / "broker") as broker:
        broker.create_topic("in", 3)
        environment = clean_environment(
            {"KAFKA_BOOTSTRAP_SERVERS": broker.bootstrap_servers, "COVERSUMM_INPUT_TOPIC": "in"}
        )

        def start(*options: str) -> subprocess.Popen[str]:
            command = [*COMMAND, "send", str(path), *options]
            return subprocess.Popen(
                command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True
            )

        with start("--rate", "50") as sending:
            while len(read_topic(broker.bootstrap_servers, "in")) < 30:
                assert sending.poll() is None
            broker.kill()
            _, said = sending.communicate(timeout=PATIENCE_SECONDS)
        assert sending.returncode == 2, said
        match = re.search(
            r"; (\d+) events sent; resume with --from-line (\d+)(?: \(it repeats (\d+) )?", said
        )
        assert match, said
        sent, line, repeated = (int(number or 0) for number in match.groups())
        assert sent - repeated == line - 1
        broker.start()
        before = Counter(
            (m.value or b"").decode() for m in read_topic(broker.bootstrap_servers, "in")
        )
        assert all(before[lines[i]] == 1 for i in range(line - 1))
        with start("--from-line", str(line)) as going_on:
            _, said = going_on.communicate(timeout=PATIENCE_SECONDS)
        assert going_on.returncode == 0, said
        after = Counter(
            (m.value or b"").decode() for m in read_topic(broker.bootstrap_servers, "in")
        )
    assert set(after) == set(lines)
    assert all(after[lines[i]] == 1 for i in range(line - 1))
    assert max(after.values()) <= 2
