"""How long partitions stop when workers are started again: with static and with dynamic members,
with and without standbys.

    python -m tests.harness.restarts [--rounds 3] [--rate 60] [--out FILE]

Three workers under a steady load on one broker, settings as they come: one is ended by SIGTERM and
started again at once; one by `kill -9`; then all are updated, one after the other, as a platform
does it: SIGTERM, start, wait until it is ready. Each round does so to each kind of members in turn,
for machines have good and bad minutes. A pause is what `tests.harness.pauses` says; `others` are
the partitions of the workers that were not ended. The result goes to
`tests/bench/results/restarts.json`; the exit code is 1 when something was lost, repeated or wrong.
"""

from __future__ import annotations

import json
import statistics
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from tests.harness import dynamic
from tests.harness.broker import KafkaBroker
from tests.harness.faults import Fault
from tests.harness.load import HashedVectors, SteadyLoad, read_reviews, rounds
from tests.harness.pauses import APPENDED, Pause, longest, read_pauses
from tests.harness.record import Row
from tests.harness.run import Run, Strike
from tests.harness.scenario import differences, judge, of_hashed, prove, verdict
from tests.harness.site import Site
from tests.harness.workers import WorkerProcess, pipeline

PARTITIONS, DIMENSION = 6, 32
WORKERS = ("worker-0", "worker-1", "worker-2")
MEMBERS = {"dynamic": dynamic.__name__, "static": None}
"""By kind of members what starts them, None: the command itself."""
CALM_SECONDS = 12.0
"""Between two events, longer than a session: what one of them does is over before the next."""
PLAN = {
    "SIGTERM and start": (Fault("worker restarted", worker=WORKERS[0]), WORKERS[:1]),
    "kill -9 and start": (Fault("worker killed", worker=WORKERS[1]), WORKERS[1:2]),
    "rolling update": (Fault("workers rolled"), WORKERS),
}
"""Everything that is measured, and the workers that it ends."""


def partitions_of(workers: Iterable[WorkerProcess]) -> frozenset[int]:
    """What they process at the moment."""
    held: set[int] = set()
    for worker in workers:
        with worker.get("/status") as answer:
            held |= {int(partition) for partition in json.load(answer)["lag"]}
    return frozenset(held)


def measured(
    event: str, strike: Strike, ended: frozenset[int], found: Sequence[Pause]
) -> dict[str, Any]:
    """The longest pauses that an event made, of any partition and of those of the workers that were
    not ended.
    """
    seconds = longest(found, strike.since_ms, strike.until_ms)
    others = [seconds[partition] for partition in seconds.keys() - ended]
    return {"event": event, "any": max(seconds.values()), "others": max(others, default=None)}


def round_of(
    broker: KafkaBroker, folder: Path, name: str, members: str, standbys: int, rate: float, row: Row
) -> list[dict[str, Any]]:
    """One group from its start to its end; what was measured of each event."""
    vectors = HashedVectors(DIMENSION)
    with (
        pipeline(
            broker,
            name,
            folder / name,
            partitions=PARTITIONS,
            settings=of_hashed(vectors, standby_replicas=str(standbys)),
            input_config=APPENDED,
            launcher=MEMBERS[members],
        ) as live,
        Site([live]) as site,
    ):
        live.start(len(WORKERS))
        events = rounds(read_reviews(), vectors)
        load = SteadyLoad(broker.bootstrap_servers, live.input_topic, events, rate)
        run, ended = Run(site), []
        for fault, workers in PLAN.values():
            site.watch(CALM_SECONDS)
            ended.append(partitions_of(map(site.worker, workers)))
            run.through([fault], calm_s=0)
        site.watch(CALM_SECONDS)
        load.end()
        live.wait_caught_up()
        live.stop()
        judge(live, row)
        found = read_pauses(broker.bootstrap_servers, name, live.input_topic)
        return [
            {"members": members, "standbys": standbys, **measured(event, strike, gone, found)}
            for event, strike, gone in zip(PLAN, run.strikes, ended, strict=True)
        ]


def medians(runs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row for each event, kind of members and number of standbys: the medians of its rounds, in
    seconds.
    """
    rows = []
    for event, standbys, members in product(
        dict.fromkeys(run["event"] for run in runs),
        sorted({run["standbys"] for run in runs}),
        MEMBERS,
    ):
        key = {"event": event, "standbys": standbys, "members": members}
        same = [run for run in runs if key.items() <= run.items()]
        others = [run["others"] for run in same if run["others"] is not None]
        rows.append(
            {
                **key,
                "rounds": len(same),
                "any": round(statistics.median(run["any"] for run in same), 1),
                "others": round(statistics.median(others), 1) if others else None,
            }
        )
    return rows


def restarts(broker: KafkaBroker, folder: Path, given: Namespace) -> dict[str, Any]:
    """All rounds; what was found."""
    runs, row = [], Row("restarts")
    for number, standbys, members in product(range(given.rounds), (0, 1), MEMBERS):
        name = f"{members}-{standbys}-{number}"
        for run in round_of(broker, folder, name, members, standbys, given.rate, row):
            print(json.dumps(run), file=sys.stderr, flush=True)
            runs.append(run)
    return {"events": row.events, **verdict(row), "rows": medians(runs), "runs": runs}


def arguments(parser: ArgumentParser) -> None:
    """Its options."""
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rate", type=float, default=60.0, help="events a second")


if __name__ == "__main__":
    sys.exit(prove(__doc__, "restarts", arguments, restarts, differences))
