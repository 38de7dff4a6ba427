"""A storm: workers and a replay on three brokers behind proxies, under a load, and faults of all
kinds drawn from a seed.

    python -m tests.harness.storm --seed 1 --faults 300 [--only WORDS] [--show]

One seed is one load and one list of faults; the moments differ with the machine. Afterwards
everything must be ready within a minute, the replay must be fit to be promoted, and the verifier
counts every message of both builds. No worker may have ended but by a fault that ends it. The
result goes to `tests/bench/results/storm.json`; the exit code is 1 when something does not hold,
and the logs are kept in `.cache/storm` then. It needs root, for disks that are full, and
`faketime`. A storm of fewer faults than 300, or of some kinds only, is recorded in `.cache/storm`.
"""

from __future__ import annotations

import argparse
import contextlib
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException

from tests.bench.machine import began, command_line
from tests.harness import clock, stepped
from tests.harness.acts import foreign_producer
from tests.harness.cluster import KafkaCluster
from tests.harness.damage import Disk, may_mount
from tests.harness.faults import Fault
from tests.harness.load import HashedVectors, Sent, SteadyLoad, read_reviews, rounds
from tests.harness.patience import PATIENCE_SECONDS
from tests.harness.record import READY_SECONDS, RECORDS, Row, finish
from tests.harness.replays import ReplayProcess, promote
from tests.harness.run import Run
from tests.harness.scenario import ROUND, differences, judge, of_hashed
from tests.harness.site import ANY_CODE, DOCUMENTED_ENDS, Site
from tests.harness.storm_schedule import (
    ADDED,
    AT_ONCE,
    CLIENTS,
    KINDS,
    REPLAY,
    STEADY,
    schedule,
    shown,
    with_replay,
)
from tests.harness.workers import ROOT, Pipeline, WorkerError, pipeline

RESULTS = RECORDS / "storm.json"
KEPT = ROOT / ".cache" / "storm"
EVENTS_PER_S = 30.0
"""Of the load: two cores have time for it beside three brokers, three workers and a replay."""
ENOUGH = 300
"""Faults that a storm must have to be recorded among the results."""
CALM_SECONDS = 20.0
"""Before the first fault."""
DISK_MEBIBYTES = 512
NAME, EPOCH = "storm", "2"


class StormSite(Site):
    """Two workers, one more that comes and goes, and a replay, in whose place a worker comes.

    Until then the replay is looked after like a worker.
    """

    live: Pipeline
    resumed: Pipeline
    foreign_events: Iterator[Sent]
    rate: float
    replay: ReplayProcess | None = None

    @property
    def workers(self) -> list[Any]:
        """Those of all pipelines, and the replay while it is not over."""
        is_replaying = self.replay is not None and not self.resumed.workers
        return [*super().workers, *([self.replay] if is_replaying else [])]

    def begin_replay(self) -> None:
        """Start the replay of what is in the input now, about as fast as the input grows."""
        proxied = {**self.live.settings, "KAFKA_BOOTSTRAP_SERVERS": self.kafka.servers_of(REPLAY)}
        live = replace(self.live, settings=proxied)
        rate = ("--max-events-per-s", f"{self.rate:g}")
        self.replay = ReplayProcess(live, *rate, label=REPLAY, epoch=EPOCH).start()

    def look(self) -> None:
        """When the replay is over, start a worker in its place."""
        with self._lock:
            replay = self.replay
            if replay in self.workers and replay.exit_code == 0 and replay not in self._held:
                self.note(f"the replay is over: {replay.report()}")
                data_dir = str(self.live.directory / REPLAY / f"replay-epoch-{EPOCH}")
                self.start(self.resumed.worker(REPLAY, data_dir=data_dir))
        super().look()

    def has_ended(self, worker: Any) -> bool:
        """A replay may end, when it is over."""
        return super().has_ended(worker) and (worker is not self.replay or worker.exit_code != 0)

    def restart(self, worker: Any) -> None:
        """A replay has no pipeline of its own."""
        worker.start() if isinstance(worker, ReplayProcess) else super().restart(worker)

    def wait_for_replay(self) -> None:
        """Return when a worker has resumed from it."""
        self.wait_for(
            lambda: self.resumed.workers,
            "the replay does not end",
            timeout_s=4 * PATIENCE_SECONDS,
            supervised=True,
        )

    def end_foreign(self) -> None:
        """Abort what a foreign transaction left open."""

        def aborted() -> bool:
            with contextlib.suppress(KafkaException):
                foreign_producer(self).init_transactions(10)
                return True
            return False

        self.wait_for(aborted, "a foreign transaction stays open")


