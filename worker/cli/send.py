"""`send`: files of reviews or events to the input topic."""

import re
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from worker.cli import output
from worker.cli.command import Command
from worker.cli.options import (
    Findings,
    Parsed,
    counted,
    fields_option,
    files_argument,
    found_files,
    warn_left_out,
)
from worker.errors import SetupError
from worker.settings import Settings

if TYPE_CHECKING:
    from worker.events import Record
    from worker.sources import Entry, ReviewFiles


class FirstLine(NamedTuple):
    """A line (from 1) of a file; of the only one if `file` is None."""

    file: str | None
    line: int

    def files(self, paths: list[str]) -> list[str]:
        """The files from this one on. Raises SetupError if it is not among them."""
        if self.file is None:
            if self.line > 1 and len(paths) > 1:
                raise SetupError(
                    f"--from-line {self.line}: there are {len(paths):,} files: "
                    f"name one, as in {paths[0]}:{self.line}"
                )
            return paths
        for place, path in enumerate(paths):
            if Path(path) == Path(self.file):
                return paths[place:]
        raise SetupError(f"--from-line: {self.file} is not among the files that are named")


def _parse_first_line(text: str) -> FirstLine:
    file, _, line = text.rpartition(":")
    if not re.fullmatch("0*[1-9][0-9]{0,18}", line):
        example = "48213 or reviews.jsonl:48213"
        raise ValueError(f"{text!r} is not a line, counted from 1, as in {example}.")
    return FirstLine(file or None, int(line))


@click.command(
    "send",
    cls=Command,
    examples=[
        ("coversumm-worker send reviews.jsonl.gz", "a whole file, checked first"),
        ("head -100 reviews.jsonl | coversumm-worker send - --rate 10", "100 lines, ten a second"),
        (
            "coversumm-worker send reviews.csv --fields entity_id=asin,review_id=id,text=body "
            "--skip-bad",
            "a table with other column names, without bad rows",
        ),
        (
            "coversumm-worker send reviews.jsonl --from-line 48213",
            "resume from the line that an interrupted command named",
        ),
        (
            "coversumm-worker send reviews/ --from-line reviews/2024.parquet:48213",
            "the same for a folder, from this file on",
        ),
    ],
)
@files_argument
@click.option(
    "--rate",
    type=click.FloatRange(min=0, min_open=True),
    help="Maximum events a second; by default no limit.",
)
@click.option("--skip-bad", is_flag=True, help="Skip and count lines that cannot be used.")
@click.option(
    "--from-line",
    type=Parsed("line", _parse_first_line),
    default="1",
    metavar="[FILE:]LINE",
    help="Begin at this line (from 1); with several files, name the file too.",
)
@fields_option
@output.json_option
def command(
    files: tuple[str, ...],
    rate: float | None,
    skip_bad: bool,
    from_line: FirstLine,
    fields: Mapping[str, str],
    as_json: bool,
) -> int:
    """Produce files of review events, or of bare reviews (`entity_id, review_id, text, ...`:
    unversioned upserts), to the input topic.

    Files are JSON lines, CSV or TSV with a header, plain or packed, or Parquet. Name files, quoted
    patterns or folders; - is standard input. Files are sent one after the other; a folder's in the
    order of their paths, with those of inner folders.

    All files are checked first; standard input is kept in a temporary file for that. If a line
    cannot be used, nothing is sent, the message names the lines, and the exit code is 2. With
    --skip-bad nothing is checked first; bad lines are skipped and make the exit code 1.

    If it is interrupted, or the broker fails, it names the line to resume from. All lines before it
    are acknowledged.
    """
    settings = Settings.from_environment()
    from worker.kafka.clients import KafkaClients
    from worker.kafka.topics import Topics
    from worker.sources import STDIN, ReviewFiles, spooled

    found = found_files(files)
    paths = from_line.files(found)
    Topics(settings, KafkaClients(settings)).input_partitions  # noqa: B018 - raises SetupError
    with spooled() if STDIN in paths and not skip_bad else nullcontext(STDIN) as stdin:
        read = partial(
            ReviewFiles,
            paths,
            fields,
            first_line=from_line.line,
            by_name=len(found) > 1,
            stdin=stdin,
        )
        if not skip_bad:
            with read() as reviews:
                check(reviews, settings, from_line.line)
        with read() as reviews:
            return Sending(reviews, settings, from_line.line, skip_bad).run(rate, as_json)


