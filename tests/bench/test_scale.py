"""What `make bench-scale` copies, and how its record is shown; no Kafka is needed."""

from __future__ import annotations

from typing import Any

import pytest

from tests.bench import tables
from tests.bench.scale import CASES, StatePart, entity, write_row
from tests.harness.topics import Message
from worker.events.publishing import SUMMARIES
from worker.state.keys import IncarnationKeys, header_key
from worker.state.rows import seal, unseal


class Sending:
    """A producer that is full once."""

    def __init__(self) -> None:
        self.sent: list[tuple[Any, ...]] = []
        self.polled = 0

    def produce(self, *row: Any) -> None:
        if not self.polled:
            raise BufferError
        self.sent.append(row)

    def poll(self, seconds: float) -> None:
        self.polled += 1


@pytest.mark.parametrize("kind", ["header", "published", "review", "vectors"])
def test_a_copied_row_is_that_of_another_entity(kind: str) -> None:
    def key(number: int) -> bytes:
        keys = IncarnationKeys(entity(number).encode(), 7)
        return {
            "header": header_key(entity(number).encode()),
            "published": keys.published[SUMMARIES],
            "review": keys.review(b"r"),
            "vectors": keys.vector_chunk(b"r", 0),
        }[kind]

    row = Message("changelog", 3, 11, 0, key(5), seal(key(5), b"payload"), ())
    part = StatePart.of(row)
    assert (part.partition, part.number) == (3, 5)
    copied, value = part.copy(40_000)
    assert copied == key(40_005)
    assert unseal(copied, value) == b"payload"


def test_a_full_producer_is_waited_for() -> None:
    sending = Sending()
    write_row(sending, "changelog", 3, b"key", b"value")  # type: ignore[arg-type]
    assert sending.sent == [("changelog", b"value", b"key", 3)]


def test_the_cases_are_those_that_are_named() -> None:
    many, large = CASES
    assert (many.partitions, large.entities) == (1_000, 2_000_000)
    assert all(case.entities % case.made == 0 for case in CASES)


def test_the_table_has_a_column_for_each_case(monkeypatch: pytest.MonkeyPatch) -> None:
    row = {
        "case": "many",
        "partitions": 1_000,
        "entities": 20_000,
        "empty_to_ready_s": 10.0,
        "state_to_ready_s": 20.0,
        "lost_to_ready_s": 30.0,
        "restore_s": 5.0,
        "restored_rows": 50_000,
        "restore_rows_per_s": 10_000,
        "commit_ms": 123.4,
        "backlog_events": 20_000,
        "commits": 10,
        "restoring_mib": 1_024,
        "peak_mib": 2_048,
    }
    record = {"rows": [row, row], "machine": tables.read_record("memory.json")["machine"]}
    monkeypatch.setattr(tables, "read_record", lambda _: record | {"date": "2026-11-24"})
    monkeypatch.setattr("pathlib.Path.exists", lambda _: True)
    table = tables.scale_table()
    assert "| a commit under a backlog | 123 ms, of 2,000 events | 123 ms" in table
    assert "| of it the restore | 5.0 s, 50,000 rows, 10,000 a second |" in table
