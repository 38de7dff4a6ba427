"""`summarize`: a file through the processor, without Kafka: rows in memory, summary changes on standard output."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

import click

from worker.cli import output
from worker.cli.command import Command
from worker.settings import Settings
from worker.text import embedders

if TYPE_CHECKING:
    from worker.events import Message, Record
    from worker.processing.processor import Processor
    from worker.state import MemoryRows

BATCH_LINES = 1000


@click.command(
    "summarize",
    cls=Command,
    short_help="A file in, summary changes out; no Kafka at all.",
    examples=[
        ("coversumm-worker summarize reviews.jsonl > changes.jsonl", "every change of every summary"),
        ("coversumm-worker summarize reviews.jsonl --k 5 --distinct", "five sentences, no two alike"),
    ],
)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, readable=True, allow_dash=True))
@click.option("--k", type=click.IntRange(1, 1000), help="Sentences in a summary.")
@click.option("--distinct/--no-distinct", default=None, help="Show sentences with identical vectors once.")
@click.option(
    "--emit", type=click.Choice(["every", "coalesced"]), help="Every change, or the net one of 1,000 lines."
)
@click.option("--embedder", help=f"{embedders.FORMS}.")
def command(file: str, k: int | None, distinct: bool | None, emit: str | None, embedder: str | None) -> int:
    """No Kafka at all: read events or bare reviews from a JSONL file (also .gz; - for standard input), write the summary
    changes as JSONL to standard output.

    Lines that cannot be used are named on standard error and make the exit code 1; all others are processed.
    """
    settings = Settings.from_environment(
        k=_text(k), distinct=None if distinct is None else str(distinct), emit=emit, embedder=embedder
    )
    from worker.cli.lines import EventFile

    events = EventFile(file)
    rows, processor = _processor(settings, events.topic)
    read = rejected = 0
    with output.file_progress(events.size) as progress:
        for records in batches(events, BATCH_LINES):
            while records:
                batch = processor.process(records)
                for changes in batch.rows.values():
                    rows.write(changes)
                processor.committed(batch)
                records = records[batch.taken :]
                read += batch.taken
                rejected += _write(batch.messages, settings.output_topic)
                progress.update(events.position, read)
    if rejected:
        output.complain(f"{rejected} of {read} lines could not be used")
    return output.CHECK_FAILED if rejected else 0


def _text(value: int | None) -> str | None:
    return None if value is None else str(value)


def _processor(settings: Settings, topic: str) -> "tuple[MemoryRows, Processor]":
    """A processor over rows in memory, as the worker's own on an input topic of one partition."""
    from dataclasses import replace

    from worker.processing.config import check_index, processor_config
    from worker.processing.processor import Processor
    from worker.state import MemoryRows

    check_index(settings.index)
    engine = embedders.load_engine(
        settings.embedder, threads=settings.embedder_threads, cache_dir=settings.model_cache_dir
    )
    rows = MemoryRows()
    config = replace(processor_config(settings, 1, engine), input_topic=topic)
    return rows, Processor(config, lambda _partition: rows, engine)


def batches(records: "Iterable[Record]", size: int) -> "Iterator[Sequence[Record]]":
    """The records in lists of `size`, the last one shorter."""
    remaining = iter(records)
    while batch := list(islice(remaining, size)):
        yield batch


def _write(messages: "Sequence[Message]", output_topic: str) -> int:
    """Write the summary changes; report the dead letters and return how many there are."""
    changes = [m.value for m in messages if m.topic == output_topic and m.value is not None]
    sys.stdout.buffer.writelines(value + b"\n" for value in changes)
    sys.stdout.buffer.flush()
    dead_letters = [m for m in messages if m.topic != output_topic]
    for letter in dead_letters:
        headers = {name: value.decode() for name, value in letter.headers}
        output.note(
            f"line {headers['dlq.source.offset']} (counted from 0): {headers['dlq.reason']}: {headers['dlq.detail']}"
        )
    return len(dead_letters)
