"""The output of a command: rows as JSON lines, or as a table for people.

Ids and names are never cut, so that they can be copied. On a narrow terminal the least important
columns are left out, and the last line names them.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from worker.view.output import cell, console, print_json

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.measure import Measurement

PROSE, LEAST_PROSE_WIDTH = 40, 12
"""Width of prose before other columns are left out, and before ids are wrapped."""
GAP = 3  # width between two columns
Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table."""

    name: str  # its heading
    of: str | Callable[[Any], object] = ""
    """The field of a row that it shows, or a function of the row; by default the field `name`."""
    drop: int = 0  # 0 if it is always shown; the column with the highest number is left out first
    prose: int = 0
    """The width from which its text is wrapped rather than other columns left out; 0: it is
    never wrapped.
    """
    right: bool = False  # whether it is aligned to the right
    count: bool = False  # whether it shows a number, with separators, aligned to the right

    def value(self, row: object) -> object:
        """The cell of a row, which is a mapping or has attributes."""
        if callable(self.of):
            return self.of(row)
        name = self.of or self.name
        found = row[name] if isinstance(row, Mapping) else getattr(row, name)
        return f"{found:,}" if self.count and found is not None else found


def show(
    rows: Iterable[Row],
    columns: Sequence[Column],
    as_json: bool,
    style: Callable[[Row], str | None] = lambda _: None,
) -> None:
    """Write each row as a line of JSON as soon as it comes; or a table of all, if there are any.

    A row is a dataclass, a named tuple or a mapping. `style` is rich's, of a row.
    """
    if as_json:
        for row in rows:
            print_json(row)
    elif found := list(rows):
        cells = [[column.value(row) for column in columns] for row in found]
        show_table(columns, cells, list(map(style, found)))


def show_table(
    columns: Sequence[Column],
    rows: Iterable[Sequence[object]],
    styles: Sequence[str | None] | None = None,
) -> None:
    """Print a table with as many columns as fit the terminal.

    A list or tuple in `rows` takes a line for each item. `styles` are rich's, for each row.
    """
    from rich import box
    from rich.table import Table

    target = console()
    cells = [[_lines(value) for value in row] for row in rows]
    widths = [_width(column, [row[i] for row in cells]) for i, column in enumerate(columns)]
    shown = fitting(columns, widths, target.width)
    least = (min(widths[i], LEAST_PROSE_WIDTH) if columns[i].prose else widths[i] for i in shown)
    fits = _total(least) <= target.width
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for i in shown:
        column = columns[i]
        table.add_column(
            column.name,
            justify="right" if column.right or column.count else "left",
            overflow="fold",
            no_wrap=fits and not column.prose,
            min_width=widths[i] if fits and not column.prose else None,
        )
    for number, row in enumerate(cells):
        values = (Wrapped(row[i]) if columns[i].prose else "\n".join(row[i]) for i in shown)
        table.add_row(*values, style=styles[number] if styles else None)
    target.print(table)
    if left_out := [column.name for i, column in enumerate(columns) if i not in shown]:
        line = f"no room here for: {', '.join(left_out)}; --json has everything"
        target.print(line, style="dim")


def show_facts(facts: Iterable[tuple[str, object]]) -> None:
    """Print names with their values, one below the other."""
    from rich.table import Table

    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in facts:
        table.add_row(cell(name), "\n".join(_lines(value)))
    console().print(table)


def fitting(columns: Sequence[Column], widths: Sequence[int], available: int) -> list[int]:
    """The columns, by position, that fit `available` characters, and those with `drop` 0."""
    shown = list(range(len(columns)))
    while _total(widths[i] for i in shown) > available:
        last = max(shown, key=lambda i: (columns[i].drop, i))
        if not columns[last].drop:
            break
        shown.remove(last)
    return shown


def _total(widths: Iterable[int]) -> int:
    each = list(widths)
    return sum(each) + GAP * (len(each) - 1)


def _lines(value: object) -> list[str]:
    return [cell(item) for item in value] if isinstance(value, list | tuple) else [cell(value)]


def _width(column: Column, cells: Iterable[Sequence[str]]) -> int:
    """The least characters that the column needs."""
    from rich.cells import cell_len

    widest = max((cell_len(line) for lines in cells for line in lines), default=0)
    return max(cell_len(column.name), min(widest, column.prose) if column.prose else widest)


@dataclass(frozen=True, slots=True)
class Wrapped:
    """Prose in a cell. A name that is too long for its line continues after one of its separators:
    a topic, an address and a path have no blanks.
    """

    lines: Sequence[str]

    def __rich_measure__(self, console: "Console", options: "ConsoleOptions") -> "Measurement":
        from rich.measure import Measurement

        return Measurement.get(console, options, "\n".join(self.lines))

    def __rich_console__(self, console: "Console", options: "ConsoleOptions") -> "RenderResult":
        from rich.text import Text

        for line in self.lines:
            text = " ".join(_parted(word, options.max_width) for word in line.split(" "))
            yield Text(text, overflow="fold")


def _parted(word: str, width: int) -> str:
    """The word with blanks after separators, so that each part fits if its name does.

    >>> _parted("marketplace.review-summaries.v1", 20)
    'marketplace.review- summaries.v1'
    """
    parts = [""]
    for piece in re.findall(r"[^/.:,@_=-]*[/.:,@_=-]*", word):
        if len(parts[-1]) + len(piece) > width and parts[-1]:
            parts.append("")
        parts[-1] += piece
    return " ".join(parts)
