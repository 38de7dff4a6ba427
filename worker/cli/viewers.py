"""Views of `watch`: JSON lines, plain lines, or a screen that is redrawn in place."""

import sys
import time
from typing import Final

from rich.console import Console
from rich.text import Text

from worker.cli import output
from worker.events import Record
from worker.published.publication import Publication, SetName, publications
from worker.published.watching import TopicWatch
from worker.view import (
    OTHERS,
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

OTHER_FACETS: Final = 10
"""Lines for facets below the one in full, which is short: all those of an entity."""


class Viewer:
    """Shows messages of the output topic; a context manager."""

    def __init__(self, watch: TopicWatch, entity: str | None) -> None:
        """`entity`: the only one whose messages are passed; None: all."""
        where = f"on {watch.topic}" if entity is None else f"of {one_line(entity)}"
        self._waiting = f"waiting for a change {where}; Ctrl-C ends it"
        self._watch = watch
        self._entity = entity
        self._board = Board()

    def __enter__(self) -> "Viewer":
        output.note(self._waiting)
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def begin_with(self, message: Record) -> None:
        """Take the entity's last message before the watch."""
        for found in self._publications(message):
            if found.body is None:
                self._board.take_tombstone(found.entity_id)
            else:
                self._board.begin_with(found.body, found.facet)

    def take(self, message: Record) -> None:
        """Take the next message. Raises SetupError if it is no change of this kind."""
        self._changes(message)

    def update(self) -> None:
        """Show what is new; called all the time."""
        output.flush()

    def _changes(self, message: Record) -> list[ShownChange]:
        """The changes that it brings."""
        now = time.monotonic()
        taken = (self._board.take_publication(one, now) for one in self._publications(message))
        return [change for change in taken if change is not None]

    def _publications(self, message: Record) -> list[Publication]:
        """Of facets the largest last, so that the board has it first."""
        return publications(message, of_facets=self._watch.of_facets)[::-1]


def make_viewer(watch: TopicWatch, entity: str | None, as_json: bool) -> Viewer:
    """The view that suits standard output; `entity`: the only one shown, None: all."""
    if as_json:
        return WatchJson(watch, entity)
    console = output.console()
    return WatchScreen(console, watch, entity) if can_redraw(console) else WatchLines(watch, entity)


class WatchJson(Viewer):
    """The bodies as they were published; tombstones have none."""

    def begin_with(self, message: Record) -> None:
        """See `Viewer`."""
        self.take(message)

    def take(self, message: Record) -> None:
        """See `Viewer`."""
        if message.value is not None:
            sys.stdout.write(message.value.decode(errors="replace") + "\n")


class WatchLines(Viewer):
    """Changes in plain lines."""

    def begin_with(self, message: Record) -> None:
        """See `Viewer`."""
        super().begin_with(message)
        for name, entity in reversed(self._board.entities.items()):
            if name.facet is not None:
                count = output.many(entity.sentence_count, "sentences")
                print(f"{one_line(name.facet)}, {count}")
            for sentence in entity.sentences:
                print(f"{sentence.rank + 1:>2}   {one_line(sentence.text)}")

    def take(self, message: Record) -> None:
        """See `Viewer`."""
        for change in self._changes(message):
            print(*change_lines(change, EntityNames()), sep="\n")


class WatchScreen(Viewer):
    """A summary or facet in full, redrawn in place; below it the others that changed last."""

    def __init__(self, console: Console, watch: TopicWatch, entity: str | None) -> None:
        super().__init__(watch, entity)
        self._console = console
        self._began_at = time.monotonic()
        self._focus = Focus()
        if entity is not None and not watch.of_facets:
            self._focus.pin(SetName(entity))
        self._screen = LiveScreen(console, self._draw)

    def __enter__(self) -> "WatchScreen":
        self._screen.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._screen.__exit__()

    def update(self) -> None:
        """See `Viewer`."""
        self._screen.update()

    def _draw(self, now: float) -> list[Text]:
        board, width = self._board, self._console.width
        counts = f"{board.changes:,} changes in {now - self._began_at:,.0f} s"
        title = Text(f"{output.PROGRAM} watch", style="bold")
        head = [
            between(title, Text(counts, style="bold"), width),
            Text(self._state(now), style="yellow"),
            Text("━" * width, style="bright_black"),
        ]
        focus = self._focus.choose(board, now)
        others = [one for key, one in reversed(board.entities.items()) if key != focus]
        is_alone = self._entity is not None and not self._watch.of_facets
        most = OTHER_FACETS if self._watch.of_facets else OTHERS
        shown = 0 if is_alone else min(most, len(others))
        frame = Frame(head, self._watch.topic, others=shown)
        return screen(self._console, board, others, focus, EntityNames(), frame, now)

    def _state(self, now: float) -> str:
        lost, board = self._watch.lost_seconds, self._board
        if lost is not None:
            return f"no broker has answered for {lost:,.0f} s: what is shown may be old"
        if self._entity is not None and not board.entities:
            return f"nothing is published of it yet; {self._waiting}"
        if not board.latest:
            return self._waiting
        ago = now - board.entities[board.latest[-1].name].changed_at
        return f"the last change came {ago:,.0f} s ago; Ctrl-C ends the watch"
