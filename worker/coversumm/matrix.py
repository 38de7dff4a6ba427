"""Arrays that grow at the end: a matrix of vectors, or the numbers that go with them, a number a
row.
"""

from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

FIRST = 8  # rows there is room for as soon as there is one
FEW = 1024  # up to so many rows, room for a quarter more is made, so that a cache of entities holds rows and not room

Number = TypeVar("Number", bound=np.generic)


class GrowingArray(Generic[Number]):
    """Rows of `width` numbers, (n, width), or numbers, (n,), in one block of memory with room for
    more.

    `rows` is a view of those that there are; any change of their number makes another one, so do
    not keep it. Values are changed through it. Appending costs amortised constant time a row,
    because room grows by a share of itself when none is left.

    >>> vectors = GrowingArray(np.int16, 2)
    >>> vectors.append(np.array([[1, 2], [3, 4], [5, 6]]))
    >>> vectors.remove(0)
    >>> vectors.rows.tolist()
    [[5, 6], [3, 4]]
    """

    __slots__ = ("_room", "rows")

    def __init__(self, dtype: type[Number], width: int | None = None) -> None:
        """No rows, and no room for any."""
        self._room: NDArray[Number] = np.empty(0 if width is None else (0, width), dtype)
        self.rows = self._room

    @classmethod
    def of(cls, rows: NDArray[Number]) -> "GrowingArray[Number]":
        """These rows, taken over as they lie in memory if they are contiguous: nobody else may
        change them then.
        """
        array = cls(rows.dtype.type)
        array._room = array.rows = np.ascontiguousarray(rows)
        return array

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def nbytes(self) -> int:
        """What it takes in memory, room for more included."""
        return self._room.nbytes

    def append(self, rows: NDArray[Number]) -> None:
        """Add rows (m, width), or numbers (m,)."""
        start = len(self.rows)
        end = start + len(rows)
        if end > len(self._room):
            self._make_room(end)
        self._room[start:end] = rows
        self.rows = self._room[:end]

    def push(self, row: NDArray[Number] | float) -> None:
        """Add one row (D,), or one number."""
        end = len(self.rows)
        if end == len(self._room):
            self._make_room(end + 1)
        self._room[end] = row
        self.rows = self._room[: end + 1]

    def extend(self, count: int) -> None:
        """Add `count` rows of whatever the memory holds, for the caller to fill."""
        end = len(self.rows) + count
        if end > len(self._room):
            self._make_room(end)
        self.rows = self._room[:end]

    def _make_room(self, least: int) -> None:
        held = len(self._room)
        size = max(FIRST, held + (held // 4 if held < FEW else held), least)
        room: NDArray[Number] = np.empty((size, *self._room.shape[1:]), self._room.dtype)
        room[: len(self.rows)] = self.rows
        self._room = room

    def remove(self, row: int) -> None:
        """Take a row out; the last one moves to its place."""
        rows = self.rows
        rows[row] = rows[-1]
        self.rows = rows[:-1]

    def keep(self, chosen: NDArray[np.int64]) -> None:
        """Keep the chosen rows alone, in this order, and give up the room of the others."""
        self._room = self.rows = self.rows[chosen]

    def clear(self) -> None:
        """Take all rows out; keep the room of a few, give up that of many."""
        if len(self._room) > 8 * FIRST:
            self._room = np.empty((0, *self._room.shape[1:]), self._room.dtype)
        self.rows = self._room[:0]
