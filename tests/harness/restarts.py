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
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from tests.bench.machine import began, command_line
from tests.harness import dynamic
from tests.harness.broker import KafkaBroker
from tests.harness.eventually import eventually
from tests.harness.load import HashedVectors, SteadyLoad, read_reviews, rounds
from tests.harness.pauses import APPENDED, Pause, longest, read_pauses
from tests.harness.record import Row, finish
from tests.harness.scenario import judge
from tests.harness.workers import Pipeline, WorkerProcess, pipeline

RESULTS = Path(__file__).parents[1] / "bench" / "results" / "restarts.json"
WORKERS, PARTITIONS, DIMENSION = 3, 6, 32
MEMBERS = {"dynamic": dynamic.__name__, "static": None}
"""By kind of members what starts them, None: the command itself."""
CALM_SECONDS = 12.0
"""Between two events, longer than a session: what one of them does is over before the next."""


class Event(NamedTuple):
    """Something that was done, from its beginning until all was calm again (milliseconds since
    1970), and to whose partitions.
    """

    name: str
    since_ms: int
    until_ms: int
    ended: frozenset[int]


def restart(worker: WorkerProcess, end: Callable[[WorkerProcess], object]) -> None:
    """End it, start it at once, and wait until it is ready."""
    end(worker)
    worker.start().wait_ready()


def roll(site: Pipeline) -> None:
    """A rolling update of all workers."""
    for worker in site.workers:
        restart(worker, WorkerProcess.terminate)


def partitions_of(workers: Iterable[WorkerProcess]) -> frozenset[int]:
    """What they process at the moment."""
    held: set[int] = set()
    for worker in workers:
        with worker.get("/status") as answer:
            held |= {int(partition) for partition in json.load(answer)["lag"]}
    return frozenset(held)


def happen(
    site: Pipeline, name: str, ended: Sequence[WorkerProcess], do: Callable[[], None]
) -> Event:
    """Do it, and wait until all is calm."""
    held = partitions_of(ended)
    since_s = time.time()
    do()
    until_s = time.time() + 1.0  # the commit that ends the last pause
    eventually(lambda: all(worker.ready() for worker in site.workers), site.logs)
    time.sleep(CALM_SECONDS)
    return Event(name, int(since_s * 1000), int(until_s * 1000), held)


def events_of(site: Pipeline) -> list[Event]:
    """Everything that is measured, done to a running group."""
    first, second, _ = site.workers
    return [
        happen(site, "SIGTERM and start", [first], lambda: restart(first, WorkerProcess.terminate)),
        happen(site, "kill -9 and start", [second], lambda: restart(second, WorkerProcess.kill)),
        happen(site, "rolling update", site.workers, lambda: roll(site)),
    ]


def measured(event: Event, found: Sequence[Pause]) -> dict[str, Any]:
    """The longest pauses that an event made, of any partition and of the others'."""
    seconds = longest(found, event.since_ms, event.until_ms)
    others = [seconds[partition] for partition in seconds.keys() - event.ended]
    return {"event": event.name, "any": max(seconds.values()), "others": max(others, default=None)}


def round_of(
    broker: KafkaBroker, folder: Path, name: str, members: str, standbys: int, rate: float, row: Row
) -> list[dict[str, Any]]:
    """One group from its start to its end; what was measured of each event."""
    settings = {"COVERSUMM_DIMENSION": str(DIMENSION), "COVERSUMM_STANDBY_REPLICAS": str(standbys)}
    with pipeline(
        broker,
        name,
        folder / name,
        partitions=PARTITIONS,
        settings=settings,
        input_config=APPENDED,
        launcher=MEMBERS[members],
    ) as site:
        site.start(WORKERS)
        load = SteadyLoad(
            broker.bootstrap_servers,
            site.input_topic,
            rounds(read_reviews(), HashedVectors(DIMENSION)),
            rate,
        )
        time.sleep(CALM_SECONDS)
        done = events_of(site)
        load.end()
        site.wait_caught_up()
        site.stop()
        judge(site, row)
        found = read_pauses(broker.bootstrap_servers, name, site.input_topic)
        return [
            {"members": members, "standbys": standbys, **measured(event, found)} for event in done
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
        same = [
            run
            for run in runs
            if (run["event"], run["standbys"], run["members"]) == (event, standbys, members)
        ]
        others = [run["others"] for run in same if run["others"] is not None]
        rows.append(
            {
                "event": event,
                "standbys": standbys,
                "members": members,
                "rounds": len(same),
                "any": round(statistics.median(run["any"] for run in same), 1),
                "others": round(statistics.median(others), 1) if others else None,
            }
        )
    return rows


def main() -> int:
    """Run, print, write."""
    parser = command_line(__doc__, RESULTS)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rate", type=float, default=60.0, help="events a second")
    given = parser.parse_args()
    record, runs, row = began("tests.harness.restarts"), [], Row("restarts")
    with tempfile.TemporaryDirectory() as scratch, KafkaBroker(Path(scratch) / "broker") as broker:
        for number, standbys, members in product(range(given.rounds), (0, 1), MEMBERS):
            name = f"{members}-{standbys}-{number}"
            for run in round_of(broker, Path(scratch), name, members, standbys, given.rate, row):
                print(json.dumps(run), file=sys.stderr, flush=True)
                runs.append(run)
    counted = {name: getattr(row, name) for name in ("events", "lost", "repeated", "wrong")}
    faults = [f"{name}: {counted[name]}" for name in ("lost", "repeated", "wrong") if counted[name]]
    return finish(given.out, record | counted | {"rows": medians(runs), "runs": runs}, faults)


if __name__ == "__main__":
    sys.exit(main())
