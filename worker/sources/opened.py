"""Finds, opens, unpacks and recognizes files and standard input."""

from __future__ import annotations

import glob
import io
import os
import sys
from collections.abc import Collection, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from select import select
from types import TracebackType
from typing import IO, BinaryIO, Final, NamedTuple, cast

from worker.errors import SetupError
from worker.sources.formats import BUFFER_BYTES, UNREADABLE, Format, recognize, unpacked
from worker.sources.parquet import ParquetTable

STDIN: Final = "-"
PATIENCE_SECONDS: Final = 0.2
"""Silence of a pipe after which the lines so far are processed."""


def check_stdin() -> None:
    """Raise SetupError where the process was started without a standard input."""
    if sys.stdin is None:
        raise SetupError("standard input is closed: name a file, or pipe one in")


class Closing:
    """`with` closes what `__enter__` opened."""

    _opened: ExitStack

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._opened.close()


class OpenedFile(Closing):
    """A file with lines of text or a Parquet table. `with` opens and recognizes it."""

    def __init__(self, path: str, name: str, mapped: Collection[str] = ()) -> None:
        """`name` is shown in messages; `mapped` are the fields that have a column."""
        self._path = path
        self._name = name
        self._mapped = mapped
        self._raw: io.BufferedReader
        self._stream: io.BufferedReader
        self.format: Format

    def __enter__(self) -> OpenedFile:
        """Raises SetupError where the file cannot be opened or has an unknown format."""
        with ExitStack() as opened:
            try:
                self._raw = cast(io.BufferedReader, opened.enter_context(self._open()))
                self._stream = unpacked(self._raw, self._name)
                head = self._stream.peek(BUFFER_BYTES)
            except UNREADABLE as cause:
                raise SetupError(f"{self._name} cannot be read ({cause})") from cause
            self.format = recognize(head, self._name, self._mapped)
            self._opened = opened.pop_all()
        return self

    @property
    def size(self) -> int | None:
        """Bytes of the file; None where it is unknown."""
        return (
            Path(self._path).stat().st_size
            if self._path != STDIN and Path(self._path).is_file()
            else None
        )

    @property
    def position(self) -> int:
        """Bytes read so far, of `size`; 0 for a pipe."""
        return self._raw.tell() if self._raw.seekable() else 0

    def lines(self) -> Iterator[bytes | None]:
        """The lines as UTF-8 without a byte order mark; None while a pipe is silent."""
        self._stream.read(self.format.skip)
        if self.format.encoding != "utf-8":
            text = io.TextIOWrapper(self._stream, self.format.encoding, newline="\n")
            self._opened.enter_context(text)
            return (line.encode() for line in text)
        if self._stream is self._raw and not self._raw.seekable():
            return _arriving(self._raw)
        return iter(self._stream)

    def table(self) -> ParquetTable:
        """The Parquet table. Raises SetupError where it cannot be read."""
        if self._stream is not self._raw:
            raise SetupError(
                f"{self._name} is a Parquet file, compressed as one: unpack it first (its "
                "columns are compressed within)"
            )
        if not self._raw.seekable():
            raise SetupError(f"{self._name} is Parquet, which is read from its end: name the file")
        return ParquetTable(self._raw, self._name)

    def _open(self) -> BinaryIO:
        if self._path == STDIN:
            check_stdin()
            # not sys.stdin, whose buffer would hide bytes from select
            return open(0, "rb", BUFFER_BYTES, closefd=False)
        return Path(self._path).open("rb", BUFFER_BYTES)


def _arriving(pipe: io.BufferedReader) -> Iterator[bytes | None]:
    """Lines as they come; None each time the pipe is silent."""
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


_OTHERS: Final = """
    .7z .avsc .cfg .conf .crc .doc .docx .gif .html .ini .ipynb .jar .jpeg .jpg .lock .log .md
    .md5 .ods .odt .part .pdf .pickle .pkl .png .ppt .pptx .py .rar .rst .rtf .sh .sha1 .sha256
    .sql .svg .tar .tex .tgz .tmp .toml .xls .xlsx .xml .yaml .yml .zip
"""
"""Endings of other files that often lie beside reviews."""
_OTHER_ENDINGS: Final = frozenset(_OTHERS.split())
_OTHER_NAMES: Final = frozenset(
    {"changelog", "license", "makefile", "notice", "readme", "sha256sums"}
)


class FoundFiles(NamedTuple):
    """Files in reading order, and those that were skipped in folders."""

    paths: list[str]
    skipped: list[str]


def find_files(named: Iterable[str]) -> FoundFiles:
    """The files that names, patterns (`*`, `?`, `[...]`, `**`) and folders stand for.

    The files of a pattern or folder are sorted by path, inner folders included. In folders it skips
    hidden files (`.name`, `_name`), links to folders, and files whose names show that they are no
    reviews.

    Raises SetupError if a name stands for no file, or two names for the same one.
    """
    paths: list[str] = []
    skipped: list[str] = []
    for name in named:
        found = list(_files(name, skipped))
        if not found:
            raise SetupError(f"there are no files of reviews in {name}{_skipped_note(skipped)}")
        paths.extend(found)
    _check_once(paths)
    return FoundFiles(paths, skipped)


def _files(name: str, skipped: list[str]) -> Iterator[str]:
    if name == STDIN or (Path(name).exists() and not Path(name).is_dir()):
        yield name
    elif Path(name).is_dir():
        yield from _of_folder(name, skipped)
    elif matched := glob.glob(name, recursive=True):
        for path in sorted(matched, key=_parts):
            # ** also matches the files in a folder that it matches
            if not Path(path).is_dir():
                yield path
            elif not name.endswith("**"):
                yield from _of_folder(path, skipped)
    else:
        what = "matches no file" if glob.has_magic(name) else "does not exist"
        raise SetupError(f"{name} {what}")


def _of_folder(folder: str, skipped: list[str]) -> Iterator[str]:
    found: list[str] = []
    for parent, folders, files in os.walk(folder):
        for name in list(folders):
            path = os.path.join(parent, name)
            if _is_hidden(name) or os.path.islink(path):
                folders.remove(name)
                skipped.append(os.path.join(path, ""))
        for name in files:
            (skipped if _is_other(name) else found).append(os.path.join(parent, name))
    skipped.sort(key=_parts)
    return iter(sorted(found, key=_parts))


def _parts(path: str) -> tuple[str, ...]:
    return Path(path).parts


def _is_hidden(name: str) -> bool:
    return name.startswith((".", "_"))


def _is_other(name: str) -> bool:
    path = Path(name.lower())
    return _is_hidden(name) or path.suffix in _OTHER_ENDINGS or path.name in _OTHER_NAMES


def _check_once(paths: list[str]) -> None:
    """Raise SetupError if a file is among them twice."""
    seen: dict[str, str] = {}
    for path in paths:
        real = path if path == STDIN else os.path.realpath(path)
        if real in seen:
            also = "" if seen[real] == path else f", also as {seen[real]}"
            raise SetupError(f"{path} is named twice{also}: name each file once")
        seen[real] = path


def _skipped_note(skipped: list[str]) -> str:
    return f" (skipped because of their names: {', '.join(skipped[:5])})" if skipped else ""
