"""`summarize`: files through the processor, without Kafka; rows stay in memory."""

import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from itertools import islice

import click

from worker.cli import output
from worker.cli.command import Command
from worker.cli.options import (
    Findings,
    counted,
    extent_of,
    fields_option,
    files_argument,
    found_files,
    view_options,
    warn_left_out,
)
from worker.cli.summarize_forms import (
    AllChanges,
    FileSummarizer,
    FinalChanges,
    FinalStates,
    body_lines,
    cards,
    state_readers,
)
from worker.cli.writing import Sink, is_same_file, partial_file, sink
from worker.errors import SetupError
from worker.events import Record
from worker.facets import PRESETS
from worker.processing.config import check_index, configured_engine
from worker.settings import MAX_MESSAGE_BYTES, Settings
from worker.sources import CutShort, Entry, Faulty, ReviewFiles, timely
from worker.storage.vectors import open_vector_store
from worker.text import embedders

COALESCED_LINES = 1000


@click.command(
    "summarize",
    cls=Command,
    examples=[
        (
            "coversumm-worker summarize reviews.jsonl.gz --pretty -k 5",
            "five sentences an entity, to read",
        ),
        (
            "coversumm-worker summarize reviews.jsonl.gz --view short --words 75 --pretty",
            "75 words an entity, without repetitions",
        ),
        (
            "coversumm-worker summarize reviews.jsonl --facets preset:stays --view facets --pretty",
            "what guests say about location, parking and more",
        ),
        (
            "coversumm-worker summarize reviews.jsonl > changes.jsonl",
            "every change of every summary",
        ),
        (
            "coversumm-worker summarize reviews.csv --fields entity_id=asin,review_id=id,text=body "
            "--final",
            "a table with other column names; the last change of each entity",
        ),
        (
            "coversumm-worker summarize 'reviews/*.parquet' --final",
            "all files that match, one after the other",
        ),
    ],
)
@files_argument
@click.option("-k", "--k", type=click.IntRange(1, 1000), help="Sentences in a summary.")
@click.option(
    "--distinct/--no-distinct", default=None, help="Show sentences with identical vectors once."
)
@click.option(
    "--emit",
    type=click.Choice(["every", "coalesced"]),
    help=f"Every change, or the net change of {COALESCED_LINES:,} lines.",
)
@click.option(
    "--facets",
    help="Facets, each with sentences of its own: a TOML file, or preset: and one of "
    f"{', '.join(PRESETS)}.",
)
@click.option("--final", is_flag=True, help="The last change of each entity, by entity id.")
@click.option("--pretty", is_flag=True, help="For people: each entity's state at the end.")
@view_options
@click.option(
    "-o",
    "--output",
    "target",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Write to this file instead of standard output, with gzip if it ends in .gz. "
    "The file appears at the end; after Ctrl-C the output so far is in FILE.part.",
)
@fields_option
@click.option("--embedder", help=f"{embedders.FORMS}.")
def command(
    files: tuple[str, ...],
    k: int | None,
    distinct: bool | None,
    emit: str | None,
    facets: str | None,
    final: bool,
    pretty: bool,
    view: str,
    sentences: int | None,
    words: int | None,
    threshold: float | None,
    target: str | None,
    fields: Mapping[str, str],
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

    Lines that cannot be used are named on standard error (counted from 1) and make the exit code 1.
    All others are processed. Ctrl-C, or a file that ends too early, keeps the output so far.
    """
    extent = extent_of(view, sentences, words, threshold)
    settings = Settings.from_environment(
        k=None if k is None else str(k),
        distinct=None if distinct is None else str(distinct),
        emit=emit,
        facets=facets,
        embedder=embedder,
        max_message_bytes=str(MAX_MESSAGE_BYTES),
    )
    if settings.mapping is not None:
        output.note(
            "COVERSUMM_MAPPING is for topics: files have events or bare reviews; `mapping check "
            "--sample FILE --json` writes the events of other records"
        )
    check_index(settings.index)
    paths = found_files(files)
    written = () if target is None else (target, partial_file(target))
    for name in written:
        if any(is_same_file(path, name) for path in paths):
            raise SetupError(f"{name} is an input file: name another one with -o")
    is_styled = target is None and output.is_terminal(sys.stdout)
    lines = partial(cards, styled=is_styled) if pretty else body_lines
    form = AllChanges()
    if view in ("facets", "overview") and not settings.facets:
        raise click.UsageError(
            f"--view {view} needs facets: --facets preset:stays or a file, or COVERSUMM_FACETS."
        )
    if pretty or view != "set":
        form = FinalStates(lines, *state_readers(view, extent, bool(settings.facets)))
    elif final:
        form = FinalChanges()
    with ReviewFiles(paths, fields) as reviews, sink(target) as destination:
        return SummarizeRun(reviews, settings, form, destination).summarize()


class SummarizeRun:
    """The files from their first line to their last."""

    def __init__(
        self,
        reviews: ReviewFiles,
        settings: Settings,
        form: AllChanges,
        sink: Sink,
    ) -> None:
        self._reviews = reviews
        self._settings = settings
        self._form = form
        self._sink = sink
        self._findings = Findings(reviews.where)
        self._ignored: Counter[str] = Counter()
        self._entities: set[str] = set()
        self._lines = self._changes = 0
        self._started = time.monotonic()
        self._summarizer: FileSummarizer | None = None
        self._cut_short: CutShort | None = None

    def summarize(self) -> int:
        """Read, write and report; returns the exit code. Raises SetupError."""
        try:
            self._process()
        except (KeyboardInterrupt, CutShort) as cause:
            self._finish("interrupted: " if isinstance(cause, KeyboardInterrupt) else "cut short: ")
            if (path := self._sink.keep()) is not None:
                output.note(f"the output so far is in {path}")
            raise
        self._finish()
        return output.CHECK_FAILED if self._findings.total else 0

    def _process(self) -> None:
        settings, reviews = self._settings, self._reviews
        with (
            output.file_progress(reviews.size, reviews.unit) as progress,
            ExitStack() as ending,
        ):
            engine = configured_engine(settings)
            vectors = open_vector_store(settings, engine)
            if vectors is not None:
                ending.callback(vectors.close)
                if not vectors.is_writer:
                    output.note(
                        "warning: another process writes the vector store: "
                        "vectors embedded here are not kept"
                    )
            self._summarizer = FileSummarizer(settings, reviews.topic, engine, vectors)
            is_coalesced = settings.emit == "coalesced"
            entries = self._entries()
            for batch in fixed_batches(entries) if is_coalesced else timely(entries):
                self._take(batch, self._summarizer, progress)
        if self._cut_short is not None:
            raise self._cut_short

    def _entries(self) -> Iterator[Entry | None]:
        """The entries up to the place where a file cannot be read, so that batches stay whole."""
        try:
            yield from self._reviews
        except CutShort as error:
            self._cut_short = error

    def _take(
        self, batch: list[Entry], summarizer: FileSummarizer, progress: output.FileProgress
    ) -> None:
        outcome = summarizer.take([entry for entry in batch if isinstance(entry, Record)])
        faulty = [entry for entry in batch if isinstance(entry, Faulty)]
        self._lines += len(batch)
        self._ignored += outcome.ignored
        self._entities |= outcome.entities
        self._changes += sum(change.value is not None for change in outcome.changes)
        with progress.hidden():
            self._sink.write(self._form.at_once(outcome))
        for fault in sorted([*outcome.rejected, *faulty]):
            self._findings.add(fault)
        progress.update(self._reviews.position, self._lines)

    def _finish(self, prefix: str = "") -> None:
        """Write the final output, and report."""
        if self._summarizer is not None:
            for part in self._form.at_end(self._summarizer):
                self._sink.write(part)
        warn_left_out(self._reviews.left_out, self._reviews.where)
        report = [
            output.many(self._lines, self._reviews.unit),
            output.many(len(self._entities), "entities"),
            output.many(self._changes, "changes"),
            f"{time.monotonic() - self._started:.1f} s",
        ]
        if self._ignored:
            report.append(f"ignored: {counted(self._ignored)}")
        output.note(prefix + ", ".join(report))
        self._findings.complain(self._lines, self._reviews.unit)


def fixed_batches(entries: Iterable[Entry | None]) -> Iterator[list[Entry]]:
    """Entries in lists of a fixed length, so that coalesced output does not depend on time."""
    remaining = (entry for entry in entries if entry is not None)
    while batch := list(islice(remaining, COALESCED_LINES)):
        yield batch
