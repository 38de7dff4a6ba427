"""One entity's state and the two things both paths do with it: look at the reservoir, and refill it.

`single` takes one step at a time, `bulk` many; both change this state only, and leave the same.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from worker.coversumm import certificate
from worker.coversumm.errors import EntityFull
from worker.coversumm.fixed_point import exact
from worker.coversumm.index import Index
from worker.coversumm.ranking import Ranking, expand
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


class View(NamedTuple):
    """The reservoir seen from a centroid."""

    ids: list[bytes]
    owners: list[int]  # the reservoir row of each id
    keys: list[float]
    next_key: float  # of the nearest sentence in the reservoir not among them; infinite if none


@dataclass(slots=True)
class Gap:
    """What the gap certificate remembers of the last evaluation (see `single`)."""

    mean: NDArray[np.float64]  # the centroid then
    mean_squared: float
    kth: float  # an upper bound of d_k then
    limit: float  # a lower bound, from that centroid, of the distance of every sentence not in the ranking


class Ball(NamedTuple):
    """The reservoir's anchor and radius in float64."""

    what: tuple[int, float, float]
    anchor_sum: NDArray[np.float64]
    anchor: NDArray[np.float64]
    anchor_squared: float
    radius: float  # a lower bound
    error: float  # `certificate.slack`


