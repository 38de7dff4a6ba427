"""No record stops a worker or a bridge: records that clients in Python do not send."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer

from tests.harness import faulty
from tests.harness.broker import KafkaBroker
from tests.harness.debezium import deletions, written
from tests.harness.eventually import eventually
from tests.harness.long import one_of
from tests.harness.patience import TEST_SECONDS
from tests.harness.poison import ENTITY
from tests.harness.raw_records import RawRecord, raw_batch, send_batch
from tests.harness.small_load import SETTINGS, good_review
from tests.harness.topics import Message, committed_offsets, read_topic
from tests.harness.workers import Pipeline, WorkerProcess, pipeline, run_command
from worker.cli import skip as command
from worker.errors import SetupError
from worker.events import Record
from worker.events.internal_errors import MOST_IN_A_ROW
from worker.operations.letters import Place
from worker.settings import Settings

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(TEST_SECONDS)]

SOURCE = "{}.source"
MAPPING = """
[topic."{topic}"]
[[topic."{topic}".rule]]
emit = "review.upserted"
entity_id = "header:entity"
review_id = "review_id"
sentences = "sentences"
"""
OF_ENTITY = (b"entity", ENTITY.encode())
STRANGE = (b"\xff\xe9t\xc3\xa9", b"1")


@pytest.fixture
def site(kafka: KafkaBroker, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Pipeline]:
    """A pipeline of one partition, under the test's name."""
    name = re.sub(r"[\W_]+", "-", request.node.name.removeprefix("test_")).strip("-")
    with pipeline(kafka, name, tmp_path, partitions=1, settings=SETTINGS) as made:
        yield made


def review(number: int, *headers: tuple[bytes, bytes | None]) -> RawRecord:
    """A review that is applied, with headers."""
    key, value = good_review(number)[:2]
    return RawRecord(key, value, headers)


def put(site: Pipeline, topic: str, records: Sequence[RawRecord], codec: str = "none") -> None:
    """Append a batch to partition 0."""
    send_batch(site.broker.bootstrap_servers, topic, raw_batch(records, codec))


def mapped(site: Pipeline, topic: str) -> Path:
    """A mapping of the topic that reads the entity from a header."""
    file = site.directory / "mapping.toml"
    file.write_text(MAPPING.format(topic=topic))
    return file


def letters(site: Pipeline, topic: str = "") -> list[tuple[Message, dict[str, str]]]:
    """The dead letters, each with its headers."""
    found = read_topic(site.broker.bootstrap_servers, topic or site.dlq_topic)
    return [(record, {name: raw.decode() for name, raw in record.headers}) for record in found]


def reviews_of(site: Pipeline) -> int:
    """How many reviews the last summary counts."""
    last = read_topic(site.broker.bootstrap_servers, site.output_topic)[-1]
    return int(json.loads(last.value or b"")["review_count"])


def bridge(site: Pipeline, source: str, launcher: str | None = None) -> WorkerProcess:
    """A bridge of the source to the pipeline's input, started."""
    arguments = ("bridge", "--mapping", str(mapped(site, source)), "--from", source)
    site.workers.append(
        WorkerProcess(
            site.directory / f"bridge-{launcher}",
            site.environment,
            arguments=arguments,
            launcher=launcher,
        )
    )
    return site.workers[-1].start()


def wait_bridged(site: Pipeline, source: str, end: int) -> None:
    """Wait until the bridge has committed this offset of the source."""
    servers, group = site.broker.bootstrap_servers, f"{site.name}-bridge-{source}"

    def is_bridged() -> bool:
        assert site.workers[-1].alive, site.logs()
        return committed_offsets(servers, source, group)[0] >= end

    eventually(is_bridged, site.logs, every_s=0.3)


def test_a_header_name_of_any_bytes_stops_no_worker(site: Pipeline) -> None:
    put(site, site.input_topic, [review(0), review(1, STRANGE), review(2)], "zstd")
    site.start(1)
    site.wait_caught_up()
    site.stop()
    assert (letters(site), reviews_of(site)) == ([], 3)


