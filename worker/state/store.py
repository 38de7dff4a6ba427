"""The `Rows` protocol, and rows in memory. Rows in RocksDB: `worker.storage.rows`."""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, MutableMapping
from typing import Protocol

Changes = Mapping[bytes, bytes | None]  # changed rows by key; None removes the row
Pending = MutableMapping[bytes, bytes | None]  # changes that are being collected


class Rows(Protocol):
    """Read access to the committed rows of one partition, ordered by key."""

    def get(self, key: bytes) -> bytes | None:
        """The row's value, or None."""

    def scan(self, prefix: bytes, start: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
        """A consistent view of all rows with this key prefix, ascending, from `start` on."""


class MemoryRows:
    """Rows in memory: for tests, files and demonstrations."""

    def __init__(self, rows: Mapping[bytes, bytes] | None = None) -> None:
        self._values = dict(rows or {})
        self._keys = sorted(self._values)
        self._new: set[bytes] = set()  # keys that are not among the sorted ones yet
        self._gone = False  # some of the sorted keys have no row any more

    def get(self, key: bytes) -> bytes | None:
        return self._values.get(key)

    def scan(self, prefix: bytes, start: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
        self._sort()
        first = bisect_left(self._keys, max(prefix, start or prefix))
        upper = successor(prefix)
        end = len(self._keys) if upper is None else bisect_left(self._keys, upper, lo=first)
        found = [(key, self._values[key]) for key in self._keys[first:end]]
        return iter(found)

    def write(self, changes: Changes) -> None:
        """Apply a batch of changes; a value of None removes the row."""
        for key, value in changes.items():
            if value is not None:
                if key not in self._values:
                    self._new.add(key)
                self._values[key] = value
            elif self._values.pop(key, None) is not None:
                self._new.discard(key)
                self._gone = True

    @property
    def size_bytes(self) -> int:
        """Bytes of all keys and values."""
        return sum(len(key) + len(value) for key, value in self._values.items())

    def _sort(self) -> None:
        """Update the sorted keys, once after many writes: sorting two sorted runs is one merge."""
        if self._gone:
            self._keys = [key for key in self._keys if key in self._values and key not in self._new]
            self._gone = False
        if self._new:
            self._keys += sorted(self._new)
            self._keys.sort()
            self._new.clear()

    def __len__(self) -> int:
        return len(self._values)


def successor(prefix: bytes) -> bytes | None:
    """The smallest key above every key with this prefix; None for an empty or all-0xff prefix."""
    kept = prefix.rstrip(b"\xff")
    return kept[:-1] + bytes([kept[-1] + 1]) if kept else None
