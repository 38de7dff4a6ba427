"""A run of `summarize`: files from their first line to their last."""

import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from itertools import islice

from worker.cli import output
from worker.cli.options import COALESCED_LINES, Findings, counted, warn_left_out
from worker.cli.summarize_forms import AllChanges, FileSummarizer
from worker.cli.writing import Sink
from worker.events import Record
from worker.processing.config import configured_engine
from worker.settings import Settings
from worker.sources import CutShort, Entry, Faulty, ReviewFiles, timely
from worker.storage.vectors import open_vector_store


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
