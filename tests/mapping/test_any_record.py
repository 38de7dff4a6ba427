"""A mapping gives one result for any record under any rules, and never raises."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from math import inf
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.events.examples import decode
from tests.harness.debezium import MAPPING, TOPIC, mapping
from tests.harness.limits import event_limits
from worker.errors import FileErrors
from worker.events import Ignored, Record, Rejected
from worker.events.inputs import SentenceBody
from worker.mapping import TopicMapping, load_mapping
from worker.mapping.contract import ContractWriter
from worker.mapping.paths import UNAVAILABLE
from worker.mapping.rules import BODIES
from worker.operations.mapping_check import MappingCheck

LIMITS = event_limits()
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=6)
    | st.sampled_from(["published", "2026-11-20T12:00:00Z", "03/04/2019", "42", "4.5"])
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=6,
)
COLUMNS = ("id", "product_id", "title", "body", "stars", "status", "updated_at")
ROWS = st.none() | st.dictionaries(st.sampled_from(COLUMNS), VALUES)
CHANGES = st.fixed_dictionaries(
    {"op": st.sampled_from([*"curdt", None])},
    optional={"before": ROWS, "after": ROWS, "source": st.dictionaries(st.just("lsn"), VALUES)},
)
PAYLOADS = CHANGES | CHANGES.map(lambda body: {"payload": body}) | VALUES
RAW = st.none() | st.binary(max_size=12) | PAYLOADS.map(lambda body: json.dumps(body).encode())
CLOUD = """
[topic.t]
key = "framed"
tombstone = { entity_id = "header:entity" }
[[topic.t.rule]]
when_present = ["ce.subject"]
emit = "review.upserted"
entity_id = ["ce.subject", "key.1"]
review_id = { join = ["after.id", "header:entity", { const = 5 }] }
review_version = ["ce.version", "source.lsn"]
text = ["after.title", { join = ["after.body", "status"], with = "" }]
sentences = "after.stars"
occurred_at = ["ce.time", { path = "after.updated_at", epoch = "ns" }]
[[topic.t.rule]]
emit = "sentences.deleted"
entity_id = "key"
sentence_ids = "after.title"
"""
HEADERS = st.lists(
    st.tuples(
        st.sampled_from(["ce_specversion", "ce_subject", "ce_time", "entity", "content-type"]),
        st.none() | st.binary(max_size=6) | st.just(b"application/cloudevents+json"),
    ),
    max_size=4,
).map(tuple)


@given(RAW | RAW.map(lambda raw: raw and b"\0\0\0\0\1" + raw), RAW, HEADERS)
@settings(deadline=None, max_examples=400)
def test_a_record_has_one_result(
    tmp_path_factory: Any, key: bytes | None, value: bytes | None, headers: Any
) -> None:
    folder = tmp_path_factory.getbasetemp()
    for text, topic in ((MAPPING, TOPIC), (CLOUD, "t")):
        rules = mapping(folder, text, topic)
        record = Record(topic, 0, 0, 0, key, value, headers)
        (found,) = decode([record], LIMITS, mapping=rules)
        assert decode([record], LIMITS, mapping=rules) == [found]
        if isinstance(found, Rejected):
            assert found.detail.isprintable()
            rule = rules.rule_of(record)
            assert rule is None or found.detail.startswith(f"{rule.name}: ")
        elif isinstance(found, Ignored):
            assert found is Ignored.BY_MAPPING
        else:
            assert found.entity_id


ABSENT = object()
DATE = "2026-11-20T12:00:00Z"
LABELLED = [{"text": "Good.", "labels": ["a"]}]
KINDS = [ABSENT, None, True, 4, "a", DATE, "AQ==", ["a"], {"a": 1}, LABELLED]
"""Values for pairs of members: of every kind, and one at least that each member takes."""
ODD = [
    *(
        -1,
        2**63,
        10**40,
        2.5,
        -1.5,
        1e300,
        "",
        " ",
        "x" * 1025,
        "\ud83d",
        "42",
        "03/04/2019",
        UNAVAILABLE,
        [],
        {},
    ),
    *([None], [["a"]], [1.5], [UNAVAILABLE], "2026-02-30T00:00:00Z", {"scale": 1, "value": "AQ=="}),
    *({"scale": 10**40, "value": "AQ=="}, {"scale": [], "value": 1}, [{"labels": 1}]),
]
NEEDED = {"entity_id": "E", "review_id": "r", "sentence_ids": ["r#0"], "text": "Good."}
OPTIONS = """
[topic.t]
key = "json"
unwrap = "payload"
[[topic.t.rule]]
emit = "review.upserted"
entity_id = "entity_id"
review_id = ["key.rating", "review_id"]
review_version = { path = "review_version", epoch = "ms", add = 5 }
text = { path = "text", unescape = true }
rating = { path = "rating", decimal = "schema", scale = [0, 10] }
occurred_at = { path = "occurred_at", epoch = "ns" }
author_id = { path = "author_id", decimal = 2 }
country = { join = ["country", "rating"] }
"""


def fields(kind: type[msgspec.Struct]) -> list[str]:
    return [field.encode_name for field in msgspec.structs.fields(kind)]


def changed(names: Sequence[str], given: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The given members with each one of these names changed, alone and in pairs."""
    found = [{name: value} for name in names for value in KINDS + ODD]
    for first, other in combinations(names, 2):
        found += [{first: value, other: another} for value in KINDS for another in KINDS]
    for change in found:
        yield {name: member for name, member in (given | change).items() if member is not ABSENT}


