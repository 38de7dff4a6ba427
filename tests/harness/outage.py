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
import time
import urllib.error
from argparse import ArgumentParser, Namespace
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import yaml

from tests.harness.broker import KafkaBroker
from tests.harness.faults import Fault
from tests.harness.load import HashedVectors, SteadyLoad, read_reviews, rounds
from tests.harness.log_lines import by_level, parse
from tests.harness.record import Row
from tests.harness.run import Run
from tests.harness.scenario import QUIET, differences, idle_and_busy, judge, prove, verdict
from tests.harness.site import Site
from tests.harness.workers import RESTARTED, ROOT, WorkerProcess

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
            r"max by \(namespace, job, instance\) \(coversumm_broker_silent_seconds\) > (\d+)",
            rule["expr"],
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


class Operator:
    """Looks at all workers, now and then for so many seconds of a fault of `run`."""

    def __init__(self, run: Run, seconds: float) -> None:
        self.run, self._seconds = run, seconds
        self.looks: list[dict[str, Any]] = []
        self._alert = Alert()
        # what was logged before is not of this outage
        self._logged = {one.name: len(parse(one.log_text())) for one in run.site.workers}

    def __call__(self) -> None:
        """Look, where it is time to."""
        since_s, done = self.run.since_s, len(self.looks)
        if since_s is None or LOOK_SECONDS * done >= self._seconds:
            return
        away_s = time.monotonic() - since_s
        if away_s >= min(LOOK_SECONDS * (done + 1), self._seconds):
            self.looks.append({"at_s": round(away_s), **self.look(away_s)})

    def look(self, now_s: float) -> dict[str, Any]:
        """What there is to be seen of each worker."""
        return {worker.name: self._look_at(worker, now_s) for worker in self.run.site.workers}

    def _look_at(self, worker: WorkerProcess, now_s: float) -> dict[str, Any]:
        lines = parse(worker.log_text())
        fresh, self._logged[worker.name] = lines[self._logged[worker.name] :], len(lines)
        gauge = _gauge(worker)
        return {
            "alive": worker.alive,
            "readyz": page(worker, "/readyz"),
            "healthz": page(worker, "/healthz"),
            "silent_seconds": gauge,
            "log_lines": by_level(fresh),
            "alert": self._alert.state(worker.name, gauge, now_s),
        }


def _gauge(worker: WorkerProcess) -> dict[str, float]:
    with contextlib.suppress(OSError):
        return {
            client: value
            for name, value in worker.telemetry.metrics().items()
            for client in re.findall(r'^coversumm_broker_silent_seconds{client="(\w+)"}$', name)
        }
    return {}


def page(worker: WorkerProcess, path: str) -> str:
    """A page's status and body in one line; empty where nobody answers."""
    try:
        with worker.get(path, timeout_s=5) as answer:
            return f"{answer.status} {answer.read().decode()}"
    except urllib.error.HTTPError as refused:
        return f"{refused.code} {refused.read().decode()}"
    except OSError:
        return ""


def phase(run: Run, how: str, seconds: float) -> dict[str, Any]:
    """Let the broker be away for so long, looking on; then until all is well again."""
    operator, began_s, site = Operator(run, seconds), time.monotonic(), run.site
    # the last look comes before the broker is back
    run.through([Fault(f"broker {how}", seconds + 2)], operator, calm_s=0)
    site.watch(LOOK_SECONDS)
    (*_, strike) = run.strikes
    return {
        "broker": how,
        "seconds": round(seconds),
        "looks": operator.looks,
        "ready_again_after_s": dict(site.ready_s),
        "after": operator.look(time.monotonic() - began_s),
        "exits": {
            worker.name: [end.code for end in strike.ends if end.worker == worker.name]
            for worker in site.workers
        },
    }


def outage(broker: KafkaBroker, folder: Path, given: Namespace) -> dict[str, Any]:
    """Both phases and the verdict."""
    with ExitStack() as stack:
        idle, busy = idle_and_busy(
            stack, broker, folder, "outage", restarted_codes={*RESTARTED, NO_BROKER}
        )
        site = stack.enter_context(Site([idle, busy], RESTART_SECONDS))
        events = rounds(read_reviews(), HashedVectors(), mix=QUIET)
        load = SteadyLoad(broker.bootstrap_servers, busy.input_topic, events, given.rate)
        site.watch(LOOK_SECONDS)
        run = Run(site)
        phases = [phase(run, "stopped", given.seconds)]
        if given.frozen_seconds:
            phases.append(phase(run, "frozen", given.frozen_seconds))
        load.end()
        site.settle(under_load=False)
        for group in (idle, busy):
            group.stop()
        row = Row("outage")
        judge(busy, row)
        return {"phases": phases, "events_sent": load.sent, **verdict(row)}


def faults_of(found: dict[str, Any]) -> list[str]:
    """What must not be: an idle worker that ends, calls itself ready or unhealthy, is loud, or
    raises no alert.
    """
    faults = differences(found)
    for part in found["phases"]:
        for name in ("idle 1", "idle 2"):
            seen = [look[name] for look in part["looks"]]
            lines = sum(sum(one["log_lines"].values()) for one in seen)
            wrong = [
                *([f"ended with {part['exits'][name]}"] if part["exits"][name] else []),
                *(one["readyz"] for one in seen if "no broker for" not in one["readyz"]),
                *(one["healthz"] for one in seen if not one["healthz"].startswith("200")),
                *([f"{lines} lines"] if lines > LINES_A_MINUTE + part["seconds"] // 60 else []),
                *([] if any(one["alert"] == "firing" for one in seen) else ["no alert"]),
            ]
            faults += [f"{part['broker']}, {name}: {one}" for one in wrong]
    return faults


def arguments(parser: ArgumentParser) -> None:
    """Its options."""
    parser.add_argument("--seconds", type=float, default=180.0, help="the broker is stopped")
    parser.add_argument(
        "--frozen-seconds", type=float, default=120.0, help="then frozen; 0 leaves it out"
    )
    parser.add_argument("--rate", type=float, default=50.0, help="events a second")


if __name__ == "__main__":
    sys.exit(prove(__doc__, "outage", arguments, outage, faults_of))
