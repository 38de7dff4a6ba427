"""A stopped worker's local state, read-only: the databases of a data directory, one for each partition."""

import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from worker.errors import SurroundingsError
from worker.state import RocksRows, read_applied, read_fingerprint
from worker.stream.topics import TABLE_NAME


@dataclass(frozen=True, slots=True)
class StoredPartition:
    """One partition's rows, and what they were made with."""

    number: int
    rows: RocksRows
    next_offset: int
    """Source offset of the next event."""
    dimension: int
    k: int
    distinct: bool


@contextmanager
def stored_partitions(data_dir: Path) -> Iterator[list[StoredPartition]]:
    """The partitions that have rows, by number. SurroundingsError: no state there, or its worker is running."""
    paths = _databases(data_dir)
    if not paths:
        raise SurroundingsError(
            f"there is no state of a worker in {data_dir}: name its COVERSUMM_DATA_DIR by --data-dir"
        )
    with _locked(data_dir), ExitStack() as opened:
        yield [
            part
            for number, path in sorted(paths.items())
            if (part := _open(opened, number, path)) is not None
        ]


def _databases(data_dir: Path) -> dict[int, Path]:
    """By partition: Faust keeps them as `v1/tables/entities-0.db`."""
    found = {}
    for path in data_dir.glob(f"v*/tables/{TABLE_NAME}-*.db"):
        if match := re.fullmatch(rf"{TABLE_NAME}-([0-9]+)\.db", path.name):
            found[int(match[1])] = path
    return found


@contextmanager
def _locked(data_dir: Path) -> Iterator[None]:
    """Keep workers out meanwhile, other readers not."""
    try:
        lock = os.open(data_dir / "lock", os.O_RDONLY)
    except FileNotFoundError:
        yield
        return
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError as cause:
            raise SurroundingsError(
                f"the worker of {data_dir} is running: stop it first, or ask it with `coversumm-worker inspect --url`"
            ) from cause
        yield
    finally:
        os.close(lock)


def _open(opened: ExitStack, number: int, path: Path) -> StoredPartition | None:
    from rocksdict import AccessType, Options, Rdict

    try:
        database = Rdict(str(path), Options(raw_mode=True), access_type=AccessType.read_only())
    except Exception as cause:
        raise SurroundingsError(f"the database {path} cannot be opened ({cause})") from cause
    opened.callback(database.close)
    rows = RocksRows(database)
    fingerprint, applied = read_fingerprint(rows), read_applied(rows)
    if fingerprint is None or applied is None:
        return None  # no event yet
    return StoredPartition(
        number,
        rows,
        applied.next_offset,
        int(fingerprint["dimension"]),
        int(fingerprint["k"]),
        fingerprint["distinct"] == "True",
    )
