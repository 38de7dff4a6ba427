"""The newest live reviews of an entity: later first, then by the bytes of the id, undated last.

Which they are depends only on the live reviews and their dates, not on any clock.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable

from worker.events.dates import instant

UNDATED = b"\xff"
SECONDS = 8  # bytes of an instant before its fraction


def recency(occurred_at: str | None) -> bytes:
    """Orders RFC 3339 timestamps: the later, the lower; none is the highest.

    >>> order = ["2026-11-20T12:00:00.5Z", "2026-11-20T13:00:00+01:00", None]
    >>> sorted(order, key=recency) == order
    True
    """
    if occurred_at is None:
        return UNDATED
    return _recency(instant(occurred_at))


def _recency(instant: bytes) -> bytes:
    return bytes([255 - byte for byte in instant]) + b"\xff"


Item = tuple[bytes, bytes]  # a review's recency and id


ALL_REVIEWS: Item = (b"\xff\xff", b"")
"""Comes after every review."""


def within(newest: bytes, days: int) -> Item:
    """Comes after the reviews at most so many days older than one of this recency, and before all
    others; undated reviews are never among them.

    >>> end = within(recency("2026-11-20T12:00:00Z"), 90)
    >>> dates = ["2026-08-22T12:00:00Z", "2026-08-22T11:59:59.9Z", None]
    >>> [(recency(one), b"r") < end for one in dates]
    [True, False, False]
    """
    if newest == UNDATED:
        return b"", b""
    seconds = int.from_bytes([255 - byte for byte in newest[:SECONDS]])
    earliest = (seconds - days * 86_400).to_bytes(SECONDS)
    return _recency(earliest + bytes([255 - byte for byte in newest[SECONDS:-1]])) + b"\0", b""


class NewestReviews:
    """The first of an entity's live reviews in that order: all, or at least `wanted`.

    Beyond a few times `wanted` the last are dropped. When too few are left, `is_short` asks for
    all of them again.
    """

    __slots__ = ("_items", "is_complete", "wanted")

    def __init__(self, wanted: int, reviews: Iterable[tuple[bytes, str | None]] = ()) -> None:
        """Make it of all live reviews: ids and timestamps."""
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
        """True if reviews that were left out may be among the wanted ones."""
        return not self.is_complete and len(self._items) < self.wanted

    def end(self, count: int | None, days: int | None) -> Item:
        """Comes after the newest `count` reviews, at most `wanted`, that are at most so many days
        older than the newest; None: any number.
        """
        items, end = self._items, ALL_REVIEWS
        if days is not None:
            end = within(items[0][0], days) if items else end
        if count is not None and len(items) >= count:
            recency, review_id = items[count - 1]
            end = min(end, (recency, review_id + b"\0"))
        return end

    def before(self, end: Item) -> list[Item]:
        """The reviews before this end."""
        return self._items[: bisect_left(self._items, end)]

    def between(self, item: Item, other: Item) -> list[Item]:
        """The reviews from one end to another, in any order."""
        low, high = sorted((item, other))
        return self._items[bisect_left(self._items, low) : bisect_left(self._items, high)]

    def _trim(self, most: int) -> None:
        if len(self._items) > most:
            del self._items[2 * self.wanted :]
            self.is_complete = False
