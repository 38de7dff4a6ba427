"""Faults in a load, and the workers brought back as an operator's platform would.

A fault comes at a moment of the load, or when its worker gets to a named step of its protocol
(`tests.harness.armed`). Every fault of a list strikes: one whose worker is down waits until it is
back, and the load goes on until all are over.
"""

from __future__ import annotations

import random
import signal
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from tests.harness.armed import STEPS, Order
from tests.harness.eventually import eventually
from tests.harness.load import Sent
from tests.harness.patience import PATIENCE_SECONDS
from tests.harness.workers import RESTARTED, Pipeline, WorkerError, WorkerProcess

Kind = Literal["kill", "pause", "terminate", "stop broker", "kill broker"]
KINDS: tuple[Kind, ...] = ("kill", "kill", "pause", "terminate")
BROKER = ("stop broker", "kill broker")

GONE_SECONDS = 8.0
"""How long a neighbour is gone that is to make a rebalance: longer than a session (6 s here), for a
static member that is back within its own takes its place as if nothing had been.
"""
TRIGGER_SECONDS = 20.0
"""How long one rebalance may take to lead a worker to a step of it, the neighbour's absence
counted; then comes another.
"""


class Fault(NamedTuple):
    """From the fraction `at` of the load on: what happens, to which worker, and for how many
    seconds it is gone.

    With a `step` it happens when the worker comes there for the `passage`-th time.
    """

    at: float
    kind: Kind
    worker: int = 0
    seconds: float = 0.0
    step: str | None = None
    passage: int = 1

    @property
    def alone(self) -> bool:
        """Whether it waits until nothing else is broken: it takes the broker, or needs a rebalance
        of its own.
        """
        return self.kind in BROKER or STEPS.get(self.step or "", "load") != "load"

    def __str__(self) -> str:
        what = self.kind if self.kind in BROKER else f"{self.kind} {self.worker}"
        return (
            f"{what} {f'{self.step} ({self.passage}) ' if self.step else ''}for {self.seconds:g} s"
        )


def random_faults(count: int, workers: int, seed: int) -> list[Fault]:
    """`count` faults spread over the load, every fourth a burst: all workers killed, and some again
    as they come back.

    Pauses are shorter and longer than a session. A burst counts as one.
    """
    chance = random.Random(seed)
    faults = []
    for i in range(count):
        at = (i + chance.random()) / count
        if i % 4 == 3:
            faults += [Fault(at, "kill", worker) for worker in range(workers)]
            faults += [
                Fault(at, "kill", worker) for worker in range(workers) if chance.random() < 0.5
            ]
        else:
            seconds = chance.choice([0.0, 1.0, 4.0, 9.0])
            faults.append(Fault(at, chance.choice(KINDS), chance.randrange(workers), seconds))
    return faults


def faults_at_steps(
    kind: Kind,
    workers: int,
    seed: int,
    *,
    seconds: Sequence[float] = (0.0,),
    steps: Iterable[str] = STEPS,
) -> list[Fault]:
    """For every step one fault on one worker after the other, in an order, and at passages, drawn
    by `seed`.

    The steps of the load come first: different workers are at different ones, so that their outages
    overlap.
    """
    chance = random.Random(seed)
    listed = [(worker, step) for step in steps for worker in range(workers)]
    chance.shuffle(listed)
    listed.sort(key=lambda item: STEPS[item[1]] != "load")
    return [
        Fault(i / len(listed), kind, worker, chance.choice(seconds), step, _passage(step, chance))
        for i, (worker, step) in enumerate(listed)
    ]


def _passage(step: str, chance: random.Random) -> int:
    """Of a step of the load not always the first; a rebalance comes by only once."""
    most = 30 if step == "after a produce" else 4 if STEPS[step] == "load" else 1
    return chance.randint(1, most)


@dataclass
class _Armed:
    """An order that has not struck yet."""

    fault: Fault
    since_s: float
    triggered_s: float


