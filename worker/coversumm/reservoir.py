"""The reservoir: exactly the live sentences with d(x, anchor) < radius (paper: the set R).

The anchor is a centroid S0/n0. The radius is an integer key: a sentence is inside iff n0*|x|^2 -
2*x.S0 < radius_key, an exact comparison. Without a radius (None) the reservoir holds every live
sentence.

Identical vectors are one row, with the number of copies and the lowest of their ids, so a hundred
thousand copies cost one row. A row is found by a 128-bit digest of its vector: the vector's own
bytes as a key would double a row's memory, which limits how many entities a cache holds. If
removals leave fewer ids than a ranking may need, the reservoir is `exhausted` and needs a refill.
Proof that both invariants last: docs/algorithm.md, Lemma 3.
"""

from bisect import bisect_left
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from worker.coversumm.copies import digest
from worker.coversumm.fixed_point import DuplicateSentence, UnknownSentence
from worker.coversumm.index import Neighborhood, first_beyond
from worker.coversumm.matrix import GrowingArray
from worker.coversumm.points import Points


@cache
def _zeros(dimension: int) -> NDArray[np.float64]:
    zeros = np.zeros(dimension)
    zeros.flags.writeable = False
    return zeros


class Neighbors(NamedTuple):
    """The nearest sentences in rank order."""

    keys: list[float]
    ids: list[bytes]
    rows: list[int]  # the reservoir's row of each


