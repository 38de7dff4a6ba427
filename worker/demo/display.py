"""How the demo looks: a live picture on a terminal, a line a second elsewhere, JSON lines on demand; and the closing table."""

from __future__ import annotations

import json
import time
from typing import Final, Protocol

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from worker.demo.reviews import ATTRIBUTION
from worker.demo.story import Change, Story

FRESH_SECONDS: Final = 0.8
LINE_SECONDS: Final = 1.0
_FRAMES_PER_SECOND: Final = 8
_CAUSES: Final = {"review.upserted": "new review", "review.deleted": "review taken down"}
_NEXT: Final = """
All of it ran here: an embedded broker, the real worker on it, its state in RocksDB; everything is removed again. Next:

  coversumm-worker summarize FILE          your reviews, no Kafka: {"entity_id", "review_id", "text"} a line
  export KAFKA_BOOTSTRAP_SERVERS=...       your own Kafka:
  coversumm-worker topics --partitions 8   make its topics
  coversumm-worker run                     start the worker; then, in a second terminal:
  coversumm-worker send FILE               send reviews
  coversumm-worker inspect ENTITY          look at a summary"""


class Display(Protocol):
    """What the demo tells while it runs; a context manager."""

    def __enter__(self) -> Display:
        """Begin."""

    def __exit__(self, *_: object) -> None:
        """End, whatever happened."""

    def changed(self, value: bytes) -> None:
        """The story has taken in this `summary.changed`."""

    def update(self) -> None:
        """Time has passed, the story may have gone on."""

    def close(self) -> None:
        """What came of it all."""


def make_display(console: Console, story: Story, as_json: bool) -> Display:
    """The one that suits the console."""
    if as_json:
        return JsonLines(console, story)
    return Picture(console, story) if console.is_terminal else Lines(console, story)


class JsonLines:
    """Each summary change as it was published; the figures as the last line."""

    def __init__(self, console: Console, story: Story) -> None:
        self._file = console.file
        self._story = story

    def __enter__(self) -> JsonLines:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.flush()

    def changed(self, value: bytes) -> None:
        """See `Display`."""
        self._file.write(value.decode() + "\n")

    def update(self) -> None:
        """See `Display`."""
        self._file.flush()

    def close(self) -> None:
        """See `Display`."""
        self._file.write(json.dumps(self._story.figures(), ensure_ascii=False) + "\n")
        self._file.flush()


class Lines:
    """A line a second with the newest change, for logs and pipes."""

    def __init__(self, console: Console, story: Story) -> None:
        self._console = console
        self._story = story
        self._next_at = 0.0
        self._shown = ""

    def __enter__(self) -> Lines:
        self._print(f"{_title(self._story)} {ATTRIBUTION}")
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def changed(self, value: bytes) -> None:
        """See `Display`."""

    def update(self) -> None:
        """Print a line when it is time for one and there is something new."""
        story, now = self._story, time.monotonic()
        state = f"{story.phase}{story.processed}{story.changes}"
        if now >= self._next_at and state != self._shown:
            self._next_at, self._shown = now + LINE_SECONDS, state
            newest = f" | {_in_words(story.latest[-1])}" if story.latest else ""
            self._print(f"{_status(story)}{newest}")

    def close(self) -> None:
        """See `Display`."""
        _close(self._console, self._story)

    def _print(self, line: str) -> None:
        self._console.print(line, soft_wrap=True)
        self._console.file.flush()


