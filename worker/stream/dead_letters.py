"""Dead letters in the log: one line a minute with their number by reason, and none where there are none.

Where the first of each reason was read from is in the facts of the line; never what was in it.

A warning, for each letter is an event that no summary shows, which nothing here puts right: somebody has to look at it.
"""

import asyncio
import logging
from collections import Counter
from typing import Final

from worker.processing.stats import Coordinates, Stats
from worker.stream.surroundings import Threads

TELL_SECONDS: Final = 60.0
log = logging.getLogger(__name__)


class DeadLetterLog:
    """Counts the dead letters of committed micro-batches, in any thread, and tells of them now and then."""

    def __init__(self, threads: Threads) -> None:
        self._lock = threads.lock()
        self._counts: Counter[str] = Counter()
        self._first: dict[str, Coordinates] = {}

    def count(self, stats: Stats) -> None:
        """A micro-batch was committed."""
        with self._lock:
            self._counts.update(stats.dead_letters())
            self._first = stats.first_letters | self._first

    async def tell_now_and_then(self) -> None:
        """Tell every minute, until cancelled."""
        while True:
            await asyncio.sleep(TELL_SECONDS)
            self.tell()

    def tell(self) -> None:
        """One line about the letters since the last one."""
        with self._lock:
            counts, self._counts = self._counts, Counter()
            first, self._first = self._first, {}
        if counts:
            by_reason = ", ".join(f"{count} {reason}" for reason, count in counts.most_common())
            line = f"dead letters in the last minute: {by_reason}; `coversumm-worker dlq list` shows them"
            places = {reason: place._asdict() for reason, place in first.items()}
            log.warning("%s", line, extra={"facts": {"dead_letters": dict(counts), "first": places}})
