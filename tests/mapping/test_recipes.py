"""docs/recipes: each gives these events of its records, the bytes of a mapping in TOML where one
can say the same.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from docs.build.render import ROOT
from tests.docs.test_connect import EXAMPLES
from tests.harness.debezium import MOVED, TOPIC, change, row, steps, written
from tests.harness.limits import event_limits
from worker.cli.group import execute
from worker.events import Record
from worker.mapping import load_mapping
from worker.mapping.contract import ContractWriter
from worker.sources.mapped import record_of

FOLDER = ROOT / "docs" / "recipes"
RECIPES = sorted(path.stem for path in FOLDER.glob("*.py"))
PAGE = {example.name: example for example in EXAMPLES}
TEXT = 'text = { join = ["after.title", "after.body"], with = ". " }\n'
MONGODB = """
[topic.t]
parse = ["before", "after"]
tombstone = "ignore"
[[topic.t.rule]]
when = { "before.product" = { differs = "after.product" } }
[[topic.t.rule.event]]
emit = "review.deleted"
entity_id = "before.product"
review_id = "before._id.$oid"
[[topic.t.rule.event]]
emit = "review.upserted"
entity_id = "after.product"
review_id = "after._id.$oid"
text = "after.body"
FIELDS
[[topic.t.rule]]
when = { op = "d" }
emit = "review.deleted"
entity_id = "before.product"
review_id = "before._id.$oid"
[[topic.t.rule]]
emit = "review.upserted"
entity_id = "after.product"
review_id = "after._id.$oid"
text = "after.body"
FIELDS
""".replace(
    "FIELDS",
    """rating = ["after.stars.$numberDecimal", "after.stars"]
occurred_at = [{ path = "after.at.$date", epoch = "ms" }, "after.at.$date",
    { path = "after.at.$date.$numberLong", epoch = "ms" }]""",
)
NEW = "dynamodb.NewImage"
DYNAMODB = f"""
[topic.t]
[[topic.t.rule]]
when = {{ "dynamodb.OldImage.product.S" = {{ differs = "{NEW}.product.S" }} }}
[[topic.t.rule.event]]
emit = "review.deleted"
entity_id = "dynamodb.OldImage.product.S"
review_id = "dynamodb.OldImage.review.N"
review_version = {{ record = "offset" }}
[[topic.t.rule.event]]
emit = "review.upserted"
FIELDS
[[topic.t.rule]]
when = {{ eventName = "REMOVE" }}
emit = "review.deleted"
entity_id = "dynamodb.OldImage.product.S"
review_id = "dynamodb.OldImage.review.N"
review_version = {{ record = "offset" }}
[[topic.t.rule]]
emit = "review.upserted"
FIELDS
""".replace(
    "FIELDS",
    f"""entity_id = "{NEW}.product.S"
review_id = "{NEW}.review.N"
review_version = {{ record = "offset" }}
text = "{NEW}.body.S"
rating = "{NEW}.stars.N"
verified = "{NEW}.bought.BOOL\"""",
)


def messages(file: Path, topic: str, records: list[Record]) -> list[tuple[bytes, bytes | None]]:
    """Keys and values that a bridge writes by this mapping; a dead letter is none."""
    writer = ContractWriter(
        load_mapping(file, topic)[topic], "events", lambda _: 0, "dlq", 10**6, event_limits()
    )
    found = writer.write(records).messages
    assert {message.topic for message in found} == {"events"}
    return [(message.key, message.value) for message in found]


