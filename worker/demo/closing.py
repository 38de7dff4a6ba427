"""The last lines of the demo: an overview, the result and the next steps."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import wrap
from typing import Any, Final

from rich.console import Console
from rich.text import Text

from worker.demo.reviews import FACETS, reviews_file
from worker.view.overview import entity_counts, overview_table
from worker.view.texts import between, folded, hanging, one_line
from worker.view.viewer import Viewer

PROGRAM: Final = "coversumm-worker"
_MAX_WIDTH: Final = 100


def print_closing(
    console: Console, viewer: Viewer, overview: Mapping[str, Any] | None, outcome: Sequence[str]
) -> None:
    """Print the lines; all but commands fit the console's width.

    On a screen they fit its height if possible: the overview has its first subjects only.
    """
    width = min(console.width, _MAX_WIDTH)
    after = [
        Text(),
        *(line for text in outcome for line in hanging(console, Text(), Text(text), width)),
        Text(),
        *(Text(line) for step in next_steps() for line in _shown(step, console.width)),
    ]
    # a heading is above it, the shell's prompt below
    most = console.height - len(after) - 2 if viewer.is_screen else None
    said = [] if overview is None else _overview(console, overview, width, most)
    for line in (*said, *after):
        if viewer.is_screen:
            console.print(line, soft_wrap=True)
        else:
            viewer.write(line.plain.rstrip())


def _overview(
    console: Console, overview: Mapping[str, Any], width: int, most: int | None
) -> list[Text]:
    """A heading, and as many of the first subjects as fit in `most` lines."""
    name = Text(f"What guests say of {one_line(overview['entity_id'])}", style="bold cyan")
    heading = between(name, Text(entity_counts(overview), style="dim"), width)
    options = console.options.update(width=width)
    for subjects in range(len(overview["facets"]), 0, -1):
        lines = console.render_lines(overview_table(overview, subjects), options, pad=False)
        if most is None or len(lines) <= most:
            return [heading, *(Text.assemble(*((s.text, s.style or "") for s in x)) for x in lines)]
    return [heading]


def next_steps() -> list[str]:
    """The next steps; an indented line is a command of this program."""
    reviews = typed_path(Path(str(reviews_file())))
    return [
        "Next, a file without Kafka, yours or this one",
        f"  {own_command()} summarize {reviews} --facets {FACETS} --view overview --pretty",
        "Then your own Kafka, your own table, your own page: docs/tutorial.md",
    ]


def _shown(step: str, width: int) -> list[str]:
    """A command is folded with backslashes, a sentence is wrapped."""
    return folded(step, width) if step.startswith(" ") else wrap(step, width)


def own_command() -> str:
    """The shell command of this program: `coversumm-worker` if it is on the PATH, else its path."""
    started = Path(sys.argv[0])
    if started.name != PROGRAM:
        return f"{typed_path(Path(sys.executable))} -m worker"
    found = shutil.which(PROGRAM)
    is_found = found is not None and os.path.abspath(found) == os.path.abspath(started)
    return PROGRAM if is_found else typed_path(started)


def typed_path(path: Path) -> str:
    """A path quoted for a shell; relative if it lies below the directory of the user's shell."""
    absolute = os.path.abspath(path)  # not resolved: users know its links
    here = os.environ.get("PWD") or str(Path.cwd())  # `make -C` leaves `PWD` as it was
    relative = absolute.removeprefix(f"{here}/")
    return shlex.quote(relative if "/" in relative else absolute)  # a bare name is not a program