def test_a_header_name_of_any_bytes_stops_no_mapping(site: Pipeline) -> None:
    """The worker reads the other headers; a dead letter keeps all, with readable names."""
    bad = RawRecord(b"k", b"no json", (OF_ENTITY, STRANGE))
    put(site, site.input_topic, [review(0, OF_ENTITY), review(1, STRANGE, OF_ENTITY), bad])
    (worker,) = [site.worker(mapping=str(mapped(site, site.input_topic))).start()]
    worker.wait_ready()
    site.wait_caught_up()
    site.stop()
    ((_, headers),) = letters(site)
    assert reviews_of(site) == 2
    assert headers["dlq.source.offset"] == "2"
    assert (headers["entity"], headers["\\xff\\xe9té"]) == (ENTITY, "1")


def test_a_header_name_of_any_bytes_stops_no_bridge(site: Pipeline) -> None:
    """Its client reads no header of such a record: a dead letter, also for `mapping check`."""
    source = SOURCE.format(site.name)
    site.broker.create_topic(source, 1)
    put(site, source, [review(0, OF_ENTITY), review(1, STRANGE, OF_ENTITY), review(2, OF_ENTITY)])
    bridge(site, source)
    wait_bridged(site, source, 3)
    ((letter, headers),) = letters(site, f"{source}.dlq")
    assert len(read_topic(site.broker.bootstrap_servers, site.input_topic)) == 2
    assert letter.value == review(1).value
    assert (headers["dlq.reason"], headers["dlq.source.offset"]) == ("bad_field", "1")
    assert headers["dlq.detail"] == "headers: the name of one is not UTF-8"
    file = str(mapped(site, source))
    checked = run_command(
        "mapping", "check", file, "--from-topic", "--json", environment=site.environment
    )
    found = [json.loads(line)["becomes"] for line in checked.stdout.splitlines()]
    assert found == ["review.upserted", "dead letter", "review.upserted"]


def test_labels_of_a_sentence_stop_no_bridge(site: Pipeline) -> None:
    source = SOURCE.format(site.name)
    site.broker.create_topic(source, 1)
    sentence = {**json.loads(review(1).value or b"")["sentences"][0], "labels": ["price"]}
    labelled = json.dumps({"review_id": "labelled", "sentences": [sentence]}).encode()
    put(site, source, [review(0, OF_ENTITY), RawRecord(b"k", labelled, (OF_ENTITY,))])
    bridge(site, source)
    wait_bridged(site, source, 2)
    assert letters(site, f"{source}.dlq") == []
    event = json.loads(read_topic(site.broker.bootstrap_servers, site.input_topic)[1].value or b"")
    assert event["sentences"] == [sentence]
    site.start(1)
    site.wait_caught_up()
    assert reviews_of(site) == 2


