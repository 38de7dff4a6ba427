"""Entities and changes in a line each: what is around the card."""

from __future__ import annotations

from typing import Final

from rich.text import Text

from worker.view.board import Change, Entity
from worker.view.names import Names
from worker.view.reasons import headline
from worker.view.texts import cut, one_line

FRESH_SECONDS: Final = 1.2
_COUNT_WIDTH: Final = 7


def entity_row(entity: Entity, names: Names, name_width: int, width: int, now: float) -> Text:
    """Name, reviews and first sentence; it stands out while the change is fresh."""
    is_fresh = now - entity.changed_at < FRESH_SECONDS
    name = cut(Text(names.entity(entity.entity_id), style="cyan"), name_width)
    count = "deleted" if entity.is_deleted else f"{entity.review_count:,}"
    line = Text.assemble(
        ("* " if is_fresh else "  ", "bold green"),
        name,
        " " * (name_width - name.cell_len),
        (f" {count:>{_COUNT_WIDTH}}  ", "dim"),
        (one_line(entity.first_sentence), "bold" if is_fresh else ""),
    )
    return cut(line, width)


def reason_row(entity: Entity, names: Names, name_width: int, width: int) -> Text:
    """Why it changed last, below the sentence of its row."""
    reason = "" if entity.latest is None else headline(entity.latest, names)
    return cut(Text(" " * (name_width + _COUNT_WIDTH + 5) + reason, style="dim"), width)


def change_row(change: Change, names: Names, width: int) -> Text:
    """Name, first sentence that came and first that left; what came takes up to the half where something left, too."""
    line = Text(f"  {names.entity(change.entity_id)} ", style="cyan")
    if change.added:
        come = Text(f"+ {one_line(change.added[0].text)} ", style="green")
        line.append_text(cut(come, width // 2) if change.removed else come)
    if change.removed:
        line.append(f" - {one_line(change.removed[0].text)}", style="red")
    return cut(line, width)
