"""`send`: files of reviews or events to the input topic."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from worker.cli.group import new_command
from worker.cli.options import (
    Parsed,
    fields_option,
    files_argument,
    found_files,
    line_mapping,
    mapping_option,
)
from worker.errors import SetupError
from worker.settings import Settings
from worker.view import output

if TYPE_CHECKING:
    from worker.operations.file_sending import SendReport


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


@new_command(
    "send",
    ("send reviews.jsonl.gz", "a whole file, checked first"),
    ("head -100 reviews.jsonl | coversumm-worker send - --rate 10", "100 lines, ten a second"),
    (
        "coversumm-worker send reviews.csv --fields entity_id=asin,review_id=id,text=body "
        "--skip-bad",
        "a table with other column names, without bad rows",
    ),
    (
        "send reviews.jsonl --from-line 48213",
        "resume from the line that an interrupted command named",
    ),
    (
        "send reviews/ --from-line reviews/2024.parquet:48213",
        "the same for a folder, from this file on",
    ),
    (
        "COVERSUMM_INPUT_TOPIC=reviews.v2 coversumm-worker send archive/",
        "an archive of a topic that is lost, to a new one",
    ),
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
@mapping_option
@output.json_option
def command(
    files: tuple[str, ...],
    rate: float | None,
    skip_bad: bool,
    from_line: FirstLine,
    fields: Mapping[str, str],
    mapping_file: Path | None,
    as_json: bool,
) -> int:
    """Produce files of review events, or of bare reviews (`entity_id, review_id, text, ...`:
    unversioned upserts), to the input topic.

    Files are JSON lines, CSV or TSV with a header, plain or packed, or Parquet. Name files, quoted
    patterns or folders; - is standard input. Files are sent one after the other; a folder's in the
    order of their paths, with those of inner folders.

    With --mapping lines are records of a topic with fields of its own, in JSON, and their events
    are sent.

    Files of an archive of a topic (columns topic, partition, offset) are sent in the order of its
    offsets, to a new topic with any number of partitions, unchanged and with their timestamps. The
    same command resumes after an interruption, and sends nothing twice.

    All files are checked first; standard input is kept in a temporary file for that. If a line
    cannot be used, nothing is sent, the message names the lines, and the exit code is 2. With
    --skip-bad nothing is checked first; bad lines are skipped and make the exit code 1.

    If it is interrupted, or the broker fails, it names the line to resume from. All lines before it
    are acknowledged.
    """
    from worker.kafka.clients import KafkaClients
    from worker.kafka.topics import Topics
    from worker.operations.file_sending import Sending, check
    from worker.sources import STDIN, ReviewFiles, is_archive, spooled

    settings = Settings.from_environment()
    mapping = line_mapping(mapping_file, fields, settings.input_topic)
    found = found_files(files)
    if mapping is None and any(Path(path).is_file() and is_archive(path) for path in found):
        if from_line != FirstLine(None, 1):
            raise SetupError("--from-line: the same command resumes to send an archive by itself")
        from worker.operations.archive_sending import send_archive
        from worker.replay.record_source import Archived, open_history

        history = open_history(found, fields)
        assert isinstance(history, Archived)
        return _report(send_archive(history, settings, rate, skip_bad=skip_bad), as_json)
    paths = from_line.files(found)
    topics = Topics(settings, KafkaClients(settings))
    topics.exists(settings.input_topic, ("WRITE",))
    topics.input_partitions  # noqa: B018 - raises SetupError
    with spooled() if STDIN in paths and not skip_bad else nullcontext(STDIN) as stdin:
        read = partial(
            ReviewFiles,
            paths,
            fields,
            first_line=from_line.line,
            by_name=len(found) > 1,
            stdin=stdin,
            as_they_are=mapping is not None,
        )
        if not skip_bad:
            with read() as reviews:
                check(reviews, settings, from_line.line, mapping)
        with read() as reviews:
            sending = Sending(reviews, settings, from_line.line, skip_bad, mapping)
            code = _report(sending.run(rate), as_json)
            sending.report_bad()
    return code


def _report(sent: SendReport, as_json: bool) -> int:
    if as_json:
        output.print_json(sent)
    else:
        per_second = f"{sent.sent / max(sent.seconds, 1e-9):,.0f} a second"
        events = output.many(sent.sent, "events")
        output.say(f"{events} sent to {sent.topic} in {sent.seconds:.1f} s ({per_second})")
    return output.CHECK_FAILED if sent.skipped else 0
