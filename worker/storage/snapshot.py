"""Snapshots of the databases in a data directory, for a process beside the worker, running or not.

RocksDB opens each read-only: without the lock, with all table files open from the start, so that
files which the worker compacts stay readable. The snapshot shows the state between two commits (a
commit is one atomic batch). Only the opening could miss rows: those of a log that the worker
flushes to a table file and removes, after the manifest was read and before the log is. The manifest
records every such step, so a snapshot counts only if the manifest is the same before and after.

A RocksDB *secondary* instance would follow the worker, which is not needed here. It also hides
damage: if a table file is broken it silently uses an older set of files.
"""

import re
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rocksdict import AccessType, Options, Rdict

from worker.errors import SetupError
from worker.state import TABLE_NAME, Fingerprint, read_applied, read_fingerprint
from worker.storage.lock import is_running
from worker.storage.rows import RocksRows, check_files, explained

OPEN_SECONDS = 30  # seconds to retry a running worker's database; an attempt takes hundredths
PARTIAL_KEY = b"__faust\0partial__"
"""In the database of a partition whose rows may end amid a transaction of the changelog."""
TRIES = 5  # failed attempts with an unchanged manifest until a running worker's database is damaged


@dataclass(frozen=True, slots=True)
class StoredPartition:
    """A snapshot of one partition's rows, and the settings that they were made with."""

    number: int
    rows: RocksRows
    next_offset: int  # of the input
    dimension: int
    k: int
    distinct: bool
    by_text: bool
    partitions: int  # of the input
    topic: str  # the input
    model: str  # the engine's, or `processing.config.NO_MODEL`
    is_partial: bool
    """True if the rows may contradict each other: a restore was interrupted, or has not ended."""


def databases(data_dir: Path) -> dict[int, Path]:
    """Database paths by partition, ascending. Faust's are `v1/tables/entities-0.db`."""
    found = {}
    for path in data_dir.glob(f"v*/tables/{TABLE_NAME}-*.db"):
        if match := re.fullmatch(rf"{TABLE_NAME}-([0-9]+)\.db", path.name):
            found[int(match[1])] = path
    return dict(sorted(found.items()))


def some_databases(data_dir: Path) -> dict[int, Path]:
    """See `databases`. Raises SetupError if there are none."""
    found = databases(data_dir)
    if not found:
        raise SetupError(
            f"there is no state of a worker in {data_dir}: none has used it as COVERSUMM_DATA_DIR; "
            "set that to the worker's, or name the directory by --data-dir"
        )
    return found


@contextmanager
def stored_partition(number: int, path: Path) -> Iterator[StoredPartition | None]:
    """A partition as of its last commit; None before its first event.

    Raises StateError for damaged files or rows, SetupError if writes are too frequent for a
    snapshot.
    """
    with closing(_open(path)) as database:
        rows = RocksRows(database, path)
        fields, applied = read_fingerprint(rows), read_applied(rows)
        if fields is None or applied is None:
            yield None
            return
        made = Fingerprint.of(fields)
        yield StoredPartition(
            number,
            rows,
            applied.next_offset,
            made.dimension,
            made.k,
            made.distinct,
            made.weigh == "texts",
            made.partitions,
            made.topic,
            made.model,
            rows.get(PARTIAL_KEY) is not None,
        )


def _open(path: Path) -> Any:
    tries = TRIES if is_running(path.parents[2]) else 1
    if tries == 1:
        check_files(path)
    options = Options(raw_mode=True)
    options.set_max_open_files(-1)  # all at once: files that the worker removes stay readable
    read_only = AccessType.read_only(error_if_log_file_exist=False)
    give_up = time.monotonic() + OPEN_SECONDS
    while True:
        before = manifest(path)
        try:
            database = Rdict(str(path), options, access_type=read_only)
        except Exception as error:  # a listed file may be removed before it is opened
            tries -= manifest(path) == before
            if not tries:
                raise explained(path, error) from error
        else:
            if manifest(path) == before:
                return database
            database.close()
        if time.monotonic() > give_up:
            raise SetupError(
                f"no consistent snapshot of the database {path} within {OPEN_SECONDS} s: writes "
                "are too frequent; try again when the worker is less busy"
            )


def manifest(path: Path) -> tuple[str, int] | None:
    """Name and size of a database's manifest, which only grows; None if there is none now."""
    try:
        name = (path / "CURRENT").read_text().strip()
        return name, (path / name).stat().st_size
    except FileNotFoundError:
        return None
