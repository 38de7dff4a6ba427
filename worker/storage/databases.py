"""A worker's databases, one for each partition, with shared limits for memory and open files.

By default every database has its own block cache, write buffers and index blocks, so memory would
grow with the partitions that a rebalance assigns. Here all share:

- one block cache. It holds index and filter blocks too, and write buffers count against its
  capacity, which is the memory limit;
- one write buffer manager: beyond a quarter of the memory limit the next write flushes its
  database;
- the open files: each database may keep open its share of the process's limit.

Each write buffer gets its share of the manager's limit. Otherwise idle databases could use up that
limit, and a busy one would flush at every write.
"""

import gc
import resource
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Protocol

from rocksdict import BlockBasedOptions, Cache, Options, Rdict, ReadOptions, WriteBufferManager

from worker.errors import CoversummError, SetupError, many
from worker.state import TABLE_NAME, Changes, Rows
from worker.storage.rows import Look, NotOpen, RocksRows, check_files, explained, write_rows

WRITE_SHARE = 4  # share of the memory limit that write buffers may take; a database has up to two
MIN_WRITE_BUFFER, MAX_WRITE_BUFFER = 256 * 2**10, 8 * 2**20
ARENA_BLOCK = 64 * 2**10
"""Bytes by which a write buffer grows: RocksDB's 1 MiB would be too much for a single row."""
BLOOM_BITS = 10
TABLE_FILE = 32 * 2**20  # bytes of a table file

HELD = "held"  # the file in which the data directory has the partitions that it held last

INFO_LOGS, INFO_LOG_BYTES = 3, 2**20  # number and size of RocksDB's log files of a database

MIN_OPEN_FILES, MAX_OPEN_FILES = 20, 200
"""Table files a database keeps open; RocksDB takes no fewer than 20."""
OTHER_FILES = 8  # other open files of a database: logs, manifest, lock, directory, new tables
SPARE_FILES = 256  # files for connections, libraries and the model


class PartitionDatabases(Protocol):
    """A database for each partition, opened at its first use."""

    def open(self, partition: int) -> Any:
        """The partition's open database, created if it does not exist."""

    def rows(self, partition: int) -> Rows:
        """The partition's rows."""

    def look(self, partition: int, within: bytes) -> AbstractContextManager[Rows]:
        """A snapshot of its rows up to the last that starts with `within`, for any thread.

        Raises NotOpen if it is not open, or is closed during the read.
        """

    def write(self, partition: int, changes: Changes) -> None:
        """Write all of these rows or none; None removes one."""

    def close(self, partitions: Iterable[int] | None = None) -> None:
        """Close the open ones of these partitions, by default all."""

    def wipe(self, partition: int) -> None:
        """Delete the database."""

    @property
    def memory_bytes(self) -> int:
        """Memory of the open databases."""


