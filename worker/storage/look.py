"""A look at a database from any thread, whatever its owner writes meanwhile: rows as of one moment between two commits.

All of it comes from one RocksDB iterator, which is a consistent view from its making on. (A `Snapshot` of rocksdict is none: the
iterators made from one see what is written after it.)
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rocksdict import ReadOptions

from worker.state.store import successor
from worker.storage.files import explained


class NotOpen(Exception):
    """The partition's database is not open here, or not any more."""


class Look:
    """Rows of a database as they are now; see `Rows`. One scan at a time, and nothing else before its end.

    It keeps the database open, so whoever closes that calls `interrupt`, and waits for `close`.
    """

    def __init__(self, database: Any, folder: Path, within: bytes) -> None:
        """`within`: a prefix; rows beyond the last that starts with it are not seen."""
        options = ReadOptions()
        upper = successor(within)
        if upper is not None:  # keeps the iterator from walking through removed rows beyond
            options.set_iterate_upper_bound(upper)
        self._options = options  # the iterator points to the bound in it, and has no copy
        self._iterator = database.iter(options)
        self._folder = folder
        self._is_interrupted = False

    def interrupt(self) -> None:
        """Let whoever reads meet NotOpen at the next row; from any thread."""
        self._is_interrupted = True

    def close(self) -> None:
        """Let go of the database."""
        self._iterator = None

    def get(self, key: bytes) -> bytes | None:
        """See `Rows`. Raises NotOpen, DamagedDatabase."""
        found, value = next(self._from(key), (None, b""))
        return value if found == key else None

    def scan(self, prefix: bytes, start: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
        """See `Rows`. Raises NotOpen, DamagedDatabase."""
        for key, value in self._from(max(prefix, start or prefix)):
            if not key.startswith(prefix):
                return
            yield key, value

    def _from(self, start: bytes) -> Iterator[tuple[bytes, bytes]]:
        """All rows from a key on. It asks for the iterator each time, so that a frame which is left over holds no database."""
        self._iterator.seek(start)
        while self._iterator.valid():
            if self._is_interrupted:
                raise NotOpen
            yield self._iterator.key(), self._iterator.value()
            self._iterator.next()
        try:
            self._iterator.status()  # raises what ended the iteration early
        except Exception as error:
            raise explained(self._folder, error) from error
