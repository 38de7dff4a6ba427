"""`summarize`: files through the processor, without Kafka; rows stay in memory."""

import io
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

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
from worker.cli.writing import Sink, is_same_file, sink
from worker.errors import SetupError
from worker.settings import Settings
from worker.text import embedders

if TYPE_CHECKING:
    from worker.processing.short_view import Extent
    from worker.sources import Entry, ReviewFiles
    from worker.tools.summarize import FileSummarizer, Outcome

COALESCED_LINES = 1000
Lines = Callable[[Iterable[bytes]], Iterable[bytes]]
"""Formats bodies for output."""


@click.command(
    "summarize",
    cls=Command,
    short_help="Files in, summary changes out; no Kafka.",
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
@click.option("--final", is_flag=True, help="The last change of each entity, by entity id.")
@click.option("--pretty", is_flag=True, help="For people: each entity's summary at the end.")
@view_options
@click.option(
    "-o",
    "--output",
    "target",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Write to this file instead of standard output, with gzip if it ends in .gz. "
    "The file appears at the end.",
)
@fields_option
@click.option("--embedder", help=f"{embedders.FORMS}.")
def command(
    files: tuple[str, ...],
    k: int | None,
    distinct: bool | None,
    emit: str | None,
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

    With --view short the short view of each entity is written at the end, by entity id.

    Lines that cannot be used are named on standard error (counted from 1) and make the exit code 1.
    All others are processed. Ctrl-C keeps what was written.
    """
    extent = extent_of(view, sentences, words, threshold)
    settings = Settings.from_environment(
        k=None if k is None else str(k),
        distinct=None if distinct is None else str(distinct),
        emit=emit,
        embedder=embedder,
    )
    if settings.mapping is not None:
        output.note(
            "COVERSUMM_MAPPING is for topics: files have events or bare reviews; `mapping check "
            "--sample FILE --json` writes the events of other records"
        )
    from worker.processing.config import check_index
    from worker.sources import ReviewFiles

    check_index(settings.index)
    paths = found_files(files)
    if target is not None and any(is_same_file(path, target) for path in paths):
        raise SetupError(f"{target} is an input file: name another one with -o")
    is_styled = target is None and output.is_terminal(sys.stdout)
    lines = partial(cards, styled=is_styled) if pretty else body_lines
    form = (
        ShortViews(lines, extent)
        if extent is not None
        else FinalChanges(lines)
        if pretty or final
        else AllChanges()
    )
    with ReviewFiles(paths, fields) as reviews, sink(target) as destination:
        run = SummarizeRun(reviews, settings, form, destination, is_replaced=target is not None)
        return run.summarize()


def body_lines(bodies: Iterable[bytes]) -> Iterator[bytes]:
    """Bodies as lines."""
    return (body + b"\n" for body in bodies)


def cards(bodies: Iterable[bytes], *, styled: bool) -> Iterator[bytes]:
    """Bodies of summary changes or short views as cards for people, as wide as the terminal.

    `styled`: with bold text and colours.
    """
    from rich.console import Console

    for body in bodies:
        text = io.StringIO()
        console = Console(
            file=text,
            width=output.console().width,
            force_terminal=styled,
            highlight=False,
            emoji=False,
            markup=False,
        )
        _print_card(console, json.loads(body))
        yield text.getvalue().encode()


def _print_card(console: Any, body: dict[str, Any]) -> None:
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


class AllChanges:
    """Writes each change at once, as a line."""

    def at_once(self, outcome: "Outcome") -> bytes:
        """What is written after some records."""
        bodies = (change.value for change in outcome.changes if change.value is not None)
        return b"".join(body_lines(bodies))

    def at_end(self, _summarizer: "FileSummarizer") -> Iterable[bytes]:
        """What is written after all records."""
        return ()


class FinalChanges(AllChanges):
    """Writes the last change of each entity at the end."""

    def __init__(self, lines: Lines) -> None:
        from worker.tools.summarize import LastChanges

        self._last = LastChanges()
        self._lines = lines

    def at_once(self, outcome: "Outcome") -> bytes:
        """See `AllChanges`."""
        self._last.update(outcome.changes)
        return b""

    def at_end(self, _summarizer: "FileSummarizer") -> Iterable[bytes]:
        """See `AllChanges`."""
        return self._lines(self._last.bodies())


class ShortViews(AllChanges):
    """Writes the short view of each entity with sentences at the end, by entity id."""

    def __init__(self, lines: Lines, extent: "Extent") -> None:
        self._lines = lines
        self._extent = extent
        self._entities: set[str] = set()

    def at_once(self, outcome: "Outcome") -> bytes:
        """See `AllChanges`."""
        self._entities |= outcome.entities
        return b""

    def at_end(self, summarizer: "FileSummarizer") -> Iterable[bytes]:
        """See `AllChanges`."""
        import msgspec

        views = (summarizer.short_view(one, self._extent) for one in sorted(self._entities))
        return self._lines(msgspec.json.encode(view) for view in views if view and view.sentences)


class SummarizeRun:
    """The files from their first line to their last."""

    def __init__(
        self,
        reviews: "ReviewFiles",
        settings: Settings,
        form: AllChanges,
        sink: Sink,
        *,
        is_replaced: bool,
    ) -> None:
        """`is_replaced`: the sink keeps nothing of an interrupted run."""
        self._reviews = reviews
        self._settings = settings
        self._form = form
        self._sink = sink
        self._is_replaced = is_replaced
        self._findings = Findings(reviews.where)
        self._ignored: Counter[str] = Counter()
        self._entities: set[str] = set()
        self._lines = self._changes = 0
        self._started = time.monotonic()
        self._summarizer: FileSummarizer | None = None

    def summarize(self) -> int:
        """Read, write and report; returns the exit code."""
        try:
            self._process()
        except KeyboardInterrupt:
            if not self._is_replaced:
                self._finish("interrupted: ")
            raise
        self._finish()
        return output.CHECK_FAILED if self._findings.total else 0

    def _process(self) -> None:
        from worker.sources import timely
        from worker.storage.vectors import open_vector_store
        from worker.tools.summarize import FileSummarizer

        settings, reviews = self._settings, self._reviews
        with (
            output.file_progress(reviews.size, reviews.unit) as progress,
            ExitStack() as ending,
        ):
            engine = embedders.load_engine(
                settings.embedder,
                threads=settings.embedder_threads,
                cache_dir=settings.model_cache_dir,
            )
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
            for batch in fixed_batches(reviews) if is_coalesced else timely(reviews):
                self._take(batch, self._summarizer, progress)

    def _take(
        self, batch: "list[Entry]", summarizer: "FileSummarizer", progress: output.FileProgress
    ) -> None:
        from worker.events import Record
        from worker.sources import Faulty

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


def fixed_batches(entries: "Iterable[Entry | None]") -> "Iterator[list[Entry]]":
    """Entries in lists of a fixed length, so that coalesced output does not depend on time."""
    remaining = (entry for entry in entries if entry is not None)
    while batch := list(islice(remaining, COALESCED_LINES)):
        yield batch
