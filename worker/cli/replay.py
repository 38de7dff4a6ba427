"""`replay`: build the summaries again from history, beside the live worker."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from worker.cli.group import new_command
from worker.cli.options import (
    DECLINED,
    TIME,
    Parsed,
    agreed,
    check_can_ask,
    check_utf8,
    fields_option,
    found_files,
    parse_time,
    yes_option,
)
from worker.errors import SetupError
from worker.settings import Settings, origins
from worker.telemetry.logs import set_up_logging
from worker.view import output

if TYPE_CHECKING:
    from worker.replay.record_source import Archived, PlainFiles

LATEST = "latest"


def _parse_end(text: str) -> int | str:
    return text if text == LATEST else parse_time(text)


def _history(sources: Sequence[str], fields: Mapping[str, str]) -> PlainFiles | Archived | None:
    """The sources that are files."""
    from worker.published.published import names_file
    from worker.replay.record_source import open_history

    named = [source for source in sources if names_file(source)]
    if not named:
        if fields:
            raise SetupError("--fields is for files: name some with --from; so is --unescape")
        return None
    return open_history(found_files(named), fields)


def _topic(sources: Sequence[str], history: PlainFiles | Archived | None, live: Settings) -> str:
    """The topic that is read, after its archive if there is one; empty for plain files alone."""
    from worker.published.published import names_file

    topics = [source for source in sources if not names_file(source)]
    archived = getattr(history, "topic", None)
    if len(topics) > 1:
        raise SetupError(f"--from {topics[1]}: one topic is replayed at a time")
    if history is None:
        return topics[0] if topics else live.input_topic
    if topics and topics[0] != archived:
        files = f"an archive of {archived}" if archived else "no archive of a topic"
        raise SetupError(f"--from {topics[0]}: the files are {files}")
    return archived or ""


def _read_entities(given: Sequence[str]) -> Iterator[str]:
    for text in given:
        check_utf8("--entities", text)
        if not text.startswith("@"):
            yield from (part for part in text.split(",") if part)
            continue
        try:
            lines = Path(text[1:]).read_text().splitlines()
        except (OSError, UnicodeDecodeError) as cause:
            raise SetupError(f"--entities {text}: the file cannot be read ({cause})") from cause
        yield from (line for line in map(str.strip, lines) if line)


def _parse_numbers(text: str) -> frozenset[int]:
    numbers: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch("([0-9]{1,6})(?:-([0-9]{1,6}))?", part.strip())
        if match is None:
            raise SetupError(
                f"--partitions {text!r} is not accepted: write numbers like 0,3 or 0-3"
            )
        numbers |= set(range(int(match[1]), int(match[2] or match[1]) + 1))
    return frozenset(numbers)


EMITS = ("every", "coalesced", "final", "none")


@new_command(
    "replay",
    (
        "COVERSUMM_EPOCH=2 COVERSUMM_K=10 coversumm-worker replay",
        "all summaries again with another k, while the live worker runs",
    ),
    (
        "replay --name june --until 2026-06-30 --emit final --to june.jsonl",
        "every summary as of that time, in a file",
    ),
    ("replay --name one --entities B00X --to b00x.jsonl", "the changes of one entity"),
)
@click.option(
    "--from",
    "sources",
    metavar="TOPIC|FILE",
    multiple=True,
    help="The history; by default COVERSUMM_INPUT_TOPIC. Files, patterns and folders (with a "
    "slash, or ending in .jsonl, .csv, .tsv, .parquet, also .gz) as for `summarize`. After an "
    "archive of a topic (columns topic, partition, offset) the replay continues from the topic.",
)
@fields_option
@click.option(
    "--to",
    "target",
    metavar="TOPIC|FILE|none",
    help="Where summaries go: a topic (by default COVERSUMM_OUTPUT_TOPIC and the replay's name), "
    "a file (with a slash, or ending in .jsonl, also .gz), or nowhere. Facets go to the same file, "
    "or to COVERSUMM_FACETS_TOPIC and the replay's name.",
)
@click.option("--since", type=TIME, help="Begin with the first record at or past this time.")
@click.option(
    "--until",
    type=Parsed("TIME", _parse_end),
    metavar="TIME|latest",
    default=LATEST,
    show_default=True,
    help="End before the first record at or past this time. `latest`: the topic's end at start.",
)
@click.option(
    "--by",
    type=click.Choice(["timestamp", "occurred_at"]),
    default="timestamp",
    show_default=True,
    help="The time of a record: Kafka's, or the event's own.",
)
@click.option(
    "--entities", metavar="ID,...|@FILE", multiple=True, help="Only these; @FILE has one a line."
)
@click.option("--partitions", metavar="N,...", help="Only these, as in 0,3 or 0-3.")
@click.option(
    "--emit",
    type=click.Choice(EMITS),
    help="Publish every change, the net change of a micro-batch, each entity's last change at the "
    "end, or none; by default COVERSUMM_EMIT.",
)
@click.option(
    "--name", help="The replay to start or resume; by default epoch-N, after COVERSUMM_EPOCH."
)
@click.option(
    "--accept-gone",
    is_flag=True,
    help="Let a worker continue from the replay although retention has removed records before it.",
)
@click.option("--restart", is_flag=True, help="Delete the replay's state and output first.")
@click.option(
    "--dry-run",
    is_flag=True,
    help="Estimate the replay's size and time on a sample; start nothing.",
)
@yes_option
@click.option(
    "--max-events-per-s", type=click.FloatRange(min=0, min_open=True), help="Maximum rate."
)
@click.option(
    "--max-bytes-per-s", type=click.FloatRange(min=0, min_open=True), help="Maximum rate."
)
@output.json_option
def command(
    sources: tuple[str, ...],
    fields: Mapping[str, str],
    target: str | None,
    since: int | None,
    until: int | str,
    by: str,
    entities: tuple[str, ...],
    partitions: str | None,
    emit: str | None,
    name: str | None,
    accept_gone: bool,
    restart: bool,
    dry_run: bool,
    yes: bool,
    max_events_per_s: float | None,
    max_bytes_per_s: float | None,
    as_json: bool,
) -> int:
    """Build the summaries again: read a topic from its beginning to its present end, or up to a
    time, with a consumer group, state, changelog and output topic of its own. The live worker is
    not affected.

    Run the same command to resume an interrupted or killed replay. Several processes with one name
    share the partitions, each with its own COVERSUMM_DATA_DIR; they all end at the same offsets.
    The replay ends with a report and exit code 0 when every partition is read to its end and
    committed. Then `run` continues from there, with the settings in the report.

    COVERSUMM_EPOCH, COVERSUMM_K and all other settings come from the environment.
    """
    from worker.kafka.topics import reached
    from worker.operations.removal import start_over
    from worker.operations.replay_output import estimate, run_replay
    from worker.published.published import names_file
    from worker.replay.request import ReplayIdentity, Request, default_topic
    from worker.replay.run import Replay, refuse_shared
    from worker.stream.run_bounds import RateThrottle

    live = Settings.from_environment()
    name = name or f"epoch-{live.epoch}"
    history = _history(sources, fields)
    to_file = Path(target) if target is not None and names_file(target) else None
    is_nowhere = target == "none" or emit == "none"
    request = Request(
        name=name,
        topic=_topic(sources, history, live),
        history=history,
        to_topic=None if to_file or is_nowhere else target or default_topic(live, name),
        to_file=to_file,
        emit="none" if is_nowhere else emit or live.emit,  # type: ignore[arg-type]
        since_ms=since,
        until_ms=None if until == LATEST else int(until),
        by=by,  # type: ignore[arg-type]
        entities=frozenset(_read_entities(entities)) if entities else None,
        partitions=None if partitions is None else _parse_numbers(partitions),
        accept_gone=accept_gone,
    )
    names = ReplayIdentity(live, request)
    if restart:
        check_can_ask(yes, dry_run)
    # a terminal shows the progress, so only warnings are logged unless a level is set
    is_quiet = output.is_terminal(sys.stderr) and origins()["log_level"] == "default"
    set_up_logging(replace(live, log_level="WARNING") if is_quiet else live)
    try:
        clients = reached(names.settings)
        replay = Replay(names, clients, RateThrottle(max_events_per_s, max_bytes_per_s))
        if dry_run:
            return estimate(replay, as_json)
        if restart:
            refuse_shared(names, clients)  # before it asks
            thrown = " and ".join([names.app_id, *names.published_topics])
            if not agreed(f"Throw away {thrown}?", yes):
                return DECLINED
            start_over(names, output.note)
        return run_replay(replay, as_json)
    except SetupError as error:
        raise SetupError(names.advised(str(error))) from error
