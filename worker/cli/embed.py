"""`embed`: the vectors of files of reviews, computed where no worker runs."""

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

import click

from worker.cli import output
from worker.cli.command import Command
from worker.cli.options import (
    Findings,
    counted,
    fields_option,
    files_argument,
    found_files,
    warn_left_out,
)
from worker.cli.output import ProgressLines
from worker.cli.writing import is_same_file
from worker.errors import SetupError
from worker.settings import Settings
from worker.text.engine import EngineError

if TYPE_CHECKING:
    from worker.events import Limits
    from worker.tools.embed import Listed, SharedEmbedding

WAIT_SECONDS = 0.5
"""Seconds between two looks at what other processes have done."""


@click.command(
    "embed",
    cls=Command,
    examples=[
        (
            "coversumm-worker embed reviews.jsonl.gz --output vectors.parquet",
            "all vectors of a file; run it again to resume",
        ),
        (
            "coversumm-worker embed reviews/ --output /shared/vectors.parquet",
            "a folder, by all machines that run this command",
        ),
        (
            "coversumm-worker embed reviews.csv --fields entity_id=asin,review_id=id,text=body "
            "--output vectors.parquet",
            "a table with other column names",
        ),
    ],
)
@files_argument
@click.option(
    "-o",
    "--output",
    "target",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    metavar="FILE",
    help="The Parquet file to write. It appears at the end; FILE.parts has the vectors until then.",
)
@fields_option
@output.json_option
def command(files: tuple[str, ...], target: Path, fields: Mapping[str, str], as_json: bool) -> None:
    """Compute the vectors of the sentences in files of events or bare reviews, for `vectors
    import`. Needs no Kafka, but PyArrow (extra `parquet`).

    The sentences are those that a worker with the same settings embeds: it splits texts the same
    way, and leaves out sentences that bring a vector. Each distinct sentence is embedded once.

    Run the same command to resume after Ctrl-C or a kill. Run it several times at once, on one
    machine or on several that share the folder of FILE, and the processes share the work. All of
    them end when FILE is complete. It has the same bytes however many they were.

    COVERSUMM_EMBEDDER names the engine. The vectors are of use to workers with the same model,
    packages and type of machine; `vectors import` refuses others.

    Files are JSON lines, CSV or TSV with a header, plain or packed, or Parquet. Name files, quoted
    patterns or folders. Lines that cannot be used are named on standard error and left out.
    """
    settings = Settings.from_environment()
    from worker.processing.config import configured_engine, event_limits
    from worker.sources import STDIN
    from worker.sources.vector_file import check_parquet
    from worker.text.identity import engine_identity
    from worker.tools.embed import SharedEmbedding, is_own, plan_of

    check_parquet()
    if STDIN in files:
        raise SetupError("standard input cannot be read again to resume: name files")
    if any(is_same_file(name, str(target)) for name in files):
        raise SetupError(f"{target} is an input file: name another one with --output")
    paths = [path for path in found_files(files) if not is_own(Path(path), target)]
    if not paths:
        raise SetupError(f"there are no files of reviews beside {target}")
    engine = configured_engine(settings)
    if engine is None:
        raise EngineError("COVERSUMM_EMBEDDER is none: set it to the embedder of the workers")
    limits = replace(event_limits(settings), dimension=engine.dimension, model=engine.model)
    plan = plan_of(engine_identity(engine), limits, paths, fields)
    EmbedRun(SharedEmbedding(target, plan, engine), paths, fields, limits, as_json).run(target)


