"""Where bytes go that a command makes bit by bit: standard output, or a file that is there whole or
not at all.
"""

import gzip
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from select import POLLERR, POLLHUP, poll
from types import TracebackType
from typing import IO, Protocol

from worker.cli import output
from worker.errors import SetupError


class Sink(AbstractContextManager["Sink"], Protocol):
    """Takes bytes; what it was given is where it belongs when its block ends well."""

    def write(self, data: bytes) -> None:
        """Write all of it. Raises SetupError; BrokenPipeError once nobody reads any more,
        also of empty `data`.
        """


def sink(path: str | None) -> Sink:
    """Standard output, or the file `path`. Raises SetupError where there is no standard
    output.
    """
    if path is None:
        return StandardOutput()
    if Path(path).exists() and not Path(path).is_file():
        return Stream(path)
    return NewFile(path)


class StandardOutput(Sink):
    """Standard output, flushed after each write."""

    def __init__(self) -> None:
        if sys.stdout is None:
            raise SetupError("standard output is closed: pipe it somewhere, or name a file with -o")
        self._stream = sys.stdout.buffer
        self._readers = poll()
        self._readers.register(self._stream.fileno(), 0)

    def write(self, data: bytes) -> None:
        """See `Sink`."""
        if any(event & (POLLERR | POLLHUP) for _, event in self._readers.poll(0)):
            raise BrokenPipeError
        try:
            self._stream.write(data)
            self._stream.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            output.abandon()  # what is left in the buffer must not fail again at exit
            raise SetupError(f"standard output cannot be written ({error.strerror})") from error

    def __exit__(self, *error: object) -> None:
        pass


class Stream(Sink):
    """A pipe or a device with a name."""

    def __init__(self, path: str) -> None:
        self._path = path
        with _told(path):
            self._stream = Path(path).open("wb")  # noqa: SIM115 - closed in __exit__

    def write(self, data: bytes) -> None:
        """See `Sink`."""
        with _told(self._path):
            self._stream.write(data)
            self._stream.flush()

    def __exit__(self, *error: object) -> None:
        with suppress(OSError):  # of what has been flushed nothing is left to fail
            self._stream.close()


class NewFile(Sink):
    """A file, gzip if its name ends in .gz, that replaces what was there when the block ends well,
    and only then.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._target = Path(os.path.realpath(path))
        self._part = self._target.with_name(f".{self._target.name}.{os.getpid()}.part")
        with _told(path):
            self._raw = self._part.open("xb")
        self._stream: IO[bytes] = self._raw
        if self._target.suffix == ".gz":
            self._stream = gzip.GzipFile("", "wb", fileobj=self._raw, mtime=0)  # type: ignore[assignment]

    def write(self, data: bytes) -> None:
        """See `Sink`."""
        with _told(self._path):
            self._stream.write(data)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if kind is None:
                with _told(self._path):
                    self._finish()
        finally:
            with suppress(OSError):
                self._raw.close()
            self._part.unlink(missing_ok=True)

    def _finish(self) -> None:
        if self._stream is not self._raw:
            self._stream.close()
        self._raw.flush()
        os.fsync(self._raw.fileno())
        if self._target.exists():
            self._part.chmod(stat.S_IMODE(self._target.stat().st_mode))
        self._part.replace(self._target)


@contextmanager
def _told(path: str) -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise SetupError(f"{path} cannot be written ({error.strerror or error})") from error


def is_same_file(one: str, other: str) -> bool:
    """Whether two paths name one file that exists."""
    with suppress(OSError):
        return os.path.samefile(one, other)
    return False
