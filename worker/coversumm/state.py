"""One entity's state, and the two things both paths do with it: find the nearest in the reservoir,
and refill it.

`single` takes one step at a time, `bulk` many; both change this state only, and leave the same.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from worker.coversumm import certificate
from worker.coversumm.certificate import Gap
from worker.coversumm.fixed_point import EntityFull, exact
from worker.coversumm.index import Index
from worker.coversumm.knn import Neighbors, knn
from worker.coversumm.ranking import Ranking
from worker.coversumm.reservoir import Reservoir


@dataclass(slots=True)
class Counters:
    """How the steps were decided, and what it took."""

    steps: int = 0
    proved_gap: int = 0  # the centroid had not drifted far enough for any change
    proved_reservoir: int = 0  # the nearest in the reservoir are the nearest of all
    refilled: int = 0  # neither: the index was asked
    evaluations: int = 0  # times the distances of the whole reservoir were computed
    visited: int = 0  # live sentences at each refill, added up

    def add(self, now: "Counters", before: "Counters") -> None:
        """Add what was counted between two moments. For every entity of every micro-batch, so it is
        spelled out.
        """
        self.steps += now.steps - before.steps
        self.proved_gap += now.proved_gap - before.proved_gap
        self.proved_reservoir += now.proved_reservoir - before.proved_reservoir
        self.refilled += now.refilled - before.refilled
        self.evaluations += now.evaluations - before.evaluations
        self.visited += now.visited - before.visited

    def copy(self) -> "Counters":
        """As they are now."""
        return Counters(
            self.steps,
            self.proved_gap,
            self.proved_reservoir,
            self.refilled,
            self.evaluations,
            self.visited,
        )


class Ball(NamedTuple):
    """The reservoir's anchor and radius in float64."""

    made_of: tuple[int, float, float]
    anchor_total: NDArray[np.float64]
    anchor: NDArray[np.float64]
    anchor_squared: float
    radius: float  # a lower bound
    slack: float  # `certificate.slack`


