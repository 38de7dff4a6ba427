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
import time
from argparse import ArgumentParser, Namespace
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.harness.broker import KafkaBroker
from tests.harness.load import HashedVectors, SteadyLoad, read_reviews, rounds, send
from tests.harness.log_lines import by_level, loud, parse
from tests.harness.record import Row
from tests.harness.scenario import QUIET, differences, idle_and_busy, judge, prove, verdict
from tests.harness.site import Site
from tests.harness.workers import WorkerProcess


def soak(broker: KafkaBroker, folder: Path, given: Namespace) -> dict[str, Any]:
    """Run the workers for so long; what was found."""
    with ExitStack() as stack:
        idle, busy = idle_and_busy(stack, broker, folder, "quiet")
        site = stack.enter_context(Site([idle, busy]))
        started = {worker: len(parse(worker.log_text())) for worker in site.workers}
        began_s = time.monotonic()
        load = SteadyLoad(
            broker.bootstrap_servers,
            busy.input_topic,
            rounds(read_reviews(), HashedVectors(), mix=QUIET),
            given.rate,
            send,
            chunk=max(1, round(given.rate / 2)),
        )
        site.watch(60 * given.minutes)
        load.end()
        busy.wait_caught_up()
        ran_s = time.monotonic() - began_s
        did = {worker.name: counts(worker) for worker in site.workers}
        ended = {worker: len(parse(worker.log_text())) for worker in site.workers}
        for group in (idle, busy):
            group.stop()
        row = Row("quiet soak")
        judge(busy, row)
        return {
            "minutes": round(ran_s / 60, 1),
            "events_sent": load.sent,
            "events_per_s": round(load.sent / ran_s, 1),
            "workers": {
                one.name: spoken(one, started[one], ended[one], ran_s) | did[one.name]
                for one in site.workers
            },
            **verdict(row),
        }


def counts(worker: WorkerProcess) -> dict[str, Any]:
    """What a running worker did, by its metrics."""
    found = worker.telemetry.metrics()
    events = (n for name, n in found.items() if name.startswith("coversumm_events_total"))
    return {
        "ready": worker.ready(),
        "events": round(sum(events)),
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
    workers = found["workers"].items()
    said = [f"{name}: {line}" for name, worker in workers for line in worker["loud"]]
    none_sent = ["no event was sent"] if not found["events_sent"] else []
    return [*said, *differences(found), *none_sent]


def arguments(parser: ArgumentParser) -> None:
    """Its options."""
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--rate", type=float, default=50.0, help="events a second")


if __name__ == "__main__":
    sys.exit(prove(__doc__, "quiet_soak", arguments, soak, faults_of))
