"""`watch`: changes of summaries or facets as they happen."""

from __future__ import annotations

import sys
from itertools import chain
from typing import TYPE_CHECKING, Final

import click

from worker.cli.group import new_command
from worker.cli.options import check_utf8, facets_option
from worker.errors import many
from worker.settings import Settings
from worker.view import output

if TYPE_CHECKING:
    from collections.abc import Iterator

    from worker.events import Record
    from worker.events.publishing import OutputTopic
    from worker.published.watching import TopicWatch

ALL_LINES: Final = 10_000
TITLE: Final = "coversumm-worker watch"


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
    from worker.view.texts import ending_signals, one_line

    output.require()
    check_utf8("ENTITY", entity or "")
    settings = Settings.from_environment()
    with ending_signals(), TopicWatch(settings, from_beginning=from_beginning, kind=kind) as watch:
        before = None
        if entity is not None and not from_beginning:
            with output.file_progress(None, "messages searched") as progress:
                before = watch.current(entity, lambda count: progress.update(count, count))
        where = f"on {watch.topic}" if entity is None else f"of {one_line(entity)}"
        show = _print_bodies if as_json else _show
        show(watch, entity, before, f"waiting for a change {where}; Ctrl-C ends it")


def _arriving(watch: TopicWatch, entity: str | None) -> Iterator[list[Record]]:
    """New messages, of the entity or of all, without an end; also none."""
    while True:
        found = watch.receive()
        yield [name for name in found if entity is None or name.key == entity.encode()]


def _print_bodies(
    watch: TopicWatch, entity: str | None, before: Record | None, waiting: str
) -> None:
    output.note(waiting)
    first = [] if before is None else [before]
    for message in chain(first, chain.from_iterable(_arriving(watch, entity))):
        if message.value is not None:
            sys.stdout.write(message.value.decode(errors="replace") + "\n")
            sys.stdout.flush()


def _show(watch: TopicWatch, entity: str | None, before: Record | None, waiting: str) -> None:
    from worker.view.changes import Board
    from worker.view.viewer import Viewer, overview

    console, board = output.console(), Board(watch.kind)
    nothing = () if entity is None else ("nothing is published of it",)
    with Viewer(console, board, entity=entity, introduction=nothing) as viewer:
        if not viewer.is_screen:
            output.note(waiting)
        if before is not None:
            board.take(before, watch.kind, is_change=False)
        for known in board.entities.values():
            viewer.say(*(line.plain for line in overview(console, known, room=ALL_LINES)))
        for messages in chain([()], _arriving(watch, entity)):
            for message in messages:
                viewer.take(message, watch.kind)
            lost, state = watch.lost_seconds, waiting
            if lost is not None:
                state = f"no broker has answered for {lost:,.0f} s: what is shown may be old"
            viewer.update(TITLE, many(board.changes, "changes"), [state])
