"""A file, or standard input, as the records that its lines are on Kafka."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from worker.errors import SetupError
from worker.events import Limits, Reason, Record, Rejected, decode
from worker.events.bare import SKIPPED, ParsedLine, Reading, read_json, read_row
from worker.events.decode import RecordMapping
from worker.sources.columns import (
    BAD_ROW,
    CELLS,
    IDS,
    MEMBERS,
    Entry,
    Faulty,
    beginning_at,
    check_columns,
    columns_of,
    is_header,
    review_of,
    rows,
    with_text,
    with_text_ids,
)
from worker.sources.opened import STDIN, UNREADABLE, OpenedFile, check_stdin
from worker.sources.parquet import ParquetTable

NO_FIELDS: Final[Mapping[str, str]] = {}
HEADER: Final = "header"
"""In `left_out`: headers within a table."""


class CutShort(SetupError):
    """A file cannot be read to its end. The lines before that were read, and are valid."""


@dataclass(slots=True)
class LeftOut:
    """Values that had no clear meaning, or want another warning: the number, and the first one with
    its line (from 1).
    """

    first_line: int
    first_value: Any
    count: int = 0


class ReviewFiles(AbstractContextManager["ReviewFiles"]):
    """Files of events or bare reviews: JSON lines, CSV or TSV, plain or packed, or Parquet.

    `with` looks at each, so that one that cannot be read is known before anything is made of those
    before it.

    They can be iterated once and yield a record for each line that is not blank. The topic is the
    base name of the file, the partition 0, the offset the number of the line from 0, which counts
    on from file to file (with blank lines; the first line of a CSV row, or the Parquet row). There
    is no timestamp. Broken rows are Faulty. None means that a pipe has been silent for a moment.

    Attributes:
        topic: of the first file.
        unit: "lines" or "rows".
        size: bytes of all files, None where that is not known.
        left_out: by field, what was left out of bare reviews so far; also what is kept, by the
            names of `Reading.left_out`, and HEADER.
        empty: files without a record so far.
    """

    _file: OpenedFile
    _parquet: ParquetTable | None

    def __init__(
        self,
        paths: Sequence[str],
        fields: Mapping[str, str] = NO_FIELDS,
        *,
        first_line: int = 1,
        by_name: bool | None = None,
        stdin: str = STDIN,
        as_they_are: bool = False,
    ) -> None:
        """`fields` has columns or members by field; `first_line`: of the first file, where to
        begin; `stdin`: where a copy of standard input is; `as_they_are`: lines are of JSON, for a
        `LineMapping`.

        `by_name`: whether a line is called by its file too; without it, if there are several.
        """
        self._paths = paths
        self.fields = fields
        self._first_line = first_line
        self._by_name = len(paths) > 1 if by_name is None else by_name
        self._stdin = stdin
        self._as_they_are = as_they_are
        self._opened = ExitStack()
        self._begins = [0]
        """Lines before each file so far."""
        self._read_bytes = 0
        """Bytes of the files before this one."""
        self._place = 0
        """The number of this file."""
        self._is_empty = True
        self._lines = self._height = 0
        """Lines read of this file, of CSV the first lines of rows; those within rows too."""
        self.topic = self._topic = _topic(paths[0])
        self.unit = "lines"
        self.size: int | None = None
        self.left_out: dict[str, LeftOut] = {}
        self.empty: list[str] = []

    def __enter__(self) -> ReviewFiles:
        """Raises SetupError where a file cannot be opened or has an unknown format."""
        with ExitStack() as opened:
            self._open(0, opened)
            looks = [self._look(place) for place in range(1, len(self._paths))]
            self._opened = opened.pop_all()
        units = {self._unit, *(unit for unit, _ in looks)}
        sizes = [self._file.size, *(size for _, size in looks)]
        self.unit = units.pop() if len(units) == 1 else "lines"
        self.size = None if None in sizes else sum(size or 0 for size in sizes)
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    @property
    def _unit(self) -> str:
        return "lines" if self._file.format.kind == "json" else "rows"

    @property
    def lines(self) -> int:
        """Lines read so far, with blank ones; of CSV up to the first line of the last row."""
        return self._begins[-1] + self._lines

    @property
    def position(self) -> int:
        """Bytes read so far, of `size`; 0 for a pipe. Of Parquet, whose columns lie apart, by its
        rows.
        """
        if self._parquet is None:
            return self._read_bytes + self._file.position
        size = self._file.size or 0
        return self._read_bytes + size * self._lines // max(self._parquet.row_count, 1)

    def where(self, line: int) -> str:
        """A line (from 1, counted over all files) in words."""
        return self.place(line) if self._by_name else f"line {line}"

    def place(self, line: int) -> str:
        """A line for `--from-line`: a number, or FILE:LINE if there are several files."""
        if not self._by_name:
            return str(line)
        number = bisect_right(self._begins, line - 1) - 1
        return f"{self._paths[number]}:{line - self._begins[number]}"

    def named(self, field: str) -> str:
        """A field for messages, with the column or member that it is read from, if it has another
        name.
        """
        column = self.fields.get(field, field)
        return field if column == field else f"{column} (for {field})"

    def __iter__(self) -> Iterator[Entry | None]:
        """Raises CutShort where a file cannot be read to its end, SetupError where its columns are
        not those wanted, or the first one ends too early.
        """
        yield from beginning_at(self._first_line, self._entries())
        self._note_empty()
        for place in range(1, len(self._paths)):
            self._check_begin()
            begin = self._begins[-1] + self._height
            self._read_bytes += self._file.size or 0
            self._opened.close()
            self._open(place, self._opened)
            self._begins.append(begin)
            yield from self._entries()
            self._note_empty()

    def _note_empty(self) -> None:
        if self._is_empty:
            self.empty.append(self._name(self._place))

    def _check_begin(self) -> None:
        if self._place == 0 and self._lines < self._first_line - 1:
            raise SetupError(
                f"--from-line {self.place(self._first_line)}: there are only "
                f"{self._lines:,} {self._unit}"
            )

    def _name(self, place: int) -> str:
        path = self._paths[place]
        return "standard input" if path == STDIN else path

    def _open(self, place: int, opened: ExitStack) -> None:
        path, name = self._paths[place], self._name(place)
        file = OpenedFile(self._stdin if path == STDIN else path, name, self.fields)
        opened.enter_context(file)
        if self._as_they_are and file.format.kind != "json":
            raise SetupError(f"{name} is not a file of JSON lines: write a record on each")
        parquet = file.table() if file.format.kind == "parquet" else None
        if parquet is not None:
            check_columns(parquet.columns, self.fields, name, MEMBERS)
        self._file, self._parquet, self._place = file, parquet, place
        self._topic = _topic(path)
        self._lines = self._height = 0
        self._is_empty = True

    def _look(self, place: int) -> tuple[str, int | None]:
        """Unit and size of a later file, if it can be read twice."""
        path = self._paths[place]
        if not Path(self._stdin if path == STDIN else path).is_file():
            return "lines", None
        with ReviewFiles([path], self.fields, stdin=self._stdin) as alone:
            next(iter(alone), None)
            return alone.unit, alone.size

    def _entries(self) -> Iterator[Entry | None]:
        try:
            if self._parquet is not None:
                yield from self._rows(self._parquet)
            else:
                yield from self._table() if self._file.format.kind == "table" else self._json()
        except (*UNREADABLE, UnicodeDecodeError) as cause:
            raise CutShort(
                f"{self._name(self._place)} cannot be read after line {self._lines} ({cause})"
            ) from cause

    def _text_lines(self) -> Iterator[bytes | None]:
        for line in self._file.lines():
            self._height += line is not None
            yield line

    def _json(self) -> Iterator[Entry | None]:
        for line in self._text_lines():
            if line is None:
                yield None
                continue
            self._lines = self._height
            if line.strip():
                as_it_is = Reading(ParsedLine(None, line.strip()), {})
                reading = as_it_is if self._as_they_are else read_json(line, self.fields)
                yield from self._records(reading)

    def _table(self) -> Iterator[Entry]:
        header: list[str] | None = None
        names = columns_of(self.fields, CELLS)
        lines = (line for line in self._text_lines() if line is not None)
        for row in rows(lines, self._file.format.delimiter):
            if isinstance(row, Faulty):
                self._is_empty = False
                yield row._replace(line=self._begins[-1] + row.line)
                continue
            self._lines = row.line
            if header is None:
                header = [name.strip() or f"#{at}" for at, name in enumerate(row.cells, start=1)]
                check_columns(header, self.fields, self._name(self._place))
            elif is_header(row.cells, header):
                header = [name.strip('\ufeff" ') for name in row.cells]
                self.left_out.setdefault(HEADER, LeftOut(self.lines, None)).count += 1
            else:
                cells = dict(zip(header, row.cells, strict=True))
                yield from self._records(review_of(cells, self.fields, names))

    def _rows(self, table: ParquetTable) -> Iterator[Entry]:
        wanted = columns_of(self.fields, MEMBERS)
        ids = columns_of(self.fields, IDS) - {"created_at"}
        for self._lines, row in enumerate(table.rows(wanted, as_bytes=ids), start=1):
            self._height = self._lines
            self._is_empty = False
            if not isinstance(row, str):
                row = with_text_ids(row, ids, self.fields)
            if isinstance(row, str):
                yield Faulty(self.lines, BAD_ROW, row)
            else:
                yield from self._records(
                    read_row(with_text(row, table.columns, self.fields), self.fields)
                )

    def _records(self, reading: Reading) -> Iterator[Record]:
        """The record of the last line, none if it is left out."""
        self._is_empty = False
        for field, value in reading.left_out.items():
            self.left_out.setdefault(field, LeftOut(self.lines, value)).count += 1
        if reading.line is not SKIPPED:
            yield Record(self._topic, 0, self.lines - 1, -1, *reading.line)


def _topic(path: str) -> str:
    # messages need valid UTF-8
    return "stdin" if path == STDIN else os.fsencode(Path(path).name).decode(errors="replace")


TARGET_SECONDS = 0.4
FIRST_BYTES = 4096
LEAST_BYTES = 10240
"""Some 160 sentences; with smaller batches an engine takes up to twice as long per sentence."""
MOST_GROWTH = 2.0
MOST_RECORDS = 2000


def timely(
    entries: Iterable[Entry | None],
    seconds: float = TARGET_SECONDS,
    clock: Callable[[], float] = time.perf_counter,
) -> Iterator[list[Entry]]:
    """The entries in batches that each take the consumer about `seconds`; never empty.

    The size of a batch follows from the time of the one before: at most twice its bytes, at least
    LEAST_BYTES. A batch ends early when a pipe is silent.
    """
    size: float = FIRST_BYTES
    batch: list[Entry] = []
    held = 0
    for entry in entries:
        if entry is not None:
            batch.append(entry)
            held += 0 if isinstance(entry, Faulty) else len(entry.value or b"")
        if batch and (entry is None or held >= size or len(batch) >= MOST_RECORDS):
            started = clock()
            yield batch
            taken = max(clock() - started, 1e-6)
            if held and (entry is not None or taken > seconds):
                size = max(LEAST_BYTES, min(size * MOST_GROWTH, held * seconds / taken))
            batch, held = [], 0
    if batch:
        yield batch


_TOLERATED = {Reason.WRONG_DIMENSION, Reason.WRONG_MODEL, Reason.NO_EMBEDDING}


def judged(
    entries: Iterable[Entry | None], limits: Limits, mapping: RecordMapping | None = None
) -> Iterator[Entry]:
    """The entries, with Faulty for records that every worker would reject.

    Errors that depend on the worker's model (dimension, name, embedding) are left to the worker.
    """
    for entry in entries:
        if isinstance(entry, Record):
            (event,) = decode([entry], limits, mapping=mapping)
            if isinstance(event, Rejected) and event.reason not in _TOLERATED:
                yield Faulty(entry.offset + 1, event.reason, event.detail)
                continue
        if entry is not None:
            yield entry


@contextmanager
def spooled() -> Iterator[str]:
    """The path of a temporary copy of standard input. Raises SetupError."""
    check_stdin()
    with tempfile.NamedTemporaryFile(prefix="coversumm-stdin-") as copy:
        try:
            with open(0, "rb", closefd=False) as stdin:
                shutil.copyfileobj(stdin, copy)
            copy.flush()
        except OSError as error:
            raise SetupError(
                f"standard input cannot be kept in {tempfile.gettempdir()} ({error.strerror}): "
                "TMPDIR may name another directory"
            ) from error
        yield copy.name
