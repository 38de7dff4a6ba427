"""A file, or standard input, as the records that its lines are on Kafka."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from worker.errors import SurroundingsError
from worker.events import Record
from worker.events.bare import Reading, read_json, read_row
from worker.operations.files.columns import MEMBERS, check_columns, review_of
from worker.operations.files.entries import Entry, Faulty
from worker.operations.files.opened import STDIN, Closing, OpenedFile
from worker.operations.files.packing import UNREADABLE
from worker.operations.files.parquet import ParquetTable
from worker.operations.files.tables import BAD_ROW, Row, rows

NO_FIELDS: Final[Mapping[str, str]] = {}


@dataclass(slots=True)
class LeftOut:
    """A field of bare reviews whose values had no sure meaning: how often, and where first (line from 1, file of an archive)."""

    first_line: int
    first_value: Any
    count: int = 0
    first_file: str = ""


def count_left_out(
    counts: dict[str, LeftOut], left_out: Mapping[str, Any], line: int, file: str = ""
) -> None:
    """Count what was left out of one review, which is in `line`."""
    for field, value in left_out.items():
        counts.setdefault(field, LeftOut(line, value, first_file=file)).count += 1


class ReviewFile(Closing):
    """A file of events or bare reviews: JSON lines, CSV or TSV, plain or packed, or Parquet; `with` finds out which.

    Iteration, once, gives a record for each line that is not blank: the base name as topic, partition 0, the line's number
    from 0 (blank lines counted; of a row of CSV its first line; of Parquet the row) as offset, no timestamp. Rows that are none
    are Faulty, and None says that a pipe has been silent for a moment.
    """

    def __init__(
        self, path: str, fields: Mapping[str, str] = NO_FIELDS, name: str | None = None, begin: int = 0
    ) -> None:
        """`fields` names columns or members by field; `name` is shown instead of the path; numbers begin after `begin`."""
        self._name = name or ("standard input" if path == STDIN else path)
        self._file = OpenedFile(path, self._name, fields)
        self._fields = fields
        self._begin = begin
        self._parquet: ParquetTable | None = None
        # A name that is not UTF-8 could stand in no message.
        self.topic = (
            "stdin"
            if self._name == "standard input"
            else os.fsencode(Path(path).name).decode(errors="replace")
        )
        self.lines = 0
        """Lines read so far, blank ones too; of CSV its rows' first lines."""
        self.height = 0
        """Lines read so far, those within the rows of CSV too."""
        self.left_out: dict[str, LeftOut] = {}
        """By field, what of bare reviews was left out so far."""

    def __enter__(self) -> ReviewFile:
        """Raises SurroundingsError where the file cannot be opened, or is nothing that can be read here."""
        with ExitStack() as opened:
            opened.enter_context(self._file)
            if self._file.format.kind == "parquet":
                self._parquet = self._file.table()
                check_columns(self._parquet.columns, self._fields, self._name, MEMBERS)
            self._opened = opened.pop_all()
        return self

    @property
    def unit(self) -> str:
        """What its lines are called."""
        return "lines" if self._file.format.kind == "json" else "rows"

    @property
    def size(self) -> int | None:
        """Bytes of the file, None where that is not known."""
        return self._file.size

    @property
    def position(self) -> int:
        """Bytes read so far, of `size`; 0 for a pipe. Of Parquet, whose columns lie apart, by its rows."""
        if self._parquet is not None:
            return (self.size or 0) * self.lines // max(self._parquet.row_count, 1)
        return self._file.position

    def __iter__(self) -> Iterator[Entry | None]:
        """Raises SurroundingsError where the file cannot be read to its end, or its columns are not those wanted."""
        try:
            if self._parquet is not None:
                yield from self._rows(self._parquet)
            else:
                yield from self._table() if self._file.format.kind == "table" else self._json()
        except (*UNREADABLE, UnicodeDecodeError) as cause:
            raise SurroundingsError(
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
        count_left_out(self.left_out, reading.left_out, number)
        return Record(self.topic, 0, number - 1, -1, *reading.line)
