"""CoverSumm for a notebook: ids and arrays of embeddings, exact after every call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from worker.coversumm.core import EntityCore
from worker.coversumm.fixed_point import (
    DuplicateSentence,
    EntityFull,
    UnknownSentence,
    VectorError,
    quantize_rows,
)
from worker.coversumm.index.flat import FlatIndex
from worker.coversumm.native import native_module
from worker.coversumm.points import Points, Step, no_points

if TYPE_CHECKING:
    from worker._native import Core


class RankedSentence(NamedTuple):
    """A sentence of a summary: distance to the centroid, and live sentences with its vector."""

    id: str
    distance: float
    support: int


class CoverSumm:
    """The k sentences nearest to the centroid of all live ones (CoverSumm, TMLR 2024; exact here).

    Only the direction of a vector counts: it is normalised and kept as 16-bit integers. Sums are
    therefore exact, a summary depends only on *which* sentences are live, and each call leaves what
    a search of all of them would find. Equal distances are ranked by the UTF-8 bytes of the ids. A
    call that raises has changed nothing.

    >>> core = CoverSumm(k=2, dimension=2)
    >>> core.add("quiet", [9, 1])
    True
    >>> core.add_many(["silent", "calm", "lively"], [[9, 2], [8, 3], [7, 5]])
    True
    >>> for sentence in core.summary():
    ...     print(sentence)
    RankedSentence(id='calm', distance=0.036731, support=1)
    RankedSentence(id='silent', distance=0.108326, support=1)

    The next one is farther from the centroid than both, so the set does not change. Removing a
    member makes room for another sentence:

    >>> core.add("dead", [9, -1])
    False
    >>> core.remove("silent")
    True
    >>> [sentence.id for sentence in core.summary()]
    ['calm', 'quiet']
    """

    def __init__(self, k: int, dimension: int, *, distinct: bool = False) -> None:
        """No sentence yet. `k`: sentences of a full summary; `dimension`: numbers in a vector.

        With `distinct` a summary shows each vector once, under the lowest id of its copies; all
        copies count in the centroid. Raises ValueError if k or dimension is below 1.
        """
        module = native_module()
        form: type[Core | _PythonCore] = _PythonCore if module is None else module.Core
        self._core = form(k, dimension, distinct=distinct)
        self._k = k
        self._dimension = dimension

    def add(self, id: str, vector: ArrayLike) -> bool:
        """Add a sentence; `vector` (dimension,). Returns whether the set of the summary's ids
        changed.

        Raises:
            VectorError: wrong dimension, zero, not finite, or not numbers.
            DuplicateSentence: the id is live already.
            EntityFull: sums would not be exact with so many millions of sentences.
        """
        return self.add_many([id], _row(id, vector))

    def add_many(self, ids: Sequence[str], vectors: ArrayLike) -> bool:
        """Add sentences; `vectors` (len(ids), dimension). Returns and raises like `add`, naming the
        sentence.
        """
        names = _encoded(ids)
        matrix = self._matrix(vectors, ids)
        self._refuse_live(ids, names)
        fixed_point, invalid = quantize_rows(matrix)
        if invalid.any():
            row = int(invalid.argmax())
            why = "zero, which has no direction" if np.isfinite(matrix[row]).all() else "not finite"
            raise VectorError(f"sentence {ids[row]!r}: its vector is {why}")
        return self._apply(Step(no_points(self._dimension), Points(names, fixed_point)))

    def remove(self, id: str) -> bool:
        """Remove a sentence. Returns whether the set changed; raises UnknownSentence if the id is
        not live.
        """
        return self.remove_many([id])

    def remove_many(self, ids: Sequence[str]) -> bool:
        """Remove sentences at once. Returns and raises like `remove`."""
        names = _encoded(ids)
        if twice := _repeated(names):
            raise UnknownSentence(f"sentence {twice.decode()!r} is to be removed twice")
        for id_, name in zip(ids, names, strict=True):
            if name not in self._core:
                raise UnknownSentence(
                    f"sentence {id_!r} is not live: it was not added, or was removed"
                )
        nothing = no_points(self._dimension)
        return self._apply(Step(Points(names, nothing.vectors), nothing))

    def summary(self) -> list[RankedSentence]:
        """The k live sentences nearest to their centroid, nearest first; all if fewer are live."""
        ranked = self._core.ranking()
        return [
            RankedSentence(name.decode(), distance, support) for name, distance, support in ranked
        ]

    def __contains__(self, id: object) -> bool:
        """True if a sentence of this id is live."""
        return isinstance(id, str) and id.encode() in self._core

    def __len__(self) -> int:
        """Live sentences."""
        return len(self._core)

    def __repr__(self) -> str:
        return f"<CoverSumm of {len(self)} sentences, k={self._k}, dimension={self._dimension}>"

    def _apply(self, step: Step) -> bool:
        try:
            (changed,) = self._core.apply([step])
        except OverflowError as error:  # of native code
            raise EntityFull(str(error)) from None
        return changed is not None

    def _matrix(self, vectors: ArrayLike, ids: Sequence[str]) -> NDArray[np.float64]:
        """The vectors in float64. Raises VectorError unless there is one of `dimension` numbers per
        id.
        """
        try:
            matrix = np.asarray(vectors, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise VectorError(f"vectors are not a matrix of numbers: {error}") from None
        if not ids and not matrix.size:
            return np.empty((0, self._dimension))
        if matrix.ndim != 2 or len(matrix) != len(ids):
            raise VectorError(
                f"vectors have the shape {matrix.shape}: {len(ids)} ids need as many rows"
            )
        if matrix.shape[1] != self._dimension:
            raise VectorError(
                f"sentence {ids[0]!r}: its vector has {matrix.shape[1]} numbers, "
                f"this CoverSumm takes {self._dimension}"
            )
        return matrix

    def _refuse_live(self, ids: Sequence[str], names: Sequence[bytes]) -> None:
        if twice := _repeated(names):
            raise DuplicateSentence(f"sentence {twice.decode()!r} is to be added twice")
        for id_, name in zip(ids, names, strict=True):
            if name in self._core:
                raise DuplicateSentence(
                    f"sentence {id_!r} is live already: remove it first, "
                    "or give the new one another id"
                )


class _PythonCore:
    """`EntityCore` with the methods of `worker._native.Core`: it looks up the vectors of ids to
    remove itself.
    """

    def __init__(self, k: int, dimension: int, *, distinct: bool) -> None:
        self._index = FlatIndex(dimension)
        self._core = EntityCore(k, dimension, self._index, distinct=distinct)

    def apply(self, steps: Sequence[Step]) -> Sequence[object | None]:
        looked_up = (Step(self._index.points(step.removed.ids), step.added) for step in steps)
        return [self._core.apply([step])[0] for step in looked_up]

    def ranking(self) -> list[tuple[bytes, float, int]]:
        ranking = self._core.ranking()
        return [*zip(ranking.ids, ranking.distances(), ranking.support, strict=True)]

    def __contains__(self, id: bytes) -> bool:
        return id in self._index

    def __len__(self) -> int:
        return self._core.n


def _row(id_: str, vector: ArrayLike) -> NDArray[np.float64]:
    try:
        row = np.asarray(vector, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise VectorError(
            f"sentence {id_!r}: its vector is not a list of numbers: {error}"
        ) from None
    if row.ndim != 1:
        raise VectorError(
            f"sentence {id_!r}: its vector has the shape {row.shape}, not one row of numbers"
        )
    return row[None]


def _encoded(ids: Sequence[str]) -> list[bytes]:
    """The ids in UTF-8. Raises TypeError for a string as `ids` and for an id that is no string."""
    if isinstance(ids, str):
        raise TypeError(f"ids are a list of strings, not the string {ids!r}")
    for id_ in ids:
        if not isinstance(id_, str):
            raise TypeError(f"an id is a string, not {id_!r}")
    return [id_.encode() for id_ in ids]


def _repeated(names: Sequence[bytes]) -> bytes | None:
    seen: set[bytes] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None
