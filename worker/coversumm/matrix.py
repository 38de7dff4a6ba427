"""Arrays that grow at the end: matrices of vectors, and arrays with one number per row."""

from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

FIRST = 4  # rows of room made for the first row, and least added later
FEW = 1024  # rows up to which room grows by a quarter, so that cached entities hold little room

Number = TypeVar("Number", bound=np.generic)


class GrowingArray(Generic[Number]):
    """Rows of `width` numbers, (n, width), or numbers, (n,), in one block of memory with spare
    room.

    `rows` is a view that every change of length replaces, so do not keep it; values can be changed
    through it. Room grows by a share of itself, so appending takes amortised constant time per row.

    >>> vectors = GrowingArray(np.int16, 2)
    >>> vectors.append(np.array([[1, 2], [3, 4], [5, 6]]))
    >>> vectors.remove(0)
    >>> vectors.rows.tolist()
    [[5, 6], [3, 4]]
    """

    __slots__ = ("_room", "rows")

    def __init__(self, dtype: type[Number], width: int | None = None) -> None:
        self._room: NDArray[Number] = np.empty(0 if width is None else (0, width), dtype)
        self.rows = self._room

    @classmethod
    def of(cls, rows: NDArray[Number]) -> "GrowingArray[Number]":
        """Take over these rows, without a copy if contiguous; the caller must not change them."""
        array = cls(rows.dtype.type)
        array._room = array.rows = np.ascontiguousarray(rows)
        return array

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def nbytes(self) -> int:
        """Bytes in memory, spare room included."""
        return self._room.nbytes

    def append(self, rows: NDArray[Number] | list[float]) -> None:
        """Add rows (m, width), or numbers (m,)."""
        start = len(self.rows)
        self.extend(len(rows))
        self.rows[start:] = rows

    def push(self, row: NDArray[Number] | float) -> None:
        """Add one row (D,), or one number."""
        self.extend(1)
        self.rows[-1] = row

    def extend(self, count: int) -> None:
        """Add `count` uninitialized rows for the caller to fill."""
        end = len(self.rows) + count
        if end > len(self._room):
            self._make_room(end)
        self.rows = self._room[:end]

    def _make_room(self, least: int) -> None:
        held = len(self._room)
        size = max(held + max(FIRST, held // 4 if held < FEW else held), least)
        room: NDArray[Number] = np.empty((size, *self._room.shape[1:]), self._room.dtype)
        room[: len(self.rows)] = self.rows
        self._room, self.rows = room, room[: len(self.rows)]

    def remove(self, row: int) -> None:
        """Remove a row; the last one takes its place."""
        rows = self.rows
        rows[row] = rows[-1]
        self.rows = rows[:-1]

    def keep(self, chosen: NDArray[np.int64]) -> None:
        """Keep only the chosen rows, in this order, and release the spare room."""
        self._room = self.rows = self.rows[chosen]

    def clear(self) -> None:
        """Remove all rows and release their memory."""
        self._room = self.rows = np.empty((0, *self._room.shape[1:]), self._room.dtype)
