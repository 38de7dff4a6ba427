"""Displays of the demo: a live screen on a terminal, else a line a second, or JSON lines.

All but JSON end with the summaries in full, the result and the next steps.
"""

from __future__ import annotations

import json
import math
import os
import shlex
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.text import Text

from worker.demo.reviews import ATTRIBUTION, reviews_file
from worker.demo.story import Phase, Story
from worker.view import (
    Frame,
    LiveScreen,
    ShownChange,
    can_redraw,
    change_lines,
    entity_rows,
    facet_line,
    screen,
    summary_lines,
)
from worker.view.texts import between, folded, hanging

LINE_SECONDS: Final = 1.0
_PROGRAM: Final = "coversumm-worker"
_MAX_WIDTH: Final = 100


class Display:
    """Shows the story while the demo runs; a context manager."""

    is_watched = False
    """Whether a person watches, so that reviews come slowly at first."""

    def __init__(self, console: Console, story: Story) -> None:
        self._console = console
        self._story = story

    def __enter__(self) -> Display:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def changed(self, value: bytes, change: ShownChange | None) -> None:
        """Show a body that the story has taken; `change` is None if it is of facets."""

    def update(self) -> None:
        """Show what is new; called all the time."""

    def close(self) -> None:
        """Show the result."""

    def _print(self, line: str) -> None:
        # not by the console: rich ends the process with 1 if the reader is gone
        self._console.file.write(line + "\n")
        self._console.file.flush()


def make_display(console: Console, story: Story, as_json: bool) -> Display:
    """The display that suits the console."""
    if as_json:
        return DemoJson(console, story)
    return DemoScreen(console, story) if can_redraw(console) else DemoLines(console, story)


class DemoJson(Display):
    """The published bodies, and the figures as the last line."""

    def __exit__(self, *_: object) -> None:
        self._console.file.flush()

    def changed(self, value: bytes, change: ShownChange | None) -> None:
        """See `Display`."""
        self._console.file.write(value.decode() + "\n")

    def update(self) -> None:
        """See `Display`."""
        self._console.file.flush()

    def close(self) -> None:
        """See `Display`."""
        self._print(json.dumps(self._story.figures(), ensure_ascii=False))


class DemoLines(Display):
    """A line a second with the newest change, and each deletion's change."""

    def __init__(self, console: Console, story: Story) -> None:
        super().__init__(console, story)
        self._next_at = 0.0
        self._shown = ""

    def __enter__(self) -> DemoLines:
        self._print(f"{_PROGRAM} demo: {_promise(self._story)}. {ATTRIBUTION}")
        return self

    def changed(self, value: bytes, change: ShownChange | None) -> None:
        """See `Display`."""
        if self._story.phase is Phase.TAKING_DOWN and change is not None:
            self._print_change(change)

    def update(self) -> None:
        """See `Display`."""
        story, now = self._story, time.monotonic()
        state = f"{story.phase}{story.processed}{story.board.changes}"
        if now >= self._next_at and state != self._shown:
            self._next_at, self._shown = now + LINE_SECONDS, state
            if story.phase in (Phase.ARRIVING, Phase.HURRYING):
                self._print(counts_of(story))
                if story.board.latest:
                    self._print_change(story.board.latest[-1])
            else:
                self._print(story.phase.value)

    def close(self) -> None:
        """See `Display`."""
        for line in (Text(), *closing_lines(self._console, self._story)):
            self._print(line.plain)

    def _print_change(self, change: ShownChange) -> None:
        for line in change_lines(change, self._story.names):
            self._print(f"  {line}")


class DemoScreen(Display):
    """A stay's summary in full, the others small, redrawn in place."""

    is_watched = True

    def __init__(self, console: Console, story: Story) -> None:
        super().__init__(console, story)
        self._screen = LiveScreen(console, self._draw)

    def __enter__(self) -> DemoScreen:
        self._screen.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._screen.__exit__()

    def update(self) -> None:
        """See `Display`."""
        self._screen.update()

    def close(self) -> None:
        """See `Display`."""
        height = self._console.height - 1  # the shell's prompt follows
        for line in closing_lines(self._console, self._story, height):
            self._console.print(line, soft_wrap=True)

    def _draw(self, now: float) -> list[Text]:
        story, width = self._story, self._console.width
        counts = counts_of(story)
        if not story.taken_down:
            arrived = f"{story.arrived:,} of {story.reviews:,} reviews in"
            counts = f"{arrived}, {story.board.changes:,} changes out"
        head = [
            between(Text(f"{_PROGRAM} demo", style="bold"), Text(counts, style="bold"), width),
            Text(story.phase.value, style="yellow"),
            _bar(story.share, width),
        ]
        if story.page is not None:
            head.insert(1, Text(f"the page: {story.page}", style="cyan"))
        if not story.board.entities:
            head += [Text(), *self._promise_lines(width)]
        focus = story.focus.choose(story.board, now)
        facets = story.facets_of(focus)
        frame = Frame(head, ATTRIBUTION, doomed=story.doomed, facets=facets)
        return screen(self._console, story.board, story.in_order(), focus, story.names, frame, now)

    def _promise_lines(self, width: int) -> list[Text]:
        text = (
            f"{self._story.reviews:,} real reviews of Airbnb stays go through the real worker, on "
            f"an embedded Kafka broker. It keeps {_promise(self._story)}. New sentences flash, "
            "removed ones are struck through, each with the reason. Below them is what guests say "
            "about single subjects, such as parking or noise."
        )
        return [*Text(text).wrap(self._console, width), Text(), Text(ATTRIBUTION, style="dim")]


def _promise(story: Story) -> str:
    sentences = f"for each stay the {story.k} sentences closest to what most guests say"
    return f"{sentences}, exact after every review, exactly once"


def _bar(share: float, width: int) -> Text:
    done = round(share * width)
    return Text.assemble(("━" * done, "green"), ("━" * (width - done), "bright_black"))


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
    """What guests say about single subjects of the largest stay, after a heading: its largest
    facets that fit `room` lines.
    """
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
        f"{counts_of(story)} in {story.seconds():.0f} s. Verified: the stored summaries of all "
        f"{story.verified} stays equal brute force over all their sentences; "
        f"{story.dead_letters:,} dead letters."
    )
    if story.left_out:
        left_out = "1 review was" if story.left_out == 1 else f"{story.left_out:,} reviews were"
        everything = f"--reviews {story.reviews + story.left_out} takes all"
        yield f"{left_out} left out, as this machine is busy: {everything}."
    yield f"It ran on an embedded broker; everything is removed again. {ATTRIBUTION}."


def counts_of(story: Story) -> str:
    """Reviews in, changes out."""
    down = f", {story.taken_down:,} taken down" if story.taken_down else ""
    return f"{story.arrived:,} reviews in{down}, {story.board.changes:,} changes out"


def next_steps(program: str, reviews: str) -> list[str]:
    """The next steps; each indented line is a command of `program`, or reads the file `reviews`."""
    return [
        "Next, without Kafka: the same for a file, yours or this one",
        f"  {program} summarize {reviews} --pretty -k 5",
        "On your Kafka (localhost:9092, or KAFKA_BOOTSTRAP_SERVERS), in two terminals",
        f"  {program} topics --partitions 4 && {program} run",
        f"  {program} send {reviews} && {program} watch",
    ]
