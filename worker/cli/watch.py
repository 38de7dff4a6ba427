"""`watch`: changes of summaries or facets as they happen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from worker.cli.group import new_command
from worker.cli.options import check_utf8, facets_option
from worker.errors import many
from worker.settings import Settings
from worker.view import output

if TYPE_CHECKING:
    from worker.events.publishing import OutputTopic

ALL_LINES: Final = 10_000


@new_command(
    "watch",
    ("watch", "all changes, on this terminal"),
    ("watch B00X", "one entity, from its present summary on"),
    ("watch B00X --facets", "its facets, such as parking"),
    ("watch --from-beginning | head -5", "the five oldest changes"),
    short_help="Summary changes as they happen, of one entity or of all.",
)
@click.argument("entity", required=False)
@click.option(
    "--from-beginning", is_flag=True, help="Begin with the oldest change of the output topic."
)
@facets_option("Show changes of facets in place of those of summaries.")
@output.json_option
def command(entity: str | None, from_beginning: bool, kind: OutputTopic, as_json: bool) -> None:
    """Show summary changes as they are published: the sentences that came and went, and the cause.
    Of ENTITY, from its present summary on, or of all entities. Ctrl-C ends it.

    Reads the output topic, with --facets that of facets, joins no group and commits nothing. JSON
    lines are the published bodies.
    """
    from worker.published.watching import TopicWatch
    from worker.view.changes import Board
    from worker.view.texts import ending_signals, one_line
    from worker.view.viewer import Viewer, overview

    check_utf8("ENTITY", entity or "")
    settings, board = Settings.from_environment(), Board(kind)
    with ending_signals(), TopicWatch(settings, from_beginning=from_beginning, kind=kind) as watch:
        before = None
        if entity is not None and not from_beginning:
            with output.file_progress(None, "messages searched") as progress:
                before = watch.current(entity, lambda count: progress.update(count, count))
        where = f"on {watch.topic}" if entity is None else f"of {one_line(entity)}"
        waiting = f"waiting for a change {where}; Ctrl-C ends it"
        nothing = () if entity is None else ("nothing is published of it",)
        console = output.console()
        with Viewer(console, board, as_json=as_json, entity=entity, introduction=nothing) as viewer:
            if not viewer.is_screen:
                output.note(waiting)
            if before is not None:
                viewer.take(before, ())
                if not as_json:
                    board.take(before, kind, is_change=False)
            for known in board.entities.values():
                for line in overview(console, known, room=ALL_LINES):
                    viewer.say(line.plain)
            while True:
                lost, state = watch.lost_seconds, waiting
                if lost is not None:
                    state = f"no broker has answered for {lost:,.0f} s: what is shown may be old"
                changes = many(board.changes, "changes")
                viewer.update("coversumm-worker watch", changes, [state])
                for message in watch.receive():
                    if entity is None or message.key == entity.encode():
                        viewer.take(message, () if as_json else board.take(message, kind))
