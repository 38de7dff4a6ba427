"""What stays on the terminal when the demo is over: the summaries in full, what it came to, what to
do next.
"""

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
    """What to type in a shell to run this program: `coversumm-worker` where that is found, else a
    path to it.

    Args:
        arguments: of the process, its name first; by default `sys.argv`.
        python: the interpreter; by default this one.
        directory: where the user is; by default where the user's shell was when this was started.
    """
    started = (sys.argv if arguments is None else arguments)[0]
    directory = _user_directory() if directory is None else directory
    if Path(started).name == _PROGRAM:
        return _typed(Path(started), directory)
    return f"{_typed(Path(python or sys.executable), directory)} -m worker"


def typed_path(path: Path, directory: Path | None = None) -> str:
    """A path (from the working directory) as one types it there: relative if it lies below, quoted
    where a shell wants it.
    """
    directory = _user_directory() if directory is None else directory
    absolute = Path(os.path.abspath(path))  # not resolved: links are how users know it
    shown = absolute.relative_to(directory) if absolute.is_relative_to(directory) else absolute
    return shlex.quote(str(shown))


def _typed(program: Path, directory: Path) -> str:
    """The program's name if a shell finds this very program by it, else its path."""
    found = shutil.which(program.name)
    if found is not None and os.path.abspath(found) == os.path.abspath(program):
        return shlex.quote(program.name)
    typed = typed_path(program, directory)
    return typed if "/" in typed else f"./{typed}"


def _user_directory() -> Path:
    """The working directory, unless somebody has changed it on the way: `make -C` does, and leaves
    `PWD` as it was.
    """
    here, named = Path.cwd(), Path(os.environ.get("PWD", ""))
    return here if not named.is_absolute() or not named.is_dir() or named.samefile(here) else named


_WIDEST: Final = 100
"""Longer lines are hard to read."""


def closing_lines(console: Console, story: Story) -> Iterator[Text]:
    """The lines; no longer than the console is wide, but for commands, which are to be copied."""
    width = min(console.width, _WIDEST)
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
        f"{in_words(story)} in {seconds}: each summary is the {story.k} sentences closest to the average of all of its stay's."
    )
    if story.left_out:
        left_out = "1 review was" if story.left_out == 1 else f"{story.left_out:,} reviews were"
        everything = f"--reviews {story.reviews + story.left_out} takes all"
        yield f"This machine is busy or slow, so {left_out} left out to be brief: {everything}."
    yield (
        f"Verified: the stored summaries of all {story.verified} stays equal brute force over all their sentences; "
        f"{story.dead_letters:,} dead letters."
    )
    yield "All of it ran here: an embedded broker, the real worker on it, its state in RocksDB; everything is removed again."
    yield f"{ATTRIBUTION}."


def in_words(story: Story) -> str:
    """The counts: reviews in, changes out."""
    down = f", {story.taken_down:,} taken down" if story.taken_down else ""
    return f"{story.arrived:,} reviews in{down}, {story.board.changes:,} changes out"


def next_steps(program: str, reviews: str) -> list[str]:
    """What to type next: each indented line works as it stands.

    Args:
        program: how the user runs this program.
        reviews: a file of reviews.
    """
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
    """A command in lines that a shell reads as one, as far as its words allow it."""
    lines: list[str] = []
    line = step
    while len(line) > width and (cut := line.rfind(" ", 5, width - 1)) > 0:
        lines.append(f"{line[:cut]} \\")
        line = f"    {line[cut + 1 :]}"
    return [*lines, line]
