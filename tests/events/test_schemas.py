"""The published schemas are what the code says, and both draw the same line between valid and
invalid.
"""

from __future__ import annotations

import json
import math
from datetime import date
from typing import Any

import pytest
from hypothesis import given as given_data
from hypothesis import settings
from jsonschema import Draft202012Validator, FormatChecker

from docs.build.render import ROOT
from docs.build.schemas import PUBLISHED, schemas
from tests.events.bad import BAD
from tests.events.examples import decode_one, packed, strict_json
from tests.events.mutations import JSON, OTHERS, UPSERTS, mutated
from tests.harness.bodies import BODY
from tests.harness.limits import event_limits
from worker.events import EVENT_TYPES, Reason, Record, Rejected, dead_letter_message, decode
from worker.events.json_codec import encode

FOLDER = ROOT / "schemas"
SCHEMAS = {
    path.name.removesuffix(".schema.json"): json.loads(path.read_text())
    for path in FOLDER.glob("*.json")
}
FORMATS = FormatChecker(formats=())


@FORMATS.checks("date-time", raises=ValueError)
def _date_time(value: object) -> bool:
    """The day exists; all else is in the pattern."""
    if isinstance(value, str):
        # Python's calendar has no year 0, a leap year
        date.fromisoformat(value[:10].replace("0000-", "0004-"))
    return True


VALIDATORS = {
    name: Draft202012Validator(schema, format_checker=FORMATS) for name, schema in SCHEMAS.items()
}
NO_LIMITS = event_limits(
    dimension=2, max_event_bytes=2**40, max_text_bytes=2**40, max_sentences_per_review=2**40
)
# What a schema cannot know: the key, this worker's limits, and numbers inside of base64.
OF_THE_WORKER = {
    Reason.KEY_MISMATCH, Reason.WRONG_DIMENSION, Reason.WRONG_MODEL, Reason.NO_EMBEDDING,
    Reason.TEXT_TOO_LONG,
    Reason.TOO_MANY_SENTENCES, Reason.TOO_LARGE,
}  # fmt: skip


def test_the_files_are_what_the_code_says() -> None:
    files = {
        path.relative_to(FOLDER).as_posix(): path.read_text(encoding="utf-8")
        for path in FOLDER.rglob("*.schema.json")
    }
    assert files == schemas(), "run `make docs`"


@pytest.mark.parametrize("name", [published.name for published in PUBLISHED])
def test_schemas_are_valid_and_so_are_their_examples(name: str) -> None:
    Draft202012Validator.check_schema(SCHEMAS[name])
    assert SCHEMAS[name]["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    for example in SCHEMAS[name]["examples"]:
        VALIDATORS[name].validate(example)
        if name in EVENT_TYPES.values():
            result = decode_one(example, example["entity_id"].encode(), event_limits(dimension=2))
            assert not isinstance(result, Rejected), result


def test_every_event_type_has_a_schema() -> None:
    assert {*EVENT_TYPES.values(), "summary.changed"} < set(SCHEMAS)


def is_valid(event: Any) -> bool:
    """What the schemas say."""
    name = event.get("type") if isinstance(event, dict) else None
    return (
        isinstance(name, str) and name in EVENT_TYPES.values() and VALIDATORS[name].is_valid(event)
    )


def has_what_schemas_cannot_tell(value: Any) -> bool:
    """Numbers that JSON Schema takes for other numbers: 1.0 is an integer there, and 1e999 a
    number. Half of a pair of surrogates too, which no id may have.
    """
    match value:
        case str():
            return any("\ud800" <= sign <= "\udfff" for sign in value)
        case dict():
            return any(map(has_what_schemas_cannot_tell, value.values()))
        case list():
            return any(map(has_what_schemas_cannot_tell, value))
        case float():
            return math.isinf(value) or (value.is_integer() and value != 0)
        case int():
            return abs(value) > 10**300
    return False


def assert_agreement(event: Any) -> None:
    key = (
        event["entity_id"].encode()
        if isinstance(event, dict) and isinstance(event.get("entity_id"), str)
        else b"e"
    )
    (result,) = decode([Record("in", 0, 0, 0, key, json.dumps(event).encode())], NO_LIMITS)
    if isinstance(result, Rejected) and result.reason == Reason.BAD_VECTOR:
        if "base64" in result.detail:
            assert not is_valid(event)
        return  # zero vectors and such: no matter for a schema
    if isinstance(result, Rejected) and (
        result.reason in OF_THE_WORKER or "deeper" in result.detail
    ):
        assert is_valid(event), result
    else:
        assert is_valid(event) == (not isinstance(result, Rejected)), result


@pytest.mark.parametrize("value", [row[1] for row in BAD], ids=[row[0] for row in BAD])
def test_code_and_schema_agree_on_the_table(value: Any) -> None:
    if isinstance(value, bytes):
        try:
            value = strict_json(value)
        except (ValueError, RecursionError):
            return
    if not has_what_schemas_cannot_tell(value):
        assert_agreement(value)


@given_data(UPSERTS | OTHERS)
@settings(deadline=None, max_examples=200)
def test_code_and_schema_agree_on_valid_events(event: dict[str, Any]) -> None:
    assert is_valid(event)
    assert_agreement(event)


@given_data(mutated() | JSON.map(lambda value: json.dumps(value).encode()))
@settings(deadline=None, max_examples=500)
def test_code_and_schema_agree_on_mutated_events(raw: bytes) -> None:
    try:
        event = strict_json(raw)
    except ValueError:
        return
    if not has_what_schemas_cannot_tell(event):
        assert_agreement(event)


def test_what_is_sent_is_valid() -> None:
    body = json.loads(encode(BODY))
    VALIDATORS["summary.changed"].validate(body)
    assert list(body) == list(SCHEMAS["summary.changed"]["properties"])
    for name in body:
        others = {other: body[other] for other in body if other != name}
        assert VALIDATORS["summary.changed"].is_valid(others) == (name == "ratings")


def test_dead_letter_headers_are_valid() -> None:
    large = Record("in", 0, 7, 0, b"k" * 300_000, b"v" * 300_000)
    for limit in (10**6, 500_000, 200_000):
        message = dead_letter_message(
            "dead", large, Rejected(Reason.TOO_LARGE, "large"), "0.1.0", limit
        )
        headers = {name: value.decode() for name, value in message.headers}
        VALIDATORS["dead-letter.headers"].validate(headers)
        assert headers.keys() <= SCHEMAS["dead-letter.headers"]["properties"].keys()


@pytest.mark.parametrize(
    "text", [packed(1, 2), "AAAAAAAAAAB=", "AAAA\n", "AAA", "A===", "", "AA==", "AA=A", "AAAAé"]
)
def test_base64_is_the_same_in_code_and_schema(text: str) -> None:
    event = {
        "type": "review.upserted",
        "entity_id": "e",
        "review_id": "r",
        "sentences": [{"text": "a", "embedding": text}],
    }
    assert_agreement(event)
