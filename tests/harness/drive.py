"""Shared by the processor's tests: a processor over rows in memory, an engine that knows few
vectors, events.
"""

import base64
import json

import numpy as np

from tests.harness.limits import batch_limits, event_limits
from worker.events import Record
from worker.processing.config import ProcessorConfig
from worker.processing.entities import EntityKey
from worker.processing.entity_view import SummaryView, read_view
from worker.processing.processor import Processor
from worker.state import MemoryRows

DIMENSION = 3
TIME_MS = 1_795_200_000_000  # of a record: 2026-11-20T18:40Z, a day and more before 2027


class FakeEngine:
    """A text's vector is a function of the text alone; `nan` has none."""

    model = "fake"
    dimension = DIMENSION

    def __init__(self):
        self.asked = []

    def embed(self, texts):
        self.asked += texts
        return np.array(
            [self.vector(text) or [np.nan] * DIMENSION for text in texts], dtype=np.float32
        )

    @staticmethod
    def vector(text):
        return None if text == "nan" else [1.0 + len(text) % 3, float(sum(text.encode()) % 4), 1.0]


def config(**changes):
    """`limits` and `batch` are what is other than in the default settings."""
    limits = {"dimension": DIMENSION, "model": "fake", **changes.pop("limits", {})}
    batch = batch_limits(**changes.pop("batch", {}))
    defaults = {
        "input_topic": "reviews",
        "output_topic": "summaries",
        "dlq_topic": "dlq",
        "epoch": 7,
        "k": 3,
        "distinct": False,
        "emit": "every",
        "min_changes": 1,
        "limits": event_limits(**limits),
        "batch": batch,
        "cache_bytes": 10**8,
        "partitions": 2,
        "worker_version": "test",
        "max_message_bytes": 1_000_000,
        "index": "flat",
    }
    return ProcessorConfig(**{**defaults, **changes})


class Driver:
    """Processes and commits micro-batches; may be restarted on the same rows."""

    def __init__(self, settings=None, engine=None):
        self.config = settings or config()
        self.engine = engine or FakeEngine()
        self.rows = {0: MemoryRows(), 1: MemoryRows()}
        self.restart()

    def restart(self):
        self.processor = Processor(self.config, self.rows.__getitem__, self.engine)

    def run(self, *records):
        batch = self.processor.process(records)
        for partition, changes in batch.rows.items():
            self.rows[partition].write(changes)
        self.processor.committed(batch)
        return batch

    def run_whole(self, *records):
        """Fails if the micro-batch is cut: the other records would be lost."""
        batch = self.run(*records)
        assert batch.taken == len(records)
        return batch

    def summary(self, partition, entity_id):
        """As of the last commit."""
        key = EntityKey(partition, entity_id)
        return read_view(self.rows[partition], key, SummaryView, self.config)

    def bodies(self, *records):
        """The values sent to the output topic, None for a tombstone."""
        return [
            None if message.value is None else json.loads(message.value)
            for message in self.run(*records).messages
            if message.topic == "summaries"
        ]

    def outcome(self, record):
        ((_, outcome),) = self.run(record).stats.outcomes
        return outcome


def sent(message):
    """A message as the models tell it: key, value, and its id or why it is a dead letter."""
    headers = dict(message.headers)
    which = "dlq.reason" if message.topic == "dlq" else "ce_id"
    return message.key, message.value, headers[which].decode()


def record(offset, entity_id, body, partition=0):
    """A record of an event (a dict), of raw bytes, or of None."""
    value = body
    if isinstance(body, dict):
        value = json.dumps({"entity_id": entity_id, **body}).encode()
    return Record("reviews", partition, offset, TIME_MS, entity_id.encode(), value)


def upsert(offset, review_id, *sentences, entity_id="e", partition=0, **fields):
    """Sentences are texts (given, not split), or (text, vector)."""
    items = [s if isinstance(s, str) else {"text": s[0], "embedding": s[1]} for s in sentences]
    body = {"type": "review.upserted", "review_id": review_id, "sentences": items, **fields}
    return record(offset, entity_id, body, partition)


def delete(offset, review_id, entity_id="e", **fields):
    return record(offset, entity_id, {"type": "review.deleted", "review_id": review_id, **fields})


def delete_sentences(offset, *ids, entity_id="e"):
    return record(offset, entity_id, {"type": "sentences.deleted", "sentence_ids": list(ids)})


def delete_entity(offset, entity_id="e", **fields):
    return record(offset, entity_id, {"type": "entity.deleted", **fields})


def base64_vector(vector):
    return base64.b64encode(np.array(vector, dtype="<f4").tobytes()).decode()
