"""The last changes that were published of an entity, from the output topic."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from worker.cli import output
from worker.settings import Settings

if TYPE_CHECKING:
    from rich.table import Table

    from worker.operations.history import PublishedChange

CHANGES_SHOWN = 20
"""Unless the command says another number."""
COLUMNS = ("sequence", "published", "cause", "review", "added", "removed", "shown", "sentences", "reviews")


def show_history(entity: str, limit: int, as_json: bool) -> bool:
    """Show the last `limit` changes; False where nothing was published of the entity."""
    from dataclasses import asdict

    from worker.operations.history import published_changes

    changes = published_changes(Settings.from_environment(), entity, limit)
    if as_json:
        for change in changes:
            output.print_json(asdict(change))
    elif changes:
        output.console().print(_table(changes))
    if any(change.incomplete for change in changes):
        output.note("changes before or between these were compacted away")
    return bool(changes)


def _table(changes: "Iterable[PublishedChange]") -> "Table":
    from rich.table import Table

    table = Table()
    for name in COLUMNS:
        table.add_column(name, overflow="fold")
    for change in changes:
        cause = change.cause or {"type": "entity deleted", "review_id": None}
        cells = (
            change.sequence,
            change.published_at,
            cause["type"],
            cause["review_id"],
            "\n".join(f"+ {one}" for one in change.added),
            "\n".join(f"- {one}" for one in change.removed),
            change.sentences,
            change.sentence_count,
            change.review_count,
        )
        table.add_row(*("\n".join(map(output.cell, str(cell).split("\n"))) for cell in cells))
    return table
