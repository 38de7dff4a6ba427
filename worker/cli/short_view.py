"""`--view short` and how far it goes: options that commands share which show summaries."""

from typing import TYPE_CHECKING, Any, TypeVar

import click

from worker.cli.tables import Column

if TYPE_CHECKING:
    from collections.abc import Callable

    from worker.processing.short_view import Extent

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
