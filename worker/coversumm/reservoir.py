"""The reservoir: exactly the live sentences with d(x, anchor) < radius, identical vectors as one row (paper: the set R).

The anchor is a centroid S0/n0; the radius is an integer key: a sentence is inside iff n0*|x|^2 - 2*x.S0 < radius_key,
an exact comparison. Without a radius (None) the reservoir holds every live sentence.

A row keeps the number of its vector's copies and the lowest of their ids, which are a reservoir too: `low` is a
prefix of the sorted ids of all copies. An id below the last one held is inserted, any other is only counted. When
removals leave fewer than a ranking may need, the reservoir is `starved` and a refill is due. So a hundred thousand
copies cost one row.
"""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from worker.coversumm.errors import DuplicateSentence, UnknownSentence
from worker.coversumm.index import Neighborhood, first_beyond


class Reservoir:
    """Rows of distinct vectors around an anchor. `need`: how many ids of one vector a ranking may show."""

    def __init__(self, dimension: int, need: int) -> None:
        self.need = need
        self.hold = 4 * need  # how many lowest ids of a vector a refill brings
        self.counts: list[int] = []  # live copies of each row's vector
        self.low: list[list[bytes]] = []  # the lowest ids of each row, ascending
        self.live = 0  # copies in all rows
        self.slots: dict[bytes, int] = {}  # a vector's bytes -> its row
        self.starved = False
        self.anchor_n = 0
        self.anchor_sum = np.zeros(dimension)
        self.radius_key: float | None = None
        self._vectors: list[bytes] = []  # a row -> its vector's bytes
        self._matrix = np.empty((8, dimension), np.int16)
        self._norms = np.empty(8)

    def __len__(self) -> int:
        return len(self.counts)

    @property
    def matrix(self) -> NDArray[np.int16]:
        """The distinct vectors (r, D)."""
        return self._matrix[: len(self.counts)]

    @property
    def norms(self) -> NDArray[np.float64]:
        """Their squared lengths (r,)."""
        return self._norms[: len(self.counts)]

    @property
    def memory_bytes(self) -> int:
        """Roughly what it holds: matrices, and what Python needs around ids and vectors."""
        ids = sum(map(len, self.low))
        return (
            self._matrix.nbytes
            + self._norms.nbytes
            + len(self.counts) * (self._matrix.shape[1] * 2 + 300)
            + ids * 90
        )

    def keys(self, n: int, total: NDArray[np.float64]) -> NDArray[np.float64]:
        """Each row's key `n*|x|^2 - 2*x.S`, exact."""
        r = len(self.counts)
        products = self._matrix[:r] @ total
        products *= -2.0
        products += self._norms[:r] * n
        return products

    def rows(self, vectors: NDArray[np.int16], squared: Sequence[float] | NDArray[np.float64]) -> list[int]:
        """The row of each vector (m, D); new ones, without copies yet, for those that have none."""
        data, width, slots, start = vectors.tobytes(), 2 * vectors.shape[1], self.slots, len(self.slots)
        rows = [slots.setdefault(data[at : at + width], len(slots)) for at in range(0, len(data), width)]
        new = len(slots) - start
        if new:
            self._vectors.extend(islice(slots, start, None))  # a dict keeps the order in which keys came
            self.counts += [0] * new
            self.low += [[] for _ in range(new)]
            if len(slots) > len(self._norms):
                self._grow(start, max(2 * start, len(slots)))
            self._matrix[rows] = vectors
            self._norms[rows] = squared
        return rows

    def _grow(self, r: int, capacity: int) -> None:
        """Room for `capacity` rows; the first r are kept."""
        matrix = np.empty((capacity, self._matrix.shape[1]), np.int16)
        norms = np.empty(capacity)
        matrix[:r] = self._matrix[:r]
        norms[:r] = self._norms[:r]
        self._matrix, self._norms = matrix, norms

    def add(self, row: int, id_: bytes) -> None:
        """One more copy of a row's vector."""
        low, count = self.low[row], self.counts[row]
        if not low and not count:
            low.append(id_)
        elif len(low) == count or (low and id_ < low[-1]):
            at = bisect_left(low, id_)
            if at < len(low) and low[at] == id_:
                raise DuplicateSentence(f"sentence {id_!r} is live already")
            low.insert(at, id_)
            if len(low) > 2 * self.hold:
                del low[self.hold :]
        self.counts[row] = count + 1
        self.live += 1

    def add_new(self, rows: list[int], ids: list[bytes]) -> None:
        """The first copy of each of these rows' vectors."""
        for row, id_ in zip(rows, ids, strict=True):
            self.low[row] = [id_]
            self.counts[row] = 1
        self.live += len(rows)

    def remove(self, row: int, id_: bytes) -> None:
        """One copy of a row's vector less; the row stays, empty perhaps, until `drop`."""
        low, count = self.low[row], self.counts[row]
        at = bisect_left(low, id_)
        if at < len(low) and low[at] == id_:
            del low[at]
            if len(low) < min(self.need, count - 1):
                self.starved = True
        elif at < len(low) or len(low) == count:
            raise UnknownSentence(f"sentence {id_!r} is not live with this vector")
        self.counts[row] = count - 1
        self.live -= 1

    def drop(self, row: int) -> None:
        """Forget a row without copies; the last row takes its place."""
        last = len(self.counts) - 1
        counts, low, vector = self.counts.pop(), self.low.pop(), self._vectors.pop()
        if row == last:
            del self.slots[vector]
            return
        del self.slots[self._vectors[row]]
        self.slots[vector] = row
        self.counts[row], self.low[row], self._vectors[row] = counts, low, vector
        self._matrix[row] = self._matrix[last]
        self._norms[row] = self._norms[last]

    def refill(self, found: Neighborhood, n: int, total: NDArray[np.float64]) -> None:
        """Start over around the centroid total/n, with what an index found there."""
        r = len(found.counts)
        self._matrix = np.ascontiguousarray(found.vectors)
        self._norms = np.einsum("ij,ij->i", found.vectors, found.vectors, dtype=np.float64)
        self._vectors = [vector.tobytes() for vector in self._matrix]
        self.slots = {data: row for row, data in enumerate(self._vectors)}
        self.counts, self.low = found.counts, found.lowest_ids
        self.live = sum(found.counts)
        self.starved = False
        self.anchor_n, self.anchor_sum, self.radius_key = n, total.copy(), found.radius_key
        if r == 0:
            self._grow(0, 8)

    def tighten(self, target: int, n: int, total: NDArray[np.float64]) -> None:
        """Keep the `target` rows nearest to the anchor, equal keys together, without asking the index.

        A reservoir that holds everything moves its anchor to the present centroid first.
        """
        if self.radius_key is None:
            self.anchor_n, self.anchor_sum = n, total.copy()
        keys = self.keys(self.anchor_n, self.anchor_sum)
        radius_key = first_beyond(keys, target)
        if radius_key is None:
            return
        self.radius_key = radius_key
        keep = np.flatnonzero(keys < radius_key)
        rows = keep.tolist()
        self._matrix = self._matrix[keep]
        self._norms = self._norms[keep]
        self._vectors = [self._vectors[row] for row in rows]
        self.slots = {data: row for row, data in enumerate(self._vectors)}
        self.counts = [self.counts[row] for row in rows]
        self.low = [self.low[row] for row in rows]
        self.live = sum(self.counts)
