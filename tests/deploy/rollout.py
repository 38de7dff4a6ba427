"""A rolling update of a release: real workers on a real Kafka under load, by the probes and the
grace period of the chart.

    python -m tests.deploy.rollout [--rounds 3] [--rate 40] [--away 0 3] [--out FILE]

What runs is the StatefulSet as helm renders it: its environment, command, probes and grace period.
The cluster is played: one pod after the other, the last one first, gets SIGTERM and its grace
period; its successor has the same name and volume, and the next pod's turn comes when it is ready
by the probes. Between the end of a process and the start of its successor a cluster deletes and
creates the pod, schedules it, mounts the volume and makes the container: `away` is that time. Each
round does it to members as they are, static, and as dynamic ones, which leave the group when they
end; with and without standbys. Pauses are what `tests.harness.pauses` says. The result goes to
`tests/bench/results/rollout.json`; the exit code is 1 when something was lost, repeated or wrong,
or a probe failed that may not.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from tests.bench.machine import began, command_line
from tests.deploy.chart import Object, environment, facts_of, only, render, worker
from tests.deploy.kubelet import Kubelet, Replaced
from tests.harness import dynamic
from tests.harness.broker import KafkaBroker
from tests.harness.load import HashedVectors, SteadyLoad, read_reviews, rounds
from tests.harness.pauses import APPENDED, longest, read_pauses
from tests.harness.record import Row, finish
from tests.harness.scenario import judge
from tests.harness.workers import Pipeline, WorkerProcess, pipeline

RESULTS = Path(__file__).parents[1] / "bench" / "results" / "rollout.json"
WORKERS, PARTITIONS, DIMENSION = 3, 6, 32
MEMBERS = {"static": None, "dynamic": dynamic.__name__}
"""By kind of members what starts them, None: the command itself."""
CALM_SECONDS = 5.0
"""Before the update, and after it."""


class Case(NamedTuple):
    """What an update is made of."""

    members: str
    standbys: int
    away_s: float


def release(site: Pipeline, standbys: int, workers: int) -> list[Object]:
    """The objects of a release on a pipeline's topics, whose events bring their vectors."""
    return render(
        {
            "replicaCount": workers,
            "kafka": {
                "bootstrapServers": site.broker.bootstrap_servers,
                "inputTopics": [site.input_topic],
                "outputTopic": site.output_topic,
                "errorTopic": site.dlq_topic,
                "applicationId": site.name,
            },
            "commandLine": {
                "EMBEDDER": "none",
                "DIMENSION": DIMENSION,
                "STANDBY_REPLICAS": standbys,
            },
        }
    )


def pods(site: Pipeline, objects: Sequence[Object], launcher: str | None = None) -> list[Kubelet]:
    """The pods of a release, not started: with the environment of the chart, but that all are on
    one machine.
    """
    stateful_set, container = only(objects, "StatefulSet")["spec"], worker(objects)
    assert container["args"] == ["run"]
    made = []
    for ordinal in range(stateful_set["replicas"]):
        facts = facts_of(ordinal)
        directory = site.directory / facts["metadata.name"]
        variables = environment(container, facts) | {
            "COVERSUMM_DATA_DIR": str(directory / "data"),
            "COVERSUMM_MODEL_CACHE_DIR": str(directory / "models"),
            "COVERSUMM_WEB_BIND": "127.0.0.1",
        }
        site.workers.append(WorkerProcess(directory, variables, launcher=launcher))
        grace_s = stateful_set["template"]["spec"]["terminationGracePeriodSeconds"]
        made.append(Kubelet(facts["metadata.name"], site.workers[-1], container, grace_s))
    return made


def update(running: Sequence[Kubelet], away_s: float) -> list[Replaced]:
    """One pod after the other, the last one first, as the controller of a StatefulSet has it."""
    done = [pod.replace(away_s) for pod in reversed(running)]
    assert all(pod.healthy() and pod.ready for pod in running)
    return done


