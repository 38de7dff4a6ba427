"""A data directory belongs to one process at a time: the lock that a worker holds for as long as it lives."""

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from worker.errors import SurroundingsError

_NAME = "lock"
FULL = (errno.ENOSPC, errno.EDQUOT)


def lock_data_dir(data_dir: Path) -> None:
    """Hold the data directory for the life of the process; SurroundingsError when that cannot be."""
    if not _lock(_file(data_dir), fcntl.LOCK_EX):
        raise SurroundingsError(
            f"COVERSUMM_DATA_DIR={data_dir} is in use by another worker: give each worker a directory of its own"
        )


@contextmanager
def held(data_dir: Path) -> Iterator[None]:
    """Keep workers out of the data directory inside the `with`; SurroundingsError where one is running."""
    file = _file(data_dir)
    try:
        if not _lock(file, fcntl.LOCK_EX):
            raise _running(data_dir)
        yield
    finally:
        os.close(file)


def refuse_running(data_dir: Path) -> None:
    """Raise SurroundingsError where a worker holds the data directory; unlike `held`, make and keep nothing."""
    if is_running(data_dir):
        raise _running(data_dir)


def is_running(data_dir: Path) -> bool:
    """Whether a worker holds the data directory at this moment."""
    try:
        file = os.open(data_dir / _NAME, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        return not _lock(file, fcntl.LOCK_SH)
    finally:
        os.close(file)


def _file(data_dir: Path) -> int:
    """The lock file, opened; made where it is not there, and its directories with it."""
    try:
        data_dir.mkdir(parents=True, exist_ok=True)
        file = os.open(data_dir / _NAME, os.O_RDWR | os.O_CREAT, 0o644)
        os.truncate(file, 0)
    except OSError as cause:
        what_to_do = "make room" if cause.errno in FULL else "name a directory that this user may write"
        raise SurroundingsError(
            f"COVERSUMM_DATA_DIR={data_dir} cannot be written ({cause.strerror}): {what_to_do}"
        ) from cause
    return file


def _lock(file: int, kind: int) -> bool:
    """Whether the file's lock was free; it is held until the file is closed."""
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _running(data_dir: Path) -> SurroundingsError:
    return SurroundingsError(f"COVERSUMM_DATA_DIR={data_dir} is in use: its worker is running; stop it first")
