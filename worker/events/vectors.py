"""The embeddings of a micro-batch, gathered first and turned to fixed point in one call."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from worker.coversumm.fixed_point import quantize_rows


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

    def quantize(self) -> tuple[NDArray[np.int16], NDArray[np.bool_]]:
        """Fixed point, int16 (m, D), and which of the m rows are no vectors (zero, NaN, infinite)."""
        return quantize_rows(self._matrix())

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
