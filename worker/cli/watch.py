"""`watch`: summary changes as they happen."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

import click
import msgspec
from rich.console import Console
from rich.text import Text

from worker.cli import output
from worker.cli.command import Command
from worker.cli.options import check_utf8
from worker.errors import SurroundingsError
from worker.published.watching import Published, TopicWatch
from worker.settings import Settings
from worker.view import (
    Board,
    Change,
    Focus,
    Frame,
    LiveScreen,
    Names,
    can_redraw,
    change_lines,
    one_line,
    screen,
)
from worker.view.texts import between


@click.command(
    "watch",
    cls=Command,
    short_help="Summary changes as they happen, of one entity or of all.",
    examples=[
        ("coversumm-worker watch", "whatever changes, on this terminal"),
        ("coversumm-worker watch B00X", "one entity, from its present summary on"),
        (
            "coversumm-worker watch --from-beginning | head -5",
            "the oldest five changes, as they were published",
        ),
    ],
)
@click.argument("entity", required=False)
@click.option("--from-beginning", is_flag=True, help="First all changes that the output topic still holds.")
@output.json_option
def command(entity: str | None, from_beginning: bool, as_json: bool) -> None:
    """Summary changes as they are published: what came into a summary, what left it, and why; of ENTITY from its present summary
    on, or of all entities, one that has just changed in full. Ctrl-C ends it.

    Reads the output topic, joins no group and commits nothing. JSON lines are the bodies as they were published.
    """
    from worker.published.watching import TopicWatch
    from worker.view import ending_signals

    check_utf8("ENTITY", entity or "")
    settings = Settings.from_environment()
    with ending_signals(), TopicWatch(settings, from_beginning=from_beginning) as watch:
        before = None
        if entity is not None and not from_beginning:
            with output.file_progress(None, "messages searched") as progress:
                before = watch.current(entity, lambda count: progress.update(count, count))
        with make_viewer(watch, entity, as_json) as viewer:
            if before is not None:
                viewer.begin_with(before)
            while True:
                viewer.update()
                for message in watch.receive():
                    if entity in (None, message.entity_id):
                        viewer.take(message)


class Viewer(Protocol):
    """Shows what is published; a context manager."""

    def __enter__(self) -> "Viewer":
        """Begin."""

    def __exit__(self, *_: object) -> None:
        """End, whatever happened."""

    def begin_with(self, message: Published) -> None:
        """What was published of the entity before."""

    def take(self, message: Published) -> None:
        """The next message. Raises SurroundingsError where it is no summary change."""

    def update(self) -> None:
        """Time has passed."""


def make_viewer(watch: TopicWatch, entity: str | None, as_json: bool) -> Viewer:
    """The one that suits standard output; `entity` is the only one it will be told of, None: all."""
    if as_json:
        return JsonLines(watch, entity)
    console = output.console()
    return Picture(console, watch, entity) if can_redraw(console) else Lines(watch, entity)


class JsonLines:
    """The bodies as they were published; tombstones have none."""

    def __init__(self, watch: TopicWatch, entity: str | None) -> None:
        self._waiting = _waiting(watch, entity)

    def __enter__(self) -> "JsonLines":
        output.note(self._waiting)
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def begin_with(self, message: Published) -> None:
        """See `Viewer`."""
        self.take(message)

    def take(self, message: Published) -> None:
        """See `Viewer`."""
        if message.value is not None:
            sys.stdout.write(message.value.decode(errors="replace") + "\n")

    def update(self) -> None:
        """See `Viewer`."""
        output.flush()


class Lines:
    """Changes in plain lines."""

    def __init__(self, watch: TopicWatch, entity: str | None) -> None:
        self._waiting = _waiting(watch, entity)
        self._board = Board()

    def __enter__(self) -> "Lines":
        output.note(self._waiting)
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def begin_with(self, message: Published) -> None:
        """See `Viewer`."""
        _begin_with(self._board, message)
        for entity in self._board.entities.values():
            for sentence in entity.sentences:
                print(f"{sentence.rank + 1:>2}   {one_line(sentence.text)}")

    def take(self, message: Published) -> None:
        """See `Viewer`."""
        change = _take(self._board, message)
        if change is not None:
            print(*change_lines(change, Names()), sep="\n")

    def update(self) -> None:
        """See `Viewer`."""
        output.flush()


class Picture:
    """A summary in full, redrawn in place; below it the other entities that changed last."""

    def __init__(self, console: Console, watch: TopicWatch, entity: str | None) -> None:
        self._console = console
        self._watch = watch
        self._entity = entity
        self._began_at = time.monotonic()
        self._board = Board()
        self._focus = Focus()
        self._focus.pin(entity)
        self._screen = LiveScreen(console, self._draw)

    def __enter__(self) -> "Picture":
        self._screen.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._screen.__exit__()

    def begin_with(self, message: Published) -> None:
        """See `Viewer`."""
        _begin_with(self._board, message)

    def take(self, message: Published) -> None:
        """See `Viewer`."""
        _take(self._board, message)

    def update(self) -> None:
        """See `Viewer`."""
        self._screen.update()

    def _draw(self, now: float) -> list[Text]:
        board, width = self._board, self._console.width
        counts = f"{board.changes:,} changes in {now - self._began_at:,.0f} s"
        head = [
            between(Text(f"{output.PROGRAM} watch", style="bold"), Text(counts, style="bold"), width),
            Text(self._state(now), style="yellow"),
            Text("━" * width, style="bright_black"),
        ]
        focus = self._focus.choose(board, now)
        others = [one for key, one in reversed(board.entities.items()) if key != focus]
        is_alone = self._entity is not None
        frame = Frame(head, self._watch.topic, others=0) if is_alone else Frame(head, self._watch.topic)
        return screen(self._console, board, others, focus, Names(), frame, now)

    def _state(self, now: float) -> str:
        """What one wants to know of the watch itself."""
        lost, board = self._watch.lost_seconds, self._board
        if lost is not None:
            return f"no broker has answered for {lost:,.0f} s: what is shown may be old"
        if self._entity is not None and not board.entities:
            return f"nothing is published of it yet; {_waiting(self._watch, self._entity)}"
        if not board.latest:
            return _waiting(self._watch, self._entity)
        ago = now - board.entities[board.latest[-1].entity_id].changed_at
        return f"the last change came {ago:,.0f} s ago; Ctrl-C ends the watch"


def _waiting(watch: TopicWatch, entity: str | None) -> str:
    where = f"on {watch.topic}" if entity is None else f"of {one_line(entity)}"
    return f"waiting for a change {where}; Ctrl-C ends it"


def _begin_with(board: Board, message: Published) -> None:
    if message.value is None:
        board.take_tombstone(message.entity_id)
        return
    with _told_where(message):
        board.begin_with(message.value)


def _take(board: Board, message: Published) -> Change | None:
    """The change; None for a tombstone: the change before it has emptied the summary."""
    if message.value is None:
        board.take_tombstone(message.entity_id)
        return None
    with _told_where(message):
        return board.take(message.value, time.monotonic())


@contextmanager
def _told_where(message: Published) -> Iterator[None]:
    try:
        yield
    except msgspec.DecodeError as error:
        raise SurroundingsError(
            f"the message at {message.place} is no summary change ({error}): look at COVERSUMM_OUTPUT_TOPIC"
        ) from error
