"""The end of a partition in a bounded run.

The last offsets of a partition may hold no record: transaction markers, aborted records, records
that compaction removed. So the *position* has to pass the end, not a record. A position is believed
when a second fetch from the cursor arrives there again, like a gap: a position that was moved by a
fetch from before a seek proves nothing.
"""

import logging

from worker.kafka.offsets import CUT_SHORT_SECONDS

log = logging.getLogger(__name__)


class Tail:
    """The end of a partition, and what proves that it is reached.

    >>> tail = Tail(end=10)
    >>> tail.is_reached(cursor=7, position=12), tail.needs_second_fetch(cursor=7, position=12)
    (False, True)
    >>> tail.is_reached(cursor=7, position=12)
    True
    """

    def __init__(self, end: int, *, is_in_log: bool = True) -> None:
        """`is_in_log`: False if files hold the records up to the end."""
        self.end = end
        self.is_in_log = is_in_log
        self._shown: int | None = None  # the cursor from which the end was reached once
        self._hole: int | None = None
        self._is_waiting = False
        self._short_since: float | None = None

    def is_reached(self, cursor: int, position: int) -> bool:
        """Whether nothing is left, with this cursor and the next fetch from this position."""
        return (
            cursor >= self.end
            or cursor == self._hole
            or (self._shown == cursor and self._leaves_nothing(position))
        )

    def needs_second_fetch(self, cursor: int, position: int) -> bool:
        """Whether the end was reached for the first time from this cursor."""
        if self._shown == cursor or not self._leaves_nothing(position):
            return False
        self._shown = cursor
        return True

    def _leaves_nothing(self, position: int) -> bool:
        return position >= self.end or position == self._hole

    def is_hole_from(self, position: int) -> None:
        """The log has no record from this position to the end."""
        self._hole = position

    def wait(self, name: str, position: int, stable: int) -> None:
        """Log once that an open transaction lies before the end, with nothing left before it."""
        if position >= stable and not self._is_waiting:
            self._is_waiting = True
            log.warning(
                "%s: an open transaction of a producer begins at offset %d, before the end at %d: "
                "waiting until it is decided",
                name,
                stable,
                self.end,
            )

    def is_cut_short(self, high_watermark: int, now: float) -> bool:
        """Whether the log has ended below the end for `CUT_SHORT_SECONDS`; `now` is monotonic."""
        if high_watermark >= self.end:
            self._short_since = None
        elif self._short_since is None:
            self._short_since = now
        return self._short_since is not None and now - self._short_since > CUT_SHORT_SECONDS
