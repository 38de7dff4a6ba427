"""Committed rows in a RocksDB database: the worker's own, or another process's snapshot."""

import re
import struct
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from rocksdict import AccessType, Options, Rdict, ReadOptions, WriteBatch

from worker.errors import CoversummError, Crash
from worker.state.errors import DamagedDatabase
from worker.state.store import Changes, successor

# A record of a log: checksum u32, length u16, type u8, in recycled logs the log's number u32; then
# a write batch, which begins with the sequence number of its first row. Header bytes by the type of
# the record: a complete batch or its first part, and the same in a recycled log.
_HEADER_BYTES = {1: 7, 2: 7, 5: 11, 6: 11}
_TYPE_AT = 6
_SEQUENCE = struct.Struct("<Q")
_HEAD_BYTES = 11 + _SEQUENCE.size


def check_files(folder: Path) -> None:
    """Raise DamagedDatabase if rows are missing between manifest and logs. Writes nothing."""
    if not (folder / "CURRENT").exists():
        return  # no database, or one without any row: it is restored from the start
    begins = _first_sequence(folder)
    if begins is None:
        return
    ends = _manifest_sequence(folder)
    if begins > ends + 1:
        raise DamagedDatabase(
            str(folder),
            f"its manifest ends at write {ends} and its log begins at {begins}: files with the "
            "writes between are lost",
        )


def _first_sequence(folder: Path) -> int | None:
    """Sequence number of the first write in the oldest log with any; None if unreadable."""
    for path in sorted(folder.glob("*.log"), key=lambda path: int(path.stem)):
        with path.open("rb") as log:
            head = log.read(_HEAD_BYTES)
        if head:
            header = _HEADER_BYTES.get(head[_TYPE_AT]) if len(head) > _TYPE_AT else None
            if header is None or len(head) < header + _SEQUENCE.size:
                return None  # RocksDB truncates such a log to nothing
            return int(_SEQUENCE.unpack_from(head, header)[0])
    return None


def _manifest_sequence(folder: Path) -> int:
    """The last write in the manifest, without the logs."""
    options = Options(raw_mode=True)
    options.set_wal_dir(str(folder.parent))  # a folder without logs
    options.set_max_open_files(20)  # or every table file would be opened
    try:
        database = Rdict(
            str(folder), options, access_type=AccessType.read_only(error_if_log_file_exist=False)
        )
    except Exception as error:
        raise explained(folder, error) from error
    with closing(database):
        return int(database.latest_sequence_number())


def explained(folder: Path | str, error: Exception) -> Exception:
    """RocksDB's error as DamagedDatabase, or Crash for a full disk; any other error as it is."""
    if isinstance(error, CoversummError):
        return error
    text = str(error)
    if any(full in text for full in ("No space left on device", "Disk quota exceeded")):
        return Crash(
            f"the disk of {folder} is full ({_first_line(text)}): the worker ends, and so does "
            "every start of it until there is room; nothing is lost, and nothing has to be repaired"
        )
    about_files = re.search(r"\b(sst|manifest|current)\b", text, re.IGNORECASE)
    if text.startswith(("Corruption:", "IO error: No such file")) or (
        text.startswith("Invalid argument:") and about_files
    ):
        return DamagedDatabase(str(folder), _first_line(text))
    return error


def _first_line(text: str) -> str:
    return " ".join(text.split("\n")[0].split()).rstrip(".")


class RocksRows:
    """Reads the rows of an `rocksdict.Rdict` in raw mode, or of a snapshot of one.

    The database's owner writes rows with their changelog offset in one `WriteBatch`. A scan is one
    RocksDB iterator, a consistent view during later writes. Both methods raise DamagedDatabase,
    which names `folder`, if RocksDB cannot read its files.
    """

    def __init__(self, database: Any, folder: Path | str = "") -> None:
        self._database = database
        self._folder = folder
        self._get = database.get

    def get(self, key: bytes) -> bytes | None:
        try:
            value: bytes | None = self._get(key)
        except Exception as error:
            raise explained(self._folder, error) from error
        return value

    def scan(self, prefix: bytes, start: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
        options = ReadOptions()
        upper = successor(prefix)
        # Otherwise the iterator walks through removed rows beyond the prefix.
        if upper is not None:
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
    """Write all of these rows or none, in one batch; None removes one. Raises RocksDB's errors."""
    batch = WriteBatch(raw_mode=True)
    for key, value in changes.items():
        if value is None:
            batch.delete(key)
        else:
            batch.put(key, value)
    database.write(batch)


class NotOpen(Exception):
    """The partition's database is not open in this worker, or was closed."""


class Look:
    """A snapshot of a database's rows; see `Rows`. Allows nothing else until a scan ends.

    It keeps the database open. To close that, call `interrupt`, and wait for `close`.
    """

    def __init__(self, database: Any, folder: Path, within: bytes) -> None:
        """`within`: a prefix; the snapshot ends at the last row that starts with it."""
        options = ReadOptions()
        upper = successor(within)
        if upper is not None:  # otherwise the iterator walks through removed rows beyond
            options.set_iterate_upper_bound(upper)
        self._options = options  # the iterator points to the bound in it, without a copy
        self._iterator = database.iter(options)
        self._folder = folder
        self._is_interrupted = False

    def interrupt(self) -> None:
        """Make the reader raise NotOpen at its next row; from any thread."""
        self._is_interrupted = True

    def close(self) -> None:
        """Release the database."""
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
        """All rows from a key on. A suspended frame holds no local iterator, so no database."""
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
