"""Foreign texts in terminal lines of known width."""

from __future__ import annotations

import signal
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

from rich.console import Console
from rich.text import Text


def one_line(text: str) -> str:
    """The text in one line that has the same width on every terminal.

    Control characters are removed, and emoji and combining characters, whose width differs between
    terminals: a line of unexpected width would break the screen.
    """
    composed = unicodedata.normalize("NFC", text)
    return " ".join("".join(char if _has_sure_width(char) else " " for char in composed).split())


def _has_sure_width(char: str) -> bool:
    return char.isprintable() and unicodedata.category(char) not in ("So", "Sk", "Mn", "Me")


def cut(line: Text, width: int) -> Text:
    """The line, cut with `…` if it is longer than `width` cells."""
    if width < 1:
        return Text()
    line = line.copy()
    line.truncate(width, overflow="ellipsis")
    return line


def hanging(console: Console, first: Text, text: Text, width: int) -> list[Text]:
    """`text` after `first`, wrapped to `width` cells with a hanging indent."""
    indent = first.cell_len
    wrapped = text.wrap(console, max(width - indent, 1), overflow="fold")
    starts = [first, *[Text(" " * indent)] * (len(wrapped) - 1)]
    lines = [Text.assemble(start, line) for start, line in zip(starts, wrapped, strict=True)]
    for line in lines:
        line.rstrip()
    return [cut(line, width) for line in lines]


def folded(step: str, width: int) -> list[str]:
    """A command in lines of at most `width` where possible, which a shell reads as one."""
    lines: list[str] = []
    line = step
    while len(line) > width and (end := line.rfind(" ", 5, width - 1)) > 0:
        lines.append(f"{line[:end]} \\")
        line = f"    {line[end + 1 :]}"
    return [*lines, line]


def between(left: Text, right: Text, width: int) -> Text:
    """One line with `right` at its end. If both do not fit, `left` has at least half of it."""
    left = cut(left, max(width - right.cell_len - 1, width // 2))
    right = cut(right, width - left.cell_len - 1)
    return Text.assemble(left, " " * (width - left.cell_len - right.cell_len), right)


_ENDING_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def ending_signals() -> Iterator[None]:
    """Raise KeyboardInterrupt at the first such signal; ignore further ones during the cleanup."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        for number in _ENDING_SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in _ENDING_SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