class Picture:
    """Entities and changes, redrawn in place."""

    def __init__(self, console: Console, story: Story) -> None:
        self._console = console
        self._story = story
        self._live = Live(
            get_renderable=self._draw,
            console=console,
            refresh_per_second=_FRAMES_PER_SECOND,
            transient=True,
        )

    def __enter__(self) -> Picture:
        self._live.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.__exit__(None, None, None)

    def changed(self, value: bytes) -> None:
        """See `Display`."""

    def update(self) -> None:
        """See `Display`: it redraws itself."""

    def close(self) -> None:
        """See `Display`."""
        _close(self._console, self._story)

    def _draw(self) -> RenderableType:
        story = self._story
        head: list[RenderableType] = [
            _line(Text(_title(story), style="bold")),
            _line(Text(ATTRIBUTION, style="dim")),
            _bar(story),
            _line(Text(_status(story))),
        ]
        if not story.entities:
            return Group(*head)
        room = self._console.height - len(head) - (len(story.entities) + 4) - 3
        newest = list(story.latest)[-room:][::-1] if room > 0 else []
        title = [_line(Text("latest summary changes", style="dim"))] if newest else []
        return Group(*head, _table(story, time.monotonic()), *title, *map(_in_colour, newest))


def _title(story: Story) -> str:
    return (
        f"coversumm-worker demo: {story.k} sentences for each stay, exact after every review, exactly once."
    )


def _status(story: Story) -> str:
    seconds = story.seconds(time.monotonic())
    rate = f", {story.processed / seconds:,.0f}/s" if seconds > 1 else ""
    return (
        f"{story.phase}: {story.processed:,} of {story.total:,} events{rate}, {story.embedded:,} sentences embedded, "
        f"{story.changes:,} summary changes, {seconds:.0f} s"
    )


def _in_words(change: Change) -> str:
    parts = [f'+ "{change.added[0]}"'] if change.added else []
    parts += [f'- "{change.removed[0]}"'] if change.removed else []
    return f"{change.entity_id} ({_CAUSES.get(change.cause, change.cause)}) {' '.join(parts)}"


def _in_colour(change: Change) -> Text:
    """One line; what came in takes up to the half of it when something went out, too."""
    line = Text(f"{change.entity_id} ", style="cyan" if change.cause == "review.upserted" else "magenta")
    if change.added:
        text = change.added[0]
        if change.removed and len(text) > 60:
            text = text[:59] + "…"
        line.append(f"+ {text} ", style="green")
    if change.removed:
        line.append(f"- {change.removed[0]}", style="red")
    return _line(line)


def _bar(story: Story) -> Table:
    grid = Table.grid(expand=True)  # the bar alone does not end its line
    grid.add_row(ProgressBar(total=max(1, story.total), completed=story.processed))
    return grid


def _line(text: Text) -> Text:
    text.no_wrap, text.overflow = True, "ellipsis"
    return text


def _table(story: Story, now: float | None = None) -> Table:
    """The entities; those that have just changed stand out. Without `now`: for keeps, sentences in full."""
    table = Table(expand=True)
    table.add_column("stay", no_wrap=True)
    for heading in ("reviews", "sentences", "changes"):
        table.add_column(heading, justify="right", no_wrap=True)
    is_live = now is not None
    table.add_column(
        "most central sentence", ratio=1, no_wrap=is_live, overflow="ellipsis" if is_live else "fold"
    )
    for entity in story.in_order():
        is_fresh = now is not None and now - entity.changed_at < FRESH_SECONDS
        counts = (f"{n:,}" for n in (entity.review_count, entity.sentence_count, entity.changes))
        cells = [Text(cell) for cell in (entity.entity_id, *counts, entity.first_sentence)]
        table.add_row(*cells, style="bold" if is_fresh else "")
    return table


def _close(console: Console, story: Story) -> None:
    figures = story.figures()
    console.print(_table(story))
    for line in (
        f"{figures['events']:,} events in {figures['seconds']:.1f} s ({figures['events_per_second']:,.0f}/s, "
        f"{figures['sentences_embedded_per_second']:,.0f} sentences embedded/s), "
        f"{figures['summary_changes']:,} summary changes, {figures['dead_letters']:,} dead letters.",
        f"Verified: the stored summaries of all {story.verified} stays equal brute force over all their sentences.",
        f"{ATTRIBUTION}.",
        _NEXT,
    ):
        console.print(line, soft_wrap=True)
