"""`facets`: suggest definitions of facets from files of reviews, and try an edited one."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from worker.cli.group import CommandGroup
from worker.cli.options import fields_option, files_argument, found_files, target_option
from worker.errors import SetupError
from worker.settings import MAX_MESSAGE_BYTES, Settings
from worker.text import embedders
from worker.view import output
from worker.view.tables import PROSE, Column, show
from worker.view.writing import refuse_inputs, sink

FACETS = 12


@click.group(
    "facets",
    cls=CommandGroup,
    examples=[
        ("facets suggest reviews.jsonl -o facets.toml", "a file to edit"),
        ("facets try facets.toml reviews.jsonl", "what your edits change, for one entity"),
    ],
)
def command() -> None:
    """Suggest and try facets (COVERSUMM_FACETS), the subjects that a summary is divided into."""


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


@command.command(
    "try",
    short_help="Compare the subjects of an entity before and after an edit.",
    examples=[
        (
            "facets try facets.toml reviews.jsonl --before preset:stays",
            "of the entity with the most reviews",
        ),
        ("facets try facets.toml reviews.jsonl --entity B00X --json", "of this one, as JSON"),
    ],
)
@click.argument("after", metavar="FACETS")
@files_argument
@click.option(
    "--before",
    metavar="FACETS",
    help="Facets to compare with: a file or preset:NAME. [default: COVERSUMM_FACETS]",
)
@click.option("--entity", metavar="ID", help="Of this entity. [default: that of most reviews]")
@fields_option
@output.json_option
def try_(
    after: str,
    files: tuple[str, ...],
    before: str | None,
    entity: str | None,
    fields: Mapping[str, str],
    as_json: bool,
) -> int:
    """Show what other facets (FACETS) change for an entity of files: the reviews that mention each
    subject and its sentences, before and after, and the sentences that moved.

    Before are the facets that the worker uses, COVERSUMM_FACETS; none without it. Files are those
    of `summarize`. Each text is embedded once, and no Kafka is needed.

    Lines that cannot be used are named on standard error and make the exit code 1.
    """
    from worker.operations.facets_try import TryRun, check_different, compared
    from worker.sources import ReviewFiles

    settings = Settings.from_environment(facets=before, max_message_bytes=str(MAX_MESSAGE_BYTES))
    check_different(settings.facets, after)
    with ReviewFiles(found_files(files), fields) as reviews:
        run = TryRun(reviews, settings)
        was, now = run.subjects(entity, settings.facets, after)
        unusable = run.finish()
    counts, moved = compared(was, now)
    output.note(f"{now.entity_id}: {output.many(now.review_count, 'reviews')}")
    show(counts, SUBJECTS, as_json)
    if not as_json and moved:
        more = f"\nthe largest of {len(moved):,} moves; --json has all"
        output.say(more if len(moved) > MOVES else "")
    show(moved if as_json else moved[:MOVES], MOVED, as_json)
    return output.CHECK_FAILED if unusable else 0


def _before_after(name: str) -> Column:
    def shown(row: Mapping[str, Any]) -> str:
        was, now = ("-" if count is None else f"{count:,}" for count in row[name])
        return was if was == now else f"{was} → {now}"

    return Column(name, shown, right=True)


MOVES = 12  # that a table shows
SUBJECTS = (Column("subject", "facet"), _before_after("mentions"), _before_after("sentences"))
MOVED = (
    Column("moved", lambda row: len(row["sentences"]), right=True),
    Column("from", lambda row: ", ".join(row["from"]) or "-"),
    Column("to", lambda row: ", ".join(row["to"]) or "-"),
    Column("such as", lambda row: next(iter(row["sentences"].values())), prose=PROSE),
)
