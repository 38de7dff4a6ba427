"""Displays of the demo: a live screen on a terminal, else a line a second, or JSON lines."""

from __future__ import annotations

import json
import time
from typing import Final

from rich.console import Console
from rich.text import Text

from worker.demo.closing import closing_lines, counts_of
from worker.demo.reviews import ATTRIBUTION
from worker.demo.story import Phase, Story
from worker.view import Frame, LiveScreen, ShownChange, can_redraw, change_lines, screen
from worker.view.texts import between

LINE_SECONDS: Final = 1.0
_PROGRAM: Final = "coversumm-worker demo"


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
        self._print(f"{_PROGRAM}: {_promise(self._story)}. {ATTRIBUTION}")
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
            between(Text(_PROGRAM, style="bold"), Text(counts, style="bold"), width),
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
