"""The record that a dead letter was made of, or why it cannot be sent."""

from types import SimpleNamespace
from typing import Any

import pytest

from worker.events import Reason, Record, Rejected, dead_letter_message
from worker.kafka.reader import Stored
from worker.tools.dlq import DeadLetter, Impossible, original

RECORD = Record("reviews", 3, 991, 1_700_000_000_000, b"entity", b"v" * 300_000)


def letter(record: Record = RECORD, max_bytes: int = 1_000_000) -> DeadLetter:
    message = dead_letter_message(
        "dlq", record, Rejected(Reason.BAD_JSON, "detail"), "1.0", max_bytes
    )
    stored = Record("dlq", 0, 7, 5000, message.key, message.value)
    return DeadLetter.of(Stored(stored, dict(message.headers)))


def topic(*records: Record, name: str = "reviews") -> Any:
    """The input topic as a reader of it finds it, with partitions 0 to 3; the first record after an
    offset is read.
    """

    def read(partition: int, start: int, end: int) -> Any:
        return (Stored(r, {}) for r in records if r.partition == partition and r.offset >= start)

    return SimpleNamespace(topic=name, partitions=[0, 1, 2, 3], read=read)


def test_a_whole_letter_is_its_own_original() -> None:
    assert original(letter(), topic()) == RECORD._replace(timestamp_ms=5000)


def test_an_original_has_the_headers_that_its_mapping_read() -> None:
    mapped = RECORD._replace(headers=(("ce_type", b"com.shop.review"), ("review", b"")))
    assert original(letter(mapped), topic()).headers == mapped.headers
    assert original(letter(mapped, max_bytes=200_000), topic(RECORD)) == mapped


def test_a_cut_letter_is_read_from_its_source() -> None:
    assert original(letter(max_bytes=200_000), topic(RECORD)) == RECORD


@pytest.mark.parametrize(
    ("found", "why"),
    [
        ((), "its original at reviews/3/991 is gone"),
        ((RECORD._replace(offset=992),), "its original at reviews/3/991 is gone"),
        (
            (RECORD._replace(value=b"w"),),
            "another value .reviews/3/991.: the topic was created again",
        ),
    ],
)
def test_a_cut_letter_whose_original_is_not_there_cannot_be_sent(
    found: tuple[Record, ...], why: str
) -> None:
    with pytest.raises(Impossible, match=why):
        original(letter(max_bytes=200_000), topic(*found))


@pytest.mark.parametrize(
    ("one", "input_topic", "why"),
    [
        (DeadLetter.of(Stored(RECORD, {})), topic(), "headers do not say where it came from"),
        (letter(), topic(name="others"), "it came from reviews, the input topic is others"),
        (letter(RECORD._replace(partition=4)), topic(), "reviews has no partition 4"),
    ],
)
def test_a_letter_from_elsewhere_cannot_be_sent(
    one: DeadLetter, input_topic: Any, why: str
) -> None:
    with pytest.raises(Impossible, match=why):
        original(one, input_topic)