class State:
    """Fields are read and written by `single` and `bulk`. S is held in float64, which is exact below 2^53."""

    def __init__(self, k: int, dimension: int, index: Index, *, distinct: bool, scale: int) -> None:
        self.k = k
        self.dimension = dimension
        self.index = index
        self.distinct = distinct
        self.scale = scale
        self.n = 0
        self.sum = np.zeros(dimension)
        self.longest = 0.0  # largest squared norm ever seen
        self.reservoir = Reservoir(dimension, 1 if distinct else k)
        self.smallest_target = max(3 * k + 4, 32)
        self.target = self.smallest_target  # distinct vectors a refill asks for
        self.since_refill = 0  # steps
        self.shown: tuple[bytes, ...] = ()  # ids of the ranking after the last step
        self.members: frozenset[bytes] = frozenset()
        self.counters = Counters()
        self.gap: Gap | None = None
        self._ball: Ball | None = None
        self.stride = 128  # steps a bulk run tries at once
        self.kth = 0.0  # d_k when last computed: tells where a bulk run is likely to need a refill

    # ---- limits

    def admit(self, n: int, longest: float) -> None:
        """Take note of the longest vector; raise EntityFull if keys of n sentences might not be exact."""
        longest = max(longest, self.longest)
        if not exact(n, longest):
            raise EntityFull(
                f"{n} sentences with squared lengths up to {int(longest)}: keys would not be exact in float64"
            )
        self.longest = longest
        if not exact(self.reservoir.anchor_n, longest):
            self.reservoir.starved = True  # the old anchor cannot be compared with exactly: move it

    # ---- looking

    def view(self) -> View | None:
        """What the reservoir ranks nearest; None when it does not hold enough to tell."""
        reservoir, k = self.reservoir, self.k
        self.counters.evaluations += 1
        if reservoir.starved:
            return None
        keys = reservoir.keys(self.n, self.sum)
        order = keys.argsort()
        head = order[: k + 1]
        rows, values = head.tolist(), keys[head].tolist()
        if len(set(values)) < len(values):
            view = self._view_of_equals(keys, order)
        elif self.distinct or reservoir.live == len(reservoir):  # no copies either: most often
            low = reservoir.low
            top = rows[:k]
            view = View(
                [low[row][0] for row in top], top, values[:k], values[k] if len(values) > k else np.inf
            )
        else:
            ids, owners, chosen = expand(rows, values, reservoir.low, k, distinct=False)
            last = owners[-1] if owners else 0
            if owners and owners.count(last) < reservoir.counts[last]:
                view = View(ids, owners, chosen, chosen[-1])
            else:
                after = rows.index(last) + 1 if owners else 0
                view = View(ids, owners, chosen, values[after] if after < len(values) else np.inf)
        if len(view.ids) < k and not self.complete():
            return None
        return view

    def _view_of_equals(self, keys: NDArray[np.float64], order: NDArray[np.int64]) -> View:
        """The same where keys are equal: all rows up to the k-th key, ties and all."""
        reservoir, k = self.reservoir, self.k
        weights = [1] * len(order) if self.distinct else reservoir.counts
        rows, values = order.tolist(), keys[order].tolist()
        held, end = 0, 0
        while end < len(rows) and (held < k or values[end] == values[end - 1]):
            held += weights[rows[end]]
            end += 1
        ids, owners, chosen = expand(rows[:end], values[:end], reservoir.low, k, self.distinct)
        next_key = values[end - 1] if held > k else values[end] if end < len(values) else np.inf
        return View(ids, owners, chosen, next_key)

    def complete(self) -> bool:
        """Whether the reservoir holds every live sentence."""
        return self.reservoir.radius_key is None or self.reservoir.live == self.n

    def outside(self, mean_squared: float) -> float:
        """A lower bound of the distance from the centroid of every sentence left out of the reservoir: radius - delta."""
        if self.complete():
            return np.inf
        ball = self.ball()
        drift_squared = mean_squared - 2.0 * float(self.sum @ ball.anchor) / self.n + ball.anchor_squared
        return ball.radius - certificate.upper(drift_squared, 4 * ball.error)

    def ball(self) -> Ball:
        """The reservoir's ball in float64, made once per anchor, radius and largest vector."""
        reservoir = self.reservoir
        assert reservoir.radius_key is not None
        what = (reservoir.anchor_n, reservoir.radius_key, self.longest)
        if self._ball is None or self._ball.what != what or self._ball.anchor_sum is not reservoir.anchor_sum:
            anchor = reservoir.anchor_sum / reservoir.anchor_n
            anchor_squared = float(anchor @ anchor)
            error = certificate.slack(self.dimension, self.longest)
            radius = certificate.lower(reservoir.radius_key / reservoir.anchor_n + anchor_squared, error)
            self._ball = Ball(what, reservoir.anchor_sum, anchor, anchor_squared, radius, error)
        return self._ball

    def proves(self, view: View) -> bool:
        """The certificate: whether nothing outside the reservoir can be as near as the view's last."""
        if self.complete():
            return True
        mean_squared = float(self.sum @ self.sum) / (self.n * self.n)
        self.kth = kth = certificate.upper(view.keys[-1] / self.n + mean_squared, self.ball().error)
        return kth < self.outside(mean_squared) * certificate.ROOTS

    # ---- refilling

    def refill(self) -> View:
        """Ask the index around the present centroid; the answer needs no certificate."""
        if self.n == 0:
            self.reservoir = Reservoir(self.dimension, self.reservoir.need)
            return View([], [], [], np.inf)
        self.counters.refilled += 1
        self._adapt()
        reservoir = self.reservoir
        if reservoir.starved:
            reservoir.hold *= 4
        found = self.index.nearest(self.n, self.sum, self.target, reservoir.hold)
        self.counters.visited += self.n
        reservoir.refill(found, self.n, self.sum)
        self.since_refill = 0
        view = self.view()
        assert view is not None, "a refill brings at least k sentences, or all"
        return view

    def _adapt(self) -> None:
        """Balance what refills cost against what a larger reservoir costs at every step.

        A refill visits n sentences once; the reservoir's rows are visited at each of the steps until the next refill.
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
            self.reservoir.tighten(self.target, self.n, self.sum)

    # ---- showing

    def show(self, view: View, added: Sequence[bytes], n: int, total: NDArray[np.float64]) -> Ranking | None:
        """The ranking at total/n if its ids are not those shown last, or one of them was added in this step."""
        return self.ranking(view, n, total) if self.news(tuple(view.ids), added) else None

    def news(self, ids: tuple[bytes, ...], added: Sequence[bytes]) -> bool:
        """Whether ids now shown are not those shown last, order aside, or one of them was added in this step."""
        changed = False
        if ids != self.shown:
            members = frozenset(ids)
            changed = members != self.members
            self.shown, self.members = ids, members
        return changed or not self.members.isdisjoint(added)

    def ranking(self, view: View, n: int, total: NDArray[np.float64]) -> Ranking:
        """A view as what goes out."""
        counts = self.reservoir.counts
        support = tuple([counts[row] for row in view.owners])
        return Ranking(tuple(view.ids), support, n, view.keys, total.copy(), self.scale)
