"""Processor time of one mapped record, next to the same event by the contract.

`python -m tests.bench.mapping`: microseconds per event, the minimum of several runs. A mapped event
may take at most 15 us.
"""

import json
import tempfile
import timeit
from collections.abc import Callable
from pathlib import Path
from time import process_time

from tests.harness.debezium import TOPIC, change, key, mapping, row
from worker.events import Record, json_codec

BOUND_US = 15.0
RUNS, EVENTS = 20, 2_000

CLOUD = """
[topic.t]
[[topic.t.rule]]
when = { "ce.type" = "com.shop.review.updated" }
emit = "review.upserted"
entity_id = "ce.subject"
review_id = "reviewId"
text = "body"
occurred_at = "ce.time"
"""


def microseconds(work: Callable[[], object]) -> float:
    """Processor time of one call."""
    timer = timeit.Timer(work, timer=process_time)
    return min(timer.repeat(RUNS, EVENTS)) / EVENTS * 1e6


def measured() -> dict[str, float]:
    """Microseconds per event, by kind of record."""
    one = row(5, 3)
    table = Record(TOPIC, 0, 0, 0, key(one), change("u", one, 7))
    headers = {
        "ce_specversion": "1.0",
        "ce_id": "1",
        "ce_source": "/shop",
        "ce_type": "com.shop.review.updated",
        "ce_subject": "B00X",
        "ce_time": "2026-11-20T12:00:00Z",
    }
    body = json.dumps({"reviewId": "r-81", "body": one["body"]}).encode()
    pairs = tuple((name, text.encode()) for name, text in headers.items())
    event = Record("t", 0, 0, 0, b"B00X", body, pairs)
    by_contract = {"type": "review.upserted", "entity_id": "3", "review_id": "5", "text": "Good."}
    plain = json.dumps(by_contract).encode()
    with tempfile.TemporaryDirectory() as folder:
        debezium, cloud = mapping(Path(folder)), mapping(Path(folder), CLOUD, "t")
    return {
        "by the contract": microseconds(lambda: json_codec.decode(plain)),
        "Debezium, six fields": microseconds(lambda: debezium.read_all(table)),
        "CloudEvents, binary": microseconds(lambda: cloud.read_all(event)),
    }


if __name__ == "__main__":
    for name, taken in measured().items():
        print(f"{name:22}{taken:6.1f} us{'' if taken <= BOUND_US else '  over the bound'}")
