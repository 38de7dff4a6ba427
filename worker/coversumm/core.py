"""The core of one entity: its summary, exact after every step (Algorithms 1 and 3).

The reservoir certificate costs one product with the reservoir. Only if it fails is the index
searched.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from worker.coversumm import certificate
from worker.coversumm.copies import Copies
from worker.coversumm.fixed_point import EntityFull, exact
from worker.coversumm.index import Index, Neighborhood, Search, Totals
from worker.coversumm.index.subsets import Subsets
from worker.coversumm.points import Step, check
from worker.coversumm.ranking import Ranking
from worker.coversumm.reservoir import Neighbors, Reservoir


@dataclass(slots=True)
class Counters:
    """Counts of the decisions of steps, and their cost."""

    steps: int = 0
    proved_reservoir: int = 0  # the nearest in the reservoir are the nearest of all
    refilled: int = 0  # not proved: the index was asked
    evaluations: int = 0  # times the distances of the whole reservoir were computed
    visited: int = 0  # live sentences at each refill, added up

    def add(self, others: "Counters") -> None:
        """Add these. Spelled out: it runs for every entity of a micro-batch."""
        self.steps += others.steps
        self.proved_reservoir += others.proved_reservoir
        self.refilled += others.refilled
        self.evaluations += others.evaluations
        self.visited += others.visited


class EntityCore:
    """The k sentences nearest to the centroid of an entity's live sentences (paper: CoverSumm).

    The result is a function of the *set* of live sentences. It does not depend on their order, on
    how steps are grouped into calls, or on when the object was created. UnknownSentence and
    DuplicateSentence mean that the caller's state is broken: discard the object. EntityFull and
    VectorError leave the object as it was before the failing step.

    >>> core = EntityCore(k=2, dimension=2, index=FlatIndex(2))
    >>> good, great, bad = quantize([[4, 3], [4, 4], [-1, 0]])
    >>> def one(id_, vector): return Points([id_], vector[None])
    >>> nothing = no_points(2)
    >>> core.apply([Step(nothing, one(b"r1#0", good)), Step(nothing, one(b"r2#0", great))])
    [Ranking(n=1, ids=(b'r1#0',)), Ranking(n=2, ids=(b'r1#0', b'r2#0'))]

    The third sentence is the farthest from the centroid, so the set does not change:

    >>> core.apply([Step(nothing, one(b"r3#0", bad))])
    [None]
    >>> core.apply([Step(one(b"r1#0", good), nothing)])
    [Ranking(n=2, ids=(b'r2#0', b'r3#0'))]
    """

    def __init__(
        self, k: int, dimension: int, index: Index, *, distinct: bool = False, by_text: bool = False
    ) -> None:
        """An entity without sentences; `index` must be empty (see `load`).

        With `distinct` a vector is shown once, under the lowest id of its copies; with `by_text` it
        also counts once in the centroid. Raises ValueError if k or dimension is below 1.
        """
        if k < 1 or dimension < 1:
            raise ValueError(f"k and dimension must be at least 1, not {k} and {dimension}")
        self.k = k
        self.dimension = dimension
        self.index = index
        self.distinct = distinct or by_text
        self.copies = Copies() if by_text else None
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

    # ---- for callers

    @classmethod
    def load(
        cls, k: int, dimension: int, index: Index, *, distinct: bool = False, by_text: bool = False
    ) -> "EntityCore":
        """An entity with the sentences in `index`, which is read twice: for count and sum, then the
        reservoir.

        Raises EntityFull if there are too many sentences, and ValueError like the constructor.
        """
        core = cls(k, dimension, index, distinct=distinct, by_text=by_text)
        core.read()
        return core

    def read(self) -> None:
        """Take in the sentences of the index, for a new core; see `load`."""
        self.begin(self.index.totals(self.copies))
        self.loaded(self.refill())

    def loaded(self, neighbors: Neighbors) -> None:
        """Begin with these as the set, for a new core."""
        self.ranking_if_changed(neighbors, ())
        self.counters = Counters()

    def apply(self, steps: Sequence[Step]) -> list[Ranking | None]:
        """Apply steps in order; for each its ranking if the set of ids changed or a member was
        added, or None.

        The results are the same to the bit for any grouping of steps into calls. Raises
        VectorError, EntityFull, UnknownSentence or DuplicateSentence; see the class for the state
        after an error.
        """
        return [self._apply(step) for step in steps]

    def _apply(self, step: Step) -> Ranking | None:
        removed, added = step
        check(removed, self.dimension)
        check(added, self.dimension)
        copies, gone, come = self.copies, removed.vectors, added.vectors
        net = None if copies is None else copies.net(removed, added)
        if net is not None:
            gone, come = net.left, come[net.joined]
        n = self.n - len(gone) + len(come)
        x = added.vectors.astype(np.float64)
        squared_norms = np.vecdot(x, x)
        if added.ids:
            self.admit(n, float(squared_norms.max()))
        self.index.update(removed, added)
        if copies is not None and net is not None:
            copies.apply(net)
        self.n = n
        self.total += come.sum(axis=0) - gone.sum(axis=0)
        self.counters.steps += 1
        self.since_refill += 1
        self.reservoir.remove(removed)
        if added.ids:
            self.reservoir.insert(added, x, squared_norms)
        neighbors = self.knn()
        if neighbors is not None and self.proves(neighbors):
            self.counters.proved_reservoir += 1
        else:
            neighbors = self.refill()
        ranking = self.ranking_if_changed(neighbors, added.ids)
        self.trim()
        return ranking

    def ranking(self) -> Ranking:
        """The current summary."""
        neighbors = self.knn()
        if neighbors is None or not self.proves(neighbors):
            neighbors = self.refill()
        return self.ranking_of(neighbors)

    @property
    def reservoir_size(self) -> int:
        """Number of distinct vectors in the reservoir."""
        return len(self.reservoir)

    @property
    def memory_bytes(self) -> int:
        """Approximate memory of this object and its index, in bytes."""
        arrays = 1 if self.reservoir.radius_key is None else 2  # the sum, the anchor's
        return (
            self.reservoir.memory_bytes
            + self.index.memory_bytes
            + arrays * self.total.nbytes
            + (0 if self.copies is None else self.copies.memory_bytes)
            + 2000
        )

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
        neighbors = self.reservoir.knn(self.n, self.total, self.k, self.distinct)
        return neighbors if len(neighbors.ids) == self.k or self.complete() else None

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
        centroid_squared = float(self.total @ self.total) / (self.n * self.n)
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
        return Ranking(tuple(ids), support, self.n, keys, self.total.copy())

    def ranking_if_changed(self, neighbors: Neighbors, added: Sequence[bytes]) -> Ranking | None:
        """The ranking of a step that added these ids, if the set of ids changed or one of these is
        in it.
        """
        before, self.members = self.members, frozenset(neighbors.ids)
        if self.members == before and self.members.isdisjoint(added):
            return None
        return self.ranking_of(neighbors)


def load_all(cores: Sequence[EntityCore], subsets: Subsets) -> None:
    """Load new cores, each with a subset of the same stored sentences, which are read as often as
    for one of them. A core of an empty subset stays new.

    Raises EntityFull.
    """
    counted = subsets.totals([core.copies for core in cores])
    for core, totals in zip(cores, counted, strict=True):
        core.begin(totals)
    filled = [core for core in cores if core.n]
    searches = {at: core.search() for at, core in enumerate(cores) if core.n}
    for core, found in zip(filled, subsets.nearest(searches), strict=True):
        core.loaded(core.refilled(found))
