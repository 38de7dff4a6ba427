"""Changes of an entity's summary, for people: when and why each was, and what came and went; or as JSON lines."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from worker.cli import output
from worker.cli.tables import Column, show_table

if TYPE_CHECKING:
    from worker.operations.history import PublishedChange, Step

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

    def and_then(self, step: "Step") -> "Told":
        """The same with another step."""
        has_earlier = self.has_earlier if self.changes else step.before is not None
        return Told(self.changes + 1, self.is_incomplete or step.incomplete, has_earlier)


def list_changes(steps: "Iterable[Step]", as_json: bool) -> Told:
    """Show them one by one."""
    from dataclasses import asdict

    from worker.operations.history import PublishedChange

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
