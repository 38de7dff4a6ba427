"""The end of the demo's output: the summaries in full, the result, the next steps."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.text import Text

from worker.demo.reviews import ATTRIBUTION, reviews_file
from worker.demo.story import Story
from worker.view import summary_lines
from worker.view.texts import hanging

_PROGRAM: Final = "coversumm-worker"


def own_command(
    arguments: Sequence[str] | None = None, python: str | None = None, directory: Path | None = None
) -> str:
    """The shell command of this program: `coversumm-worker` if it is on the PATH, else its path.

    Args:
        arguments: of the process; by default `sys.argv`.
        python: the interpreter; by default this one.
        directory: the user's; by default the shell's when this process was started.
    """
    started = (sys.argv if arguments is None else arguments)[0]
    directory = _user_directory() if directory is None else directory
    if Path(started).name == _PROGRAM:
        return _typed(Path(started), directory)
    return f"{_typed(Path(python or sys.executable), directory)} -m worker"


def typed_path(path: Path, directory: Path | None = None) -> str:
    """A path quoted for a shell; relative if it lies below the user's directory."""
    directory = _user_directory() if directory is None else directory
    absolute = Path(os.path.abspath(path))  # not resolved: users know its links
    shown = absolute.relative_to(directory) if absolute.is_relative_to(directory) else absolute
    return shlex.quote(str(shown))


def _typed(program: Path, directory: Path) -> str:
    """The program's name if a shell finds this program by it, else its path."""
    found = shutil.which(program.name)
    if found is not None and os.path.abspath(found) == os.path.abspath(program):
        return shlex.quote(program.name)
    typed = typed_path(program, directory)
    return typed if "/" in typed else f"./{typed}"


def _user_directory() -> Path:
    """The shell's directory: `make -C` changes the working directory and leaves `PWD`."""
    here, named = Path.cwd(), Path(os.environ.get("PWD", ""))
    return here if not named.is_absolute() or not named.is_dir() or named.samefile(here) else named


_MAX_WIDTH: Final = 100


def closing_lines(console: Console, story: Story) -> Iterator[Text]:
    """The lines; all but commands fit the console."""
    width = min(console.width, _MAX_WIDTH)
    for entity in story.in_order():
        yield from summary_lines(console, entity, story.names, width)
        yield Text()
    for paragraph in _outcome(story):
        yield from hanging(console, Text(), Text(paragraph), width)
    yield Text()
    for step in next_steps(own_command(), typed_path(Path(str(reviews_file())))):
        yield from map(Text, folded(step, console.width))


def _outcome(story: Story) -> Iterator[str]:
    seconds = f"{story.seconds(0.0):.0f} s"
    yield (
        f"{counts_of(story)} in {seconds}: each summary is the {story.k} sentences closest to "
        "the average of all of its stay's."
    )
    if story.left_out:
        left_out = "1 review was" if story.left_out == 1 else f"{story.left_out:,} reviews were"
        everything = f"--reviews {story.reviews + story.left_out} takes all"
        yield f"This machine is busy or slow, so {left_out} left out to be brief: {everything}."
    yield (
        f"Verified: the stored summaries of all {story.verified} stays equal brute force over all "
        f"their sentences; {story.dead_letters:,} dead letters."
    )
    yield (
        "All of it ran here: an embedded broker, the real worker on it, its state in RocksDB; "
        "everything is removed again."
    )
    yield f"{ATTRIBUTION}."


def counts_of(story: Story) -> str:
    """Reviews in, changes out."""
    down = f", {story.taken_down:,} taken down" if story.taken_down else ""
    return f"{story.arrived:,} reviews in{down}, {story.board.changes:,} changes out"


def next_steps(program: str, reviews: str) -> list[str]:
    """The next steps; each indented line is a command of `program`, or reads the file `reviews`."""
    return [
        "Next, without Kafka: the same for a file, yours or this one",
        f"  {program} summarize {reviews} --pretty -k 5",
        "On your Kafka (at localhost:9092, or where KAFKA_BOOTSTRAP_SERVERS says)",
        f"  {program} topics --partitions 4",
        f"  {program} run",
        "and in a second terminal, while it runs: send reviews, and watch",
        f"  {program} send {reviews}",
        f"  {program} watch",
    ]


def folded(step: str, width: int) -> list[str]:
    """A command in lines of at most `width` where possible, which a shell reads as one."""
    lines: list[str] = []
    line = step
    while len(line) > width and (cut := line.rfind(" ", 5, width - 1)) > 0:
        lines.append(f"{line[:cut]} \\")
        line = f"    {line[cut + 1 :]}"
    return [*lines, line]
