"""The vector store: vectors by engine and exact text, in a RocksDB database.

Several processes of a machine may share it. The process that holds the folder's lock writes; the
others read a snapshot, which they renew regularly, and do not store what their engines embed. When
the writer ends, one of them becomes the writer.

RocksDB's FIFO compaction limits the size: it never merges tables, and drops the oldest. The store
is a cache: a damaged, dropped or missing vector is embedded again, with the same bits. So after an
error the worker logs one line and continues without the store.
"""

import json
import logging
import os
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from rocksdict import (
    AccessType,
    BlockBasedOptions,
    DBCompactionStyle,
    DBCompressionType,
    FifoCompactOptions,
    Options,
    Rdict,
    WriteBatch,
)

from worker.clock import Clock
from worker.errors import SetupError
from worker.settings import Settings
from worker.state.vector_rows import ENGINE, VECTOR, VectorRows, engine_of
from worker.storage.lock import try_lock
from worker.storage.snapshot import manifest
from worker.text.engine import EmbeddingEngine
from worker.text.identity import EngineIdentity, engine_identity

log = logging.getLogger(__name__)

VARIABLE: Final = "COVERSUMM_VECTOR_STORE_DIR"
DATABASE: Final = "vectors.db"
LOOK_SECONDS: Final = 10.0  # between two snapshots of a reader, and two measurements of the size

TABLES: Final = 64  # tables within the size limit: a lookup may read each, the oldest is dropped
MAX_TABLE: Final = 64 * 2**20
"""Bytes of a table: two are in memory during writes. Beyond 4 GiB there are more tables."""
BESIDE: Final = 8
"""The size of other files, in tables: logs of two write buffers, logs that are still to be
removed, the oldest table, small files. Measured: four, more on a busy machine.
"""
BLOOM_BITS: Final = 10
BLOCK_BYTES: Final = 16 * 2**10  # of a block, some twenty vectors: smaller ones need larger indexes
TRIES: Final = 5  # failed attempts to open a snapshot with one manifest until the store is damaged
OPEN_SECONDS: Final = 1.0
"""Seconds to retry a snapshot of a changing store; an attempt takes some milliseconds."""
INFO_LOGS, INFO_LOG_BYTES = 2, 64 * 2**10


class DamagedStore(SetupError):
    """RocksDB cannot use the store's files. The message is one line."""

    def __init__(self, folder: Path, error: Exception) -> None:
        problem = " ".join(str(error).split("\n")[0].split()).rstrip(".")
        super().__init__(
            f"the vector store {VARIABLE}={folder} cannot be used ({problem}): make room if the "
            "disk is full, else delete the folder: it is only a cache, and fills again"
        )


class BusyStore(SetupError):
    """The writer drops tables faster than a snapshot can be opened."""

    def __init__(self, folder: Path) -> None:
        super().__init__(
            f"no consistent snapshot of the vector store {VARIABLE}={folder} within "
            f"{OPEN_SECONDS:g} s: writes are too frequent; try again when its writer is less busy"
        )


def open_vector_store(settings: Settings, engine: EmbeddingEngine | None) -> "StoredVectors | None":
    """The settings' vector store for this engine; None without one.

    A damaged store is logged and not used: it only saves time. Raises SetupError if its folder
    cannot be written.
    """
    if settings.vector_store_dir is None or engine is None:
        return None
    identity = engine_identity(engine)
    try:
        return StoredVectors(settings.vector_store_dir, settings.vector_store_bytes, identity)
    except DamagedStore as error:
        log.warning("%s; continuing without it", error)
        return None


