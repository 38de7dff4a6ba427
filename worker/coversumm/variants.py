"""The ways to keep the k nearest to a moving centroid that the paper compares, and ours, on one interface.

For comparison alone: the worker never imports this. All take the same int16 vectors and rank by the same exact keys,
ties by id, so that where two differ it is the algorithm and not rounding; only drift and lambda are float64.

                          searches everything          a new sentence joins R if      exact
    brute-force           at every step                -                              always
    naive-cover-tree      at every step                -                              always
    coversumm-knn-range   drift >= lambda/2, R full    within the radius r            under assumptions (below)
    coversumm-reservoir   the same, in one traversal   within the radius r            the same
    coversumm-lazy        the same, inserting late     within the radius r            the same
    coversumm-random      as coversumm-lazy            a coin says so                 no
    coversumm-decay       as coversumm-lazy            drift <= c1 exp(-c2 t)         no
    exact                 when nothing proves the set  within the radius              always

Lines are those of the paper's algorithms as printed, comments counted: Algorithm 1 (CoverSumm), 2 (ReservoirSearch), 3
(Delete). Equation 4 is the reservoir's radius, d_k + lambda.

Where the printed algorithms err, and why:

- Algorithm 1, line 16, sets r to the distance of the farthest member of R, not to d_k + lambda, within which R is known
  to be complete. A new sentence between the two is turned away by line 20 though it may become one of the k nearest
  before the next search. The proof of exactness speaks only of sentences that were there at the search. Dense data
  leave a narrow gap; a reservoir that ends at an edge of the data loses neighbours.
- The same at the start: the first search knows one sentence, so r = 0. With a lambda so large that the drift stays
  below half of it nothing joins, and R stays smaller than k: line 9, unlike Algorithm 3, does not ask for |R| >= k.
  A generous alpha therefore costs accuracy in the first steps, and all of it if it is too generous. (The authors'
  published code searches at each of the first 100 steps; the paper does not say so.)
- Line 9, |R| >= c_max: nothing cuts what a search returns, so a search that brings c_max or more is repeated at every
  step until it brings less. That is exact, and as slow as a naive cover tree.
- Algorithm 3, line 11, searches if |R| < k, but the loss of near members widens d_k: after j of them the k-th in R may
  be anywhere up to d_k + lambda from the last centroid, sentences outside R begin right behind it, and drift below
  lambda/2 no longer separates the two.
- Algorithm 3 sets no r: after its search the r of Algorithm 1 stands, now around another centroid.

Exact otherwise: with drift below lambda/2 every sentence that the search left out is farther than d_k + lambda/2, and k
of R are within that. It takes no probability; Hoeffding's bound only says that searches will be rare.
"""

from collections.abc import Callable, Iterable, Sequence
from math import exp, inf, log, sqrt
from random import Random
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from worker.coversumm import certificate
from worker.coversumm.core import CoverSumm
from worker.coversumm.errors import DuplicateSentence, EntityFull, UnknownSentence
from worker.coversumm.fixed_point import exact
from worker.coversumm.index.flat import FlatIndex
from worker.coversumm.index.sgtree import Found, SGTree
from worker.coversumm.points import Points, Step, check

K = 20  # the paper's summary budget, in all of its experiments
ALPHA = 0.001  # the paper tunes it on held-out data and prints no value; this one suits uniform data
C_MAX = 100  # not in the paper; the authors' published code has it as a constant


class Variant(Protocol):
    """One entity's k nearest, after every step."""

    @property
    def reservoir_searches(self) -> int:
        """Searches over everything so far: a naive method's at every step, the others' for a reservoir."""
        ...

    @property
    def reservoir_size(self) -> int:
        """Sentences in the reservoir; 0 where there is none."""
        ...

    def apply(self, step: Step) -> tuple[bytes, ...]:
        """Apply a step; the ids of the k nearest, or fewer, in the order of (key, id)."""
        ...


def nearest(keys: NDArray[np.float64], ids: Sequence[bytes], k: int) -> tuple[bytes, ...]:
    """The k ids (or all) lowest by (key, id), in that order; one key an id."""
    if len(ids) > k:
        rows = np.flatnonzero(keys <= np.partition(keys, k - 1)[k - 1])
        keys, ids = keys[rows], [ids[row] for row in rows.tolist()]
    return tuple([id_ for _, id_ in sorted(zip(keys.tolist(), ids, strict=True))[:k]])


