"""A mapped topic through the processor: the summaries of the same events, by the contract."""

import json

import pytest

from tests.harness.debezium import TOPIC, change, key, mapping, row
from tests.harness.drive import Driver, config
from worker.events import Record
from worker.processing.config import RecordSelection

ROWS = [row(number, number % 3) for number in range(9)]


def changes():
    """Of one partition: creates, an edit, one unpublished, one deleted with its tombstone."""
    edited = row(4, 1, body="Better words.")
    values = [(review, change("c", review, 1)) for review in ROWS]
    values += [
        (edited, change("u", edited, 2)),
        (ROWS[5], change("u", {**ROWS[5], "status": "x"}, 3)),
    ]
    values += [(ROWS[7], change("d", ROWS[7], 4)), (ROWS[7], None), (ROWS[8], b"{")]
    return [Record(TOPIC, 0, i, 5, key(review), value) for i, (review, value) in enumerate(values)]


def contract():
    """The same as events of the contract."""
    said = lambda row, version, words: {  # noqa: E731
        "type": "review.upserted", "entity_id": str(row["product_id"]), "review_id": str(row["id"]),
        "review_version": version, "text": f"A title. {words}", "rating": row["stars"],
        "occurred_at": f"2025-11-20T12:00:00.{row['id']:06}Z".replace(".000000", ""),
    }  # fmt: skip
    gone = lambda row, version: {  # noqa: E731
        "type": "review.deleted", "entity_id": str(row["product_id"]),
        "review_id": str(row["id"]), "review_version": version,
    }  # fmt: skip
    bodies = [said(review, 1, review["body"]) for review in ROWS]
    bodies += [said(ROWS[4], 2, "Better words."), gone(ROWS[5], 3), gone(ROWS[7], 4)]
    return [
        Record(TOPIC, 0, i, 5, body["entity_id"].encode(), json.dumps(body).encode())
        for i, body in enumerate(bodies)
    ]


def test_a_mapped_topic_gives_the_summaries_of_the_contract(tmp_path):
    mapped = Driver(config(input_topic=TOPIC, mapping=mapping(tmp_path)))
    plain = Driver(config(input_topic=TOPIC))
    result, expected = mapped.run(*changes()), plain.run(*contract())
    own = [message for message in result.messages if message.topic == "summaries"]
    assert [message.value for message in own] == [message.value for message in expected.messages]
    assert [message.key for message in own] == [message.key for message in expected.messages]
    (letter,) = (message for message in result.messages if message.topic == "dlq")
    assert (letter.key, letter.value) == (key(ROWS[8]), b"{")
    assert result.stats.outcomes["none", "ignored:by_mapping"] == 1
    # the plan's outcome of everything else is as without a mapping
    assert result.stats.outcomes["review.deleted", "applied"] == 2


def test_times_are_selected_by_what_they_are_mapped_to(tmp_path):
    until = RecordSelection(until_ms=1_763_640_000_000)
    driver = Driver(config(input_topic=TOPIC, mapping=mapping(tmp_path), selection=until))
    late = row(5, 0, updated_at=1_763_640_000_001_000)
    early = row(6, 0, updated_at=1_763_639_999_999_999)
    records = [
        Record(TOPIC, 0, i, 0, key(review), change("c", review, 1))
        for i, review in enumerate((late, early))
    ]
    messages = driver.run(*records).messages
    assert [set(json.loads(message.value)["added"]) for message in messages] == [
        {"6#0", "6#1", "6#2"}
    ]


@pytest.mark.parametrize("version", [b"1", b"\0"])
def test_a_dead_letter_keeps_the_headers_that_a_mapping_reads(tmp_path, version):
    text = """
        [topic.reviews]
        [[topic.reviews.rule]]
        emit = "review.deleted"
        entity_id = "key"
        review_id = "header:review"
        review_version = "header:version"
        """
    driver = Driver(config(mapping=mapping(tmp_path, text, "reviews")))
    headers = (("review", b""), ("version", version), ("dlq.reason", b"old"), ("nil", None))
    (letter,) = driver.run(Record("reviews", 0, 0, 0, b"e", b"{}", headers)).messages
    kept = [pair for pair in letter.headers if not pair[0].startswith("dlq.")]
    assert kept == [("review", b""), ("version", version)]
    assert dict(letter.headers)["dlq.reason"] == b"bad_field"
    assert b"rule 1: review_" in dict(letter.headers)["dlq.detail"]


WHOLE = {"id": "4", "text": "Good \U0001f600 \ufffd"}
