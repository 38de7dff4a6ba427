"""The last lines of the demo: an overview, the rankings, the result and the next steps."""

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

from worker.demo.reviews import ATTRIBUTION, FACETS, reviews_file
from worker.demo.story import PROGRAM, Story
from worker.errors import many
from worker.published.publication import SetName
from worker.view.overview import entity_counts, overview_lines
from worker.view.screen import entity_rows
from worker.view.texts import between, folded, hanging

_MAX_WIDTH: Final = 100


def closing_lines(console: Console, story: Story, height: int | None = None) -> Iterator[Text]:
    """The lines; all but commands fit the console.

    With a `height` they fit that many lines if possible: then the overview has its first subjects
    only, and the first sentences of the rankings are left out if they do not fit.
    """
    width = min(console.width, _MAX_WIDTH)
    steps = next_steps(own_command(), typed_path(Path(str(reviews_file()))))
    after = [
        Text(),
        *(line for one in _outcome(story) for line in hanging(console, Text(), Text(one), width)),
        Text(),
        *(Text(line) for step in steps for line in folded(step, console.width)),
    ]
    room = math.inf if height is None else height - len(after)
    overview = _overview(console, story, width, room)
    rankings = _rankings(console, story, width)
    yield from overview
    if len(rankings) <= room - len(overview):
        yield from rankings
    yield from after


def _overview(console: Console, story: Story, width: int, room: float) -> list[Text]:
    """The overview of the largest stay, with as many subjects as fit, after a heading."""
    if story.overview is None:
        return []
    name = story.names.of(SetName(story.overview["entity_id"]))
    heading = between(
        Text(f"What guests say of {name}", style="bold cyan"),
        Text(entity_counts(story.overview), style="dim"),
        width,
    )
    return [heading, *overview_lines(console, story.overview, story.names, width, room - 1)]


def _rankings(console: Console, story: Story, width: int) -> list[Text]:
    """A heading, and the first sentence of each stay's ranking."""
    heading = (
        f"Each stay also has a ranking, of the {story.k} sentences nearest to the mean of all:"
    )
    rows = entity_rows(story.in_order(), story.names, width, math.inf)
    return [Text(), *hanging(console, Text(), Text(heading, style="dim"), width), *rows]


def _outcome(story: Story) -> Iterator[str]:
    yield (
        f"{story.counts()} in {story.seconds():.0f} s. Verified: the stored summaries of "
        f"{many(story.verified, 'stays')} equal brute force over all their sentences; "
        f"{many(story.dead_letters, 'dead letters')}."
    )
    if story.left_out:
        yield (
            f"{many(story.left_out, 'reviews')} were left out, since this machine is slow or busy "
            f"now: `demo --reviews {story.reviews + story.left_out}` sends all."
        )
    yield f"It ran on an embedded broker; everything is removed again. {ATTRIBUTION}."


def next_steps(program: str, reviews: str) -> list[str]:
    """The next steps; each indented line is a command of `program`, or reads the file `reviews`."""
    return [
        "Next, a file without Kafka, yours or this one",
        f"  {program} summarize {reviews} --facets {FACETS} --view overview --pretty",
        "Then your own Kafka, your own table, your own page: docs/tutorial.md",
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