class Rows:
    """Sentences as a matrix in float64, which holds int16 exactly and multiplies fast."""

    def __init__(
        self, dimension: int, ids: Iterable[bytes] = (), vectors: NDArray[np.int16] | None = None
    ) -> None:
        self.ids = list(ids)
        m = len(self.ids)
        self._rows = dict(zip(self.ids, range(m), strict=True))
        self._matrix = np.empty((max(8, 2 * m), dimension))
        self._squared = np.empty(len(self._matrix))
        if vectors is not None:
            x = self._matrix[:m]
            x[:] = vectors
            np.einsum("ij,ij->i", x, x, out=self._squared[:m])

    def __len__(self) -> int:
        return len(self.ids)

    def add(self, id_: bytes, vector: NDArray[np.int16]) -> None:
        """Raises DuplicateSentence if the id is there."""
        row = len(self.ids)
        if self._rows.setdefault(id_, row) != row:
            raise DuplicateSentence(f"sentence {id_!r} is live already")
        if row == len(self._matrix):
            self._matrix = np.concatenate((self._matrix, np.empty_like(self._matrix)))
            self._squared = np.concatenate((self._squared, np.empty_like(self._squared)))
        self.ids.append(id_)
        self._matrix[row] = vector
        self._squared[row] = self._matrix[row] @ self._matrix[row]

    def discard(self, id_: bytes) -> bool:
        """Whether it was there; the last row takes its place."""
        row = self._rows.pop(id_, None)
        if row is None:
            return False
        last = self.ids.pop()
        if row < len(self.ids):
            self.ids[row] = last
            self._rows[last] = row
            self._matrix[row] = self._matrix[len(self.ids)]
            self._squared[row] = self._squared[len(self.ids)]
        return True

    def nearest(self, n: int, total: NDArray[np.float64], k: int) -> tuple[bytes, ...]:
        """The k nearest to total/n, by exact keys."""
        m = len(self.ids)
        keys = self._matrix[:m] @ total
        keys *= -2.0
        keys += self._squared[:m] * n
        return nearest(keys, self.ids, k)


class Centroid:
    """Count and sum of the live sentences, exact: what all but ours begin with (Algorithm 1, lines 3 and 4)."""

    def __init__(self, k: int, dimension: int) -> None:
        if k < 1 or dimension < 1:
            raise ValueError(f"k and dimension must be at least 1, not {k} and {dimension}")
        self.k = k
        self.dimension = dimension
        self.n = 0
        self.total = np.zeros(dimension)
        self.longest = 0.0  # largest squared norm ever seen

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
        self.longest = max(self.longest, float(np.einsum("ij,ij->i", x, x).max(initial=0.0)))
        self.n += len(added.ids)
        if not exact(self.n, self.longest):
            raise EntityFull(
                f"{self.n} sentences with squared lengths up to {int(self.longest)}: keys would not be exact in float64"
            )
        self.total += x.sum(axis=0)


class BruteForce(Centroid):
    """Brute force: the kNN of all live sentences at every step, by one matrix product and a selection.

    Source: section 4, Brute Force Algorithm, S_t = knn(X_t, mu_t), equation 1. Parameter: k. Exact always.
    """

    reservoir_size = 0

    def __init__(self, k: int, dimension: int) -> None:
        super().__init__(k, dimension)
        self.reservoir_searches = 0
        self._rows = Rows(dimension)

    def apply(self, step: Step) -> tuple[bytes, ...]:
        """See `Variant`."""
        self.check(step)
        removed, added = step
        for id_ in removed.ids:
            if not self._rows.discard(id_):
                raise UnknownSentence(f"sentence {id_!r} is not live")
        self.leave(removed)
        self.join(added)
        for id_, vector in zip(added.ids, added.vectors, strict=True):
            self._rows.add(id_, vector)
        self.reservoir_searches += 1
        return self._rows.nearest(self.n, self.total, self.k)


