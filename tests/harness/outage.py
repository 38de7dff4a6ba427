"""The broker goes away under two idle workers and one under load: first it is stopped, then frozen.
What would an operator see?

    python -m tests.harness.outage --seconds 180 --frozen-seconds 90 [--rate 50] [--out FILE]

Every 15 seconds it looks at each worker: `/readyz`, `/healthz`, the gauge, log lines a minute, and
whether the alert of `deploy/alerts.yml` would fire. A worker that ends is started again, as a
platform does. At the end every change must have been published once. The result goes to
`tests/bench/results/outage.json`; the exit code is 1 when one of `faults_of` is found.
"""

from __future__ import annotations

import contextlib
import re
import sys
import tempfile
import time
import urllib.error
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.bench.machine import began, command_line
from tests.harness.broker import KafkaBroker
from tests.harness.eventually import eventually
from tests.harness.load import HashedVectors, SteadyLoad, read_reviews, rounds
from tests.harness.log_lines import by_level, parse
from tests.harness.patience import PATIENCE_SECONDS
from tests.harness.quiet_soak import PARTITIONS, QUIET
from tests.harness.record import Row, finish
from tests.harness.scenario import judge
from tests.harness.workers import RESTARTED, Pipeline, WorkerProcess, pipeline

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "tests" / "bench" / "results" / "outage.json"
LOOK_SECONDS = 15.0
RESTART_SECONDS = 5.0
"""After its end a worker is started again so much later, as a platform backs off."""
NO_BROKER = 2
"""The exit code of a worker that finds no broker at its start; started again like one
that crashed.
"""
LINES_A_MINUTE = 2
"""Most that an idle worker may log in an outage: one when it begins, one a minute; looks and
minutes do not fall together.
"""
ALERT = "CoversummNoBroker"


class Alert:
    """The alert's condition on one worker's gauge, over time: its expression is a maximum and a
    limit.
    """

    def __init__(self) -> None:
        groups = yaml.safe_load((ROOT / "deploy" / "alerts.yml").read_text())["groups"]
        (rule,) = [rule for group in groups for rule in group["rules"] if rule["alert"] == ALERT]
        found = re.fullmatch(
            r"max by \(job, instance\) \(coversumm_broker_silent_seconds\) > (\d+)", rule["expr"]
        )
        minutes = re.fullmatch(r"(\d+)m", rule["for"])
        assert found is not None
        assert minutes is not None
        self._limit, self._for_seconds = float(found[1]), 60 * float(minutes[1])
        self._since: dict[str, float] = {}

    def state(self, worker: str, gauge: dict[str, float], now_s: float) -> str:
        """What Prometheus would show: inactive, pending or firing."""
        if max(gauge.values(), default=0.0) <= self._limit:
            self._since.pop(worker, None)
            return "inactive"
        held = now_s - self._since.setdefault(worker, now_s)
        return "firing" if held >= self._for_seconds else "pending"


@dataclass
class Watched:
    """A worker, and what it has done so far."""

    name: str
    worker: WorkerProcess
    site: Pipeline
    logged: int = 0
    ended_s: float | None = None
    exits: list[int] = field(default_factory=list)

    def look(self, alert: Alert, now_s: float) -> dict[str, Any]:
        """What an operator sees of it now."""
        lines = parse(self.worker.log_text())
        fresh, self.logged = lines[self.logged :], len(lines)
        gauge = self._gauge()
        return {
            "alive": self.worker.alive,
            "readyz": page(self.worker, "/readyz"),
            "healthz": page(self.worker, "/healthz"),
            "silent_seconds": gauge,
            "log_lines": by_level(fresh),
            "alert": alert.state(self.name, gauge, now_s),
        }

    def _gauge(self) -> dict[str, float]:
        with contextlib.suppress(OSError):
            return {
                client: value
                for name, value in self.worker.metrics().items()
                for client in re.findall(r'^coversumm_broker_silent_seconds{client="(\w+)"}$', name)
            }
        return {}

    def keep_up(self) -> None:
        """Start it again a while after it ended, and remember what it ended with."""
        code = self.worker.exit_code
        if code is None:
            return
        if self.ended_s is None:
            self.ended_s = time.monotonic()
            self.exits.append(code)
        elif time.monotonic() - self.ended_s >= RESTART_SECONDS:
            self.ended_s = None
            self.site.restart(self.worker)


def catch_up(site: Pipeline, watched: list[Watched]) -> None:
    """Return when all that was sent is committed; whoever ends meanwhile is started again, as
    before.
    """
    targets = site.targets()

    def caught_up() -> bool:
        for one in watched:
            one.keep_up()
        return site.lag(targets) == 0

    eventually(caught_up, site.logs, every_s=1.0)


def page(worker: WorkerProcess, path: str) -> str:
    """A page's status and body in one line; empty where nobody answers."""
    try:
        with worker.get(path, timeout_s=5) as answer:
            return f"{answer.status} {answer.read().decode()}"
    except urllib.error.HTTPError as refused:
        return f"{refused.code} {refused.read().decode()}"
    except OSError:
        return ""


