"""Reads the batches of a fetch so that no record stops the consumer.

aiokafka decodes header names as UTF-8 and raises for any other; producers in C, C++ and Go may send
any bytes. Such a name is made readable here. aiokafka also decompresses batches of any size, and
all of a fetch; 9 KB may hold 300 MB. Here a batch with more than `Memory.most` bytes becomes one
refused record at its last offset, and a fetch returns no more records once it has that many bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import cramjam
from aiokafka.codec import _detect_xerial_stream, snappy_decode
from aiokafka.consumer import fetcher
from aiokafka.errors import CorruptRecordException
from aiokafka.record.default_records import DefaultRecordBatch
from aiokafka.record.legacy_records import LegacyRecordBatch
from aiokafka.record.util import decode_varint

from worker.events.reasons import Reason, Rejected

LENGTH_AT: Final = 8  # where a batch has the length of what follows its first 12 bytes
LENGTH_ENDS: Final = 12
MAGIC_AT: Final = 16
COUNT: Final = struct.Struct(">i")
COUNT_AT: Final = 57  # where a batch has the number of its records
HEAD_BYTES: Final = 61
ATTRIBUTE_BYTES: Final = 1
LOG_APPEND_TIME: Final = 1
ATTRIBUTES_AT: Final = 22  # the byte whose lowest bits are the number of the codec
CODEC_BITS: Final = 7
SNAPPY: Final = 2
UNPACK: Final = {1: cramjam.gzip, 3: cramjam.lz4, 4: cramjam.zstd}  # by number of the codec
SNAPPY_HEAD_BYTES: Final = 16
FIRST_GUESS, GROWTH = 8, 8
"""Times the compressed bytes, for the room to decompress into; then times the room that was not
enough."""
LEAST_ROOM: Final = 64 * 2**10
LEAST_MOST: Final = 64 * 2**20


class Memory:
    """Bytes of records that one batch, and one fetch over all partitions, may take."""

    most = LEAST_MOST
    left = LEAST_MOST  # of the present fetch

    @classmethod
    def renew(cls) -> None:
        """A fetch begins."""
        cls.left = cls.most


def read_any_record(max_event_bytes: int) -> None:
    """Let aiokafka's consumers in this process read fetches by `Batches`, in bounded memory."""
    Memory.most = max(LEAST_MOST, 2 * max_event_bytes)
    fetcher.MemoryRecords = Batches
    fetcher.FetchResult = BoundedResult


class ReadRecord(NamedTuple):
    """A record as aiokafka's fetcher expects it."""

    offset: int
    timestamp: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    checksum: Rejected | None = None
    """No record of this format has one: here it says why the record is refused."""


class BoundedResult(fetcher.FetchResult):  # type: ignore[misc]
    """aiokafka's result of a fetch, which keeps records for the next fetch once memory is used."""

    _partition_records: Any

    def getall(self, max_records: int | None = None) -> list[Any]:
        """The next records."""
        taken: list[Any] = []
        is_open = Memory.left > 0 and self.has_more() and self.check_assignment(None)
        for record in self._partition_records if is_open else ():
            taken.append(record)
            Memory.left -= max(0, record.serialized_key_size) + max(0, record.serialized_value_size)
            if record.headers:
                Memory.left -= sum(len(data or b"") for _, data in record.headers)
            if len(taken) == max_records or Memory.left <= 0:
                self._update_position()
                return taken
        if is_open:
            self._update_position()
            self._partition_records = None
        return taken


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
        """True if a complete batch follows."""
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
        batch, codec = self._batch, self._batch.compression_type
        try:
            content = _unpacked(codec, self._raw[HEAD_BYTES:]) if codec else None
            if content is not None:
                plain = bytearray(self._raw[:HEAD_BYTES])
                plain[ATTRIBUTES_AT] &= ~CODEC_BITS
                batch = DefaultRecordBatch(bytes(plain) + content)
            yield from batch
        except (UnicodeDecodeError, CorruptRecordException):
            # From the first record again: the fetcher drops those that it has.
            yield from _readable(batch, self._raw, content or self._raw[HEAD_BYTES:])
        except (TooManyBytes, cramjam.DecompressionError) as cause:
            last = batch.next_offset - 1
            what = f"offsets {batch.base_offset} to {last} are a batch of {len(self._raw)} bytes"
            if isinstance(cause, TooManyBytes):
                reason, why = Reason.TOO_LARGE, f"with more than {Memory.most} decompressed"
            else:
                reason, why = Reason.BAD_WIRE_FORMAT, f"that cannot be decompressed ({cause})"
            refused = Rejected(reason, f"{what} {why}")
            yield ReadRecord(last, batch.max_timestamp, 0, None, None, [], refused)


def _readable(batch: Any, raw: bytes, content: bytes) -> Iterator[ReadRecord]:
    """The records of a batch, with every header name readable."""
    at = 0
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


class TooManyBytes(Exception):
    """A batch has more bytes than `Memory.most`."""


def _unpacked(codec: int, packed: bytes) -> bytes:
    """The decompressed records. Raises TooManyBytes, beyond `Memory.most`, DecompressionError."""
    if codec == SNAPPY:
        if sum(map(cramjam.snappy.decompress_raw_len, _snappy_blocks(packed))) > Memory.most:
            raise TooManyBytes
        return bytes(snappy_decode(packed))
    room = max(LEAST_ROOM, FIRST_GUESS * len(packed))
    while True:
        unpacked = bytearray(min(room, Memory.most))
        try:
            length = UNPACK[codec].decompress_into(packed, unpacked)
            return bytes(memoryview(unpacked)[:length])
        except cramjam.DecompressionError as cause:
            if "write whole buffer" not in str(cause):
                raise
        if room >= Memory.most:
            raise TooManyBytes
        room *= GROWTH


def _snappy_blocks(packed: bytes) -> Iterator[bytes]:
    """The blocks of a stream that Java wrote, else one block."""
    if not _detect_xerial_stream(packed):
        yield packed
        return
    at = SNAPPY_HEAD_BYTES
    while at < len(packed):
        (length,) = COUNT.unpack_from(packed, at)
        yield packed[at + COUNT.size : at + COUNT.size + length]
        at += COUNT.size + max(0, length)
