"""`mapping`: check a mapping file, and show what becomes of sample records."""

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import click

from worker.cli import output
from worker.cli.command import Command, CommandGroup
from worker.cli.tables import PROSE, Column, show_table
from worker.errors import SetupError
from worker.settings import Settings

if TYPE_CHECKING:
    from worker.events import Record
    from worker.mapping import TopicMapping
    from worker.tools.mapping import MappingCheck, SampleOutcome

LIMIT = 100
COLUMNS = (
    Column("record"),
    Column("rule", drop=1),
    Column("becomes"),
    Column("entity_id"),
    Column("review_id", drop=2),
    Column("detail", prose=PROSE),
)


@click.command(
    "check",
    cls=Command,
    short_help="Check a mapping file, on sample records if you like.",
    examples=[
        ("coversumm-worker mapping check mapping.toml", "the file alone: every error at its line"),
        (
            "coversumm-worker mapping check mapping.toml --sample records.jsonl",
            "what becomes of each record of a file",
        ),
        (
            "coversumm-worker mapping check mapping.toml --from-topic --limit 1000",
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
@click.option(
    "--for-bridge", is_flag=True, help="With --from-topic: a record may be in any partition."
)
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
    dead letter makes the exit code 1. Warnings at the end name rules that took no record, fields
    that no event had, and deletions in entities of which the records have no upsert.
    """
    from worker.mapping import load_mapping
    from worker.processing.config import event_limits
    from worker.tools.mapping import DEAD_LETTER, MappingCheck

    if sample is not None and from_topic:
        raise click.UsageError("--sample and --from-topic exclude each other.")
    topics = _chosen(load_mapping(file), file, topic)
    if sample is None and not from_topic:
        rules = sum(len(one.rules) for one in topics.values())
        rules_and_topics = f"{output.many(rules, 'rules')} of {output.many(len(topics), 'topics')}"
        output.note(f"{file}: {rules_and_topics}, no error")
        return 0
    settings = Settings.from_environment(mapping="")
    judge = MappingCheck(topics, event_limits(settings))
    verdicts: list[SampleOutcome] = []
    samples = (
        _of_file(sample, topics)
        if sample
        else _of_topics(judge, settings, None if for_bridge else file, limit)
    )
    for place, record in islice(samples, limit * (1 if sample else len(topics))):
        verdicts.append(judge.judge(place, record))
        if as_json:
            output.print_json(verdicts[-1]._asdict())
    if not as_json:
        show_table(COLUMNS, [_row(one) for one in verdicts])
    _report(judge, verdicts)
    return output.CHECK_FAILED if any(one.becomes == DEAD_LETTER for one in verdicts) else 0


def _chosen(
    topics: "Mapping[str, TopicMapping]", file: Path, topic: str | None
) -> "dict[str, TopicMapping]":
    if topic is None:
        return dict(topics)
    if topic not in topics:
        raise SetupError(f"{file} has no topic {topic}, only {', '.join(topics)}")
    return {topic: topics[topic]}


def _of_file(sample: str, topics: "Mapping[str, TopicMapping]") -> "Iterator[tuple[str, Record]]":
    from worker.tools.mapping import samples_of_file, with_frames

    only = next(iter(topics)) if len(topics) == 1 else None
    for place, record in samples_of_file(sample, only):
        known = record.topic in topics
        yield place, with_frames(record, topics[record.topic]) if known else record


def _of_topics(
    judge: "MappingCheck", settings: Settings, file: Path | None, limit: int
) -> "Iterator[tuple[str, Record]]":
    """The last records of each topic, whose schemas are known to `judge` then. With the mapping's
    `file`, records outside their entity's partition are refused, as a worker does.
    """
    from worker.kafka.clients import KafkaClients
    from worker.kafka.reader import TopicReader
    from worker.kafka.topic_mapping import refusing_strays, with_schemas
    from worker.kafka.topics import reached
    from worker.tools.mapping import samples_of_topic

    clients = reached(settings, KafkaClients(settings))
    for name, mapping in list(judge.topics.items()):
        with TopicReader(clients, name, settings.app_id) as reader:
            own, schemas = with_schemas(settings, mapping)
            judge.topics[name] = mapping = own or mapping
            if file is not None:
                judge.topics[name] = refusing_strays(mapping, file, len(reader.partitions))
            if schemas is not None:
                judge.schemas[name] = schemas
            yield from samples_of_topic(reader, limit)


def _row(verdict: "SampleOutcome") -> list[object]:
    event = verdict.event or {}
    return [
        verdict.place,
        verdict.rule,
        verdict.becomes,
        event.get("entity_id"),
        event.get("review_id"),
        verdict.detail,
    ]


def _report(judge: "MappingCheck", verdicts: "list[SampleOutcome]") -> None:
    for doubt in judge.doubts():
        output.note(f"warning: {doubt}")
    counts = Counter(one.becomes for one in verdicts)
    parts = [f"{becomes} {count:,}" for becomes, count in counts.most_common()]
    output.note(", ".join([output.many(len(verdicts), "records"), *parts]))


@click.group(
    "mapping",
    cls=CommandGroup,
    examples=[
        (
            "coversumm-worker mapping check mapping.toml --sample records.jsonl",
            "what becomes of each record",
        ),
    ],
)
def command() -> None:
    """Check a mapping (COVERSUMM_MAPPING), which reads a topic with fields of its own."""


command.add_command(check)
