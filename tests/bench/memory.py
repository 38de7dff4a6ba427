"""How much memory a worker takes at most, by the settings that bound it, on a real Kafka. `make bench-memory`.

    python -m tests.bench.memory [--share S] [--out FILE] [--only WORD]

The chart derives requests and limits from the same settings; `tests/deploy/test_chart_memory.py` holds its formula against these
figures. Measured is the highest resident size that the kernel saw (VmHWM), files of the program that are mapped included.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections.abc import Iterable, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from tests.bench.machine import began, write
from tests.bench.worker.events import DIMENSION, review, reviews
from tests.harness.broker import KafkaBroker
from tests.harness.load import NoVectors, Sent, Stream, read_reviews, send
from tests.harness.workers import WorkerProcess, pipeline

RESULTS: Final = Path(__file__).with_name("results") / "memory.json"
SMALL: Final = {
    "CACHE_BYTES": "16MiB",
    "ROCKSDB_BYTES": "16MiB",
    "IN_FLIGHT_BYTES": "16MiB",
    "TRANSACTION_BYTES": "8MiB",
    "BATCH_BYTES": "4MiB",
}


class Case(NamedTuple):
    """A worker and its load: so many events, of so many sentences with vectors each (0: of text), over so many entities."""

    name: str
    settings: Mapping[str, str]
    events: int
    sentences: int = 1
    entities: int = 1


CASES: Final = (
    Case("nothing to do", {}, 0),
    Case("reviews of five sentences", {}, 60_000, 5, 20_000),
    Case("the same with small bounds", SMALL, 60_000, 5, 20_000),
    Case("the same with a cache of 512 MiB", {"CACHE_BYTES": "512MiB"}, 60_000, 5, 20_000),
    Case("the same with databases of 512 MiB", {"ROCKSDB_BYTES": "512MiB"}, 60_000, 5, 20_000),
    Case("reviews of 300 sentences", {}, 500, 300, 100),
    Case("one entity of 400,000 sentences", {}, 4_000, 100, 1),
    Case("texts, two threads", {"EMBEDDER": "onnx", "EMBEDDER_THREADS": "2"}, 3_000, 0),
)


def load(case: Case, share: float) -> Iterable[Sent]:
    """Its events."""
    count = max(1, round(case.events * share)) if case.events else 0
    if case.sentences:
        return reviews(count, case.entities, case.sentences)
    return islice(Stream(read_reviews(limit=count), NoVectors()), count)


def measured(broker: KafkaBroker, case: Case, folder: Path, share: float) -> dict[str, Any]:
    """The peak of its first life, and that of a second one, which restores everything from the changelog and reads an entity."""
    given = {
        f"COVERSUMM_{name}": value for name, value in ({"EMBEDDER": "none"} | dict(case.settings)).items()
    }
    with pipeline(broker, re.sub(r"\W+", "-", case.name), folder, settings=given) as site:
        sent = send(broker.bootstrap_servers, site.input_topic, load(case, share), chunk=1000)
        worker = site.worker().start()
        worker.wait_ready()
        site.wait_caught_up(1800)
        metrics = worker.metrics()
        peak = peak_mib(worker)
        worker.terminate()
        worker.wipe()
        worker.start().wait_ready(1800)
        if case.sentences and case.events:  # an entity out of memory, all of whose sentences are searched
            vectors = np.random.default_rng(1).standard_normal((1, DIMENSION)).astype("<f4")
            send(broker.bootstrap_servers, site.input_topic, [review("entity-0", "another", vectors)])
            site.wait_caught_up(600)
        restoring = peak_mib(worker)
        site.stop()
    return {
        "case": case.name,
        "settings": dict(case.settings),
        "events": sent,
        "sentences": case.sentences,
        "entities": case.entities,
        "peak_mib": peak,
        "restoring_mib": restoring,
        "cache_mib": round(metrics["coversumm_cache_bytes"] / 2**20),
        "rocksdb_mib": round(metrics["coversumm_rocksdb_bytes"] / 2**20),
    }


def peak_mib(worker: WorkerProcess) -> int:
    """The most that its process had in memory since it started."""
    status = Path(f"/proc/{worker.pid}/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert found is not None
    return round(int(found[1]) / 1024)


def main() -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--share", type=float, default=1.0, help="of the events, to try it")
    parser.add_argument("--only", default="", help="cases with this in their names")
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    rows = []
    record = began("tests.bench.memory")
    with tempfile.TemporaryDirectory() as scratch, KafkaBroker(Path(scratch) / "broker") as broker:
        for number, case in enumerate(CASES):
            if given.only in case.name:
                rows.append(measured(broker, case, Path(scratch) / str(number), given.share))
                print(rows[-1], flush=True)
    report = record | {
        "rows": rows,
    }
    write(given.out, report)
    return 0


if __name__ == "__main__":
    sys.exit(main())
