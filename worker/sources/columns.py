"""The columns or JSON members of a bare review (`--fields entity_id=asin,...`), and rows of CSV."""

from __future__ import annotations

import csv
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from itertools import chain
from typing import Any, Final, NamedTuple, TypeAlias

from worker.errors import SetupError
from worker.events import Record
from worker.events.bare import BYTES, FIELDS, WHERE, Reading, read_review
from worker.events.json_codec import HALF
from worker.facets.toml_lines import near

CELLS: Final = tuple(name for name in FIELDS if name not in ("sentences", "embedding_model"))
"""The fields that a cell of a table can hold."""
MEMBERS: Final = (*FIELDS, "type", "review_version", "sentence_ids", "reason")
"""The fields that a column of Parquet or a member of JSON can hold, including those of events."""
IDS: Final = ("entity_id", "review_id", "author_id")
_NEEDED: Final = ("entity_id", "review_id", "text")
_MOST_SHOWN: Final = 20
_NO_VALUES: Final = frozenset({"", "NULL", r"\N"})
"""Cells without a value; exports of databases write the latter two. `null` is a text."""
SEPARATOR_LINE: Final = re.compile(r'\s*"?sep=(.)"?\s*', re.IGNORECASE | re.DOTALL)
"""The line before the header that tells Excel what separates cells."""
_COMMA: Final = re.compile(rf",(?=[^,=]*=|\s*(?:{'|'.join(FIELDS)})?\s*(?:,|$))")
"""The comma before a field; any other one belongs to a column's name."""


def parse_fields(given: Iterable[str]) -> dict[str, str]:
    """Columns by field, from texts like `entity_id=asin,text=body`. Raises ValueError with a
    message.

    >>> parse_fields(["entity_id=asin,review_id=id", "text=review, body"])
    {'entity_id': 'asin', 'review_id': 'id', 'text': 'review, body'}
    """
    fields: dict[str, str] = {}
    for part in (part for text in given for part in _COMMA.split(text)):
        field, equals, column = (piece.strip() for piece in part.partition("="))
        if not equals or not column:
            raise ValueError(f"{part!r} is not FIELD=COLUMN, as in entity_id=asin")
        if field not in FIELDS:
            raise ValueError(
                f"{field!r} is not a field of a review{near(field, FIELDS)} "
                f"(there are {', '.join(FIELDS)})"
            )
        if field in fields:
            raise ValueError(f"{field} is given twice")
        fields[field] = column
    return fields


def columns_of(fields: Mapping[str, str], held: Collection[str]) -> set[str]:
    """The names of all columns or members that these fields and WHERE may be read from."""
    sources = [fields.get(field, field) for field in held]
    sources += [name.removeprefix(WHERE) for name in fields if name.startswith(WHERE)]
    parts = [part for source in sources for part in source.split("+")]
    return {*sources, *parts, *(part.partition(".")[0] for part in parts), "created_at"}


def review_of(cells: Mapping[str, str], fields: Mapping[str, str], used: set[str]) -> Reading:
    """The review in a row of a table, of `columns_of`. A cell that is empty, NULL or \\N is a
    missing member, except for the text.
    """
    row = {name: cell for name in used if (cell := cells.get(name, "")) not in _NO_VALUES}
    return read_review({fields.get("text", "text"): "", **row}, fields)


def with_text(
    row: dict[str, Any], columns: Collection[str], fields: Mapping[str, str]
) -> dict[str, Any]:
    """A review's row of Parquet, whose nulls are missing, with the null of its text."""
    names = [fields.get(field, field) for field in ("text", "sentences")]
    if row.keys().isdisjoint(names) and "." not in str(row.get("type", "")):
        row |= {name: None for name in names[:1] if name in columns}
    return row


def with_text_ids(
    row: dict[str, Any], ids: Set[str], fields: Mapping[str, str]
) -> dict[str, Any] | str:
    """A row of Parquet whose ids are texts; why it has none if their bytes are no text."""
    for name in ids & row.keys():
        if type(value := row[name]) is bytes:
            try:
                row[name] = value.hex() if BYTES in fields else value.decode()
            except UnicodeDecodeError:
                return f"{name}: {len(value)} bytes that are not UTF-8; for digits: --bytes hex"
    return row


