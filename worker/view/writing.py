"""Destinations of bytes: standard output, or a file that appears complete or not at all."""

import gzip
import os
import stat
import sys
from collections.abc import Iterable
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from select import POLLERR, POLLHUP, poll
from typing import IO

from worker.errors import SetupError
from worker.view import output


class Sink(AbstractContextManager["Sink"]):
    """Takes bytes."""

    def write(self, data: bytes) -> None:
        """Write all. Raises SetupError; BrokenPipeError without a reader, also for empty `data`."""

    def keep(self) -> str | None:
        """Keep what was written before the run ended early. Returns the file that has it; None if
        its readers have it already. Raises SetupError.
        """
        return None

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        pass


def sink(path: str | None) -> Sink:
    """Standard output, or the file `path`. Raises SetupError if there is no standard output."""
    if path is None or (Path(path).exists() and not Path(path).is_file()):
        return Stream(path)
    return NewFile(path)


def refuse_inputs(target: str | None, paths: Iterable[str]) -> None:
    """Raise SetupError if writing the target would overwrite one of these files."""
    written = () if target is None else (target, partial_file(target))
    for name in written:
        if any(is_same_file(path, name) for path in paths):
            raise SetupError(f"{name} is an input file: name another one with -o")


class Stream(Sink):
    """Standard output, a pipe or a device, flushed after each write."""

    def __init__(self, path: str | None) -> None:
        self._path = path
        if path is not None:
            with output.explaining_errors(path):
                self._stream: IO[bytes] = Path(path).open("wb")  # noqa: SIM115 - closed at exit
        elif sys.stdout is None:
            raise SetupError("standard output is closed: pipe it somewhere, or name a file with -o")
        else:
            self._stream = sys.stdout.buffer
        self._readers = poll()
        self._readers.register(self._stream.fileno(), 0)

    def write(self, data: bytes) -> None:
        if any(event & (POLLERR | POLLHUP) for _, event in self._readers.poll(0)):
            raise BrokenPipeError
        with output.explaining_errors(self._path):
            self._stream.write(data)
            self._stream.flush()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._path is not None:
            with suppress(OSError):  # everything is flushed already
                self._stream.close()


class NewFile(Sink):
    """A file, gzip if its name ends in .gz, that replaces an old one when the block succeeds."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._target = Path(os.path.realpath(path))
        self._part = self._target.with_name(f".{self._target.name}.{os.getpid()}.part")
        with output.explaining_errors(path):
            self._raw = self._part.open("xb")
        self._stream: IO[bytes] = self._raw
        if self._target.suffix == ".gz":
            self._stream = gzip.GzipFile("", "wb", fileobj=self._raw, mtime=0)  # type: ignore[assignment]

    def write(self, data: bytes) -> None:
        with output.explaining_errors(self._path):
            self._stream.write(data)

    def keep(self) -> str | None:
        """See `Sink`: the file itself stays as it is, since it would be incomplete."""
        path = partial_file(self._path)
        with output.explaining_errors(path):
            self._finish(Path(os.path.realpath(path)))
        return path

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                with output.explaining_errors(self._path):
                    self._finish(self._target)
        finally:
            with suppress(OSError):
                self._raw.close()
            self._part.unlink(missing_ok=True)

    def _finish(self, target: Path) -> None:
        if self._stream is not self._raw:
            self._stream.close()
        self._raw.flush()
        os.fsync(self._raw.fileno())
        if self._target.exists():
            self._part.chmod(stat.S_IMODE(self._target.stat().st_mode))
        self._part.replace(target)


def partial_file(path: str) -> str:
    """The file that has the output so far if a run ends early."""
    return f"{path}.part"


def is_same_file(path: str, other: str) -> bool:
    """True if two paths name the same existing file."""
    with suppress(OSError):
        return os.path.samefile(path, other)
    return False
