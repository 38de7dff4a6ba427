"""`facets`: suggest definitions of facets from files of reviews."""

from collections.abc import Mapping
from pathlib import Path

import click

from worker.cli.group import CommandGroup
from worker.cli.options import fields_option, files_argument, found_files, target_option
from worker.errors import SetupError
from worker.settings import Settings
from worker.text import embedders
from worker.view import output
from worker.view.writing import refuse_inputs, sink

FACETS = 9


@click.group(
    "facets",
    cls=CommandGroup,
    examples=[("facets suggest reviews.jsonl -o facets.toml", "a file to edit")],
)
def command() -> None:
    """Suggest facets (COVERSUMM_FACETS), the subjects that a summary is divided into."""


@command.command(
    "suggest",
    short_help="Suggest facets from reviews, as a file to edit.",
    examples=[
        ("facets suggest reviews.jsonl.gz -o facets.toml", "nine subjects of these reviews"),
        ("facets suggest 'reviews/*.parquet' --facets 15", "more of them, to standard output"),
    ],
)
@files_argument
@click.option(
    "--facets",
    "count",
    type=click.IntRange(2, 64),
    default=FACETS,
    show_default=True,
    help="Maximum facets, those that are likely junk included.",
)
@target_option("Write to this new file instead of standard output.")
@click.option("--force", is_flag=True, help="Replace the file of -o if it exists.")
@fields_option
@click.option("--embedder", help=f"{embedders.FORMS}.")
def suggest(
    files: tuple[str, ...],
    count: int,
    target: str | None,
    force: bool,
    fields: Mapping[str, str],
    embedder: str | None,
) -> int:
    """Suggest facets from the reviews of files, as a TOML file for a person to edit. Files are
    those of `summarize`; no Kafka is needed.

    The short sentences of all entities, of 3 to 12 words, are divided into clusters by their
    vectors. Each cluster becomes a facet: its most central sentence is the phrase, its most telling
    words are the words, the first one the name. Comments say how many sentences it has, and show
    five of them. A facet whose phrase is general praise, a complaint or a plan is marked as likely
    junk, and hidden.

    The same files and model give the same suggestions. Of more than 20,000 different short
    sentences as many are drawn, always the same.

    Lines that cannot be used are named on standard error and make the exit code 1.
    """
    from worker.operations.facets_suggest import SuggestRun
    from worker.sources import ReviewFiles

    settings = Settings.from_environment(embedder=embedder, facets="")
    paths = found_files(files)
    refuse_inputs(target, paths)
    if target is not None and not force and Path(target).is_file():
        raise SetupError(f"{target} exists, perhaps with your edits: --force replaces it")
    with ReviewFiles(paths, fields) as reviews:
        run = SuggestRun(reviews, settings)
        text = run.suggest(count)
    with sink(target) as destination:
        destination.write(text.encode())
    return output.CHECK_FAILED if run.finish() else 0