@pytest.mark.parametrize("command", one_of(["run", "bridge"]))
def test_a_fault_makes_few_dead_letters_and_then_ends_the_process(
    site: Pipeline, command: str
) -> None:
    """What is read until then is committed, each record once. Without the fault the next start
    reads the others, and `dlq send` sends those that became dead letters.
    """
    servers, is_bridge = site.broker.bootstrap_servers, command == "bridge"
    source = SOURCE.format(site.name)
    group = f"{site.name}-bridge-{source}" if is_bridge else site.name
    environment = {**site.environment, "COVERSUMM_MAPPING": str(mapped(site, source))}
    environment["COVERSUMM_INPUT_TOPIC"] = source
    environment["COVERSUMM_DLQ_TOPIC"] = f"{source}.dlq"

    def started(launcher: str | None) -> WorkerProcess:
        if is_bridge:
            return bridge(site, source, launcher)
        site.workers.append(
            WorkerProcess(site.directory / f"{launcher}", environment, launcher=launcher)
        )
        return site.workers[-1].start()

    def odd(number: int) -> RawRecord:
        value = json.loads(review(number).value or b"") | {"review_id": f"odd-{number}"}
        return RawRecord(b"k", json.dumps(value).encode(), (OF_ENTITY,))

    def committed() -> int:
        return committed_offsets(servers, source, group)[0]

    def wait_committed(end: int) -> None:
        eventually(lambda: committed() >= end, site.logs, every_s=0.3)

    site.broker.create_topic(source, 1)
    put(site, source, [review(0, OF_ENTITY), odd(1), review(2, OF_ENTITY)])
    process = started(faulty.__name__)
    wait_committed(3)
    ((letter, headers),) = letters(site, f"{source}.dlq")
    assert (letter.value, headers["dlq.reason"]) == (odd(1).value, "internal_error")
    assert headers["dlq.detail"].startswith("LookupError at worker/mapping/topic.py:")
    counted = 'coversumm_dead_letters_total{reason="internal_error"}'
    eventually(lambda: process.metrics()[counted] == 1, site.logs)
    last = 5 + MOST_IN_A_ROW
    put(site, source, [odd(number) for number in range(3, 63)])
    wait_committed(63)  # in a row across batches
    put(site, source, [odd(number) for number in range(63, last)])
    put(site, source, [review(last, OF_ENTITY)])
    assert process.wait() == 3
    assert (
        "100 records in a row are internal errors, the last one a LookupError" in process.log_text()
    )
    places = [int(found["dlq.source.offset"]) for _, found in letters(site, f"{source}.dlq")]
    assert places == [1, *range(3, committed())]
    assert committed() < 3 + MOST_IN_A_ROW
    rest = last + 1 - committed()
    process = started(None)
    wait_committed(last + 1)
    assert len(letters(site, f"{source}.dlq")) == len(places)
    done = run_command("dlq", "send", "--yes", environment=environment)
    assert done.returncode == 0, done.stderr
    wait_committed(last + 1 + len(places))
    applied = 'coversumm_events_total{outcome="applied",type="review.upserted"}'
    eventually(lambda: process.metrics().get(applied) == rest + len(places), site.logs)
    if is_bridge:
        found = read_topic(servers, site.input_topic)
        ids = [json.loads(message.value or b"")["review_id"] for message in found]
        assert sorted(ids) == sorted(
            [f"odd-{number}" for number in (1, *range(3, last))]
            + [f"good-{number}" for number in (0, 2, last)]
        )


def test_headers_that_do_not_fit_are_dropped_and_sent_again(site: Pipeline) -> None:
    large = (b"large", b"x" * 1_010_000)
    bad = RawRecord(b"k", b"no json", (OF_ENTITY, large))
    put(site, site.input_topic, [review(0, OF_ENTITY)])
    put(site, site.input_topic, [bad])
    worker = site.worker(mapping=str(mapped(site, site.input_topic))).start()
    worker.wait_ready()
    site.wait_caught_up()
    ((letter, headers),) = letters(site)
    assert (letter.key, letter.value, headers["entity"]) == (b"k", b"no json", ENTITY)
    assert (headers["dlq.dropped_headers"], headers["dlq.reason"]) == ("1", "bad_json")
    done = run_command("dlq", "send", "--yes", environment=worker.environment)
    assert done.returncode == 0, done.stderr
    site.wait_caught_up()
    site.stop()
    again = read_topic(site.broker.bootstrap_servers, site.input_topic)[-1]
    assert (again.value, dict(again.headers)["large"]) == (bad.value, large[1])
    assert [found["dlq.source.offset"] for _, found in letters(site)] == ["1", str(again.offset)]


