"""Fetches as the consumer's client reads them: no record stops it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.codec import snappy_encode
from aiokafka.consumer.fetcher import READ_COMMITTED, PartitionRecords
from aiokafka.structs import TopicPartition

from tests.harness.raw_records import CODECS, RawRecord, raw_batch
from worker.events.reasons import Reason
from worker.stream.faust import records as module
from worker.stream.faust.records import Batches, BoundedResult, Memory

GOOD = [RawRecord(b"k", b"first", [(b"a", b"1"), (b"a", None)]), RawRecord(None, None)]
STRANGE = RawRecord(b"k", b"strange", [(b"a", b"1"), (b"\xff\xe9t\xc3\xa9", b"2"), (b"", b"3")])
READABLE = (("a", b"1"), ("\\xff\\xe9té", b"2"), ("", b"3"))


def fetched(*batches: bytes, start: int = 0) -> list[Any]:
    """The records that the client's fetcher makes of these batches of one partition."""
    moved, offset = b"", 0
    for batch in batches:
        moved += offset.to_bytes(8, "big") + batch[8:]
        offset += int.from_bytes(batch[57:61], "big")
    tp = TopicPartition("reviews", 0)
    records = Batches(moved)
    return list(PartitionRecords(tp, records, [], start, None, None, True, READ_COMMITTED))


@pytest.mark.parametrize("codec", CODECS)
def test_a_header_name_that_is_not_utf_8_is_readable_and_stops_nothing(codec: str) -> None:
    records = [*GOOD, STRANGE, *GOOD]
    found = fetched(raw_batch(GOOD, codec), raw_batch(records, codec), raw_batch(GOOD))
    assert [(record.offset, record.key, record.value) for record in found] == [
        (offset, record.key, record.value) for offset, record in enumerate([*GOOD, *records, *GOOD])
    ]
    assert found[4].headers == READABLE
    assert {record.headers for record in (found[0], found[2], found[5])} == {
        (("a", b"1"), ("a", None))
    }
    assert {record.timestamp_type for record in found} == {0}
    assert 0 <= found[-1].timestamp - found[4].timestamp < 60_000


def test_a_fetch_that_begins_amid_a_batch_has_no_record_before() -> None:
    found = fetched(raw_batch([STRANGE, *GOOD, STRANGE]), start=2)
    assert [record.offset for record in found] == [2, 3]


def test_a_batch_that_is_cut_off_is_fetched_later() -> None:
    whole, last = raw_batch(GOOD), raw_batch([STRANGE])
    for length in range(len(last)):
        assert not Batches(last[:length]).has_next()
        assert [record.offset for record in fetched(whole, last + last[:length])] == [0, 1, 2]


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_a_batch_with_too_many_bytes_is_one_refused_record_at_its_last_offset(
    codec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Memory, "most", 400_000)
    fits = raw_batch([RawRecord(b"k", b"x" * 399_900)], codec)
    bomb = raw_batch([*GOOD, RawRecord(b"k", b"x" * 400_000)], codec)
    found = fetched(fits, bomb, raw_batch(GOOD, codec))
    assert [record.offset for record in found] == [0, 3, 4, 5]
    assert [len(found[0].value), found[1].key, found[1].value] == [399_900, None, None]
    assert found[1].checksum == (
        Reason.TOO_LARGE,
        f"offsets 1 to 3 are a batch of {len(bomb)} bytes with more than 400000 decompressed",
        None,
    )
    assert {record.checksum for record in (found[0], found[2])} == {None}
    assert [record.offset for record in fetched(fits, bomb, start=3)] == [3]


@pytest.mark.parametrize("codec", ["gzip", "lz4", "zstd"])
def test_a_bomb_takes_no_more_memory_than_the_limit(
    codec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rooms = []

    class Room(bytearray):
        def __init__(self, size: int) -> None:
            rooms.append(size)
            super().__init__(size)

    monkeypatch.setattr(module, "bytearray", Room, raising=False)
    monkeypatch.setattr(Memory, "most", 2**20)
    packed = CODECS[codec][1](b"x" * 2**24)
    with pytest.raises(module.TooManyBytes):
        module._unpacked(CODECS[codec][0], packed)
    assert max(rooms) == 2**20


def test_a_batch_that_cannot_be_decompressed_is_refused() -> None:
    found = fetched(raw_batch([*GOOD, STRANGE], "zstd", b"no zstd"), raw_batch(GOOD))
    assert [record.offset for record in found] == [2, 3, 4]
    assert found[0].checksum.reason is Reason.BAD_WIRE_FORMAT
    assert "offsets 0 to 2 are a batch of 68 bytes that cannot be" in found[0].checksum.detail


def test_java_writes_snappy_in_blocks() -> None:
    records = [RawRecord(b"k", b"x" * 50_000), STRANGE]
    for xerial in (True, False):
        body = snappy_encode(raw_batch(records)[61:], xerial_compatible=xerial)
        assert [record.value for record in fetched(raw_batch(records, "snappy", body))] == [
            record.value for record in records
        ]


def test_a_fetch_ends_once_its_memory_is_used_and_the_next_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Memory, "most", 1000)
    tp, state = TopicPartition("reviews", 0), SimpleNamespace(paused=False, position=0)
    state.consumed_to = lambda position: setattr(state, "position", position)
    assignment = SimpleNamespace(active=True, state_value=lambda _: state)
    batch = raw_batch([RawRecord(b"", b"x" * 200, [(b"h", b"y" * 100)])] * 3, "zstd")
    moved = b"".join(offset.to_bytes(8, "big") + batch[8:] for offset in (0, 3, 6))
    records = PartitionRecords(tp, Batches(moved), [], 0, None, None, True, READ_COMMITTED)
    result = BoundedResult(tp, assignment=assignment, partition_records=records, backoff=0)
    taken = []
    while result.has_more():
        Memory.renew()
        for _ in range(2):  # another partition has no room left
            taken.append([record.offset for record in result.getall(1000)])
    assert taken == [[0, 1, 2, 3], [], [4, 5, 6, 7], [], [8], []]
    assert state.position == 9
