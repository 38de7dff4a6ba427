"""The embeddings of a micro-batch: gathered one by one, turned to fixed point together."""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from worker.coversumm.fixed_point import quantize_rows
from worker.events.reasons import BadEvent, Reason

CHUNK: Final = 128
"""Rows quantized at a time: what a core's cache holds, four times as fast as all rows at once."""


Embedding: TypeAlias = bytes | list[float]
"""One vector as it was given: little-endian float32, or numbers."""


def is_of_dimension(embedding: Embedding, dimension: int) -> bool:
    """Whether it has this many numbers."""
    return len(embedding) == (4 * dimension if isinstance(embedding, bytes) else dimension)


def wrong_embedding(embedding: Embedding, dimension: int, where: str) -> BadEvent:
    """What is wrong with one that is not of the dimension: `bad_vector` (no whole numbers) or `wrong_dimension`."""
    length, rest = divmod(len(embedding), 4) if isinstance(embedding, bytes) else (len(embedding), 0)
    if rest:
        return BadEvent(Reason.BAD_VECTOR, f"{where}: {len(embedding)} bytes are not whole float32 numbers")
    return BadEvent(
        Reason.WRONG_DIMENSION, f"{where}: {length} numbers, the worker's dimension is {dimension}"
    )


class FixedPoint(NamedTuple):
    """A pool's rows as int16 (D,), and the numbers of those that have no fixed point: zero, NaN or infinite."""

    vectors: list[NDArray[np.int16]]
    invalid: frozenset[int]


class VectorPool:
    """Rows of a matrix in the making, all of one dimension."""

    def __init__(self, dimension: int) -> None:
        self._dimension = dimension
        self._rows: list[Embedding] = []

    def add(self, embedding: Embedding) -> int:
        """The number of the row that `embedding` will be; its length has been checked."""
        self._rows.append(embedding)
        return len(self._rows) - 1

    def quantize(self) -> FixedPoint:
        """All rows."""
        matrix = self._matrix()
        vectors: list[NDArray[np.int16]] = []
        invalid: list[int] = []
        for start in range(0, len(matrix), CHUNK):
            quantized, wrong = quantize_rows(matrix[start : start + CHUNK])
            vectors.extend(quantized)
            invalid.extend((start + np.flatnonzero(wrong)).tolist())
        return FixedPoint(vectors, frozenset(invalid))

    def _matrix(self) -> NDArray[np.floating]:
        packed = [row for row in self._rows if isinstance(row, bytes)]
        joined = np.frombuffer(b"".join(packed), dtype="<f4").reshape(-1, self._dimension)
        if len(packed) == len(self._rows):
            return joined
        matrix = np.empty((len(self._rows), self._dimension), dtype=np.float64)
        is_packed = np.fromiter((isinstance(row, bytes) for row in self._rows), dtype=np.bool_)
        matrix[is_packed] = joined
        matrix[~is_packed] = [row for row in self._rows if not isinstance(row, bytes)]
        return matrix
