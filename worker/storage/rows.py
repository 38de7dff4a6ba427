"""Committed rows in a RocksDB database: the worker's own, or a view of it from outside."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rocksdict import ReadOptions, WriteBatch

from worker.state.store import Changes, successor
from worker.storage.files import explained


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

    def scan(self, prefix: bytes, start: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
        """See `Rows`."""
        options = ReadOptions()
        upper = successor(prefix)
        if upper is not None:  # keeps the iterator from walking through removed rows beyond the prefix
            options.set_iterate_upper_bound(upper)
        iterator = self._database.iter(options)
        iterator.seek(max(prefix, start or prefix))
        valid, key, value, step = iterator.valid, iterator.key, iterator.value, iterator.next
        while valid():
            yield key(), value()
            step()
        try:
            iterator.status()  # raises what ended the iteration early
        except Exception as error:
            raise explained(self._folder, error) from error


def write_rows(database: Any, changes: Changes) -> None:
    """Write all of these rows or none, in one batch; None removes one. Raises what RocksDB raises."""
    batch = WriteBatch(raw_mode=True)
    for key, value in changes.items():
        if value is None:
            batch.delete(key)
        else:
            batch.put(key, value)
    database.write(batch)
