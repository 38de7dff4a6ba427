"""A file, or standard input, opened and unpacked, and what it is."""

from __future__ import annotations

import io
import sys
from collections.abc import Collection, Iterator
from contextlib import ExitStack
from pathlib import Path
from select import select
from types import TracebackType
from typing import IO, BinaryIO, Final, cast

from worker.errors import SurroundingsError
from worker.operations.files.formats import Format, recognize
from worker.operations.files.packing import BUFFER_BYTES, UNREADABLE, unpacked
from worker.operations.files.parquet import ParquetTable

STDIN: Final = "-"
PATIENCE_SECONDS: Final = 0.2
"""How long a pipe may be silent before what has come counts as all for now."""


def check_stdin() -> None:
    """Raise SurroundingsError where the process was started without a standard input."""
    if sys.stdin is None:
        raise SurroundingsError("standard input is closed: name a file, or pipe one in")


class Closing:
    """`with` closes what `__enter__` opened."""

    _opened: ExitStack

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._opened.close()


class OpenedFile(Closing):
    """`with` opens the file and finds out what it is; then it gives lines of text, or a Parquet table."""

    def __init__(self, path: str, name: str, mapped: Collection[str] = ()) -> None:
        """`name` is shown in messages; `mapped`: the names of fields that columns were named for."""
        self._path = path
        self._name = name
        self._mapped = mapped
        self._raw: io.BufferedReader
        self._stream: io.BufferedReader
        self.format: Format

    def __enter__(self) -> OpenedFile:
        """Raises SurroundingsError where the file cannot be opened, or is nothing that can be read here."""
        with ExitStack() as opened:
            try:
                self._raw = cast(io.BufferedReader, opened.enter_context(self._open()))
                self._stream = unpacked(self._raw, self._name)
                head = self._stream.peek(BUFFER_BYTES)
            except UNREADABLE as cause:
                raise SurroundingsError(f"{self._name} cannot be read ({cause})") from cause
            self.format = recognize(head, self._name, self._mapped)
            self._opened = opened.pop_all()
        return self

    @property
    def size(self) -> int | None:
        """Bytes of the file, None where that is not known."""
        return Path(self._path).stat().st_size if self._path != STDIN and Path(self._path).is_file() else None

    @property
    def position(self) -> int:
        """Bytes read so far, of `size`; 0 for a pipe."""
        return self._raw.tell() if self._raw.seekable() else 0

    def lines(self) -> Iterator[bytes | None]:
        """The lines in UTF-8, without a byte order mark, once; None where a pipe is silent for a moment."""
        self._stream.read(self.format.skip)
        if self.format.encoding != "utf-8":
            text = io.TextIOWrapper(self._stream, self.format.encoding, newline="\n")
            self._opened.enter_context(text)
            return (line.encode() for line in text)
        if self._stream is self._raw and not self._raw.seekable():
            return _arriving(self._raw)
        return iter(self._stream)

    def table(self) -> ParquetTable:
        """The Parquet table. Raises SurroundingsError where it cannot be read."""
        if self._stream is not self._raw:
            raise SurroundingsError(
                f"{self._name} is a Parquet file, compressed as a whole: unpack it first (its columns are compressed within)"
            )
        if not self._raw.seekable():
            raise SurroundingsError(f"{self._name} is Parquet, which is read from its end: name the file")
        return ParquetTable(self._raw, self._name)

    def _open(self) -> BinaryIO:
        if self._path == STDIN:
            check_stdin()
            # Not sys.stdin: what that has in its buffer cannot be told.
            return open(0, "rb", BUFFER_BYTES, closefd=False)
        return Path(self._path).open("rb", BUFFER_BYTES)


def _arriving(pipe: io.BufferedReader) -> Iterator[bytes | None]:
    """Lines as they come; None each time that nothing has come for a moment."""
    pending: list[bytes] = []
    while data := pipe.read1():
        *whole, rest = data.split(b"\n")
        for line in whole:
            yield b"".join([*pending, line, b"\n"])
            pending.clear()
        pending.append(rest)
        while not _readable(pipe):
            yield None
    if any(pending):
        yield b"".join(pending)


def _readable(pipe: IO[bytes]) -> bool:
    ready, _, _ = select([pipe], [], [], PATIENCE_SECONDS)
    return bool(ready)
