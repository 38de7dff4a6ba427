"""How fast the pure processor is: `python -m tests.bench.processor [--quick]`. No broker; rows in
RocksDB.

- *micro-batches*: events of one sentence with a base64 embedding over many entities, most of which
  publish
- *cold touch*: one event for an entity of 100,000 sentences (one row each) that is not in memory
"""

import argparse
import base64
import cProfile
import json
import pstats
import resource
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from rocksdict import Options, Rdict

from tests.bench.machine import began, write
from tests.harness.limits import batch_limits, event_limits
from worker.events import Record
from worker.processing.config import ProcessorConfig
from worker.processing.entities import EntityKey
from worker.processing.entity_view import SummaryView, read_view
from worker.processing.processor import Processor
from worker.storage.rows import RocksRows, write_rows

RESULTS = Path(__file__).parent / "results" / "processor.json"
DIMENSION = 384


class Store:
    """One partition's rows in a RocksDB of its own, written as the worker's table writes them."""

    def __init__(self, folder):
        options = Options(raw_mode=True)
        options.create_if_missing(True)
        self.database = Rdict(str(folder), options)
        self.rows = RocksRows(self.database)

    def write(self, changes):
        write_rows(self.database, changes)


def processor(store, cache_bytes, emit="every"):
    config = ProcessorConfig(
        input_topic="reviews",
        output_topic="summaries",
        dlq_topic="dlq",
        epoch=1,
        k=20,
        distinct=False,
        emit=emit,
        min_changes=1,
        limits=event_limits(dimension=DIMENSION, embeds=False),
        batch=batch_limits(),
        cache_bytes=cache_bytes,
        partitions=1,
        worker_version="bench",
        max_message_bytes=1_000_000,
        index="flat",
    )
    return Processor(config, lambda _: store.rows, None)


def records(count, entities, seed=7):
    """Events of one sentence each, entities in random order; vectors around one direction, as real
    ones are.
    """
    random = np.random.default_rng(seed)
    centre = random.normal(size=DIMENSION)
    text = "The room was clean, quiet and close to the station, and we would come back any time."
    for offset in range(count):
        entity = f"entity-{offset % entities if entities > 1 else 0:06d}"
        vector = (centre + 1.5 * random.normal(size=DIMENSION)).astype("<f4")
        body = {
            "type": "review.upserted",
            "entity_id": entity,
            "review_id": f"r-{offset}",
            "rating": 4.0,
            "occurred_at": "2026-11-20T12:00:00Z",
            "sentences": [
                {
                    "text": f"{text} {offset}",
                    "embedding": base64.b64encode(vector.tobytes()).decode(),
                }
            ],
        }
        yield Record(
            "reviews", 0, offset, 1_700_000_000_000, entity.encode(), json.dumps(body).encode()
        )


def run(store, worker, events, size):
    """Seconds and counts of processing the events in micro-batches, commits apart."""
    seconds = write_seconds = committed_seconds = cpu_seconds = 0.0
    changes = row_count = row_bytes = 0
    for at in range(0, len(events), size):
        started, cpu_started = time.perf_counter(), time.thread_time()
        batch = worker.process(events[at : at + size])
        processed = time.perf_counter()
        cpu_seconds += time.thread_time() - cpu_started
        store.write(batch.rows[0])
        written = time.perf_counter()
        worker.committed(batch)
        committed_seconds += time.perf_counter() - written
        seconds += processed - started
        write_seconds += written - processed
        changes += batch.stats.changes
        row_count += len(batch.rows[0])
        row_bytes += sum(len(value or b"") for value in batch.rows[0].values())
    return {
        "events": len(events),
        "process_us_per_event": round(1e6 * seconds / len(events), 1),
        "process_cpu_us_per_event": round(1e6 * cpu_seconds / len(events), 1),
        "committed_us_per_event": round(1e6 * committed_seconds / len(events), 1),
        "rocksdb_write_us_per_event": round(1e6 * write_seconds / len(events), 1),
        "summary_changes_per_event": round(changes / len(events), 3),
        "rows_per_event": round(row_count / len(events), 2),
        "row_bytes_per_event": round(row_bytes / len(events)),
        "cached_entities": batch.stats.cached_entities,
        "cache_bytes": batch.stats.cache_bytes,
    }


def micro_batches(folder, count, entities, cache_bytes, profile):
    """Warm up with a third of the events, then measure the rest."""
    store = Store(folder)
    worker = processor(store, cache_bytes)
    events = list(records(count, entities))
    warm = count // 3
    run(store, worker, events[:warm], 1000)
    profiler = cProfile.Profile()
    if profile:
        profiler.enable()
    result = run(store, worker, events[warm:], 1000)
    if profile:
        profiler.disable()
        pstats.Stats(profiler).sort_stats("tottime").print_stats(30)
    return result


def cold_touch(folder, sentences):
    """An entity of many one-sentence reviews, built, put out of memory, and touched by one more
    event.
    """
    store = Store(folder)
    events = list(records(sentences + 3, 1))
    built = run(store, processor(store, 10**9), events[:sentences], 5000)
    seconds = []
    for event in events[sentences:]:
        worker = processor(store, 10**9)
        started = time.perf_counter()
        batch = worker.process([event])
        seconds.append(time.perf_counter() - started)
        store.write(batch.rows[0])
        worker.committed(batch)
    started = time.perf_counter()
    read_view(store.rows, EntityKey(0, "entity-000000"), SummaryView, worker.config)
    return {
        "sentences": sentences,
        "build_us_per_event": built["process_us_per_event"],
        "cold_touch_seconds": [round(s, 3) for s in seconds],
        "cold_view_seconds": round(time.perf_counter() - started, 3),
        "entity_cache_bytes": batch.stats.cache_bytes,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--quick", action="store_true", help="a tenth of the events; nothing is recorded"
    )
    parser.add_argument(
        "--profile", action="store_true", help="show where the time goes; nothing is recorded"
    )
    arguments = parser.parse_args()
    scale = 10 if arguments.quick else 1
    with tempfile.TemporaryDirectory() as folder:
        result = {
            **began("tests.bench.processor"),
            "micro_batches_of_1000": micro_batches(
                Path(folder, "a"), 60_000 // scale, 1000, 256 * 2**20, arguments.profile
            ),
        }
        if not arguments.profile:
            result["cold_entity"] = cold_touch(Path(folder, "b"), 100_000 // scale)
    result["peak_rss_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(json.dumps(result, indent=2))
    if not (arguments.quick or arguments.profile):
        write(RESULTS, result)


if __name__ == "__main__":
    sys.exit(main())
