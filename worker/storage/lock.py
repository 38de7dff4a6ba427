"""Locks a folder that one process may write: a worker's data directory, or a vector store."""

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from worker.errors import SetupError

_NAME = "lock"
_DATA_DIR = "COVERSUMM_DATA_DIR"
_DEFAULTS = Path("~/.local/state").expanduser()  # created where it is missing
FULL = (errno.ENOSPC, errno.EDQUOT)


def lock_data_dir(data_dir: Path, *, of_replay: bool = False) -> None:
    """Lock the data directory until the process ends. Raises SetupError if that is impossible.

    That of a replay lies in a worker's, which is created too.
    """
    if of_replay:
        os.close(_file(data_dir.parent))
    if not _lock(_file(data_dir), fcntl.LOCK_EX):
        raise SetupError(
            f"COVERSUMM_DATA_DIR={data_dir} is in use by another worker: give each worker its own "
            "directory"
        )


@contextmanager
def held(data_dir: Path) -> Iterator[None]:
    """Keep workers out of the data directory. Raises SetupError if one is running."""
    file = _file(data_dir)
    try:
        if not _lock(file, fcntl.LOCK_EX):
            raise _running(data_dir)
        yield
    finally:
        os.close(file)


def refuse_running(data_dir: Path) -> None:
    """Raise SetupError if a worker holds the data directory; unlike `held`, write nothing."""
    if is_running(data_dir):
        raise _running(data_dir)


def is_running(data_dir: Path) -> bool:
    """True if a worker holds the data directory now."""
    try:
        file = os.open(data_dir / _NAME, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        return not _lock(file, fcntl.LOCK_SH)
    finally:
        os.close(file)


def try_lock(folder: Path, variable: str) -> int | None:
    """Lock a folder until the returned file is closed; None if another process holds it.

    Raises SetupError, which names `variable`, if the folder cannot be written.
    """
    file = _file(folder, variable)
    if _lock(file, fcntl.LOCK_EX):
        return file
    os.close(file)
    return None


def _file(folder: Path, variable: str = _DATA_DIR) -> int:
    """The open lock file; creates it and its folder. A data directory is its owner's alone, since
    it has texts of reviews; several users may share a vector store, which has none.

    Refuses a folder below one that does not exist, except in the current folder: if its volume is
    not mounted, the worker would fill the disk below.
    """
    try:
        # not of the root, which everything is below
        own = [_DEFAULTS, *([here] if (here := Path.cwd()) != Path(here.root) else [])]
        if not folder.parent.exists() and not any(map(folder.absolute().is_relative_to, own)):
            raise SetupError(
                f"{variable}={folder}: there is no folder {folder.parent}; mount its volume, or "
                "create it if it is right"
            )
        folder.mkdir(parents=True, exist_ok=True)
        if variable == _DATA_DIR:
            with suppress(PermissionError):  # of another owner
                folder.chmod(0o700)
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
    """True if the lock was free; closing the file releases it."""
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _running(data_dir: Path) -> SetupError:
    return SetupError(
        f"COVERSUMM_DATA_DIR={data_dir} is in use: its worker is running; stop it first"
    )
