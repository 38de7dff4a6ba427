"""`mapping check`: every error at its line, and what becomes of samples."""

import json
from pathlib import Path

import pytest

from tests.harness.debezium import MAPPING, TOPIC, change, deletions, key, row, written
from tests.harness.topics import read_topic
from worker.cli.group import execute
from worker.kafka.clients import KafkaClients
from worker.kafka.topics import partition_of
from worker.settings import Settings


def lines(captured):
    return [json.loads(line) for line in captured.out.splitlines()]


@pytest.fixture
def file(tmp_path):
    return str(written(tmp_path))


def test_a_file_without_errors(file, capsys):
    assert execute(["mapping", "check", file]) == 0
    assert capsys.readouterr().err == f"{file}: 4 rules of 1 topic, no error\n"


def test_a_topic_whose_null_values_are_dead_letters_is_named(tmp_path, capsys):
    assert execute(["mapping", "check", str(written(tmp_path, deletions("shop")))]) == 0
    (_, note) = capsys.readouterr().err.splitlines()
    assert note == "shop: a null value is a dead letter: if it has a meaning, set tombstone"


def test_every_error_has_a_line_of_its_own(tmp_path, capsys):
    wrong = MAPPING.replace("after.title", "after title").replace('"ignore"', '"ignored"')
    file = written(tmp_path, wrong)
    assert execute(["mapping", "check", str(file)]) == 2
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith(f"coversumm-worker: error: {file}:13: {TOPIC}: rule 1: text: 'after t")
    assert second.startswith(f"coversumm-worker: error: {file}:28: {TOPIC}: rule 3: emit: 'ignore")


def test_samples_of_a_file(file, tmp_path, capsys):
    review = row(5, 3)
    samples = [
        {"key": key(review).decode(), "value": change("c", review, 1).decode()},
        {
            "topic": TOPIC,
            "partition": 0,
            "offset": 3,
            "key": json.loads(key(review)),
            "payload": None,
        },
        {"key": None, "value": {"op": "c", "after": {"status": "published", "body": "Good."}}},
        {"op": "x"},
    ]
    path = tmp_path / "samples.jsonl"
    path.write_text("\n".join(["", *map(json.dumps, samples), "no json"]))
    arguments = ["mapping", "check", file, "--sample", str(path)]
    assert execute([*arguments, "--json"]) == 1
    captured = capsys.readouterr()
    found = lines(captured)
    assert [
        (found_event["place"], found_event["rule"], found_event["becomes"]) for found_event in found
    ] == [
        ("line 2", "rule 'published'", "review.upserted"),
        ("line 3", "tombstone", "ignored"),
        ("line 4", "rule 'published'", "dead letter"),
        ("line 5", None, "dead letter"),
        ("line 6", None, "dead letter"),
    ]
    assert found[0]["event"]["entity_id"] == "3"
    assert found[2]["detail"].startswith("bad_field: rule 'published': entity_id: nothing at")
    assert f"warning: {TOPIC}: rule 'draft' took none of these records" in captured.err
    assert captured.err.splitlines()[-1].startswith("5 records, dead letter 3")
    assert execute([*arguments, "--limit", "1", "--json"]) == 0
    assert len(lines(capsys.readouterr())) == 1


def test_a_field_that_no_event_has_is_named(tmp_path, capsys):
    file = written(tmp_path, MAPPING.replace("after.stars", "after.starz"))
    path = tmp_path / "samples.jsonl"
    path.write_text(change("c", row(5, 3), 1, schemas=False).decode())
    assert execute(["mapping", "check", str(file), "--sample", str(path)]) == 0
    warnings = capsys.readouterr().err
    assert f"{TOPIC}: rule 'published' found no rating in any of these records" in warnings
    path.write_text('{"op": "c", "after": {"status": "published", "body": "Good."}}')
    assert execute(["mapping", "check", str(file), "--sample", str(path)]) == 1
    assert "found no" not in capsys.readouterr().err  # it made no event


