"""A plan, executed on a site: faults one after the other, or each when its moment has come."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import ExitStack
from typing import NamedTuple

from tests.harness.acts import ACTS
from tests.harness.faults import EVERYTHING, Fault
from tests.harness.site import End, Site

CALM_SECONDS = 3.0
"""Between the end of one fault and the next: so no pause, however short before the next strikes,
belongs to both.
"""


class Strike(NamedTuple):
    """What became of a fault: its time, in milliseconds since 1970, up to when all was well again,
    seconds from its end until then, and the workers that ended though nobody ordered it.
    """

    fault: str
    since_ms: int
    until_ms: int
    ready_s: float
    ends: tuple[End, ...]


class Run:
    """The faults of a plan on a site.

    Attributes:
        struck: how often each kind struck.
        strikes: what became of faults that came one after the other.
        over_s: when the last fault was over.
    """

    def __init__(self, site: Site) -> None:
        self.site = site
        self.struck: Counter[str] = Counter()
        self.strikes: list[Strike] = []
        self.over_s = time.monotonic()

    def along(
        self, faults: Iterable[Fault], progress: Callable[[], float], at_once: int = 16
    ) -> None:
        """Each fault strikes when `progress` has come to its moment and what it needs is free; a
        few at a time.

        Every one strikes. Returns when all are over; an error of one is raised.
        """
        pending = sorted(faults, key=lambda fault: fault.at)
        running: dict[Future[None], Fault] = {}
        while pending or running:
            self.site.look()
            for done in [task for task in running if task.done()]:
                del running[done]
                done.result()
            if len(running) < at_once and (fault := _next(pending, running.values(), progress())):
                pending.remove(fault)
                running[self.site.run(self._strike, fault)] = fault
            time.sleep(0.1)

    def through(self, faults: Iterable[Fault]) -> None:
        """One fault after the other, each from brokers that are whole and workers that are ready
        and have caught up.
        """
        self._settle()
        for fault in faults:
            self.site.watch(CALM_SECONDS)
            ended, since_ms = len(self.site.ends), _now_ms()
            striking = self.site.run(self._strike, fault)
            while not striking.done():
                self.site.look()
                time.sleep(0.1)
            striking.result()
            ready_s = self._settle(self.over_s)
            ends = tuple(self.site.ends[ended:])
            self.strikes.append(Strike(str(fault), since_ms, _now_ms(), ready_s, ends))

    def _settle(self, since_s: float | None = None) -> float:
        ready_s = self.site.settle(since_s)
        self.site.wait_until_whole()
        return ready_s

    def _strike(self, fault: Fault) -> None:
        self.site.note(f"[{fault}]")
        with ExitStack() as acts:
            for act in (*fault.besides, fault):
                acts.enter_context(ACTS[act.kind](self.site, act))
            self.site.sleep(fault.seconds)
        self.over_s = time.monotonic()
        self.struck[fault.kind] += 1
        if "brokers" in fault.needs:
            self.site.wait_in_sync()


def _next(pending: list[Fault], running: Iterable[Fault], now: float) -> Fault | None:
    """The first fault that is due and may strike now."""
    for fault in pending:
        if fault.at > now:
            return None
        if fault.may_strike_beside(running):
            return fault
        if fault.needs >= EVERYTHING:
            return None  # it would wait for ever if those behind it went first
    return None


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
