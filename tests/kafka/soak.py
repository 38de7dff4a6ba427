"""A long run under faults: two workers, random kills, pauses and stops, then the verifier counts every message.

    python -m tests.kafka.soak --events 60000 --faults 12 --seed 1 [--data FILE] [--vectors hashed|engine|text]

One seed is one load and one list of faults; the moments differ with the machine. The result goes to
`tests/bench/results/soak.json`; the exit code is 1 when anything was lost, repeated, reordered, wrong or additional.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import count, islice
from pathlib import Path
from typing import Any

from tests.bench.machine import machine
from tests.kafka.broker import KafkaBroker
from tests.kafka.chaos import Chaos, random_faults
from tests.kafka.load import (
    CODECS,
    SAMPLE,
    EngineVectors,
    HashedVectors,
    NoVectors,
    Review,
    Sent,
    Stream,
    Vectors,
    read_reviews,
    send,
)
from tests.kafka.workers import WorkerError, pipeline

RESULTS = Path(__file__).parents[1] / "bench" / "results" / "soak.json"
WORKERS = 2


def rounds(reviews: list[Review], vectors: Vectors, seed: int) -> Iterator[Sent]:
    """The reviews' stream without an end: after each round come other entities with the same reviews."""
    for number in count():
        renamed = [review._replace(entity_id=f"{review.entity_id}~{number}") for review in reviews]
        yield from Stream(renamed, vectors, seed=seed + number)


def vectors_for(kind: str, reviews: list[Review]) -> Vectors:
    """Drawn by hash, the engine's (made once), or none: then the workers embed."""
    return {"hashed": HashedVectors, "text": NoVectors}.get(kind, lambda: EngineVectors(reviews))()


def settings_for(vectors: Vectors) -> dict[str, str]:
    """Small micro-batches and short sessions: more commits to be hit, more rebalances."""
    return {
        "COVERSUMM_EMBEDDER": "onnx" if isinstance(vectors, NoVectors) else "none",
        "COVERSUMM_DIMENSION": "" if isinstance(vectors, NoVectors) else str(vectors.dimension),
        "COVERSUMM_SESSION_TIMEOUT_MS": "6000",
        "COVERSUMM_BATCH_SIZE": "200",
        "COVERSUMM_WEB_BIND": "127.0.0.1",
    }


def soak(broker: KafkaBroker, folder: Path, given: argparse.Namespace) -> dict[str, Any]:
    """Run the load under its faults; what happened and what the verifier found."""
    reviews = read_reviews(given.data, limit=given.reviews, seed=given.seed)
    vectors = vectors_for(given.vectors, reviews)
    faults = random_faults(given.faults, WORKERS, given.seed)
    with pipeline(broker, f"soak-{given.seed}", folder, partitions=8, settings=settings_for(vectors)) as site:
        site.start(WORKERS)
        chaos = Chaos(site, given.events, faults)
        started_s = time.monotonic()
        load = islice(rounds(reviews, vectors, given.seed), given.events)
        send(
            broker.bootstrap_servers,
            site.input_topic,
            load,
            codecs=CODECS,
            chunk=50,
            events_per_s=given.rate,
            tick=chaos.tick,
        )
        chaos.finish()
        caught_up_s = site.wait_caught_up(300, restart=True)
        seconds = time.monotonic() - started_s
        ended = Counter(code for worker in site.workers for code in worker.exit_codes)
        site.stop()
        report = site.report()
        state_ok = True
        try:
            site.verify_state()
        except WorkerError as fault:
            state_ok, report["state"] = False, str(fault)
    return {
        "ok": report["ok"] and state_ok,
        "events": given.events,
        "faults": dict(chaos.struck),
        "worker_ends": {str(code): number for code, number in ended.items()},
        "seconds": round(seconds, 1),
        "caught_up_after_last_event_s": round(caught_up_s, 1),
        "history": chaos.history,
        "verifier": report,
    }


def main() -> int:
    """Run, print, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--events", type=int, default=60_000)
    parser.add_argument("--faults", type=int, default=12)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rate", type=float, default=400.0, help="events a second")
    parser.add_argument("--data", type=Path, default=SAMPLE)
    parser.add_argument("--reviews", type=int, default=None, help="use so many of the file's reviews")
    parser.add_argument("--vectors", choices=("hashed", "engine", "text"), default="hashed")
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch, KafkaBroker(Path(scratch) / "broker") as broker:
        result = soak(broker, Path(scratch), given)
    report = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": " ".join(["python", "-m", "tests.kafka.soak", *sys.argv[1:]]),
        "machine": machine(),
        **result,
    }
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps({name: report[name] for name in ("ok", "events", "faults", "worker_ends", "seconds")}))
    print(json.dumps(result["verifier"]["differences"]))
    return 0 if result["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