class NaiveTree(Centroid):
    """Naive cover tree: insert(x_t), then knn(mu_t) over the tree, at every step; deletion by the tree's.

    Source: section 4, Naive Algorithm with Cover Tree. Parameter: k. Exact always: the tree's distances to the centroid
    prune conservatively, and what it returns is chosen by exact keys.
    """

    reservoir_size = 0

    def __init__(self, k: int, dimension: int) -> None:
        super().__init__(k, dimension)
        self.reservoir_searches = 0
        self._tree = SGTree(dimension)

    def apply(self, step: Step) -> tuple[bytes, ...]:
        """See `Variant`."""
        self.check(step)
        removed, added = step
        for id_ in removed.ids:
            self._tree.delete(id_)
        self.leave(removed)
        self.join(added)
        for id_, vector in zip(added.ids, added.vectors, strict=True):
            self._tree.insert(id_, vector)
        self.reservoir_searches += 1
        return tuple(self._tree.knn(self.n, self.total, self.k).ids) if self.n else ()


class PaperCoverSumm(Centroid):
    """CoverSumm as printed: Algorithm 1 for each sentence added, Algorithm 3 for what a step removes, which comes first.

    Parameters: k; `b`, the width of the support [-b/2, b/2]^D in units of the int16 vectors (where its middle lies does
    not matter to Hoeffding's inequality); `alpha` of equation 4; `c_max`, line 9; delta = 1/t, as in the paper's
    experiments. Strategies, each a row of the paper's Table 1:

    - `search`: "reservoir" is Algorithm 2, one traversal; "knn+range" asks the tree for d_k and then for all within d_k +
      lambda, which counts as one search.
    - `lazy`: line 6 waits until line 9 holds, and then inserts in a batch (section 4, end). A deletion takes a sentence
      that the tree has not seen from the batch. Answers are those of the eager one.
    - `admit`: line 20. "radius" as printed; "random": x_t joins with probability `p`, drawn with `seed`; "decay": it joins
      if drift <= c1 exp(-c2 t).

    How the lines are read:

    - t is the number of live sentences: Algorithm 3 writes t - |x_del| for those left. t = 1 gives log(2/delta) = log 2.
    - The first step, mu_last being undefined, searches; so does the first after all were deleted.
    - d_k of fewer than k sentences is infinite (Algorithm 2, line 6: at start N.max is infinite): all join R.
    - Line 20 compares with mu_last, by integer keys; by float64 where Algorithm 3 moved mu_last.
    - lambda of line 12 is sqrt(2 alpha D b^2 log(2/delta) / t). Algorithm 3, line 12, prints sqrt(alpha D log(2/delta) /
      (2 (t - |x_del|))): a quarter of the constant, and no b^2. Both are followed; t in its delta is the count before the
      deletion. In units of int16 the second is next to nothing: after it any drift searches again.
    - `ReservoirSearch(mu_t, r, lambda)` in Algorithm 3 is read as Algorithm 2's (mu_t, lambda, k). Its r is not set anew.
    - The summary is formed once a step (lines 23 and, in Algorithm 3, 16): forming it earlier would change nothing.
    - decay: the paper says that it replaces line 6, the insertion, but also that the threshold decides "whether a new
      point should be part of the reservoir"; that is line 20. Its Delta is the drift of line 8, its T is t. The constants
      are not printed: c1 = 0.0015 b, c2 = 1/10000 are those of the published code for data of width 2.

    Where it fails: see the head of this module. "random" loses each new near sentence that the coin turns away until the
    next search (line 20), and fills R with far ones, which makes line 9 search more often. "decay" turns away near ones
    whenever the drift is above a threshold that knows nothing of the data, at first nearly always.

    The published code differs: it takes log2 and alpha/2 without b^2 and delta = 100/t; searches at each step up to t =
    100; admits by dist < the largest distance in R (by dist < d_k in its variant without a range search);
    knows neither deletions nor an order among ties. Its "random" never searches, holds the last 100 that won the coin,
    and its "decay" has R = the k nearest of the last search, admits nobody, and searches if drift > c1 exp(-c2 t): the
    text of the paper describes neither, and its accuracies of 0.2 and 1.0 percent are theirs.
    """

    def __init__(
        self,
        k: int,
        dimension: int,
        *,
        b: float,
        alpha: float = ALPHA,
        c_max: int = C_MAX,
        search: Literal["reservoir", "knn+range"] = "reservoir",
        lazy: bool = False,
        admit: Literal["radius", "random", "decay"] = "radius",
        p: float = 0.5,
        seed: int = 0,
        c1: float | None = None,
        c2: float = 1e-4,
    ) -> None:
        super().__init__(k, dimension)
        self.b, self.alpha, self.c_max = b, alpha, c_max
        self.search, self.lazy, self.admit = search, lazy, admit
        self.p, self.c1, self.c2 = p, 0.0015 * b if c1 is None else c1, c2
        self.reservoir_searches = 0
        self.lam = 0.0  # lambda
        self._coin = Random(seed)
        self._tree = SGTree(dimension)
        self._pending: dict[bytes, NDArray[np.int16]] = {}  # what a lazy tree has not seen
        self._reservoir = Rows(dimension)
        self._last: NDArray[np.float64] | None = None  # mu_last, and as sum and count:
        self._last_total, self._last_n = self.total, 0
        self._radius_key = -inf  # r as a key around mu_last

    @property
    def reservoir_size(self) -> int:
        """See `Variant`."""
        return len(self._reservoir)

    @property
    def pending(self) -> int:
        """Sentences that a lazy tree has not seen."""
        return len(self._pending)

    def apply(self, step: Step) -> tuple[bytes, ...]:
        """See `Variant`."""
        self.check(step)
        removed, added = step
        if removed.ids:
            self._delete(removed)
        for row, id_ in enumerate(added.ids):
            self._add(id_, added.vectors[row : row + 1])
        return self._reservoir.nearest(self.n, self.total, self.k)  # line 23; Algorithm 3, line 16

    def _add(self, id_: bytes, x: NDArray[np.int16]) -> None:
        """Algorithm 1, for one sentence (1, D)."""
        self.join(Points((id_,), x))  # lines 3, 4
        self._insert(id_, x[0])  # line 6
        t, drift = self.n, self._drift()  # line 8
        if drift >= self.lam / 2 or len(self._reservoir) >= self.c_max:  # line 9
            delta = 1 / t  # line 10
            self.lam = sqrt(2 * self.alpha * self.dimension * self.b**2 * log(2 / delta) / t)  # line 12
            self._radius_key = self._search_all()  # lines 14, 16, 17
        elif self._joins(x[0].astype(np.float64), drift):  # line 20
            self._reservoir.add(id_, x[0])

    def _delete(self, removed: Points) -> None:
        """Algorithm 3, for what a step removes."""
        t, m = self.n, len(removed.ids)
        self.leave(removed)  # lines 2, 6
        for id_ in removed.ids:
            if self._pending.pop(id_, None) is None:
                self._tree.delete(id_)  # line 4
            self._reservoir.discard(id_)  # line 9
        if self.n == 0:  # no centroid: as before the first step
            self._last, self.lam = None, 0.0
        elif self._drift() > self.lam / 2 or len(self._reservoir) < self.k:  # lines 8, 11
            delta = 1 / t
            self.lam = sqrt(self.alpha * self.dimension * log(2 / delta) / (2 * (t - m)))  # line 12
            radius = self._distance(self._radius_key)
            self._search_all()  # lines 13, 14
            self._radius_key = (radius * radius - float(self._last @ self._last)) * self._last_n  # type: ignore[operator]

    def _insert(self, id_: bytes, vector: NDArray[np.int16]) -> None:
        if not self.lazy:
            self._tree.insert(id_, vector)
        elif id_ in self._tree or self._pending.setdefault(id_, vector) is not vector:
            raise DuplicateSentence(f"sentence {id_!r} is live already")

    def _settle(self) -> None:
        """Insert what waits."""
        if self._pending:
            self._tree.insert_batch(
                Points(list(self._pending), np.array(list(self._pending.values()), np.int16))
            )
            self._pending.clear()

    def _drift(self) -> float:
        """How far the centroid is from mu_last; infinite before the first search."""
        if self._last is None:
            return inf
        way = self.total / self.n
        way -= self._last
        return sqrt(way @ way)

    def _distance(self, key: float) -> float:
        """A key around mu_last as a distance."""
        assert self._last is not None
        return sqrt(max(key / self._last_n + float(self._last @ self._last), 0.0))

    def _search_all(self) -> float:
        """Reinitialise R from the tree; returns the key of its farthest member, which is r."""
        self._settle()
        self.reservoir_searches += 1
        found = self._found()
        self._reservoir = Rows(self.dimension, found.ids, found.vectors)
        self._last, self._last_total, self._last_n = self.total / self.n, self.total.copy(), self.n
        return float(found.keys[-1])

    def _found(self) -> Found:
        """All within d_k + lambda of the centroid (equation 4)."""
        if self.search == "reservoir":
            return self._tree.reservoir_search(self.n, self.total, self.lam, self.k)
        found = self._tree.knn(self.n, self.total, self.k)
        # Not below the true d_k: rounded down, it could leave the k-th itself outside. Of fewer than k, the farthest.
        squared = float(found.keys[-1]) / self.n + float(self.total @ self.total) / (self.n * self.n)
        d_k = certificate.upper(squared, certificate.slack(self.dimension, self.longest))
        return self._tree.range(self.n, self.total, d_k + self.lam)

    def _joins(self, x: NDArray[np.float64], drift: float) -> bool:
        """Whether a new sentence joins R."""
        if self.admit == "random":
            return self._coin.random() < self.p
        if self.admit == "decay":
            return drift <= self.c1 * exp(-self.c2 * self.n)
        return self._last_n * float(x @ x) - 2.0 * float(x @ self._last_total) <= self._radius_key


