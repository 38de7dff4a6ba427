"""A group has one kind of state: who would bring another one is refused, before it publishes
anything.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka.admin import NewPartitions

from tests.harness import newer
from tests.harness.broker import KafkaBroker
from tests.harness.eventually import eventually
from tests.harness.load import Sent
from tests.harness.long import one_of
from tests.harness.patience import PATIENCE_SECONDS, TEST_SECONDS
from tests.harness.small_load import DIMENSION, SETTINGS, events, feed
from tests.harness.topics import consumer, producer, read_topic
from tests.harness.workers import Pipeline, WorkerProcess, pipeline, run_command
from worker.kafka.changelog import FirstRow, first_rows
from worker.kafka.clients import KafkaClients
from worker.settings import Settings
from worker.state.keys import FINGERPRINT
from worker.state.rows import decode_fingerprint

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(TEST_SECONDS)]


@pytest.fixture
def site(kafka: KafkaBroker, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Pipeline]:
    """A pipeline of the test's own name, not started."""
    name = "".join(c if c.isalnum() else "-" for c in request.node.name.removeprefix("test_"))
    with pipeline(kafka, name, tmp_path, settings=SETTINGS) as made:
        yield made


@pytest.mark.parametrize("protocol", one_of(["consumer", "classic"]))
def test_a_group_of_another_consumer_is_named(site: Pipeline, protocol: str) -> None:
    options = {"group.protocol": protocol, "client.id": "billing-7", "enable.partition.eof": False}
    if protocol == "consumer":
        options |= {"group.remote.assignor": "uniform"}
    servers = site.broker.bootstrap_servers
    with closing(consumer(servers, site.name, **options)) as other:
        other.subscribe([site.input_topic])
        eventually(lambda: (other.poll(0.1), other.assignment())[1], str)
        site.worker().refused("billing-7 at 127.0.0.1", "COVERSUMM_APP_ID")
        checked = run_command("config", "--check", environment=site.environment)
        assert f"group {site.name}: only workers: billing-7 at 127.0.0.1; stop" in checked.stderr
    site.worker().start().wait_ready()
    assert run_command("config", "--check", environment=site.environment).returncode == 0


def upsert(review: int) -> Sent:
    """A review of one entity: its events all go to one partition."""
    vector = [1.0, float(review)] + [0.5] * (DIMENSION - 2)
    body = {
        "type": "review.upserted",
        "entity_id": "one",
        "review_id": f"r{review}",
        "sentences": [{"text": f"As good as the {review}th.", "embedding": vector}],
    }
    return Sent(b"one", json.dumps(body).encode())


def refused(worker: WorkerProcess, *words: str) -> str:
    """It ends by itself with exit code 2 and one line that has these words; the line."""
    assert worker.wait() == 2, worker.log_end()
    (line,) = [
        line
        for line in worker.log_text().splitlines()
        if line.startswith("coversumm-worker: error:")
    ]
    assert "Traceback" not in worker.log_text(), worker.log_end()
    for word in words:
        assert word in line, line
    return line


def found_first_rows(site: Pipeline) -> list[FirstRow]:
    """Of the changelog."""
    clients = KafkaClients(Settings(bootstrap_servers=site.broker.bootstrap_servers))
    return list(first_rows(clients, site.name, site.changelog_topic, range(site.partitions)))


# -- settings --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("others", "message"),
    one_of(
        [
            ({"k": "6"}, "k: stored '5', configured '6' (COVERSUMM_K)"),
            ({"embedder": "onnx", "dimension": "384"}, "model: stored 'none', configured '"),
        ]
    ),
    ids=["k", "embedder"],
)
def test_other_settings_cannot_join_a_running_group(
    site: Pipeline, others: dict[str, str], message: str
) -> None:
    """One partition of four has rows: whatever the newcomer is given, it is refused before it was
    ready.
    """
    (first,) = site.start(1)
    feed(site, [upsert(0)])
    site.wait_caught_up()
    second = site.worker(**others).start()

    def ended() -> bool:
        assert not second.ready(), second.log_end()
        return not second.alive

    eventually(ended, second.log_end, every_s=0.05)
    refused(
        second,
        "was built with other settings",
        message,
        "put the settings back",
        "own COVERSUMM_EPOCH",
    )
    assert second.log_text().count("partitions") == 0, second.log_end()  # it was never given any
    assert first.ready(), "it was interrupted"
    feed(site, [upsert(1)])
    site.wait_caught_up()
    assert first.terminate() == 0
    site.verify()


