"""The newest live reviews of an entity: later first, then by the bytes of the id, undated last.

Which they are depends only on the live reviews and their dates, not on any clock.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable
from typing import NamedTuple

from worker.events.dates import instant

UNDATED = b"\xff"


def recency(occurred_at: str | None) -> bytes:
    """Orders RFC 3339 timestamps: the later, the lower; none is the highest.

    >>> order = ["2026-11-20T12:00:00.5Z", "2026-11-20T13:00:00+01:00", None]
    >>> sorted(order, key=recency) == order
    True
    """
    if occurred_at is None:
        return UNDATED
    return bytes([255 - byte for byte in instant(occurred_at)]) + b"\xff"


Item = tuple[bytes, bytes]  # a review's recency and id


class Edge(NamedTuple):
    """The end of the newest reviews of some number: the last, None if there are fewer reviews, and
    some before it, with it.
    """

    last: Item | None
    items: list[Item]

    def has(self, item: Item) -> bool:
        """Whether a live review is one of the newest."""
        return self.last is None or item <= self.last


class NewestReviews:
    """The first of an entity's live reviews in that order: all, or at least `wanted`.

    Beyond a few times `wanted` the last are dropped. When too few are left, `is_short` asks for
    all of them again.
    """

    __slots__ = ("_items", "is_complete", "wanted")

    def __init__(self, wanted: int, reviews: Iterable[tuple[bytes, str | None]] = ()) -> None:
        """From all live reviews: ids and timestamps."""
        self.wanted = wanted
        self._items = sorted((recency(when), review_id) for review_id, when in reviews)
        self.is_complete = True  # no live review is left out
        self._trim(2 * wanted)

    def copy(self) -> "NewestReviews":
        """A copy."""
        other = NewestReviews(self.wanted)
        other._items, other.is_complete = self._items.copy(), self.is_complete
        return other

    def add(self, review_id: bytes, occurred_at: str | None) -> None:
        """A review is live now; not while `is_short`."""
        item = recency(occurred_at), review_id
        if not self.is_complete and self._items and item > self._items[-1]:
            return
        insort(self._items, item)
        self._trim(4 * self.wanted)

    def remove(self, review_id: bytes, occurred_at: str | None) -> None:
        """A review is no longer live, or no longer of this date."""
        item = recency(occurred_at), review_id
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

    def edge(self, count: int, width: int) -> Edge:
        """The edge of the newest `count`, at most `wanted`, with `width` reviews.

        Where so many reviews appear or disappear, no others leave, or have joined.
        """
        items = self._items[max(0, count - width) : count]
        return Edge(self._items[count - 1] if len(self._items) >= count else None, items)

    def _trim(self, most: int) -> None:
        if len(self._items) > most:
            del self._items[2 * self.wanted :]
            self.is_complete = False
