"""Standard output and standard error: lines, JSON, progress. Tables are in `worker.view.tables`."""

import codecs
import io
import json
import os
import re
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, is_dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import click

from worker.errors import SetupError
from worker.errors import many as many

if TYPE_CHECKING:
    from typing import TextIO

    from rich.console import Console
    from rich.progress import Progress

_VALUES: Final = re.compile(r"'[^']*'|[0-9]+")
PROGRAM = "coversumm-worker"
CHECK_FAILED = 1  # the exit code of a command that ran and found something wrong
json_option = click.option(
    "--json",
    "as_json",
    is_flag=True,
    callback=lambda _ctx, _option, given: given or not is_terminal(sys.stdout),
    help="JSON lines; the default if output is not a terminal.",
)


def is_terminal(stream: "TextIO | None") -> bool:
    """True if a standard stream is a terminal; it is None if the process started without it."""
    return stream is not None and stream.isatty()


def console() -> "Console":
    """A console on standard output. Raises SetupError if there is none."""
    from rich.console import Console

    require()
    return Console(highlight=False, emoji=False, markup=False)


def print_json(value: Any) -> None:
    """Write a dataclass, named tuple or JSON value as a line. Raises SetupError."""
    require()
    if is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    elif hasattr(value, "_asdict"):
        value = value._asdict()
    sys.stdout.write(json.dumps(value, ensure_ascii=False) + "\n")


def say(line: str, style: str | None = None) -> None:
    """Write a line for people; `style` is rich's. Raises SetupError without standard output."""
    console().print(printable(line), style=style, soft_wrap=True)


def note(line: str) -> None:
    """Write a line to standard error."""
    if sys.stderr is not None:
        sys.stderr.write(printable(line) + "\n")


def complain(message: str) -> None:
    """Write an error line to standard error."""
    note(f"{PROGRAM}: error: {message}")


def exit_code(problems: Iterable[object]) -> int:
    """Write each problem as an error line; the exit code of a command that found them."""
    code = 0
    for problem in problems:
        complain(str(problem))
        code = CHECK_FAILED
    return code


def cell(value: object) -> str:
    """A value as text for a table."""
    return "-" if value is None else printable(str(value))


def facet_label(facet: Mapping[str, Any]) -> str:
    """The label of a facet in JSON."""
    from worker.events.outputs import facet_label as label

    return label(facet["name"], facet.get("language"))


def ranges(numbers: list[int]) -> str:
    """Ascending numbers as ranges: `0-3, 7`; `-` if there are none."""
    runs: list[range] = []
    for number in numbers:
        start = runs.pop().start if runs and runs[-1].stop == number else number
        runs.append(range(start, number + 1))
    return ", ".join(f"{r[0]}-{r[-1]}" if len(r) > 1 else str(r[0]) for r in runs) or "-"


