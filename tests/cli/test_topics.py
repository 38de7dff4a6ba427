"""`topics`: what is missing is created, what is there is checked."""

import json
import time
import uuid

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic

import worker.kafka.topics
from tests.harness.eventually import eventually
from tests.harness.patience import PATIENCE_SECONDS
from tests.harness.topics import read_topic
from worker.events.messages import timestamp

ROLES = ("input", "output", "dead letters", "changelog")


@pytest.fixture
def names(monkeypatch):
    """Topics of this test alone, by role."""
    suffix = uuid.uuid4().hex[:8]
    for variable in ("INPUT_TOPIC", "OUTPUT_TOPIC", "APP_ID"):
        monkeypatch.setenv(f"COVERSUMM_{variable}", f"{variable.lower()}-{suffix}")
    names = (
        f"input_topic-{suffix}",
        f"output_topic-{suffix}",
        f"input_topic-{suffix}.dlq",
        f"app_id-{suffix}-entities-changelog",
    )
    return dict(zip(ROLES, names, strict=True))


@pytest.fixture
def admin(kafka, monkeypatch):
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", kafka.bootstrap_servers)
    return AdminClient({"bootstrap.servers": kafka.bootstrap_servers})


def _create(admin, name, partitions, **config):
    config = {key.replace("_", "."): value for key, value in config.items()}
    admin.create_topics([NewTopic(name, partitions, 1, config=config)])[name].result(
        PATIENCE_SECONDS
    )
    # made by the controller, soon known to the broker
    eventually(lambda: name in admin.list_topics().topics, every_s=0.05)


def _rows(ended):
    return [json.loads(line) for line in ended.out.splitlines()]


@pytest.mark.kafka
def test_created_once_then_found(run, admin, names):
    planned = run("topics", "--partitions", "3", "--dry-run")
    assert [row["status"] for row in _rows(planned)] == ["missing"] * 4
    assert not set(names.values()) & set(admin.list_topics().topics)
    made = run("topics", "--partitions", "3", "--replication-factor", "1")
    assert (made.code, made.err) == (0, "")
    assert {
        row["role"]: (row["topic"], row["partitions"], row["status"]) for row in _rows(made)
    } == {role: (name, 3, "created") for role, name in names.items()}
    found = run("topics")
    assert (found.code, found.err) == (0, "")
    assert [row["status"] for row in _rows(found)] == ["exists"] * 4
    policies = {role: _config(admin, name)["cleanup.policy"].value for role, name in names.items()}
    assert policies == {
        "input": "delete",
        "output": "compact",
        "dead letters": "delete",
        "changelog": "compact",
    }
    assert (
        int(_config(admin, names["changelog"])["delete.retention.ms"].value)
        >= 30 * 24 * 3600 * 1000
    )


@pytest.mark.kafka
def test_how_far_back_the_input_reaches(run, kafka, admin, names):
    """What `topics` creates keeps all records, which a replay needs; another input is shown."""
    assert run("topics", "--partitions", "2", "--replication-factor", "1").code == 0
    assert _history(run) == "it has its first records, and keeps all"
    made = _config(admin, names["input"])
    assert [made[f"retention.{what}"].value for what in ("ms", "bytes")] == ["-1", "-1"]

    other = names["input"] + "-other"
    _create(admin, other, 2, retention_ms="604800000")
    sender = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    for number in range(5):
        sender.produce(other, b"{}", b"e", 1, timestamp=int(time.time() * 1000) + number)
    assert sender.flush(PATIENCE_SECONDS) == 0
    first = next(
        record for record in read_topic(kafka.bootstrap_servers, other) if record.offset == 3
    )
    own = {"COVERSUMM_INPUT_TOPIC": other, "COVERSUMM_DLQ_TOPIC": names["dead letters"]}
    limit = (
        "retention.ms=604800000 will remove records; a replay needs all: set retention.ms=-1 and "
        "retention.bytes=-1, or keep an archive"
    )
    with pytest.MonkeyPatch.context() as patch:
        for name, value in own.items():
            patch.setenv(name, value)
        for beginning in (
            "it has its first records",
            "earlier records are gone, it begins in partition 1 at offset 3 "
            f"({timestamp(first.timestamp_ms)})",
        ):
            ended = run("topics")
            assert ended.code == 0
            assert ended.err == f"the input topic {other}: {beginning}; {limit}\n"
            assert _history(run) == f"{beginning}; {limit}"
            for future in admin.delete_records([TopicPartition(other, 1, 3)]).values():
                future.result(PATIENCE_SECONDS)


def _history(run):
    """What `config --check` says, once the broker knows a topic that was created just now."""

    def found():
        rows = _rows(run("config", "--check", "--json"))
        return [(row["status"], row["found"]) for row in rows if row.get("check") == "history"]

    eventually(lambda: found() != [])
    ((status, text),) = found()
    assert status == "ok"
    return text


def _config(admin, name):
    resource = ConfigResource(ConfigResource.Type.TOPIC, name)
    return admin.describe_configs([resource])[resource].result(PATIENCE_SECONDS)


@pytest.mark.kafka
def test_the_input_decides_the_partitions(run, admin, names):
    _create(admin, names["input"], 5)
    assert run("topics", "--partitions", "4").code == 2
    assert set(names.values()) & set(admin.list_topics().topics) == {names["input"]}
    made = run("topics")
    assert made.code == 0
    assert [row["partitions"] for row in _rows(made)] == [5] * 4


@pytest.mark.kafka
def test_wrong_partition_count_and_policy(run, admin, names):
    _create(admin, names["input"], 2, cleanup_policy="compact", retention_ms="1000")
    _create(admin, names["output"], 3, cleanup_policy="compact")
    ended = run("topics", "--dry-run")
    assert ended.code == 1
    assert (
        f"the output topic {names['output']} has 3 partitions, the input topic {names['input']} "
        "has 2" in ended.err
    )
    assert f"the input topic {names['input']} has cleanup.policy=compact" in ended.err
    assert len(ended.err.splitlines()) == 2
    policies = {
        row["role"]: (row["cleanup_policy"], row["wanted_cleanup_policy"]) for row in _rows(ended)
    }
    assert policies == {
        "input": ("compact", "delete"),
        "output": ("compact", "compact"),
        "dead letters": (None, "delete"),
        "changelog": (None, "compact"),
    }


def test_an_input_that_is_not_there_needs_a_number(run, embedded_broker, names, monkeypatch):
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", embedded_broker.bootstrap_servers)
    ended = run("topics")
    assert ended.code == 2
    assert "--partitions N" in ended.err


def test_a_broker_that_tells_no_policies(run, embedded_broker, names, monkeypatch):
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", embedded_broker.bootstrap_servers)
    for name in names.values():
        embedded_broker.create_topic(name, 2)
    monkeypatch.setattr(worker.kafka.topics, "TIMEOUT_SECONDS", 3)
    ended = run("topics")
    assert ended.code == 0
    what = f"the configuration of the input topic {names['input']}"
    assert ended.err == f"{what} is unknown: no answer from the broker\n"
    assert [row["cleanup_policy"] for row in _rows(ended)] == [None] * 4
