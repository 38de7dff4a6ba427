"""A folder that one process at a time may write: a data directory, for as long as its worker lives,
or a vector store.
"""

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from worker.errors import SetupError

_NAME = "lock"
FULL = (errno.ENOSPC, errno.EDQUOT)


def lock_data_dir(data_dir: Path) -> None:
    """Hold the data directory for the life of the process; SetupError when that
    cannot be.
    """
    if not _lock(_file(data_dir), fcntl.LOCK_EX):
        raise SetupError(
            f"COVERSUMM_DATA_DIR={data_dir} is in use by another worker: give each worker a directory of its own"
        )


@contextmanager
def held(data_dir: Path) -> Iterator[None]:
    """Keep workers out of the data directory inside the `with`; SetupError where one is
    running.
    """
    file = _file(data_dir)
    try:
        if not _lock(file, fcntl.LOCK_EX):
            raise _running(data_dir)
        yield
    finally:
        os.close(file)


def refuse_running(data_dir: Path) -> None:
    """Raise SetupError where a worker holds the data directory; unlike `held`, make and keep
    nothing.
    """
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


def try_lock(folder: Path, variable: str) -> int | None:
    """Hold a folder until the file that is returned is closed; None where another process does.

    Raises SetupError, under the name of `variable`, where it cannot be written.
    """
    file = _file(folder, variable)
    if _lock(file, fcntl.LOCK_EX):
        return file
    os.close(file)
    return None


def _file(folder: Path, variable: str = "COVERSUMM_DATA_DIR") -> int:
    """The lock file, opened; made where it is not there, and its directories with it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = os.open(folder / _NAME, os.O_RDWR | os.O_CREAT, 0o644)
        os.truncate(file, 0)
    except OSError as cause:
        what_to_do = (
            "make room" if cause.errno in FULL else "name a directory that this user may write"
        )
        raise SetupError(
            f"{variable}={folder} cannot be written ({cause.strerror}): {what_to_do}"
        ) from cause
    return file


def _lock(file: int, kind: int) -> bool:
    """Whether the file's lock was free; it is held until the file is closed."""
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _running(data_dir: Path) -> SetupError:
    return SetupError(
        f"COVERSUMM_DATA_DIR={data_dir} is in use: its worker is running; stop it first"
    )
