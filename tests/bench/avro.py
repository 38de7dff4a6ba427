"""Processor time of an event in Avro, from its record to its messages, next to the same in JSON.

`python -m tests.bench.avro`: microseconds per event of one sentence with a vector of 384 numbers
(base64 in JSON, bytes in Avro), summaries of 20 sentences, rows in memory. The two run in turns,
and the median of the ratios counts. Avro may take at most 1.3 times the time of JSON.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import replace
from statistics import median
from time import process_time
from typing import Final

from tests.bench.processor import DIMENSION, records
from tests.registry.framing import CONTRACT, ONE, codec, framed
from worker.events import FacetsChanged, Record, SummaryChanged
from worker.processing.config import ProcessorConfig, processor_config
from worker.processing.in_memory import ProcessorInMemory
from worker.registry.output import AvroOutput
from worker.settings import Settings

BOUND: Final = 1.3
ROUNDS, EVENTS, ENTITIES, BATCH = 7, 4_000, 200, 500
UPSERTED: Final = next(one for one in CONTRACT if one["name"] == "ReviewUpserted")


def in_avro(record: Record) -> Record:
    """The same event in Avro."""
    event = json.loads(record.value or b"")
    del event["type"]
    for one in event["sentences"]:
        one["embedding"] = base64.b64decode(one["embedding"])
    return record._replace(value=framed(ONE["ReviewUpserted"], UPSERTED, event))


def microseconds(config: ProcessorConfig, events: Sequence[Record]) -> float:
    """Processor time of one event, in a new processor."""
    processor = ProcessorInMemory(config, None)
    started = process_time()
    changes = 0
    for at in range(0, len(events), BATCH):
        for batch in processor.process(events[at : at + BATCH]):
            changes += len(batch.messages)
    taken = process_time() - started
    assert changes > len(events) / 2
    return taken / len(events) * 1e6


def measured(rounds: int = ROUNDS, events: int = EVENTS) -> dict[str, list[float]]:
    """Microseconds per event by format, of each round."""
    plain = list(records(events, ENTITIES))
    packed = [in_avro(record) for record in plain]
    settings = Settings(embedder="none", dimension=DIMENSION)
    json_config = processor_config(settings, 1, None)
    output = AvroOutput({SummaryChanged: 1, FacetsChanged: 2})
    avro_config = replace(json_config, codec=codec(), output=output)
    found: dict[str, list[float]] = {"JSON": [], "Avro": []}
    for _ in range(rounds):
        found["JSON"].append(microseconds(json_config, plain))
        found["Avro"].append(microseconds(avro_config, packed))
    return found


def ratio(found: dict[str, list[float]]) -> float:
    """The median of the rounds' ratios."""
    return median(a / j for a, j in zip(found["Avro"], found["JSON"], strict=True))


if __name__ == "__main__":
    taken = measured()
    for name, of_format in taken.items():
        print(f"{name:6}{median(of_format):7.1f} us")
    print(f"ratio {ratio(taken):7.2f}{'' if ratio(taken) <= BOUND else '  over the bound'}")
