"""`inspect`: one entity as a worker knows it: its summary, its reviews or its history."""

from pathlib import Path

import click

from worker.cli import output
from worker.cli.command import Command
from worker.cli.history.listing import CHANGES_SHOWN
from worker.cli.inspect.history import show_history
from worker.cli.inspect.reviews import show_reviews
from worker.cli.inspect.summaries import show_summaries
from worker.cli.options import check_utf8
from worker.cli.short_view import extent_of, view_options
from worker.cli.web_address import url_option
from worker.settings import Settings


@click.command(
    "inspect",
    cls=Command,
    short_help="An entity's summary; its reviews or its history.",
    examples=[
        ("coversumm-worker inspect B00X", "its summary, from the worker on this machine"),
        ("coversumm-worker inspect B00X --url http://worker-1:8080", "from any worker of the group"),
        ("coversumm-worker inspect B00X --view short --words 75", "what a reader gets: nothing said twice"),
        ("coversumm-worker inspect B00X --history 5", "its last five changes"),
        (
            "coversumm-worker inspect B00X --reviews --data-dir /var/lib/coversumm",
            "its reviews, deleted ones too",
        ),
    ],
)
@click.argument("entity")
@url_option
@click.option(
    "--data-dir",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Of a worker that has the entity, running or stopped, instead of its web address.",
)
@click.option(
    "--reviews",
    is_flag=True,
    help="The versions of its reviews, deleted ones too, from the data directory (without --data-dir, the setting's).",
)
@click.option(
    "--history",
    type=click.IntRange(min=1),
    is_flag=False,
    flag_value=CHANGES_SHOWN,
    metavar="[N]",
    help=f"The last N ({CHANGES_SHOWN}) changes that were published of it, the newest last, from the output topic.",
)
@view_options
@output.json_option
def command(
    entity: str,
    url: str | None,
    data_dir: Path | None,
    reviews: bool,
    history: int | None,
    view: str,
    sentences: int | None,
    words: int | None,
    threshold: float | None,
    as_json: bool,
) -> int:
    """The entity's summary, counts and last offsets; from a data directory its reservoir too. Or its short view, its reviews, or
    its history.

    A data directory may lack the entity's partition, or have an old copy of one that has moved: it says as of which offset it
    is, and, where a broker answers, whether the group is further. Exit code 1 where the entity is unknown, 2 where it may well be
    known elsewhere.
    """
    _check_usage(entity, url, data_dir, reviews, history)
    extent = extent_of(view, sentences, words, threshold)
    if extent is not None and (reviews or history is not None):
        raise click.UsageError("--view short is of a summary: leave --reviews and --history out.")
    if reviews:
        settings = Settings.from_environment()
        shown = show_reviews(entity, data_dir or settings.data_dir, settings, as_json)
    elif history is not None:
        shown = show_history(entity, history, as_json)
    else:
        shown = show_summaries(entity, url, data_dir, extent, as_json)
    if not shown:
        missing = f"nothing published of {entity!r}" if history is not None else f"no entity {entity!r}"
        output.complain(f"there is {missing}")
        return output.CHECK_FAILED
    return 0


def _check_usage(
    entity: str, url: str | None, data_dir: Path | None, reviews: bool, history: int | None
) -> None:
    """Raise click.UsageError for arguments that contradict each other."""
    check_utf8("ENTITY", entity)
    if url is not None and data_dir is not None:
        raise click.UsageError("--url and --data-dir exclude each other.")
    if reviews and history is not None:
        raise click.UsageError("--reviews and --history exclude each other.")
    if (reviews and url is not None) or (history is not None and (url or data_dir) is not None):
        raise click.UsageError(
            "--reviews needs a data directory, --history the output topic: leave --url out."
        )
