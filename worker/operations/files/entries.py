"""What a file gives, line by line."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypeAlias

from worker.events import Record


class Faulty(NamedTuple):
    """A line (from 1) that holds no usable event: a reason, one line for people, and of an archive the file it is in."""

    line: int
    reason: str
    detail: str
    file: str = ""


Entry: TypeAlias = Record | Faulty
"""What a line holds. Where lines come from a pipe, None between them says that nothing more has come for now."""


def beginning_at(line: int, entries: Iterable[Entry | None]) -> Iterator[Entry | None]:
    """The entries without those of lines (from 1) before `line`."""
    for entry in entries:
        number = entry.offset + 1 if isinstance(entry, Record) else entry.line if entry else line
        if number >= line:
            yield entry
