"""The last value of each key, sorted by key, in bounded memory."""

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from heapq import merge
from itertools import islice
from os import pread
from typing import Final, NamedTuple

from msgspec import msgpack

MEMORY_BYTES: Final = 64 * 2**20
"""Memory for keys and values, including Python's overhead, before they go to a temporary file."""
ITEM_BYTES: Final = 200  # Python's overhead per key and value
BLOCK_BYTES: Final = 64 * 2**10  # size of one write and of one read
_encode = msgpack.Encoder().encode
_decode = msgpack.Decoder(list[tuple[bytes, bytes]]).decode


class _Block(NamedTuple):
    position: int
    length: int


class LastValues(AbstractContextManager["LastValues"]):
    """The last value put for each key; a context manager.

    When memory is full, a sorted run goes to a temporary file; iteration merges the runs.
    """

    def __init__(self, memory_bytes: int = MEMORY_BYTES) -> None:
        self._memory_bytes = memory_bytes
        self._held: dict[bytes, bytes] = {}
        self._size = 0
        self._runs: list[list[_Block]] = []
        self._file = tempfile.TemporaryFile()  # noqa: SIM115

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def put(self, key: bytes, value: bytes) -> None:
        """Set the value of a key."""
        self._held[key] = value
        self._size += len(key) + len(value) + ITEM_BYTES
        if self._size >= self._memory_bytes:
            self._spill()

    def __iter__(self) -> Iterator[tuple[bytes, bytes]]:
        """Keys in ascending order with their values. Call `put` no more after it."""
        self._file.flush()
        runs = [self._read(blocks) for blocks in self._runs]
        sources = [*runs, iter(sorted(self._held.items()))]
        numbered = [_numbered(source, -number) for number, source in enumerate(sources)]
        previous: bytes | None = None
        for key, _, value in merge(*numbered):
            if key != previous:
                yield key, value
            previous = key

    def _spill(self) -> None:
        items = iter(sorted(self._held.items()))
        self._held = {}
        share, blocks = 1, []
        while block := list(islice(items, share)):
            blocks.append(self._write(_encode(block)))
            share = max(1, share * BLOCK_BYTES // blocks[-1].length)
        self._runs.append(blocks)
        self._size = 0

    def _write(self, data: bytes) -> _Block:
        block = _Block(self._file.tell(), len(data))
        self._file.write(data)
        return block

    def _read(self, blocks: Iterable[_Block]) -> Iterator[tuple[bytes, bytes]]:
        for block in blocks:
            yield from _decode(pread(self._file.fileno(), block.length, block.position))


def _numbered(
    items: Iterable[tuple[bytes, bytes]], number: int
) -> Iterator[tuple[bytes, int, bytes]]:
    """Numbers sort a later run before an earlier one with the same key."""
    return ((key, number, value) for key, value in items)
