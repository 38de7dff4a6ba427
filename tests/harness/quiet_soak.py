"""A quiet hour: two idle workers and a busy one on a healthy broker, settings as they come, and
nothing may be logged at WARNING.

    python -m tests.harness.quiet_soak --minutes 60 [--rate 50] [--out FILE]

The busy worker gets reviews, edits, deletions, duplicates and late versions with their embeddings,
at a steady rate. At the end every change must have been published once (the verifier), and
`coversumm-worker verify` must agree. The result goes to `tests/bench/results/quiet_soak.json`; the
exit code is 1 when a line was loud or an invariant does not hold.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.bench.machine import began, command_line
from tests.harness.broker import KafkaBroker
from tests.harness.load import HashedVectors, Mix, Sent, read_reviews, rounds, send
from tests.harness.log_lines import by_level, loud, parse
from tests.harness.record import Row, finish
from tests.harness.scenario import judge
from tests.harness.workers import WorkerProcess, pipeline

RESULTS = Path(__file__).parents[1] / "bench" / "results" / "quiet_soak.json"
PARTITIONS = 4
QUIET = Mix(poison=0.0)
"""Dead letters are news, and would be told: there are none here."""


def soak(broker: KafkaBroker, folder: Path, minutes: float, rate: float) -> dict[str, Any]:
    """Run the workers for so long; what was found."""
    with ExitStack() as stack:
        vectors = HashedVectors()
        idle, busy = (
            stack.enter_context(
                pipeline(
                    broker,
                    name,
                    folder / name,
                    partitions=PARTITIONS,
                    settings={"COVERSUMM_DIMENSION": str(vectors.dimension)},
                )
            )
            for name in ("quiet-idle", "quiet-busy")
        )
        workers = {"idle 1": idle.start()[0], "idle 2": idle.start()[0], "busy": busy.start()[0]}
        started = {name: len(parse(worker.log_text())) for name, worker in workers.items()}
        began_s = time.monotonic()
        stream = rounds(read_reviews(), vectors, mix=QUIET)
        sent = send(
            broker.bootstrap_servers,
            busy.input_topic,
            until(stream, began_s + 60 * minutes),
            chunk=max(1, round(rate / 2)),
            events_per_s=rate,
        )
        busy.wait_caught_up()
        ran_s = time.monotonic() - began_s
        counted = {name: counts(worker) for name, worker in workers.items()}
        ended = {name: len(parse(worker.log_text())) for name, worker in workers.items()}
        for site in (idle, busy):
            site.stop()
        row = Row("quiet soak")
        judge(busy, row)
        return {
            "minutes": round(ran_s / 60, 1),
            "events_sent": sent,
            "events_per_s": round(sent / ran_s, 1),
            "workers": {
                name: spoken(worker, started[name], ended[name], ran_s) | counted[name]
                for name, worker in workers.items()
            },
            "lost": row.lost,
            "repeated": row.repeated,
            "wrong": row.wrong,
            "broken": row.broken,
        }


def until(events: Iterable[Sent], deadline_s: float) -> Iterator[Sent]:
    """The events that come before the moment."""
    for event in events:
        if time.monotonic() >= deadline_s:
            return
        yield event


def counts(worker: WorkerProcess) -> dict[str, Any]:
    """What a running worker did, by its metrics."""
    found = worker.metrics()
    return {
        "ready": worker.ready(),
        "events": round(
            sum(n for name, n in found.items() if name.startswith("coversumm_events_total"))
        ),
        "commits": round(found["coversumm_commit_seconds_count"]),
        "changes": round(found["coversumm_summary_changes_total"]),
    }


def spoken(worker: WorkerProcess, started: int, ended: int, ran_s: float) -> dict[str, Any]:
    """What it logged: all of it by level, how much of that while it just ran, and whatever was
    loud.
    """
    lines = parse(worker.log_text())
    running = by_level(lines[started:ended])
    return {
        "lines": by_level(lines),
        "lines_while_running": running,
        "info_lines_per_hour": round(running.get("INFO", 0) * 3600 / ran_s, 1),
        "loud": loud(lines),
    }


def faults_of(found: dict[str, Any]) -> list[str]:
    """What must not be."""
    said = [
        f"{name}: {line}" for name, worker in found["workers"].items() for line in worker["loud"]
    ]
    wrong = [f"{what}: {found[what]}" for what in ("lost", "repeated", "wrong") if found[what]]
    return [*said, *wrong, *(["no event was sent"] if not found["events_sent"] else [])]


def main() -> int:
    """Run, print, write."""
    parser = command_line(__doc__, RESULTS)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--rate", type=float, default=50.0, help="events a second")
    given = parser.parse_args()
    record = began("tests.harness.quiet_soak")
    with tempfile.TemporaryDirectory() as scratch, KafkaBroker(Path(scratch) / "broker") as broker:
        found = soak(broker, Path(scratch), given.minutes, given.rate)
    return finish(given.out, record | found, faults_of(found))


if __name__ == "__main__":
    sys.exit(main())
