"""Lines of files: events as they are, bare reviews as unversioned upserts."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from tests.events.examples import LIMITS, upsert
from tests.harness.limits import event_limits
from worker.events import Record, Rejected, ReviewUpserted, decode, read_line

SAMPLE = Path(__file__).parents[2] / "worker" / "demo" / "data" / "airbnb_albany.jsonl.gz"


def line(**fields: object) -> bytes:
    return json.dumps(fields).encode()


def test_a_bare_review_becomes_an_unversioned_upsert() -> None:
    key, value = read_line(
        line(
            entity_id="é", review_id="r", text="Ünï", rating=4, created_at="2016-02-05T00:00:00Z", title="t",
            review_version=7,
        )
    )  # fmt: skip
    assert key == "é".encode()
    assert json.loads(value) == {
        "type": "review.upserted",
        "entity_id": "é",
        "review_id": "r",
        "text": "Ünï",
        "rating": 4,
        "occurred_at": "2016-02-05T00:00:00Z",
    }


@pytest.mark.parametrize(
    "created_at", [None, "03/04/2019", "yesterday", 20190304, "", "2016-02-30T00:00:00Z"]
)
def test_a_creation_date_that_is_no_timestamp_is_left_out(created_at: object) -> None:
    key, value = read_line(line(entity_id="e", review_id="r", text="a", created_at=created_at))
    (result,) = decode([Record("file", 0, 0, 0, key, value)], LIMITS)
    assert isinstance(result, ReviewUpserted)
    assert result.occurred_at is None


def test_occurred_at_wins() -> None:
    _, value = read_line(
        line(
            entity_id="e",
            review_id="r",
            occurred_at="2020-01-01T00:00:00Z",
            created_at="2016-02-05T00:00:00Z",
        )
    )
    assert json.loads(value)["occurred_at"] == "2020-01-01T00:00:00Z"


def test_events_go_on_byte_for_byte() -> None:
    raw = json.dumps(upsert(), indent=None, separators=(" , ", " : ")).encode()
    assert read_line(raw + b"\r\n") == (b"e", raw)


@pytest.mark.parametrize(
    "raw", [b"{", b"[]", b"null", b"\xff", b"[" * 9000, b'{"type":"x"}', b'{"entity_id":5}']
)
def test_broken_lines_go_on_to_be_dead_letters(raw: bytes) -> None:
    key, value = read_line(raw)
    (result,) = decode([Record("file", 0, 0, 0, key, value)], LIMITS)
    assert isinstance(result, Rejected)


def test_the_bundled_sample_is_all_valid() -> None:
    with gzip.open(SAMPLE) as file:
        lines = [read_line(raw) for raw in file]
    results = decode([Record("file", 0, i, 0, *one) for i, one in enumerate(lines)], event_limits())
    assert len(results) > 1000
    assert all(isinstance(result, ReviewUpserted) and result.occurred_at for result in results)