class EntityState:
    """Fields are read and written by `single` and `bulk`. S is held in float64, which is exact
    below 2^53.
    """

    def __init__(self, k: int, dimension: int, index: Index, *, distinct: bool, scale: int) -> None:
        self.k = k
        self.dimension = dimension
        self.index = index
        self.distinct = distinct
        self.scale = scale
        self.n = 0
        self.total = np.zeros(dimension)
        self.max_squared_norm = 0.0  # of all sentences ever seen
        self.reservoir = Reservoir(dimension, 1 if distinct else k)
        self.smallest_target = max(3 * k + 4, 32)
        self.target = self.smallest_target  # distinct vectors a refill asks for
        self.since_refill = 0  # steps
        self.ranked_ids: tuple[bytes, ...] = ()  # ids of the ranking after the last step
        self.members: frozenset[bytes] = frozenset()  # the same as a set
        self.counters = Counters()
        self.gap: Gap | None = None
        self._ball: Ball | None = None
        self.stride = 128  # steps a bulk run tries at once
        self.kth_distance = (
            0.0  # d_k when last computed: tells where a bulk run is likely to need a refill
        )

    # ---- limits

    @property
    def slack(self) -> float:
        """How far a computed squared distance may be off."""
        return certificate.slack(self.dimension, self.max_squared_norm)

    def admit(self, n: int, max_squared_norm: float) -> None:
        """Take note of the longest vector; raise EntityFull if keys of n sentences might not be
        exact.
        """
        largest = max(max_squared_norm, self.max_squared_norm)
        if not exact(n, largest):
            raise EntityFull(
                f"{n} sentences with squared lengths up to {int(largest)}: keys would not be exact in float64"
            )
        self.max_squared_norm = largest
        if not exact(self.reservoir.anchor_n, largest):
            self.reservoir.exhausted = (
                True  # the old anchor cannot be compared with exactly: move it
            )

    # ---- searching the reservoir

    def knn(self) -> Neighbors | None:
        """The nearest in the reservoir; None when it does not hold enough to tell."""
        self.counters.evaluations += 1
        if self.reservoir.exhausted:
            return None
        neighbors = knn(self.reservoir, self.n, self.total, self.k, self.distinct)
        return neighbors if len(neighbors.ids) == self.k or self.complete() else None

    def centroid_squared(self) -> float:
        """|S/n|^2; 0 without sentences."""
        return float(self.total @ self.total) / (self.n * self.n) if self.n else 0.0

    def proves(self, neighbors: Neighbors, centroid_squared: float) -> bool:
        """The reservoir certificate (Lemma 4): whether nothing outside can be as near as the last
        of the neighbors.
        """
        if self.complete():
            return True
        distance_squared = neighbors.keys[-1] / self.n + centroid_squared
        self.kth_distance = certificate.upper(distance_squared, self.ball().slack)
        return self.kth_distance < self.outside(centroid_squared) * certificate.ROOTS

    def complete(self) -> bool:
        """Whether the reservoir holds every live sentence."""
        return self.reservoir.radius_key is None or self.reservoir.live == self.n

    def outside(self, centroid_squared: float) -> float:
        """A lower bound of the distance from the centroid of every sentence left out of the
        reservoir: radius - drift.
        """
        if self.complete():
            return np.inf
        ball = self.ball()
        drift_squared = (
            centroid_squared - 2.0 * float(self.total @ ball.anchor) / self.n + ball.anchor_squared
        )
        return ball.radius - certificate.upper(drift_squared, 4 * ball.slack)

    def ball(self) -> Ball:
        """The reservoir's ball in float64, computed once per anchor, radius and largest vector."""
        reservoir = self.reservoir
        assert reservoir.radius_key is not None
        made_of = (reservoir.anchor_n, reservoir.radius_key, self.max_squared_norm)
        ball = self._ball
        if (
            ball is None
            or ball.made_of != made_of
            or ball.anchor_total is not reservoir.anchor_total
        ):
            anchor = reservoir.anchor_total / reservoir.anchor_n
            anchor_squared, slack = float(anchor @ anchor), self.slack
            radius = certificate.lower(
                reservoir.radius_key / reservoir.anchor_n + anchor_squared, slack
            )
            self._ball = ball = Ball(
                made_of, reservoir.anchor_total, anchor, anchor_squared, radius, slack
            )
        return ball

    # ---- refilling

    def refill(self) -> Neighbors:
        """Ask the index around the present centroid; the answer needs no certificate."""
        if self.n == 0:
            self.reservoir = Reservoir(self.dimension, self.reservoir.ids_needed)
            return Neighbors([], [], [], np.inf)
        self.counters.refilled += 1
        self._adapt_target()
        reservoir = self.reservoir
        if reservoir.exhausted:
            reservoir.ids_kept *= 4
        found = self.index.nearest(self.n, self.total, self.target, reservoir.ids_kept)
        self.counters.visited += self.n
        reservoir.refill(found, self.n, self.total)
        self.since_refill = 0
        neighbors = self.knn()
        assert neighbors is not None, "a refill brings at least k sentences, or all"
        return neighbors

    def _adapt_target(self) -> None:
        """Balance what refills cost against what a larger reservoir costs at every step.

        A refill visits n sentences once; the reservoir's rows are visited at each of the steps
        until the next refill.
        """
        refill = self.index.scan_cost * self.n
        steps = self.since_refill * self.target
        if steps < refill:
            self.target = min(2 * self.target, 64 * self.smallest_target)
        elif steps > 16 * refill:
            self.target = max(self.target // 2, self.smallest_target)

    def trim(self) -> None:
        """Tighten a reservoir that adds have swollen."""
        if len(self.reservoir) > 2 * self.target:
            self.reservoir.tighten(self.target, self.n, self.total)

    # ---- ranking

    def ranking(self, neighbors: Neighbors, centroid_squared: float) -> Ranking:
        """The neighbors as what goes out."""
        reservoir = self.reservoir
        if reservoir.live == len(reservoir):  # no copies: most often
            support = (1,) * len(neighbors.rows)
        else:
            support = tuple([reservoir.counts[row] for row in neighbors.rows])
        ids, total = tuple(neighbors.ids), self.total.copy()
        return Ranking(ids, support, self.n, neighbors.keys, total, self.scale, centroid_squared)

    def ranking_if_changed(
        self, neighbors: Neighbors, added: Sequence[bytes], centroid_squared: float
    ) -> Ranking | None:
        """The ranking of a step that added these ids, if it changed the set or a member is among
        them.
        """
        if self.note_ranked(tuple(neighbors.ids), added):
            return self.ranking(neighbors, centroid_squared)
        return None

    def note_ranked(self, ids: tuple[bytes, ...], added: Sequence[bytes]) -> bool:
        """Remember the ids now ranked; whether their set changed, order aside, or one of them was
        added in this step.
        """
        changed = False
        if ids != self.ranked_ids:
            members = frozenset(ids)
            changed = members != self.members
            self.ranked_ids, self.members = ids, members
        return changed or not self.members.isdisjoint(added)
