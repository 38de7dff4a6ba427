"""Finds, opens, unpacks and recognizes files and standard input."""

from __future__ import annotations

import bz2
import codecs
import glob
import gzip
import io
import lzma
import os
import re
import sys
import zlib
from collections.abc import Collection, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, suppress
from functools import partial
from pathlib import Path
from select import select
from typing import IO, Any, BinaryIO, Final, Literal, NamedTuple, cast

from worker.errors import SetupError
from worker.events.bare import FIELDS
from worker.extras import install_command
from worker.sources.columns import SEPARATOR_LINE
from worker.sources.parquet import ParquetTable

STDIN: Final = "-"
PATIENCE_SECONDS: Final = 0.2
"""Silence of a pipe after which the lines so far are processed."""
UNREADABLE: Final = (EOFError, zlib.error, lzma.LZMAError, OSError)
"""Errors of a packed file that is cut or damaged, or of its disk."""
BUFFER_BYTES: Final = 2**16
MOST_LINE: Final = 2**27
"""Bytes or characters of a line that are kept: the largest event in an archive's base64 is shorter.
"""
ENDINGS: Final = (".gz", ".bz2", ".xz", ".zst")
"""Usual endings of packed files."""
_MAGIC_BYTES: Final = 6
_SKIPPABLE: Final = re.compile(rb"[\x50-\x5f]\x2a\x4d\x18")
"""Begins a frame of zstd without content."""


def check_stdin() -> None:
    """Raise SetupError where the process was started without a standard input."""
    if sys.stdin is None:
        raise SetupError("standard input is closed: name a file, or pipe one in")


class OpenedFile(AbstractContextManager["OpenedFile"]):
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
            text = head.decode(self.format.encoding or "latin-1", "replace")
            self._ending = "\r" if "\r" in text and "\n" not in text else "\n"
            self._opened = opened.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

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
        encoding, ending = self.format.encoding, self._ending
        if encoding != "utf-8" or ending == "\r":
            # what cannot be decoded stays what it is: no UTF-8, so that its line alone is bad
            errors = "surrogateescape" if encoding == "utf-8" else "surrogatepass"
            text = io.TextIOWrapper(self._stream, encoding, errors, newline=ending)
            self._opened.enter_context(text)
            return (
                line.replace(ending, "\n").encode("utf-8", errors)
                for line in _bounded(text, ending)
            )
        if self._stream is self._raw and not self._raw.seekable():
            return _arriving(self._raw)
        return _bounded(self._stream)

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


def _bounded(stream: io.BufferedReader | io.TextIOWrapper, ending: str = "\n") -> Iterator[Any]:
    """The lines; of one above MOST_LINE only so much, which is too large for an event."""
    while line := stream.readline(MOST_LINE):
        part = line
        while len(part) == MOST_LINE and part[-1:] not in (b"\n", ending):
            part = stream.readline(MOST_LINE)
        yield line


def _arriving(pipe: io.BufferedReader) -> Iterator[bytes | None]:
    """Lines as they come, as `_bounded`; None each time the pipe is silent."""
    pending: list[bytes] = []
    size = 0
    while data := pipe.read1():
        *whole, rest = data.split(b"\n")
        for line in whole:
            yield b"".join([*pending, line, b"\n"])
            pending.clear()
            size = 0
        if size < MOST_LINE:
            pending.append(rest)
            size += len(rest)
        while not _readable(pipe):
            yield None
    if any(pending):
        yield b"".join(pending)


def _readable(pipe: IO[bytes]) -> bool:
    ready, _, _ = select([pipe], [], [], PATIENCE_SECONDS)
    return bool(ready)


def unpacked(raw: io.BufferedReader, name: str) -> io.BufferedReader:
    """The unpacked stream; the stream itself if it is not packed.

    Raises SetupError where zstd is not available, UNREADABLE where the stream is damaged.
    """
    magic = raw.peek(_MAGIC_BYTES)[:_MAGIC_BYTES]
    stream: Any
    if magic.startswith(b"\x1f\x8b"):
        stream = _Unpacked(gzip.GzipFile(fileobj=raw))
    elif magic.startswith(b"BZh"):
        stream = _Unpacked(bz2.BZ2File(raw))
    elif magic.startswith(b"\xfd7zXZ\x00"):
        stream = _Unpacked(lzma.LZMAFile(raw))  # noqa: SIM115 - closed with what is underneath
    elif magic.startswith(b"\x28\xb5\x2f\xfd") or _SKIPPABLE.match(magic):
        stream = _Unpacked(_Zstd(raw, name))
    else:
        return raw
    return io.BufferedReader(cast(io.RawIOBase, stream), BUFFER_BYTES)


class _Unpacked(io.RawIOBase):
    """The unpacked bytes of a file. Of a truncated one all that can be unpacked come first, then
    the error; `read` of the modules for packed files would drop them.
    """

    def __init__(self, packed: gzip.GzipFile | bz2.BZ2File | lzma.LZMAFile | _Zstd) -> None:
        self._packed = packed

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """See `io.RawIOBase`. Raises UNREADABLE."""
        data = self._packed.read1(len(buffer))
        buffer[: len(data)] = data
        return len(data)


