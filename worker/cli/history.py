"""`history`: how one entity's summary came about."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import click

from worker.cli import output
from worker.cli.command import Command
from worker.cli.options import TimeType, check_utf8
from worker.cli.tables import Column, show_table
from worker.cli.writing import sink
from worker.settings import Settings

if TYPE_CHECKING:
    from worker.published.history import HistoryStep, PublishedChange


CHANGES_SHOWN = 20
"""Unless the command says another number."""
TEXT_GONE = "(its text is not known here)"
_COLUMNS = (Column(""), Column("sentence"), Column("text", prose=True))


class Told(NamedTuple):
    """What was shown."""

    changes: int = 0
    is_incomplete: bool = False
    """Whether changes before or between them are not known."""
    has_earlier: bool = False
    """Whether some that are known were left out before the first."""

    def and_then(self, step: "HistoryStep") -> "Told":
        """The same with another step."""
        has_earlier = self.has_earlier if self.changes else step.before is not None
        return Told(self.changes + 1, self.is_incomplete or step.incomplete, has_earlier)


def list_changes(steps: "Iterable[HistoryStep]", as_json: bool) -> Told:
    """Show them one by one."""
    from dataclasses import asdict

    from worker.published.history import PublishedChange

    told = Told()
    for step in steps:
        change = PublishedChange.of(step)
        if as_json:
            output.print_json(asdict(change))
        else:
            _show(change)
        told = told.and_then(step)
    return told


def _show(change: "PublishedChange") -> None:
    """When and why, and below it each sentence that came or went."""
    console = output.console()
    parts = [output.printable(part) for part in _heading(change)]
    fits = len("  ".join(parts)) <= console.width  # else the counts go below, together
    for line in (parts,) if fits else (parts[:-1], parts[-1:]):
        console.print("  ".join(line), style="bold")
    lines = [("+", one, change.added_texts.get(one)) for one in change.added]
    lines += [("-", one, change.removed_texts.get(one) or TEXT_GONE) for one in change.removed]
    if lines:
        show_table(_COLUMNS, lines, ["green" if sign == "+" else "red" for sign, *_ in lines])
    console.print()


def _heading(change: "PublishedChange") -> Iterator[str]:
    if change.tombstone:
        yield f"offset {change.offset}"
    else:
        yield f"sequence {change.sequence}"
    if (moment := change.published_at or change.occurred_at) is not None:
        yield moment
    cause = change.cause or {}
    yield " ".join(
        str(part) for part in (cause.get("type", "entity deleted"), cause.get("review_id")) if part
    )
    if not change.tombstone:
        of = output.many(change.sentence_count or 0, "sentences")
        yield f"{change.sentences} of {of}, {output.many(change.review_count or 0, 'reviews')}"


CHANGES_ON_PAGE = 500
"""Unless the command says another number."""


def write_page(path: str, entity: str, source: str, steps: "Sequence[HistoryStep]") -> Told:
    """Write the page, if there is a step."""
    from worker.view.timeline import page

    if steps:
        with sink(path) as target:
            target.write(page(entity, source, steps).encode())
        output.note(f"{output.many(len(steps), 'changes')} of {entity} are on {path}")
    told = Told()
    for step in steps:
        told = told.and_then(step)
    return told


@click.command(
    "history",
    cls=Command,
    short_help="How an entity's summary came about: change by change.",
    examples=[
        ("coversumm-worker history B00X", "its last changes, from the output topic"),
        (
            "coversumm-worker history B00X --since 2026-11-01 --html B00X.html",
            "a page with a timeline",
        ),
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
@click.option(
    "--until", type=TimeType(), help="Up to the first change at or past it, without that one."
)
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
    """Each change of the entity's summary with its time, its cause, and the sentences that came and
    went; a deletion too. The newest is the last. With --html as a page, one file that needs nothing
    else: when each sentence was in the summary, on an axis of time, and each change in words.

    From a topic --since and --until go by the time of publication; by the topic's index by time
    only what lies between is read, of the entity's partition. From a file they go by occurred_at.

    A compacted topic holds the last change of an entity for certain, no other: where some are
    missing, a line says so. Exit code 1 where nothing was published of the entity.
    """
    _check_usage(entity, since, until)
    settings = Settings.from_environment()
    from worker.published.history import last_steps
    from worker.published.published import TimeSpan, published

    if limit is None:
        limit = CHANGES_ON_PAGE if html is not None else None if as_json else CHANGES_SHOWN
    with published(place or settings.output_topic, settings) as source:
        if limit is None:  # each is shown when it is found
            told = list_changes(
                last_steps(source.of(entity, TimeSpan(since, until)), None), as_json
            )
        else:
            with output.file_progress(None, "messages searched") as progress:
                found = source.of(
                    entity, TimeSpan(since, until), lambda count: progress.update(count, count)
                )
                steps = list(last_steps(found, limit))
            told = (
                list_changes(steps, as_json)
                if html is None
                else write_page(html, entity, source.name, steps)
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
