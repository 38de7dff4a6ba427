"""Reads the batches of a fetch so that no record stops the consumer.

aiokafka decodes header names as UTF-8 and raises for any other; producers in C, C++ and Go may send
any bytes. Such a name is made readable here.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from aiokafka.codec import gzip_decode, lz4_decode, snappy_decode, zstd_decode
from aiokafka.consumer import fetcher
from aiokafka.errors import CorruptRecordException
from aiokafka.record.default_records import DefaultRecordBatch
from aiokafka.record.legacy_records import LegacyRecordBatch
from aiokafka.record.util import decode_varint

LENGTH_AT: Final = 8
"""Where a batch has the length of what follows its first 12 bytes."""
LENGTH_ENDS: Final = 12
MAGIC_AT: Final = 16
COUNT: Final = struct.Struct(">i")
COUNT_AT: Final = 57
"""Where a batch has the number of its records."""
HEAD_BYTES: Final = 61
ATTRIBUTE_BYTES: Final = 1
LOG_APPEND_TIME: Final = 1
UNPACK: Final = {1: gzip_decode, 2: snappy_decode, 3: lz4_decode, 4: zstd_decode}
"""By number of the codec."""


def read_any_record() -> None:
    """Let aiokafka's consumers in this process read fetches by `Batches`."""
    fetcher.MemoryRecords = Batches


class ReadRecord(NamedTuple):
    """A record as aiokafka's fetcher expects it."""

    offset: int
    timestamp: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    checksum: None = None


class Batches:
    """The batches of a fetch from one partition, in place of aiokafka's `MemoryRecords`."""

    def __init__(self, fetched: bytes) -> None:
        self._fetched = fetched
        self._at = 0

    def size_in_bytes(self) -> int:
        """Bytes of the fetch."""
        return len(self._fetched)

    def _end(self) -> int:
        """Where the next batch ends; a broker may cut off the last one."""
        if len(self._fetched) - self._at < LENGTH_ENDS:
            return len(self._fetched) + 1
        (length,) = struct.unpack_from(">i", self._fetched, self._at + LENGTH_AT)
        return self._at + LENGTH_ENDS + int(length)

    def has_next(self) -> bool:
        """Whether a complete batch follows."""
        return self._end() <= len(self._fetched)

    def next_batch(self) -> Any:
        """The next batch."""
        raw, self._at = self._fetched[self._at : self._end()], self._end()
        magic = raw[MAGIC_AT]
        return ReadableBatch(raw) if magic >= 2 else LegacyRecordBatch(raw, magic)


class ReadableBatch:
    """A batch of records with headers, in place of aiokafka's `DefaultRecordBatch`."""

    def __init__(self, raw: bytes) -> None:
        self._raw = raw
        self._batch = DefaultRecordBatch(raw)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._batch, name)

    def __next__(self) -> Any:
        return next(self._batch)  # of a marker

    def __iter__(self) -> Iterator[Any]:
        try:
            yield from self._batch
        except (UnicodeDecodeError, CorruptRecordException):
            # From the first record again: the fetcher drops those that it has.
            yield from _readable(self._batch, self._raw)


def _readable(batch: Any, raw: bytes) -> Iterator[ReadRecord]:
    """The records of a batch, with every header name readable."""
    content, at = _unpacked(batch.compression_type, raw[HEAD_BYTES:]), 0
    is_of_broker = batch.timestamp_type == LOG_APPEND_TIME
    for _ in range(COUNT.unpack_from(raw, COUNT_AT)[0]):
        _length, at = decode_varint(content, at)
        since_first, at = decode_varint(content, at + ATTRIBUTE_BYTES)
        since_base, at = decode_varint(content, at)
        key, at = _sized(content, at)
        value, at = _sized(content, at)
        count, at = decode_varint(content, at)
        headers = []
        for _ in range(count):
            name, at = _sized(content, at)
            own, at = _sized(content, at)
            headers.append(((name or b"").decode(errors="backslashreplace"), own))
        timestamp = batch.max_timestamp if is_of_broker else batch.first_timestamp + since_first
        offset = batch.base_offset + since_base
        yield ReadRecord(offset, timestamp, batch.timestamp_type, key, value, headers)


def _sized(content: bytes, at: int) -> tuple[bytes | None, int]:
    """The bytes that begin with their length at `at`, and where they end."""
    length, at = decode_varint(content, at)
    return (None, at) if length < 0 else (content[at : at + length], at + length)


def _unpacked(codec: int, packed: bytes) -> bytes:
    return UNPACK[codec](packed) if codec else packed
