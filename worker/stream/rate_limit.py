"""A limit of requests: so many at once, and so many a second."""

import time
from typing import Final

from worker.clock import Clock

MOST_CLIENTS: Final = 10_000  # whose requests are counted; the longest silent one is forgotten


class RateLimit:
    """Requests of each client: `burst` at once, and `rate` a second."""

    def __init__(self, rate: int, burst: int, clock: Clock = time) -> None:
        self._rate, self._burst, self._clock = rate, burst, clock
        # By client, the last one to ask last: the time when its burst is complete again.
        self.complete: dict[str, float] = {}

    def wait(self, client: str) -> float:
        """Count a request. 0 if it is admitted, else the seconds until the next one is."""
        now = self._clock.monotonic()
        complete = max(self.complete.pop(client, now), now)
        early = complete - now - (self._burst - 1) / self._rate
        self.complete[client] = complete if early > 0 else complete + 1 / self._rate
        if len(self.complete) > MOST_CLIENTS:
            del self.complete[next(iter(self.complete))]
        return max(early, 0.0)
