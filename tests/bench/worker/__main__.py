"""How fast the whole worker is: exactly once, on a real Kafka that shares its cores. `make
bench-worker`.

    python -m tests.bench.worker [--against COMMIT] [--rounds N] [--events N] [--only PART ...]
        [--data FILE]
                                 [--out FILE]

Measured, one worker, embeddings in the events (384 numbers, base64), k = 20:

    synthetic, real, zipf   events/s over a backlog, from the first commit to the last; seconds of
                            processing and committing and processor time of an event; and where ours
                            spends it
    facets                  with eight facets beside none: synthetic and texts, memory and stored
                            bytes, first touch; a record of its own
    restore                 rows/s of a changelog of rows of 1 KB into an empty data directory
    hot                     one entity of 100,000 sentences and 1,000 events/s: from the broker's
                            receipt of an event to that of its change
    half                    the same times, of the synthetic workload at half the events/s that were
                            measured
    cold                    the first event, after a restart, of an entity with 100,000 sentences:
                            until its change can be read
    questions               what ten questions a second cost a backlog, and how long answers take;
                            of entities of 300, 2,600 and 27,000 sentences of real reviews; a record
                            of its own
    start                   on an empty state, from the process's start to ready; without an engine
                            and with the default one

Backlogs and restores are worked off in turns with the worker of another commit, for ratios within
one run: machines differ by two, and one machine from hour to hour. `real` takes the reviews of the
demo, or of a file; the default engine embeds them once (kept in .cache).
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.bench.machine import began, command_line, tell, write
from tests.bench.worker import facets
from tests.bench.worker.budget import budget
from tests.bench.worker.contenders import contenders
from tests.bench.worker.latency import half_load, hot
from tests.bench.worker.questions import questions
from tests.bench.worker.restore import restore
from tests.bench.worker.starts import cold_touch, start_to_ready
from tests.bench.worker.throughput import throughput
from tests.bench.worker.workloads import SAMPLE_FILE, WORKLOADS
from tests.harness.broker import KafkaBroker

BASE = "be2d307"
"""The commit that targets are ratios to."""
TARGETS = {
    "synthetic events/s": 2.2,
    "synthetic process": 0.4,
    "real process": 0.3,
    "zipf events/s": 3.0,
    "restore rows/s": 1.5,
    "half load p99 ms": 250,
    "cold_touch_s": 1.0,
    "start_to_ready_s": 5.0,
}
"""To the base, without a unit; absolute with one."""
PARTS = (*WORKLOADS, "facets", "restore", "hot", "half", "cold", "questions", "start")
HOT_EVENTS_PER_S = 1000
RESULTS = Path(__file__).parents[1] / "results" / "worker.json"


def measured(given: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """All parts that are asked for, as the record has them."""
    report: dict[str, Any] = {}
    wanted, against = given.only, None if given.against == "none" else given.against
    with KafkaBroker(folder / "broker") as broker, contenders(against, folder) as who:
        if "start" in wanted:
            report["start"] = start_to_ready(broker, folder / "start")
        for name in [name for name in WORKLOADS if name in wanted]:
            workload, place = WORKLOADS[name], folder / name
            found = throughput(broker, place, workload, who, given.rounds, given.events, given.data)
            found["budget"] = budget(broker, place / "budget", workload, given.events, given.data)
            report["throughput" if name == "synthetic" else name] = found
        if "facets" in wanted:
            report["facets"] = facets.measured(
                broker,
                folder / "facets",
                who,
                given.rounds,
                given.events,
                given.sentences,
                given.data,
            )
        if "restore" in wanted:
            report["restore"] = restore(
                broker,
                folder / "restore",
                who,
                given.rounds,
                given.rows,
            )
        if "cold" in wanted:
            report["cold_entity"] = cold_touch(broker, folder / "cold", given.sentences)
        if "questions" in wanted:
            report["questions"] = questions(
                broker, folder / "questions", given.rounds, given.events, given.data
            )
        if "hot" in wanted:
            report["hot"] = hot(
                broker, folder / "hot", given.sentences, HOT_EVENTS_PER_S, given.seconds
            )
        if "half" in wanted:
            rate = given.half or report["throughput"]["events_per_s"] / 2
            report["half"] = half_load(broker, folder / "half", round(rate), given.seconds)
    return report


def against_targets(report: dict[str, Any], base: str) -> dict[str, Any]:
    """The figures that have a target, as far as they were measured."""
    places: dict[str, tuple[str, ...]] = {
        "synthetic events/s": ("throughput", f"over_{base}", "events_per_s"),
        "synthetic process": ("throughput", f"over_{base}", "process_us_per_event"),
        "real process": ("real", f"over_{base}", "process_us_per_event"),
        "zipf events/s": ("zipf", f"over_{base}", "events_per_s"),
        "restore rows/s": ("restore", f"over_{base}", "restore_rows_per_s"),
        "half load p99 ms": ("half", "change", "p99_ms"),
        "cold_touch_s": ("cold_entity", "cold_touch_s"),
        "start_to_ready_s": ("start", "start_to_ready_s"),
    }
    found = {}
    for name, path in places.items():
        at: Any = report
        for step in path:
            at = at.get(step) if isinstance(at, dict) else None
        if at is not None:
            found[name] = at
    return found


def main() -> int:
    """Measure, print, write; 0 also where a target is missed: the figures say so."""
    parser = command_line(__doc__, RESULTS)
    parser.add_argument("--against", default=BASE, help="a commit of this repository, or none")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--events", type=int, default=60_000)
    parser.add_argument("--rows", type=int, default=300_000)
    parser.add_argument("--sentences", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=20.0, help="of steady load that count")
    parser.add_argument(
        "--half", type=float, help="events/s of half load, where no backlog is measured"
    )
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), metavar="PART")
    parser.add_argument(
        "--data", type=Path, default=SAMPLE_FILE, help="reviews of the real workload"
    )
    given = parser.parse_args()
    if "half" in given.only and "synthetic" not in given.only and given.half is None:
        parser.error(
            "half load is that of the synthetic workload: ask for it too, or say --half "
            "EVENTS_PER_S"
        )
    report = began("tests.bench.worker") | {"targets": TARGETS, "against": given.against}
    with tempfile.TemporaryDirectory() as scratch:
        found = measured(given, Path(scratch))
    if of_facets := found.pop("facets", None):
        path = given.out.with_name("worker_facets.json")
        write(path, report | {"targets": facets.TARGETS} | of_facets)
        tell(facets.TARGETS, facets.against_targets(of_facets), path)
    if asked := found.pop("questions", None):
        write(given.out.with_name("questions.json"), began("tests.bench.worker") | asked)
    if not found:
        return 0
    report |= found
    write(given.out, report)
    tell(TARGETS, against_targets(report, given.against), given.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
