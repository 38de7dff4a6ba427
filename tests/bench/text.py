"""How many reviews a second are worked off as text: split and embedded, from Kafka to Kafka, and
by `summarize` from a file; and by a worker that finds all vectors in a store. `make bench-text`.

    python -m tests.bench.text [--rounds N] [--reviews N] [--data FILE] [--out FILE]

All have the default engine, take the same reviews, in turns, on the same cores. The worker's rate
is that of `make bench-worker`: a backlog from its first commit to its last, the broker beside it.
That of `summarize` includes its start.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.bench.machine import began, command_line, write
from tests.bench.worker.contenders import OURS, Contender
from tests.bench.worker.measure import settings
from tests.bench.worker.throughput import turn
from tests.bench.worker.workloads import Workload
from tests.harness.broker import KafkaBroker
from tests.harness.load import SAMPLE, Review, Sent, read_reviews, send
from tests.harness.workers import pipeline

RESULTS = Path(__file__).with_name("results") / "text.json"
ONNX = {"embedder": "onnx"}
WORKLOAD = Workload("text", "reviews as text", lambda *_: iter(()), ONNX)
FINDING = "finding"
"""A worker with a store that has all vectors."""


def event(review: Review) -> Sent:
    """The review as an event without sentences."""
    body = {"type": "review.upserted", "review_version": 1, **review._asdict()}
    return Sent(review.entity_id.encode(), json.dumps(body).encode())


def summarized(file: Path, out: Path, precision: str = "fp32", store: Path | None = None) -> float:
    """Seconds that `summarize` takes for a file of events, which may keep vectors in a store."""
    started_s = time.monotonic()
    command = [sys.executable, "-m", "worker", "summarize", str(file), "--output", str(out)]
    environment = {**os.environ, "COVERSUMM_EMBEDDER_PRECISION": precision}
    if store is not None:
        environment["COVERSUMM_VECTOR_STORE_DIR"] = str(store)
    subprocess.run(command, check=True, capture_output=True, env=environment)
    return time.monotonic() - started_s


def measured(reviews: Sequence[Review], rounds: int, folder: Path) -> dict[str, Any]:
    """The medians of both, and each turn."""
    sent = [event(review) for review in reviews]
    file = folder / "events.jsonl"
    file.write_bytes(b"\n".join(event.value or b"" for event in sent))
    turns: list[dict[str, Any]] = []
    with (
        KafkaBroker(folder / "broker") as broker,
        pipeline(broker, "bench-text", folder, settings=settings()) as site,
    ):
        send(broker.bootstrap_servers, site.input_topic, sent)
        for number in range(rounds):
            found = turn(site, Contender(OURS), WORKLOAD, number)
            seconds = summarized(file, folder / f"bodies-{number}.jsonl")
            store = folder / f"store-{number}"
            summarized(file, folder / "kept.jsonl", store=store)
            rates = {"summarize": len(reviews) / seconds}
            finding = WORKLOAD._replace(settings={**ONNX, "vector_store_dir": str(store)})
            again = turn(site, Contender(FINDING), finding, number)
            assert again["digest"] == found["digest"]
            rates["finding"] = again["events_per_s"]
            turns.append(found | {f"{name}_per_s": round(rate, 1) for name, rate in rates.items()})
            print(turns[-1], flush=True)
    return {
        "reviews": len(reviews),
        "worker_per_s": statistics.median(turn["events_per_s"] for turn in turns),
        **{
            f"{name}_per_s": statistics.median(turn[f"{name}_per_s"] for turn in turns)
            for name in ("summarize", "finding")
        },
        "turns": turns,
    }


def recorded(
    program: str,
    about: str | None,
    results: Path,
    measure: Callable[[Sequence[Review], int, Path], dict[str, Any]],
    count: int = 2000,
) -> None:
    """Run the command line of a measurement of reviews in rounds: measure, print, write."""
    parser = command_line(about, results)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--reviews", type=int, default=count)
    parser.add_argument("--data", type=Path, default=SAMPLE, help="reviews, as JSON lines")
    given = parser.parse_args()
    report = began(program)
    with tempfile.TemporaryDirectory() as scratch:
        reviews = read_reviews(given.data, limit=given.reviews)
        report |= measure(reviews, given.rounds, Path(scratch))
    write(given.out, report)
    print(f"all figures: {given.out}")


if __name__ == "__main__":
    recorded("tests.bench.text", __doc__, RESULTS, measured)
