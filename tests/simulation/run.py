"""One seed, or one plan, from start to verdict."""

from __future__ import annotations

import re
from collections import Counter
from typing import NamedTuple

from tests.simulation.checks import check, check_restored, check_told
from tests.simulation.checks_of_replays import check_end, check_over
from tests.simulation.plan import Plan, draw_plan, draw_replay
from tests.simulation.shrink import shrink
from tests.simulation.surroundings import silence
from tests.simulation.world import Violation, World, settings_of


class Verdict(NamedTuple):
    """What became of a plan: the violation, if there is one, what happened, and the story when it
    was asked for.
    """

    violation: Violation | None
    seen: Counter[str]
    story: list[str]

    @property
    def kind(self) -> str | None:
        """Which violation it is, whatever the numbers in it."""
        if self.violation is None:
            return None
        return re.sub(r"\d+", "0", str(self.violation))[:60]


def run_plan(plan: Plan, *, tell: bool = False) -> Verdict:
    """Simulate a plan and check all invariants."""
    world = World(plan, settings_of(plan.setup), tell=tell)
    world.on_takeover = check_restored
    world.on_moment = check_told
    world.on_end, world.on_over = check_end, check_over
    violation = None
    with silence():
        try:
            world.run()
            check(world)
        except Violation as found:
            violation = found
        finally:
            world.close()
    return Verdict(violation, world.seen, world.story)


def run_seed(seed: int, focus: str | None = None, *, replay: bool = False) -> Verdict:
    """Simulate a seed, full of one kind of step perhaps, or as a replay."""
    return run_plan((draw_replay if replay else draw_plan)(seed, focus))


def smallest(seed: int, seconds: float = 30.0, *, replay: bool = False) -> tuple[Plan, Verdict]:
    """A failing seed's smallest plan that fails in the same way, and its verdict with the story."""
    plan = (draw_replay if replay else draw_plan)(seed)
    kind = run_plan(plan).kind
    small = shrink(plan, lambda candidate: run_plan(candidate).kind == kind, seconds)
    return small, run_plan(small, tell=True)


def report(seed: int, plan: Plan, verdict: Verdict) -> str:
    """A failure for people: the smallest history, and how to have it again."""
    lines = [f"seed {seed} fails: {verdict.violation}", "", f"with {plan.setup}", "the steps:"]
    lines += [f"  {step}" for step in plan.steps]
    lines += ["", "what happened:", *(f"  {line}" for line in verdict.story)]
    option = "" if plan.setup.replay is None else " --replay"
    lines += ["", f"again: python -m tests.simulation{option} --seed {seed}"]
    return "\n".join(lines)