class Reservoir:
    """Rows of distinct vectors around an anchor; a ranking shows up to `ids_needed` ids of a
    vector.
    """

    def __init__(self, dimension: int, ids_needed: int) -> None:
        self.ids_needed = ids_needed
        self.ids_kept = 4 * ids_needed  # how many lowest ids of a vector a refill brings
        self.counts: list[int] = []  # live copies of each row's vector
        self.lowest_ids: list[list[bytes]] = []  # of each row, ascending
        self.live = 0  # copies in all rows
        self.exhausted = False
        self.anchor_n = 0
        self.anchor_total = _zeros(dimension)  # replaced, never changed
        self.radius_key: float | None = None
        self._row_of: dict[bytes, int] = {}  # a vector's digest -> its row
        self._digests: list[bytes] = []  # a row -> its vector's digest
        self._vectors = GrowingArray(np.int16, dimension)
        self._squared_norms = GrowingArray(np.float64)

    def __len__(self) -> int:
        return len(self.counts)

    @property
    def vectors(self) -> NDArray[np.int16]:
        """The distinct vectors (r, D)."""
        return self._vectors.rows

    @property
    def squared_norms(self) -> NDArray[np.float64]:
        """Their |x|^2, (r,)."""
        return self._squared_norms.rows

    @property
    def memory_bytes(self) -> int:
        """Approximate bytes of the matrices and of Python's objects for ids and vectors."""
        ids = sum(map(len, self.lowest_ids))
        return self._vectors.nbytes + self._squared_norms.nbytes + len(self) * 260 + ids * 80

    def keys(self, n: int, total: NDArray[np.float64]) -> NDArray[np.float64]:
        """Each row's key `n*|x|^2 - 2*x.S`, exact."""
        keys = self._vectors.rows @ total
        keys *= -2.0
        keys += self._squared_norms.rows * n
        return keys

    def knn(self, n: int, total: NDArray[np.float64], k: int, distinct: bool) -> Neighbors:
        """The k sentences nearest to total/n, or all if there are fewer (Algorithm 1, line 23).

        Ties are ordered by the bytes of the ids. Of a vector at most k copies count, or one with
        `distinct`.
        """
        keys, most = self.keys(n, total), 1 if distinct else k
        limit = np.inf if len(keys) <= k else np.partition(keys, k - 1)[k - 1]
        near = np.flatnonzero(keys <= limit)  # k rows, and those with the key of the k-th
        ranked = sorted(
            (key, id_, row)
            for key, row in zip(keys[near].tolist(), near.tolist(), strict=True)
            for id_ in self.lowest_ids[row][:most]
        )[:k]
        return Neighbors(*map(list, zip(*ranked, strict=True))) if ranked else Neighbors([], [], [])

    def insert(
        self, added: Points, x: NDArray[np.float64], squared_norms: NDArray[np.float64]
    ) -> None:
        """Add those sentences that are inside (Algorithm 1, line 20); `x` are their vectors."""
        inside = list(range(len(x)))
        if self.radius_key is not None:
            keys = self.anchor_n * squared_norms - 2.0 * (x @ self.anchor_total)
            inside = np.flatnonzero(keys < self.radius_key).tolist()
        for at in inside:
            self._add(added.ids[at], added.vectors[at], squared_norms[at])

    def _add(self, id_: bytes, vector: NDArray[np.int16], squared_norm: float) -> None:
        key = digest(vector)
        row = self._row_of.get(key)
        if row is not None:
            self._add_copy(row, id_)
            return
        self._row_of[key] = len(self.counts)
        self._digests.append(key)
        self.counts.append(1)
        self.lowest_ids.append([id_])
        self.live += 1
        self._vectors.push(vector)
        self._squared_norms.push(squared_norm)

    def _add_copy(self, row: int, id_: bytes) -> None:
        ids, count = self.lowest_ids[row], self.counts[row]
        if not ids and not count:
            ids.append(id_)
        elif len(ids) == count or (ids and id_ < ids[-1]):
            at = bisect_left(ids, id_)
            if at < len(ids) and ids[at] == id_:
                raise DuplicateSentence(f"sentence {id_!r} is live already")
            ids.insert(at, id_)
            if len(ids) > 2 * self.ids_kept:
                del ids[self.ids_kept :]
        self.counts[row] = count + 1
        self.live += 1

    def remove(self, removed: Points) -> None:
        """Remove those sentences that are inside."""
        for id_, vector in zip(removed.ids, removed.vectors, strict=True):
            row = self._row_of.get(digest(vector))
            if row is not None:
                self._remove(row, id_)

    def _remove(self, row: int, id_: bytes) -> None:
        """Remove one copy from a row, and the row after its last copy."""
        ids, count = self.lowest_ids[row], self.counts[row]
        at = bisect_left(ids, id_)
        if at < len(ids) and ids[at] == id_:
            del ids[at]
            if len(ids) < min(self.ids_needed, count - 1):
                self.exhausted = True
        elif at < len(ids) or len(ids) == count:
            raise UnknownSentence(f"sentence {id_!r} is not live with this vector")
        self.counts[row] = count - 1
        self.live -= 1
        if count == 1:
            self._drop(row)

    def _drop(self, row: int) -> None:
        """Delete a row; the last one takes its place."""
        row_of = self._row_of
        counts, lowest_ids, key = self.counts.pop(), self.lowest_ids.pop(), self._digests.pop()
        if row == len(self.counts):
            del row_of[key]
        else:
            del row_of[self._digests[row]]
            row_of[key] = row
            self.counts[row], self.lowest_ids[row], self._digests[row] = counts, lowest_ids, key
        self._vectors.remove(row)
        self._squared_norms.remove(row)

    def refill(self, found: Neighborhood, n: int, total: NDArray[np.float64]) -> None:
        """Start over around the centroid total/n with the result of an index search."""
        self._vectors = GrowingArray.of(found.vectors)
        self._squared_norms = GrowingArray.of(
            np.einsum("ij,ij->i", found.vectors, found.vectors, dtype=np.float64)
        )
        self._name([digest(vector) for vector in found.vectors])
        self.counts, self.lowest_ids = found.counts, found.lowest_ids
        self.live = sum(found.counts)
        self.exhausted = False
        self.anchor_n, self.anchor_total, self.radius_key = n, total.copy(), found.radius_key

    def _name(self, digests: list[bytes]) -> None:
        self._digests = digests
        self._row_of = {key: row for row, key in enumerate(digests)}

    def tighten(self, target: int, n: int, total: NDArray[np.float64]) -> None:
        """Keep only the `target` rows nearest to the anchor, equal keys together, without an index
        search.

        A reservoir that holds everything first moves its anchor to the present centroid total/n.
        """
        if self.radius_key is None:
            self.anchor_n, self.anchor_total = n, total.copy()
        keys = self.keys(self.anchor_n, self.anchor_total)
        radius_key = first_beyond(keys, target)
        if radius_key is None:
            return
        self.radius_key = radius_key
        inside = np.flatnonzero(keys < radius_key)
        rows = inside.tolist()
        self._name([self._digests[row] for row in rows])
        self._vectors.keep(inside)
        self._squared_norms.keep(inside)
        self.counts = [self.counts[row] for row in rows]
        self.lowest_ids = [self.lowest_ids[row] for row in rows]
        self.live = sum(self.counts)
