"""The viewer of `watch` and `demo`: plain lines, or a screen that is redrawn in place.

The screen has a head, what just changed, and the overview of one entity: its summary, and a line
for each of its facets. Or the overview comes first, then what changed in it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Final

from rich.cells import cell_len, set_cell_size
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from worker.errors import many
from worker.events import Record
from worker.events.publishing import OutputTopic
from worker.published.publication import SetName
from worker.view.changes import Board, Entity, ShownChange, change_lines, shown_name
from worker.view.texts import between, cut, hanging, one_line

FRAME_SECONDS: Final = 0.1
REST_SECONDS: Final = 2.5  # how long an entity is shown while others change
FACETS_KEPT: Final = 3  # if fewer lines for facets are left, each sentence is cut to one line
LABEL_WIDTH: Final = 20
STYLES: Final = {"-": "red", "+": "green"}


class Viewer(AbstractContextManager["Viewer"]):
    """Shows what a board has taken; a context manager.

    `entity`: the id of the one to show, may be set at any time; None: the one that changed last.
    `introduction` is shown while nothing is known of it. `pause`: seconds between two plain
    changes, each the newest, after the counts; 0: all of them. It may be set at any time. `leads`:
    with the overview; below it the changes of this entity alone.
    """

    def __init__(
        self,
        console: Console,
        board: Board,
        *,
        entity: str | None = None,
        introduction: Sequence[str] = (),
        pause: float = 0.0,
        leads: bool = False,
    ) -> None:
        can_redraw = console.file.isatty() and console.is_terminal
        self.is_screen = can_redraw and not console.is_dumb_terminal
        self.board, self.entity, self.pause = board, entity, pause
        self._console = console
        self._introduction, self._leads = introduction, leads
        self._unsaid: list[str] = []  # plain lines of the changes that are not printed yet
        self._next_at = self._rests_until = 0.0
        self._chosen: str | None = None
        self._live = Live(console=console, auto_refresh=False, screen=True)

    def __enter__(self) -> Viewer:
        if self.is_screen:
            self._live.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        if self.is_screen:
            self._live.__exit__(None, None, None)

    def take(self, message: Record, kind: OutputTopic) -> None:
        """Take a message of this kind."""
        changes = self.board.take(message, kind)
        if changes and not self.is_screen:
            kept = [] if self.pause else self._unsaid
            self._unsaid = kept + change_lines(*(changes[-1:] if self.pause else changes))

    def say(self, *lines: str) -> None:
        """Print lines if there is no screen."""
        if not self.is_screen:
            self.write(*lines)

    def write(self, *lines: str) -> None:
        """Print lines."""
        # not by the console: rich ends the process with 1 if the reader is gone
        self._console.file.writelines(f"{line}\n" for line in lines)
        self._console.file.flush()

    def update(self, title: str, counts: str, state: Sequence[str], share: float = 0.0) -> None:
        """Show what is new; called all the time. `share`: of the work that is done, from 0 to 1."""
        now = time.monotonic()
        if now < self._next_at and (self.is_screen or self.pause):
            return
        if self.is_screen:
            self._next_at = now + FRAME_SECONDS
            width = self._console.width
            done = round(share * width)
            head = [
                between(Text(title, style="bold"), Text(counts, style="bold"), width),
                *(cut(Text(line, style="yellow"), width) for line in state),
                Text.assemble(("━" * done, "green"), ("━" * (width - done), "bright_black")),
            ]
            self._live.update(Group(*self.screen(head, now)), refresh=True)
        elif self._unsaid:
            self._next_at = now + self.pause
            self.write(*([counts] if self.pause else []), *self._unsaid)
            self._unsaid = []

    def screen(self, head: Sequence[Text], now: float) -> list[Text]:
        """The lines of a screen, within the console's size; `now` is seconds of a clock."""
        width, height = self._console.size
        entity = self.board.entities.get(self._choose(now) or "")
        changes, shown, room = list[Text](), list[Text](), height - len(head)
        if entity is not None or self.board.latest:
            latest: Iterable[ShownChange] = self.board.latest
            if self._leads and entity is not None:
                latest = [change for change in latest if change.name.entity_id == entity.entity_id]
            most = max(height // 3 - 1, 0)  # depends on the size only, so that nothing jumps
            changes = _changes(self._console, latest, most)
            changes += [Text()] * (most - len(changes))
            changes.insert(0 if self._leads else most, Text("─" * width, style="dim"))
            room = max(room - len(changes), 0)
        if entity is not None:
            shown = overview(self._console, entity, room)
        else:
            for text in self._introduction:
                shown += [Text(), *hanging(self._console, Text(), Text(text), width)]
        if self._leads:
            shown += [Text()] * (room - len(shown))
            return [*head, *shown, *changes][:height]
        return [*head, *changes, *shown][:height]

    def _choose(self, now: float) -> str | None:
        newest = next(reversed(self.board.entities), None)
        if newest != self._chosen and now >= self._rests_until:
            self._chosen, self._rests_until = newest, now + REST_SECONDS
        return self.entity or self._chosen


def _changes(console: Console, latest: Iterable[ShownChange], room: int) -> list[Text]:
    """The newest changes, as many complete ones as fit, but always the start of the newest."""
    lines: list[Text] = []
    for change in latest:
        title, *sentences = change_lines(change)
        text = Text(title, style="dim" if lines else "yellow")
        block = hanging(console, Text(), text, console.width)
        for line in sentences:
            text = Text(line[4:], style=STYLES[line[2]])
            block += hanging(console, Text(line[:4], style="bold"), text, console.width)
        if lines and len(lines) + len(block) > room:
            break
        lines += block
    return lines[:room]


def overview(console: Console, entity: Entity, room: int) -> list[Text]:
    """A title, the sentences of the summary, and a line for each facet, the largest first, in at
    most `room` lines of the console's width. Sentences are wrapped if that leaves lines for facets.
    """
    width, summary, counts, rows = console.width, entity.summary, list[str](), []
    if summary is not None:
        counts = [many(summary.review_count, "reviews")]
        counts += [many(summary.sentence_count, "sentences")]
        new = summary.added if entity.changes else []  # since the start
        for sentence in summary.sentences:
            mark, style = ("+", "bold") if sentence.sentence_id in new else (" ", "dim")
            text = Text(one_line(sentence.text), style="bold green" if mark == "+" else "")
            rows.append((Text(f"{sentence.rank + 1:>2} {mark} ", style=style), text))
    counts += [many(entity.changes, "changes")] if entity.changes else []
    facets = list(_facets(entity))
    lines = [line for gutter, text in rows for line in hanging(console, gutter, text, width)]
    if 1 + len(lines) + min(len(facets), FACETS_KEPT) > room:
        lines = [Text.assemble(gutter, text) for gutter, text in rows]
    name = Text(shown_name(SetName(entity.entity_id)), style="bold cyan")
    title = between(name, Text(", ".join(counts), style="dim"), width)
    return [title, *(cut(line, width) for line in (*lines, *facets))][:room]


def _facets(entity: Entity) -> Iterator[Text]:
    """Name, mentions or number of sentences, and the first sentence."""
    rows = []
    for facet, shown in entity.sets.items():
        if facet is not None and shown.body is not None and shown.body.k and shown.body.sentences:
            count = many(shown.body.sentence_count, "sentences")
            if shown.mentions is not None:
                count = many(shown.mentions, "mentions")
            rows.append((one_line(facet), count, one_line(shown.body.sentences[0].text)))
    labels = min(max((cell_len(label) for label, _, _ in rows), default=0), LABEL_WIDTH)
    counts = max((len(count) for _, count, _ in rows), default=0)
    for label, count, text in rows:
        name = set_cell_size(label, labels)
        yield Text.assemble((name, "cyan"), (f"  {count:<{counts}}  ", "dim"), text)
