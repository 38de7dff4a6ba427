"""Where output goes: progress for people at a terminal, JSON lines for everything else; tables are
`worker.cli.tables`.
"""

import codecs
import io
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

from worker.errors import SetupError

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TextIO

    from rich.console import Console
    from rich.progress import Progress


F = TypeVar("F", bound="Callable[..., Any]")
PROGRAM = "coversumm-worker"
CHECK_FAILED = 1
"""The exit code of a command that did what it was asked, and found something wrong."""


def json_option(command: F) -> F:
    """The `--json` option, handed to the command as `as_json`: on by itself where standard output
    is not a terminal.
    """
    return click.option(
        "--json",
        "as_json",
        is_flag=True,
        callback=lambda _ctx, _option, given: given or not is_terminal(sys.stdout),
        help="JSON lines; the default where output is not a terminal.",
    )(command)


def is_terminal(stream: "TextIO | None") -> bool:
    """Whether a standard stream is a terminal; None is one that the process was started without."""
    return stream is not None and stream.isatty()


def console() -> "Console":
    """For people, on standard output. Raises SetupError where there is none."""
    from rich.console import Console

    require()
    return Console(highlight=False, emoji=False, markup=False)


def print_json(value: Any) -> None:
    """One line of JSON on standard output. Raises SetupError where there is none."""
    require()
    sys.stdout.write(json.dumps(value, ensure_ascii=False) + "\n")


def note(line: str) -> None:
    """One line on standard error."""
    if sys.stderr is not None:
        sys.stderr.write(printable(line) + "\n")


def note_lines(text: str) -> None:
    """A text of several lines on standard error, as it is: it is ours."""
    if sys.stderr is not None:
        sys.stderr.write(text.rstrip("\n") + "\n")


def complain(message: str) -> None:
    """One line on standard error that says what is wrong, in the form of all such lines."""
    note(f"{PROGRAM}: error: {message}")


def cell(value: object) -> str:
    """A value in a table."""
    return "-" if value is None else printable(str(value))


def many(count: int, plural: str) -> str:
    """The count with its word.

    >>> many(1, "entities"), many(2000, "lines")
    ('1 entity', '2,000 lines')
    """
    singular = (
        plural.removesuffix("ies") + "y" if plural.endswith("ies") else plural.removesuffix("s")
    )
    return f"{count:,} {singular if count == 1 else plural}"


def ranges(numbers: list[int]) -> str:
    """Ascending numbers, neighbours put together: `0-3, 7`; `-` where there are none."""
    return ", ".join(_runs(numbers)) or "-"


def _runs(numbers: list[int]) -> Iterator[str]:
    begin = 0
    for i in range(1, len(numbers) + 1):
        if i == len(numbers) or numbers[i] != numbers[i - 1] + 1:
            first, last = numbers[begin], numbers[i - 1]
            yield str(first) if first == last else f"{first}-{last}"
            begin = i


def printable(text: str) -> str:
    """The text without what could move a terminal's cursor: reviews and ids are other people's."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)


def require() -> None:
    """Raise SetupError where the process was started without a standard output."""
    if sys.stdout is None:
        raise SetupError("standard output is closed: pipe it somewhere")


def flush() -> None:
    """Write what is buffered now, where a closed pipe can still be dealt with."""
    if sys.stdout is not None:
        sys.stdout.flush()


def abandon() -> None:
    """Give up standard output, so that the interpreter's own flush at exit has nothing to complain
    about.
    """
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class FileProgress:
    """How far a file (or topic) has been read, shown on standard error if that is a terminal, else
    not at all.
    """

    def __init__(self, progress: "Progress | None", total: int | None) -> None:
        self._progress = progress
        self._task = None if progress is None else progress.add_task("", total=total, done=0)

    def update(self, position: int, done: int) -> None:
        """So many bytes of the file (offsets of the topic) are read, so many events done."""
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, completed=position, done=done)

    @contextmanager
    def hidden(self) -> Iterator[None]:
        """Nothing is shown meanwhile, if standard output is a terminal: for lines that go there."""
        if self._progress is None or not is_terminal(sys.stdout):
            yield
            return
        self._progress.stop()
        try:
            yield
        finally:
            self._progress.start()


@contextmanager
def file_progress(total: int | None, what: str = "events") -> Iterator[FileProgress]:
    """Progress over a file of `total` bytes, or a topic of as many offsets (None: unknown); `what`
    is counted.
    """
    if not is_terminal(sys.stderr):
        yield FileProgress(None, total)
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TextColumn("{task.fields[done]:,} " + what),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        yield FileProgress(progress, total)


def prepare() -> None:
    """Replace `sys.stdout` by such a one; for the process, before anything is written."""
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
    """Raises SetupError where nothing more can be written; BrokenPipeError once nobody reads
    any more.
    """

    def write(self, text: str) -> int:
        """See `io.TextIOWrapper`."""
        # click asks so whether it is text that is wanted, and takes any error for a no
        if text == "":
            return 0
        with _told():
            return super().write(text)

    def flush(self) -> None:
        """See `io.TextIOWrapper`."""
        with _told():
            super().flush()


@contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        abandon()  # what is left in the buffer must not fail again at exit
        raise SetupError(f"standard output cannot be written ({error.strerror})") from error