@pytest.mark.parametrize(
    "is_initial", [True, pytest.param(False, marks=pytest.mark.long)], ids=["began", "upgraded"]
)
def test_rows_of_a_newer_version_are_refused_before_a_worker_is_ready(
    site: Pipeline, is_initial: bool
) -> None:
    """The newer worker is away for longer than its session, so the older one gets its
    partitions.
    """
    if not is_initial:
        (first,) = site.start(1)
        feed(site, [upsert(0)])
        site.wait_caught_up()
        assert first.terminate() == 0
    site.launcher = newer.__name__
    (later,) = site.start(1)
    feed(site, [upsert(1)])
    site.wait_caught_up()
    later.kill()
    site.launcher = None
    older = site.worker().start()

    def ended() -> bool:
        assert not older.ready(), older.log_end()
        return not older.alive

    eventually(ended, older.log_end, every_s=0.05)
    words = ("header: format 3, the newest that this worker knows is 2", "run that version again")
    refused(older, "a newer version of the worker wrote the stored state", *words)
    checked = run_command("config", "--check", environment=older.environment)
    assert checked.returncode == 1, checked
    assert all(word in " ".join(checked.stdout.split()) for word in words), checked.stdout
    later.start().wait_ready()
    feed(site, [upsert(2)])
    site.wait_caught_up()
    site.stop()
    site.verify(committed=False)


@pytest.mark.long
def test_who_is_refused_later_leaves_at_once_and_its_partitions_do_not_wait_for_its_session(
    site: Pipeline,
) -> None:
    """On an empty group there is nothing to refuse it for before it joins; a static member would
    keep its place.
    """
    session = {"session_timeout_ms": "80000"}
    first = site.worker(k="5", **session).start()
    first.wait_ready()
    second = site.worker(k="6", **session).start()
    eventually(
        lambda: all("processing 2 of 4" in reason(worker) for worker in (first, second)),
        lambda: "not shared",
    )
    feed(site, [upsert(0)])
    eventually(
        lambda: not (first.alive and second.alive) or site.lag(site.targets()) == 0, site.logs
    )
    feed(site, events(100))
    eventually(lambda: not (first.alive and second.alive), site.logs)
    loser, winner = (first, second) if second.alive else (second, first)
    refused(loser, "the state of this group", "COVERSUMM_K")
    eventually(lambda: "processing 4 of 4" in reason(winner), site.logs, timeout_s=40.0)
    site.wait_caught_up()
    site.stop()


@pytest.mark.long
def test_two_kinds_of_settings_cannot_begin_a_group_together(site: Pipeline) -> None:
    """Both are ready on an empty group, as there is nothing yet that they could disagree with. At
    most one commits.
    """
    workers = [site.worker(k=k).start() for k in ("5", "6")]
    eventually(
        lambda: all("processing 2 of 4" in reason(worker) for worker in workers),
        lambda: "not shared",
    )
    feed(site, events(100))
    targets = site.targets()

    def settled() -> bool:
        """Both are refused, or one, and the other has all partitions and did the work."""
        alive = [worker for worker in workers if worker.alive]
        return not alive or (len(alive) == 1 and site.lag(targets) == 0)

    eventually(settled, site.logs)
    losers = [worker for worker in workers if not worker.alive]
    for loser in losers:
        refused(
            loser,
            "the state of this group",
            "was built with other settings (k: stored",
            "COVERSUMM_K",
        )
    site.stop()
    kinds = {
        decode_fingerprint(FINGERPRINT, row.value)["k"]
        for row in found_first_rows(site)
        if row.key == FINGERPRINT and row.value is not None and row.is_committed
    }
    assert len(kinds) <= 1
    published = read_topic(site.broker.bootstrap_servers, site.output_topic)
    assert {str(json.loads(message.value)["k"]) for message in published if message.value} == kinds
    assert len(losers) == 2 or kinds