def test_warnings_of_samples(tmp_path, capsys):
    text = MAPPING.replace('"after.title"', '"after.titel"').replace('epoch = "us"', 'epoch = "ns"')
    file, sample = written(tmp_path, text), tmp_path / "samples.jsonl"
    values = [change("c", row(number, product), number, schemas=False).decode()
              for number, product in ((5, 3), (6, 0), (7, 0))]  # fmt: skip
    values[2] = values[2].replace("Good", r"Good\\n")
    sample.write_text("\n".join(values))
    assert execute(["mapping", "check", str(file), "--sample", str(sample)]) == 0
    rule = f"warning: {TOPIC}: rule 'published'"
    warnings = [line for line in capsys.readouterr().err.splitlines() if line.startswith(rule)]
    assert [warning.removeprefix(rule) for warning in warnings] == [
        " found nothing at after.titel in any of these records",
        ": occurred_at is 1970-01-21T09:54:00Z: is the unit of its epoch right? (line 1)",
        ": entity_id is 0: does the source fill it in where it knows none? (line 2)",
        ": text has a backslash and an n: if they are a line break, set unescape = true (line 3)",
    ]


def test_a_record_of_kcat_has_its_offset_and_time(tmp_path, capsys):
    text = """
[topic.t]
[[topic.t.rule]]
emit = "review.upserted"
entity_id = "key"
review_id = "id"
text = "text"
review_version = { record = "offset" }
occurred_at = { record = "timestamp" }
"""
    file, sample = written(tmp_path, text), tmp_path / "samples.jsonl"
    line = {"topic": "t", "offset": 77, "ts": 1763640000000, "key": '{"p": 1}', "payload": "{}"}
    value = json.dumps({"id": 1, "text": "Good."})
    sample.write_text(
        "\n".join(json.dumps({**line, "payload": value, **more}) for more in ({}, {"ts": {}}))
    )
    assert execute(["mapping", "check", str(file), "--sample", str(sample), "--json"]) == 0
    captured = capsys.readouterr()
    first, second = (line["event"] for line in lines(captured))
    assert (first["review_version"], first["occurred_at"]) == (77, "2025-11-20T12:00:00Z")
    assert "occurred_at" not in second
    assert (
        """entity_id is '{"p": 1}', which looks like JSON: set key = "json"? (line 1)"""
        in captured.err
    )


@pytest.mark.parametrize("path", ["before.product_id", "key.product_id"])
def test_a_deletion_in_an_entity_without_an_upsert(path, tmp_path, capsys):
    """With PostgreSQL's default REPLICA IDENTITY, Debezium fills the product of deleted rows, in
    the key too.
    """
    mapping = MAPPING.replace("before.product_id", path).replace('"draft"', '"d"')
    file, sample = written(tmp_path, mapping), tmp_path / "samples.jsonl"
    first, second = row(5, 3), row(6, 4)

    def warnings(*records):
        sample.write_text("".join(json.dumps(row) + "\n" for row in records))
        assert execute(["mapping", "check", str(file), "--sample", str(sample)]) == 0
        return [line for line in capsys.readouterr().err.splitlines() if "no upsert" in line]

    def record(op, of, lsn):
        return {"key": key(of).decode(), "value": change(op, of, lsn).decode()}

    upserts = [record("c", first, 1), record("c", second, 2)]
    right = [record("d", first, 3), record("d", second, 4)]
    assert warnings(*upserts, *right) == []
    assert warnings(*right, *upserts) == [], "the partitions of a topic have no order"
    wrong = [record("d", {**row, "product_id": 0}, 5) for row in (first, second)]
    (warning,) = warnings(*upserts, *right, *wrong)
    assert warning.startswith(
        f"warning: {TOPIC}: rule 'gone' deletes in entity '0' (line 5), of which these records "
        "have no upsert"
    )
    assert "REPLICA IDENTITY FULL or USING INDEX" in warning
    (warning,) = warnings(*wrong, *right)
    assert "in entity '0' (line 1) and 2 more, of which" in warning


def test_a_tombstone_of_an_entity_without_an_upsert(tmp_path, capsys):
    text = deletions("products").replace('"product"', '"key"')
    file, sample = written(tmp_path, text), tmp_path / "samples.jsonl"
    sample.write_text('{"key": "B00X", "value": null}')
    assert execute(["mapping", "check", str(file), "--sample", str(sample)]) == 0
    assert "warning: products: tombstone deletes in entity 'B00X'" in capsys.readouterr().err


def test_a_sample_of_no_topic_needs_one(tmp_path, capsys):
    file = written(tmp_path, MAPPING + MAPPING.replace(TOPIC, "other"))
    path = tmp_path / "samples.jsonl"
    path.write_text(change("c", row(5, 3), 1).decode())
    arguments = ["mapping", "check", str(file), "--sample", str(path)]
    assert execute(arguments) == 2
    assert "name one with --topic" in capsys.readouterr().err
    assert execute([*arguments, "--topic", "other"]) == 0
    assert execute([*arguments, "--topic", "nope"]) == 2
    assert execute([*arguments, "--from-topic"]) == 2