def phase(
    name: str,
    watched: list[Watched],
    seconds: float,
    go: Callable[[], None],
    come: Callable[[], None],
) -> dict[str, Any]:
    """Let the broker be away for so long, looking on; then until all is well again."""
    alert = Alert()
    for one in watched:
        one.look(alert, 0.0)  # what was logged before is not of this phase
        one.exits.clear()
    looks: list[dict[str, Any]] = []
    go()
    began_s = time.monotonic()
    while time.monotonic() - began_s < seconds:
        next_s = min(began_s + LOOK_SECONDS * (len(looks) + 1), began_s + seconds)
        while time.monotonic() < next_s:
            for one in watched:
                one.keep_up()
            time.sleep(0.2)
        now_s = time.monotonic() - began_s
        looks.append(
            {"at_s": round(now_s), **{one.name: one.look(alert, now_s) for one in watched}}
        )
    come()
    back_s = time.monotonic()
    ready: dict[str, float] = {}

    def all_ready() -> bool:
        for one in watched:
            one.keep_up()
            if one.name not in ready and one.worker.alive and one.worker.ready():
                ready[one.name] = round(time.monotonic() - back_s, 1)
        return len(ready) == len(watched)

    eventually(
        all_ready, lambda: f"not ready again\n{watched[0].site.logs()}", timeout_s=PATIENCE_SECONDS
    )
    time.sleep(LOOK_SECONDS)
    now_s = time.monotonic() - began_s
    return {
        "broker": name,
        "seconds": round(seconds),
        "looks": looks,
        "ready_again_after_s": ready,
        "after": {one.name: one.look(alert, now_s) for one in watched},
        "exits": {one.name: list(one.exits) for one in watched},
    }


def outage(
    broker: KafkaBroker, folder: Path, seconds: float, frozen: float, rate: float
) -> dict[str, Any]:
    """Both phases and the verdict."""
    with ExitStack() as stack:
        idle, busy = (
            stack.enter_context(
                pipeline(
                    broker,
                    name,
                    folder / name,
                    partitions=PARTITIONS,
                    settings={"COVERSUMM_DIMENSION": str(HashedVectors().dimension)},
                    restarted_codes={*RESTARTED, NO_BROKER},
                )
            )
            for name in ("outage-idle", "outage-busy")
        )
        watched = [
            Watched("idle 1", idle.start()[0], idle),
            Watched("idle 2", idle.start()[0], idle),
            Watched("busy", busy.start()[0], busy),
        ]
        events = rounds(read_reviews(), HashedVectors(), mix=QUIET)
        load = SteadyLoad(broker.bootstrap_servers, busy.input_topic, events, rate)
        time.sleep(LOOK_SECONDS)
        phases = [phase("stopped", watched, seconds, broker.stop, broker.start)]
        if frozen:
            phases.append(phase("frozen", watched, frozen, broker.pause, broker.resume))
        load.end()
        catch_up(busy, watched)
        for site in (idle, busy):
            site.stop()
        row = Row("outage")
        judge(busy, row)
        return {
            "phases": phases,
            "events_sent": load.sent,
            "lost": row.lost,
            "repeated": row.repeated,
            "wrong": row.wrong,
            "broken": row.broken,
        }


def faults_of(found: dict[str, Any]) -> list[str]:
    """What must not be: an idle worker that ends, calls itself ready or unhealthy, is loud, or
    raises no alert.
    """
    faults = [f"{what}: {found[what]}" for what in ("lost", "repeated", "wrong") if found[what]]
    for part in found["phases"]:
        for name in ("idle 1", "idle 2"):
            where = f"{part['broker']}, {name}"
            seen = [look[name] for look in part["looks"]]
            faults += [f"{where}: ended with {part['exits'][name]}"] if part["exits"][name] else []
            faults += [
                f"{where}: {one['readyz']}" for one in seen if "no broker for" not in one["readyz"]
            ]
            faults += [
                f"{where}: {one['healthz']}" for one in seen if not one["healthz"].startswith("200")
            ]
            lines = sum(sum(one["log_lines"].values()) for one in seen)
            most = LINES_A_MINUTE + part["seconds"] // 60
            faults += [f"{where}: {lines} lines"] if lines > most else []
            faults += (
                [] if any(one["alert"] == "firing" for one in seen) else [f"{where}: no alert"]
            )
    return faults


def main() -> int:
    """Run, print, write."""
    parser = command_line(__doc__, RESULTS)
    parser.add_argument("--seconds", type=float, default=180.0, help="the broker is stopped")
    parser.add_argument(
        "--frozen-seconds", type=float, default=120.0, help="then frozen; 0 leaves it out"
    )
    parser.add_argument("--rate", type=float, default=50.0, help="events a second")
    given = parser.parse_args()
    record = began("tests.harness.outage")
    with tempfile.TemporaryDirectory() as scratch, KafkaBroker(Path(scratch) / "broker") as broker:
        found = outage(broker, Path(scratch), given.seconds, given.frozen_seconds, given.rate)
    return finish(given.out, record | found, faults_of(found))


if __name__ == "__main__":
    sys.exit(main())
