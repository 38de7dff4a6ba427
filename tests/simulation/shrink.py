"""A failing plan made small: steps taken out by halves, quarters and one by one, as long as it
fails in the same way.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from tests.simulation.plan import Plan, Setup, Step

Fails = Callable[[Plan], bool]


def shrink(plan: Plan, fails: Fails, seconds: float = 30.0) -> Plan:
    """The smallest plan found in so many seconds that still fails."""
    give_up = time.monotonic() + seconds

    def still_fails(candidate: Plan) -> bool:
        return time.monotonic() < give_up and fails(candidate)

    while True:
        before = plan
        plan = _without_steps(plan, still_fails)
        plan = _simpler_setup(plan, still_fails)
        plan = _simpler_steps(plan, still_fails)
        if plan == before:
            return plan


def _without_steps(plan: Plan, fails: Fails) -> Plan:
    size = max(1, len(plan.steps) // 2)
    while size:
        at = 0
        while at < len(plan.steps):
            candidate = replace(plan, steps=plan.steps[:at] + plan.steps[at + size :])
            if fails(candidate):
                plan = candidate
            else:
                at += size
        size //= 2
    return plan


def _simpler_setup(plan: Plan, fails: Fails) -> Plan:
    for name, value in vars(Setup()).items():
        if getattr(plan.setup, name) != value and name not in ("workers", "partitions"):
            candidate = replace(plan, setup=replace(plan.setup, **{name: value}))
            if fails(candidate):
                plan = candidate
    return plan


def _simpler_steps(plan: Plan, fails: Fails) -> Plan:
    for at, step in enumerate(plan.steps):
        for arguments in _simpler(step.arguments):
            steps = (*plan.steps[:at], Step(step.kind, arguments), *plan.steps[at + 1 :])
            candidate = replace(plan, steps=steps)
            if fails(candidate):
                plan = candidate
                break
    return plan


def _simpler(arguments: Sequence[Any]) -> list[tuple[Any, ...]]:
    """With one number lower: to 0, 1 or by one."""
    found = []
    for at, value in enumerate(arguments):
        if type(value) is int and value > 0:
            found += [
                (*arguments[:at], less, *arguments[at + 1 :])
                for less in sorted({0, 1, value - 1})
                if less < value
            ]
    return found
