"""The embeddings of a micro-batch, gathered first and turned to fixed point together."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from worker.coversumm.fixed_point import quantize_rows

CHUNK: Final = 128


class VectorPool:
    """Rows of one matrix to be: little-endian float32 bytes or lists of numbers, all of one dimension."""

    def __init__(self, dimension: int) -> None:
        self.dimension = dimension
        self._rows: list[bytes | list[float]] = []

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, embedding: bytes | list[float]) -> int:
        """The row number `embedding` will have; the caller has checked its length."""
        self._rows.append(embedding)
        return len(self._rows) - 1

    def truncate(self, length: int) -> None:
        """Take back the rows from `length` on: their record was rejected after all."""
        del self._rows[length:]

    def quantize(self) -> tuple[list[NDArray[np.int16]], frozenset[int]]:
        """Fixed point: int16 (D,) for each row, and which rows are no vectors (zero, NaN, infinite).

        In chunks of what a core's cache holds, four times as fast as all rows at once.
        """
        matrix = self._matrix()
        vectors: list[NDArray[np.int16]] = []
        no_vectors: list[int] = []
        for start in range(0, len(matrix), CHUNK):
            quantized, invalid = quantize_rows(matrix[start : start + CHUNK])
            vectors.extend(quantized)
            no_vectors.extend((start + np.flatnonzero(invalid)).tolist())
        return vectors, frozenset(no_vectors)

    def _matrix(self) -> NDArray[np.floating]:
        packed = [row for row in self._rows if isinstance(row, bytes)]
        joined = np.frombuffer(b"".join(packed), dtype="<f4").reshape(-1, self.dimension)
        if len(packed) == len(self._rows):
            return joined
        matrix = np.empty((len(self._rows), self.dimension), dtype=np.float64)
        is_packed = np.fromiter((isinstance(row, bytes) for row in self._rows), dtype=np.bool_)
        matrix[is_packed] = joined
        matrix[~is_packed] = [row for row in self._rows if not isinstance(row, bytes)]
        return matrix