@contextmanager
def storm_site(folder: Path, seed: int, rate: float) -> Iterator[StormSite]:
    """Everything that the storm comes over, running and ready."""
    with ExitStack() as stack:
        cluster = KafkaCluster(folder / "cluster", clients=CLIENTS)
        clocks = {
            f"node {n.number}": clock.Clock(folder / f"clock-{n.number}") for n in cluster.nodes
        }
        for node in cluster.nodes:
            node.environment = clocks[f"node {node.number}"].environment
        stack.callback(clock.clean_up)
        stack.enter_context(cluster)
        servers = [cluster.servers_of(client) for client in CLIENTS]
        shared: dict[str, Any] = {"restarted_codes": ANY_CODE}  # judged in the end
        live = stack.enter_context(
            pipeline(
                cluster,
                NAME,
                folder / "live",
                settings=of_hashed(),
                servers=servers,
                launcher=stepped.__name__,
                **shared,
            )
        )
        name = f"{NAME}-replay-epoch-{EPOCH}"
        resumed = Pipeline(
            cluster,
            name,
            folder / "resumed",
            settings=of_hashed(epoch=EPOCH),
            servers=servers[-1:],
            topics={
                "input": live.input_topic,
                "output": f"{live.output_topic}.epoch-{EPOCH}",
                "dlq": f"{name}-dlq",
            },
            **shared,
        )
        stack.callback(resumed.discard)
        site = stack.enter_context(StormSite([live, resumed], clocks=clocks))
        site.live, site.resumed, site.rate = live, resumed, rate
        site.foreign_events = rounds(read_reviews()[:ROUND], HashedVectors(), seed=seed + 1)
        for client in (*STEADY, ADDED):
            disk = site.disks[client] = Disk(folder / f"disk-{client}", DISK_MEBIBYTES)
            stack.callback(disk.unmount)
            worker = live.worker(client, instance_id=client, data_dir=str(disk.path / "data"))
            clocks[client] = clock.Clock(folder / f"clock-{client}")
            worker.environment |= clocks[client].environment
        for client in STEADY:
            site.start(site.worker(client))
        for client in STEADY:
            site.worker(client).wait_ready()
        yield site


def storm(site: StormSite, given: argparse.Namespace, faults: Sequence[Fault]) -> dict[str, Any]:
    """Let it blow, and judge; what was found."""
    events = rounds(read_reviews()[:ROUND], HashedVectors(), seed=given.seed)
    load = SteadyLoad(site.kafka.bootstrap_servers, site.live.input_topic, events, given.rate)
    run, began_s = Run(site), time.monotonic()
    try:
        site.watch(given.calm)
        calm_s = time.monotonic()
        run.along(with_replay(faults), lambda: time.monotonic() - calm_s, AT_ONCE)
        site.end_foreign()
        site.note("the storm is over")
        ready_s = site.settle(run.over_s)
        site.note(f"ready after {ready_s:.1f} s")
        site.wait_for_replay()
        while load.sent < given.events:
            load.check()
            site.watch(0.5)
    finally:
        load.end()
    site.wait_until_whole()
    site.settle()
    promoted = promote(
        site.live, site.resumed.name, site.resumed.output_topic, "--max-changed", "0"
    )
    site.note(f"promote says {promoted}")
    for worker in site.workers:
        if worker.alive:
            site.stop(worker)
    rows, complaints = judged(site)
    documented = Counter(end.documented for end in site.ends if end.documented)
    return {
        "seconds": round(time.monotonic() - began_s),
        "events": rows[0].events,
        "faults_struck": sum(run.struck[kind] for kind in KINDS),
        "kinds": {kind: run.struck[kind] for kind in KINDS},
        "ends_in_order": {why: documented[why] for why in DOCUMENTED_ENDS if documented[why]},
        "unordered_ends": [str(end) for end in site.ends if not end.documented],
        "seconds_to_ready": round(ready_s, 1),
        "promoted": promoted[-1]["ok"],
        **{what: sum(getattr(row, what) for row in rows) for what in ("lost", "repeated", "wrong")},
        "complaints": complaints,
        "schedule": [shown(fault).strip() for fault in faults],
    }


