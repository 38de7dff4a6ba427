"""What all the ways but ours begin with: the interface, and the centroid of the live sentences."""

from typing import Protocol

import numpy as np

from worker.coversumm.fixed_point import EntityFull, exact
from worker.coversumm.points import Points, Step, check


class Variant(Protocol):
    """One entity's k nearest, after every step."""

    @property
    def reservoir_searches(self) -> int:
        """Searches over everything so far: a naive method's at every step, the others' for a
        reservoir.
        """
        ...

    @property
    def reservoir_size(self) -> int:
        """Sentences in the reservoir; 0 where there is none."""
        ...

    def apply(self, step: Step) -> tuple[bytes, ...]:
        """Apply a step; the ids of the k nearest, or fewer, in the order of (key, id)."""
        ...


class Centroid:
    """Count and sum of the live sentences, exact (Algorithm 1, lines 3 and 4)."""

    def __init__(self, k: int, dimension: int) -> None:
        if k < 1 or dimension < 1:
            raise ValueError(f"k and dimension must be at least 1, not {k} and {dimension}")
        self.k = k
        self.dimension = dimension
        self.n = 0
        self.total = np.zeros(dimension)
        self.max_squared_norm = 0.0  # of all sentences ever seen
        self.reservoir_searches = 0

    def check(self, step: Step) -> None:
        """Raise VectorError unless the step is well formed."""
        for batch in step:
            check(batch, self.dimension)

    def leave(self, removed: Points) -> None:
        """Subtract sentences."""
        self.n -= len(removed.ids)
        self.total -= removed.vectors.sum(axis=0, dtype=np.float64)

    def join(self, added: Points) -> None:
        """Add sentences. Raises EntityFull if keys would not be exact."""
        x = added.vectors.astype(np.float64)
        self.max_squared_norm = max(self.max_squared_norm, float(np.vecdot(x, x).max(initial=0.0)))
        self.n += len(added.ids)
        if not exact(self.n, self.max_squared_norm):
            raise EntityFull(
                f"{self.n} sentences with squared norms up to {int(self.max_squared_norm)}: "
                "keys would not be exact in float64"
            )
        self.total += x.sum(axis=0)
