"""Where rows are kept: the `Rows` protocol, in memory for tests and files, in RocksDB for the worker."""

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

from rocksdict import ReadOptions

from worker.state.files import explained

Changes = Mapping[bytes, bytes | None]


class Rows(Protocol):
    """Read access to the committed rows of one partition, ordered by key."""

    def get(self, key: bytes) -> bytes | None:
        """The row's value, None where there is no row."""

    def scan(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """All rows whose key starts with `prefix`, ascending, as they were when the iteration began."""


class MemoryRows:
    """Rows in memory: for tests, files and demonstrations."""

    def __init__(self, rows: Mapping[bytes, bytes] | None = None) -> None:
        self._values = dict(rows or {})
        self._keys = sorted(self._values)
        self._new: set[bytes] = set()  # keys that are not among the sorted ones yet
        self._gone = False  # some of the sorted keys have no row any more

    def get(self, key: bytes) -> bytes | None:
        """See `Rows`."""
        return self._values.get(key)

    def scan(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """See `Rows`."""
        self._sort()
        start = bisect_left(self._keys, prefix)
        upper = successor(prefix)
        end = len(self._keys) if upper is None else bisect_left(self._keys, upper, lo=start)
        found = [(key, self._values[key]) for key in self._keys[start:end]]
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

    def _sort(self) -> None:
        """Bring the keys up to date, once after many writes: sorting two sorted runs is one merge."""
        if self._gone:
            self._keys = [key for key in self._keys if key in self._values and key not in self._new]
            self._gone = False
        if self._new:
            self._keys += sorted(self._new)
            self._keys.sort()
            self._new.clear()

    def __len__(self) -> int:
        return len(self._values)


class RocksRows:
    """Rows of an `rocksdict.Rdict` in raw mode, or of a snapshot of one.

    Reads only: rows are written together with their changelog offset in one `WriteBatch`, by whoever owns the
    database. A scan is one RocksDB iterator: a consistent view, whatever is written meanwhile. Both raise
    DamagedDatabase where RocksDB cannot read its files, under the name of `folder`.
    """

    def __init__(self, database: Any, folder: Path | str = "") -> None:
        self._database = database
        self._folder = folder
        self._get = database.get

    def get(self, key: bytes) -> bytes | None:
        """See `Rows`."""
        try:
            value: bytes | None = self._get(key)
        except Exception as error:
            raise explained(self._folder, error) from error
        return value

    def scan(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """See `Rows`."""
        options = ReadOptions()
        upper = successor(prefix)
        if upper is not None:  # keeps the iterator from walking through removed rows beyond the prefix
            options.set_iterate_upper_bound(upper)
        iterator = self._database.iter(options)
        iterator.seek(prefix)
        valid, key, value, step = iterator.valid, iterator.key, iterator.value, iterator.next
        while valid():
            yield key(), value()
            step()
        try:
            iterator.status()  # raises what ended the iteration early
        except Exception as error:
            raise explained(self._folder, error) from error


def successor(prefix: bytes) -> bytes | None:
    """The smallest key above every key that starts with `prefix`; None where there is none (`prefix` is all
    0xff or empty)."""
    kept = prefix.rstrip(b"\xff")
    return kept[:-1] + bytes([kept[-1] + 1]) if kept else None