def samples(recipe: str, topic: str) -> list[Record]:
    lines = (FOLDER / f"{recipe}.jsonl").read_bytes().splitlines()
    mapping = load_mapping(FOLDER / f"{recipe}.py", topic)
    return [record_of(line, number, mapping) for number, line in enumerate(lines)]


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_recipe(recipe: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [str(FOLDER / f"{recipe}.py"), "--sample", str(FOLDER / f"{recipe}.jsonl")]
    assert execute(["mapping", "check", *arguments, "--for-bridge", "--json"]) == 0
    found = [json.loads(line)["event"] for line in capsys.readouterr().out.splitlines()]
    events = (FOLDER / f"{recipe}.events.jsonl").read_text().splitlines()
    assert [json.dumps(event, separators=(",", ":")) for event in found] == events
    page = (FOLDER / "README.md").read_text()
    assert f"[{recipe}.py]({recipe}.py)" in page
    kinds = {event["type"] for event in found if event is not None}
    assert kinds == {"review.upserted", "review.deleted"}


@pytest.mark.parametrize("moves", [False, True])
def test_a_table_of_debezium_gives_the_bytes_of_the_toml_form(
    tmp_path: Path, *, moves: bool
) -> None:
    history = steps(400, 5, 4, seed=3, moves=moves)
    records = [Record(TOPIC, 0, at, 0, step.key, step.value) for at, step in enumerate(history)]
    titles = ("Quiet", "Quiet!", "Quiet. ", " ", "", None, "Is it?", "é", "静か。")
    for at, title in enumerate(titles):
        value = change("c", row(9, 3, title=title, body=None if at == 0 else "Clean."), at)
        records.append(Record(TOPIC, 0, at, 0, None, value))
    head, rest = PAGE["Debezium"].mapping.split("[[", 1)
    file = written(tmp_path, f"{head}{MOVED}{TEXT}[[{rest}" if moves else f"{head}[[{rest}")
    found = messages(file, TOPIC, records)
    assert len(found) > 300
    assert found == messages(FOLDER / "debezium.py", TOPIC, records)


@pytest.mark.parametrize(
    ("recipe", "text", "topic"),
    [
        ("cloudevents", PAGE["CloudEvents"].mapping, "shop.events"),
        ("mongodb", MONGODB, "t"),
        ("dynamodb", DYNAMODB, "t"),
    ],
)
def test_a_recipe_gives_the_bytes_of_the_toml_form(
    tmp_path: Path, recipe: str, text: str, topic: str
) -> None:
    records = samples(recipe, topic)
    found = messages(written(tmp_path, text), topic, records)
    assert found == messages(FOLDER / f"{recipe}.py", topic, records)


@pytest.mark.parametrize(
    ("recipe", "value", "detail"),
    [
        ("debezium", {"op": "t", "source": {"lsn": 1}}, "op 't' is not a change of a row"),
        ("canal", {"type": "ALTER", "table": "reviews", "data": []}, "is not a change of rows"),
        ("cloudevents", {"specversion": "1.0", "type": "odd"}, "type 'odd' is unknown"),
        ("salesforce", {"ChangeEventHeader": {"entityName": "Review__c",
            "changeType": "GAP_UPDATE"}}, "GAP_UPDATE: changes are missing"),
        ("salesforce", {"Product__c": "p", "ChangeEventHeader": {"entityName": "Review__c",
            "changeType": "UPDATE", "recordIds": ["r"], "commitNumber": 1, "sequenceNumber": 1,
            "commitTimestamp": 1}}, "no Body__c: enrich the channel with it"),
        ("sqs", {"Records": [{"messageId": "m", "attributes": {"SentTimestamp": "1"},
            "body": '{"sku": "s", "id": 1, "action": "x"}'}]}, "action 'x' of message m"),
        ("shopify", {"id": "gid://shopify/Metaobject/1"}, "entity_id: nothing at entity_id"),
    ],
)  # fmt: skip
def test_what_a_recipe_does_not_know_is_a_dead_letter(
    recipe: str, value: object, detail: str
) -> None:
    file = FOLDER / f"{recipe}.py"
    rules = load_mapping(file, "t")["t"]
    writer = ContractWriter(rules, "events", lambda _: 0, "dlq", 10**6, event_limits())
    (letter,) = writer.write([Record("t", 0, 0, 0, None, json.dumps(value).encode())]).messages
    assert detail in dict(letter.headers)["dlq.detail"].decode()
