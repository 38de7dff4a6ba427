"""A file, or standard input, as the records that its lines are on Kafka."""

from __future__ import annotations

import gzip
import io
import sys
import zlib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from select import select
from types import TracebackType
from typing import IO, Any, BinaryIO, Final, cast

from worker.errors import SurroundingsError
from worker.events import Record
from worker.events.bare import Reading, read_json, read_review
from worker.operations.files.columns import CELLS, check_columns
from worker.operations.files.entries import Entry, Faulty
from worker.operations.files.formats import GZIP, Format, recognize
from worker.operations.files.tables import Row, rows

STDIN: Final = "-"
PATIENCE_SECONDS: Final = 0.2
"""How long a pipe may be silent before what has come counts as all for now."""
_BUFFER_BYTES: Final = 2**16
_NO_FIELDS: Final[Mapping[str, str]] = {}


@dataclass(slots=True)
class LeftOut:
    """A field of bare reviews whose values had no sure meaning: how often, and where first (line from 1)."""

    first_line: int
    first_value: Any
    count: int = 0


def check_stdin() -> None:
    """Raise SurroundingsError where the process was started without a standard input."""
    if sys.stdin is None:
        raise SurroundingsError("standard input is closed: name a file, or pipe one in")


class ReviewFile:
    """A file of events or bare reviews: JSON lines, CSV or TSV, plain or gzip; `with` opens it and finds out which.

    Iteration, once, gives a record for each line that is not blank: the base name as topic, partition 0, the line's number
    from 0 (blank lines counted; of a row its first line) as offset, no timestamp. Rows that are none are Faulty, and None says
    that a pipe has been silent for a moment.
    """

    def __init__(self, path: str, fields: Mapping[str, str] = _NO_FIELDS, name: str | None = None) -> None:
        """`fields` names columns or members by field; `name` is shown instead of the path."""
        self._path = path
        self._fields = fields
        self._name = name or ("standard input" if path == STDIN else path)
        self._opened: ExitStack
        self._raw: io.BufferedReader
        self._stream: io.BufferedReader
        self._format: Format
        self.topic = "stdin" if self._name == "standard input" else Path(path).name
        self.lines = 0
        """Lines read so far, blank ones too; of a table its rows' first lines."""
        self.left_out: dict[str, LeftOut] = {}
        """By field, what of bare reviews was left out so far."""

    def __enter__(self) -> ReviewFile:
        """Raises SurroundingsError where the file cannot be opened, or is nothing that can be read here."""
        with ExitStack() as opened:
            try:
                self._raw = self._stream = cast(io.BufferedReader, opened.enter_context(self._open()))
                if self._raw.peek(len(GZIP))[: len(GZIP)] == GZIP:
                    unpacked = gzip.GzipFile(fileobj=self._raw)
                    self._stream = io.BufferedReader(cast(io.RawIOBase, unpacked), _BUFFER_BYTES)
                head = self._stream.peek(_BUFFER_BYTES)
            except (EOFError, zlib.error, OSError) as cause:
                raise SurroundingsError(f"{self._name} cannot be read ({cause})") from cause
            self._format = recognize(head, self._name, self._fields)
            self._opened = opened.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._opened.close()

    @property
    def unit(self) -> str:
        """What its lines are called."""
        return "rows" if self._format.kind == "table" else "lines"

    @property
    def size(self) -> int | None:
        """Bytes of the file, None where that is not known."""
        return Path(self._path).stat().st_size if self._path != STDIN and Path(self._path).is_file() else None

    @property
    def position(self) -> int:
        """Bytes read so far, of `size`; 0 for a pipe."""
        return self._raw.tell() if self._raw.seekable() else 0

    def __iter__(self) -> Iterator[Entry | None]:
        """Raises SurroundingsError where the file cannot be read to its end, or its columns are not those wanted."""
        try:
            self._stream.read(self._format.skip)
            yield from self._table() if self._format.kind == "table" else self._json()
        except (EOFError, zlib.error, OSError, UnicodeDecodeError) as cause:
            raise SurroundingsError(
                f"{self._name} cannot be read after line {self.lines} ({cause})"
            ) from cause

    def _open(self) -> BinaryIO:
        if self._path == STDIN:
            check_stdin()
            # Not sys.stdin: what that has in its buffer cannot be told.
            return open(0, "rb", _BUFFER_BYTES, closefd=False)
        return Path(self._path).open("rb", _BUFFER_BYTES)

    def _json(self) -> Iterator[Entry | None]:
        number = -1
        for line in self._text_lines():
            if line is None:
                yield None
                continue
            number += 1
            self.lines = number + 1
            if line.strip():
                yield self._record(number, read_json(line, self._fields))

    def _table(self) -> Iterator[Entry | None]:
        header: list[str] | None = None
        for row in rows((line for line in self._text_lines() if line is not None), self._format.delimiter):
            if isinstance(row, Row):
                self.lines = row.line
            if isinstance(row, Faulty):
                yield row
            elif header is None:
                header = [name.strip() for name in row.cells]
                check_columns(header, self._fields, self._name)
            else:
                yield self._record(row.line - 1, self._review(dict(zip(header, row.cells, strict=True))))

    def _review(self, cells: dict[str, str]) -> Reading:
        """An empty cell is a member that is not there, but an empty text is an empty text."""
        of_field = {field: cells.get(self._fields.get(field, field), "") for field in CELLS}
        if "occurred_at" not in self._fields and not of_field["occurred_at"]:
            of_field["occurred_at"] = cells.get("created_at", "")
        return read_review({field: cell for field, cell in of_field.items() if cell or field == "text"})

    def _record(self, number: int, reading: Reading) -> Record:
        for field, value in reading.left_out.items():
            self.left_out.setdefault(field, LeftOut(number + 1, value)).count += 1
        return Record(self.topic, 0, number, -1, *reading.line)

    def _text_lines(self) -> Iterator[bytes | None]:
        """The lines in UTF-8; None where a pipe is silent."""
        if self._format.encoding != "utf-8":
            text = io.TextIOWrapper(self._stream, self._format.encoding, newline="\n")
            self._opened.enter_context(text)
            return (line.encode() for line in text)
        if self._stream is self._raw and not self._raw.seekable():
            return _arriving(self._raw)
        return iter(self._stream)


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