class Ours:
    """This project's own: `CoverSumm` over the flat index, a step a call, its ids put in order after every step.

    Parameters: k; no alpha, delta, b or c_max. Source: `worker.coversumm.single`, after Algorithms 1 and 3 with a
    certificate in place of lambda/2. Exact always. CoverSumm itself speaks only when the set changes; the order within
    an unchanged set, which the paper's accuracy asks for, is looked up here, at the price of one more evaluation.
    """

    def __init__(self, k: int, dimension: int) -> None:
        self.core = CoverSumm(k, dimension, FlatIndex(dimension))

    @property
    def reservoir_searches(self) -> int:
        """See `Variant`."""
        return self.core.counters.refilled

    @property
    def reservoir_size(self) -> int:
        """See `Variant`."""
        return self.core.reservoir_size

    def apply(self, step: Step) -> tuple[bytes, ...]:
        """See `Variant`."""
        ranking = self.core.apply((step,))[0]
        return (self.core.ranking() if ranking is None else ranking).ids


class Factory(Protocol):
    """Makes a variant; what it has no use for it ignores."""

    def __call__(
        self, *, k: int = K, dimension: int, b: float, alpha: float = ALPHA, c_max: int = C_MAX, seed: int = 0
    ) -> Variant:
        """See `PaperCoverSumm`."""
        ...


def _simple(make: Callable[[int, int], Variant]) -> Factory:
    def factory(
        *, k: int = K, dimension: int, b: float, alpha: float = ALPHA, c_max: int = C_MAX, seed: int = 0
    ) -> Variant:
        return make(k, dimension)

    return factory


def _paper(**strategies: Any) -> Factory:
    def factory(
        *, k: int = K, dimension: int, b: float, alpha: float = ALPHA, c_max: int = C_MAX, seed: int = 0
    ) -> Variant:
        return PaperCoverSumm(k, dimension, b=b, alpha=alpha, c_max=c_max, seed=seed, **strategies)

    return factory


VARIANTS: dict[str, Factory] = {
    "brute-force": _simple(BruteForce),
    "naive-cover-tree": _simple(NaiveTree),
    "coversumm-knn-range": _paper(search="knn+range"),
    "coversumm-reservoir": _paper(),
    "coversumm-lazy": _paper(lazy=True),
    "coversumm-random": _paper(lazy=True, admit="random"),
    "coversumm-decay": _paper(lazy=True, admit="decay"),
    "exact": _simple(Ours),
}