def check(reviews: "ReviewFiles", settings: Settings, first_line: int) -> None:
    """Raise SetupError if a line cannot be used, after notes that name the first ones."""
    from worker.processing.config import event_limits
    from worker.sources import Faulty, judged

    findings = Findings(reviews.where)
    lines = 0
    try:
        with output.file_progress(reviews.size, f"{reviews.unit} checked") as progress:
            for entry in judged(reviews, event_limits(settings)):
                lines += 1
                if isinstance(entry, Faulty):
                    findings.add(entry)
                progress.update(reviews.position, lines)
    except KeyboardInterrupt:
        output.note("interrupted: nothing was sent")
        raise
    if not lines and reviews.lines < first_line - 1:
        place = reviews.place(first_line)
        raise SetupError(f"--from-line {place}: there are only {reviews.lines:,} {reviews.unit}")
    if findings.total:
        raise SetupError(
            f"{findings.total:,} of {lines:,} {reviews.unit} cannot be used "
            f"({counted(findings.reasons)}), so nothing was sent: "
            "fix them, or skip them with --skip-bad"
        )


class Sending:
    """Sends the lines of files from one line on."""

    def __init__(
        self, reviews: "ReviewFiles", settings: Settings, first_line: int, skip_bad: bool
    ) -> None:
        from worker.tools.send import Sender

        self._reviews = reviews
        self._settings = settings
        self._first_line = first_line
        self._skip_bad = skip_bad
        self._findings = Findings(reviews.where)
        self._sender = Sender(settings)
        self._lines = 0

    def run(self, rate: float | None, as_json: bool) -> int:
        """Send all lines, and report; returns the exit code. Raises SetupError, which names the
        line to resume from.
        """
        sender, started = self._sender, time.monotonic()
        try:
            with output.file_progress(self._reviews.size) as progress:
                for record in paced(self._records(), rate):
                    sender.send(record)
                    progress.update(self._reviews.position, sender.delivered)
                sender.flush()
        except (KeyboardInterrupt, SetupError) as end:
            sender.give_up()
            resume = sender.how_to_resume(self._first_line, self._reviews.place)
            if isinstance(end, KeyboardInterrupt):
                output.note(f"interrupted: {resume}")
                raise
            raise SetupError(f"{end}; {resume}") from end
        self._report(time.monotonic() - started, as_json)
        return output.CHECK_FAILED if self._findings.total else 0

    def _records(self) -> "Iterator[Record]":
        """The usable lines. Raises SetupError for a line that was usable before."""
        from worker.events import Record
        from worker.processing.config import event_limits
        from worker.sources import judged

        entries: Iterable[Entry | None] = self._reviews
        for entry in judged(entries, event_limits(self._settings)) if self._skip_bad else entries:
            self._lines += entry is not None
            if isinstance(entry, Record):
                yield entry
            elif entry is not None:
                if not self._skip_bad:
                    where = self._reviews.where(entry.line)
                    raise SetupError(f"{where} has changed since it was checked: {entry.detail}")
                self._findings.add(entry)

    def _report(self, seconds: float, as_json: bool) -> None:
        sent, topic = self._sender.delivered, self._settings.input_topic
        if as_json:
            output.print_json(
                {
                    "topic": topic,
                    "sent": sent,
                    "skipped": self._findings.total,
                    "seconds": round(seconds, 3),
                }
            )
        else:
            rate = f"{sent / max(seconds, 1e-9):,.0f} a second"
            output.console().print(f"{sent:,} events sent to {topic} in {seconds:.1f} s ({rate})")
        warn_left_out(self._reviews.left_out, self._reviews.where)
        self._findings.complain(self._lines, self._reviews.unit)


def paced(records: "Iterator[Record]", rate: float | None) -> "Iterator[Record]":
    """The records, at most `rate` a second."""
    started = time.monotonic()
    for number, record in enumerate(records):
        if rate is not None and (wait := started + number / rate - time.monotonic()) > 0:
            time.sleep(wait)
        yield record
