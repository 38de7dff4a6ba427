"""Faults as data, and plans: lists of faults. `acts.py` has what each kind does.

A fault needs things for itself while it lasts: a broker fault the other brokers, a worker fault its
worker. So a majority of the brokers runs, and no worker is started and killed by two at once. Else
faults of a plan may overlap.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from tests.harness.armed import STEPS
from tests.harness.site import Where

WORKERS = ("one", "two", "three")
"""The names of a site's workers, their instance ids, and those of their networks."""
NODES = (1, 2, 3)
OF_A_NETWORK = ("requests lost", "answers lost", "connections reset", "slow link")
EVERYTHING = frozenset({"everything"})


@dataclass(frozen=True)
class Fault:
    """Something that goes wrong for some seconds.

    Attributes:
        kind: a name in `acts.ACTS`.
        at: when it strikes, as the run counts: a share of the load, or seconds since the beginning.
        nodes: brokers, all of them where none is named.
        worker: whose process, disk, clock or network it is, the first one's where it is empty.
        amount: seconds of a clock, bytes a second of a link or a quota.
        reset: a network that lost bytes resets its connections in the end; else they stay, and
            carry nothing.
        step: it strikes when its worker gets there for the `passage`-th time.
        besides: faults that strike just before it, and are over with it.
    """

    kind: str
    seconds: float = 0.0
    at: float = 0.0
    nodes: tuple[Where, ...] = ()
    worker: str = ""
    amount: int = 0
    reset: bool = False
    step: str = ""
    passage: int = 1
    besides: tuple[Fault, ...] = ()

    @property
    def needs(self) -> frozenset[str]:
        """What it has for itself while it lasts."""
        return self._own_needs().union(*(beside.needs for beside in self.besides))

    def _own_needs(self) -> frozenset[str]:
        if STEPS.get(self.step, "load") != "load" or self.kind.startswith("workers"):
            return EVERYTHING  # it needs a rebalance of its own, or restarts all
        worker = {f"worker {self.worker}"}
        if self.kind.startswith(("broker", "coordinators", "leaders")):
            return frozenset({"brokers", *(worker if self.step else ())})
        if self.kind in OF_A_NETWORK:
            # Where a network is gone nobody is started in it: such a start ends by itself.
            return frozenset({f"network {self.worker}", *(() if self.nodes else worker)})
        return frozenset(worker if self.worker else {self.kind.split()[0]})

    def may_strike_beside(self, others: Iterable[Fault]) -> bool:
        """Whether it needs nothing that these have."""
        taken = frozenset[str]().union(*(other.needs for other in others))
        return not (self.needs & taken or (taken and self.needs | taken >= EVERYTHING))

    def __str__(self) -> str:
        brokers = " and ".join(
            f"node {node}" if isinstance(node, int) else node for node in self.nodes
        )
        if not brokers and (self.kind in OF_A_NETWORK or self.kind.startswith("broker")):
            brokers = "all nodes"
        step = f"{self.step}, passage {self.passage}" if self.step else ""
        where = " ".join(filter(None, (self.worker, brokers, step)))
        much = f" by {self.amount:+d} s" if "clock" in self.kind else f" {self.amount:,} B/s"
        own = (
            f"{self.kind}{f' ({where})' if where else ''}{much if self.amount else ''} "
            f"for {self.seconds:g} s{', then reset' if self.reset else ''}"
        )
        return " with ".join([*map(str, self.besides), own])


# -- plans: at shares of a load --------------------------------------------------------------------

WORKER_KINDS = ("worker killed", "worker killed", "worker frozen", "worker stopped")


def random_faults(count: int, workers: int, seed: int) -> list[Fault]:
    """`count` faults spread over the load, every fourth a burst: all workers killed, and some again
    as they come back.

    They are frozen for less and for more than a session. A burst counts as one.
    """
    chance = random.Random(seed)
    names = WORKERS[:workers]
    faults = []
    for i in range(count):
        at = (i + chance.random()) / count
        if i % 4 == 3:
            again = [name for name in names if chance.random() < 0.5]
            faults += [Fault("worker killed", at=at, worker=name) for name in (*names, *again)]
        else:
            seconds = chance.choice([0.0, 1.0, 4.0, 9.0])
            kind = chance.choice(WORKER_KINDS)
            faults.append(Fault(kind, seconds, at, worker=chance.choice(names)))
    return faults


def faults_at_steps(
    kind: str,
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
    listed = [(worker, step) for step in steps for worker in WORKERS[:workers]]
    chance.shuffle(listed)
    listed.sort(key=lambda item: STEPS[item[1]] != "load")
    faults = []
    for worker, step in listed:
        # Of a step of the load not always the first passage; a rebalance comes by only once.
        most = 30 if step == "after a produce" else 4 if STEPS[step] == "load" else 1
        gone_s = chance.choice(seconds)
        passage = chance.randint(1, most)
        faults.append(Fault(kind, gone_s, worker=worker, step=step, passage=passage))
    return spread(faults)


def spread(faults: Sequence[Fault], share: float = 1.0) -> list[Fault]:
    """The first of `faults`, by their share, evenly over the load."""
    kept = faults[: max(3, round(len(faults) * share))]
    return [replace(fault, at=i / len(kept)) for i, fault in enumerate(kept)]


# -- plans: one fault after the other, on a cluster ------------------------------------------------


def each_node(kind: str, seconds: Sequence[float]) -> list[Fault]:
    """The same to each node in turn, for so long."""
    return [Fault(kind, s, nodes=(number,)) for number, s in zip(NODES, seconds, strict=True)]


def each_network(kind: str, seconds: float) -> list[Fault]:
    """The same between one worker and each node in turn, the workers too, then between one worker
    and all nodes.
    """
    pairs: list[tuple[str, tuple[Where, ...]]]
    pairs = [("one", (1,)), ("two", (2,)), ("one", (3,)), ("two", ())]
    return [Fault(kind, seconds, nodes=nodes, worker=worker) for worker, nodes in pairs]


def random_cluster_faults(count: int, seed: int) -> list[Fault]:
    """Nodes and networks, one or both at once, for 1 to 20 seconds."""
    chance = random.Random(seed)
    faults = []
    for _ in range(count):
        seconds = chance.choice([1.0, 4.0, 9.0, 20.0])
        both: list[Fault] = []
        if chance.random() < 0.7:
            kind = chance.choice(["broker stopped", "broker killed", "broker frozen"])
            both.append(Fault(kind, seconds, nodes=(chance.choice(NODES),)))
        if chance.random() < 0.4 or not both:
            kind, worker = chance.choice(OF_A_NETWORK[:3]), chance.choice(WORKERS[:2])
            both.append(Fault(kind, seconds, nodes=(chance.choice(NODES),), worker=worker))
        faults.append(replace(both[-1], besides=tuple(both[:-1])))
    return faults
