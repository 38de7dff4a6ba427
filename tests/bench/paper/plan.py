"""How much is run: `make paper` in the paper's sizes, `make paper-quick` in minutes."""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tests.bench import streams

K = 20
HELD_OUT = 100  # added to a stream's seed
SPACE_DIMENSION = 8_192  # of the paper's vectors of SPACE
SHOWN_AT = (10, 50, 100, 300, 500)  # sentences, after which the paper shows one summary
# What random and decay are tuned over: p, and c1 (in units of b) with c2.
COINS = tuple({"p": p} for p in (0.1, 0.3, 0.5, 0.7, 0.9))
DECAYS = tuple({"c1": c1, "c2": c2} for c1 in (0.0015, 0.015, 0.15) for c2 in (1e-5, 1e-4, 1e-3))


class Plan(NamedTuple):
    name: str  # of the files
    n: int  # events of a synthetic stream
    space: int  # events of the stream in SPACE's dimension
    entities: int  # of the reviews, the largest ones
    reviews: int | None  # sentences of an entity; None: all
    held_out: int  # events of a stream of their own, on which parameters are found
    runs: int  # of a method on a stream, in turns with the others
    again: float  # seconds: a method whose run takes longer runs once
    grid: tuple[float, ...]  # of alpha
    budget: float  # seconds a method may take for a stream
    grid_budget: float  # seconds a point of the grid may take
    dimensions: tuple[int, ...]
    ks: tuple[int, ...]
    modes: tuple[int, ...]
    marks: tuple[int, ...]  # n at which the time per event is taken
    others: int  # n up to which the paper's best is taken besides ours and flat search
    stored: int  # sentences before the first deletion
    deletions: int


def _grid(points: int) -> tuple[float, ...]:
    """So many points a decade, from 1e-5 to 1e-2."""
    return tuple(float(f"{10.0 ** (i / points):.3g}") for i in range(-5 * points, -2 * points + 1))


FULL = Plan(
    name="paper",
    n=10_000,
    space=1_000,
    entities=6,
    reviews=None,
    held_out=2_000,
    runs=5,
    again=5.0,
    grid=_grid(4),
    budget=900.0,
    grid_budget=10.0,
    dimensions=(10, 30, 100, 300),
    ks=(5, 10, 20, 40, 80),
    modes=(1, 2, 4, 8, 16),
    marks=(1_000, 10_000, 100_000, 1_000_000),
    others=100_000,
    stored=5_000,
    deletions=500,
)
QUICK = Plan(
    name="paper-quick",
    n=2_000,
    space=300,
    entities=2,
    reviews=500,
    held_out=400,
    runs=3,
    again=1.5,
    grid=_grid(2),
    budget=5.0,
    grid_budget=1.0,
    dimensions=(10, 30, 100),
    ks=(5, 10, 20, 40),
    modes=(1, 4, 8),
    marks=(1_000, 10_000, 100_000),
    others=10_000,
    stored=1_000,
    deletions=100,
)


class Data(NamedTuple):
    """A stream an entity, and another one like them on which parameters are found."""

    title: str
    entities: list[NDArray[np.int16]]
    held_out: NDArray[np.int16]
    held_out_is: str

    @property
    def width(self) -> float:
        """The paper's b, in units of the int16 vectors: how far apart the held-out coordinates are.

        That is the support of the bounded streams. Gaussians have none, and what was seen is taken
        for them too.
        """
        return float(int(self.held_out.max()) - int(self.held_out.min()))


def synthetic(
    make: Callable[..., streams.Stream], seed: int, plan: Plan, n: int | None = None
) -> Data:
    """The stream a `make(n=, seed=)` makes, and the beginning of one of another seed."""
    n = plan.n if n is None else n
    stream = make(n=n, seed=seed)
    held_out = make(n=n, seed=seed + HELD_OUT).vectors[: plan.held_out]
    what = f"{len(held_out):,} events of another seed"
    return Data(stream.name, [stream.vectors], held_out, what)


def real(path: Path, plan: Plan) -> Data:
    """The reviews of a file's largest entities; parameters are found on those of the one after
    them, or on the smallest of them where there is none.
    """
    found: list[streams.Stream] = []
    with suppress(IndexError):
        for rank in range(plan.entities + 1):
            found.append(streams.reviews(path, plan.reviews, rank))
    held_out = found[-1].vectors[: plan.held_out]
    entities = [of.vectors for of in found[: plan.entities]]
    lengths = ", ".join(f"{len(of):,}" for of in entities)
    title = f"{path.name.partition('.')[0]}: {lengths} x {held_out.shape[1]}"
    return Data(title, entities, held_out, f"the first {len(held_out):,} of {found[-1].name}")


def table_1(plan: Plan, path: Path) -> dict[str, Callable[[], Data]]:
    """The streams of the runtime table, made when they are needed."""
    in_space = partial(streams.clusters, dimension=SPACE_DIMENSION)
    return {
        "uniform": lambda: synthetic(streams.uniform, 1, plan),
        "lda": lambda: synthetic(streams.lda, 2, plan),
        "space": lambda: synthetic(in_space, 4, plan, plan.space),
        "reviews": lambda: real(path, plan),
        "adversarial": lambda: synthetic(streams.drifting, 3, plan),
        "drift": lambda: synthetic(streams.drift, 6, plan),
    }
