"""The last changes that were published of an entity, from the output topic."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from worker.cli import output
from worker.cli.tables import Column, show_table
from worker.settings import Settings

if TYPE_CHECKING:
    from worker.operations.history import PublishedChange

CHANGES_SHOWN = 20
"""Unless the command says another number."""
TEXT_GONE = "(its text is not in the topic any more)"


def show_history(entity: str, limit: int, as_json: bool) -> bool:
    """Show the last `limit` changes; False where nothing was published of the entity."""
    from dataclasses import asdict

    from worker.operations.history import published_changes

    changes = published_changes(Settings.from_environment(), entity, limit)
    for change in changes:
        if as_json:
            output.print_json(asdict(change))
        else:
            _show(change)
    if any(change.incomplete for change in changes):
        output.note("changes before or between these were compacted away")
    return bool(changes)


def _show(change: "PublishedChange") -> None:
    """When and why, and below it each sentence that came or went."""
    console = output.console()
    console.print(output.printable("  ".join(_heading(change))), style="bold")
    lines = [("+", one, change.added_texts.get(one)) for one in change.added]
    lines += [("-", one, change.removed_texts.get(one) or TEXT_GONE) for one in change.removed]
    if lines:
        styles = ["green" if sign == "+" else "red" for sign, *_ in lines]
        show_table((Column(""), Column("sentence"), Column("text", prose=True)), lines, styles)
    console.print()


def _heading(change: "PublishedChange") -> Iterator[str]:
    if change.tombstone:
        yield f"offset {change.offset}"
    else:
        yield f"sequence {change.sequence}"
    if change.published_at is not None:
        yield change.published_at
    cause = change.cause or {}
    yield " ".join(
        str(part) for part in (cause.get("type", "entity deleted"), cause.get("review_id")) if part
    )
    if not change.tombstone:
        yield f"{change.sentences} of {change.sentence_count} sentences, {change.review_count} reviews"
