"""`summarize`: files through the processor, without Kafka: rows in memory, summary changes on
standard output.
"""

import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from itertools import islice
from typing import TYPE_CHECKING

import click

from worker.cli import output
from worker.cli.cards import cards, extent_of, view_options
from worker.cli.command import Command
from worker.cli.options import (
    Findings,
    counted,
    fields_option,
    files_argument,
    found_files,
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


@click.command(
    "summarize",
    cls=Command,
    short_help="Files in, summary changes out; no Kafka at all.",
    examples=[
        (
            "coversumm-worker summarize reviews.jsonl.gz --pretty -k 5",
            "five sentences an entity, to read",
        ),
        (
            "coversumm-worker summarize reviews.jsonl.gz --view short --words 75 --pretty",
            "75 words an entity, nothing said twice",
        ),
        (
            "coversumm-worker summarize reviews.jsonl > changes.jsonl",
            "every change of every summary",
        ),
        (
            "coversumm-worker summarize reviews.csv --fields entity_id=asin,review_id=id,text=body --final",
            "a table with names of its own; the last change of each entity",
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
    help=f"Every change, or the net one of {COALESCED_LINES:,} lines.",
)
@click.option(
    "--final", is_flag=True, help="One line an entity: its last change, in order of entity id."
)
@click.option(
    "--pretty", is_flag=True, help="For people: each entity's summary at the end, in full."
)
@view_options
@click.option(
    "-o",
    "--output",
    "target",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Write there instead of to standard output (gzip if it ends in .gz); the file appears when all is done.",
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
    """No Kafka at all: read events or bare reviews from files, quoted patterns or folders (JSON
    lines, CSV or TSV with a header, plain or packed, Parquet; - for standard input), write the
    summary changes as JSON lines to standard output.

    A bare review is `entity_id, review_id, text, ...` without `type`. Its ids may be numbers and
    its dates in the common forms; a date with two meanings is left out, and a warning says so.

    With --view short each entity's short view is written instead, at the end, in order of entity
    id.

    Several files are read as if they were one: `sequence` counts on from each to the next. A
    folder's are read in order of their paths, those of inner folders too.

    BodyLines that cannot be used are named on standard error (counted from 1) and make the exit code 1;
    all others are processed. Ctrl-C keeps what was written.
    """
    extent = extent_of(view, sentences, words, threshold)
    settings = Settings.from_environment(
        k=_text(k),
        distinct=None if distinct is None else str(distinct),
        emit=emit,
        embedder=embedder,
    )
    from worker.processing.config import check_index
    from worker.sources import ReviewFiles

    check_index(settings.index)
    paths = found_files(files)
    if target is not None and any(is_same_file(path, target) for path in paths):
        raise SetupError(f"{target} is the file that is read: name another one with -o")
    printed = (
        Printed(styled=target is None and output.is_terminal(sys.stdout)) if pretty else BodyLines()
    )
    form = (
        Short(printed, extent)
        if extent is not None
        else Final(printed)
        if pretty or final
        else Every()
    )
    with ReviewFiles(paths, fields) as reviews, sink(target) as destination:
        return SummarizeRun(
            reviews, settings, form, destination, is_replaced=target is not None
        ).summarize()


def _text(value: int | None) -> str | None:
    return None if value is None else str(value)


class BodyLines:
    """Bodies as lines."""

    def __call__(self, bodies: "Iterable[bytes]") -> "Iterable[bytes]":
        """What is written of them."""
        return (body + b"\n" for body in bodies)


class Printed(BodyLines):
    """Bodies as cards, for people."""

    def __init__(self, *, styled: bool) -> None:
        self._styled = styled

    def __call__(self, bodies: "Iterable[bytes]") -> "Iterable[bytes]":
        """See `BodyLines`."""
        return cards(bodies, styled=self._styled)


class Every:
    """Each change is a line, written at once."""

    def at_once(self, outcome: "Outcome") -> bytes:
        """What is to be written of what the next records came to."""
        return b"".join(
            BodyLines()(change.body for change in outcome.changes if change.body is not None)
        )

    def at_the_end(self, _summarizer: "FileSummarizer | None") -> "Iterable[bytes]":
        """What is to be written when all changes are known."""
        return ()


class Final(Every):
    """The last change of each entity, written at the end."""

    def __init__(self, lines: BodyLines) -> None:
        from worker.tools.summarize import LastChanges

        self._last = LastChanges()
        self._lines = lines

    def at_once(self, outcome: "Outcome") -> bytes:
        """See `Every`."""
        self._last.update(outcome.changes)
        return b""

    def at_the_end(self, _summarizer: "FileSummarizer | None") -> "Iterable[bytes]":
        """See `Every`."""
        return self._lines(self._last.bodies())


class Short(Every):
    """The short view of each entity that has a sentence, written at the end, in order of
    entity id.
    """

    def __init__(self, lines: BodyLines, extent: "Extent") -> None:
        self._lines = lines
        self._extent = extent
        self._entities: set[str] = set()

    def at_once(self, outcome: "Outcome") -> bytes:
        """See `Every`."""
        self._entities |= outcome.entities
        return b""

    def at_the_end(self, summarizer: "FileSummarizer | None") -> "Iterable[bytes]":
        """See `Every`."""
        return () if summarizer is None else self._lines(self._bodies(summarizer))

    def _bodies(self, summarizer: "FileSummarizer") -> "Iterator[bytes]":
        import msgspec

        for entity_id in sorted(self._entities):
            view = summarizer.short_view(entity_id, self._extent)
            if view is not None and view.sentences:
                yield msgspec.json.encode(view)


class SummarizeRun:
    """The files from their first line to their last."""

    def __init__(
        self,
        reviews: "ReviewFiles",
        settings: Settings,
        form: Every,
        sink: Sink,
        *,
        is_replaced: bool,
    ) -> None:
        """`is_replaced`: of the sink nothing is kept if the run is interrupted."""
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
        """Read, write, and tell what it came to; the exit code."""
        try:
            self._process()
        except KeyboardInterrupt:
            if not self._is_replaced:
                self._end("interrupted: ")
            raise
        self._end()
        return output.CHECK_FAILED if self._findings.total else 0

    def _process(self) -> None:
        from worker.sources import timely
        from worker.storage.vectors import open_vector_store
        from worker.tools.summarize import FileSummarizer

        is_coalesced = self._settings.emit == "coalesced"
        with (
            output.file_progress(self._reviews.size, self._reviews.unit) as progress,
            ExitStack() as ending,
        ):
            engine = embedders.load_engine(
                self._settings.embedder,
                threads=self._settings.embedder_threads,
                cache_dir=self._settings.model_cache_dir,
            )
            vectors = open_vector_store(self._settings, engine)
            if vectors is not None:
                ending.callback(vectors.close)
                if not vectors.is_writer:
                    output.note(
                        "warning: another process writes the vector store: what is embedded here is not kept"
                    )
            summarizer = FileSummarizer(self._settings, self._reviews.topic, engine, vectors)
            self._summarizer = summarizer
            for batch in in_thousands(self._reviews) if is_coalesced else timely(self._reviews):
                self._take(batch, summarizer, progress)

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
        self._changes += sum(change.body is not None for change in outcome.changes)
        with progress.hidden():
            self._sink.write(self._form.at_once(outcome))
        for fault in sorted([*outcome.rejected, *faulty]):
            self._findings.add(fault)
        progress.update(self._reviews.position, self._lines)

    def _end(self, how: str = "") -> None:
        """Write what was waiting for the end, and say what all came to."""
        for part in self._form.at_the_end(self._summarizer):
            self._sink.write(part)
        warn_left_out(self._reviews.left_out, self._reviews.where)
        told = [
            output.many(self._lines, self._reviews.unit),
            output.many(len(self._entities), "entities"),
            output.many(self._changes, "changes"),
            f"{time.monotonic() - self._started:.1f} s",
        ]
        if self._ignored:
            told.append(f"ignored: {counted(self._ignored)}")
        output.note(how + ", ".join(told))
        self._findings.complain(self._lines, self._reviews.unit)


def in_thousands(entries: "Iterable[Entry | None]") -> "Iterator[list[Entry]]":
    """The entries in lists of a fixed length: what is coalesced must not depend on the clock."""
    remaining = (entry for entry in entries if entry is not None)
    while batch := list(islice(remaining, COALESCED_LINES)):
        yield batch
