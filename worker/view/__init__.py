"""Summaries as they change, for people at a terminal: what `demo` and `watch` show.

    bodies of `summary.changed` -> Board (what is known) -> lines of a screen -> LiveScreen

Everything but the last is pure: times come in as numbers, lines go out as texts. `timeline` is one
summary's history as a page for a browser.
"""

from worker.view.board import Board, Entity, EntityNames, Focus, Gone, ShownChange
from worker.view.card import card, summary_lines
from worker.view.screen import Frame, LiveScreen, can_redraw, change_lines, screen
from worker.view.texts import ending_signals, one_line

__all__ = [
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
    "one_line",
    "screen",
    "summary_lines",
]