class _Zstd:
    """Unpacks by pyarrow, because Python's standard library has no zstd."""

    def __init__(self, raw: io.BufferedReader, name: str) -> None:
        try:
            import pyarrow
        except ImportError as error:
            raise SetupError(
                f"{name} is compressed with zstd: {install_command('parquet')}, "
                f"or zstdcat {name} | ..., with - for the file"
            ) from error
        self._raw = pyarrow.PythonFile(raw, mode="r")
        self._open = partial(pyarrow.CompressedInputStream, self._raw, "zstd")
        self._streams = [self._open()]  # one that is dropped closes the file
        self._count = 0

    def read1(self, size: int) -> bytearray:
        """At most `size` bytes. Raises UNREADABLE, after all bytes before the damage."""
        try:
            data = bytearray(self._streams[-1].read(size))
        except OSError:  # the bytes before it in this call are lost
            if len(self._streams) > 1 or not self._raw.seekable():
                raise
            self._raw.seek(0)
            self._streams.append(again := self._open())
            for begin in range(0, self._count, BUFFER_BYTES):
                again.read(min(BUFFER_BYTES, self._count - begin))
            data = bytearray()
            with suppress(OSError):
                while True:
                    data += again.read(1)
            if not data:
                raise
        self._count += len(data)
        return data


_PARQUET: Final = b"PAR1"
_LINES_WANTED: Final = (
    "wanted are JSON lines (one object a line), CSV or TSV with a header, or Parquet"
)
_TO_LINES: Final = f"convert it first ({_LINES_WANTED})"
# First bytes, what they mean, and what to do; {file} is the file's name.
_FOREIGN: Final = (
    (b"PARE", "an encrypted Parquet file", "write it without encryption first"),
    (
        b"ARROW1",
        "an Arrow (Feather) file",
        "with pyarrow: parquet.write_table(feather.read_table(...), ...)",
    ),
    (
        b"PK\x03\x04",
        "a ZIP archive (or an .xlsx, which is one)",
        "unpack it: unzip -p {file} | ..., with - for the file",
    ),
    (b"SQLite format 3\x00", "an SQLite database", _TO_LINES),
    (b"Obj\x01", "an Avro file", _TO_LINES),
    (b"ORC", "an ORC file", _TO_LINES),
    (b"%PDF", "a PDF", _TO_LINES),
    (b"\xd0\xcf\x11\xe0", "an old Excel or Office file", "save it as CSV UTF-8"),
)
_BYTE_ORDER_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_DELIMITERS: Final = ",;\t|"


class Format(NamedTuple):
    """The format of an unpacked file: Parquet, or text in `encoding` after `skip` bytes of byte
    order mark.
    """

    kind: Literal["json", "table", "parquet"]
    encoding: str
    skip: int
    delimiter: str = ""


def recognize(head: bytes, file: str, mapped: Collection[str] = ()) -> Format:
    """The format of a file that begins with `head`; `mapped`: the names of fields that columns were
    named for.

    Raises SetupError, which says what the file looks like and what to do, where it can not
    be read.

    >>> recognize(b'{"entity_id": "B00X"}', "reviews.jsonl")
    Format(kind='json', encoding='utf-8', skip=0, delimiter='')
    >>> recognize(b"entity_id;review_id;text", "reviews.csv").delimiter
    ';'
    """
    if head.startswith(_PARQUET):
        return Format("parquet", "", 0)
    for magic, looks, advice in _FOREIGN:
        if head.startswith(magic):
            raise _unreadable(file, looks, advice)
    encoding, skip = _encoding(head)
    if encoding == "utf-8" and head.count(b"\0") > head.count(b"\n") + 1:
        looks = "a tar archive" if head[257:262] == b"ustar" else "binary data, not text"
        raise _unreadable(file, looks, f"unpack or {_TO_LINES}")
    return _text_format(head[skip:].decode(encoding, "replace"), encoding, skip, file, mapped)


def _encoding(head: bytes) -> tuple[str, int]:
    for mark, encoding in _BYTE_ORDER_MARKS:
        if head.startswith(mark):
            return encoding, len(mark)
    if head[1:2] == b"\0" and head[:1] in b'{["\n\r ':
        return "utf-16-le", 0
    if head[:1] == b"\0" and head[1:2] in b'{["\n\r ':
        return "utf-16-be", 0
    return "utf-8", 0


def _text_format(text: str, encoding: str, skip: int, file: str, mapped: Collection[str]) -> Format:
    lines = [line for line in map(str.strip, re.split("[\r\n]+", text)) if line]
    separator = SEPARATOR_LINE.fullmatch(re.split("[\r\n]", text, maxsplit=1)[0])
    first = next(iter(lines[1:] if separator else lines), "")
    if first == "{" and not any(line.startswith("{") for line in lines[1:2]):
        looks = "JSON spread over several lines"
        raise _unreadable(file, looks, "write one object a line: jq -c . {file} > reviews.jsonl")
    if first == "[" or (first.startswith("[") and first[1:].lstrip().startswith("{")):
        raise _unreadable(
            file, "a JSON array", "write one object a line: jq -c '.[]' {file} > reviews.jsonl"
        )
    if first.startswith("<"):
        raise _unreadable(file, "HTML or XML", _TO_LINES)
    if not first or first.startswith("{"):
        return Format("json", encoding, skip)
    if separator:
        return Format("table", encoding, skip, separator[1])
    if _is_header(first, file, mapped):
        return Format("table", encoding, skip, max(_DELIMITERS, key=first.count))
    # the lines before it are reported as bad, one by one
    if any(line.startswith("{") for line in lines[:5]):
        return Format("json", encoding, skip)
    raise _unreadable(file, "plain text", _LINES_WANTED)


def _is_header(line: str, file: str, mapped: Collection[str]) -> bool:
    """True if the first line names several columns, by the file's name or by ours."""
    if not any(delimiter in line for delimiter in _DELIMITERS):
        return False
    for ending in ENDINGS:
        file = file.removesuffix(ending)
    if mapped or file.endswith((".csv", ".tsv", ".tab")):
        return True
    return any(name in line for name in FIELDS)


def _unreadable(file: str, looks: str, advice: str) -> SetupError:
    return SetupError(f"{file} looks like {looks}: {advice.format(file=file)}")


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
