"""`summarize`: files through the processor, without Kafka; rows stay in memory."""

import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import click

from worker.cli.group import new_command
from worker.cli.options import (
    extent_of,
    facets_file_option,
    fields_option,
    files_argument,
    found_files,
    line_mapping,
    mapping_option,
    target_option,
    view_options,
)
from worker.settings import MAX_MESSAGE_BYTES, Settings
from worker.text import embedders
from worker.view import output
from worker.view.writing import refuse_inputs, sink


@new_command(
    "summarize",
    ("summarize reviews.jsonl.gz --pretty -k 5", "five sentences an entity, to read"),
    (
        "summarize reviews.jsonl.gz --view short --words 75 --pretty",
        "75 words an entity, without repetitions",
    ),
    (
        "summarize reviews.jsonl --facets preset:stays --view facets --pretty",
        "what guests say about location, parking and more",
    ),
    ("summarize reviews.jsonl > changes.jsonl", "every change of every summary"),
    (
        "coversumm-worker summarize reviews.csv --fields entity_id=asin,review_id=id,text=body "
        "--final",
        "a table with other column names; the last change of each entity",
    ),
    ("summarize 'reviews/*.parquet' --final", "all files that match, one after the other"),
)
@files_argument
@click.option("-k", "--k", type=click.IntRange(1, 1000), help="Sentences in a summary.")
@click.option(
    "--distinct/--no-distinct", default=None, help="Show sentences with identical vectors once."
)
@click.option(
    "--weigh",
    type=click.Choice(["reviews", "texts"]),
    help="Each sentence counts, or those with identical vectors count once.",
)
@click.option(
    "--emit",
    type=click.Choice(["every", "coalesced"]),
    help="Every change, or the net change of 1,000 lines.",
)
@facets_file_option
@click.option("--final", is_flag=True, help="The last change of each entity, by entity id.")
@click.option("--pretty", is_flag=True, help="For people: each entity's state at the end.")
@view_options
@target_option(
    "Write to this file instead of standard output, with gzip if it ends in .gz. "
    "The file appears at the end; after Ctrl-C the output so far is in FILE.part."
)
@fields_option
@mapping_option
@click.option("--embedder", help=f"{embedders.FORMS}.")
def command(
    files: tuple[str, ...],
    k: int | None,
    distinct: bool | None,
    weigh: str | None,
    emit: str | None,
    facets: str | None,
    final: bool,
    pretty: bool,
    view: str,
    sentences: int | None,
    words: int | None,
    threshold: float | None,
    language: str | None,
    target: str | None,
    fields: Mapping[str, str],
    mapping_file: Path | None,
    embedder: str | None,
) -> int:
    """Read events or bare reviews from files, and write the summary changes to standard output as
    JSON lines. Needs no Kafka.

    Files are JSON lines, CSV or TSV with a header, plain or packed, or Parquet. Name files, quoted
    patterns or folders; - is standard input. Several files are read as one, with one `sequence`; a
    folder's in the order of their paths, with those of inner folders.

    A bare review is `entity_id, review_id, text, ...` without `type`. Its ids may be numbers, and
    its dates may have the common forms. A date with two meanings is left out, with a warning.

    With --view short, facets or overview that view of each entity is written at the end, by entity
    id. With --facets and no --view the changes of facets are written too, after those of summaries.

    With --mapping lines are records of a topic with fields of its own, in JSON.

    Lines that cannot be used are named on standard error (counted from 1) and make the exit code 1.
    All others are processed. Ctrl-C, or a file that ends too early, keeps the output so far.
    """
    from worker.operations import summarize_run as runs
    from worker.processing.config import check_index
    from worker.sources import ReviewFiles
    from worker.view.cards import cards

    extent = extent_of(view, sentences, words, threshold, language)
    settings = Settings.from_environment(
        k=None if k is None else str(k),
        distinct=None if distinct is None else str(distinct),
        weigh=weigh,
        emit=emit,
        facets=facets,
        embedder=embedder,
        max_message_bytes=str(MAX_MESSAGE_BYTES),
    )
    mapping = line_mapping(mapping_file, fields, settings.input_topic)
    if settings.mapping is not None and mapping is None:
        output.note(
            "COVERSUMM_MAPPING is for topics: files have events or bare reviews; --mapping "
            f"{settings.mapping} reads other records"
        )
    check_index(settings.index)
    paths = found_files(files)
    refuse_inputs(target, paths)
    is_styled = target is None and output.is_terminal(sys.stdout)
    lines = partial(cards, styled=is_styled) if pretty else runs.body_lines
    form = runs.AllChanges()
    if view in ("facets", "overview") and not settings.facets:
        raise click.UsageError(
            f"--view {view} needs facets: --facets preset:stays or a file, or COVERSUMM_FACETS."
        )
    if extent is not None and extent.language is not None:
        from worker.facets.definitions import read_definitions
        from worker.processing.entity_view import check_language

        check_language(read_definitions(settings.facets), extent.language)
    if pretty or view != "set":
        views = [view, "facets"] if view == "set" and settings.facets else [view]
        form = runs.FinalStates(lines, views, extent)
    elif final:
        form = runs.FinalChanges()
    files_read = ReviewFiles(paths, fields, as_they_are=mapping is not None)
    with files_read as reviews, sink(target) as destination:
        return runs.SummarizeRun(reviews, settings, form, destination, mapping).summarize()
