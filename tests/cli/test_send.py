"""`send`: every line of a file arrives once, under its key, where other clients and the worker look for it."""

import json
import subprocess
import sys
import time

import pytest

from tests.cli.events import lines, sample
from tests.harness.topics import read_topic
from worker.cli import send
from worker.events import read_line
from worker.kafka.partitioner import partition_of

TOPIC = "marketplace.reviews.v1"
PARTITIONS = 3


@pytest.fixture
def broker(embedded_broker, monkeypatch):
    embedded_broker.create_topic(TOPIC, PARTITIONS)
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", embedded_broker.bootstrap_servers)
    return embedded_broker


def _several(count):
    """Events of several entities, a bare review among them."""
    events = [{**event, "entity_id": f"e{i % 7}é"} for i, event in enumerate(sample(count))]
    return [*lines(events), b'{"entity_id":"bare","review_id":"r","text":"Good.","stars":5}']


def test_all_lines_in_order(run, write, broker):
    content = _several(300)
    ended = run("send", write("some.jsonl.gz", [*content[:10], b"", *content[10:]]))
    assert (ended.code, ended.err) == (0, "")
    told = json.loads(ended.out)
    assert (told["topic"], told["sent"]) == (TOPIC, len(content))
    arrived = read_topic(broker.bootstrap_servers, TOPIC)
    for partition in range(PARTITIONS):
        expected = [
            line
            for line in map(read_line, content)
            if partition_of(line.key.decode(), PARTITIONS) == partition
        ]
        assert expected
        assert [(m.key, m.value) for m in arrived if m.partition == partition] == expected


def test_standard_input(write, broker):
    command = [sys.executable, "-m", "worker", "send", "-"]
    done = subprocess.run(command, input=b"\n".join(_several(5)), capture_output=True, check=True)
    assert json.loads(done.stdout)["sent"] == 6


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (b"{", "bad_json"),
        (b'{"type":"entity.deleted","entity_id":""}', "bad_field"),
        (b'{"entity_id":"e","review_id":"r","text":"' + b"x" * 300_000 + b'"}', "text_too_long"),
    ],
)
def test_stops_at_an_unusable_line(run, write, broker, bad, reason):
    content = _several(9)
    ended = run("send", write("some.jsonl", [*content, bad, *content]))
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith(f"coversumm-worker: error: line 10 (counted from 0): {reason}: ")
    assert ended.err.endswith("; 10 events were sent before it\n")
    assert len(read_topic(broker.bootstrap_servers, TOPIC)) == 10


def test_what_only_the_worker_can_judge_is_sent(run, write, broker):
    """The dimension is that of the worker's model, which is not loaded here."""
    vectors = [{"text": "x", "embedding": [1.0] * 384}]
    event = {
        "type": "review.upserted",
        "entity_id": "e",
        "review_id": "r",
        "sentences": vectors,
        "embedding_model": "m",
    }
    assert run("send", write("one.jsonl", lines([event]))).code == 0


def test_missing_topic(run, write, broker, monkeypatch):
    monkeypatch.setenv("COVERSUMM_INPUT_TOPIC", "elsewhere")
    ended = run("send", write("one.jsonl", _several(1)))
    assert ended.code == 2
    assert "the input topic elsewhere does not exist" in ended.err


def test_a_broker_that_refuses(run, write, broker, monkeypatch):
    monkeypatch.setattr(send, "DELIVERY_TIMEOUT_MS", 2000)
    produce, message_too_large = 0, 10
    broker.fail_requests(produce, [message_too_large] * 50)
    ended = run("send", write("one.jsonl", _several(3)))
    assert ended.code == 2
    assert "the broker did not take an event for marketplace.reviews.v1" in ended.err
    assert ended.err.endswith("; 0 events were sent before it\n")


def test_rate(run, write, broker):
    path = write("some.jsonl", _several(20))
    started = time.monotonic()
    assert run("send", path, "--rate", "20").code == 0
    assert time.monotonic() - started >= 1.0
    assert run("send", path, "--rate", "0").code == 2
