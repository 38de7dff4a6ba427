"""How much is run: `make paper` in the paper's sizes, `make paper-quick` in minutes."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tests.bench import streams

K = 20
HELD_OUT = 100  # added to a stream's seed


class Plan(NamedTuple):
    name: str  # of the files
    n: int  # events of a synthetic stream
    reviews: int | None  # sentences of the reviews; None: all
    held_out: int  # sentences of other reviews, on which parameters are found
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
    """So many points a decade, from 1e-5 to 1e-1."""
    return tuple(float(f"{10.0 ** (i / points):.3g}") for i in range(-5 * points, -points + 1))


FULL = Plan(
    name="paper",
    n=10_000,
    reviews=None,
    held_out=2_000,
    grid=_grid(4),
    budget=900.0,
    grid_budget=30.0,
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
    reviews=2_000,
    held_out=400,
    grid=_grid(2),
    budget=5.0,
    grid_budget=1.0,
    dimensions=(10, 30, 100),
    ks=(5, 10, 20, 40),
    modes=(1, 2, 4, 8),
    marks=(1_000, 10_000, 100_000),
    others=10_000,
    stored=2_000,
    deletions=100,
)


class Data(NamedTuple):
    """A stream, and another one like it on which parameters are found."""

    title: str
    vectors: NDArray[np.int16]
    held_out: NDArray[np.int16]
    held_out_is: str

    @property
    def width(self) -> float:
        """The paper's b, in units of the int16 vectors: how far apart the held-out coordinates are.

        That is the support of the bounded streams. Gaussians have none, and what was seen is taken
        for them too.
        """
        return float(int(self.held_out.max()) - int(self.held_out.min()))


def synthetic(make: Callable[..., streams.Stream], seed: int, plan: Plan) -> Data:
    """The stream a `make(n=, seed=)` makes, and one of another seed."""
    stream = make(n=plan.n, seed=seed)
    held_out = make(n=plan.n, seed=seed + HELD_OUT)
    return Data(stream.name, stream.vectors, held_out.vectors, "a stream of another seed")


def real(path: Path, plan: Plan) -> Data:
    """The reviews of a file's largest entity; parameters are found on those of its
    second largest.
    """
    stream = streams.reviews(path, plan.reviews)
    try:
        held_out = streams.reviews(path, plan.held_out, rank=1).vectors
        what = f"the first {len(held_out):,} sentences of the second largest entity"
    except IndexError:
        held_out = stream.vectors[: plan.held_out]
        what = f"its own first {len(held_out):,} sentences: the file has one entity"
    return Data(stream.name, stream.vectors, held_out, what)


def table_1(plan: Plan, path: Path) -> dict[str, Callable[[], Data]]:
    """The streams of the runtime table, made when they are needed."""
    return {
        "uniform": lambda: synthetic(streams.uniform, 1, plan),
        "lda": lambda: synthetic(streams.lda, 2, plan),
        "reviews": lambda: real(path, plan),
        "adversarial": lambda: synthetic(streams.drifting, 3, plan),
    }
