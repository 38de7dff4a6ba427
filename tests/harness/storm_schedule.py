"""The faults of a storm as data: what happens to whom, from when on and for how long, all of it
drawn from a seed.

A fault needs things for itself while it lasts: a broker fault the other two brokers, a worker fault
its worker. So a majority of the brokers runs, and no worker is started and killed by two at once.
Else faults overlap, two at a time.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import NamedTuple

WORKERS = ("one", "two")
"""Those that are there from the beginning."""
ADDED, REPLAY = "three", "replay"
"""The worker that comes and goes; and the replay, then the worker that resumes from it."""
CLIENTS = (*WORKERS, ADDED, REPLAY)
"""Whoever has a network, and so proxies, of its own."""
NODES = (1, 2, 3)
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
_OF_A_LINK = ("requests lost", "answers lost", "connections reset", "slow link")
_OF_A_WORKER = ("worker killed", "worker frozen", "worker's clock stepped", "disk full")


class Fault(NamedTuple):
    """One fault.

    `node` 0 is all of them; `client` is whose worker or network it is. With `reset` a network that
    lost bytes resets its connections in the end; else they stay, and carry nothing.
    """

    at_s: float
    kind: str
    seconds: float
    node: int = 0
    client: str = ""
    amount: int = 0
    reset: bool = False

    @property
    def needs(self) -> frozenset[str]:
        """What it has for itself while it lasts."""
        if self.kind.startswith(("broker", "coordinators")):
            return frozenset({"brokers"})
        if self.kind in _OF_A_LINK:
            # Where a network is gone nobody is started in it: such a start ends by itself.
            everywhere = {f"worker {self.client}"} if self.node == 0 else set()
            return frozenset({f"network {self.client}", *everywhere})
        if self.client:
            return frozenset({f"worker {self.client}"})
        return frozenset({self.kind.split()[0]})

    @property
    def busy_until_s(self) -> float:
        """When what it needs is likely to be free again."""
        return self.at_s + self.seconds + KINDS[self.kind].recovery_s

    def __str__(self) -> str:
        where = " ".join(
            [self.client] * bool(self.client)
            + [f"node {self.node}" if self.node else "all nodes"]
            * (self.kind in _OF_A_LINK or self.kind.startswith("broker"))
        )
        much = f" by {self.amount:+d} s" if "clock" in self.kind else f" {self.amount:,} B/s"
        return (
            f"{self.at_s:7.1f} s: "
            f"{self.kind}{f' ({where})' if where else ''}{much if self.amount else ''} "
            f"for {self.seconds:g} s{', then reset' if self.reset else ''}"
        )


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
        at_s = max(
            [
                at_s,
                _free_s(faults),
                *(one.busy_until_s for one in faults if one.needs & fault.needs),
            ]
        )
        faults.append(fault._replace(at_s=round(at_s, 1)))
    return faults


def _shares(count: int, kinds: Sequence[str]) -> list[str]:
    """So many of each kind, by largest remainder; what is too few for all goes to the first."""
    total = sum(KINDS[kind].share for kind in kinds)
    exact = {kind: count * KINDS[kind].share / total for kind in kinds}
    number = {kind: max(1, int(share)) for kind, share in exact.items()}
    for kind in sorted(kinds, key=lambda kind: int(exact[kind]) - exact[kind])[
        : max(0, count - sum(number.values()))
    ]:
        number[kind] += 1
    return [kind for kind in kinds for _ in range(number[kind])][:count]


def _replay_is_there(drawn: list[str]) -> None:
    """Exchange faults of the replay from before its beginning with the first others behind it."""
    first = -(-len(drawn) * REPLAY_FROM // 1)
    behind = iter([i for i in range(int(first), len(drawn)) if drawn[i] != "replay killed"])
    for i in range(int(first)):
        if drawn[i] == "replay killed" and (other := next(behind, None)) is not None:
            drawn[i], drawn[other] = drawn[other], drawn[i]


def _draw(chance: random.Random, name: str, *, with_replay: bool) -> Fault:
    kind = KINDS[name]
    fault = Fault(0.0, name, chance.choice(kind.seconds), amount=chance.choice(kind.amounts))
    if name.startswith("broker"):
        return fault._replace(node=chance.choice(NODES))
    if name in _OF_A_LINK:
        client = chance.choice([*WORKERS, *([REPLAY] if with_replay else [])])
        node = chance.choice([*NODES, *NODES, 0])
        return fault._replace(
            client=client, node=node, reset="lost" in name and chance.random() < 0.5
        )
    if name in _OF_A_WORKER:
        return fault._replace(client=chance.choice(WORKERS))
    return fault._replace(client={"worker added": ADDED, "replay killed": REPLAY}.get(name, ""))


def _free_s(faults: Sequence[Fault]) -> float:
    """When fewer than `AT_ONCE` of them are likely to be busy."""
    return (
        sorted((fault.busy_until_s for fault in faults), reverse=True)[AT_ONCE - 1 : AT_ONCE][0]
        if len(faults) >= AT_ONCE
        else 0.0
    )
