"""Fetches as the consumer's client reads them: no record stops it."""

from __future__ import annotations

from typing import Any

import pytest
from aiokafka.consumer.fetcher import READ_COMMITTED, PartitionRecords
from aiokafka.structs import TopicPartition

from tests.harness.raw_records import CODECS, RawRecord, raw_batch
from worker.stream.faust.records import Batches

GOOD = [RawRecord(b"k", b"first", [(b"a", b"1"), (b"a", None)]), RawRecord(None, None)]
STRANGE = RawRecord(b"k", b"strange", [(b"a", b"1"), (b"\xff\xe9t\xc3\xa9", b"2"), (b"", b"3")])
READABLE = (("a", b"1"), ("\\xff\\xe9té", b"2"), ("", b"3"))


def fetched(*batches: bytes, start: int = 0) -> list[Any]:
    """The records that the client's fetcher makes of these batches of one partition."""
    moved, offset = b"", 0
    for one in batches:
        moved += offset.to_bytes(8, "big") + one[8:]
        offset += int.from_bytes(one[57:61], "big")
    tp = TopicPartition("reviews", 0)
    records = Batches(moved)
    return list(PartitionRecords(tp, records, [], start, None, None, True, READ_COMMITTED))


@pytest.mark.parametrize("codec", CODECS)
def test_a_header_name_that_is_not_utf_8_is_readable_and_stops_nothing(codec: str) -> None:
    records = [*GOOD, STRANGE, *GOOD]
    found = fetched(raw_batch(GOOD, codec), raw_batch(records, codec), raw_batch(GOOD))
    assert [(one.offset, one.key, one.value) for one in found] == [
        (offset, one.key, one.value) for offset, one in enumerate([*GOOD, *records, *GOOD])
    ]
    assert found[4].headers == READABLE
    assert {one.headers for one in (found[0], found[2], found[5])} == {(("a", b"1"), ("a", None))}
    assert {one.timestamp_type for one in found} == {0}
    assert 0 <= found[-1].timestamp - found[4].timestamp < 60_000


def test_a_fetch_that_begins_amid_a_batch_has_no_record_before() -> None:
    found = fetched(raw_batch([STRANGE, *GOOD, STRANGE]), start=2)
    assert [one.offset for one in found] == [2, 3]


def test_a_batch_that_is_cut_off_is_fetched_later() -> None:
    whole, last = raw_batch(GOOD), raw_batch([STRANGE])
    for length in range(len(last)):
        assert not Batches(last[:length]).has_next()
        assert [one.offset for one in fetched(whole, last + last[:length])] == [0, 1, 2]
