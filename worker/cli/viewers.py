"""What `watch` shows: JSON lines, plain lines, or a screen that is redrawn in place."""

import sys
import time
from typing import Protocol

from rich.console import Console
from rich.text import Text

from worker.cli import output
from worker.events import Record
from worker.published.published import publication
from worker.published.watching import TopicWatch
from worker.view import (
    Board,
    EntityNames,
    Focus,
    Frame,
    LiveScreen,
    ShownChange,
    can_redraw,
    change_lines,
    one_line,
    screen,
)
from worker.view.texts import between


class Viewer(Protocol):
    """Shows what is published; a context manager."""

    def __enter__(self) -> "Viewer":
        """Begin."""

    def __exit__(self, *_: object) -> None:
        """End, whatever happened."""

    def begin_with(self, message: Record) -> None:
        """What was published of the entity before."""

    def take(self, message: Record) -> None:
        """The next message. Raises SetupError where it is no summary change."""

    def update(self) -> None:
        """Time has passed."""


def make_viewer(watch: TopicWatch, entity: str | None, as_json: bool) -> Viewer:
    """The one that suits standard output; `entity` is the only one it will be told of,
    None: all.
    """
    if as_json:
        return WatchJson(watch, entity)
    console = output.console()
    return WatchScreen(console, watch, entity) if can_redraw(console) else WatchLines(watch, entity)


class WatchJson:
    """The bodies as they were published; tombstones have none."""

    def __init__(self, watch: TopicWatch, entity: str | None) -> None:
        self._waiting = _waiting(watch, entity)

    def __enter__(self) -> "WatchJson":
        output.note(self._waiting)
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def begin_with(self, message: Record) -> None:
        """See `Viewer`."""
        self.take(message)

    def take(self, message: Record) -> None:
        """See `Viewer`."""
        if message.value is not None:
            sys.stdout.write(message.value.decode(errors="replace") + "\n")

    def update(self) -> None:
        """See `Viewer`."""
        output.flush()


class WatchLines:
    """Changes in plain lines."""

    def __init__(self, watch: TopicWatch, entity: str | None) -> None:
        self._waiting = _waiting(watch, entity)
        self._board = Board()

    def __enter__(self) -> "WatchLines":
        output.note(self._waiting)
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def begin_with(self, message: Record) -> None:
        """See `Viewer`."""
        _begin_with(self._board, message)
        for entity in self._board.entities.values():
            for sentence in entity.sentences:
                print(f"{sentence.rank + 1:>2}   {one_line(sentence.text)}")

    def take(self, message: Record) -> None:
        """See `Viewer`."""
        change = _take(self._board, message)
        if change is not None:
            print(*change_lines(change, EntityNames()), sep="\n")

    def update(self) -> None:
        """See `Viewer`."""
        output.flush()


class WatchScreen:
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

    def __enter__(self) -> "WatchScreen":
        self._screen.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._screen.__exit__()

    def begin_with(self, message: Record) -> None:
        """See `Viewer`."""
        _begin_with(self._board, message)

    def take(self, message: Record) -> None:
        """See `Viewer`."""
        _take(self._board, message)

    def update(self) -> None:
        """See `Viewer`."""
        self._screen.update()

    def _draw(self, now: float) -> list[Text]:
        board, width = self._board, self._console.width
        counts = f"{board.changes:,} changes in {now - self._began_at:,.0f} s"
        head = [
            between(
                Text(f"{output.PROGRAM} watch", style="bold"), Text(counts, style="bold"), width
            ),
            Text(self._state(now), style="yellow"),
            Text("━" * width, style="bright_black"),
        ]
        focus = self._focus.choose(board, now)
        others = [one for key, one in reversed(board.entities.items()) if key != focus]
        is_alone = self._entity is not None
        frame = (
            Frame(head, self._watch.topic, others=0) if is_alone else Frame(head, self._watch.topic)
        )
        return screen(self._console, board, others, focus, EntityNames(), frame, now)

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


def _begin_with(board: Board, message: Record) -> None:
    found = publication(message)
    if found.body is None:
        board.take_tombstone(found.entity_id)
    else:
        board.begin_with(found.body)


def _take(board: Board, message: Record) -> ShownChange | None:
    """The change; None for a tombstone: the change before it has emptied the summary."""
    found = publication(message)
    if found.body is None:
        board.take_tombstone(found.entity_id)
        return None
    return board.take(found.body, time.monotonic())
