"""One entity's state: how its reservoir is searched and refilled, and what proves a ranking."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from worker.coversumm import certificate
from worker.coversumm.copies import Copies
from worker.coversumm.fixed_point import SCALE, EntityFull, exact
from worker.coversumm.index import Index, Neighborhood, Search, Totals
from worker.coversumm.knn import Neighbors, knn
from worker.coversumm.ranking import Ranking
from worker.coversumm.reservoir import Reservoir


@dataclass(slots=True)
class Counters:
    """Counts of the decisions of steps, and their cost."""

    steps: int = 0
    proved_reservoir: int = 0  # the nearest in the reservoir are the nearest of all
    refilled: int = 0  # not proved: the index was asked
    evaluations: int = 0  # times the distances of the whole reservoir were computed
    visited: int = 0  # live sentences at each refill, added up

    def add(self, now: "Counters", before: "Counters") -> None:
        """Add what was counted between two copies. Spelled out: it runs for every entity of a
        micro-batch.
        """
        self.steps += now.steps - before.steps
        self.proved_reservoir += now.proved_reservoir - before.proved_reservoir
        self.refilled += now.refilled - before.refilled
        self.evaluations += now.evaluations - before.evaluations
        self.visited += now.visited - before.visited

    def copy(self) -> "Counters":
        """A copy."""
        return Counters(
            self.steps, self.proved_reservoir, self.refilled, self.evaluations, self.visited
        )


class EntityState:
    """The state that a step reads and writes. S is in float64, exact below 2^53."""

    def __init__(
        self,
        k: int,
        dimension: int,
        index: Index,
        *,
        distinct: bool = False,
        by_text: bool = False,
        scale: int = SCALE,
    ) -> None:
        """An entity without sentences; `index` must be empty (see `EntityCore.load`).

        With `distinct` a vector is shown once, under the lowest id of its copies; with `by_text` it
        also counts once in the centroid. `scale` is the unit of distances. Raises ValueError if k
        or dimension is below 1.
        """
        if k < 1 or dimension < 1:
            raise ValueError(f"k and dimension must be at least 1, not {k} and {dimension}")
        self.k = k
        self.dimension = dimension
        self.index = index
        self.distinct = distinct or by_text
        self.copies = Copies() if by_text else None
        self.scale = scale
        self.n = 0  # live sentences; by text their distinct vectors
        self.total = np.zeros(dimension)
        self.max_squared_norm = 0.0  # of all sentences ever seen
        self.reservoir = Reservoir(dimension, 1 if self.distinct else k)
        self.smallest_target = max(3 * k + 4, 32)
        self.target = self.smallest_target  # distinct vectors a refill asks for
        self.since_refill = 0  # steps
        self.members: frozenset[bytes] = frozenset()  # ids of the ranking after the last step
        self.counters = Counters()  # how steps were decided so far

    @property
    def live(self) -> int:
        """Live sentences."""
        return self.n if self.copies is None else self.copies.live

    # ---- limits

    @property
    def slack(self) -> float:
        """The largest error of a computed squared distance."""
        return certificate.slack(self.dimension, self.max_squared_norm)

    def admit(self, n: int, max_squared_norm: float) -> None:
        """Update the largest norm; raise EntityFull if keys of n sentences might not be exact."""
        largest = max(max_squared_norm, self.max_squared_norm)
        if not exact(n, largest):
            raise EntityFull(
                f"{n} sentences with squared lengths up to {int(largest)}: "
                "keys would not be exact in float64"
            )
        self.max_squared_norm = largest
        if not exact(self.reservoir.anchor_n, largest):
            # comparisons with the old anchor would not be exact: move it
            self.reservoir.exhausted = True

    def begin(self, totals: Totals) -> None:
        """Take the count and sum of sentences that are live already. Raises EntityFull."""
        self.admit(totals.n, totals.max_squared_norm)
        self.n, self.total = totals.n, totals.total
        if self.copies is not None:
            self.copies.settle()

    # ---- searching the reservoir

    def knn(self) -> Neighbors | None:
        """The nearest in the reservoir, or None if it does not hold enough."""
        self.counters.evaluations += 1
        if self.reservoir.exhausted:
            return None
        neighbors = knn(self.reservoir, self.n, self.total, self.k, self.distinct)
        return neighbors if len(neighbors.ids) == self.k or self.complete() else None

    def centroid_squared(self) -> float:
        """|S/n|^2; 0 without sentences."""
        return float(self.total @ self.total) / (self.n * self.n) if self.n else 0.0

    def complete(self) -> bool:
        """True if the reservoir holds every live sentence."""
        return self.reservoir.radius_key is None or self.reservoir.live == self.live

    def outside(self, centroid_squared: float) -> float:
        """A lower bound of the distance from the centroid to sentences outside: radius - drift."""
        reservoir, slack = self.reservoir, self.slack
        assert reservoir.radius_key is not None
        anchor = reservoir.anchor_total / reservoir.anchor_n
        anchor_squared = float(anchor @ anchor)
        radius = certificate.lower(
            reservoir.radius_key / reservoir.anchor_n + anchor_squared, slack
        )
        drift_squared = (
            centroid_squared - 2.0 * float(self.total @ anchor) / self.n + anchor_squared
        )
        return radius - certificate.upper(drift_squared, 4 * slack)

    def proves(self, neighbors: Neighbors) -> bool:
        """The reservoir certificate (Lemma 4): nothing outside is as near as the last neighbor."""
        if self.complete():
            return True
        centroid_squared = self.centroid_squared()
        outside = self.outside(centroid_squared)
        kth_squared = neighbors.keys[-1] / self.n + centroid_squared
        return certificate.upper(kth_squared, self.slack) < outside * certificate.ROOTS

    # ---- refilling

    def refill(self) -> Neighbors:
        """Search the index around the present centroid; its answer needs no certificate."""
        if self.n == 0:
            self.reservoir = Reservoir(self.dimension, self.reservoir.ids_needed)
            return Neighbors([], [], [])
        return self.refilled(self.index.nearest(*self.search()))

    def search(self) -> Search:
        """The search of a refill."""
        self._adapt_target()
        if self.reservoir.exhausted:
            self.reservoir.ids_kept *= 4
        # A reservoir may grow to twice its target: one that may hold everything needs no refills.
        count = self.target if self.n > 2 * self.target else self.n
        return Search(self.n, self.total, count, self.reservoir.ids_kept)

    def refilled(self, found: Neighborhood) -> Neighbors:
        """The nearest of all, after the search of `search`."""
        self.counters.refilled += 1
        self.counters.visited += self.live
        self.reservoir.refill(found, self.n, self.total)
        self.since_refill = 0
        neighbors = self.knn()
        assert neighbors is not None, "a refill brings at least k sentences, or all"
        return neighbors

    def _adapt_target(self) -> None:
        """Balance the cost of refills against the cost of a larger reservoir at every step.

        A refill visits all sentences once; each step until the next refill visits the reservoir's
        rows.
        """
        refill = self.index.scan_cost * self.live
        steps = self.since_refill * self.target
        if steps < refill:
            self.target = min(2 * self.target, 64 * self.smallest_target)
        elif steps > 16 * refill:
            self.target = max(self.target // 2, self.smallest_target)

    def trim(self) -> None:
        """Tighten a reservoir that has grown through additions."""
        if len(self.reservoir) > 2 * self.target:
            if self.reservoir.radius_key is None:  # its anchor moves, as in a refill
                self.since_refill = 0
            self.reservoir.tighten(self.target, self.n, self.total)

    # ---- ranking

    def ranking_of(self, neighbors: Neighbors) -> Ranking:
        """The neighbors as output."""
        keys, ids, rows = neighbors
        support = tuple([self.reservoir.counts[row] for row in rows])
        return Ranking(tuple(ids), support, self.n, keys, self.total.copy(), self.scale)

    def ranking_if_changed(self, neighbors: Neighbors, added: Sequence[bytes]) -> Ranking | None:
        """The ranking of a step that added these ids, if the set of ids changed or one of these is
        in it.
        """
        before, self.members = self.members, frozenset(neighbors.ids)
        if self.members == before and self.members.isdisjoint(added):
            return None
        return self.ranking_of(neighbors)
