"""Progress of long work for programs, as JSON lines."""

from collections import deque
from collections.abc import Mapping
from typing import Any

FIRST_SECONDS, LINE_SECONDS = 1.0, 10.0
"""Seconds between two lines: at first, and later."""


class ProgressLines:
    """Lines with the remaining time.

    It follows from the rate of the later half of the time since the first progress: without the
    start and the restore, and without the first, small micro-batches.
    """

    def __init__(self, now: float, done: int) -> None:
        """`done`: units that are done at `now`, in seconds of `time.monotonic`."""
        self._start = self._last = now
        self._done_at_start = done
        self._first_progress: float | None = None
        self._points: deque[tuple[float, int]] = deque()  # of the later half

    def line(
        self, now: float, unit: str, done: int, size: int, counts: Mapping[str, int]
    ) -> dict[str, Any]:
        """The line for now: `done` of `size` units, and other counts."""
        self._last = now
        rate = self._rate(now, done)
        return {
            "type": "progress",
            unit: done,
            "of": size,
            **counts,
            "seconds": round(now - self._start, 1),
            f"{unit}_per_s": round(rate, 1),
            "seconds_left": round((size - done) / rate, 1) if rate else None,
        }

    def _rate(self, now: float, done: int) -> float:
        """Units a second; 0.0 while it is unknown."""
        if done > self._done_at_start and self._first_progress is None:
            self._first_progress = now
        if self._first_progress is None:
            return 0.0
        self._points.append((now, done))
        while len(self._points) > 2 and self._points[1][0] <= (self._first_progress + now) / 2:
            self._points.popleft()
        since, before = self._points[0]
        return (done - before) / (now - since) if now > since else 0.0

    def pause(self) -> float:
        """Seconds until the next line: the first ones come soon."""
        return min(LINE_SECONDS, FIRST_SECONDS + (self._last - self._start) / 10)
