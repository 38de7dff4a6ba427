"""Files of work that several processes share: claimed with a lock, and replaced when complete."""

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from worker.errors import SetupError


@contextmanager
def claim(path: Path) -> Iterator[bool]:
    """Whether this process has the file for itself until the block ends; False if another one has
    it, or it is gone. A process that is killed has it no longer.

    Raises SetupError where files cannot be locked.
    """
    try:
        file = os.open(path, os.O_RDWR)  # network file systems lock only what is open to write
    except FileNotFoundError:
        yield False
        return
    try:
        yield _lock(file, path)
    finally:
        os.close(file)


def _lock(file: int, path: Path) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as cause:
        raise SetupError(
            f"{path} cannot be locked ({cause.strerror}): use a file system that has locks"
        ) from cause
    return True


@contextmanager
def replacing(target: Path, folder: Path) -> Iterator[IO[bytes]]:
    """A new file in `folder`, of the same file system, that replaces `target` when the block ends
    without an error: complete and on the disk. Raises OSError.
    """
    file, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=folder)
    try:
        with open(file, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(name, 0o644)
        os.replace(name, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(name)
        raise
