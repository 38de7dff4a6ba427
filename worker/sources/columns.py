"""The columns or JSON members of a bare review (`--fields entity_id=asin,...`), and rows of CSV."""

from __future__ import annotations

import csv
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Final, NamedTuple, TypeAlias

from worker.errors import SetupError
from worker.events import Record
from worker.events.bare import FIELDS, Reading, read_review

CELLS: Final = tuple(name for name in FIELDS if name not in ("sentences", "embedding_model"))
"""The fields that a cell of a table can hold."""
MEMBERS: Final = (*FIELDS, "type", "review_version", "sentence_ids", "reason")
"""The fields that a column of Parquet or a member of JSON can hold, including those of events."""
_NEEDED: Final = ("entity_id", "review_id", "text")
_MOST_SHOWN: Final = 20


def parse_fields(given: Iterable[str]) -> dict[str, str]:
    """Columns by field, from texts like `entity_id=asin,text=body`. Raises ValueError with a
    message.

    >>> parse_fields(["entity_id=asin,review_id=id", "text=review body"])
    {'entity_id': 'asin', 'review_id': 'id', 'text': 'review body'}
    """
    fields: dict[str, str] = {}
    for part in (part for text in given for part in text.split(",")):
        field, equals, column = (piece.strip() for piece in part.partition("="))
        if not equals or not column:
            raise ValueError(f"{part!r} is not FIELD=COLUMN, as in entity_id=asin")
        if field not in FIELDS:
            near = get_close_matches(field, FIELDS, 1)
            meant = f", did you mean {near[0]}?" if near else ""
            raise ValueError(
                f"{field!r} is not a field of a review{meant} (there are {', '.join(FIELDS)})"
            )
        if field in fields:
            raise ValueError(f"{field} is given twice")
        fields[field] = column
    return fields


def review_of(cells: Mapping[str, str], fields: Mapping[str, str]) -> Reading:
    """The review in a row of a table. An empty cell is a missing member, except for the text."""
    of_field = {field: cells.get(fields.get(field, field), "") for field in CELLS}
    if "occurred_at" not in fields and not of_field["occurred_at"]:
        of_field["occurred_at"] = cells.get("created_at", "")
    return read_review({field: cell for field, cell in of_field.items() if cell or field == "text"})


def check_columns(
    header: Sequence[str], fields: Mapping[str, str], file: str, held: Collection[str] = CELLS
) -> None:
    """Raise SetupError unless the header has all named columns and those that a review needs.

    `held` are the fields that columns can hold. A column for `sentences` replaces the text; one for
    `type` means that rows are events.
    """
    listed = ", ".join(header[:_MOST_SHOWN]) + (", ..." if len(header) > _MOST_SHOWN else "")
    for field, column in fields.items():
        if field in held and column not in header:
            raise SetupError(f"{file} has no column {column} (for {field}); it has {listed}")
    used = {field: fields.get(field, field) for field in held}
    wanted = [field for field in _NEEDED if used[field] not in header]
    if "text" in wanted and used.get("sentences") in header:
        wanted.remove("text")
    if wanted and used.get("type") not in header:
        example = ",".join(f"{field}=COLUMN" for field in wanted)
        raise SetupError(
            f"{file} looks like a table with the columns {listed}; say which is which: --fields "
            f"{example}"
        )
    if twice := [name for name in used.values() if header.count(name) > 1]:
        raise SetupError(f"{file} has the column {twice[0]} twice: rename one")


class Faulty(NamedTuple):
    """A line (from 1) without a usable event, with a reason, a message and, in an archive, its
    file.
    """

    line: int
    reason: str
    detail: str
    file: str = ""


Entry: TypeAlias = Record | Faulty
"""The content of a line. Between lines of a pipe, None means that the pipe is silent."""


def beginning_at(line: int, entries: Iterable[Entry | None]) -> Iterator[Entry | None]:
    """The entries from `line` (from 1) on."""
    for entry in entries:
        number = entry.offset + 1 if isinstance(entry, Record) else entry.line if entry else line
        if number >= line:
            yield entry


MOST_CHARS: Final = 16 * 2**20
"""Longest cell, which bounds the effect of a quote that is never closed."""
BAD_ROW: Final = "bad_row"
_QUOTED: Final = re.compile(r'"((?:[^"]|"")*)"')


class Row(NamedTuple):
    """A row's cells, and the line (from 1) that it begins in."""

    line: int
    cells: list[str]


def rows(lines: Iterable[bytes], delimiter: str) -> Iterator[Row | Faulty]:
    """The rows of a table in UTF-8, the header the first of them; blank lines are none.

    Bytes that are no UTF-8 make a row faulty, and so does another number of cells than the header
    has.
    """
    text = (line.decode("utf-8", "surrogateescape") for line in lines)
    width: int | None = None
    for row in _tsv(text) if delimiter == "\t" else _csv(text, delimiter):
        if isinstance(row, Row):
            width = width or len(row.cells)
            fault = _fault(row, width)
            yield row if fault is None else Faulty(row.line, BAD_ROW, fault)
        else:
            yield row


def _fault(row: Row, width: int) -> str | None:
    if len(row.cells) != width:
        return f"{len(row.cells)} cells, the header has {width}"
    try:
        "".join(row.cells).encode()
    except UnicodeEncodeError:
        return "not UTF-8; where all is Windows' Latin: iconv -f WINDOWS-1252 -t UTF-8"
    return None


def _csv(text: Iterable[str], delimiter: str) -> Iterator[Row | Faulty]:
    csv.field_size_limit(MOST_CHARS)  # for the process: a reader has no limit of its own
    reader = csv.reader(text, delimiter=delimiter, strict=True)
    while True:
        line = reader.line_num + 1
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            yield Faulty(line, BAD_ROW, f"{error} (a quote too many, or one that is never closed?)")
            continue
        if any(cell.strip() for cell in cells):
            yield Row(line, cells)


def _tsv(text: Iterable[str]) -> Iterator[Row]:
    for number, line in enumerate(text, start=1):
        if line.strip():
            yield Row(number, [_unquoted(cell) for cell in line.rstrip("\r\n").split("\t")])


def _unquoted(cell: str) -> str:
    match = _QUOTED.fullmatch(cell)
    return match[1].replace('""', '"') if match else cell