def reason(worker: WorkerProcess) -> str:
    """What `/readyz` says of a worker that is ready; empty for any other, as in a rebalance."""
    try:
        with worker.get("/readyz") as answer:
            return str(json.load(answer)["reason"])
    except OSError:  # among them the answer 503
        return ""


def test_first_rows_are_those_of_committed_and_of_open_transactions(site: Pipeline) -> None:
    site.broker.create_topic(site.changelog_topic, site.partitions)
    assert found_first_rows(site) == []
    writer = producer(site.broker.bootstrap_servers, **{"transactional.id": f"{site.name}-writer"})
    writer.init_transactions(PATIENCE_SECONDS)

    def write(key: bytes, *partitions: int) -> None:
        writer.begin_transaction()
        for partition in partitions:
            for number in range(3):
                writer.produce(site.changelog_topic, b"%d" % number, key, partition)
        assert writer.flush(PATIENCE_SECONDS) == 0

    write(b"aborted", 0, 1, 2)
    writer.abort_transaction(PATIENCE_SECONDS)  # its markers come later
    eventually(lambda: found_first_rows(site) == [], lambda: str(found_first_rows(site)))
    write(b"committed", 1)
    writer.commit_transaction(PATIENCE_SECONDS)
    eventually(
        lambda: all(row.is_committed for row in found_first_rows(site)),
        lambda: str(found_first_rows(site)),
    )
    write(b"open", 1, 2)
    expected = [FirstRow(1, b"committed", b"0", True), FirstRow(2, b"open", b"0", False)]
    assert sorted(found_first_rows(site)) == expected
    writer.abort_transaction(PATIENCE_SECONDS)
    eventually(lambda: found_first_rows(site) == expected[:1], lambda: str(found_first_rows(site)))


# -- partitions ------------------------------------------------------------------------------------


def grow(site: Pipeline, topics: Sequence[str], count: int) -> None:
    """Add partitions, as an operator may."""
    admin = site.broker.admin()
    for future in admin.create_partitions(
        [NewPartitions(topic, count) for topic in topics]
    ).values():
        future.result(PATIENCE_SECONDS)


GROWN = (
    "has 6 partitions, and its state was built with 4",
    "new input topic",
    "own COVERSUMM_EPOCH",
)


@pytest.mark.long
def test_partitions_added_under_a_busy_worker(site: Pipeline) -> None:
    """What comes from then on may be of a key that moved: none of it is committed."""
    (worker,) = site.start(1)
    feed(site, events(50))
    site.wait_caught_up()
    before = len(read_topic(site.broker.bootstrap_servers, site.output_topic))
    grow(site, [site.input_topic], 6)
    feed(site, events(50, seed=3))
    line = refused(worker, site.input_topic, *GROWN)
    assert len(read_topic(site.broker.bootstrap_servers, site.output_topic)) == before

    for also_grown in ([], [site.output_topic, site.dlq_topic], [site.changelog_topic]):
        if also_grown:
            grow(site, also_grown, 6)
        again = site.worker().start()
        message = refused(again, "new input topic", "own COVERSUMM_EPOCH")
        if site.changelog_topic not in also_grown:
            assert message == line
            checked = topics(site)
            *_, last = checked.stderr.splitlines()  # after notes about the input's history
            assert (checked.returncode, last) == (1, line)
    assert len(read_topic(site.broker.bootstrap_servers, site.output_topic)) == before


def topics(site: Pipeline) -> subprocess.CompletedProcess[str]:
    """`coversumm-worker topics`."""
    return run_command("topics", environment=site.environment)


@pytest.mark.long
def test_partitions_added_under_an_idle_worker(site: Pipeline) -> None:
    """It learns of them by itself, though nothing comes that it could refuse to commit."""
    (worker,) = site.start(1)
    feed(site, [upsert(0)])
    site.wait_caught_up()
    grow(site, [site.input_topic], 6)
    refused(worker, site.input_topic, *GROWN)
