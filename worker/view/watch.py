"""The scene of `watch`: the changes of a topic as they are published."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from rich.console import Console
from rich.text import Text

from worker.errors import many
from worker.events import Record
from worker.events.publishing import FACETS, SUMMARIES
from worker.published.publication import SetName, publications
from worker.published.watching import TopicWatch
from worker.view.board import Board, Entity, EntityNames, Focus, ShownChange
from worker.view.screen import OTHERS, Frame, change_lines
from worker.view.texts import between, one_line

OTHER_FACETS: Final = 10
"""Lines for facets below the one in full, which is short: all those of an entity."""


@dataclass(eq=False)
class WatchScene:
    """A summary or facet in full; below it the others that changed last."""

    watch: TopicWatch  # where the messages come from
    entity: str | None  # the only one whose messages come; None: all
    is_read: bool = True  # whether messages are decoded

    def __post_init__(self) -> None:
        where = f"on {self.watch.topic}" if self.entity is None else f"of {one_line(self.entity)}"
        self.waiting = f"waiting for a change {where}; Ctrl-C ends it"
        self._board = Board()
        self._focus = Focus()
        self._present: list[Entity] = []  # as before the watch; not printed yet
        self._began_at = time.monotonic()
        if self.entity is not None and self.watch.kind is SUMMARIES:
            self._focus.pin(SetName(self.entity))

    def take(self, message: Record, now: float) -> list[ShownChange]:
        """Take a message. One from before the watch is no change."""
        if not self.is_read:
            return []
        # Of facets the largest last, so that the board has it first.
        found = publications(message, kind=self.watch.kind)[::-1]
        if not self.watch.has_before(message):
            changes = (self._board.take_publication(one, now) for one in found)
            return [change for change in changes if change is not None]
        for one in found:
            self._board.take_publication(one._replace(is_changed=False), now)
        self._present = list(reversed(self._board.entities.values()))
        return []

    def lines(self, changes: Iterable[ShownChange], now: float) -> Iterator[str]:
        """The sentences as before the watch, then the changes."""
        for entity in self._present:
            if entity.name.facet is not None:
                count = many(entity.sentence_count, "sentences")
                yield f"{one_line(entity.name.facet)}, {count}"
            for sentence in entity.sentences:
                yield f"{sentence.rank + 1:>2}   {one_line(sentence.text)}"
        self._present = []
        for change in changes:
            yield from change_lines(change, EntityNames())

    def frame(self, console: Console, now: float) -> Frame:
        """The summary or facet that changed last, or the only one."""
        width = console.width
        board, has_facets = self._board, self.watch.kind is FACETS
        counts = f"{many(board.changes, 'changes')} in {now - self._began_at:,.0f} s"
        title = Text("coversumm-worker watch", style="bold")
        head = [
            between(title, Text(counts, style="bold"), width),
            Text(self._state(now), style="yellow"),
            Text("━" * width, style="bright_black"),
        ]
        focus = self._focus.choose(board, now)
        others = [one for key, one in reversed(board.entities.items()) if key != focus]
        is_alone = self.entity is not None and not has_facets
        most = 0 if is_alone else OTHER_FACETS if has_facets else OTHERS
        shown = min(most, len(others))
        return Frame(head, board, focus, others, label=self.watch.topic, others=shown)

    def _state(self, now: float) -> str:
        lost, board = self.watch.lost_seconds, self._board
        if lost is not None:
            return f"no broker has answered for {lost:,.0f} s: what is shown may be old"
        if self.entity is not None and not board.entities:
            return f"nothing is published of it yet; {self.waiting}"
        if not board.latest:
            return self.waiting
        ago = now - board.entities[board.latest[-1].name].changed_at
        return f"the last change came {ago:,.0f} s ago; Ctrl-C ends the watch"