@dataclass
class Chaos:
    """The faults of one load of at least `total` events; `tick` is the load's callback, `finish`
    ends what is still broken.
    """

    site: Pipeline
    total: int
    faults: Sequence[Fault]
    history: list[str] = field(default_factory=list)
    struck: Counter[Kind] = field(default_factory=Counter)
    _due: list[Fault] = field(default_factory=list)
    _armed: dict[int, _Armed] = field(default_factory=dict)
    _later: list[tuple[float, Fault]] = field(default_factory=list)
    _down: set[int] = field(default_factory=set)
    _broker_is_down: bool = False

    def __post_init__(self) -> None:
        self._due = sorted(self.faults, key=lambda fault: fault.at)
        self._started_s = self._over_s = time.monotonic()

    @property
    def over(self) -> bool:
        """Whether every fault struck, and what it struck was brought back."""
        return not (self._due or self._armed or self._later)

    def load(self, events: Iterable[Sent]) -> Iterator[Sent]:
        """At least `total` of `events`, and more until all faults are over."""
        for number, event in enumerate(events):
            if number >= self.total and self.over:
                return
            yield event

    def tick(self, sent: int) -> None:
        """So much of the load is sent: do what is due, bring back what was gone long enough."""
        self._notice_struck()
        for due_s, fault in [entry for entry in self._later if entry[0] <= time.monotonic()]:
            self._later.remove((due_s, fault))
            self._bring_back(fault)
        self._restart_crashed()
        self._trigger_again()
        for fault in [fault for fault in self._due if fault.at * self.total <= sent]:
            if self._may_strike(fault):
                self._due.remove(fault)
                self._strike(fault)
            elif fault.alone:
                break  # it would wait for ever if those behind it went first

    def finish(self) -> None:
        """Wait until every fault is over and every worker runs."""
        while not self.over:
            self.tick(self.total)
            time.sleep(0.1)

    def wait_ready(self, timeout_s: float = PATIENCE_SECONDS) -> float:
        """Seconds from the end of the last fault (restarted, resumed, broker back) until all are
        ready and nothing is behind.
        """
        targets = self.site.targets()

        def caught_up() -> bool:
            self.tick(self.total)
            return self._all_ready() and self.site.lag(targets) == 0

        eventually(
            caught_up, lambda: f"not ready, or behind\n{self.site.logs()}", timeout_s=timeout_s
        )
        return time.monotonic() - self._over_s

    # -- striking ----------------------------------------------------------------------------------

    def _may_strike(self, fault: Fault) -> bool:
        if self._broker_is_down or (fault.kind not in BROKER and fault.worker in self._busy):
            return False
        if fault.kind in BROKER and fault.step is None:
            return not self._busy
        if fault.alone:
            return not self._busy and self._all_ready()
        return self.site.workers[fault.worker].alive

    @property
    def _busy(self) -> set[int]:
        return self._down | set(self._armed)

    def _all_ready(self) -> bool:
        return all(
            worker.alive and not worker.paused and worker.ready() for worker in self.site.workers
        )

    def _strike(self, fault: Fault) -> None:
        worker = self.site.workers[fault.worker]
        if fault.step is not None:
            self._arm(fault, worker)
            return
        if fault.kind == "kill broker":
            self.site.broker.kill()
        elif fault.kind == "stop broker":
            self.site.broker.stop()
        elif fault.kind == "pause":
            worker.pause()
        elif fault.kind == "kill":
            worker.kill()
        else:
            self._terminate(worker)
        self._struck(fault)

    def _struck(self, fault: Fault) -> None:
        self.struck[fault.kind] += 1
        self._note(str(fault))
        if fault.kind in BROKER:
            self._broker_is_down = True
        else:
            self._down.add(fault.worker)
        self._later.append((time.monotonic() + fault.seconds, fault))

    def _terminate(self, worker: WorkerProcess) -> None:
        # A crash may come first, and one that has only just started has no handler yet.
        if (code := worker.terminate()) not in (0, -signal.SIGTERM, *RESTARTED):
            raise WorkerError(f"ended with {code} after SIGTERM\n{worker.log_end()}")

    def _bring_back(self, fault: Fault) -> None:
        worker = self.site.workers[fault.worker]
        if fault.kind in BROKER:
            self.site.broker.start()
            self._broker_is_down = False
        else:
            self._down.discard(fault.worker)
            worker.resume() if fault.kind == "pause" else worker.start()
        self._over_s = time.monotonic()

    def _restart_crashed(self) -> None:
        """Those that ended by themselves, as a platform restarts them; the struck ones have their
        own time.
        """
        for number, worker in enumerate(self.site.workers):
            if number not in self._down and worker.exit_code is not None:
                if (
                    number in self._armed
                    and self._armed[number].fault.kind == "kill"
                    and worker.struck()
                ):
                    continue  # since it was looked at: it is noticed at the next look
                self._note(f"worker {number} ended with {worker.exit_code}")
                self.site.restart(worker)

    # -- at a step ---------------------------------------------------------------------------------

    def _arm(self, fault: Fault, worker: WorkerProcess) -> None:
        assert fault.step is not None
        number = signal.SIGSTOP if fault.kind == "pause" else signal.SIGKILL
        pid = self.site.broker.pid if fault.kind in BROKER else None
        order = Order(fault.step, fault.passage, number, pid)
        now_s = time.monotonic()
        self._armed[fault.worker] = _Armed(fault, now_s, now_s)
        if STEPS[fault.step] == "restore":
            self._terminate(worker)
            worker.wipe()
            worker.arm(order)
            worker.start()
        else:
            worker.arm(order)
            self._trigger(fault)

    def _trigger(self, fault: Fault) -> None:
        """A rebalance, where the step is one of it: the neighbour goes and comes back."""
        if STEPS[fault.step or ""] == "rebalance":
            self._strike(
                Fault(0, "terminate", (fault.worker + 1) % len(self.site.workers), GONE_SECONDS)
            )

    def _trigger_again(self) -> None:
        for armed in self._armed.values():
            now_s = time.monotonic()
            if now_s - armed.since_s > PATIENCE_SECONDS:
                raise WorkerError(f"never there: {armed.fault}\n{self.site.logs()}")
            if now_s - armed.triggered_s > TRIGGER_SECONDS and not self._down and self._all_ready():
                armed.triggered_s = now_s
                self._trigger(armed.fault)

    def _notice_struck(self) -> None:
        for number, armed in list(self._armed.items()):
            worker = self.site.workers[number]
            if not worker.struck():
                continue
            del self._armed[number]
            if armed.fault.kind == "kill broker":
                self.site.broker.kill()  # it is dead: this waits for its end
            elif armed.fault.kind == "kill":
                worker.wait()
            self._struck(armed.fault)

    def _note(self, what: str) -> None:
        self.history.append(f"{time.monotonic() - self._started_s:.1f} s: {what}")