def test_samples_of_a_topic_and_their_partitions(file, embedded_broker, capsys, monkeypatch):
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", embedded_broker.bootstrap_servers)
    embedded_broker.create_topic(TOPIC, 2)
    producer = KafkaClients(Settings.from_environment()).producer({})
    review = row(5, 3)
    assert execute(["mapping", "check", file, "--from-topic"]) == 1
    assert f"no record was checked: {TOPIC} has none" in capsys.readouterr().err
    for partition in (0, 1):
        for number in range(3):
            producer.produce(TOPIC, change("c", review, number), key(review), partition)
    producer.flush(30)
    right = partition_of("3", 2)
    assert execute(["mapping", "check", file, "--from-topic", "--limit", "4", "--json"]) == 1
    found = lines(capsys.readouterr())
    assert [sample["place"] for sample in found] == ["0:1", "0:2", "1:1", "1:2"]
    for review in found:
        is_right = review["place"].startswith(f"{right}:")
        assert review["becomes"] == ("review.upserted" if is_right else "dead letter")
        assert is_right or "coversumm-worker bridge" in review["detail"]
    assert execute(["mapping", "check", file, "--from-topic", "--for-bridge", "--json"]) == 0
    assert {line["becomes"] for line in lines(capsys.readouterr())} == {"review.upserted"}


