"""How fast a replay may go: so many events or bytes a second, by not asking for more before it is time."""

import time

from worker.clock import Clock

TURN_SECONDS = 0.25
"""What is read at once is what may be read in so long: others on the machine get it back in small pieces, not in large ones."""


class RateThrottle:
    """Keeps to rates over the long run; what was not used for a second is not saved up.

    Args:
        events_per_s: at most so many; None: any number.
        bytes_per_s: of keys and values; None: any number.
        clock: measures.
    """

    def __init__(self, events_per_s: float | None, bytes_per_s: float | None, clock: Clock = time) -> None:
        self._events_per_s = events_per_s
        self._bytes_per_s = bytes_per_s
        self._clock = clock
        self._due = clock.monotonic()  # when all that was read so far should have been

    @property
    def is_on(self) -> bool:
        """Whether there is a rate to keep to."""
        return self._events_per_s is not None or self._bytes_per_s is not None

    @property
    def events_at_once(self) -> int | None:
        """Events of a micro-batch, at least one; None: any number."""
        return None if self._events_per_s is None else max(1, round(self._events_per_s * TURN_SECONDS))

    @property
    def bytes_at_once(self) -> int | None:
        """Bytes of a micro-batch of several events; None: any number."""
        return None if self._bytes_per_s is None else max(1, round(self._bytes_per_s * TURN_SECONDS))

    def pause(self, events: int, size: int) -> float:
        """See `worker.stream.bounded.Throttle`."""
        now = self._clock.monotonic()
        seconds = max(
            events / self._events_per_s if self._events_per_s else 0.0,
            size / self._bytes_per_s if self._bytes_per_s else 0.0,
        )
        self._due = max(self._due, now - 1.0) + seconds
        return max(0.0, self._due - now)
