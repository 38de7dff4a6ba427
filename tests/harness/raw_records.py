"""Records that Python's clients do not send: batches made byte by byte, for a produce request.

A header name may be any bytes, as producers in C or Go send them, and a batch may be compressed far
more than a client would.
"""

from __future__ import annotations

import asyncio
import struct
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from aiokafka.client import AIOKafkaClient
from aiokafka.codec import gzip_encode, lz4_encode, snappy_encode, zstd_encode
from aiokafka.errors import for_code
from aiokafka.protocol.produce import ProduceRequest
from aiokafka.record.util import calc_crc32c, encode_varint
from aiokafka.structs import TopicPartition

CODECS: dict[str, tuple[int, Callable[[bytes], bytes]]] = {
    "none": (0, bytes),
    "gzip": (1, gzip_encode),
    "snappy": (2, snappy_encode),
    "lz4": (3, lz4_encode),
    "zstd": (4, zstd_encode),
}
ACKS_ALL, TIMEOUT_MS, NOT_LEADER = -1, 30_000, 6


class RawRecord(NamedTuple):
    """A record whose header names are bytes."""

    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[bytes, bytes | None]] = ()


def raw_batch(
    records: Sequence[RawRecord], codec: str = "none", packed: bytes | None = None
) -> bytes:
    """A batch of these records; `packed` replaces their compressed form."""
    number, compress = CODECS[codec]
    body = b"".join(_record(at, record) for at, record in enumerate(records))
    count, now = len(records), int(time.time() * 1000)
    head = struct.pack(">hiqqqhii", number, count - 1, now, now, -1, -1, -1, count)
    signed = head + (compress(body) if packed is None else packed)
    return struct.pack(">qiibI", 0, 9 + len(signed), -1, 2, calc_crc32c(signed)) + signed


def send_batch(bootstrap: str, topic: str, batch: bytes, partition: int = 0) -> int:
    """Append a batch to a partition; the offset of its first record."""
    return asyncio.run(_send(bootstrap, topic, batch, partition))


async def _send(bootstrap: str, topic: str, batch: bytes, partition: int) -> int:
    client = AIOKafkaClient(bootstrap_servers=bootstrap)
    await client.bootstrap()
    try:
        await client.set_topics([topic])
        node = client.cluster.leader_for_partition(TopicPartition(topic, partition))
        request = ProduceRequest(None, ACKS_ALL, TIMEOUT_MS, [(topic, [(partition, batch)])])
        while True:
            answer = await client.send(node, request)
            _, code, offset, *_ = answer.topics[0][1][0]
            if not code:
                return int(offset)
            if code != NOT_LEADER:  # of a topic that was just created
                raise for_code(code)(f"{topic}-{partition}")
            await asyncio.sleep(0.1)
    finally:
        await client.close()


def _record(offset: int, record: RawRecord) -> bytes:
    body = b"\0" + _varint(0) + _varint(offset) + _sized(record.key) + _sized(record.value)
    body += _varint(len(record.headers))
    body += b"".join(_sized(name) + _sized(value) for name, value in record.headers)
    return _varint(len(body)) + body


def _sized(content: bytes | None) -> bytes:
    return _varint(-1) if content is None else _varint(len(content)) + content


def _varint(number: int) -> bytes:
    encoded = bytearray()
    encode_varint(number, encoded.append)
    return bytes(encoded)