def judged(site: StormSite) -> tuple[list[Row], list[str]]:
    """The verdict on both builds, and what is wrong with them, in words."""
    complaints = []
    rows = [Row("live"), Row("promoted")]
    # One that was never started has no state to verify.
    site.live.workers = [worker for worker in site.live.workers if worker.data_dir.exists()]
    for build, row in zip((site.live, site.resumed), rows, strict=True):
        try:
            # Offsets of a replay have its account as their note, and are no plain commits.
            judge(build, row, committed=build is site.live)
        except WorkerError as fault:
            site.note(str(fault))
            complaints.append(f"{row.fault}: {str(fault)[:2000]}")
    return rows, complaints


def faults_of(found: dict[str, Any]) -> list[str]:
    """What must not be."""
    said = differences(found)
    said += [f"{what}: {found[what]}" for what in ("unordered_ends", "complaints") if found[what]]
    if found["seconds_to_ready"] >= READY_SECONDS:
        said.append(f"ready only after {found['seconds_to_ready']} s")
    return [*said, *([] if found["promoted"] else ["the replay is not fit to be promoted"])]


def missing() -> list[str]:
    """What this machine lacks for a storm, in words."""
    found = [] if clock.library() else [f"libfaketime ({clock.INSTALL})"]
    return [*found, *([] if may_mount() else ["root, to mount disks that can be full"])]


def main() -> int:
    """Run, print, write."""
    parser = command_line(__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--faults", type=int, default=300)
    parser.add_argument(
        "--events", type=int, default=40_000, help="at least so many, the load goes on for them"
    )
    parser.add_argument("--rate", type=float, default=EVENTS_PER_S, help="events a second")
    parser.add_argument(
        "--only", default="", help="kinds that have one of these words, with commas between"
    )
    parser.add_argument("--calm", type=float, default=CALM_SECONDS, help=argparse.SUPPRESS)
    parser.add_argument("--show", action="store_true", help="print the schedule and do nothing")
    parser.add_argument(
        "--out", type=Path, help=f"where the record goes; that of a whole storm to {RESULTS.name}"
    )
    given = parser.parse_args()
    words = [word for word in given.only.split(",") if word]
    kinds = [kind for kind in KINDS if not words or any(word in kind for word in words)]
    faults = schedule(given.faults, given.seed, kinds)
    print("\n".join(map(shown, faults)), flush=True)
    if given.show:
        return 0
    if lacks := missing():
        print(f"a storm needs {' and '.join(lacks)}", file=sys.stderr)
        return 2
    # whatever ends it, its disks are unmounted
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    record = {**began("tests.harness.storm"), "seed": given.seed}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        try:
            with storm_site(folder, given.seed, given.rate) as site:
                found = storm(site, given, faults)
        except BaseException:
            _keep_logs(folder, given.seed)
            raise
        wrong = faults_of(found)
        if wrong:
            _keep_logs(folder, given.seed)
    whole = given.faults >= ENOUGH and not words
    return finish(given.out or (RESULTS if whole else KEPT / "last.json"), record | found, wrong)


def _keep_logs(folder: Path, seed: int) -> None:
    kept = KEPT / str(seed)
    shutil.rmtree(kept, ignore_errors=True)
    for log in folder.rglob("*.log"):
        if "data" not in log.parts:
            target = kept / log.relative_to(folder)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(log, target)
    print(f"logs: {kept}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
