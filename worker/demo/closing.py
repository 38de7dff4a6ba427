"""The last lines of the demo: the summaries in full, the result and the next steps."""

from __future__ import annotations

import math
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
from worker.demo.story import PROGRAM, Story
from worker.errors import many
from worker.view.card import summary_lines
from worker.view.screen import entity_rows, facet_line
from worker.view.texts import folded, hanging

_MAX_WIDTH: Final = 100


def closing_lines(console: Console, story: Story, height: int | None = None) -> Iterator[Text]:
    """The lines; all but commands fit the console.

    With a `height` they fit that many lines if possible: then of each summary only its first
    sentences are shown, or a line that may be cut.
    """
    width = min(console.width, _MAX_WIDTH)
    steps = next_steps(own_command(), typed_path(Path(str(reviews_file()))))
    after = [
        *(line for one in _outcome(story) for line in hanging(console, Text(), Text(one), width)),
        Text(),
        *(Text(line) for step in steps for line in folded(step, console.width)),
    ]
    room = math.inf if height is None else height - len(after)
    shortest = len(_summaries(console, story, width, 0))
    facets = _facets(console, story, width, room - shortest - 1)
    summaries = _summaries(console, story, width, room - len(facets) + 1)
    if len(summaries) > room:
        heading = Text(f"The first of {story.k} sentences of each summary:", style="dim")
        rows = entity_rows(story.in_order(), story.names, width, math.inf)
        summaries = [heading, *rows]
        summaries += [Text()] * (len(summaries) < room)
    yield from summaries[: -1 if facets else None]  # the heading takes the empty line
    yield from facets
    yield from after


def _summaries(console: Console, story: Story, width: int, room: float) -> list[Text]:
    """All summaries with as many sentences of each as fit `room` lines, but at least one."""
    lines: list[Text] = []
    for count in range(story.k, 0, -1):
        is_cut = count < story.k
        first = "first" if count == 1 else f"first {count}"
        some = Text(f"The {first} of {story.k} sentences of each summary:", style="dim")
        lines = [some] if is_cut else []
        for entity in story.in_order():
            lines += summary_lines(console, entity, story.names, width, count)
            lines += [] if is_cut else [Text()]
        lines += [Text()] if is_cut else []
        if len(lines) <= room:
            break
    return lines


def _facets(console: Console, story: Story, width: int, room: float) -> list[Text]:
    """The largest facets of the largest stay that fit `room` lines, after a heading."""
    largest = max(story.in_order(), key=lambda one: one.sentence_count, default=None)
    blocks = [
        hanging(console, Text("  "), facet_line(facet), width)
        for facet in (story.facets_of(largest.name) if largest is not None else ())
    ]
    lines: list[Text] = []
    for block in blocks:
        if len(lines) + len(block) <= room:
            lines += block
    if largest is None or not lines:
        return []
    heading = Text(f"By subject, {story.names.of(largest.name)}:", style="dim")
    return [heading, *lines, Text()]


def _outcome(story: Story) -> Iterator[str]:
    yield (
        f"{story.counts()} in {story.seconds():.0f} s. Verified: the stored summaries of "
        f"{many(story.verified, 'stays')} equal brute force over all their sentences; "
        f"{many(story.dead_letters, 'dead letters')}."
    )
    if story.left_out:
        left_out = "1 review was" if story.left_out == 1 else f"{story.left_out:,} reviews were"
        everything = f"--reviews {story.reviews + story.left_out} takes all"
        yield f"{left_out} left out, as this machine is busy: {everything}."
    yield f"It ran on an embedded broker; everything is removed again. {ATTRIBUTION}."


def next_steps(program: str, reviews: str) -> list[str]:
    """The next steps; each indented line is a command of `program`, or reads the file `reviews`."""
    return [
        "Next, without Kafka: the same for a file, yours or this one",
        f"  {program} summarize {reviews} --pretty -k 5",
        "On your Kafka (localhost:9092, or KAFKA_BOOTSTRAP_SERVERS), in two terminals",
        f"  {program} topics --partitions 4 && {program} run",
        f"  {program} send {reviews} && {program} watch",
    ]


def own_command(
    arguments: Sequence[str] | None = None, python: str | None = None, directory: Path | None = None
) -> str:
    """The shell command of this program: `coversumm-worker` if it is on the PATH, else its path.

    By default of this process, as seen from the shell's directory when it was started.
    """
    started = (sys.argv if arguments is None else arguments)[0]
    directory = _user_directory() if directory is None else directory
    if Path(started).name == PROGRAM:
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
