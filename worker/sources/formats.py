"""Recognizes a file by its first bytes, and advises what to do with one that is unreadable."""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import lzma
import zlib
from collections.abc import Collection
from typing import Any, Final, Literal, NamedTuple, cast

from worker.errors import SetupError
from worker.events.bare import FIELDS
from worker.extras import install_command

UNREADABLE: Final = (EOFError, zlib.error, lzma.LZMAError, OSError)
"""Errors of a packed file that is cut or damaged, or of its disk."""
BUFFER_BYTES: Final = 2**16
ENDINGS: Final = (".gz", ".bz2", ".xz", ".zst")
"""Usual endings of packed files."""
_MAGIC_BYTES: Final = 6


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
    elif magic.startswith(b"\x28\xb5\x2f\xfd"):
        stream = _zstd(raw, name)
    else:
        return raw
    return io.BufferedReader(cast(io.RawIOBase, stream), BUFFER_BYTES)


class _Unpacked(io.RawIOBase):
    """The unpacked bytes of a file. Of a truncated one all that can be unpacked come first, then
    the error; `read` of the modules for packed files would drop them.
    """

    def __init__(self, packed: gzip.GzipFile | bz2.BZ2File | lzma.LZMAFile) -> None:
        self._packed = packed

    def readable(self) -> bool:
        """See `io.RawIOBase`."""
        return True

    def readinto(self, buffer: Any) -> int:
        """See `io.RawIOBase`. Raises UNREADABLE."""
        data = self._packed.read1(len(buffer))
        buffer[: len(data)] = data
        return len(data)


def _zstd(raw: io.BufferedReader, name: str) -> Any:
    """Unpacks by pyarrow, because Python's standard library has no zstd."""
    try:
        import pyarrow
    except ImportError as error:
        raise SetupError(
            f"{name} is compressed with zstd: {install_command('parquet')}, "
            f"or zstdcat {name} | ..., with - for the file"
        ) from error
    return pyarrow.CompressedInputStream(pyarrow.PythonFile(raw, mode="r"), "zstd")


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
    """How to read an unpacked file: Parquet, or text in `encoding` after `skip` bytes of byte
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
    if encoding == "utf-8" and b"\0" in head:
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
    lines = [line for line in map(str.strip, text.split("\n")) if line]
    first = lines[0] if lines else ""
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
    if _is_header(first, file, mapped):
        return Format("table", encoding, skip, max(_DELIMITERS, key=first.count))
    # the lines before it are reported as bad, one by one
    if any(line.startswith("{") for line in lines[:5]):
        return Format("json", encoding, skip)
    raise _unreadable(file, "plain text", _LINES_WANTED)


def _is_header(line: str, file: str, mapped: Collection[str]) -> bool:
    """Whether the first line names several columns, by the file's name or by ours."""
    if not any(delimiter in line for delimiter in _DELIMITERS):
        return False
    for ending in ENDINGS:
        file = file.removesuffix(ending)
    if mapped or file.endswith((".csv", ".tsv", ".tab")):
        return True
    return any(name in line for name in FIELDS)


def _unreadable(file: str, looks: str, advice: str) -> SetupError:
    return SetupError(f"{file} looks like {looks}: {advice.format(file=file)}")
