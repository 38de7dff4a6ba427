"""A pure processor over rows in RocksDB, and events for it: no broker, one sentence with a base64
embedding an event.
"""

import base64
import json
import time

import numpy as np
from rocksdict import Options, Rdict

from tests.harness.limits import batch_limits, event_limits
from worker.events import Record
from worker.processing.config import ProcessorConfig
from worker.processing.processor import Processor
from worker.storage.rows import RocksRows, write_rows

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
