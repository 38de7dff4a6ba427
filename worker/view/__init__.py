"""Summaries on a terminal as they change (`demo` and `watch`).

    published bodies -> Board -> lines of a screen -> LiveScreen

Everything but LiveScreen is pure: the caller passes the time.
"""

from worker.view.board import Board, Entity, EntityNames, Focus, Gone, ShownChange
from worker.view.card import card, summary_lines
from worker.view.screen import (
    OTHERS,
    Frame,
    LiveScreen,
    can_redraw,
    change_lines,
    entity_rows,
    facet_line,
    screen,
)
from worker.view.texts import ending_signals, one_line

__all__ = [
    "OTHERS",
    "Board",
    "Entity",
    "EntityNames",
    "Focus",
    "Frame",
    "Gone",
    "LiveScreen",
    "ShownChange",
    "can_redraw",
    "card",
    "change_lines",
    "ending_signals",
    "entity_rows",
    "facet_line",
    "one_line",
    "screen",
    "summary_lines",
]
