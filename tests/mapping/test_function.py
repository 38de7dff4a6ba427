"""A mapping in Python: what its function takes, what becomes of what it gives, and its errors."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.events.examples import decode
from tests.harness.limits import event_limits
from worker.bridge import source_mapping
from worker.errors import FileErrors
from worker.events import EntityDeleted, Ignored, Record, Rejected, ReviewDeleted, ReviewUpserted
from worker.events.notes import LEFT_OUT, NOTES
from worker.kafka.topic_mapping import mapping_of, with_schemas
from worker.mapping import TopicMapping, load_mapping
from worker.mapping.contract import ContractWriter
from worker.settings import Settings

LIMITS = event_limits()
HEAD = "def events(record):\n"
DELETED = '{"type": "review.deleted", "entity_id": "E", "review_id": "r"}'


def rules(folder: Path, text: str) -> TopicMapping:
    file = folder / "shop.py"
    file.write_text(text)
    return load_mapping(file, "t")["t"]


def found(folder: Path, text: str, value: Any = None, **members: Any) -> Any:
    """The outcome of one record by the function whose body is `text`."""
    raw = value if value is None or isinstance(value, bytes) else json.dumps(value).encode()
    record = Record("t", 1, 7, 9, b"B0", raw)._replace(**members)
    body = "".join(f"    {line}\n" for line in text.splitlines())
    (outcome,) = decode([record], LIMITS, mapping=rules(folder, HEAD + body))
    return outcome


def shown(folder: Path, expression: str, **members: Any) -> str:
    """What an expression gives in the function, through the reason of a deletion."""
    event = DELETED.replace("}", f', "reason": repr({expression})}}')
    outcome = found(folder, f"return {event}", **members)
    assert isinstance(outcome, ReviewDeleted), outcome
    return str(outcome.reason)


@pytest.mark.parametrize(
    ("key", "read"),
    [
        (None, None),
        (b"B00X", "B00X"),
        (b"81", "81"),
        ("é".encode(), "é"),
        (b'"B00X"', "B00X"),
        (b'{"product": 3}', {"product": 3}),
        (b'["a", 1]', ["a", 1]),
        (b"{not json", "{not json"),
        (b"\xff\xfe", b"\xff\xfe"),
        (b"\0\0\0\0\1B0", b"\0\0\0\0\1B0"),
        (b"", ""),
    ],
)
def test_the_key_has_the_type_that_it_shows(tmp_path: Path, key: bytes | None, read: Any) -> None:
    assert shown(tmp_path, "record.key", key=key) == repr(read)


def test_a_record_has_its_members(tmp_path: Path) -> None:
    assert shown(tmp_path, "record.value", value=b'\xef\xbb\xbf{"a": [1.5, null]}') == repr(
        {"a": [1.5, None]}
    )
    rest = "(record.topic, record.offset, record.timestamp, record.headers)"
    headers = (("a", b"1"), ("a", b"2"), ("b", b"\xff"), ("c", None))
    every = {"a": "2", "b": b"\xff", "c": None}
    assert shown(tmp_path, rest, headers=headers) == repr(("t", 7, 9, every))
    assert shown(tmp_path, rest, timestamp_ms=-1) == repr(("t", 7, None, {}))
    batch = [{"specversion": "1.0"}, {"specversion": "1.0"}]
    value = json.dumps(batch).encode()
    assert shown(tmp_path, "record.value", value=value) == repr(batch), "a batch is not taken apart"


def test_a_framed_record_is_decoded_by_its_schema(tmp_path: Path) -> None:
    text = f"{HEAD}    return {{**record.value, 'entity_id': record.key['id']}}\n"
    read = {
        b"\0\0\0\0\1k": {"id": 3},
        b"\0\0\0\0\1v": {"type": "review.deleted", "review_id": 81},
    }
    own = rules(tmp_path, text).unframing(read.__getitem__)
    record = Record("t", 0, 0, 0, b"\0\0\0\0\1k", b"\0\0\0\0\1v")
    (outcome,) = decode([record], LIMITS, mapping=own)
    assert outcome == ReviewDeleted("3", "81")
    (outcome,) = decode([record], LIMITS, mapping=rules(tmp_path, text))
    assert isinstance(outcome, Rejected)
    assert "set COVERSUMM_SCHEMA_REGISTRY_URL" in outcome.detail


REVIEW = """
from __future__ import annotations
from dataclasses import dataclass
from datetime import datetime, timezone
from decimal import Decimal
from uuid import UUID

@dataclass
class Review:
    entity_id: object
    review_id: object
    text: object
    rating: object = None
    occurred_at: object = None
    review_version: object = None
    verified: object = None
    type: str = "review.upserted"

def events(record):
    time = datetime(2025, 11, 20, 12, tzinfo=timezone.utc)
    return Review(7.0, UUID(int=1), "Good.", Decimal("4.5"), time, time.isoformat(), "yes")
