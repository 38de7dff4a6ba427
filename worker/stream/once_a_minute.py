"""What may happen often and is logged at most once a minute, with its number."""

import time
from typing import Final

from worker.clock import Clock

TELL_SECONDS: Final = 60.0


class OnceAMinute:
    """Counts; for one thread."""

    def __init__(self, clock: Clock = time) -> None:
        self._clock = clock
        self._count = 0
        self._next = float("-inf")

    def count(self) -> int:
        """How often it happened since the last line, this time included; 0 where it is too early for another one."""
        self._count += 1
        if self._clock.monotonic() < self._next:
            return 0
        found, self._count = self._count, 0
        self._next = self._clock.monotonic() + TELL_SECONDS
        return found
