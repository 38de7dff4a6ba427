"""`send`: every line of a file arrives once, under its key, where other clients and the worker look
for it.
"""

import json
import re
import signal
import subprocess
import sys
import time
from collections import Counter

import pytest

from tests.cli.events import lines, sample
from tests.harness.patience import PATIENCE_SECONDS
from tests.harness.topics import read_topic
from worker.events import read_line
from worker.kafka.topics import partition_of
from worker.operations import file_sending as sending

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
    report = json.loads(ended.out)
    assert (report["topic"], report["sent"]) == (TOPIC, len(content))
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
def test_nothing_is_sent_of_a_file_with_an_unusable_line(run, write, broker, bad, reason):
    content = _several(9)
    path = write("some.jsonl", [*content, bad, *content])
    ended = run("send", path)
    assert (ended.code, ended.out) == (2, "")
    line, error = ended.err.splitlines()
    assert line.startswith(f"line 11: {reason}: ")
    assert f"1 of 21 lines cannot be used ({reason} 1), so nothing was sent" in error
    assert read_topic(broker.bootstrap_servers, TOPIC) == []
    skipped = run("send", path, "--skip-bad")
    assert skipped.code == 1
    assert (json.loads(skipped.out)["sent"], json.loads(skipped.out)["skipped"]) == (20, 1)
    assert f"1 of 21 lines could not be used: {reason} 1" in skipped.err
    assert len(read_topic(broker.bootstrap_servers, TOPIC)) == 20


def test_from_a_line_on(run, write, broker):
    content = _several(9)
    path = write("some.jsonl", [b"{", *content])
    assert run("send", path, "--from-line", "8").code == 0
    arrived = {(m.key, m.value) for m in read_topic(broker.bootstrap_servers, TOPIC)}
    assert arrived == set(map(read_line, content[6:]))
    assert run("send", path, "--from-line", "12").code == 0
    ended = run("send", path, "--from-line", "13")
    assert ended.code == 2
    assert "--from-line 13: there are only 11 lines" in ended.err


def test_a_csv_is_sent_as_the_same_lines_of_json_would_be(run, write, broker):
    path = write(
        "some.csv", [b"asin,id,body,stars", b'B00X,81,"Good, ""really"".",5', b"B00Y,82,Bad.,"]
    )
    assert (
        run("send", path, "--fields", "entity_id=asin,review_id=id,text=body,rating=stars").code
        == 0
    )
    arrived = {m.key: json.loads(m.value) for m in read_topic(broker.bootstrap_servers, TOPIC)}
    event = {
        "type": "review.upserted",
        "entity_id": "B00X",
        "review_id": "81",
        "text": 'Good, "really".',
    }
    assert arrived[b"B00X"] == {**event, "rating": 5}
    assert arrived[b"B00Y"] == {**event, "entity_id": "B00Y", "review_id": "82", "text": "Bad."}


def test_interrupted_it_says_where_to_go_on(write, broker):
    """All lines before the one that is named have arrived, none from it on; so going on there sends
    each once.
    """
    content = _several(60)
    path = write("some.jsonl", content)
    command = [sys.executable, "-m", "worker", "send", path]
    with subprocess.Popen([*command, "--rate", "20"], stderr=subprocess.PIPE, text=True) as process:
        while len(read_topic(broker.bootstrap_servers, TOPIC)) < 5:
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 130
    sent, line = map(
        int,
        re.search(
            r"interrupted: (\d+) events sent; resume with --from-line (\d+)\n", errors
        ).groups(),
    )
    assert sent == line - 1 == len(read_topic(broker.bootstrap_servers, TOPIC))
    assert 5 <= sent < len(content)
    assert (
        subprocess.run(
            [*command, "--from-line", str(line)], capture_output=True, check=False
        ).returncode
        == 0
    )
    arrived = Counter((m.key, m.value) for m in read_topic(broker.bootstrap_servers, TOPIC))
    assert arrived == Counter(map(read_line, content))


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
    monkeypatch.setattr(sending, "DELIVERY_TIMEOUT_MS", 2000)
    produce, message_too_large = 0, 10
    broker.fail_requests(produce, [message_too_large] * 50)
    ended = run("send", write("one.jsonl", _several(3)))
    assert ended.code == 2
    assert "the broker did not take an event for marketplace.reviews.v1" in ended.err
    assert ended.err.endswith("; 0 events sent; resume with --from-line 1\n")


def test_rate(run, write, broker):
    path = write("some.jsonl", _several(20))
    started = time.monotonic()
    assert run("send", path, "--rate", "20").code == 0
    assert time.monotonic() - started >= 1.0
    assert run("send", path, "--rate", "0").code == 2
