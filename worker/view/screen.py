"""A screen: head, one entity's card, rows of the others, and the latest changes if they fit."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, field
from typing import Final

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from worker.errors import many
from worker.published.publication import SetName
from worker.view.board import Board, Entity, EntityNames, ShownChange
from worker.view.card import card
from worker.view.reasons import headline
from worker.view.texts import cut, one_line

FRESH_SECONDS: Final = 1.2
_COUNT_WIDTH: Final = 7


def entity_rows(
    entities: Sequence[Entity],
    names: EntityNames,
    width: int,
    now: float,
    *,
    with_reasons: bool = False,
) -> list[Text]:
    """For each entity its name, reviews (sentences of a facet) and first sentence, bold while the
    change is fresh; then, if wanted, why it changed last.
    """
    longest = max((cell_len(names.of(one.name)) for one in entities), default=0)
    name_width = min(NAME_WIDTH, longest)
    rows = []
    for entity in entities:
        is_fresh = now - entity.changed_at < FRESH_SECONDS
        name = cut(Text(names.of(entity.name), style="cyan"), name_width)
        number = entity.review_count if entity.name.facet is None else entity.sentence_count
        count = "deleted" if entity.is_deleted else f"{number:,}"
        row = Text.assemble(
            ("* " if is_fresh else "  ", "bold green"),
            name,
            " " * (name_width - name.cell_len),
            (f" {count:>{_COUNT_WIDTH}}  ", "dim"),
            (one_line(entity.first_sentence), "bold" if is_fresh else ""),
        )
        rows.append(cut(row, width))
        if with_reasons:
            reason = "" if entity.latest is None else headline(entity.latest, names)
            indented = " " * (name_width + _COUNT_WIDTH + 5) + reason
            rows.append(cut(Text(indented, style="dim"), width))
    return rows


def facet_row(facet: Entity, width: int, now: float) -> Text:
    """Name, mentions or number of sentences, and first sentence; bold while the change is fresh."""
    is_fresh = now - facet.changed_at < FRESH_SECONDS
    head = Text("* " if is_fresh else "  ", style="bold green")
    return cut(Text.assemble(head, facet_line(facet, "bold" if is_fresh else "")), width)


def facet_line(facet: Entity, style: str = "") -> Text:
    """As `facet_row`, complete and without a mark."""
    count = many(facet.sentence_count, "sentences")
    if facet.mentions is not None:
        count = many(facet.mentions, "mentions")
    return Text.assemble(
        (one_line(facet.name.facet or ""), "cyan"),
        (f", {count}: ", "dim"),
        (one_line(facet.first_sentence), style),
    )


def change_row(change: ShownChange, names: EntityNames, width: int) -> Text:
    """Name, first sentence that came and first that left, each at most half of the line."""
    line = Text(f"  {names.of(change.name)} ", style="cyan")
    if change.added:
        come = Text(f"+ {one_line(change.added[0].text)} ", style="green")
        line.append_text(cut(come, width // 2) if change.removed else come)
    if change.removed:
        line.append(f" - {one_line(change.removed[0].text)}", style="red")
    return cut(line, width)


NAME_WIDTH: Final = 24
OTHERS: Final = 7
_SMALLEST_CARD: Final = 9
_TALL: Final = 40  # height from which the others have two lines each
_FEW_FACETS: Final = 3  # lines for facets below that height; they are taken from the others
_MANY_FACETS: Final = 9


@dataclass(frozen=True, slots=True)
class Frame:
    """What a screen shows."""

    head: Sequence[Text]  # lines at the top
    board: Board  # the sets of sentences
    focus: SetName | None  # the one of the card; None: there is no card yet
    order: Sequence[Entity] = ()  # those to show as rows, the most important first
    names: EntityNames = field(default_factory=EntityNames)
    label: str = ""  # of the rule between the card and the others
    others: int = OTHERS  # lines for the others; 0: the card takes all
    doomed: Set[str] = frozenset()  # see `card`
    facets: Sequence[Entity] | None = None
    """Those of the card's entity, the most important first, for a line each; None: there are
    never any.
    """


def screen(console: Console, frame: Frame, now: float) -> list[Text]:
    """The lines of the screen, within the console's size."""
    width, height = console.size
    board, names = frame.board, frame.names
    head = [cut(line, width) for line in frame.head][:height]
    entity = None if frame.focus is None else board.entities.get(frame.focus)
    if entity is None:
        return head
    plan = _Plan(height - len(head), frame.others, entity.k, frame.facets is not None)
    facets = [facet_row(one, width, now) for one in frame.facets or ()][: plan.facets]
    top = card(console, entity, names, width, plan.card, now, frame.doomed)
    lines = [*head, *_blank_to(top, plan.card), *_blank_to(facets, plan.facets)]
    if plan.below:
        lines.append(_rule(frame.label, width))
        shown = frame.order[: plan.others // plan.lines_each]
        rows = entity_rows(shown, names, width, now, with_reasons=plan.lines_each == 2)
        lines += _blank_to(rows, plan.others)
        lines += _latest(board, names, width, plan.latest)
    return lines[:height]


class _Plan:
    """The lines of each part. They depend only on sizes, so that nothing jumps."""

    def __init__(self, room: int, others: int, k: int, has_facets: bool) -> None:
        is_tall = room >= _TALL
        self.lines_each = 2 if is_tall else 1
        wanted = (_MANY_FACETS if is_tall else _FEW_FACETS) if has_facets else 0
        self.facets = min(wanted, max(room - 1 - _SMALLEST_CARD, 0))
        room -= self.facets
        others = others * self.lines_each - (0 if is_tall else self.facets)
        self.others = min(max(others, 0), max(room - 1 - _SMALLEST_CARD, 0))
        comfortable = 4 + 3 * k
        self.card = (
            room if not self.others else min(room - 1 - self.others, max(comfortable, room // 3))
        )
        self.below = room - self.card
        self.latest = self.below - 1 - self.others


def _blank_to(lines: list[Text], height: int) -> list[Text]:
    """The lines, padded with empty ones to `height`."""
    return [*lines, *[Text()] * (height - len(lines))]


def _rule(label: str, width: int) -> Text:
    text = f"── {label} " if label else ""
    return cut(Text(text + "─" * max(width - len(text), 0), style="dim"), width)


def _latest(board: Board, names: EntityNames, width: int, room: int) -> list[Text]:
    """The newest changes under a rule, the newest first."""
    if room < 2:
        return []
    newest = list(board.latest)[-(room - 1) :][::-1]
    return [
        _rule("latest changes", width),
        *(change_row(change, names, width) for change in newest),
    ]


def change_lines(change: ShownChange, names: EntityNames) -> list[str]:
    """A headline, then a line for each sentence that left (`-`) or came (`+`)."""
    return [
        f"{names.of(change.name)}: {headline(change, names)}",
        *(f"  - {one_line(one.text)}" for one in change.removed),
        *(f"  + {one_line(one.text)}" for one in change.added),
    ]