def check_columns(
    header: Sequence[str], fields: Mapping[str, str], file: str, held: Collection[str] = CELLS
) -> None:
    """Raise SetupError unless the header has all named columns and those that a review needs.

    `held` are the fields that columns can hold. A column for `sentences` replaces the text; one for
    `type` means that rows are events.
    """
    listed = ", ".join(header[:_MOST_SHOWN]) + (", ..." if len(header) > _MOST_SHOWN else "")
    for field, column in fields.items():
        name = field.removeprefix(WHERE) if field.startswith(WHERE) else column
        if name in header or not (field in held or field.startswith(WHERE)):
            continue
        for part in name.split("+"):
            if part not in header and part.partition(".")[0] not in header:
                raise SetupError(f"{file} has no column {part} (for {field}); it has {listed}")
    used = {field: fields.get(field, field) for field in held}
    wanted = [field for field in _NEEDED if field not in fields and field not in header]
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
    """A line (from 1), or more that were read as one row, without a usable event, with a reason, a
    message and, in an archive, its file.
    """

    line: int
    reason: str
    detail: str
    file: str = ""
    lines: int = 1


Entry: TypeAlias = Record | Faulty
"""The content of a line. Between lines of a pipe, None means that the pipe is silent."""


def beginning_at(line: int, entries: Iterable[Entry | None]) -> Iterator[Entry | None]:
    """The entries from `line` (from 1) on."""
    for entry in entries:
        number = entry.offset + 1 if isinstance(entry, Record) else entry.line if entry else line
        if number >= line:
            yield entry


MOST_CHARS: Final = 16 * 2**20
"""Longest row, which bounds the effect of a quote that is never closed."""
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
    text = _Lines(lines)
    width: int | None = None
    for row in _tsv(text) if delimiter == "\t" else _csv(text, delimiter):
        if isinstance(row, Row):
            width = width or len(row.cells)
            fault = _fault(row, width)
            yield row if fault is None else Faulty(row.line, BAD_ROW, fault)
        else:
            yield row


def is_header(cells: Sequence[str], header: Sequence[str]) -> bool:
    """True if a row has the names of the header, in any order: files with headers were joined."""
    return cells[-1].strip('" ') in header and (
        sorted(cell.strip('\ufeff" ') for cell in cells) == sorted(header)
    )


class _Lines:
    """Decoded lines from the header on. Raises csv.Error at more than MOST_CHARS since `held` was
    0.
    """

    def __init__(self, lines: Iterable[bytes]) -> None:
        rest = iter(lines)
        header = next(rest, b"")
        self.count = self.held = 0
        if SEPARATOR_LINE.fullmatch(header.decode(errors="replace")):
            self.count, header = 1, next(rest, b"")
        self.header = header.decode(errors="replace")
        self._lines = chain([header], rest)

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = next(self._lines).decode("utf-8", "surrogateescape")
        self.count += 1
        self.held += len(line)
        if self.held > MOST_CHARS:
            raise csv.Error(f"more than {MOST_CHARS:,} characters")
        return line


def _fault(row: Row, width: int) -> str | None:
    if len(row.cells) != width:
        return f"{len(row.cells)} cells, the header has {width}"
    try:
        "".join(row.cells).encode()
    except UnicodeEncodeError:
        if HALF.search("".join(row.cells).encode("utf-8", "surrogateescape")):
            return "half of a UTF-16 character"
        return "not UTF-8; where all is Windows' Latin: iconv -f WINDOWS-1252 -t UTF-8"
    return None


def _csv(text: _Lines, delimiter: str) -> Iterator[Row | Faulty]:
    csv.field_size_limit(MOST_CHARS)  # for the process: a reader has no limit of its own
    reader = csv.reader(
        text,
        delimiter=delimiter,
        strict=True,
        skipinitialspace=f"{delimiter} " in text.header,
    )
    while True:
        line, text.held = text.count + 1, 0
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            why = f"{error} (a quote too many, or one that is never closed?)"
            if "new-line" in str(error):
                why = "a carriage return outside of quotes"
            if (lines := text.count - line + 1) > 1:
                why = f"lines {line:,} to {text.count:,} are skipped: {why}"
            yield Faulty(line, BAD_ROW, why, lines=lines)
            continue
        if any(cell.strip() for cell in cells):
            yield Row(line, cells)


def _tsv(text: _Lines) -> Iterator[Row]:
    for line in text:
        text.held = 0
        if line.strip():
            yield Row(text.count, [_unquoted(cell) for cell in line.rstrip("\r\n").split("\t")])


def _unquoted(cell: str) -> str:
    match = _QUOTED.fullmatch(cell)
    return match[1].replace('""', '"') if match else cell
