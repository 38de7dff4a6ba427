"""Bodies byte for byte, headers, tombstones, dead letters."""

from __future__ import annotations

import pytest

from tests.events.examples import record
from worker.events import (
    Reason,
    Record,
    Rejected,
    dead_letter_message,
    tombstone_message,
)
from worker.events.messages import MAX_DETAIL_BYTES, TRUNCATED_BYTES, message_bytes
from worker.events.publishing import SUMMARIES


@pytest.mark.parametrize(
    ("milliseconds", "expected"),
    [
        (0, b"1970-01-01T00:00:00.000Z"),
        (951_782_400_007, b"2000-02-29T00:00:00.007Z"),
        (253_402_300_799_999, b"9999-12-31T23:59:59.999Z"),
        (-1, None),
        (253_402_300_800_000, None),
        (2**63 - 1, None),
    ],
)
def test_ce_time_is_the_records_timestamp_where_it_is_one(
    milliseconds: int, expected: bytes | None
) -> None:
    cause = Record("in", 0, 0, milliseconds, b"e", None)
    message = tombstone_message(SUMMARIES, "out", "e", 1, None, cause)
    assert dict(message.headers).get("ce_time") == expected


@pytest.mark.parametrize(
    ("key", "value"), [(b"e", b"{"), (None, b"\xff\0"), (b"", None), (None, b"")]
)
def test_a_dead_letter_is_the_record_and_why(key: bytes | None, value: bytes | None) -> None:
    message = dead_letter_message(
        "dead", Record("in", 3, 991, 0, key, value), Rejected(Reason.BAD_JSON, "é"), "0.1.0", 1000
    )
    assert (message.topic, message.partition, message.key, message.value) == ("dead", 3, key, value)
    assert message.headers == [
        ("dlq.reason", b"bad_json"),
        ("dlq.detail", "é".encode()),
        ("dlq.source.topic", b"in"),
        ("dlq.source.partition", b"3"),
        ("dlq.source.offset", b"991"),
        ("dlq.worker.version", b"0.1.0"),
    ]


REJECTED = Rejected(Reason.TOO_LARGE, "too large")


def test_a_value_too_large_for_the_topic_is_cut() -> None:
    value = bytes(range(256)) * 1000
    whole = dead_letter_message("dead", record(value), REJECTED, "0.1.0", 1_000_000)
    assert whole.value == value
    size = message_bytes(whole.key, whole.value, whole.headers)
    assert dead_letter_message("dead", record(value), REJECTED, "0.1.0", size).value == value
    cut = dead_letter_message("dead", record(value), REJECTED, "0.1.0", size - 1)
    assert cut.value == value[:TRUNCATED_BYTES]
    assert cut.key == b"e"
    assert dict(cut.headers)["dlq.truncated_bytes"] == b"%d" % (256_000 - 65_536)
    assert message_bytes(cut.key, cut.value, cut.headers) < size


def test_a_key_is_cut_only_where_it_alone_is_too_large() -> None:
    cut = dead_letter_message(
        "dead", record(b"v" * 300_000, b"k" * 300_000), REJECTED, "0.1.0", 250_000
    )
    assert (cut.key, cut.value) == (b"k" * TRUNCATED_BYTES, b"v" * TRUNCATED_BYTES)
    assert dict(cut.headers)["dlq.truncated_key_bytes"] == b"%d" % (300_000 - 65_536)
    kept = dead_letter_message(
        "dead", record(b"v" * 300_000, b"k" * 100_000), REJECTED, "0.1.0", 250_000
    )
    assert kept.key == b"k" * 100_000
    lone = dead_letter_message("dead", record(None, b"k" * 300_000), REJECTED, "0.1.0", 250_000)
    assert lone.value is None
    assert lone.key == b"k" * TRUNCATED_BYTES


def test_headers_that_do_not_fit_are_dropped_and_counted() -> None:
    small, large, wide = ("a", b"1"), ("b", b"2" * 1_010_000), ("\u20ac" * 200_000, b"")
    many = [(f"n{number}", b"x" * 1000) for number in range(2000)]
    for headers, kept in (
        ([small, large, ("c", None), small], [small, small]),
        ([wide, small, wide], [wide, small]),
        (many, many[:750]),
    ):
        given = record(b"v" * 100_000)._replace(headers=headers)
        message = dead_letter_message("dead", given, REJECTED, "0.1.0", 1_000_000)
        found = dict(message.headers)
        own = [header for header in message.headers if not header[0].startswith("dlq.")]
        assert own[: len(kept)] == kept
        assert int(found["dlq.dropped_headers"]) == len(headers) - len(own) - headers.count(
            ("c", None)
        )
        assert message_bytes(message.key, message.value, message.headers) <= 1_000_000


def test_a_value_is_cut_before_a_header_is_dropped() -> None:
    given = record(b"v" * 900_000)._replace(headers=[("h", b"1" * 500_000)])
    message = dead_letter_message("dead", given, REJECTED, "0.1.0", 1_000_000)
    assert message.value == b"v" * TRUNCATED_BYTES
    assert ("h", b"1" * 500_000) in message.headers
    assert "dlq.dropped_headers" not in dict(message.headers)


def test_a_detail_is_cut_between_characters() -> None:
    message = dead_letter_message(
        "dead", record(b""), Rejected(Reason.BAD_FIELD, "é" * 999 + "\ud800"), "0", 10**6
    )
    detail = dict(message.headers)["dlq.detail"]
    assert len(detail) == MAX_DETAIL_BYTES
    assert detail.decode() == "é" * 512