def check_is_judged(rules: TopicMapping, record: Record) -> None:
    """A worker, a bridge and `mapping check` have a result of the record, none by an exception."""
    writer = ContractWriter(rules, "events", lambda _: 0, "dlq", 10**6, LIMITS)
    (found,) = decode([record], LIMITS, mapping=rules)
    ((message, *more), _, in_a_row) = writer.write([record])
    (judged,) = MappingCheck({"t": rules}, LIMITS).judge("line 1", record)
    decode([record._replace(key=b"E")], LIMITS)  # as the contract's
    assert (more, in_a_row) == ([], 0)
    assert "internal_error" not in str(judged.detail)
    if isinstance(found, Rejected):
        assert judged.detail == f"{found.reason}: {found.detail}"
        return
    event = {name: value for name, value in json.loads(message.value).items() if value is not None}
    assert (message.topic, judged.event) == ("events", event)
    (again,) = decode([Record("events", 0, 0, 0, message.key, message.value)], LIMITS)
    assert repr(again) == repr(found)


@pytest.mark.parametrize("kind", BODIES)
def test_no_member_of_an_event_is_an_internal_error(kind: str, tmp_path: Path) -> None:
    names = fields(BODIES[kind])
    given = {name: value for name, value in NEEDED.items() if name in names}
    rule = "".join(f'{name} = "{name}"\n' for name in names)
    rules = mapping(tmp_path, f'[topic.t]\n[[topic.t.rule]]\nemit = "{kind}"\n{rule}', "t")
    for members in changed(names, given):
        value = json.dumps({"type": kind, **members}).encode()
        check_is_judged(rules, Record("t", 0, 0, 0, None, value))
    for item in changed(fields(SentenceBody), {"text": "Good."}) if "sentences" in names else ():
        value = json.dumps({"type": kind, **given, "sentences": ["Bad.", item]}).encode()
        check_is_judged(rules, Record("t", 0, 0, 0, None, value))


def test_no_option_of_a_mapping_makes_an_internal_error(tmp_path: Path) -> None:
    rules = mapping(tmp_path, OPTIONS, "t")
    for members in changed([*fields(BODIES["review.upserted"])], NEEDED):
        check_is_judged(rules, Record("t", 0, 0, 0, b"{}", json.dumps(members).encode()))
    for value in KINDS[1:] + ODD:
        of_field = {"field": "rating", "parameters": {"scale": value}}
        for schema in (value, {"fields": value}, {"fields": [of_field | {"parameters": value}]},
                       {"fields": [of_field]}):  # fmt: skip
            row = {"schema": schema, "payload": {**NEEDED, "rating": "AQ=="}}
            record = Record("t", 0, 0, 0, json.dumps(row).encode(), json.dumps(row).encode())
            check_is_judged(rules, record)
    infinite = rules.unframing(lambda _: {**NEEDED, "author_id": {"scale": inf, "value": b"1"}})
    check_is_judged(replace(infinite, value="framed"), Record("t", 0, 0, 0, b"{}", b"\0\0\0\0\1"))


TOML_VALUES = st.recursive(
    st.booleans() | st.integers(-5, 5) | st.text("abk.\"'", max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["path", "join", "const", "epoch", "with", "a"]), inner)
    ),
    max_leaves=5,
)


@given(
    st.dictionaries(
        st.sampled_from(["emit", "when", "when_present", "entity_id", "review_id", "text", "name"]),
        TOML_VALUES | st.sampled_from(["review.upserted", "ignore", "key", "ce.x", "header:y"]),
    ),
    st.dictionaries(st.sampled_from(["key", "value", "unwrap", "tombstone"]), TOML_VALUES),
)
@settings(deadline=None, max_examples=400)
def test_a_file_is_read_or_every_error_has_a_line(
    tmp_path_factory: Any, rule: dict[str, Any], head: dict[str, Any]
) -> None:
    file: Path = tmp_path_factory.getbasetemp() / "any.toml"
    lines = [f"{name} = {_toml(value)}" for name, value in head.items()]
    own = [f"{name} = {_toml(value)}" for name, value in rule.items()]
    file.write_text("\n".join(["[topic.t]", *lines, "[[topic.t.rule]]", *own]))
    problems: Sequence[str] = ()
    try:
        rules = load_mapping(file)["t"]
        decode([Record("t", 0, 0, 0, b"k", b'{"a": 1}')], LIMITS, mapping=rules)
    except FileErrors as error:
        problems = error.lines
    assert all(line.startswith(f"{file}:") for line in problems)


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{name} = {_toml(member)}' for name, member in value.items())} }}"
    return f"[{', '.join(map(_toml, value))}]" if isinstance(value, list) else json.dumps(value)
