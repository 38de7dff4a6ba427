"""What the log of a worker tells an operator: who starts with what, what it owns, what changes,
what is wrong; and no more.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from tests.harness import talkative
from tests.harness.broker import KafkaBroker
from tests.harness.eventually import eventually
from tests.harness.long import one_of
from tests.harness.patience import PATIENCE_SECONDS, TEST_SECONDS
from tests.harness.topics import Message, read_topic
from tests.harness.workers import Pipeline, WorkerProcess, pipeline
from worker import build

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(TEST_SECONDS)]

QUIET_LINES_AN_HOUR = 10


@pytest.fixture
def site(kafka: KafkaBroker, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Pipeline]:
    name = "".join(c if c.isalnum() else "-" for c in request.node.name.removeprefix("test_"))
    settings = {"COVERSUMM_DIMENSION": "2", "COVERSUMM_K": "3", "COVERSUMM_LOG_FORMAT": "json"}
    with pipeline(kafka, name, tmp_path, settings=settings) as made:
        yield made


def entries(worker: WorkerProcess) -> list[dict[str, Any]]:
    return [json.loads(line) for line in worker.log_text().splitlines()]


def ours(worker: WorkerProcess, message: str = "") -> list[dict[str, Any]]:
    """What the worker itself said, in these words."""
    return [
        entry
        for entry in entries(worker)
        if entry["logger"].startswith("worker.") and re.match(message, entry["message"])
    ]


@pytest.mark.long
def test_a_workers_life(site: Pipeline) -> None:
    worker = site.worker("one", top_k="4")
    worker.start().wait_ready()
    start = ours(worker)
    assert start[0]["level"] == "WARNING"
    assert "COVERSUMM_TOP_K (is it COVERSUMM_K?)" in start[0]["message"]
    facts = {name: value for entry in start for name, value in entry.items()}
    assert (facts["version"], facts["group"]) == (build(), site.name)
    assert facts["bootstrap_servers"] == site.broker.bootstrap_servers
    assert facts["topics"] == {
        "input": site.input_topic,
        "output": site.output_topic,
        "dead letters": site.dlq_topic,
        "changelog": site.changelog_topic,
    }
    assert (facts["topic_partitions"], facts["k"], facts["dimension"]) == (4, 3, 2)
    assert facts["web"] == f"http://127.0.0.1:{worker.web_port}"
    assert facts["data_dir"] == str(worker.data_dir)
    assert facts["settings"]["COVERSUMM_K"] == 3
    assert "COVERSUMM_EPOCH" not in facts["settings"]
    (ready,) = ours(worker, "ready after")
    assert (ready["partitions"], ready["standbys"]) == ([0, 1, 2, 3], [])
    assert "processes partitions 0-3 of 4" in ready["message"]

    two = site.worker("two").start()
    two.wait_ready()
    site.wait_caught_up()
    eventually(lambda: bool(ours(worker, "rebalanced in")), lambda: worker.log_end())
    (rebalanced,) = ours(worker, "rebalanced in")
    (joined,) = ours(two, "ready after")
    assert rebalanced["had_partitions"] == [0, 1, 2, 3]
    assert len(rebalanced["partitions"]) == len(joined["partitions"]) == 2
    assert sorted(rebalanced["partitions"] + joined["partitions"]) == [0, 1, 2, 3]
    metrics = worker.metrics()
    assert (metrics["coversumm_partitions"], metrics["coversumm_input_partitions"]) == (2, 4)

    assert two.terminate() == 0
    (stopped,) = ours(two, "stopped by")
    assert stopped["signal"] == "SIGTERM"
    assert sorted(map(int, stopped["committed"])) == joined["partitions"]
    eventually(lambda: len(ours(worker, "rebalanced in")) == 2, lambda: worker.log_end())
    assert worker.terminate() == 0
    assert [entry["level"] for entry in ours(worker) if entry["level"] != "INFO"] == ["WARNING"]
    assert not [entry for entry in entries(worker) if entry["logger"].startswith(("faust", "mode"))]
    assert not re.search(r"\[\^-|gen id|app id", worker.log_text()), "Faust speaks of itself"


def test_dead_letters_are_counted_once_an_interval(site: Pipeline) -> None:
    site.launcher = talkative.__name__
    (worker,) = site.start(1)
    started_s = time.monotonic()
    producer = Producer({"bootstrap.servers": site.broker.bootstrap_servers})
    for number in range(40):
        producer.produce(site.input_topic, key=f"e{number}", value=b"{")
    producer.produce(site.input_topic, value=b"{}")
    producer.flush()
    site.wait_caught_up()
    eventually(lambda: sum(letters(worker).values()) == 41, lambda: worker.log_end())
    assert letters(worker) == {"bad_json": 40, "unknown_type": 1}
    logged = ours(worker, "dead letters")
    intervals = (time.monotonic() - started_s) / talkative.INTERVAL_SECONDS
    assert 1 <= len(logged) <= 1 + intervals
    assert {line["level"] for line in logged} == {"WARNING"}
    producer.produce(site.input_topic, key=b"e", value=b"{")
    producer.flush()
    site.wait_caught_up()
    assert worker.terminate() == 0
    assert letters(worker)["bad_json"] == 41, "what was not logged yet is logged at the stop"


SECRET = "What a lovely cellar, said nobody"


def unusable(entity_id: str) -> list[bytes]:
    """Values of records that cannot be used, each with a review's text in it, wherever
    one may be.
    """
    good = {"type": "review.upserted", "entity_id": entity_id, "review_id": "r", "text": SECRET}
    bodies: list[Any] = [
        good | {"rating": SECRET},
        good | {"type": SECRET},
        good | {"occurred_at": SECRET},
        good | {"entity_id": "another"},
        good | {"sentences": SECRET},
        good | {"sentences": [{"text": SECRET, "embedding": [1.0]}]},
        good | {"sentences": [{"text": SECRET, "embedding": SECRET}]},
        good | {"review_version": SECRET},
        good,  # there is no engine
        SECRET,
    ]
    values = [json.dumps(body).encode() for body in bodies]
    return [*values, values[0][:-1], SECRET.encode(), SECRET.encode("utf-16")]


def test_no_text_of_a_review_is_logged_and_every_line_says_where_the_first_letter_of_each_reason_is(
    site: Pipeline,
) -> None:
    """At DEBUG, with all that the libraries say."""
    worker = site.worker(log_level="DEBUG").start()
    worker.wait_ready()
    producer = Producer({"bootstrap.servers": site.broker.bootstrap_servers})
    sent = [
        (entity_id, value)
        for entity_id in ("e0", "e1", "e2", "e3")
        for value in unusable(entity_id)
    ]
    for entity_id, value in sent:
        producer.produce(site.input_topic, key=entity_id, value=value)
    good = {"type": "review.upserted", "entity_id": "e", "review_id": "r", "text": SECRET}
    good["sentences"] = [{"text": SECRET, "embedding": [1.0, 0.5]}]
    producer.produce(site.input_topic, key=b"e", value=json.dumps(good).encode())
    producer.flush()
    site.wait_caught_up()
    assert worker.terminate() == 0
    assert sum(letters(worker).values()) == len(sent)
    for letter in ours(worker, "dead letters"):
        assert letter["first"].keys() == letter["dead_letters"].keys()
    found = map(source_of, read_topic(site.broker.bootstrap_servers, site.dlq_topic))
    dead = {
        (letter.topic, letter.partition, letter.offset): dict(letter.headers)["dlq.reason"].decode()
        for letter in found
    }
    for letter in ours(worker, "dead letters"):
        for reason, place in letter["first"].items():
            assert dead[place["topic"], place["partition"], place["offset"]] == reason
    assert "lovely" not in worker.log_text()


def source_of(letter: Message) -> Message:
    """A dead letter with the coordinates of the record that it was."""
    headers = dict(letter.headers)
    return letter._replace(
        topic=headers["dlq.source.topic"].decode(),
        partition=int(headers["dlq.source.partition"]),
        offset=int(headers["dlq.source.offset"]),
    )


def letters(worker: WorkerProcess) -> dict[str, int]:
    """By reason, all that the log counted."""
    found: dict[str, int] = {}
    for entry in ours(worker, "dead letters"):
        for reason, count in entry["dead_letters"].items():
            found[reason] = found.get(reason, 0) + count
    return found


@pytest.mark.long
def test_a_quiet_worker_is_quiet(site: Pipeline) -> None:
    """It logs nothing in a time in which each of its intervals passes, shortened here."""
    site.launcher = talkative.__name__
    (worker,) = site.start(1)
    before = len(entries(worker))
    time.sleep(3 * talkative.INTERVAL_SECONDS)
    assert worker.ready()
    said = entries(worker)[before:]
    assert said == []
    assert before <= QUIET_LINES_AN_HOUR, "the start is part of its first hour"


@pytest.mark.parametrize("log_format", one_of(["text", "json"]))
def test_a_fatal_error_is_logged_once(site: Pipeline, log_format: str) -> None:
    """After the start, from a thread of its own: the changelog may delete rows."""
    site.broker.create_topic(site.changelog_topic, site.partitions, {"cleanup.policy": "delete"})
    worker = site.worker(log_format=log_format).start()
    assert worker.wait() == 2
    lines = worker.log_text().splitlines()
    assert [line for line in lines if "from a log that forgets" in line] == [lines[-1]]
    assert lines[-1].startswith(
        f"coversumm-worker: error: the changelog topic {site.changelog_topic}"
    )
    assert "Traceback" not in worker.log_text()


def test_settings_from_a_file(site: Pipeline, tmp_path: Path) -> None:
    """The whole environment of a worker from a file, as a platform would give it."""
    worker = site.worker()
    given = {
        name: value
        for name, value in worker.environment.items()
        if name.startswith(("COVERSUMM", "KAFKA"))
    }
    file = tmp_path / "worker.env"
    file.write_text("".join(f'export {name}="{value}"\n' for name, value in given.items()))
    for name in given:
        del worker.environment[name]
    worker._command = [*worker._command, "--env-file", str(file)]
    worker.start().wait_ready(PATIENCE_SECONDS)
    assert worker.data_dir.exists()
    assert worker.terminate() == 0
    assert not set(given) & set(os.environ)
