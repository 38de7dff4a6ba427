"""`run` as an operator would: started, asked, stopped, and its state looked at."""

import json
import signal
import subprocess

from tests.cli.events import lines, sample
from tests.cli.running import COMMAND
from tests.harness.eventually import eventually
from tests.harness.patience import PATIENCE_SECONDS
from tests.harness.topics import read_topic
from worker.settings import Settings


def test_the_commands_together(worker, run, write, tmp_path, embedded_broker):
    events = sample(30)
    path = write("some.jsonl", lines(events))
    assert run("send", path).code == 0
    expected = [json.loads(line) for line in run("summarize", path).out.splitlines()]
    topic = Settings.from_environment().output_topic
    entity = events[0]["entity_id"]

    def summary():
        found = json.loads(run("inspect", entity).out or "{}")
        return found if found.get("review_count") == len(events) else None

    running = eventually(summary)
    assert sorted(sentence["text"] for sentence in running["sentences"]) == sorted(
        sentence["text"] for sentence in expected[-1]["sentences"]
    )
    published = [
        json.loads(message.value)
        for message in read_topic(embedded_broker.bootstrap_servers, topic)
    ]
    assert list(map(_comparable, published)) == list(map(_comparable, expected))

    assert run("verify").code == 0, "though it is still running"
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(PATIENCE_SECONDS) == 0
    assert run("verify").code == 0
    reviews = [json.loads(line) for line in run("inspect", entity, "--reviews").out.splitlines()]
    assert sum(not review["deleted"] for review in reviews) == running["review_count"]
    entries = [json.loads(line) for line in (tmp_path / "worker.log").read_text().splitlines()]
    assert {entry["level"] for entry in entries} <= {"INFO"}


def _comparable(body):
    """What two runs over the same events have in common."""
    return {
        key: value
        for key, value in body.items()
        if key not in ("sequence", "previous_sequence", "cause")
    }


def test_no_input_topic(embedded_broker, monkeypatch):
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", embedded_broker.bootstrap_servers)
    done = subprocess.run(COMMAND, capture_output=True, text=True, timeout=PATIENCE_SECONDS)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(
        "coversumm-worker: error: the input topic marketplace.reviews.v1 does not exist"
    )
    assert done.stderr.count("\n") == 1
