"""How the demo looks: a live screen on a terminal, a line a second elsewhere, JSON lines on demand;
and the closing.
"""

from __future__ import annotations

import json
import time
from typing import Final, Protocol

from rich.console import Console
from rich.text import Text

from worker.demo.closing import closing_lines, in_words
from worker.demo.reviews import ATTRIBUTION
from worker.demo.story import Phase, Story
from worker.view import Frame, LiveScreen, ShownChange, can_redraw, change_lines, screen
from worker.view.texts import between

LINE_SECONDS: Final = 1.0
_PROGRAM: Final = "coversumm-worker demo"


class Display(Protocol):
    """What the demo tells while it runs; a context manager."""

    is_watched: bool
    """Somebody looks on: there is no hurry."""

    def __enter__(self) -> Display:
        """Begin."""

    def __exit__(self, *_: object) -> None:
        """End, whatever happened."""

    def changed(self, value: bytes, change: ShownChange) -> None:
        """The story has taken in this `summary.changed`."""

    def update(self) -> None:
        """Time has passed, the story may have gone on."""

    def close(self) -> None:
        """What came of it all."""


def make_display(console: Console, story: Story, as_json: bool) -> Display:
    """The one that suits the console."""
    if as_json:
        return DemoJson(console, story)
    return DemoScreen(console, story) if can_redraw(console) else DemoLines(console, story)


class DemoJson:
    """Each summary change as it was published; the figures as the last line."""

    is_watched = False

    def __init__(self, console: Console, story: Story) -> None:
        self._file = console.file
        self._story = story

    def __enter__(self) -> DemoJson:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.flush()

    def changed(self, value: bytes, change: ShownChange) -> None:
        """See `Display`."""
        self._file.write(value.decode() + "\n")

    def update(self) -> None:
        """See `Display`."""
        self._file.flush()

    def close(self) -> None:
        """See `Display`."""
        self._file.write(json.dumps(self._story.figures(), ensure_ascii=False) + "\n")
        self._file.flush()


class DemoLines:
    """For logs, pipes and terminals that cannot redraw: a line a second with the newest change;
    each deletion's.
    """

    is_watched = False

    def __init__(self, console: Console, story: Story) -> None:
        self._console = console
        self._story = story
        self._next_at = 0.0
        self._shown = ""

    def __enter__(self) -> DemoLines:
        self._print(f"{_PROGRAM}: {_promise(self._story)}. {ATTRIBUTION}")
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def changed(self, value: bytes, change: ShownChange) -> None:
        """See `Display`."""
        if self._story.phase is Phase.TAKING_DOWN:
            self._tell(change)

    def update(self) -> None:
        """Print a line when it is time for one and there is something new."""
        story, now = self._story, time.monotonic()
        state = f"{story.phase}{story.processed}{story.board.changes}"
        if now >= self._next_at and state != self._shown:
            self._next_at, self._shown = now + LINE_SECONDS, state
            if story.phase in (Phase.ARRIVING, Phase.HURRYING):
                self._print(f"{in_words(story)}")
                if story.board.latest:
                    self._tell(story.board.latest[-1])
            else:
                self._print(story.phase.value)

    def close(self) -> None:
        """See `Display`."""
        for line in (Text(), *closing_lines(self._console, self._story)):
            self._print(line.plain)

    def _tell(self, change: ShownChange) -> None:
        for line in change_lines(change, self._story.names):
            self._print(f"  {line}")

    def _print(self, line: str) -> None:
        # rich's own way ends the process with 1 where nobody reads on
        self._console.file.write(line + "\n")
        self._console.file.flush()


class DemoScreen:
    """A stay's summary in full, the others small, redrawn in place."""

    is_watched = True

    def __init__(self, console: Console, story: Story) -> None:
        self._console = console
        self._story = story
        self._screen = LiveScreen(console, self._draw)

    def __enter__(self) -> DemoScreen:
        self._screen.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._screen.__exit__()

    def changed(self, value: bytes, change: ShownChange) -> None:
        """See `Display`."""

    def update(self) -> None:
        """See `Display`."""
        self._screen.update()

    def close(self) -> None:
        """See `Display`."""
        for line in closing_lines(self._console, self._story):
            self._console.print(line, soft_wrap=True)

    def _draw(self, now: float) -> list[Text]:
        story, width = self._story, self._console.width
        counts = f"{story.arrived:,} of {story.reviews:,} reviews in, {story.board.changes:,} changes out"
        if story.taken_down:
            counts = in_words(story)
        head = [
            between(Text(_PROGRAM, style="bold"), Text(counts, style="bold"), width),
            Text(story.phase.value, style="yellow"),
            _bar(story.share, width),
        ]
        if story.page is not None:
            head.insert(1, Text(f"the page: {story.page}", style="cyan"))
        if not story.board.entities:
            head += [Text(), *self._promise_lines(width)]
        frame = Frame(head, ATTRIBUTION, doomed=story.doomed)
        focus = story.focus.choose(story.board, now)
        return screen(self._console, story.board, story.in_order(), focus, story.names, frame, now)

    def _promise_lines(self, width: int) -> list[Text]:
        text = (
            f"{self._story.reviews:,} real reviews of Airbnb stays will go through the real worker, on an embedded Kafka broker. "
            f"It keeps {_promise(self._story)}. New sentences flash, those pushed out are struck through, and the reason "
            "stands beside."
        )
        return [*Text(text).wrap(self._console, width), Text(), Text(ATTRIBUTION, style="dim")]


def _promise(story: Story) -> str:
    return f"for each stay the {story.k} sentences closest to what most guests say, exact after every review, exactly once"


def _bar(share: float, width: int) -> Text:
    done = round(share * width)
    return Text.assemble(("━" * done, "green"), ("━" * (width - done), "bright_black"))
