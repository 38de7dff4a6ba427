"""`dlq list` and `dlq show`, and `inspect --history`, on an embedded broker; `dlq send` needs a
real one's transactions.
"""

import json

import pytest
from confluent_kafka import Producer

from tests.harness.patience import PATIENCE_SECONDS
from tests.view.changes import body
from worker.events import Reason, Record, Rejected, dead_letter_message
from worker.kafka.topics import partition_of
from worker.settings import Settings

LONG = b"x" * 300_000
# (partition, reason, key, value, time in milliseconds)
LETTERS = [
    (0, Reason.BAD_JSON, b"one", b"not json", 1000),
    (1, Reason.BAD_FIELD, b"two", b'{"type": "review.upserted", "text": "\xc3\xa9\xc2\x9b"}', 2000),
    (0, Reason.TOO_LARGE, b"one", LONG, 3000),
    (0, Reason.NO_KEY, None, b"\xff\x00\x01", 4000),
    (1, Reason.BAD_FIELD, b"two", None, 5000),
]


@pytest.fixture
def broker(embedded_broker, monkeypatch):
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", embedded_broker.bootstrap_servers)
    settings = Settings.from_environment()
    for topic in (settings.input_topic, settings.dlq_topic, settings.output_topic):
        embedded_broker.create_topic(topic, 2)
    return embedded_broker


@pytest.fixture
def letters(broker):
    settings = Settings.from_environment()
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number, (partition, reason, key, value, time_ms) in enumerate(LETTERS):
        record = Record(settings.input_topic, partition, 100 + number, 0, key, value)
        letter = dead_letter_message(
            settings.dlq_topic, record, Rejected(reason, f"detail\n{number}"), "1", 200_000
        )
        producer.produce(
            letter.topic,
            letter.value,
            letter.key,
            partition,
            timestamp=time_ms,
            headers=letter.headers,
        )
        assert producer.flush(PATIENCE_SECONDS) == 0


def _rows(ended):
    assert (ended.code, ended.err) == (0, "")
    return [json.loads(line) for line in ended.out.splitlines()]


def test_list(run, letters):
    rows = _rows(run("dlq", "list"))
    assert [(row["partition"], row["offset"]) for row in rows] == [
        (0, 0),
        (0, 1),
        (0, 2),
        (1, 0),
        (1, 1),
    ]
    assert rows[1] == {
        "partition": 0,
        "offset": 1,
        "time": "1970-01-01T00:00:03.000Z",
        "reason": "too_large",
        "detail": "detail\n2",
        "source": "marketplace.reviews.v1/0/102",
        "key": "one",
        "bytes": 300_000,
        "truncated": True,
        "attempts": 0,
        "sent": False,
    }
    assert (rows[2]["key"], rows[4]["bytes"]) == (None, None)


@pytest.mark.parametrize(
    ("arguments", "keys"),
    [
        (["--reason", "bad_json", "--reason", "no_key"], [1000, 4000]),
        (["--entity", "one"], [1000, 3000]),
        (["--entity", "two", "--reason", "bad_json"], []),
        (["--since", "1970-01-01T00:00:03Z"], [3000, 4000, 5000]),
        (["--since", "1970-01-01T01:00:03.001+01:00"], [4000, 5000]),
        (["--limit", "2"], [4000, 5000]),
        (["--limit", "2", "--entity", "one"], [1000, 3000]),
        (["--since", "2020-01-01"], []),
    ],
)
def test_list_some(run, letters, arguments, keys):
    times = [row["time"] for row in _rows(run("dlq", "list", *arguments))]
    assert sorted(times) == [f"1970-01-01T00:00:0{key // 1000}.000Z" for key in keys]


def test_equal_letters_are_counted_before_they_are_listed(run, letters, terminal):
    terminal()
    ended = run("dlq", "list")
    assert ended.err.startswith("2 times, such as bad_field: detail")
    assert "5 dead letters: 2 bad_field" in ended.out


def test_list_nothing(run, broker, terminal):
    assert _rows(run("dlq", "list")) == []
    terminal()
    assert "0 dead letters\n" in run("dlq", "list").out


def test_a_reason_that_is_none(run, broker):
    ended = run("dlq", "list", "--reason", "bad_luck")
    assert ended.code == 2
    assert "bad_json" in ended.err


def test_no_such_topic(run, embedded_broker, monkeypatch):
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", embedded_broker.bootstrap_servers)
    ended = run("dlq", "list")
    assert ended.code == 2
    assert ended.err.startswith(
        "coversumm-worker: error: there is no topic marketplace.reviews.v1.dlq"
    )
    assert ended.err.count("\n") == 1


def test_show(run, letters):
    (letter,) = _rows(run("dlq", "show", "0:0"))
    assert (letter["reason"], letter["value"]) == ("bad_json", "not json")
    assert letter["headers"]["dlq.source.offset"] == "100"
    (letter,) = _rows(run("dlq", "show", "0:2"))
    assert letter["value_base64"] == "/wAB"
    (letter,) = _rows(run("dlq", "show", "1:1"))
    assert letter["value"] is None


def test_show_raw(run, letters):
    ended = run("dlq", "show", "0:1", "--raw")
    assert (ended.code, len(ended.out), set(ended.out)) == (0, 2**16, {"x"})
    assert run("dlq", "show", "1:0", "--raw").out.encode() == LETTERS[1][3]


@pytest.mark.parametrize("place", ["0:3", "1:2", "2:0"])
def test_show_what_is_not_there(run, letters, place):
    ended = run("dlq", "show", place)
    assert (ended.code, ended.out) == (1, "")
    assert ended.err == f"coversumm-worker: error: there is no dead letter at {place}\n"


def _change(sequence, previous, added):
    shown = {identifier: f"Text of {identifier}." for identifier in [*added, "z#0"][:2]}
    return body("e", sequence, shown, added, review="r-1", previous=previous)


@pytest.fixture
def published(broker):
    """The changes 10, 30 and 50 of an entity: 20 was compacted away, 50 came after a deletion.

    They are not in the partition where the default partitioner would have put them.
    """
    topic = Settings.from_environment().output_topic
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    values = [
        _change(10, None, ["a#0"]),
        _change(30, 20, ["b#0", "c#0"]),
        None,
        _change(50, None, ["d#0"]),
    ]
    for value in values:
        for key in (b"e", b"another"):
            producer.produce(topic, value, key, 1 - partition_of("e", 2))
        assert producer.flush(PATIENCE_SECONDS) == 0


def test_history_is_a_command_too(run, published):
    """Of the output topic if no other place is named; a page has the deletion as a step."""
    assert _rows_of(run("history", "e")) == _rows_of(run("inspect", "e", "--history"))
    assert _rows_of(run("history", "e", "--limit", "2")) == _rows_of(
        run("inspect", "e", "--history", "2")
    )
    ended = run("history", "e", "--from", "no-such-topic")
    assert ended.code == 2
    assert "there is no topic no-such-topic" in ended.err


def _rows_of(ended):
    assert ended.code == 0
    return [json.loads(line) for line in ended.out.splitlines()]
