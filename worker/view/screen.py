"""A whole screen: head, one entity's card, the others small, the latest changes where there is room."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import Final

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from worker.view.board import Board, Entity
from worker.view.card import card
from worker.view.names import Names
from worker.view.rows import change_row, entity_row, reason_row
from worker.view.texts import cut

NAME_WIDTH: Final = 24
OTHERS: Final = 7
_SMALLEST_CARD: Final = 9
_TALL: Final = 40
"""From so many lines on, the others have two each, and the latest changes are below."""


@dataclass(frozen=True, slots=True)
class Frame:
    """What is around the entities.

    Args:
        head: lines above.
        label: stands in the rule between the card and the others.
        others: lines kept for the others; 0: the card has it all.
        doomed: reviews whose sentences are marked: they are about to go.
    """

    head: Sequence[Text]
    label: str = ""
    others: int = OTHERS
    doomed: Set[str] = frozenset()


def screen(
    console: Console,
    board: Board,
    order: Sequence[Entity],
    focus: str | None,
    names: Names,
    frame: Frame,
    now: float,
) -> list[Text]:
    """The lines, no more than the console's height and none wider than it.

    Args:
        console: its size.
        board: what is known.
        order: the entities to show small, the first ones where not all fit.
        focus: the entity whose card is shown; None: none.
        names: of entities and reviews.
        frame: what is around.
        now: by the board's clock.
    """
    width, height = console.size
    head = [cut(line, width) for line in frame.head][:height]
    if focus is None or focus not in board.entities:
        return head
    plan = _Plan(height - len(head), frame.others, board.entities[focus].k)
    top = card(console, board.entities[focus], names, width, plan.card, now, frame.doomed)
    lines = [*head, *_blank_to(top, plan.card)]
    if plan.below:
        lines.append(_rule(frame.label, width))
        lines += _blank_to(_others(order, names, width, plan, now), plan.others)
        lines += _latest(board, names, width, plan.latest)
    return lines[:height]


class _Plan:
    """How many lines are for what. It depends on sizes alone, so that nothing jumps."""

    def __init__(self, room: int, others: int, k: int) -> None:
        self.lines_each = 2 if room >= _TALL else 1
        self.others = min(others * self.lines_each, max(room - 1 - _SMALLEST_CARD, 0))
        comfortable = 4 + 3 * k
        self.card = room if not self.others else min(room - 1 - self.others, max(comfortable, room // 3))
        self.below = room - self.card
        self.latest = self.below - 1 - self.others


def _blank_to(lines: list[Text], height: int) -> list[Text]:
    """The lines and empty ones, `height` together: what is below stays where it is."""
    return [*lines, *[Text()] * (height - len(lines))]


def _rule(label: str, width: int) -> Text:
    text = f"── {label} " if label else ""
    return cut(Text(text + "─" * max(width - len(text), 0), style="dim"), width)


def _others(order: Sequence[Entity], names: Names, width: int, plan: _Plan, now: float) -> list[Text]:
    shown = order[: plan.others // plan.lines_each]
    name_width = min(NAME_WIDTH, max((cell_len(names.entity(one.entity_id)) for one in shown), default=0))
    lines = []
    for entity in shown:
        lines.append(entity_row(entity, names, name_width, width, now))
        if plan.lines_each == 2:
            lines.append(reason_row(entity, names, name_width, width))
    return lines


def _latest(board: Board, names: Names, width: int, room: int) -> list[Text]:
    """The newest changes, the newest first, under a rule of their own."""
    if room < 2:
        return []
    newest = list(board.latest)[-(room - 1) :][::-1]
    return [_rule("latest changes", width), *(change_row(change, names, width) for change in newest)]
