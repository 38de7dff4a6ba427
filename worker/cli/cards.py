"""Summaries for people: a card for each entity, each sentence in full."""

import io
import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import click

from worker.cli import output
from worker.cli.tables import Column

if TYPE_CHECKING:
    from collections.abc import Callable

    from worker.processing.short_view import Extent


def cards(bodies: Iterable[bytes], *, styled: bool) -> Iterator[bytes]:
    """A card for each body of a `summary.changed`, or a short view, as wide as the terminal;
    `styled`: with bold and colours.
    """
    from rich.console import Console

    for body in bodies:
        console = Console(
            file=io.StringIO(),
            width=output.console().width,
            force_terminal=styled,
            highlight=False,
            emoji=False,
            markup=False,
        )
        _print(console, json.loads(body))
        yield console.file.getvalue().encode()  # type: ignore[attr-defined]


def _print(console: Any, body: dict[str, Any]) -> None:
    from rich.table import Table
    from rich.text import Text

    counts = ", ".join(
        output.many(body[f"{one}_count"], f"{one}s") for one in ("review", "sentence")
    )
    console.print(
        Text(output.printable(body["entity_id"]), style="bold", overflow="fold"),
        Text(counts, style="dim"),
    )
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    for justify in ("right", "left", "right"):
        table.add_column(justify=justify, overflow="fold")
    for sentence in body["sentences"]:
        support = sentence.get("support", 1)
        alike = f"{support:,} alike" if support > 1 else ""
        if "stands_for" in sentence:
            alike = f"for {sentence['stands_for']:,}"
        table.add_row(
            Text(f"{sentence['rank'] + 1}", style="dim"),
            Text(output.printable(sentence["text"])),
            Text(alike, style="dim"),
        )
    console.print(table)
    console.print()


F = TypeVar("F", bound="Callable[..., Any]")
MOST_SENTENCES, MOST_WORDS = 100, 10_000
COLUMNS = {
    "rank": Column("rank", drop=2, right=True),
    "sentence_id": Column("sentence"),
    "text": Column("text", prose=True),
    "rating": Column("rating", drop=4, right=True),
    "distance": Column("distance", drop=3, right=True),
    "stands_for": Column("stands for", right=True),
    "stands_for_reviews": Column("of reviews", drop=1, right=True),
}
"""By field."""


def view_options(command: F) -> F:
    """`--view`, `--sentences`, `--words` and `--threshold`, for `extent_of`."""
    for option in (
        click.option(
            "--threshold",
            type=click.FloatRange(0, 1, max_open=True),
            help="Of the short view: the cosine above which a sentence says the same again (0.8).",
        ),
        click.option(
            "--words",
            type=click.IntRange(1, MOST_WORDS),
            help="Of the short view: together at most so many words; what does not fit is passed over.",
        ),
        click.option(
            "--sentences",
            type=click.IntRange(1, MOST_SENTENCES),
            help="Of the short view: at most so many sentences (10; with --words as many as fit).",
        ),
        click.option(
            "--view",
            type=click.Choice(["set", "short"]),
            default="set",
            show_default=True,
            help="The summary, which is the set that is published; or the short view: nearest first, what nearly says the same "
            "again passed over, and how many sentences each one stands for.",
        ),
    ):
        command = option(command)
    return command


def extent_of(
    view: str, sentences: int | None, words: int | None, threshold: float | None
) -> "Extent | None":
    """How far the short view goes; None for the set. Raises click.UsageError."""
    if view == "set":
        if (sentences, words, threshold) != (None, None, None):
            raise click.UsageError("--sentences, --words and --threshold are for --view short.")
        return None
    from worker.processing.short_view import THRESHOLD, Extent

    try:
        return Extent(sentences, words, THRESHOLD if threshold is None else threshold)
    except ValueError as wrong:  # a threshold of `nan`, which lies in every range
        raise click.UsageError(f"--{wrong}.") from wrong
