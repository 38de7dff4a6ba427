"""Rows of CSV and TSV.

CSV as RFC 4180 has it, whatever the delimiter: a quoted cell may hold delimiters, quotes (doubled) and line breaks. A row that
breaks these rules is faulty, not guessed at. TSV has no quoting: a line is a row; but a cell that some program quoted all the
same is taken out of its quotes.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from worker.operations.files.entries import Faulty

MOST_CHARS: Final = 16 * 2**20
"""Longest cell: a quote that is never closed swallows no more than this."""
BAD_ROW: Final = "bad_row"
_QUOTED: Final = re.compile(r'"((?:[^"]|"")*)"')


class Row(NamedTuple):
    """A row's cells, and the line (from 1) that it begins in."""

    line: int
    cells: list[str]


def rows(lines: Iterable[bytes], delimiter: str) -> Iterator[Row | Faulty]:
    """The rows of a table in UTF-8, the header the first of them; blank lines are none.

    Bytes that are no UTF-8 make a row faulty, and so does another number of cells than the header has.
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
    csv.field_size_limit(MOST_CHARS)  # of the whole process: Python has none of a reader's own
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
