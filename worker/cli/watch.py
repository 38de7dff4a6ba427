"""`watch`: changes of summaries or facets as they happen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from worker.cli import output
from worker.cli.command import new_command
from worker.cli.options import check_utf8, facets_option
from worker.settings import Settings

if TYPE_CHECKING:
    from worker.events.publishing import OutputTopic


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
    from worker.view.texts import ending_signals
    from worker.view.viewer import make_viewer
    from worker.view.watch import WatchScene

    check_utf8("ENTITY", entity or "")
    settings = Settings.from_environment()
    with ending_signals(), TopicWatch(settings, from_beginning=from_beginning, kind=kind) as watch:
        before = None
        if entity is not None and not from_beginning:
            with output.file_progress(None, "messages searched") as progress:
                before = watch.current(entity, lambda count: progress.update(count, count))
        scene = WatchScene(watch, entity, is_read=not as_json)
        with make_viewer(output.console(), scene, as_json=as_json) as viewer:
            if not viewer.is_screen:
                output.note(scene.waiting)
            if before is not None:
                viewer.take(before)
            while True:
                viewer.update()
                for message in watch.receive():
                    if entity is None or message.key == entity.encode():
                        viewer.take(message)
