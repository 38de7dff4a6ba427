"""Tables for people.

Ids and names are never cut, for they are copied into the next command: where the terminal is too
narrow the least important columns are left out, and the last line says which.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from worker.cli.output import cell, console

if TYPE_CHECKING:
    from rich.console import Console

PROSE_WIDTH, LEAST_PROSE_WIDTH = 40, 12
"""What prose gets before other columns are left out for it, and what it gets before an id goes on
in the next line.
"""
GAP = 3
"""Between two columns: the padding of both, and the line between."""

Value = object
"""Of a cell: a list or tuple takes a line for each of its items."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    Attributes:
        name: its heading.
        drop: 0 where it is always shown; of the others the one with the highest number is left out
            first.
        prose: text that may be wrapped; anything else stays in one line.
        right: whether it is a number, set to the right.
    """

    name: str
    drop: int = 0
    prose: bool = False
    right: bool = False


def show_table(
    columns: Sequence[Column],
    rows: Iterable[Sequence[Value]],
    styles: Sequence[str | None] | None = None,
) -> None:
    """Print a table with as many of its columns as the terminal has room for.

    Args:
        columns: all of them, in their order.
        rows: a value for each column.
        styles: of each row, as rich names them.
    """
    from rich import box
    from rich.table import Table

    target = console()
    cells = [[_lines(value) for value in row] for row in rows]
    widths = [_width(column, [row[i] for row in cells]) for i, column in enumerate(columns)]
    shown = fitting(columns, widths, target.width)
    least = (min(widths[i], LEAST_PROSE_WIDTH) if columns[i].prose else widths[i] for i in shown)
    whole = _total(least) <= target.width
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for i in shown:
        column = columns[i]
        table.add_column(
            column.name,
            justify="right" if column.right else "left",
            overflow="fold",
            no_wrap=whole and not column.prose,
            min_width=widths[i] if whole and not column.prose else None,
        )
    for number, row in enumerate(cells):
        table.add_row(*("\n".join(row[i]) for i in shown), style=styles[number] if styles else None)
    target.print(table)
    _tell_left_out(target, [column.name for i, column in enumerate(columns) if i not in shown])


def show_facts(facts: Iterable[tuple[str, Value]]) -> None:
    """Print names with their values, one below the other."""
    from rich.table import Table

    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in facts:
        table.add_row(cell(name), "\n".join(_lines(value)))
    console().print(table)


def fitting(columns: Sequence[Column], widths: Sequence[int], available: int) -> list[int]:
    """Which of the columns, by position, are shown in so many characters; those with `drop` 0
    always are.
    """
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


def _lines(value: Value) -> list[str]:
    return [cell(one) for one in value] if isinstance(value, list | tuple) else [cell(value)]


def _width(column: Column, cells: Iterable[Sequence[str]]) -> int:
    """Characters that the column needs at least."""
    from rich.cells import cell_len

    widest = max((cell_len(line) for lines in cells for line in lines), default=0)
    return max(cell_len(column.name), min(widest, PROSE_WIDTH) if column.prose else widest)


def _tell_left_out(target: "Console", names: Sequence[str]) -> None:
    if names:
        target.print(f"no room here for: {', '.join(names)}; --json has everything", style="dim")
