"""`send`: a file of events to the input topic."""

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING

import click

from worker.cli import output
from worker.cli.command import Command
from worker.cli.findings import Findings, counted, warn_left_out
from worker.cli.options import fields_option
from worker.errors import SurroundingsError
from worker.settings import Settings

if TYPE_CHECKING:
    from worker.events import Record
    from worker.operations.files import Entry, ReviewFile


@click.command(
    "send",
    cls=Command,
    short_help="Produce a file of reviews or events to the input topic.",
    examples=[
        ("coversumm-worker send reviews.jsonl.gz", "a whole file, checked first"),
        ("head -100 reviews.jsonl | coversumm-worker send - --rate 10", "its beginning, ten a second"),
        (
            "coversumm-worker send reviews.csv --fields entity_id=asin,review_id=id,text=body --skip-bad",
            "a table with names of its own, bad rows left out",
        ),
        ("coversumm-worker send reviews.jsonl --from-line 48213", "go on where an interrupted one said"),
    ],
)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, readable=True, allow_dash=True))
@click.option(
    "--rate", type=click.FloatRange(min=0, min_open=True), help="Most events a second; without it, no limit."
)
@click.option("--skip-bad", is_flag=True, help="Send what can be used, and count the lines that cannot.")
@click.option(
    "--from-line", type=click.IntRange(min=1), default=1, help="Begin at this line, counted from 1, to go on."
)
@fields_option
@output.json_option
def command(
    file: str, rate: float | None, skip_bad: bool, from_line: int, fields: Mapping[str, str], as_json: bool
) -> int:
    """Produce a file of review events, or of bare reviews (`entity_id, review_id, text, ...`: unversioned upserts): JSON lines,
    CSV or TSV with a header, also .gz; - for standard input.

    The whole file is checked first (standard input is kept in a temporary file for that): if a worker could not use one of its
    lines, these are named, nothing is sent, and the exit code is 2. With --skip-bad nothing is checked first, the bad lines are
    left out and make the exit code 1.

    If it is interrupted, or the broker fails, it says from which line to go on: all before it were acknowledged.
    """
    settings = Settings.from_environment()
    from worker.kafka.clients import KafkaClients
    from worker.kafka.topics import Topics
    from worker.operations.files import STDIN, ReviewFile, spooled

    Topics(settings, KafkaClients(settings)).input_partitions  # noqa: B018 - raises where there is no broker or no topic
    name = "standard input" if file == STDIN else file
    with spooled() if file == STDIN and not skip_bad else nullcontext(file) as path:
        if not skip_bad:
            with ReviewFile(path, fields, name) as reviews:
                check(reviews, settings, from_line)
        with ReviewFile(path, fields, name) as reviews:
            return Sending(reviews, settings, from_line, skip_bad).run(rate, as_json)


def check(reviews: "ReviewFile", settings: Settings, first_line: int) -> None:
    """Raise SurroundingsError, the lines named before it, if a line cannot be used."""
    from worker.operations.files import Faulty, beginning_at, judged
    from worker.processing.config import event_limits

    findings = Findings()
    lines = 0
    try:
        with output.file_progress(reviews.size, f"{reviews.unit} checked") as progress:
            for entry in judged(beginning_at(first_line, reviews), event_limits(settings)):
                lines += 1
                if isinstance(entry, Faulty):
                    findings.add(entry)
                progress.update(reviews.position, lines)
    except KeyboardInterrupt:
        output.note("interrupted: nothing was sent")
        raise
    if not lines and reviews.lines < first_line - 1:
        raise SurroundingsError(f"--from-line {first_line}: there are only {reviews.lines:,} {reviews.unit}")
    if findings.total:
        raise SurroundingsError(
            f"{findings.total:,} of {lines:,} {reviews.unit} cannot be used ({counted(findings.reasons)}), so nothing was "
            "sent: mend them, or leave them out with --skip-bad"
        )


class Sending:
    """The lines of one file, from one of them on, to the input topic."""

    def __init__(self, reviews: "ReviewFile", settings: Settings, first_line: int, skip_bad: bool) -> None:
        from worker.operations.sender import Sender

        self._reviews = reviews
        self._settings = settings
        self._first_line = first_line
        self._skip_bad = skip_bad
        self._findings = Findings()
        self._sender = Sender(settings)
        self._lines = 0

    def run(self, rate: float | None, as_json: bool) -> int:
        """Send all, and tell what it came to; the exit code. Raises SurroundingsError, which says where to go on."""
        sender, started = self._sender, time.monotonic()
        try:
            with output.file_progress(self._reviews.size) as progress:
                for record in paced(self._records(), rate):
                    sender.send(record)
                    progress.update(self._reviews.position, sender.delivered)
                sender.flush()
        except (KeyboardInterrupt, SurroundingsError) as end:
            sender.give_up()
            where = sender.where_to_go_on(self._first_line)
            if isinstance(end, KeyboardInterrupt):
                output.note(f"interrupted: {where}")
                raise
            raise SurroundingsError(f"{end}; {where}") from end
        self._report(time.monotonic() - started, as_json)
        return output.CHECK_FAILED if self._findings.total else 0

    def _records(self) -> "Iterator[Record]":
        """Those that can be used. Raises SurroundingsError where one cannot that could before."""
        from worker.events import Record
        from worker.operations.files import beginning_at, judged
        from worker.processing.config import event_limits

        entries: Iterable[Entry | None] = beginning_at(self._first_line, self._reviews)
        for entry in judged(entries, event_limits(self._settings)) if self._skip_bad else entries:
            self._lines += entry is not None
            if isinstance(entry, Record):
                yield entry
            elif entry is not None:
                if not self._skip_bad:
                    raise SurroundingsError(
                        f"line {entry.line} has changed since it was checked: {entry.detail}"
                    )
                self._findings.add(entry)

    def _report(self, seconds: float, as_json: bool) -> None:
        sent, skipped, topic = self._sender.delivered, self._findings.total, self._settings.input_topic
        if as_json:
            told = {"topic": topic, "sent": sent, "skipped": skipped, "seconds": round(seconds, 3)}
            output.print_json(told)
        else:
            output.console().print(
                f"{sent:,} events sent to {topic} in {seconds:.1f} s ({sent / max(seconds, 1e-9):,.0f} a second)"
            )
        warn_left_out(self._reviews.left_out)
        self._findings.complain(self._lines, self._reviews.unit)


def paced(records: "Iterator[Record]", rate: float | None) -> "Iterator[Record]":
    """The same, at most `rate` a second."""
    started = time.monotonic()
    for number, record in enumerate(records):
        if rate is not None and (wait := started + number / rate - time.monotonic()) > 0:
            time.sleep(wait)
        yield record
