"""A file, or standard input, as the records that its lines are on Kafka."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from worker.errors import SetupError
from worker.events import Limits, Reason, Record, Rejected, decode
from worker.events.bare import Reading, read_json, read_row
from worker.sources.columns import (
    BAD_ROW,
    MEMBERS,
    Entry,
    Faulty,
    Row,
    beginning_at,
    check_columns,
    review_of,
    rows,
)
from worker.sources.formats import UNREADABLE
from worker.sources.opened import STDIN, Closing, OpenedFile, check_stdin
from worker.sources.parquet import ParquetTable

NO_FIELDS: Final[Mapping[str, str]] = {}


class CutShort(SetupError):
    """A file cannot be read to its end. The lines before that were read, and are valid."""


@dataclass(slots=True)
class LeftOut:
    """A field of bare reviews whose values had no clear meaning: the number, and the first one with
    its line (from 1).
    """

    first_line: int
    first_value: Any
    count: int = 0


class ReviewFile(Closing):
    """A file of events or bare reviews: JSON lines, CSV or TSV, plain or packed, or Parquet. `with`
    opens and recognizes it.

    It can be iterated once and yields a record for each line that is not blank. The topic is the
    base name, the partition 0, the offset the number of the line from 0 (with blank lines; the
    first line of a CSV row, or the Parquet row). There is no timestamp. Broken rows are Faulty.
    None means that a pipe has been silent for a moment.

    Attributes:
        lines: read so far, with blank ones; of CSV the first lines of rows.
        height: lines read so far, with those within CSV rows.
        left_out: by field, what was left out of bare reviews so far.
    """

    def __init__(
        self,
        path: str,
        fields: Mapping[str, str] = NO_FIELDS,
        name: str | None = None,
        begin: int = 0,
    ) -> None:
        """`fields` has columns or members by field; messages show `name` instead of the path;
        `begin` is added to line numbers.
        """
        self._name = name or ("standard input" if path == STDIN else path)
        self._file = OpenedFile(path, self._name, fields)
        self._fields = fields
        self._begin = begin
        self._parquet: ParquetTable | None = None
        # messages need valid UTF-8
        self.topic = (
            "stdin"
            if self._name == "standard input"
            else os.fsencode(Path(path).name).decode(errors="replace")
        )
        self.lines = self.height = 0
        self.left_out: dict[str, LeftOut] = {}

    def __enter__(self) -> ReviewFile:
        """Raises SetupError where the file cannot be opened or has an unknown format."""
        with ExitStack() as opened:
            opened.enter_context(self._file)
            if self._file.format.kind == "parquet":
                self._parquet = self._file.table()
                check_columns(self._parquet.columns, self._fields, self._name, MEMBERS)
            self._opened = opened.pop_all()
        return self

    @property
    def unit(self) -> str:
        """ "lines" or "rows"."""
        return "lines" if self._file.format.kind == "json" else "rows"

    @property
    def size(self) -> int | None:
        """Bytes of the file, None where that is not known."""
        return self._file.size

    @property
    def position(self) -> int:
        """Bytes read so far, of `size`; 0 for a pipe. Of Parquet, whose columns lie apart, by its
        rows.
        """
        if self._parquet is not None:
            return (self.size or 0) * self.lines // max(self._parquet.row_count, 1)
        return self._file.position

    def __iter__(self) -> Iterator[Entry | None]:
        """Raises CutShort where the file cannot be read to its end, SetupError where its columns
        are not those wanted.
        """
        try:
            if self._parquet is not None:
                yield from self._rows(self._parquet)
            else:
                yield from self._table() if self._file.format.kind == "table" else self._json()
        except (*UNREADABLE, UnicodeDecodeError) as cause:
            raise CutShort(
                f"{self._name} cannot be read after line {self.lines} ({cause})"
            ) from cause

    def _text_lines(self) -> Iterator[bytes | None]:
        for line in self._file.lines():
            self.height += line is not None
            yield line

    def _json(self) -> Iterator[Entry | None]:
        for line in self._text_lines():
            if line is None:
                yield None
                continue
            self.lines = self.height
            if line.strip():
                yield self._record(self.lines, read_json(line, self._fields))

    def _table(self) -> Iterator[Entry]:
        header: list[str] | None = None
        for row in rows(
            (line for line in self._text_lines() if line is not None), self._file.format.delimiter
        ):
            if isinstance(row, Row):
                self.lines = row.line
            if isinstance(row, Faulty):
                yield row._replace(line=self._begin + row.line)
            elif header is None:
                header = [name.strip() for name in row.cells]
                check_columns(header, self._fields, self._name)
            else:
                yield self._record(
                    row.line, review_of(dict(zip(header, row.cells, strict=True)), self._fields)
                )

    def _rows(self, table: ParquetTable) -> Iterator[Entry]:
        wanted = {self._fields.get(field, field) for field in MEMBERS} | {"created_at"}
        for self.height, row in enumerate(table.rows(wanted), start=1):
            self.lines = self.height
            if row is None:
                yield Faulty(self._begin + self.lines, BAD_ROW, "a text is not UTF-8")
            else:
                yield self._record(self.lines, read_row(row, self._fields))

    def _record(self, line: int, reading: Reading) -> Record:
        """Of a line, counted from 1."""
        number = self._begin + line
        for field, value in reading.left_out.items():
            self.left_out.setdefault(field, LeftOut(number, value)).count += 1
        return Record(self.topic, 0, number - 1, -1, *reading.line)


class ReviewFiles(Closing):
    """Files of events or bare reviews, each as `ReviewFile` reads it; lines count on from file to
    file.

    `with` looks at each: one that cannot be read is known before anything is made of those before
    it. Iteration, once.
    """

    def __init__(
        self,
        paths: Sequence[str],
        fields: Mapping[str, str] = NO_FIELDS,
        *,
        first_line: int = 1,
        by_name: bool | None = None,
        stdin: str = STDIN,
    ) -> None:
        """`first_line`: of the first file, where to begin; `stdin`: where a copy of standard input
        is.

        `by_name`: whether a line is called by its file too; without it, if there are several.
        """
        self._paths = paths
        self._fields = fields
        self._first_line = first_line
        self._by_name = len(paths) > 1 if by_name is None else by_name
        self._stdin = stdin
        self._opened = ExitStack()
        self._begins = [0]
        self._read_bytes = 0
        self._current = self._file(0)
        self.topic = self._current.topic
        """Of the first file."""
        self.unit = "lines"
        """"lines" or "rows"."""
        self.size: int | None = None
        """Bytes of all files, None where that is not known."""
        self.left_out: dict[str, LeftOut] = {}
        """By field, what of bare reviews was left out so far."""

    def __enter__(self) -> ReviewFiles:
        """Raises SetupError where a file cannot be opened, or is nothing that can be read
        here.
        """
        with ExitStack() as opened:
            opened.enter_context(self._current)
            looks = [self._look(place) for place in range(1, len(self._paths))]
            self._opened = opened.pop_all()
        units = {self._current.unit, *(unit for unit, _ in looks)}
        sizes = [self._current.size, *(size for _, size in looks)]
        self.unit = units.pop() if len(units) == 1 else "lines"
        self.size = None if None in sizes else sum(size or 0 for size in sizes)
        return self

    @property
    def lines(self) -> int:
        """Lines read so far, as `ReviewFile` counts them."""
        return self._begins[-1] + self._current.lines

    @property
    def position(self) -> int:
        """Bytes read so far, of `size`."""
        return self._read_bytes + self._current.position

    def where(self, line: int) -> str:
        """A line (from 1, counted over all files) in words."""
        return self.place(line) if self._by_name else f"line {line}"

    def place(self, line: int) -> str:
        """A line for `--from-line`: a number, or FILE:LINE if there are several files."""
        if not self._by_name:
            return str(line)
        number = bisect_right(self._begins, line - 1) - 1
        return f"{self._paths[number]}:{line - self._begins[number]}"

    def __iter__(self) -> Iterator[Entry | None]:
        """Raises SetupError if a file is unreadable or the first one ends too early."""
        self._current.left_out = self.left_out
        yield from beginning_at(self._first_line, self._current)
        for place in range(1, len(self._paths)):
            self._check_begin()
            self._go_on(place)
            yield from self._current

    def _go_on(self, place: int) -> None:
        begin = self._begins[-1] + self._current.height
        self._read_bytes += self._current.size or 0
        self._opened.close()
        self._current = self._opened.enter_context(self._file(place, begin))
        self._current.left_out = self.left_out
        self._begins.append(begin)

    def _check_begin(self) -> None:
        if len(self._begins) == 1 and self._current.lines < self._first_line - 1:
            raise SetupError(
                f"--from-line {self.place(self._first_line)}: there are only "
                f"{self._current.lines:,} {self._current.unit}"
            )

    def _file(self, place: int, begin: int = 0) -> ReviewFile:
        path = self._paths[place]
        if path == STDIN:
            return ReviewFile(self._stdin, self._fields, "standard input", begin)
        return ReviewFile(path, self._fields, begin=begin)

    def _look(self, place: int) -> tuple[str, int | None]:
        """Unit and size of a later file, if it can be read twice."""
        if not Path(self._stdin if self._paths[place] == STDIN else self._paths[place]).is_file():
            return "lines", None
        with self._file(place) as file:
            next(iter(file), None)
            return file.unit, file.size


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


def judged(entries: Iterable[Entry | None], limits: Limits) -> Iterator[Entry]:
    """The entries, with Faulty for records that every worker would reject.

    Errors that depend on the worker's model (dimension, name, embedding) are left to the worker.
    """
    for entry in entries:
        if isinstance(entry, Record):
            (event,) = decode([entry], limits)
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