def updated(
    broker: KafkaBroker, folder: Path, name: str, case: Case, rate: float, row: Row
) -> dict[str, Any]:
    """One release from its start to its end, updated in between; what was measured of it."""
    settings = {"COVERSUMM_DIMENSION": str(DIMENSION)}
    with pipeline(
        broker, name, folder / name, partitions=PARTITIONS, settings=settings, input_config=APPENDED
    ) as site:
        running = pods(site, release(site, case.standbys, WORKERS), MEMBERS[case.members])
        for pod in running:
            pod.start()
        for pod in running:
            pod.wait_ready()
        events = rounds(read_reviews(), HashedVectors(DIMENSION))
        load = SteadyLoad(broker.bootstrap_servers, site.input_topic, events, rate)
        time.sleep(CALM_SECONDS)
        since_s = time.time()
        replaced = update(running, case.away_s)
        until_s = time.time()
        time.sleep(CALM_SECONDS)
        load.end()
        site.wait_caught_up()
        for pod in running:
            assert pod.stop()[0] == 0
        judge(site, row)
        found = read_pauses(broker.bootstrap_servers, name, site.input_topic)
    return measured(
        case, replaced, until_s - since_s, longest(found, int(since_s * 1000), int(until_s * 1000))
    )


def measured(
    case: Case, replaced: Sequence[Replaced], seconds: float, pauses: dict[int, float]
) -> dict[str, Any]:
    """What is recorded of an update: its pauses, and how long pods took at most."""
    assert all(one.exit_code == 0 for one in replaced), replaced
    return {
        **case._asdict(),
        "longest_pause_s": max(pauses.values()),
        "pauses_s": list(pauses.values()),
        "stop_s": round(max(one.stop_s for one in replaced), 1),
        "startup_s": round(max(one.startup_s for one in replaced), 1),
        "ready_s": round(max(one.ready_s for one in replaced), 1),
        "update_s": round(seconds, 1),
    }


def summarized(runs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row a case: the median and the longest of the longest pauses of its rounds, the medians
    of the rest; seconds.
    """
    rows = []
    for case in dict.fromkeys(Case(run["members"], run["standbys"], run["away_s"]) for run in runs):
        same = [run for run in runs if (run["members"], run["standbys"], run["away_s"]) == case]
        medians = {
            name: round(statistics.median(run[name] for run in same), 1)
            for name in ("stop_s", "startup_s", "ready_s", "update_s")
        }
        pauses = [run["longest_pause_s"] for run in same]
        rows.append(
            {
                **case._asdict(),
                "rounds": len(same),
                "pause_s": round(statistics.median(pauses), 1),
                "longest_pause_s": round(max(pauses), 1),
                **medians,
            }
        )
    return rows


def main() -> int:
    """Run, print, write."""
    parser = command_line(__doc__, RESULTS)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rate", type=float, default=40.0, help="events a second")
    parser.add_argument("--away", type=float, nargs="+", default=[0.0, 3.0], help="seconds")
    given = parser.parse_args()
    record, runs, row = began("tests.deploy.rollout"), [], Row("rollout")
    cases = [Case(*case) for case in product(MEMBERS, (0, 1), given.away)]
    with tempfile.TemporaryDirectory() as scratch, KafkaBroker(Path(scratch) / "broker") as broker:
        for number, case in product(range(given.rounds), cases):
            name = f"{case.members}-{case.standbys}-{case.away_s:g}-{number}"
            run = updated(broker, Path(scratch), name, case, given.rate, row)
            print(json.dumps(run), file=sys.stderr, flush=True)
            runs.append(run)
    counted = {name: getattr(row, name) for name in ("events", "lost", "repeated", "wrong")}
    faults = [f"{name}: {counted[name]}" for name in ("lost", "repeated", "wrong") if counted[name]]
    return finish(given.out, record | counted | {"rows": summarized(runs), "runs": runs}, faults)


if __name__ == "__main__":
    sys.exit(main())
