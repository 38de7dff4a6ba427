"""`mapping`: check a mapping file, and show what becomes of sample records, without a worker."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import click

from worker.cli.group import CommandGroup
from worker.errors import SetupError
from worker.settings import Settings
from worker.view import output
from worker.view.tables import PROSE, Column, show

if TYPE_CHECKING:
    from worker.operations.mapping_check import SampleOutcome

LIMIT = 100
COLUMNS = (
    Column("record", "place"),
    Column("rule", drop=1),
    Column("becomes"),
    Column("entity_id", lambda row: (row.event or {}).get("entity_id")),
    Column("review_id", lambda row: (row.event or {}).get("review_id"), drop=2),
    Column("detail", prose=PROSE),
)


@click.group(
    "mapping",
    cls=CommandGroup,
    examples=[("mapping check mapping.toml --sample records.jsonl", "what becomes of each record")],
)
def command() -> None:
    """Check a mapping (COVERSUMM_MAPPING), which reads a topic with fields of its own."""


@command.command(
    "check",
    short_help="Check a mapping file, on sample records if you like.",
    examples=[
        ("mapping check mapping.toml", "the file alone: every error at its line"),
        (
            "mapping check mapping.toml --sample records.jsonl",
            "what becomes of each record of a file",
        ),
        (
            "mapping check mapping.toml --from-topic --limit 1000",
            "the same for the last records of its topics",
        ),
    ],
)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--sample",
    type=click.Path(exists=True, dir_okay=False, allow_dash=True),
    metavar="FILE",
    help="Records as JSON lines: a record's value, or {key, value, headers, topic} as `kcat -J` "
    "writes it; framed ones decoded; - is standard input.",
)
@click.option("--from-topic", is_flag=True, help="The last records of the mapping's topics.")
@click.option("--for-bridge", is_flag=True, help="The records are for a bridge: in any partition.")
@click.option("--topic", help="Only this topic of the mapping; the topic of sample records.")
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=LIMIT,
    show_default=True,
    help="Maximum records, of each topic with --from-topic.",
)
@output.json_option
def check(
    file: Path,
    sample: str | None,
    from_topic: bool,
    for_bridge: bool,
    topic: str | None,
    limit: int,
    as_json: bool,
) -> int:
    """Check a mapping file, and show what becomes of sample records. No worker is needed, and a
    broker only with --from-topic.

    An error in the file is a line with its position, and exit code 2. A record that would become a
    dead letter makes the exit code 1, and so does a sample without records. Warnings at the end
    name rules that took no record or no member of its list, fields that no event had or that could
    not be read, parts of joined texts that no record had, times in 1970, and deletions in entities
    of which the records have no upsert.
    """
    if sample is not None and from_topic:
        raise click.UsageError("--sample and --from-topic exclude each other.")
    from worker.mapping import load_mapping
    from worker.operations.mapping_check import (
        DEAD_LETTER,
        MappingCheck,
        records_of_file,
        records_of_topics,
    )
    from worker.processing.config import event_limits

    is_file_alone = sample is None and not from_topic
    settings = None if is_file_alone else Settings.from_environment(mapping="")
    of_any = topic or (settings.input_topic if settings else "any")  # by a mapping in Python
    topics = load_mapping(file, of_any)
    if topic is not None:
        if topic not in topics:
            raise SetupError(f"{file} has no topic {topic}, only {', '.join(topics)}")
        topics = {topic: topics[topic]}
    if settings is None:
        rules = sum(len(topic_mapping.rules) for topic_mapping in topics.values())
        rules_and_topics = f"{output.many(rules, 'rules')} of {output.many(len(topics), 'topics')}"
        output.note(f"{file}: {rules_and_topics}, no error")
        for name in (name for name, value in topics.items() if value.tombstone is None):
            output.note(
                f"{name}: a null value is a dead letter: if it has a meaning, set tombstone"
            )
        return 0
    judge = MappingCheck(dict(topics), event_limits(settings), for_bridge)
    counts: Counter[str] = Counter()
    groups = output.Groups()
    records = 0

    def outcomes() -> Iterator[SampleOutcome]:
        nonlocal records
        samples = (
            records_of_file(sample, topics)
            if sample
            else records_of_topics(judge, settings, None if for_bridge else file, limit)
        )
        for place, record in islice(samples, limit * (1 if sample else len(topics))):
            records += 1
            for outcome in judge.judge(place, record):
                counts[outcome.becomes] += 1
                if outcome.detail is not None:
                    groups.add(place, outcome.detail)
                yield outcome

    found = outcomes() if as_json else list(outcomes())
    if not as_json:
        groups.note()
    show(found, COLUMNS, as_json)
    if as_json:
        groups.note()
    if from_topic or records >= limit:
        which = "last" if from_topic else "first"
        output.note(
            f"the {which} {output.many(limit, 'records')} of each topic; --limit reads more"
        )
    for doubt in judge.doubts():
        output.note(f"warning: {doubt}")
    parts = [f"{becomes} {count:,}" for becomes, count in counts.most_common()]
    output.note(", ".join([output.many(records, "records"), *parts]))
    if not records:
        return output.exit_code([f"no record was checked: {sample or ', '.join(topics)} has none"])
    return output.CHECK_FAILED if counts[DEAD_LETTER] else 0
