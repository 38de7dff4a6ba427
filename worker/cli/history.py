"""`history`: the changes of an entity's summary, or of its facets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

import click

from worker.cli.group import new_command
from worker.cli.options import TIME, check_utf8, facets_option, limit_option
from worker.settings import Settings
from worker.view import output
from worker.view.tables import PROSE, Column, show_table

if TYPE_CHECKING:
    from worker.events.publishing import OutputTopic
    from worker.published.history import HistoryStep, PublishedChange


CHANGES_SHOWN = 20  # changes on a terminal without --limit
UNKNOWN_TEXT = "(its text is not known here)"
_COLUMNS = (Column(""), Column("sentence"), Column("text", prose=PROSE))


class ShownSteps(NamedTuple):
    """Counts of what was shown."""

    changes: int = 0
    is_incomplete: bool = False  # whether changes before or between them are unknown
    has_earlier: bool = False  # whether known changes before the first were left out

    def plus(self, step: HistoryStep) -> ShownSteps:
        """These steps with another one after them."""
        has_earlier = self.has_earlier if self.changes else step.before is not None
        return ShownSteps(self.changes + 1, self.is_incomplete or step.incomplete, has_earlier)


def list_changes(steps: Iterable[HistoryStep], as_json: bool) -> ShownSteps:
    """Show the changes one by one."""
    from dataclasses import asdict

    from worker.published.history import PublishedChange

    shown = ShownSteps()
    for step in steps:
        change = PublishedChange.of(step)
        if as_json:
            output.print_json(asdict(change))
        else:
            _show(change)
        shown = shown.plus(step)
    return shown


def _show(change: PublishedChange) -> None:
    console = output.console()
    parts = [output.printable(part) for part in _heading(change)]
    fits = len("  ".join(parts)) <= console.width  # else the counts go on a second line
    for line in (parts,) if fits else (parts[:-1], parts[-1:]):
        console.print("  ".join(line), style="bold")
    lines = [
        ("+", sentence_id, change.added_texts.get(sentence_id)) for sentence_id in change.added
    ]
    lines += [
        ("-", sentence_id, change.removed_texts.get(sentence_id) or UNKNOWN_TEXT)
        for sentence_id in change.removed
    ]
    if lines:
        show_table(_COLUMNS, lines, ["green" if sign == "+" else "red" for sign, *_ in lines])
    console.print()


def _heading(change: PublishedChange) -> Iterator[str]:
    if change.facet is not None:
        yield change.facet
    yield f"offset {change.offset}" if change.tombstone else f"sequence {change.sequence}"
    if (time := change.published_at or change.occurred_at) is not None:
        yield time
    cause = change.cause or {}
    yield " ".join(
        str(part) for part in (cause.get("type", "entity deleted"), cause.get("review_id")) if part
    )
    if not change.tombstone:
        of = output.many(change.sentence_count or 0, "sentences")
        yield f"{change.sentences} of {of}, {output.many(change.review_count or 0, 'reviews')}"
        if change.mention_count is not None:
            yield output.many(change.mention_count, "mentions")


@new_command(
    "history",
    ("history B00X", "its last changes, from the output topic"),
    ("history B00X --facets", "those of its facets, such as parking"),
    ("history B00X --since 2026-11-01", "those since a date"),
    ("history B00X --from changes.jsonl --json", "all its changes, from a file of `summarize`"),
)
@click.argument("entity")
@click.option(
    "--from",
    "place",
    metavar="TOPIC|FILE",
    help="An output topic, or a file of bodies (with a slash, or ending in .jsonl, also .gz). "
    "[default: COVERSUMM_OUTPUT_TOPIC, with --facets COVERSUMM_FACETS_TOPIC]",
)
@facets_option("Show the changes of the entity's facets in place of those of its summary.")
@click.option("--since", type=TIME, help="Begin with the first change at or past this time.")
@click.option("--until", type=TIME, help="End before the first change at or past this time.")
@limit_option(f"Maximum number, the latest. [default: {CHANGES_SHOWN} on a terminal]")
@output.json_option
def command(
    entity: str,
    place: str | None,
    kind: OutputTopic,
    since: int | None,
    until: int | None,
    limit: int | None,
    as_json: bool,
) -> int:
    """Show each change of the entity's summary, deletions too: time, cause, and the sentences that
    came and went. The newest is the last. With --facets it shows each change of one of its facets,
    and of its pros and cons.

    For a topic, --since and --until compare the time of publication, and only that range of the
    entity's partition is read. For a file they compare occurred_at.

    Compaction keeps only the last change of an entity for certain; a line says if some are missing.
    Exit code 1 if nothing was published of the entity.
    """
    check_utf8("ENTITY", entity)
    if since is not None and until is not None and since >= until:
        raise click.UsageError("--until is not after --since.")
    settings = Settings.from_environment()
    from worker.published.history import last_steps
    from worker.published.published import TimeSpan, published

    if limit is None and not as_json:
        limit = CHANGES_SHOWN
    place = place or (kind.of(settings))
    with published(place, settings, kind=kind) as source:
        span = TimeSpan(since, until)
        if limit is None:  # each change is shown when it is found
            shown = list_changes(last_steps(source.of(entity, span), None), as_json)
        else:
            with output.file_progress(None, "messages searched") as progress:
                found = source.of(entity, span, lambda count: progress.update(count, count))
                steps = list(last_steps(found, limit))
            shown = list_changes(steps, as_json)
    if shown.is_incomplete:
        unread = ", or lie before --since" if since is not None else ""
        output.note(
            f"changes before or between these are not in {source.name}{unread}: compaction, and "
            "summarize --final, keep only the last one of an entity for certain"
        )
    if shown.has_earlier and not as_json:
        output.note(f"earlier changes are left out: --limit {2 * shown.changes} shows more")
    if not shown.changes:
        by_time = " in that time (a topic goes by its messages' timestamps, a file by occurred_at)"
        within = "" if since is None and until is None else by_time
        output.complain(f"there is nothing published of {entity!r} in {source.name}{within}")
        return output.CHECK_FAILED
    return 0
