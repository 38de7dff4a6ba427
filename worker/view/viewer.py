"""Viewers of published changes: JSON lines, plain lines, or a screen that is redrawn in place.

Each of them shows a scene: `watch` and `demo` have one.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from typing import Any, Protocol, Self

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from worker.events import Record
from worker.view.board import ShownChange
from worker.view.screen import Frame, screen

FRAME_SECONDS = 0.1
Closing = Callable[[int | None], Iterable[Text]]
"""The last lines; they get the height in which they should fit, if there is one."""


class Scene(Protocol):
    """What a viewer shows. Times are those of one monotonic clock."""

    def take(self, message: Record, now: float) -> list[ShownChange]:
        """Take a published message; returns the changes to show. Raises SetupError if it is none
        of this kind.
        """

    def lines(self, changes: Iterable[ShownChange], now: float) -> Iterable[str]:
        """What is printed for these changes, and by now, where nothing can be redrawn."""

    def frame(self, console: Console, now: float) -> Frame:
        """The screen, where it can be redrawn."""


class Viewer:
    """Shows a scene on a console; a context manager. This one prints the published bodies."""

    is_screen = False  # whether a person watches a screen

    def __init__(self, console: Console, scene: Scene) -> None:
        self._console = console
        self._scene = scene

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._console.file.flush()

    def take(self, message: Record) -> None:
        """Take the next message. Raises SetupError if it is no change of this kind."""
        self._scene.take(message, time.monotonic())
        if message.value is not None:
            self._console.file.write(message.value.decode(errors="replace") + "\n")

    def update(self) -> None:
        """Show what is new; called all the time."""
        self._console.file.flush()

    def end(self, figures: dict[str, Any], closing: Closing) -> None:
        """Show the end of the scene: its figures, or its closing lines."""
        self._print(json.dumps(figures, ensure_ascii=False))

    def _print(self, line: str) -> None:
        # not by the console: rich ends the process with 1 if the reader is gone
        self._console.file.write(line + "\n")
        self._console.file.flush()


class LinesViewer(Viewer):
    """Prints plain lines."""

    def take(self, message: Record) -> None:
        """Print its changes."""
        now = time.monotonic()
        for line in self._scene.lines(self._scene.take(message, now), now):
            self._print(line)

    def update(self) -> None:
        """Print what the scene has to say by now."""
        for line in self._scene.lines((), time.monotonic()):
            self._print(line)

    def end(self, figures: dict[str, Any], closing: Closing) -> None:
        """Print the closing lines."""
        for line in (Text(), *closing(None)):
            self._print(line.plain)


class ScreenViewer(Viewer):
    """Redraws the terminal's alternate screen, in the thread that calls `update`."""

    is_screen = True

    def __init__(self, console: Console, scene: Scene) -> None:
        super().__init__(console, scene)
        self._next_at = 0.0
        self._live = Live(
            console=console, auto_refresh=False, screen=True, vertical_overflow="crop"
        )

    def __enter__(self) -> Self:
        self._live.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.__exit__(None, None, None)

    def take(self, message: Record) -> None:
        """Show it with the next `update`."""
        self._scene.take(message, time.monotonic())

    def update(self) -> None:
        """Draw again if it is time."""
        now = time.monotonic()
        if now >= self._next_at:
            self._next_at = now + FRAME_SECONDS
            lines = screen(self._console, self._scene.frame(self._console, now), now)
            self._live.update(Group(*lines), refresh=True)

    def end(self, figures: dict[str, Any], closing: Closing) -> None:
        """Leave the closing lines on the terminal."""
        for line in closing(self._console.height - 1):  # the shell's prompt follows
            self._console.print(line, soft_wrap=True)


def make_viewer(console: Console, scene: Scene, *, as_json: bool) -> Viewer:
    """The viewer that suits the console: lines cannot be overwritten in a pipe, a file or a dumb
    terminal.
    """
    if as_json:
        return Viewer(console, scene)
    can_redraw = console.file.isatty() and console.is_terminal and not console.is_dumb_terminal
    return ScreenViewer(console, scene) if can_redraw else LinesViewer(console, scene)
