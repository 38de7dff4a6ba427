"""A set of sentences whose k nearest to a centroid are found by one matrix product and a
selection.
"""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from worker.coversumm.fixed_point import DuplicateSentence
from worker.coversumm.matrix import GrowingArray


def nearest(keys: NDArray[np.float64], ids: Sequence[bytes], k: int) -> tuple[bytes, ...]:
    """The k ids (or all) lowest by (key, id), in that order; one key an id."""
    if len(ids) > k:
        rows = np.flatnonzero(keys <= np.partition(keys, k - 1)[k - 1])
        keys, ids = keys[rows], [ids[row] for row in rows.tolist()]
    return tuple([id_ for _, id_ in sorted(zip(keys.tolist(), ids, strict=True))[:k]])


class SentenceSet:
    """Ids and vectors, as float64, which holds int16 exactly and multiplies fast."""

    def __init__(
        self, dimension: int, ids: Iterable[bytes] = (), vectors: NDArray[np.int16] | None = None
    ) -> None:
        self.ids = list(ids)
        self._rows = dict(zip(self.ids, range(len(self.ids)), strict=True))
        self._vectors = GrowingArray(np.float64, dimension)
        self._squared_norms = GrowingArray(np.float64)
        if vectors is not None:
            self._append(vectors)

    def __len__(self) -> int:
        return len(self.ids)

    def add(self, id_: bytes, vector: NDArray[np.int16]) -> None:
        """Raises DuplicateSentence if the id is there."""
        row = len(self.ids)
        if self._rows.setdefault(id_, row) != row:
            raise DuplicateSentence(f"sentence {id_!r} is live already")
        self.ids.append(id_)
        self._append(vector[None])

    def _append(self, vectors: NDArray[np.int16]) -> None:
        x = vectors.astype(np.float64)
        self._vectors.append(x)
        self._squared_norms.append(np.vecdot(x, x))

    def discard(self, id_: bytes) -> bool:
        """Whether it was there."""
        row = self._rows.pop(id_, None)
        if row is None:
            return False
        self._vectors.remove(row)
        self._squared_norms.remove(row)
        last = self.ids.pop()
        if row < len(self.ids):
            self.ids[row] = last
            self._rows[last] = row
        return True

    def nearest(self, n: int, total: NDArray[np.float64], k: int) -> tuple[bytes, ...]:
        """The k nearest to total/n, by exact keys n*|x|^2 - 2*x.S."""
        keys = self._vectors.rows @ total
        keys *= -2.0
        keys += self._squared_norms.rows * n
        return nearest(keys, self.ids, k)
