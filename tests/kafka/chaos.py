"""Faults at chosen moments of a load, and the workers brought back as an operator's platform would."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from tests.kafka.workers import RESTARTED, Pipeline, WorkerError

Kind = Literal["kill", "pause", "terminate", "kill broker"]
KINDS: tuple[Kind, ...] = ("kill", "kill", "pause", "terminate")


class Fault(NamedTuple):
    """At the fraction `at` of the load: what happens, to which worker, and for how many seconds it is gone."""

    at: float
    kind: Kind
    worker: int = 0
    seconds: float = 0.0


def random_faults(count: int, workers: int, seed: int) -> list[Fault]:
    """`count` faults spread over the load; pauses shorter and longer than a session."""
    chance = random.Random(seed)
    return [
        Fault(
            (i + chance.random()) / (count + 1),
            chance.choice(KINDS),
            chance.randrange(workers),
            chance.choice([0.0, 1.0, 4.0, 9.0, 15.0]),
        )
        for i in range(count)
    ]


@dataclass
class Chaos:
    """The faults of one load; `tick` is the load's callback, `finish` ends what is still broken."""

    site: Pipeline
    total: int
    faults: Sequence[Fault]
    history: list[str] = field(default_factory=list)
    struck: Counter[Kind] = field(default_factory=Counter)
    _due: list[Fault] = field(default_factory=list)
    _later: list[tuple[float, Fault]] = field(default_factory=list)
    _down: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._due = sorted(self.faults)
        self._started_s = time.monotonic()

    def tick(self, sent: int) -> None:
        """So much of the load is sent: do what is due, bring back what was gone long enough."""
        while self._due and self._due[0].at * self.total <= sent:
            self._strike(self._due.pop(0))
        for due_s, fault in [entry for entry in self._later if entry[0] <= time.monotonic()]:
            self._later.remove((due_s, fault))
            self._bring_back(fault)
        self._restart_crashed()

    def finish(self) -> None:
        """Wait until every fault is over and every worker runs."""
        while self._later:
            time.sleep(0.2)
            self.tick(self.total)

    def _strike(self, fault: Fault) -> None:
        """Nothing can befall a worker that is down already."""
        worker = self.site.workers[fault.worker]
        if fault.kind == "kill broker":
            self.site.broker.kill()
        elif fault.worker in self._down or not worker.alive:
            self._note(f"worker {fault.worker} is down already")
            return
        elif fault.kind == "pause":
            worker.pause()
        elif fault.kind == "kill":
            worker.kill()
        elif (code := worker.terminate()) not in (0, *RESTARTED):  # a crash may come first
            raise WorkerError(f"ended with {code} after SIGTERM\n{worker.log_end()}")
        self.struck[fault.kind] += 1
        self._note(
            f"{fault.kind} {'' if fault.kind == 'kill broker' else fault.worker} for {fault.seconds:g} s"
        )
        if fault.kind != "kill broker":
            self._down.add(fault.worker)
        self._later.append((time.monotonic() + fault.seconds, fault))

    def _bring_back(self, fault: Fault) -> None:
        worker = self.site.workers[fault.worker]
        if fault.kind == "kill broker":
            self.site.broker.start()
            return
        self._down.discard(fault.worker)
        worker.resume() if fault.kind == "pause" else worker.start()

    def _restart_crashed(self) -> None:
        """Those that ended by themselves, as a platform restarts them; the struck ones have their own time."""
        for number, worker in enumerate(self.site.workers):
            if number not in self._down and worker.exit_code is not None:
                self._note(f"worker {number} ended with {worker.exit_code}")
                self.site.restart(worker)

    def _note(self, what: str) -> None:
        self.history.append(f"{time.monotonic() - self._started_s:.1f} s: {what}")
