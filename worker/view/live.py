"""A screen that is redrawn in place, and gives the terminal back as it was."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final, Self

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

_FRAME_SECONDS: Final = 0.1


def can_redraw(console: Console) -> bool:
    """Whether lines can be drawn over: not in a pipe or file, even if colours are wanted there, nor on a dumb terminal."""
    return console.file.isatty() and console.is_terminal and not console.is_dumb_terminal


class LiveScreen:
    """The terminal's other screen, so that nothing of what was there is lost and nothing stays; a context manager.

    Drawn by whoever calls `update`, in that thread, so that nothing changes while it is looked at.
    """

    def __init__(self, console: Console, draw: Callable[[float], Sequence[Text]]) -> None:
        self._console = console
        self._draw = draw
        self._next_at = 0.0
        self._live = Live(console=console, auto_refresh=False, screen=True, vertical_overflow="crop")

    def __enter__(self) -> Self:
        self._live.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.__exit__(None, None, None)

    def update(self) -> None:
        """Draw again if it is time."""
        now = time.monotonic()
        if now >= self._next_at:
            self._next_at = now + _FRAME_SECONDS
            self.draw()

    def draw(self) -> None:
        """Draw again at once."""
        self._live.update(Group(*self._draw(time.monotonic())), refresh=True)
