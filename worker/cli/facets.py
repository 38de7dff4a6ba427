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

FACETS = 12


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
        ("facets suggest reviews.jsonl.gz -o facets.toml", "twelve subjects of these reviews"),
        ("facets suggest 'reviews/*.parquet' --facets 20", "more of them, to standard output"),
    ],
)
@files_argument
@click.option(
    "--facets",
    "count",
    type=click.IntRange(1, 64),
    default=FACETS,
    show_default=True,
    help="Maximum facets.",
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

    The reviews must be in English. A subject is a noun, or an adjective such as "clean", that
    reviews of two entities use. Words of similar sentences and meaning are one facet, named after
    the most frequent. Its words count mentions and choose quotes. Its phrases are two sentences of
    the reviews, one of them a complaint; a comment says where none was found.

    The same files and model give the same suggestions.

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
