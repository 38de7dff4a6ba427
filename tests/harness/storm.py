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
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from tests.bench.machine import began, command_line
from tests.harness import clock, stepped
from tests.harness.cluster import KafkaCluster
from tests.harness.damage import may_mount
from tests.harness.load import HashedVectors, SteadyLoad, read_reviews, rounds
from tests.harness.record import READY_SECONDS, Row, finish
from tests.harness.scenario import judge
from tests.harness.storm_acts import ACTS, wait_in_sync
from tests.harness.storm_schedule import AT_ONCE, CLIENTS, KINDS, REPLAY_FROM, Fault, schedule
from tests.harness.storm_site import EPOCH, NAME, Resumed, StormSite
from tests.harness.workers import ROOT, WorkerError, pipeline

RESULTS = Path(__file__).parents[1] / "bench" / "results" / "storm.json"
KEPT = ROOT / ".cache" / "storm"
EVENTS_PER_S = 30.0
"""Of the load: two cores have time for it beside three brokers, three workers and a replay."""
ROUND = 800
"""Reviews of a round of the load."""
ENOUGH = 300
"""Faults that a storm must have to be recorded among the results."""
CALM_SECONDS = 20.0
"""Before the first fault."""


class Storm:
    """The faults of a schedule, executed: each when its time has come and what it needs is free."""

    def __init__(self, site: StormSite, faults: Sequence[Fault]) -> None:
        self._site = site
        self._pending = list(faults)
        self._replay_at = len(faults) * (1 - REPLAY_FROM)
        self._running: dict[Future[None], Fault] = {}
        self.struck: Counter[str] = Counter()
        self.over_s = 0.0
        """When the last fault was over."""

    def blow(self, pool: ThreadPoolExecutor) -> None:
        """Return when all faults are over. Whatever fails in an act ends it."""
        began_s, replaying = time.monotonic(), False
        while self._pending or self._running:
            self._site.look()
            for done in [one for one in self._running if one.done()]:
                del self._running[done]
                done.result()
            if not replaying and len(self._pending) <= self._replay_at:
                self._site.begin_replay()
                replaying = True
            if (fault := self._next(time.monotonic() - began_s)) is not None:
                self._pending.remove(fault)
                self._running[pool.submit(self._strike, fault)] = fault
            time.sleep(0.1)

    def _next(self, now_s: float) -> Fault | None:
        """The first fault that is due and may strike now."""
        taken = frozenset().union(*(fault.needs for fault in self._running.values()))
        if len(self._running) >= AT_ONCE:
            return None
        due = (fault for fault in self._pending if fault.at_s <= now_s)
        return next((fault for fault in due if not fault.needs & taken), None)

    def _strike(self, fault: Fault) -> None:
        self._site.note(f"[{str(fault).strip()}]")
        with ACTS[fault.kind](self._site, fault):
            time.sleep(fault.seconds)
        self.over_s = time.monotonic()
        self.struck[fault.kind] += 1
        if "brokers" in fault.needs:
            wait_in_sync(self._site)


@contextmanager
def storm_site(folder: Path, seed: int, rate: float) -> Iterator[StormSite]:
    """Everything that the storm comes over, running and ready."""
    with ExitStack() as stack:
        settings = {
            "COVERSUMM_EMBEDDER": "none",
            "COVERSUMM_DIMENSION": str(HashedVectors().dimension),
        }
        cluster = KafkaCluster(folder / "cluster", clients=CLIENTS)
        clocks = []
        for node in cluster.nodes:
            clocks.append(clock.Clock(folder / f"clock-node-{node.number}"))
            node.environment = clocks[-1].environment
        stack.callback(clock.clean_up)
        stack.enter_context(cluster)
        servers = [cluster.servers_of(client) for client in CLIENTS]
        live = stack.enter_context(
            pipeline(
                cluster,
                NAME,
                folder / "live",
                settings=settings,
                servers=servers,
                launcher=stepped.__name__,
            )
        )
        resumed = Resumed(
            cluster,
            f"{NAME}-replay-epoch-{EPOCH}",
            folder / "resumed",
            settings={**settings, "COVERSUMM_EPOCH": EPOCH},
            servers=servers[-1:],
            live=live,
        )
        stack.callback(resumed.discard)
        site = StormSite(
            cluster, live, resumed, seed, read_reviews()[:ROUND], rate, broker_clocks=clocks
        )
        site.add_workers(folder, stack)
        yield site


def storm(site: StormSite, given: argparse.Namespace, faults: Sequence[Fault]) -> dict[str, Any]:
    """Let it blow, and judge; what was found."""
    events = rounds(site.reviews, HashedVectors(), seed=given.seed)
    load = SteadyLoad(site.cluster.bootstrap_servers, site.live.input_topic, events, given.rate)
    blowing = Storm(site, faults)
    began_s = time.monotonic()
    # Whatever its threads started ends with them: they are there until all is judged.
    with ThreadPoolExecutor(AT_ONCE) as pool:
        try:
            time.sleep(min(CALM_SECONDS, given.calm))
            blowing.blow(pool)
            site.end_foreign()
            site.note("the storm is over")
            site.settle()
            ready_s = time.monotonic() - blowing.over_s
            site.note(f"ready after {ready_s:.1f} s")
            site.wait_for_replay()
            while load.sent < given.events:
                site.look()
                time.sleep(0.5)
        finally:
            load.end()
        site.cluster.wait_until_whole()
        site.settle()
        promoted = site.promote()
        site.note(f"promote says {promoted}")
        site.stop_all()
        rows, complaints = judged(site)
    return {
        "seconds": round(time.monotonic() - began_s),
        "events": rows["live"].events,
        "faults_struck": sum(blowing.struck.values()),
        "kinds": {kind: blowing.struck[kind] for kind in KINDS},
        "ends_in_order": dict(site.ends_in_order),
        "unordered_ends": site.ends,
        "seconds_to_ready": round(ready_s, 1),
        "promoted": promoted[-1]["ok"],
        **{
            what: sum(getattr(row, what) for row in rows.values())
            for what in ("lost", "repeated", "wrong")
        },
        "complaints": complaints,
        "schedule": [str(fault).strip() for fault in faults],
    }


def judged(site: StormSite) -> tuple[dict[str, Row], list[str]]:
    """The verdict on both builds, and what is wrong with them, in words."""
    complaints = []
    rows = {"live": Row("live"), "promoted": Row("promoted")}
    # One that was never started has no state to verify.
    site.live.workers = [worker for worker in site.live.workers if worker.data_dir.exists()]
    for site_of, row in zip((site.live, site.resumed), rows.values(), strict=True):
        try:
            # Offsets of a replay have its account as their note, and are no plain commits.
            judge(site_of, row, committed=site_of is site.live)
        except WorkerError as fault:
            site.note(str(fault))
            complaints.append(f"{row.fault}: {str(fault)[:2000]}")
    return rows, complaints


def faults_of(found: dict[str, Any]) -> list[str]:
    """What must not be."""
    none = ("lost", "repeated", "wrong", "unordered_ends", "complaints")
    said = [f"{what}: {found[what]}" for what in none if found[what]]
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
    print("\n".join(map(str, faults)), flush=True)
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
