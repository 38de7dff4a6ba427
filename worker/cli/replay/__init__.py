"""`replay`: history through the worker, beside the live one."""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from worker.cli import consent, output
from worker.cli.command import Command
from worker.cli.logs import set_up_logging
from worker.cli.options import fields_option
from worker.cli.replay.asked import LATEST, EndType, names_of
from worker.cli.times import TimeType
from worker.errors import SurroundingsError
from worker.settings import Settings, origins

if TYPE_CHECKING:
    from worker.replay.request import Names

EMITS = ("every", "coalesced", "final", "none")


@click.command(
    "replay",
    cls=Command,
    short_help="History through the worker: a new build of the summaries, beside the live one.",
    examples=[
        (
            "COVERSUMM_EPOCH=2 COVERSUMM_K=10 coversumm-worker replay",
            "all summaries anew with another k; the live worker goes on",
        ),
        (
            "coversumm-worker replay --name june --until 2026-06-30 --emit final --to june.jsonl",
            "every summary as it was at that time, in a file",
        ),
        ("coversumm-worker replay --name one --entities B00X --to b00x.jsonl", "the changes of one entity"),
    ],
)
@click.option(
    "--from",
    "sources",
    metavar="TOPIC|FILE",
    multiple=True,
    help="The history; by default COVERSUMM_INPUT_TOPIC. Files, patterns and folders (with a slash, or ending in .jsonl, .csv, "
    ".tsv, .parquet, also .gz) as for `summarize`; an archive of a topic (columns topic, partition, offset) is gone on from.",
)
@fields_option
@click.option(
    "--to",
    "target",
    metavar="TOPIC|FILE|none",
    help="Where summaries go: a topic (by default COVERSUMM_OUTPUT_TOPIC and the replay's name), a file, or nowhere. What has a "
    "slash or ends in .jsonl (also .gz) is a file.",
)
@click.option("--since", type=TimeType(), help="Begin with the first record at or past this time.")
@click.option(
    "--until",
    type=EndType(),
    metavar="TIME|latest",
    default=LATEST,
    show_default=True,
    help="End before the first record at or past this time; `latest`: where the topic ends at the start.",
)
@click.option(
    "--by",
    type=click.Choice(["timestamp", "occurred_at"]),
    default="timestamp",
    show_default=True,
    help="Whose time that is: the record's, or the event's own, however late it arrived.",
)
@click.option("--entities", metavar="ID,...|@FILE", multiple=True, help="These alone; @FILE has one a line.")
@click.option("--partitions", metavar="N,...", help="These alone, as in 0,3 or 0-3.")
@click.option(
    "--emit",
    type=click.Choice(EMITS),
    help="Publish every change, the net one of a micro-batch, each entity's last at the end, or none; by default COVERSUMM_EMIT.",
)
@click.option(
    "--name", help="The same name goes on with a replay; by default epoch-N, after COVERSUMM_EPOCH."
)
@click.option(
    "--restart", is_flag=True, help="Throw away what this replay has, its output too, and start over."
)
@click.option(
    "--dry-run",
    is_flag=True,
    help="How much there is to read, and how long it will take, measured on a sample; nothing is begun.",
)
@click.option("--yes", is_flag=True, help="Do not ask before a restart. Without a terminal it is needed.")
@click.option("--max-events-per-s", type=click.FloatRange(min=0, min_open=True), help="Most events a second.")
@click.option("--max-bytes-per-s", type=click.FloatRange(min=0, min_open=True), help="Most bytes a second.")
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
    restart: bool,
    dry_run: bool,
    yes: bool,
    max_events_per_s: float | None,
    max_bytes_per_s: float | None,
    as_json: bool,
) -> int:
    """Read history through the worker, from the beginning of a topic to where it ends now, or as of a time: under a consumer
    group, state, changelog and output of its own. The live worker goes on untouched.

    Interrupted or killed, the same command goes on. Several processes with one name share the partitions (each with its own
    COVERSUMM_DATA_DIR); where it ends is fixed once, for all of them. It ends with a report and exit code 0 when every partition
    is read to its end and committed. Then `run` goes on from there, with the settings that the report names.

    COVERSUMM_EPOCH, COVERSUMM_K and all other settings are the environment's.
    """
    live = Settings.from_environment()
    names = names_of(
        live,
        name=name,
        sources=sources,
        fields=fields,
        target=target,
        emit=emit,
        since=since,
        until=until,
        by=by,
        entities=entities,
        partitions=partitions,
    )
    if restart:
        consent.check_can_ask(yes, dry_run)
    _prepare_logging(live)
    from worker.cli.replay.part import Part, estimate
    from worker.kafka.clients import KafkaClients
    from worker.kafka.reach import reached
    from worker.replay.restart import start_over
    from worker.replay.run import Replay
    from worker.replay.throttle import RateThrottle

    with _advised(names):
        clients = reached(names.settings, KafkaClients(names.settings))
        throttle = RateThrottle(max_events_per_s, max_bytes_per_s)
        replay = Replay(names, clients, throttle)
        if dry_run:
            return estimate(replay, as_json)
        if restart:
            if not consent.agreed(f"Throw away {names.app_id} and {names.output_topic}?", yes):
                return consent.DECLINED
            start_over(names, output.note)
        return Part(replay, throttle, as_json=as_json).replay()


def _prepare_logging(live: Settings) -> None:
    """At a terminal the progress is shown, and only what is wrong is told beside it, unless a level is set."""
    is_quiet = output.is_terminal(sys.stderr) and origins()["log_level"] == "default"
    set_up_logging(replace(live, log_level="WARNING") if is_quiet else live)


@contextmanager
def _advised(names: "Names") -> Iterator[None]:
    """Errors are told as `Names.advised` puts them."""
    try:
        yield
    except SurroundingsError as error:
        raise SurroundingsError(names.advised(str(error))) from error