def test_summarize_says_that_files_are_not_mapped(file, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COVERSUMM_MAPPING", file)
    path = tmp_path / "reviews.jsonl"
    path.write_text("")
    assert execute(["summarize", str(path), "-o", str(tmp_path / "out")]) == 0
    assert "COVERSUMM_MAPPING is for topics" in capsys.readouterr().err


FUNCTION = """
def events(record):
    if record.value is None:
        yield {"type": "entity.deleted", "entity_id": record.key}
        return
    for number, text in enumerate(record.value["texts"]):
        yield {"type": "review.upserted", "entity_id": record.value["sku"],
            "review_id": f"{record.value['id']}-{number}", "rating": "n/a",
            "sentences": [{"text": text, "embedding": (1.5, 2.0, len(text))}]}
"""
LINES = (
    {"sku": 7, "id": 1, "texts": ["The room was clean.", "It was quiet."]},
    {"key": "8", "value": {"sku": 8, "id": 2, "texts": ["Good food."]}, "topic": "t", "offset": 3},
    {"key": "8", "value": None},
)


@pytest.fixture
def lines_file(tmp_path):
    path = tmp_path / "records.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in LINES))
    return str(path)


@pytest.fixture
def function(tmp_path):
    path = tmp_path / "shop.py"
    path.write_text(FUNCTION)
    return str(path)


def test_a_function_maps_samples_of_any_topic(function, lines_file, capsys):
    assert execute(["mapping", "check", function]) == 0
    assert "shop.py: 1 rule of 1 topic, no error" in capsys.readouterr().err
    assert execute(["mapping", "check", function, "--sample", lines_file, "--json"]) == 0
    captured = capsys.readouterr()
    assert [(line["topic"], line["becomes"], line["rule"]) for line in lines(captured)] == [
        *[("marketplace.reviews.v1", "review.upserted", "shop.py")] * 2,
        ("t", "review.upserted", "shop.py"),
        ("marketplace.reviews.v1", "entity.deleted", "shop.py"),
    ]
    assert "shop.py left rating out of 2 events" in captured.err
    Path(function).write_text("def events():\n    pass\n")
    assert execute(["mapping", "check", function]) == 2
    assert f"{function}:1: events takes one argument" in capsys.readouterr().err


def test_summarize_maps_lines(function, lines_file, tmp_path, capsys):
    out = tmp_path / "out.jsonl"
    arguments = ["summarize", lines_file, "--mapping", function]
    assert execute([*arguments, "--final", "-o", str(out)]) == 0
    captured = capsys.readouterr()
    change = json.loads(out.read_text())
    texts = {sentence["text"] for sentence in change["sentences"]}
    assert (change["entity_id"], texts) == ("7", {"The room was clean.", "It was quiet."})
    assert "warning: rating was left out of 3 events" in captured.err
    assert execute([*arguments, "--fields", "text=a"]) == 2
    assert "--mapping and --fields exclude each other" in capsys.readouterr().err
    table = tmp_path / "a.csv"
    table.write_text("sku,id\n1,2\n")
    assert execute(["summarize", str(table), *arguments[2:], "-o", str(out)]) == 2
    assert "is not a file of JSON lines" in capsys.readouterr().err


def test_bad_lines_are_counted_by_their_reasons(function, tmp_path, capsys):
    path = tmp_path / "records.jsonl"
    path.write_text('{"sku": 1, "id": 2}\n' * 12 + '{"sku": 1, "id": 2, "texts": [5]}\n')
    out = str(tmp_path / "out.jsonl")
    assert execute(["summarize", str(path), "--mapping", function, "-o", out]) == 1
    printed = capsys.readouterr().err
    assert "12 times, such as bad_field: shop.py: line 6: KeyError: 'texts' (line 1)" in printed
    assert "13 of 13 lines could not be used: bad_field 13" in printed


def test_lines_of_a_topic_that_the_mapping_lacks(file, tmp_path, capsys):
    path = tmp_path / "records.jsonl"
    path.write_text(json.dumps({"key": "3", "value": {"op": "c"}, "topic": "other"}))
    out = str(tmp_path / "out.jsonl")
    assert execute(["summarize", str(path), "--mapping", file, "-o", out]) == 2
    message = f"line 1: the mapping has no topic other, only {TOPIC}: give the record its `topic`"
    assert message in capsys.readouterr().err


def test_send_writes_the_events_of_lines(
    function, lines_file, tmp_path, embedded_broker, capsys, monkeypatch
):
    servers, topic = embedded_broker.bootstrap_servers, "marketplace.reviews.v1"
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", servers)
    embedded_broker.create_topic(topic, 1)
    assert execute(["send", lines_file, "--mapping", function, "--json"]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["sent"] == 4
    assert "warning: rating was left out of 3 events" in captured.err
    arrived = read_topic(servers, topic)
    assert [message.key for message in arrived] == [b"7", b"7", b"8", b"8"]
    assert json.loads(arrived[0].value) == {
        "type": "review.upserted",
        "entity_id": "7",
        "review_id": "1-0",
        "sentences": [{"text": "The room was clean.", "embedding": [1.5, 2.0, 19.0]}],
    }
    Path(lines_file).write_text('{"sku": 1}\n')
    assert execute(["send", lines_file, "--mapping", function]) == 2
    assert "line 1: bad_field: shop.py: line 6: KeyError: 'texts'" in capsys.readouterr().err


LISTS = """
[topic.t]
[[topic.t.rule]]
when_present = ["lines"]
each = "lines"
emit = "review.upserted"
entity_id = "item.sku"
review_id = "id"
text = "item.review"
rating = "item.stars"
[[topic.t.rule]]
emit = "review.deleted"
entity_id = "sku"
review_id = "id"
"""


def test_a_rule_that_takes_no_member_of_its_lists_is_named(tmp_path, capsys):
    """Its records would be ignored in silence."""
    sample = tmp_path / "samples.jsonl"
    line = {"id": 1, "lines": [{"sku": "A", "review": "Good.", "stars": "n/a"}]}
    sample.write_text(json.dumps(line) + "\n" + json.dumps({**line, "lines": []}) + "\n")
    for path, warned in (("item.revew", True), ("item.review", False)):
        text = LISTS.replace('["lines"]', f'["lines", "{path}"]')
        arguments = ["mapping", "check", str(written(tmp_path, text)), "--sample", str(sample)]
        assert execute(arguments) == 0
        warnings = capsys.readouterr().err
        line = "warning: t: rule 1 took no member of any list: is item.revew misspelt?"
        assert (line in warnings) is warned
        left_out = (
            "rule 1 left rating out of 1 events, such as rating: Expected a number, got 'n/a'"
        )
        assert (left_out in warnings) is not warned


def test_equal_dead_letters_are_counted(tmp_path, capsys):
    sample = tmp_path / "samples.jsonl"
    values = [{"sku": f"B{number}", "id": {"n": number}} for number in range(7)]
    sample.write_text("\n".join(map(json.dumps, [*values, {"sku": "B9"}])))
    arguments = ["mapping", "check", str(written(tmp_path, LISTS)), "--sample", str(sample)]
    assert execute([*arguments, "--limit", "8"]) == 1
    first, limit, *_ = capsys.readouterr().err.splitlines()
    assert first == (
        "7 times, such as bad_field: rule 2: review_id: Expected a text, got dict (line 1)"
    )
    assert limit == "the first 8 records of each topic; --limit reads more"
