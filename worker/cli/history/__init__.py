"""`history`: how one entity's summary came about."""

import click

from worker.cli import output
from worker.cli.command import Command
from worker.cli.history.listing import CHANGES_SHOWN, list_changes
from worker.cli.history.writing import CHANGES_ON_PAGE, write_page
from worker.cli.options import check_utf8
from worker.cli.times import TimeType
from worker.settings import Settings


@click.command(
    "history",
    cls=Command,
    short_help="How an entity's summary came about: change by change.",
    examples=[
        ("coversumm-worker history B00X", "its last changes, from the output topic"),
        ("coversumm-worker history B00X --since 2026-11-01 --html B00X.html", "a page with a timeline"),
        (
            "coversumm-worker history B00X --from changes.jsonl --json",
            "all of them, of what `summarize` wrote",
        ),
    ],
)
@click.argument("entity")
@click.option(
    "--from",
    "place",
    metavar="TOPIC|FILE",
    help="An output topic; or a file of bodies: with a slash, or ending in .jsonl, also .gz. [default: COVERSUMM_OUTPUT_TOPIC]",
)
@click.option("--since", type=TimeType(), help="From the first change at or past it on.")
@click.option("--until", type=TimeType(), help="Up to the first change at or past it, without that one.")
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    help=f"At most so many, the latest. [default: {CHANGES_SHOWN} on a terminal]",
)
@click.option(
    "--html",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help=f"Write a page with a timeline there instead; without --limit of the last {CHANGES_ON_PAGE:,} changes.",
)
@output.json_option
def command(
    entity: str,
    place: str | None,
    since: int | None,
    until: int | None,
    limit: int | None,
    html: str | None,
    as_json: bool,
) -> int:
    """Each change of the entity's summary with its time, its cause, and the sentences that came and went; a deletion too. The
    newest is the last. With --html as a page, one file that needs nothing else: when each sentence was in the summary, on an
    axis of time, and each change in words.

    From a topic --since and --until go by the time of publication; by the topic's index by time only what lies between is read,
    of the entity's partition. From a file they go by occurred_at.

    A compacted topic holds the last change of an entity for certain, no other: where some are missing, a line says so. Exit
    code 1 where nothing was published of the entity.
    """
    _check_usage(entity, since, until)
    settings = Settings.from_environment()
    from worker.operations.history import last_steps
    from worker.operations.published import Span, published

    if limit is None:
        limit = CHANGES_ON_PAGE if html is not None else None if as_json else CHANGES_SHOWN
    with published(place or settings.output_topic, settings) as source:
        if limit is None:  # each is shown when it is found
            told = list_changes(last_steps(source.of(entity, Span(since, until)), None), as_json)
        else:
            with output.file_progress(None, "messages searched") as progress:
                found = source.of(entity, Span(since, until), lambda count: progress.update(count, count))
                steps = list(last_steps(found, limit))
            told = (
                list_changes(steps, as_json) if html is None else write_page(html, entity, source.name, steps)
            )
    if told.is_incomplete:
        unread = ", or lie before --since" if since is not None else ""
        output.note(
            f"changes before or between these are not in {source.name}{unread}: "
            "compaction, and summarize --final, keep the last one of an entity and no other for certain"
        )
    if told.has_earlier and (html is not None or not as_json):
        output.note(f"earlier changes are left out: --limit {2 * told.changes} shows more")
    if not told.changes:
        by_time = " in that time (a topic goes by its messages' timestamps, a file by occurred_at)"
        within = "" if since is None and until is None else by_time
        output.complain(f"there is nothing published of {entity!r} in {source.name}{within}")
        return output.CHECK_FAILED
    return 0


def _check_usage(entity: str, since: int | None, until: int | None) -> None:
    """Raise click.UsageError for what is no text, or contradicts itself."""
    check_utf8("ENTITY", entity)
    if since is not None and until is not None and since >= until:
        raise click.UsageError("--until is not after --since.")
