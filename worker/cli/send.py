"""`send`: files of reviews or events to the input topic."""

import re
import shlex
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import click
from confluent_kafka import KafkaError

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
from worker.events import Record
from worker.kafka.clients import KafkaClients
from worker.kafka.errors import Diagnosis
from worker.kafka.topics import Topics
from worker.processing.config import event_limits
from worker.settings import Settings
from worker.sources import STDIN, Entry, Faulty, ReviewFiles, judged, spooled

DELIVERY_TIMEOUT_MS = 60_000
LAST_WAIT_SECONDS = 10.0
"""Seconds to wait for events in flight when sending ends early."""


class SendReport(NamedTuple):
    """What was sent, as JSON has it; `skipped` counts lines that could not be used."""

    topic: str
    sent: int
    skipped: int
    seconds: float


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
            sending = Sending(reviews, settings, from_line.line, skip_bad)
            sent = sending.run(rate)
            if as_json:
                output.print_json(sent)
            else:
                per_second = f"{sent.sent / max(sent.seconds, 1e-9):,.0f} a second"
                output.say(
                    f"{sent.sent:,} events sent to {sent.topic} in {sent.seconds:.1f} s "
                    f"({per_second})"
                )
            sending.report_bad()
    return output.CHECK_FAILED if sent.skipped else 0


def check(reviews: ReviewFiles, settings: Settings, first_line: int) -> None:
    """Raise SetupError if a line cannot be used, after notes that name the first ones."""
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
    """Sends the lines of files from one line on, and knows which ones are acknowledged.

    The producer is idempotent, and partitions as Java producers and Faust do.
    """

    def __init__(
        self, reviews: ReviewFiles, settings: Settings, first_line: int, skip_bad: bool
    ) -> None:
        self._reviews = reviews
        self._limits = event_limits(settings)
        self._topic = settings.input_topic
        self._first_line = first_line
        self._skip_bad = skip_bad
        self._findings = Findings(reviews.where)
        self._lines = self._delivered = 0
        self._acknowledged = Acknowledged()
        self._error: KafkaError | None = None
        self._diagnosis = Diagnosis(settings)
        self._producer = KafkaClients(settings).producer(
            {
                "error_cb": self._diagnosis,
                "enable.idempotence": True,
                "acks": "all",
                "partitioner": "murmur2_random",
                "linger.ms": 20,
                "message.max.bytes": settings.max_event_bytes + 2**16,
                "delivery.timeout.ms": DELIVERY_TIMEOUT_MS,
            }
        )

    def run(self, rate: float | None) -> SendReport:
        """Send all lines. Raises SetupError, which names the line to resume from."""
        started = time.monotonic()
        try:
            with output.file_progress(self._reviews.size) as progress:
                for record in paced(self._records(), rate):
                    self._send(record)
                    progress.update(self._reviews.position, self._delivered)
                self._producer.flush(DELIVERY_TIMEOUT_MS / 1000 + 5)
                self._raise_error()
        except (KeyboardInterrupt, SetupError) as end:
            self._producer.flush(LAST_WAIT_SECONDS)
            self._producer.purge()
            self._producer.poll(0)
            if isinstance(end, KeyboardInterrupt):
                output.note(f"interrupted: {self._how_to_resume()}")
                raise
            raise SetupError(f"{end}; {self._how_to_resume()}") from end
        seconds = round(time.monotonic() - started, 3)
        return SendReport(self._topic, self._delivered, self._findings.total, seconds)

    def report_bad(self) -> None:
        """Name what was left out, and the lines that were skipped."""
        warn_left_out(self._reviews.left_out, self._reviews.where)
        self._findings.complain(self._lines, self._reviews.unit)

    def _records(self) -> Iterator[Record]:
        """The usable lines. Raises SetupError for a line that was usable before."""
        entries: Iterable[Entry | None] = self._reviews
        for entry in judged(entries, self._limits) if self._skip_bad else entries:
            self._lines += entry is not None
            if isinstance(entry, Record):
                yield entry
            elif entry is not None:
                if not self._skip_bad:
                    where = self._reviews.where(entry.line)
                    raise SetupError(f"{where} has changed since it was checked: {entry.detail}")
                self._findings.add(entry)

    def _send(self, record: Record) -> None:
        """Send an event. Raises SetupError if an earlier one was not delivered."""
        line = record.offset + 1
        self._acknowledged.expect(line)
        done = partial(self._on_delivery, line)
        while True:
            try:
                self._producer.produce(self._topic, record.value, record.key, on_delivery=done)
                break
            except BufferError:  # the queue is full
                self._producer.poll(0.1)
        self._producer.poll(0)
        self._raise_error()

    def _on_delivery(self, line: int, error: KafkaError | None, _message: Any) -> None:
        if error is None:
            self._delivered += 1
            self._acknowledged.add(line)
        self._error = self._error or error

    def _raise_error(self) -> None:
        if self._error is not None:
            raise SetupError(
                f"the broker did not take an event for {self._topic} ({self._error.str()}): "
                f"{self._diagnosis.reason()}"
            )

    def _how_to_resume(self) -> str:
        """For people: the number of delivered events, and the option to resume with."""
        line = self._reviews.place(self._acknowledged.next_line or self._first_line)
        beyond = self._acknowledged.beyond
        repeated = f" (it repeats {beyond:,} of them, which lie beyond that line)" if beyond else ""
        return (
            f"{self._delivered:,} events were sent; resume with --from-line {shlex.quote(line)}"
            f"{repeated}"
        )


class Acknowledged:
    """Lines that were sent in ascending order and are acknowledged in any order.

    >>> lines = Acknowledged()
    >>> for line in (3, 4, 7): lines.expect(line)
    >>> lines.add(4), lines.next_line, lines.beyond
    (None, 3, 1)
    >>> lines.add(3), lines.next_line, lines.beyond
    (None, 7, 0)
    """

    def __init__(self) -> None:
        self._waiting: deque[int] = deque()
        self._early: set[int] = set()
        self._last = 0

    def expect(self, line: int) -> None:
        """Add a line that is sent."""
        self._waiting.append(line)
        self._last = line

    def add(self, line: int) -> None:
        """Add a line that was acknowledged."""
        self._early.add(line)
        while self._waiting and self._waiting[0] in self._early:
            self._early.remove(self._waiting.popleft())

    @property
    def next_line(self) -> int:
        """The first line without acknowledgement, or the one after the last; 0 if none was sent."""
        return self._waiting[0] if self._waiting else self._last + 1 if self._last else 0

    @property
    def beyond(self) -> int:
        """The number of acknowledged lines beyond `next_line`."""
        return len(self._early)


def paced(records: Iterator[Record], rate: float | None) -> Iterator[Record]:
    """The records, at most `rate` a second."""
    started = time.monotonic()
    for number, record in enumerate(records):
        if rate is not None and (wait := started + number / rate - time.monotonic()) > 0:
            time.sleep(wait)
        yield record
