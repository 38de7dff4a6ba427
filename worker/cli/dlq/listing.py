"""`dlq list`: what lies in the dead letter topic, with counts by reason."""

import heapq
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from worker.cli import output
from worker.cli.command import Command
from worker.cli.dlq.choice import selection_of, selection_options
from worker.cli.tables import Column, show_table
from worker.settings import Settings

if TYPE_CHECKING:
    from worker.kafka.reader import TopicReader
    from worker.operations.dead_letters import DeadLetter, Selection

COLUMNS = (
    Column("where"),
    Column("reason"),
    Column("key"),
    Column("detail", drop=1, prose=True),
    Column("time", drop=4),
    Column("source", drop=3),
    Column("bytes", drop=5, right=True),
    Column("sent again", drop=2),
)
SHOWN = 50
"""Rows of a table unless --limit says another number."""


@click.command(
    "list",
    cls=Command,
    short_help="What lies in the dead letter topic, and why.",
    examples=[
        ("coversumm-worker dlq list --since 2026-11-20 --reason bad_json", "of one reason, since a day"),
        ("coversumm-worker dlq list --json | jq -r .reason | sort | uniq -c", "all of them, counted"),
    ],
)
@selection_options
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    help=f"At most so many, the latest. [default: {SHOWN} on a terminal]",
)
@output.json_option
def list_letters(
    reasons: tuple[str, ...], since: int | None, entity: str | None, limit: int | None, as_json: bool
) -> None:
    """The dead letters there are now: where, when, why, from where, and whether they were sent again; with counts by reason.

    Reads the topic once, to where it ends when the command begins.
    """
    settings = Settings.from_environment()
    from worker.operations.resend import open_letters, sent_so_far

    selection = selection_of(reasons, since, entity)
    counts: Counter[str] = Counter()
    with open_letters(settings) as letters:
        sent = sent_so_far(letters)

        def rows() -> Iterator[dict[str, Any]]:
            for letter in _letters(letters, selection):
                counts[letter.reason] += 1
                partition, offset = letter.place
                yield {**letter.describe(), "sent": offset in sent[partition]}

        if limit is None and as_json:
            for row in rows():
                output.print_json(row)
            return
        latest = heapq.nlargest(limit or SHOWN, rows(), key=_age)
    if as_json:
        for row in reversed(latest):
            output.print_json(row)
    else:
        _show_list(latest[::-1], counts)


def _age(row: dict[str, Any]) -> tuple[str, int, int]:
    return row["time"] or "", row["partition"], row["offset"]


def _letters(letters: "TopicReader", selection: "Selection") -> "Iterator[DeadLetter]":
    """The selected letters, partition after partition."""
    from worker.operations.dead_letters import DeadLetter

    walked = found = 0
    with output.file_progress(letters.size, "dead letters") as progress:
        for partition in letters.partitions:
            bounds = letters.bounds(partition)
            for stored in letters.read(partition):
                letter = DeadLetter.of(stored)
                if letter in selection:
                    found += 1
                    yield letter
                progress.update(walked + letter.place.offset + 1 - bounds.start, found)
            walked += len(bounds)


def _show_list(rows: list[dict[str, Any]], counts: Counter[str]) -> None:
    console = output.console()
    show_table(COLUMNS, map(_cells, rows))
    hidden = counts.total() - len(rows)
    if hidden:
        console.print(f"... and {hidden:,} earlier; --limit shows more")
    by_reason = ", ".join(
        f"{count:,} {reason or 'without a reason'}" for reason, count in counts.most_common()
    )
    console.print(f"{counts.total():,} dead letters{': ' if by_reason else ''}{output.printable(by_reason)}")


def _cells(row: dict[str, Any]) -> tuple[object, ...]:
    """Of a row, in the order of the columns."""
    where = f"{row['partition']}:{row['offset']}"
    size = None if row["bytes"] is None else f"{row['bytes']:,}"
    sent = "yes" if row["sent"] else "no"
    return where, row["reason"], row["key"], row["detail"], row["time"], row["source"], size, sent