class Databases:
    """The databases in a data directory, with shared limits; see `PartitionDatabases`.

    `memory_bytes` limits all databases together, whose number is at most `partitions`. `die` ends
    the process if a database cannot be opened, whichever thread opens it. Raises SetupError if the
    process may not open enough files.
    """

    def __init__(
        self,
        data_dir: Path,
        memory_bytes: int,
        partitions: int,
        die: Callable[[BaseException], object],
    ) -> None:
        self._data_dir = data_dir
        self._die = die
        self._open: dict[int, Rdict] = {}
        self._lock = threading.Lock()
        self._looks: dict[int, set[Look]] = {}
        self._look_ended = threading.Condition(self._lock)
        write_bytes = memory_bytes // WRITE_SHARE
        self.write_buffer_bytes = min(
            max(write_bytes // partitions, MIN_WRITE_BUFFER), MAX_WRITE_BUFFER
        )
        self.open_files = open_files_each(partitions, _file_limit())
        self._cache = Cache(memory_bytes)
        self._write_buffers = WriteBufferManager.new_write_buffer_manager_with_cache(
            write_bytes,
            # A stalled writer waits for flushes of other databases: a full disk would hang it.
            False,
            self._cache,
        )

    @property
    def memory_bytes(self) -> int:
        """Memory of blocks, indexes, filters and write buffers."""
        return int(self._cache.get_usage())

    def open(self, partition: int) -> Rdict:
        """See `PartitionDatabases`. A damaged database, or a full disk, ends the process."""
        with self._lock:  # RocksDB opens a database once, and several threads may open it
            if partition not in self._open:
                self._open[partition] = self._opened(database_path(self._data_dir, partition))
            return self._open[partition]

    def _opened(self, path: Path) -> Rdict:
        try:
            check_files(path)
            path.parent.mkdir(parents=True, exist_ok=True)
            database = Rdict(str(path), options=self._options())
        except Exception as error:
            cause = explained(path, error)
            if isinstance(cause, CoversummError):
                # Faust would retry or only log it; the web server would answer 500.
                self._die(cause)
            raise cause from error
        database.set_read_options(ReadOptions())
        return database

    def rows(self, partition: int) -> RocksRows:
        return RocksRows(self.open(partition), database_path(self._data_dir, partition))

    @contextmanager
    def look(self, partition: int, within: bytes) -> Iterator[Look]:
        """See `PartitionDatabases`. Never opens a database: only a takeover does."""
        with self._lock:
            if partition not in self._open:
                raise NotOpen
            look = Look(self._open[partition], database_path(self._data_dir, partition), within)
            self._looks.setdefault(partition, set()).add(look)
        try:
            yield look
        finally:
            look.close()
            with self._lock:
                self._looks[partition].remove(look)
                self._look_ended.notify_all()

    def write(self, partition: int, changes: Changes) -> None:
        """See `PartitionDatabases`. Raises DamagedDatabase, and Crash if the disk is full."""
        database = self.open(partition)
        try:
            write_rows(database, changes)
        except Exception as error:
            raise explained(database_path(self._data_dir, partition), error) from error

    def close(self, partitions: Iterable[int] | None = None) -> None:
        """See `PartitionDatabases`. Ends looks; other readers keep their database open."""
        with self._lock:
            closing = list(self._open) if partitions is None else list(partitions)
            for partition in closing:
                self._open.pop(partition, None)
                for look in self._looks.get(partition, ()):
                    look.interrupt()
            self._look_ended.wait_for(
                lambda: not any(self._looks.get(partition) for partition in closing)
            )
        gc.collect()  # a database closes with its last reference

    def wipe(self, partition: int) -> None:
        self.close([partition])
        Rdict.destroy(str(database_path(self._data_dir, partition)))

    def _options(self) -> Options:
        blocks = BlockBasedOptions()
        blocks.set_block_cache(self._cache)
        blocks.set_cache_index_and_filter_blocks(True)
        blocks.set_pin_l0_filter_and_index_blocks_in_cache(True)
        blocks.set_bloom_filter(BLOOM_BITS, block_based=False)
        options = Options(raw_mode=True)
        options.create_if_missing(True)
        options.set_block_based_table_factory(blocks)
        options.set_write_buffer_manager(self._write_buffers)
        options.set_write_buffer_size(self.write_buffer_bytes)
        options.set_max_write_buffer_number(2)
        options.set_arena_block_size(ARENA_BLOCK)
        options.set_target_file_size_base(TABLE_FILE)
        options.set_max_open_files(self.open_files)
        options.set_keep_log_file_num(INFO_LOGS)  # by default a thousand of unlimited size
        options.set_max_log_file_size(INFO_LOG_BYTES)
        return options


def database_path(data_dir: Path, partition: int) -> Path:
    """The path at which Faust expects the database of a partition."""
    return data_dir / "v1" / "tables" / f"{TABLE_NAME}-{partition}.db"


def note_held(data_dir: Path, partitions: Iterable[int]) -> None:
    """Note which partitions have all their rows here, for `read_held`. Raises OSError."""
    (data_dir / HELD).write_text(" ".join(map(str, sorted(partitions))))


def read_held(data_dir: Path, partitions: int) -> list[int]:
    """The partitions below a number that were noted last, and whose rows are there."""
    try:
        noted = [int(number) for number in (data_dir / HELD).read_text().split()]
    except (OSError, ValueError):
        return []
    return [p for p in noted if p in range(partitions) and database_path(data_dir, p).exists()]


def open_files_each(partitions: int, file_limit: int) -> int:
    """Table files that each database may keep open. Raises SetupError if they are too few."""
    each = (file_limit - SPARE_FILES) // partitions - OTHER_FILES
    if each < MIN_OPEN_FILES:
        needed = SPARE_FILES + partitions * (MIN_OPEN_FILES + OTHER_FILES)
        raise SetupError(
            f"this process may open {file_limit} files, and the state of "
            f"{many(partitions, 'partitions')} may need {needed}: raise the limit "
            f"(`ulimit -n {needed}`, LimitNOFILE= of systemd)"
        )
    return min(each, MAX_OPEN_FILES)


def _file_limit() -> int:
    """The process's limit of open files, after raising it as far as allowed."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2**16 if hard == resource.RLIM_INFINITY else min(hard, 2**16)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft = wanted
    return 2**16 if soft == resource.RLIM_INFINITY else soft
