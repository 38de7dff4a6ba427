"""A worker's local state from beside it, running or stopped: the databases of a data directory, one
for each partition.

Each is opened by RocksDB read-only: without the lock, with all table files open from the start, so
what the worker compacts away meanwhile stays readable. It shows the state at one moment between two
commits (a commit is one atomic batch), and stays at it. Only while it is being opened could it miss
rows: those of a log that the worker writes out to a table file and removes after the manifest was
read and before the log would have been. Every such step is recorded in the manifest, so a view
counts only if the manifest is the same before and after.

A RocksDB *secondary* instance would follow the worker, which is not needed here, and it forgives
too much: where a table file is damaged it goes back to an older set of files, and says nothing.
"""

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rocksdict import AccessType, Options, Rdict

from worker.errors import SetupError
from worker.state import TABLE_NAME, Fingerprint, read_applied, read_fingerprint
from worker.storage.lock import is_running
from worker.storage.rows import RocksRows, check_files, explained

OPEN_SECONDS = 30
"""How long a database of a running worker is tried again; each try takes some hundredths of a
second.
"""

TRIES = 5
"""How often a running worker's database may fail to open, its manifest standing still, before it
counts as damaged.
"""


@dataclass(frozen=True, slots=True)
class StoredPartition:
    """One partition's rows at one moment, and what they were made with."""

    number: int
    rows: RocksRows
    next_offset: int
    """Source offset of the next event."""
    dimension: int
    k: int
    distinct: bool
    partitions: int
    """Of the input topic."""
    topic: str
    """The input topic."""
    model: str
    """Of the engine, `processing.config.NO_MODEL` where there was none."""


def databases(data_dir: Path) -> dict[int, Path]:
    """By partition, ascending. Faust keeps them as `v1/tables/entities-0.db`."""
    found = {}
    for path in data_dir.glob(f"v*/tables/{TABLE_NAME}-*.db"):
        if match := re.fullmatch(rf"{TABLE_NAME}-([0-9]+)\.db", path.name):
            found[int(match[1])] = path
    return dict(sorted(found.items()))


def some_databases(data_dir: Path) -> dict[int, Path]:
    """The databases by partition, as `databases`; SetupError where there are none."""
    found = databases(data_dir)
    if not found:
        raise SetupError(
            f"there is no state of a worker in {data_dir}: none has used it as COVERSUMM_DATA_DIR; set that to the worker's, or "
            "name the directory by --data-dir"
        )
    return found


@contextmanager
def stored_partition(number: int, path: Path) -> Iterator[StoredPartition | None]:
    """A partition as of its last commit; None where it has seen no event yet.

    Raises:
        StateError: files or rows are not what was written.
        SetupError: the worker writes too fast to be looked at.
    """
    with _opened(path) as database:
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
            made.partitions,
            made.topic,
            made.model,
        )


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    database = _open(path)
    try:
        yield database
    finally:
        database.close()


def _open(path: Path) -> Any:
    tries = TRIES if is_running(path.parents[2]) else 1
    if tries == 1:
        check_files(path)
    options = Options(raw_mode=True)
    options.set_max_open_files(-1)  # all at once: those that the worker removes stay readable
    read_only = AccessType.read_only(error_if_log_file_exist=False)
    give_up = time.monotonic() + OPEN_SECONDS
    while True:
        before = manifest(path)
        try:
            database = Rdict(str(path), options, access_type=read_only)
        except Exception as error:  # a file may have gone between being named and being opened
            tries -= manifest(path) == before
            if not tries:
                raise explained(path, error) from error
        else:
            if manifest(path) == before:
                return database
            database.close()
        if time.monotonic() > give_up:
            raise SetupError(
                f"the database {path} could not be read at one moment within {OPEN_SECONDS} s, so fast it is written: "
                "try again when the worker is less busy"
            )


def manifest(path: Path) -> tuple[str, int] | None:
    """Name and size of a database's present manifest, which only ever grows; None where there is
    none at this moment.
    """
    try:
        name = (path / "CURRENT").read_text().strip()
        return name, (path / name).stat().st_size
    except FileNotFoundError:
        return None