class StoredVectors:
    """The vectors of one engine; see `worker.processing.embed.VectorStore`. Not thread-safe."""

    def __init__(
        self, folder: Path, max_bytes: int, identity: EngineIdentity, clock: Clock = time
    ) -> None:
        """Opens it to read if another process writes. Raises SetupError and DamagedStore."""
        self._folder = folder
        self._path = folder / DATABASE
        self._max_bytes = max_bytes
        self._rows = VectorRows(identity.digest, identity.dimension)
        # A write buffer takes a complete batch, however full it is: small batches keep tables to
        # their size.
        self._at_once = max(1, _table_bytes(max_bytes) // (8 * identity.dimension))
        self._description = json.dumps(identity._asdict()).encode()
        self._clock = clock
        self._lock: int | None = None
        self._database: Any = None
        self._warned: set[str] = set()
        self.disk_bytes = 0
        self._role = ""
        self._open()

    @property
    def is_writer(self) -> bool:
        """True if this process writes the store."""
        return self._lock is not None

    def find(self, texts: Sequence[str]) -> dict[str, NDArray[np.int16]]:
        try:
            self._look_again()
            return self.read(texts)
        except SetupError as error:
            self._give_up(error)
            return {}

    def add(self, vectors: Mapping[str, NDArray[np.int16]]) -> None:
        if self.is_writer and vectors:
            try:
                self.write(vectors)
            except SetupError as error:
                self._give_up(error)

    def _warn_once(self, line: str, *facts: object) -> None:
        if line not in self._warned:
            self._warned.add(line)
            log.warning(line, self._folder, *facts)

    def _give_up(self, error: SetupError) -> None:
        log.warning("%s; continuing without it", error)
        self.close()
        self._looks_again_at = float("inf")

    def read(self, texts: Sequence[str]) -> dict[str, NDArray[np.int16]]:
        """The stored vectors of these texts. Raises DamagedStore."""
        if self._database is None:
            return {}
        try:
            values = self._database.get([self._rows.key(text) for text in texts])
        except Exception as error:
            raise DamagedStore(self._folder, error) from error
        found = {}
        for text, value in zip(texts, values, strict=True):
            if value is None:
                continue
            vector = self._rows.decode(text, value)
            if vector is not None:
                found[text] = vector
            else:
                self._warn_once("vector store %s: a row is damaged; damaged rows count as absent")
        return found

    def write(self, vectors: Mapping[str, NDArray[np.int16]]) -> None:
        """Store vectors. Raises DamagedStore, also for a full disk; some may be stored then."""
        rows = iter(vectors.items())
        while part := list(islice(rows, self._at_once)):
            batch = WriteBatch(raw_mode=True)
            for text, vector in part:
                batch.put(self._rows.key(text), self._rows.encode(text, vector))
            # Each time: earlier ones are dropped with their tables.
            batch.put(self._rows.engine_key, self._description)
            try:
                self._database.write(batch)
            except Exception as error:
                raise DamagedStore(self._folder, error) from error
        if self._clock.monotonic() >= self._looks_again_at:
            self._measure()

    def close(self) -> None:
        """Close the store, so that another process may write."""
        self._replace(None)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _open(self) -> None:
        """Open to write, else to read; without a database if there is none to read yet."""
        self._lock = try_lock(self._folder, VARIABLE)
        try:
            if self._lock is not None:
                self._replace(Rdict(str(self._path), _options(self._max_bytes)))
            else:
                with suppress(BusyStore):  # the previous snapshot serves until the next attempt
                    self._replace(_view(self._folder))
        except DamagedStore:
            self.close()
            raise
        except Exception as error:
            self.close()
            raise DamagedStore(self._folder, error) from error
        self._measure()
        role = (
            "writes it"
            if self.is_writer
            else "reads it, another one writes: its own vectors are not stored"
        )
        if role != self._role:
            self._role = role
            log.info("vector store %s: this process %s", self._folder, role)

    def _replace(self, database: Any) -> None:
        if self._database is not None:
            # after a failed write, closing fails for the same reason
            with suppress(Exception):
                self._database.close()
        self._database = database

    def _look_again(self) -> None:
        """Read later writes, or become the writer if there is none any more."""
        if not self.is_writer and self._clock.monotonic() >= self._looks_again_at:
            self._open()

    def _measure(self) -> None:
        try:
            self.disk_bytes = disk_bytes(self._path)
        except OSError as error:  # it is for a metric alone
            self._warn_once("vector store %s: its size cannot be measured (%s)", error)
        self._looks_again_at = self._clock.monotonic() + LOOK_SECONDS


class Contents(NamedTuple):
    """A vector store's content for one engine; `engine` describes it, as far as known."""

    engine: dict[str, Any]
    vectors: int


def contents(folder: Path) -> list[Contents]:
    """Contents by engine; reads every key beside a writer. Raises SetupError."""
    database = _view(folder)
    if database is None:
        raise SetupError(
            f"there is no vector store in {VARIABLE}={folder}: nothing was stored there yet"
        )
    try:
        engines = {engine_of(key): json.loads(database[key]) for key in _keys(database, ENGINE)}
        counts = Counter(engine_of(key) for key in _keys(database, VECTOR))
    except Exception as error:
        raise DamagedStore(folder, error) from error
    finally:
        database.close()
    return [Contents(engines.get(engine, {}), count) for engine, count in sorted(counts.items())]


def disk_bytes(path: Path) -> int:
    """Bytes of the files in a folder; files that disappear count as 0."""
    total = 0
    try:
        for entry in os.scandir(path):
            try:
                total += entry.stat().st_size
            except FileNotFoundError:
                continue
    except FileNotFoundError:
        return total
    return total


def _view(folder: Path) -> Any:
    """A snapshot of the database; None if there is none. Raises DamagedStore and BusyStore."""
    path, tries, give_up = folder / DATABASE, TRIES, time.monotonic() + OPEN_SECONDS
    while (before := manifest(path)) is not None:
        try:
            return Rdict(
                str(path),
                _read_options(),
                access_type=AccessType.read_only(error_if_log_file_exist=False),
            )
        except Exception as error:  # a listed table may be removed before it is opened
            tries -= manifest(path) == before
            if not tries:
                raise DamagedStore(folder, error) from error
            if time.monotonic() > give_up:
                raise BusyStore(folder) from error
    return None


def _keys(database: Any, prefix: bytes) -> Iterator[bytes]:
    iterator = database.iter()
    iterator.seek(prefix)
    while iterator.valid() and (key := iterator.key()).startswith(prefix):
        yield key
        iterator.next()
    iterator.status()  # raises what ended the iteration early


def _read_options() -> Options:
    blocks = BlockBasedOptions()
    blocks.set_bloom_filter(BLOOM_BITS, block_based=False)
    blocks.set_block_size(BLOCK_BYTES)
    options = Options(raw_mode=True)
    options.set_block_based_table_factory(blocks)
    options.set_compaction_style(DBCompactionStyle.fifo())
    options.set_max_open_files(-1)  # all at once: files that the writer removes stay readable
    options.set_keep_log_file_num(INFO_LOGS)
    options.set_max_log_file_size(INFO_LOG_BYTES)
    return options


def _table_bytes(max_bytes: int) -> int:
    return min(max_bytes // TABLES, MAX_TABLE)


def _options(max_bytes: int) -> Options:
    table = _table_bytes(max_bytes)
    drop = FifoCompactOptions()
    drop.max_table_files_size = max_bytes - BESIDE * table
    options = _read_options()
    options.create_if_missing(True)
    options.set_fifo_compaction_options(drop)
    options.set_write_buffer_size(table)
    options.set_max_write_buffer_number(2)
    options.set_compression_type(DBCompressionType.none())  # vectors compress like noise
    # All tables stay in level zero.
    options.set_level_zero_slowdown_writes_trigger(2**30)
    options.set_level_zero_stop_writes_trigger(2**30)
    return options