@pytest.mark.parametrize("command", one_of(["run", "bridge"]))
def test_a_letter_that_fails_again_counts_its_attempts(site: Pipeline, command: str) -> None:
    """Also where the worker or the bridge reads no other header."""
    source = SOURCE.format(site.name)
    site.broker.create_topic(source, 1)
    file = written(site.directory, deletions(source))
    environment = site.environment | {
        "COVERSUMM_INPUT_TOPIC": source,
        "COVERSUMM_DLQ_TOPIC": f"{source}.dlq",
    }
    arguments = ("bridge", "--mapping", str(file), "--from", source)
    process = WorkerProcess(
        site.directory / command,
        site.environment if command == "bridge" else environment,
        arguments=arguments if command == "bridge" else ("run",),
    )
    site.workers.append(process.start())
    process.wait_ready()
    put(site, source, [RawRecord(b"k", b"no json", (STRANGE,))])
    attempts: list[str | None] = [None]

    def are_there() -> bool:
        found = letters(site, f"{source}.dlq")
        return [headers.get("dlq.attempts") for _, headers in found] == attempts

    for sent in (1, 1, 0):
        eventually(are_there, site.logs, every_s=0.3)
        send = ("dlq", "send", "--yes", "--max-attempts", "2", "--json")
        done = run_command(*send, environment=environment)
        assert json.loads(done.stdout)["sent"] == sent, done.stderr
        attempts += [str(len(attempts))] * sent
    listed = run_command("dlq", "list", environment=environment).stdout.splitlines()
    assert [json.loads(line)["attempts"] for line in listed] == [0, 1, 2]


def test_headers_that_do_not_fit_stop_no_bridge(site: Pipeline) -> None:
    source = SOURCE.format(site.name)
    site.broker.create_topic(source, 1)
    put(site, source, [RawRecord(b"k", b"no json", (OF_ENTITY, (b"large", b"x" * 1_010_000)))])
    bridge(site, source)
    wait_bridged(site, source, 1)
    ((letter, headers),) = letters(site, f"{source}.dlq")
    assert (letter.value, headers["dlq.dropped_headers"]) == (b"no json", "1")


def skip(site: Pipeline, *arguments: str) -> tuple[int, str]:
    """Run `skip` with a reason; its exit code and its error."""
    command = ("skip", *arguments, "--reason", "ends the worker")
    done = run_command(*command, environment=site.environment)
    return done.returncode, done.stderr


@pytest.mark.long
def test_a_skipped_record_is_a_dead_letter_and_the_worker_goes_on(site: Pipeline) -> None:
    """The first record of a group, two in a row, and one after committed ones; not while a worker
    runs, and only the next record.
    """
    put(site, site.input_topic, [review(number) for number in range(4)])
    code, error = skip(site, "0:0")
    assert (code, f"there is no topic {site.dlq_topic}" in error) == (2, True)
    assert run_command("topics", environment=site.environment).returncode == 0
    assert [skip(site, "0:0"), skip(site, "0:1")] == [(0, ""), (0, "")]
    site.start(1)
    site.wait_caught_up()
    code, error = skip(site, "0:4")
    assert (code, "has running workers" in error) == (2, True)
    site.stop()
    assert reviews_of(site) == 2
    put(site, site.input_topic, [review(4), review(5)])
    for place, words in (
        ("0:3", "the next record of the group is at 0:4, not at 0:3"),
        ("0:5", "the next record of the group is at 0:4, not at 0:5"),
        ("0:6", "has no record at 0:6"),
    ):
        code, error = skip(site, place)
        assert (code, words in error) == (2, True), error
    assert skip(site, "0:4")[0] == 0
    for _ in range(2):  # also without local state
        site.workers[0].start()
        site.wait_caught_up()
        site.stop()
        site.workers[0].wipe()
    assert reviews_of(site) == 3
    found = letters(site)
    assert [headers["dlq.source.offset"] for _, headers in found] == ["0", "1", "4"]
    assert [letter.value for letter, _ in found] == [review(number).value for number in (0, 1, 4)]
    assert {(headers["dlq.reason"], headers["dlq.detail"]) for _, headers in found} == {
        ("skipped", "ends the worker")
    }


