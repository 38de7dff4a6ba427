"""The newest live reviews of an entity: later first, then by the bytes of the id, undated last.

Which they are depends only on the live reviews and their dates, not on any clock.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable

UNDATED = b"\xff"


def recency(instant: bytes | None) -> bytes:
    """Orders instants (`worker.events.dates.instant`): the later, the lower; none is the highest.

    >>> order = [b"2", b"15", b"1", None]
    >>> sorted(order, key=recency) == order
    True
    """
    if instant is None:
        return UNDATED
    return bytes([255 - byte for byte in instant]) + b"\xff"


class NewestReviews:
    """The first of an entity's live reviews in that order: all, or at least `wanted`.

    Beyond a few times `wanted` the last are dropped. When too few are left, `is_short` asks for
    all of them again.
    """

    __slots__ = ("_items", "is_complete", "wanted")

    def __init__(self, wanted: int, reviews: Iterable[tuple[bytes, bytes | None]] = ()) -> None:
        """From all live reviews: ids and instants."""
        self.wanted = wanted
        self._items = sorted((recency(instant), review_id) for review_id, instant in reviews)
        self.is_complete = True  # no live review is left out
        self._trim(2 * wanted)

    def copy(self) -> "NewestReviews":
        """A copy."""
        other = NewestReviews(self.wanted)
        other._items, other.is_complete = self._items.copy(), self.is_complete
        return other

    def add(self, review_id: bytes, instant: bytes | None) -> None:
        """A review is live now; not while `is_short`."""
        item = recency(instant), review_id
        if not self.is_complete and self._items and item > self._items[-1]:
            return
        insort(self._items, item)
        self._trim(4 * self.wanted)

    def remove(self, review_id: bytes, instant: bytes | None) -> None:
        """A review is no longer live, or no longer of this date."""
        item = recency(instant), review_id
        at = bisect_left(self._items, item)
        if at < len(self._items) and self._items[at] == item:
            del self._items[at]

    @property
    def memory_bytes(self) -> int:
        """Approximate bytes in memory."""
        return 200 * len(self._items)

    @property
    def is_short(self) -> bool:
        """Whether reviews that were left out may be among the wanted ones."""
        return not self.is_complete and len(self._items) < self.wanted

    def first(self, count: int) -> list[bytes]:
        """The ids of the newest `count`, at most `wanted`, in order."""
        return [review_id for _, review_id in self._items[:count]]

    def _trim(self, most: int) -> None:
        if len(self._items) > most:
            del self._items[2 * self.wanted :]
            self.is_complete = False