class EmbedRun:
    """One process, from its start to its report."""

    def __init__(
        self,
        work: "SharedEmbedding",
        paths: list[str],
        fields: Mapping[str, str],
        limits: "Limits",
        as_json: bool,
    ) -> None:
        self._work = work
        self._paths = paths
        self._fields = fields
        self._limits = limits
        self._as_json = as_json
        self._started = time.monotonic()

    def run(self, target: Path) -> None:
        """Take part until the output is complete. Raises SetupError."""
        work = self._work
        try:
            while (complete := work.finished()) is None:
                with work.leading() as leads:
                    listed = work.listed()
                    if leads and listed is None:
                        self._list()
                        continue
                    if leads and listed is not None and work.done() == listed.texts:
                        work.assemble(listed)
                        continue
                self._embed(listed)
        except KeyboardInterrupt:
            output.note(
                f"interrupted: {work.folder} keeps the vectors so far; run the same command again "
                "to resume"
            )
            raise
        self._report(complete, target)

    def _list(self) -> None:
        from worker.sources import ReviewFiles

        with ReviewFiles(self._paths, self._fields) as reviews:
            findings = Findings(reviews.where)
            with output.file_progress(reviews.size, f"{reviews.unit} read") as shown:
                told = Told(shown, "bytes", reviews.size, self._as_json)
                self._work.list_texts(
                    reviews,
                    self._limits,
                    lambda counts: told.update(lambda: (reviews.position, counts.lines)),
                    findings.add,
                )
            texts = {name: one for name, one in reviews.left_out.items() if name == "text"}
            warn_left_out(texts, reviews.where)
        if findings.total:
            are = "is" if findings.total == 1 else "are"
            output.note(
                f"warning: {output.many(findings.total, 'lines')} could not be used and {are} left "
                f"out: {counted(findings.reasons)}"
            )

    def _embed(self, listed: "Listed | None") -> None:
        """Embed until there is nothing more to do, or something to lead."""
        work, size = self._work, None if listed is None else listed.texts
        with output.file_progress(size, "texts embedded") as shown:
            told = Told(shown, "texts", size, self._as_json)
            while True:
                is_idle = True
                for _ in work.embed():
                    is_idle = False
                    told.update(lambda: (work.done(),) * 2)
                if is_idle:
                    time.sleep(WAIT_SECONDS)
                    told.update(lambda: (work.done(),) * 2)
                if work.listed() != listed or work.done() == size or self._is_lost(listed):
                    return

    def _is_lost(self, listed: "Listed | None") -> bool:
        """Whether the output is there, or the leader ended before it had listed all texts."""
        if self._work.finished() is not None:
            return True
        if listed is not None:
            return False
        with self._work.leading() as leads:
            return leads

    def _report(self, complete: "Listed", target: Path) -> None:
        seconds, made = time.monotonic() - self._started, self._work.made
        if self._as_json:
            facts = {**asdict(complete), "embedded_here": made, "seconds": round(seconds, 1)}
            output.print_json({"type": "report", "written_to": str(target), **facts})
            return
        here = f"{made:,} embedded here in {seconds:.1f} s ({made / seconds:,.0f} a second)"
        output.console().print(
            f"{target}: the vectors of {complete.texts:,} texts, of "
            f"{output.many(complete.sentences, 'sentences')} in "
            f"{output.many(complete.reviews, 'reviews')}; {here}",
            soft_wrap=True,
        )
        output.note(f"to use them: {output.PROGRAM} vectors import {quote(str(target))}")


class Told:
    """Progress on a terminal, or as JSON lines."""

    def __init__(
        self, shown: output.FileProgress, unit: str, size: int | None, as_json: bool
    ) -> None:
        """`size`: units of all work, None while it is unknown."""
        self._shown, self._unit, self._size = shown, unit, size
        self._lines = ProgressLines(time.monotonic(), 0) if as_json and size is not None else None
        self._next_at = 0.0

    def update(self, progress: Callable[[], tuple[int, int]]) -> None:
        """Show units that are done, and a count, unless that was a moment ago."""
        now = time.monotonic()
        if now < self._next_at:
            return
        done, count = progress()
        self._shown.update(done, count)
        self._next_at = now + WAIT_SECONDS
        if self._lines is not None and self._size is not None:
            output.print_json(self._lines.line(now, self._unit, done, self._size, {}))
            output.flush()
            self._next_at = now + self._lines.pause()