def printable(text: str) -> str:
    """The text without control characters: reviews and ids are not the program's own."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)


def require() -> None:
    """Raise SetupError if the process was started without a standard output."""
    if sys.stdout is None:
        raise SetupError("standard output is closed: pipe it somewhere")


def flush() -> None:
    """Write what is buffered now, while a closed pipe can still be handled."""
    if sys.stdout is not None:
        sys.stdout.flush()


def abandon() -> None:
    """Redirect standard output to nowhere, so that the interpreter's flush at exit cannot fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class Groups:
    """Counts refusals that differ in their values alone, with the first of each."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._first: dict[str, str] = {}

    def add(self, place: str, reason: str) -> None:
        """Count a refusal: the place of its record, and why."""
        key = _VALUES.sub("", reason)
        self._counts[key] += 1
        self._first.setdefault(key, f"{reason} ({place})")

    def note(self) -> None:
        """Write those that occurred more than once to standard error, the most frequent first."""
        for key, count in self._counts.most_common():
            if count > 1:
                note(f"{count:,} times, such as {self._first[key]}")


@dataclass(slots=True)
class FileProgress:
    """Progress over a file or topic: a bar on standard error, or None if that is no terminal."""

    bar: "Progress | None" = None
    _first: tuple[float, int] | None = None  # time and position of the first update
    _last: int = -1
    _ends_at: float | None = None

    def update(self, position: int, done: int) -> None:
        """Show the bytes of the file, or offsets of the topic, that are read, and events done."""
        if self.bar is not None:
            task = self.bar.tasks[0]
            left = self.seconds_left(position, task.total, time.monotonic())
            shown = "" if left is None else f"{timedelta(seconds=round(left))} left"
            self.bar.update(task.id, completed=position, done=done, left=shown)

    def seconds_left(self, position: int, total: float | None, now: float) -> float | None:
        """The expected seconds to the end at the mean speed since the first update, which does not
        swing as the latest does; None while it is unknown. It counts down between two positions.

        >>> progress = FileProgress()
        >>> [progress.seconds_left(*at) for at in ((10, 50, 0.0), (20, 50, 5.0), (20, 50, 6.0))]
        [None, 15.0, 14.0]
        """
        if self._first is None:
            self._first = now, position
        elif total is not None and position > max(self._last, self._first[1]):
            pace = (now - self._first[0]) / (position - self._first[1])
            self._ends_at = now + pace * (total - position)
        self._last = position
        return None if self._ends_at is None else max(self._ends_at - now, 0.0)

    @contextmanager
    def hidden(self) -> Iterator[None]:
        """Hide the bar while lines are written to a terminal on standard output."""
        if self.bar is None or not is_terminal(sys.stdout):
            yield
            return
        self.bar.stop()
        try:
            yield
        finally:
            self.bar.start()


@contextmanager
def file_progress(total: int | None, what: str = "events") -> Iterator[FileProgress]:
    """Progress over `total` bytes or offsets (None: unknown); `what` is the name of the count."""
    if not is_terminal(sys.stderr):
        yield FileProgress()
        return
    from rich import progress
    from rich.console import Console

    columns = (
        progress.BarColumn(),
        progress.TextColumn("{task.percentage:>3.0f} %"),
        progress.TextColumn("{task.fields[done]:,} " + what),
        progress.TimeElapsedColumn(),
        progress.TextColumn("{task.fields[left]}"),
    )
    console = Console(stderr=True, soft_wrap=True)  # a wrapped command would not run as printed
    with progress.Progress(*columns, console=console, transient=True) as bar:
        bar.add_task("", total=total, done=0, left="")
        yield FileProgress(bar)


def prepare() -> None:
    """Replace `sys.stdout` by a `StdoutWrapper`, before anything is written."""
    old = sys.stdout
    if not isinstance(old, io.TextIOWrapper):  # None, if the process was started without one
        return
    encoding, errors = old.encoding, old.errors
    if codecs.lookup(encoding).name != "utf-8":
        encoding, errors = (encoding, "replace") if old.isatty() else ("utf-8", "strict")
    is_line_buffered, is_unbuffered = old.line_buffering, old.write_through
    sys.stdout = StdoutWrapper(
        old.detach(), encoding, errors, line_buffering=is_line_buffered, write_through=is_unbuffered
    )


class StdoutWrapper(io.TextIOWrapper):
    """Raises SetupError if a write fails, BrokenPipeError if the reader is gone."""

    def write(self, text: str) -> int:
        if text == "":  # click tests for a text stream this way, and hides errors
            return 0
        with explaining_errors():
            return super().write(text)

    def flush(self) -> None:
        with explaining_errors():
            super().flush()


@contextmanager
def explaining_errors(path: str | None = None) -> Iterator[None]:
    """Raise SetupError for an OSError while `path`, or standard output, is written."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        if path is None:
            abandon()  # the rest of the buffer must not fail again at exit
        raise SetupError(
            f"{path or 'standard output'} cannot be written ({error.strerror or error})"
        ) from error