"""


def test_a_dataclass_is_an_event_whose_members_are_read_as_those_of_a_record(
    tmp_path: Path,
) -> None:
    (event,) = decode([Record("t", 0, 0, 0, None, b"1")], LIMITS, mapping=rules(tmp_path, REVIEW))
    assert isinstance(event, ReviewUpserted)
    assert event.entity_id == "7"
    assert event.review_id == "00000000-0000-0000-0000-000000000001"
    assert event.review_version == 1763640000000000
    assert event.details[:2] == (4.5, "2025-11-20T12:00:00Z")
    assert event.details.verified is True


@pytest.mark.parametrize(
    ("body", "becomes"),
    [
        ("return None", Ignored.BY_MAPPING),
        ("pass", Ignored.BY_MAPPING),
        ("return []", Ignored.BY_MAPPING),
        (f"return {DELETED}", ReviewDeleted("E", "r")),
        (f"return ({DELETED},)", ReviewDeleted("E", "r")),
        (f"yield {DELETED}", ReviewDeleted("E", "r")),
        (f"for _ in '12': yield {DELETED}", [ReviewDeleted("E", "r")] * 2),
        (f"return map(lambda _: {DELETED}, '12')", [ReviewDeleted("E", "r")] * 2),
        ("if False: yield", Ignored.BY_MAPPING),
        ('return {"type": "entity.deleted", "entity_id": record.key}', EntityDeleted("B0")),
        ("record.value.clear()", Ignored.BY_MAPPING),
    ],
)
def test_none_one_or_several_events(tmp_path: Path, body: str, becomes: Any) -> None:
    outcome = found(tmp_path, body, {"a": 1})
    assert outcome == (becomes if not isinstance(becomes, list) or len(becomes) > 1 else becomes[0])


def test_the_function_takes_null_values_too(tmp_path: Path) -> None:
    body = 'return {"type": "entity.deleted", "entity_id": record.key, "occurred_at": None}'
    assert found(tmp_path, f"assert record.value is None\n{body}") == EntityDeleted("B0")
    assert found(tmp_path, f"if record.value is None: return\n{body}") is Ignored.BY_MAPPING


UPSERT = 'return {"type": "review.upserted", "entity_id": "E", "review_id": "r", %s}'


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        ("return record.value['product']", "line 2: KeyError: 'product'"),
        ("a = 1\n\nraise ValueError('odd\\nin two lines')", "line 4: ValueError: odd in two lines"),
        (f"yield {DELETED}\n1 / 0", "line 3: ZeroDivisionError: division by zero"),
        ("import sys; sys.exit(3)", "line 2: SystemExit: 3"),
        ("raise GeneratorExit", "line 2: GeneratorExit"),
        ("raise StopIteration", "line 2: StopIteration"),
        ("return events(record)", "line 2: RecursionError"),
        ("record.value = 1", "line 2: dataclasses.FrozenInstanceError"),
        ("import json; json.loads('{')", "line 2: json.decoder.JSONDecodeError"),
        ("return 'abc'", "events gave a str, 'abc'"),
        ("return 3", "events gave a int, '3'"),
        ("return [None]", "event 1: events gave a NoneType"),
        ("return object()", "a object that is no event: TypeError"),
        ("found = {}; found['a'] = found; return found", "a dict that is no event: RecursionError"),
        ("yield; return {}", "event 1: events gave a NoneType"),
        (f"if False: yield\nreturn {DELETED}", "events yields events and returns a dict: yield it"),
        ("return {}", "type: missing"),
        ("return {'type': 'review.updated'}", "type: 'review.updated' is none of"),
        ("return {'type': []}", "type: '[]' is none of"),
        (f"return [{DELETED}, {{'type': 'x'}}]", "event 2: type: 'x' is none of"),
        (UPSERT % '"txt": 1', "'txt' is not a field of review.upserted; is it text?"),
        (UPSERT % "1: 2", "'1' is not a field of review.upserted"),
        (UPSERT % '"text": 5', "text: Expected a text, got int"),
        (UPSERT % '"text": chr(0xd800)', "UnicodeEncodeError"),
        (UPSERT % '"review_version": 2**70', "OverflowError"),
        (UPSERT % '"language": "en"', "text: the record has no text"),
        ("return {'type': 'review.deleted', 'entity_id': 'E'}", "review_id: nothing at review_id"),
        ("return {'type': 'review.deleted', 'entity_id': '', 'review_id': 1}", "entity_id: "),
    ],
)
def test_what_goes_wrong_is_a_dead_letter_that_names_it(
    tmp_path: Path, body: str, detail: str
) -> None:
    outcome = found(tmp_path, body, {"a": 1})
    assert isinstance(outcome, Rejected), outcome
    assert outcome.detail.startswith("shop.py: ")
    assert detail in outcome.detail
    assert outcome.detail.isprintable()
    assert len(outcome.detail) < 400


def test_an_optional_member_that_cannot_be_read_is_left_out_and_noted(tmp_path: Path) -> None:
    NOTES.take()
    event = found(tmp_path, UPSERT % '"text": "Good.", "rating": "n/a"', 1)
    assert isinstance(event, ReviewUpserted)
    assert event.details.rating is None
    assert NOTES.take() == {(LEFT_OUT, "rating"): 1}


def test_a_generator_without_an_end_is_stopped(tmp_path: Path) -> None:
    outcome = found(tmp_path, f"while True: yield {DELETED}", 1)
    assert isinstance(outcome, Rejected)
    assert outcome.detail == "shop.py: the record has more than 10,000 events"


def test_an_interrupt_ends_a_command_and_no_worker(tmp_path: Path) -> None:
    outcomes: list[Any] = []
    with pytest.raises(KeyboardInterrupt):
        found(tmp_path, "raise KeyboardInterrupt", 1)
    thread = threading.Thread(
        target=lambda: outcomes.append(found(tmp_path, "raise KeyboardInterrupt", 1))
    )
    thread.start()
    thread.join()
    assert outcomes[0].detail == "shop.py: line 2: KeyboardInterrupt"


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ("", 1, "there is no `def events(record): ...`"),
        ("\ndef event(record): pass\n", 1, "there is no `def events"),
        ("x = 1\nx = (\n", 2, "not Python: '(' was never closed"),
        ("\n\nevents = 3\n", 1, "events is a int, not a function"),
        ("x = 1\ndef events(): pass\n", 2, "events takes one argument, the record"),
        ("def events(record, more): pass\n", 1, "events takes one argument"),
        ("async def events(record): pass\n", 1, "events is async"),
        ("async def events(record): yield\n", 1, "events is async"),
        ("x = 1\nimport none_such\n", 2, "ModuleNotFoundError: No module named 'none_such'"),
        ("x = 1\n\nraise SystemExit(0)\n", 3, "SystemExit: 0"),
        ("x\0", 1, "null bytes"),
        ("events = dict", 1, "events takes one argument, the record (no signature found"),
        ("x = 1\nexec('(')", 2, "SyntaxError: '(' was never closed"),
    ],
)
def test_an_error_of_the_file_and_its_line(tmp_path: Path, text: str, line: int, what: str) -> None:
    with pytest.raises(FileErrors) as error:
        rules(tmp_path, text)
    (message,) = error.value.lines
    assert message.startswith(f"{tmp_path / 'shop.py'}:{line}: ")
    assert what in message
    with pytest.raises(FileErrors, match=r"cannot be read \(No such file"):
        load_mapping(tmp_path / "none.py", "t")


def test_the_digest_is_of_the_program_and_not_of_its_comments(tmp_path: Path) -> None:
    def digest(text: str) -> str:
        return rules(tmp_path, text).digest

    assert digest("def events(record): return None") == digest(
        "# a\ndef events( record ):\n return None"
    )
    assert digest("def events(record): return None") != digest("def events(record): return []")


def test_worker_and_bridge_have_the_function_for_their_topics(tmp_path: Path) -> None:
    own = rules(tmp_path, f"{HEAD}    return {DELETED}")
    settings = Settings(
        mapping=tmp_path / "shop.py", input_topic="shop", schema_registry_url="http://x"
    )
    for found in (mapping_of(settings), source_mapping(settings)):
        assert found is not None
        assert (found.topic, found.digest) == ("shop", own.digest)
    found, schemas = with_schemas(settings, mapping_of(settings))
    assert found is not None
    assert found.unframe is not None
    assert schemas is not None
    record = Record("shop", 0, 0, 0, b"\0\0\0\0\1k", b"\0\0\0\0\2v")
    assert schemas.missing([record]) == [1, 2], "keys and values may be framed"


def test_headers_are_fetched_and_count_as_read_if_the_file_names_them(tmp_path: Path) -> None:
    named = rules(tmp_path, f"{HEAD}    record.headers")
    other = rules(tmp_path, f"{HEAD}    pass")
    assert (named.reads_headers, named.needs_headers) == (True, True)
    assert (other.reads_headers, other.needs_headers) == (False, True)


def test_a_bridge_writes_all_events_of_a_record_or_none(tmp_path: Path) -> None:
    body = "    for entity in record.value: yield {'type': 'entity.deleted', 'entity_id': entity}"
    own = rules(tmp_path, HEAD + body)
    writer = ContractWriter(own, "events", lambda _: 0, "dlq", 10**6, LIMITS)
    record = Record("t", 0, 0, 0, None, b'["a", 5]')
    found = writer.write([record, record._replace(value=b'["a", null]')])
    assert [message.key for message in found.messages[:2]] == [b"a", b"5"]
    assert [message.topic for message in found.messages] == ["events", "events", "dlq"]
    assert found.in_a_row == 0
