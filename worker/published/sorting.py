"""The last value of each of many keys, in the order of the keys, in memory that does not grow with
their number.
"""

import tempfile
from collections.abc import Iterable, Iterator
from heapq import merge
from itertools import islice
from os import pread
from typing import Final, NamedTuple, Self

from msgspec import msgpack

MEMORY_BYTES: Final = 64 * 2**20
"""Keys and values to hold before they are written to a temporary file, with what Python needs for
each.
"""
ITEM_BYTES: Final = 200
"""Memory of a key and its value beyond their own bytes."""
BLOCK_BYTES: Final = 64 * 2**10
"""To write and to read back at once."""
_encode = msgpack.Encoder().encode
_decode = msgpack.Decoder(list[tuple[bytes, bytes]]).decode


class _Block(NamedTuple):
    position: int
    length: int


class LastValues:
    """Values by key: of those with one key the last that was put; a context manager.

    A sorted run goes to a temporary file whenever memory is full; iteration merges the runs.

    Args:
        memory_bytes: to hold at most.
    """

    def __init__(self, memory_bytes: int = MEMORY_BYTES) -> None:
        self._memory_bytes = memory_bytes
        self._held: dict[bytes, bytes] = {}
        self._size = 0
        self._runs: list[list[_Block]] = []
        self._file = tempfile.TemporaryFile()  # noqa: SIM115

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def put(self, key: bytes, value: bytes) -> None:
        """In place of the value that the key had."""
        self._held[key] = value
        self._size += len(key) + len(value) + ITEM_BYTES
        if self._size >= self._memory_bytes:
            self._spill()

    def __iter__(self) -> Iterator[tuple[bytes, bytes]]:
        """Keys, ascending, with their values; once all are put."""
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
    """Of one key the later run comes first."""
    return ((key, number, value) for key, value in items)
