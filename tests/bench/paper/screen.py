"""The terminal: progress bars, a line for everything measured, tables."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table


class Screen:
    """Nothing is drawn by a thread of its own: it would run while the clock does."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console()
        self.console.width = max(self.console.width, 120)
        self._drawn = 0.0

    def say(self, text: str) -> None:
        self.console.print(text, highlight=False, soft_wrap=True)

    def show(self, table: Table) -> None:
        """A table, its title and caption on lines of their own: Rich would fold them to
        its width.
        """
        title, table.title, caption, table.caption = table.title, None, table.caption, None
        self.say(f"\n[bold]{title}[/bold]")
        self.console.print(table)
        if caption:
            self.say(f"{caption}")

    @contextmanager
    def bar(self, text: str, total: int) -> Iterator[Callable[[int], None]]:
        """A bar that is gone when it is done; called with how many of `total` are, it moves."""
        if not self.console.is_terminal:
            yield lambda done: None
            return
        progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=self.console,
            auto_refresh=False,
            transient=True,
        )
        with progress:
            task = progress.add_task(text, total=total)

            def advance(done: int) -> None:
                progress.update(task, completed=done)
                if time.monotonic() - self._drawn > 0.1:
                    self._drawn = time.monotonic()
                    progress.refresh()

            yield advance


def number(value: float | None) -> str:
    """Three digits that count."""
    if value is None:
        return ""
    if value >= 100:
        return f"{value:,.0f}"
    if value >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}" if value >= 0.1 else f"{value:.3f}"


def share(value: float | None) -> str:
    """Percent: 100.0 only if it is all."""
    if value is None:
        return ""
    if value == 100.0 or value < 99.9:
        return f"{value:.1f}"
    return f"{value:.2f}" if value < 99.995 else "<100"
