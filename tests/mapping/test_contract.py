"""The messages that a bridge makes of records."""

from __future__ import annotations

import json
from pathlib import Path

from tests.harness.debezium import TOPIC, change, key, mapping, row, steps
from tests.harness.limits import event_limits
from worker.events import Record, decode
from worker.kafka.topics import partition_of
from worker.mapping.contract import ContractWriter

MAX_BYTES = 10_000
LIMITS = event_limits()


def writer(folder: Path, text: str | None = None, max_bytes: int = MAX_BYTES) -> ContractWriter:
    rules = mapping(folder) if text is None else mapping(folder, text)
    return ContractWriter(
        rules, "events", lambda name: partition_of(name, 4), "dlq", max_bytes, LIMITS
    )


def test_an_event_is_in_the_partition_of_its_entity_under_its_key(tmp_path: Path) -> None:
    event = row(5, 3)
    record = Record(TOPIC, 9, 0, 0, key(event), change("c", event, 1))
    ((message,), outcomes, _) = writer(tmp_path).write([record])
    assert message[:3] == ("events", partition_of("3", 4), b"3")
    assert json.loads(message.value or b"") == {
        "type": "review.upserted", "entity_id": "3", "review_id": "5", "review_version": 1,
        "text": "A title. The words of 5. Good value.", "rating": 4.0,
        "occurred_at": "2025-11-20T12:00:00.000005Z",
    }  # fmt: skip
    assert outcomes == {("review.upserted", "applied"): 1}


def test_a_worker_reads_what_the_bridge_writes_as_the_mapping_reads_the_record(
    tmp_path: Path,
) -> None:
    """Also reviews without words, and without any optional field."""
    rules = mapping(tmp_path)
    wordless = row(5, 3, title=None, body=None, stars=None)
    values = [(step.key, step.value) for step in steps(200, 3, 4, seed=5)]
    values.append((key(wordless), change("c", wordless, 300)))
    records = [Record(TOPIC, 0, i, 0, *pair) for i, pair in enumerate(values)]
    limits = event_limits()
    for record, mapped in zip(records, decode(records, limits, mapping=rules), strict=True):
        messages, outcomes, _ = writer(tmp_path).write([record])
        ((_, outcome),) = outcomes
        if outcome == "applied":
            (message,) = messages
            sent = Record("events", message.partition, 0, 0, message.key, message.value)
            assert decode([sent], limits) == [mapped]
        else:
            assert outcome == "ignored:by_mapping"
            assert messages == []


def test_what_does_not_fit_is_a_dead_letter_in_its_order(tmp_path: Path) -> None:
    event, large = row(5, 3), row(6, 3, body="x" * MAX_BYTES)
    values = [
        (b"k", b"{"),
        (key(event), change("c", event, 1)),
        (key(large), change("c", large, 2)),
    ]
    records = [Record(TOPIC, 2, i, 0, *pair) for i, pair in enumerate(values)]
    messages, outcomes, _ = writer(tmp_path).write(records)
    assert [message.topic for message in messages] == ["dlq", "events", "dlq"]
    assert messages[0][:4] == ("dlq", 2, b"k", b"{")
    details = [dict(message.headers).get("dlq.detail", b"") for message in messages]
    assert details[2].startswith(b"rule 'published': the event has 1")
    assert outcomes == {
        ("unreadable", "dead_letter:bad_json"): 1,
        ("review.upserted", "applied"): 1,
        ("unreadable", "dead_letter:too_large"): 1,
    }


LINES = f"""
[topic."{TOPIC}"]
[[topic."{TOPIC}".rule]]
each = "lines"
emit = "review.upserted"
entity_id = "item.sku"
review_id = "order"
text = "item.review"
"""


def test_all_events_of_a_record_are_written_or_none(tmp_path: Path) -> None:
    lines = [{"sku": "A", "review": "Good."}, {"sku": "B", "review": "x" * 300_000}]
    both = json.dumps({"order": 7, "lines": lines}).encode()
    event = json.dumps({"order": 8, "lines": lines[:1] * 2}).encode()
    none = json.dumps({"order": 9, "lines": []}).encode()
    records = [Record(TOPIC, 0, i, 0, None, value) for i, value in enumerate([both, event, none])]
    messages, outcomes, _ = writer(tmp_path, LINES, 10**7).write(records)
    assert [message.topic for message in messages] == ["dlq", "events", "events"]
    detail = dict(messages[0].headers)["dlq.detail"] or b""
    assert detail.startswith(b"rule 1: event 2 (entity_id 'B'): text: 300000 bytes")
    for_each = LINES.replace("item.review", "note").replace('"order"', '"item.line"')
    many = {"note": "x" * 200_000, "lines": [{"sku": "A", "line": at} for at in range(300)]}
    huge = Record(TOPIC, 0, 3, 0, None, json.dumps(many).encode())
    (message,), *_ = writer(tmp_path, for_each, 10**7).write([huge])
    assert b"the events of the record have more than" in (
        dict(message.headers)["dlq.detail"] or b""
    )
    assert outcomes == {
        ("unreadable", "dead_letter:text_too_long"): 1,
        ("review.upserted", "applied"): 2,
        ("none", "ignored:by_mapping"): 1,
    }
