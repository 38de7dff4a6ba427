"""The last lines of the demo: an overview, the result and the next steps."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from textwrap import wrap
from typing import Final

from rich.console import Console
from rich.text import Text

from worker.errors import many
from worker.view.cards import cards
from worker.view.texts import folded
from worker.view.viewer import Viewer

PROGRAM: Final = "coversumm-worker"


def print_closing(
    console: Console, viewer: Viewer, overview: bytes | None, outcome: Sequence[str]
) -> None:
    """Print the lines. On a screen the overview, in JSON, is cut so that all fit its height."""
    width = console.width
    after = ["", *(line for text in outcome for line in wrap(text, min(width, 100))), ""]
    for step in next_steps():  # a command is folded with backslashes, a sentence is wrapped
        after += folded(step, width) if step.startswith(" ") else wrap(step, width)
    shown = () if overview is None else cards([overview], styled=viewer.is_screen)
    card = [line.rstrip() for output in shown for line in output.decode().rstrip().splitlines()]
    heading = ["What guests say of the stay with the most reviews"] if card else []
    room = max(console.height - len(after) - 2, 2)  # the heading above, the shell's prompt below
    if viewer.is_screen and len(card) > room:
        starts = [Text.from_ansi(line).plain[:1] for line in card[room - 1 :]]
        more = many(len(starts) - starts.count(" "), "more subjects")
        card[room - 1 :] = [f"... {more} in a taller window"]
    viewer.write(*heading, *card, *after)


def next_steps() -> list[str]:
    """The next steps; an indented line is a command of this program."""
    return [
        "Next, the live page without Kafka; it opens a table of yours too: serve reviews.csv",
        f"  {own_command()} serve",
        "Then your own Kafka, your own table, your own page: docs/tutorial.md",
    ]


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