def test_a_bridge_goes_on_after_a_skipped_record(site: Pipeline) -> None:
    source = SOURCE.format(site.name)
    site.broker.create_topic(source, 1)
    put(site, source, [review(0, OF_ENTITY)])
    process = bridge(site, source)
    wait_bridged(site, source, 1)
    process.terminate()
    put(site, source, [review(1, OF_ENTITY), review(2, OF_ENTITY)])
    assert skip(site, "0:1", "--from", source)[0] == 0
    process.start()
    wait_bridged(site, source, 3)
    bridged = read_topic(site.broker.bootstrap_servers, site.input_topic)
    ids = [json.loads(message.value or b"")["review_id"] for message in bridged]
    assert ids == ["good-0", "good-2"]
    ((letter, headers),) = letters(site, f"{source}.dlq")
    assert (letter.value, headers["dlq.reason"]) == (review(1).value, "skipped")


def test_a_record_is_not_skipped_under_a_worker_that_joins(
    site: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker may have the record already."""
    servers, look = site.broker.bootstrap_servers, command._next_record
    put(site, site.input_topic, [review(0)])
    assert run_command("topics", environment=site.environment).returncode == 0
    member = Consumer({"bootstrap.servers": servers, "group.id": site.name})

    def found_and_joined(*given: Any) -> Record:
        member.subscribe([site.input_topic])
        eventually(lambda: member.poll(0.1) is None and member.assignment(), "does not join")
        return look(*given)

    monkeypatch.setattr(command, "_next_record", found_and_joined)
    settings = Settings.from_environment(site.environment)
    try:
        with pytest.raises(SetupError, match="has running workers"):
            command.skip(settings, Place(0, 0), "why")
    finally:
        member.close()
    assert (letters(site), committed_offsets(servers, site.input_topic, site.name)[0]) == (
        [],
        -1001,
    )


BOMB = RawRecord(b"k", bytes(120 * 2**20))
"""More than librdkafka takes of zstd."""


def test_a_batch_that_decompresses_to_too_much_stops_no_worker(site: Pipeline) -> None:
    put(site, site.input_topic, [review(0)])
    put(site, site.input_topic, [review(1), review(2), BOMB], "zstd")
    put(site, site.input_topic, [review(3)], "zstd")
    site.start(1)
    servers, topic = site.broker.bootstrap_servers, site.input_topic
    eventually(lambda: committed_offsets(servers, topic, site.name)[0] >= 5, site.logs)
    status = Path(f"/proc/{site.workers[0].pid}/status").read_text()
    held_kib = int(status.split("VmHWM:")[1].split()[0])
    site.stop()
    assert reviews_of(site) == 2
    ((letter, headers),) = letters(site)
    assert (letter.key, letter.value, headers["dlq.source.offset"]) == (None, None, "3")
    assert headers["dlq.detail"].startswith("offsets 1 to 3 are a batch of ")
    assert (headers["dlq.reason"], headers["dlq.missing"]) == (
        "too_large",
        "key, value and headers",
    )
    done = run_command("dlq", "send", "--yes", environment=site.environment)
    assert (done.returncode, "it lacks key, value and headers" in done.stderr) == (1, True)
    assert held_kib < 500_000


def test_a_batch_that_decompresses_to_too_much_stops_no_bridge(site: Pipeline) -> None:
    source = SOURCE.format(site.name)
    site.broker.create_topic(source, 1)
    put(site, source, [review(0, OF_ENTITY)])
    put(site, source, [review(number, OF_ENTITY) for number in range(1, 6)] + [BOMB], "zstd")
    put(site, source, [review(6, OF_ENTITY), review(7, OF_ENTITY)])
    put(site, source, [BOMB], "zstd")
    bridge(site, source)
    wait_bridged(site, source, 10)
    found = [headers for _, headers in letters(site, f"{source}.dlq")]
    assert [letter["dlq.source.offset"] for letter in found] == ["6", "9"]
    assert found[0]["dlq.detail"].startswith("offsets 1 to 6 are a batch that cannot be")
    assert len(read_topic(site.broker.bootstrap_servers, site.input_topic)) == 3
    checked = run_command(
        *("mapping", "check", str(mapped(site, source)), "--from-topic", "--json"),
        environment=site.environment,
    )
    outcomes = [json.loads(line)["becomes"] for line in checked.stdout.splitlines()]
    upserted = "review.upserted"
    assert outcomes == [upserted, "dead letter", upserted, upserted, "dead letter"]
