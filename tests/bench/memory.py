"""How much memory a worker takes at most, by the settings that bound it, on a real Kafka. `make
bench-memory`.

    python -m tests.bench.memory [--share S] [--out FILE] [--only WORD] [--many]

`--many` renews the row of the largest state alone: 2,000,000 sentences, 12 GB of disk, and a
quarter of an hour.

The chart derives requests and limits from the same settings; `tests/deploy/test_chart_memory.py`
holds its formula against these figures. Measured is the highest resident size that the kernel saw
(VmHWM), files of the program that are mapped included.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections.abc import Iterable, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from tests.bench.machine import began, command_line, write
from tests.bench.worker.events import DIMENSION, even, review, reviews
from tests.bench.worker.measure import Progress
from tests.harness.broker import KafkaBroker
from tests.harness.load import NoVectors, Sent, Stream, read_reviews, send
from tests.harness.workers import WorkerProcess, pipeline
from worker.settings import kinds
from worker.settings.fields import Fields

RESULTS: Final = Path(__file__).with_name("results") / "memory.json"
BOUNDS: Final = {
    f"{name}_BYTES": getattr(Fields, f"{name.lower()}_bytes")
    for name in ("CACHE", "ROCKSDB", "IN_FLIGHT", "TRANSACTION", "BATCH")
}
SMALL: Final = {
    "CACHE_BYTES": "16MiB",
    "ROCKSDB_BYTES": "16MiB",
    "IN_FLIGHT_BYTES": "16MiB",
    "TRANSACTION_BYTES": "8MiB",
    "BATCH_BYTES": "4MiB",
}


PATIENCE_SECONDS: Final = 3600


class Case(NamedTuple):
    """A worker and its load: so many events, of so many sentences with vectors each (0: of text),
    over so many entities.

    `even`: each entity has as many.
    """

    name: str
    settings: Mapping[str, str]
    events: int
    sentences: int = 1
    entities: int = 1
    partitions: int = 4
    even: bool = False


MANY: Final = Case(
    "100,000 entities of 20 sentences, 64 partitions", {}, 200_000, 10, 100_000, 64, even=True
)
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
    if case.even:
        return even(
            round(case.entities * share),
            case.events * case.sentences // case.entities,
            case.sentences,
        )
    if case.sentences:
        return reviews(count, case.entities, case.sentences)
    return islice(Stream(read_reviews(limit=count), NoVectors()), count)


def measured(broker: KafkaBroker, case: Case, folder: Path, share: float) -> dict[str, Any]:
    """The peak of its first life, and that of a second one, which restores everything from the
    changelog and reads an entity.
    """
    given = {
        f"COVERSUMM_{name}": value
        for name, value in ({"EMBEDDER": "none"} | dict(case.settings)).items()
    }
    name = re.sub(r"\W+", "-", case.name)
    with pipeline(broker, name, folder, partitions=case.partitions, settings=given) as site:
        sent = send(broker.bootstrap_servers, site.input_topic, load(case, share), chunk=1000)
        worker = site.worker().start()
        worker.wait_ready()
        Progress(site).wait(PATIENCE_SECONDS)
        metrics = worker.metrics()
        peak = peak_mib(worker)
        worker.terminate()
        worker.wipe()
        worker.start().wait_ready(PATIENCE_SECONDS)
        # an entity out of memory, all of whose sentences are searched
        if case.sentences and case.events:
            vectors = np.random.default_rng(1).standard_normal((1, DIMENSION)).astype("<f4")
            send(
                broker.bootstrap_servers, site.input_topic, [review("entity-0", "another", vectors)]
            )
            Progress(site).wait(PATIENCE_SECONDS)
        restoring = peak_mib(worker)
        site.stop()
    return {
        "case": case.name,
        "settings": dict(case.settings),
        "partitions": case.partitions,
        "bound_mib": bound_mib(case),
        "events": sent,
        "sentences": case.sentences,
        "entities": case.entities,
        "peak_mib": peak,
        "restoring_mib": restoring,
        "cache_mib": round(metrics["coversumm_cache_bytes"] / 2**20),
        "rocksdb_mib": round(metrics["coversumm_rocksdb_bytes"] / 2**20),
    }


def bound_mib(case: Case) -> int:
    """What the settings that bound memory come to."""
    return (
        sum(
            kinds.size(0, 2**40).parse(case.settings[name]) if name in case.settings else default
            for name, default in BOUNDS.items()
        )
        // 2**20
    )


def peak_mib(worker: WorkerProcess) -> int:
    """The most that its process had in memory since it started."""
    status = Path(f"/proc/{worker.pid}/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert found is not None
    return round(int(found[1]) / 1024)


def renewed(path: Path, record: dict[str, Any], rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The record that is there, with these rows in place of those of the same names; each says
    where and when it was measured.
    """
    if not path.exists():
        return record | {"rows": rows}
    before = json.loads(path.read_text(encoding="utf-8"))
    names = {row["case"] for row in rows}
    kept = [row for row in before["rows"] if row["case"] not in names]
    own = {name: record[name] for name in ("date", "command", "machine")}
    return before | {"rows": kept + [row | own for row in rows]}


def main() -> int:
    """Measure, print, write."""
    parser = command_line(__doc__, RESULTS)
    parser.add_argument("--share", type=float, default=1.0, help="of the events, to try it")
    parser.add_argument("--only", default="", help="cases with this in their names")
    parser.add_argument(
        "--many", action="store_true", help="the largest state alone, whose row is renewed"
    )
    given = parser.parse_args()
    rows = []
    record = began("tests.bench.memory")
    with tempfile.TemporaryDirectory() as scratch, KafkaBroker(Path(scratch) / "broker") as broker:
        for number, case in enumerate((MANY,) if given.many else CASES):
            if given.only in case.name:
                rows.append(measured(broker, case, Path(scratch) / str(number), given.share))
                print(rows[-1], flush=True)
    write(given.out, renewed(given.out, record, rows) if given.many else record | {"rows": rows})
    return 0


if __name__ == "__main__":
    sys.exit(main())
