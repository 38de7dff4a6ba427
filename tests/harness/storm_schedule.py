"""The plan of a storm: what happens to whom, from when on and for how long, all of it drawn from a
seed. Faults overlap, two at a time.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from tests.harness.faults import NODES, OF_A_NETWORK, WORKERS, Fault

*STEADY, ADDED = WORKERS
"""The workers that are there from the beginning, and one that comes and goes."""
REPLAY = "replay"
"""The replay, then the worker that resumes from it."""
CLIENTS = (*WORKERS, REPLAY)
"""Whoever has a network, and so proxies, of its own."""
AT_ONCE = 2
"""Most faults at one time."""
REPLAY_FROM = 0.15
"""The share of the faults after which the replay begins."""
GAP_SECONDS = (1.5, 7.0)
"""Between the beginnings of two faults, at least and at most, unless one has to wait for
another.
"""


class Kind(NamedTuple):
    """A kind of fault.

    Attributes:
        share: of all faults, relative to the others.
        seconds: one of these is how long it lasts.
        amounts: one of these is how much of it: seconds of a clock, bytes a second.
        recovery_s: how long what it needs is likely to be busy afterwards.
    """

    share: int
    seconds: tuple[float, ...]
    amounts: tuple[int, ...] = (0,)
    recovery_s: float = 0.0


STEPS_SECONDS = (-180, -120, -60, 60, 120, 180)
KINDS = {
    "broker stopped": Kind(5, (0, 2, 4), recovery_s=10),
    "broker killed": Kind(5, (0, 2, 4), recovery_s=10),
    "broker frozen": Kind(6, (2, 4, 8)),
    "broker's clock stepped": Kind(5, (3, 6), STEPS_SECONDS, 2),
    "coordinators moved": Kind(5, (2, 4), recovery_s=4),
    "quota": Kind(5, (4, 8), (30_000, 100_000)),
    "requests lost": Kind(7, (1, 3, 6)),
    "answers lost": Kind(7, (1, 3, 6)),
    "connections reset": Kind(6, (0.2, 2, 4)),
    "slow link": Kind(7, (4, 8), (20_000, 60_000)),
    "worker killed": Kind(8, (0, 2, 12), recovery_s=4),
    "worker frozen": Kind(6, (1, 4, 12)),
    "worker added": Kind(4, (10, 20), recovery_s=4),
    "worker's clock stepped": Kind(6, (3, 6), STEPS_SECONDS, 2),
    "disk full": Kind(5, (4, 8), recovery_s=4),
    "foreign transaction committed": Kind(4, (0, 2)),
    "foreign transaction aborted": Kind(4, (0, 2)),
    "foreign transaction left open": Kind(4, (4, 8, 15)),
    "replay killed": Kind(4, (0, 2), recovery_s=4),
}
_OF_A_WORKER = ("worker killed", "worker frozen", "worker's clock stepped", "disk full")


def busy_until_s(fault: Fault) -> float:
    """When what it needs is likely to be free again."""
    return fault.at + fault.seconds + KINDS[fault.kind].recovery_s


def schedule(count: int, seed: int, kinds: Sequence[str] = tuple(KINDS)) -> list[Fault]:
    """`count` faults in the order of their beginnings; each kind has its share, and at least one
    where they are enough.
    """
    chance = random.Random(seed)
    drawn = _shares(count, kinds)
    chance.shuffle(drawn)
    _replay_is_there(drawn)
    faults: list[Fault] = []
    at_s = 0.0
    for number, kind in enumerate(drawn):
        at_s += chance.uniform(*GAP_SECONDS)
        fault = _draw(chance, kind, with_replay=number >= REPLAY_FROM * count)
        busy_s = sorted(map(busy_until_s, faults), reverse=True)
        in_the_way = [busy_until_s(other) for other in faults if other.needs & fault.needs]
        # fewer than `AT_ONCE` are likely to be busy then, and none that needs the same
        at_s = max([at_s, *busy_s[AT_ONCE - 1 : AT_ONCE], *in_the_way])
        faults.append(replace(fault, at=round(at_s, 1)))
    return faults


def shown(fault: Fault) -> str:
    """A fault and when it begins, in a line."""
    return f"{fault.at:7.1f} s: {fault}"


def with_replay(faults: Sequence[Fault]) -> list[Fault]:
    """The plan with the beginning of the replay in it."""
    at = faults[min(len(faults) - 1, int(len(faults) * REPLAY_FROM))].at
    return [*faults, Fault("replay begun", at=at)]


def _shares(count: int, kinds: Sequence[str]) -> list[str]:
    """So many of each kind, by largest remainder; what is too few for all goes to the first."""
    total = sum(KINDS[kind].share for kind in kinds)
    exact = {kind: count * KINDS[kind].share / total for kind in kinds}
    number = {kind: max(1, int(share)) for kind, share in exact.items()}
    by_remainder = sorted(kinds, key=lambda kind: int(exact[kind]) - exact[kind])
    for kind in by_remainder[: max(0, count - sum(number.values()))]:
        number[kind] += 1
    return [kind for kind in kinds for _ in range(number[kind])][:count]


def _replay_is_there(drawn: list[str]) -> None:
    """Exchange faults of the replay from before its beginning with the first others behind it."""
    first = int(-(-len(drawn) * REPLAY_FROM // 1))
    behind = iter([i for i in range(first, len(drawn)) if drawn[i] != "replay killed"])
    for i in range(first):
        if drawn[i] == "replay killed" and (other := next(behind, None)) is not None:
            drawn[i], drawn[other] = drawn[other], drawn[i]


def _draw(chance: random.Random, name: str, *, with_replay: bool) -> Fault:
    kind = KINDS[name]
    fault = Fault(name, chance.choice(kind.seconds), amount=chance.choice(kind.amounts))
    if name.startswith("broker"):
        return replace(fault, nodes=(chance.choice(NODES),))
    if name in OF_A_NETWORK:
        worker = chance.choice([*STEADY, *([REPLAY] if with_replay else [])])
        nodes = chance.choice([*((number,) for number in (*NODES, *NODES)), ()])
        reset = "lost" in name and chance.random() < 0.5
        return replace(fault, worker=worker, nodes=nodes, reset=reset)
    if name in _OF_A_WORKER:
        return replace(fault, worker=chance.choice(STEADY))
    return replace(fault, worker={"worker added": ADDED, "replay killed": REPLAY}.get(name, ""))
