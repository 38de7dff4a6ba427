"""A seed as a list of steps: pure data, with everything that is left to chance drawn beforehand.

A step says what to do with whatever is there by then; where there is nothing to do it is passed
over. So a plan stays one when steps are taken out of it, and a failing one can be made small.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from typing import Any, NamedTuple

from tests.simulation.load import Load
from worker.processing.config import Emit

POINTS = {
    "init": 1,
    "begin": 1,
    "produce": 6,
    "flush": 1,
    "offsets": 1,
    "commit": 1,
    "write": 2,
    "scan": 3,
    "fetch": 2,
    "hand over": 1,
    "committed": 1,
    "bounds": 1,
    "read": 4,
    "ids": 1,
}
"""Where a process can be struck, and how often it may pass there first."""
WEIGHTS = {"commit": 4, "offsets": 3, "write": 4, "read": 2, "flush": 2, "fetch": 2, "scan": 4}


MOVES = (
    ("transactions",),
    ("group",),
    ("logs",),
    ("controller",),
    ("transactions", "group"),
    ("transactions", "group", "logs", "controller"),
)
"""What a broker may lead, and hand over when it goes; the last is a cluster that is not there."""

EMITS: tuple[Emit, ...] = ("every", "every", "final", "final", "coalesced", "none")


class Step(NamedTuple):
    """Something that happens: a method of `World` and its arguments."""

    kind: str
    arguments: tuple[Any, ...] = ()

    def __str__(self) -> str:
        return f"{self.kind}({', '.join(map(repr, self.arguments))})"


@dataclass(frozen=True)
class Setup:
    """What does not change in a run."""

    workers: int = 2
    partitions: int = 2
    standbys: bool = False
    k: int = 2
    distinct: bool = False
    emit: str = "every"
    min_changes: int = 1
    emit_mentions: int = 0
    cache_bytes: int = 10**8
    batch_bytes: int = 10**6
    batch_linger_ms: int = 0
    restore_rows: int = 1000
    transaction_records: int = 50_000
    shuffle: int = 1
    replay: Emit | None = None
    """A bounded run that publishes so, and then an endless one; None: an endless one from the
    beginning.
    """
    skipped: int = 0
    """Offsets that a replay leaves out at the beginning of each partition."""
    short: int = 0
    """Offsets before the end of each partition at which a replay ends."""
    facets: bool = False
    weigh: str = "reviews"
    native: bool = False  # where it is installed; embeddings are base64 then


@dataclass(frozen=True)
class Plan:
    """A run."""

    seed: int
    setup: Setup
    steps: tuple[Step, ...]


def draw_replay(seed: int, focus: str | None = None) -> Plan:
    """The plan of a seed as a replay: before the first worker starts there is a history, and it
    goes on meanwhile.
    """
    plan = draw_plan(seed, focus)
    random = Random(f"replay {seed}")
    emit = random.choice(EMITS)
    setup = replace(
        plan.setup,
        emit="coalesced" if emit == "coalesced" else "every",
        emit_mentions=0,
        min_changes=1,  # a replay that publishes none or the last of all changes remembers each
        replay=emit,
        skipped=random.choice((0, 0, 0, 5)),
        short=random.choice((0, 0, 0, 3, 9)),
        transaction_records=random.choice((2, 50_000)),
    )
    drawing = _Drawing(random, setup, None)
    history = tuple(drawing.history() for _ in range(random.choice((0, 20, 50, 80))))
    # who does that starts a replay over
    steps = tuple(step for step in plan.steps if step.kind != "rewind")
    return Plan(seed, setup, history + steps)


def draw_plan(seed: int, focus: str | None = None) -> Plan:
    """The plan of a seed; with `focus` it is full of one kind of step."""
    random = Random(seed)
    setup = Setup(
        workers=random.choice((2, 2, 3)),
        partitions=random.choice((1, 2, 2, 3)),
        standbys=random.random() < 0.3,
        k=random.randint(1, 4),
        distinct=random.random() < 0.3,
        emit=random.choice(("every", "every", "coalesced")),
        cache_bytes=random.choice((0, 6000, 10**8)),
        batch_bytes=random.choice((300, 10**6, 10**6)),
        batch_linger_ms=random.choice((0, 0, 50)),
        restore_rows=random.choice((2, 7, 1000)),
        shuffle=random.randrange(27),
    )
    if setup.emit == "every":  # what is coalesced is compared with every change
        setup = replace(
            setup,
            min_changes=min(setup.k, Random(f"least {seed}").choice((1, 1, 2, 3))),
            emit_mentions=Random(f"mentions {seed}").choice((0, 0, 1, 40)),
        )
    setup = replace(setup, facets=Random(f"facets {seed}").random() < 0.4)
    setup = replace(setup, weigh=Random(f"weigh {seed}").choice(("reviews", "texts")))
    if Random(f"native {seed}").random() < 0.1:  # of other settings native code takes nothing
        setup = replace(setup, native=True, min_changes=1)
    drawing = _Drawing(random, setup, focus)
    return Plan(
        seed, setup, tuple(step for _ in range(random.randint(60, 160)) for step in drawing.steps())
    )


class _Drawing:
    """Draws one step after another."""

    def __init__(self, random: Random, setup: Setup, focus: str | None) -> None:
        self._random = random
        self._focus = focus
        self._setup = setup
        self._load = Load(random, setup.partitions, is_base64=setup.native)
        # Some seeds are full of faults, some have hardly any.
        self._faults = random.choice((0.3, 1.0, 2.5))

    def steps(self) -> list[Step]:
        """The next step, or a few that are drawn together."""
        kinds = self._kinds()
        if self._focus is not None:
            kinds[self._focus] += 20.0
        (kind,) = self._random.choices(list(kinds), list(kinds.values()))
        together = {
            "zombie": self._zombie,
            "slow_fetch": self._slow_fetch,
            "absence": self._absence,
        }
        return together[kind]() if kind in together else [self._step(kind)]

    def history(self) -> Step:
        """The next step of what is there before anybody reads it."""
        (kind,) = self._random.choices(("produce", "upstream", "hole"), (20, 3, 1))
        return self._step(kind)

    def _step(self, kind: str) -> Step:
        arguments: tuple[Any, ...] = getattr(self, f"_{kind}", tuple)()
        return Step(kind, arguments)

    def _zombie(self) -> list[Step]:
        """A worker stops in its commit or takeover for longer than its session, and wakes when it
        has a successor.
        """
        random = self._random
        point = random.choice(
            ("begin", "flush", "offsets", "commit", "commit", "write", "hand over", "fetch", "read")
        )
        return [
            Step("arm", (point, "freeze", random.choice(("before", "after")), 0, 0)),
            self._step("produce"),
            Step("work", (random.randint(3, 6), 5)),
            Step("tick", (random.choice((7, 7, 16)),)),
            Step("rebalance", (random.randrange(27),)),
            Step("work", (random.randint(0, 14), 5)),
            Step("thaw"),
        ]

    def _slow_fetch(self) -> list[Step]:
        """A fetch that begins before a rebalance and ends after it."""
        random = self._random
        return [
            Step(
                "arm",
                (
                    "fetch",
                    "park",
                    random.choice(("before", "before", "after")),
                    random.randrange(3),
                    3,
                ),
            ),
            Step("work", (3, 5)),
            *(self._step("produce") for _ in range(3)),
            Step("rebalance", (random.choice((self._setup.shuffle, random.randrange(27))),)),
            Step("work", (random.randint(10, 25), random.choice((1, 2, 5)))),
            self._step("produce"),
            Step("work", (3, 5)),
        ]

    def _absence(self) -> list[Step]:
        """A worker is away for a month, its disk too; what it remembers has been deleted since."""
        random, worker = self._random, self._worker()
        deletions = [Step("produce", (*self._load.deletion(), -1)) for _ in range(2)]
        return [
            Step("away", (worker,)),
            *deletions,
            Step("work", (35, 20)),
            Step("sleep", (31,)),
            self._step("produce"),
            Step("work", (8, 20)),
            Step("sleep", (1,)),
            Step("back", (worker,)),
            Step("rebalance", (random.randrange(27),)),
            Step("work", (8, 20)),
        ]

    def _kinds(self) -> dict[str, float]:
        calm = {
            "run": 50.0,
            "work": 25.0,
            "produce": 40.0,
            "tick": 3.0,
            "upstream": 3.0,
            "hole": 1.0,
            "compact": 3.0,
        }
        faults = {
            "arm": 10.0,
            "kill": 2.0,
            "freeze": 2.0,
            "zombie": 1.0,
            "slow_fetch": 1.5,
            "absence": 0.3,
            "thaw": 3.0,
            "rebalance": 2.0,
            "stop": 1.0,
            "wipe": 0.7,
            "cut": 0.7,
            "rewind": 0.5,
            "replace": 0.7,
            "sleep": 0.4,
            "move": 2.0,
        }
        return calm | {kind: weight * self._faults for kind, weight in faults.items()}

    def _worker(self) -> int:
        return self._random.randrange(self._setup.workers)

    def _partition(self) -> int:
        return self._random.randrange(self._setup.partitions)

    def _run(self) -> tuple[Any, ...]:
        choice = self._random.choice((0, 0, 1, 2, 3))
        return self._worker(), choice, self._random.choice((1, 2, 3, 5, 20))

    def _work(self) -> tuple[Any, ...]:
        return self._random.randint(1, 6), self._random.choice((1, 2, 3, 5, 20))

    def _produce(self) -> tuple[Any, ...]:
        upstream = self._random.choice((-1, -1, -1, -1, 0, 1))
        return (*self._load.draw(), upstream)

    def _upstream(self) -> tuple[Any, ...]:
        return self._random.randrange(2), self._random.random() < 0.6

    def _hole(self) -> tuple[Any, ...]:
        return self._partition(), self._random.randint(1, 3)

    def _compact(self) -> tuple[Any, ...]:
        return self._partition(), self._random.choice((0, 3, 10))

    def _tick(self) -> tuple[Any, ...]:
        return (self._random.choice((1, 1, 7, 16)),)

    def _arm(self) -> tuple[Any, ...]:
        random = self._random
        (point,) = random.choices(list(POINTS), [WEIGHTS.get(point, 1) for point in POINTS])
        kind = random.choice(("kill", "kill", "park", "park", "fail", "freeze"))
        when = random.choice(("before", "after"))
        return (
            point,
            kind,
            when,
            random.randrange(POINTS[point]),
            random.choice((0, 0, 1, 2, 3, 4, 8, 20)),
        )

    def _move(self) -> tuple[Any, ...]:
        parts = self._random.choice(MOVES)
        return parts, self._random.choice((1, 1, 3, 8, 20))

    def _kill(self) -> tuple[Any, ...]:
        return (self._worker(),)

    _freeze = _stop = _replace = _kill

    def _rebalance(self) -> tuple[Any, ...]:
        return (self._random.randrange(27),)

    def _wipe(self) -> tuple[Any, ...]:
        return self._worker(), self._partition()

    def _cut(self) -> tuple[Any, ...]:
        return self._worker(), self._partition(), self._random.randint(1, 6)

    def _rewind(self) -> tuple[Any, ...]:
        return self._partition(), self._random.randint(1, 10)

    def _sleep(self) -> tuple[Any, ...]:
        return (self._random.choice((1, 31)),)
