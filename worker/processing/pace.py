"""How long a micro-batch is likely to take, by what the last ones took: so that commits come every few seconds.

A processor may be ten times slower than another, and a sentence a hundred times longer than another. What tells is the time
that texts and records took lately. Nothing is known at first, so the first micro-batch is a small one.
"""

import math
import time
from collections.abc import Callable, Iterator, Sequence

from worker.clock import Clock

HALF_LIFE_SECONDS = 5.0
"""After so much work a measurement counts half."""
TEXT_OVERHEAD = 20
"""What a text costs besides its characters, in characters: measured with the default engine."""
MOST = 2**30
"""More records than any micro-batch has."""
FIRST_CHARACTERS, FIRST_RECORDS = 2000, 100
"""What is tried while nothing is known: some twenty sentences, a tenth of a second on a common processor."""


def characters(text: str) -> int:
    """What embedding a text costs, in characters."""
    return len(text) + TEXT_OVERHEAD


class Rate:
    """Seconds that a unit of work takes, as it was lately.

    >>> rate = Rate(first=100)
    >>> rate.seconds(100), rate.seconds(101)
    (0.0, inf)
    >>> rate.measured(100, 0.5)
    >>> rate.seconds(1000)
    5.0
    """

    __slots__ = ("_first", "_seconds", "_units")

    def __init__(self, first: int) -> None:
        """`first`: units that may be tried while nothing is known."""
        self._first = first
        self._units = 0.0
        self._seconds = 0.0

    def measured(self, units: int, seconds: float) -> None:
        """So many units took so long."""
        kept = 0.5 ** (seconds / HALF_LIFE_SECONDS)
        self._units = kept * self._units + units
        self._seconds = kept * self._seconds + seconds

    def seconds(self, units: int) -> float:
        """How long so many are likely to take. While nothing is known: no time for a few, and no end of it for more."""
        if not self._units:
            return 0.0 if units <= self._first else math.inf
        return self._seconds / self._units * units

    def units(self, seconds: float) -> float:
        """How many are likely to be done in so many seconds."""
        if not self._units:
            return self._first
        return math.inf if not self._seconds else self._units / self._seconds * seconds


class Pace:
    """The pace of a processor.

    Args:
        limit_seconds: how long a micro-batch of several records should take at most, its commit apart; by default as long
            as it takes.
        clock: measures.
        on_progress: called whenever a part of the work is done, however long the whole takes.
    """

    def __init__(
        self,
        limit_seconds: float = math.inf,
        clock: Clock = time,
        on_progress: Callable[[], None] = lambda: None,
    ) -> None:
        self.limit_seconds = limit_seconds
        self.clock = clock
        self.on_progress = on_progress
        self._texts = Rate(FIRST_CHARACTERS)
        self._records = Rate(FIRST_RECORDS)

    # -- what is likely --------------------------------------------------------------------------------------

    def is_too_long(self, records: int, characters: int) -> bool:
        """Whether so many records with so much new text are likely to take longer than the limit."""
        if not self._is_limited:
            return False
        return self._records.seconds(records) + self._texts.seconds(characters) > self.limit_seconds

    def most_records(self) -> int:
        """How many records without new text are within the limit; at least one."""
        likely = self._records.units(self.limit_seconds) if self._is_limited else MOST
        return max(1, int(min(likely, MOST)))

    def parts(self, texts: Sequence[str]) -> Iterator[Sequence[str]]:
        """The texts in order, in parts that are likely to be embedded within the limit each, or are a single text.

        What the parts before took counts for the next one: so many at once that engines work at their best, and so few that
        there is progress to be seen of a record of very many sentences.
        """
        if not self._is_limited:
            yield texts
            return
        start = 0
        while start < len(texts):
            room = self._texts.units(self.limit_seconds)
            end = start
            while end < len(texts) and (room := room - characters(texts[end])) >= 0:
                end += 1
            end = max(end, start + 1)
            yield texts[start:end]
            start = end

    @property
    def _is_limited(self) -> bool:
        return self.limit_seconds != math.inf

    # -- what was --------------------------------------------------------------------------------------------

    def embedded(self, texts: Sequence[str], seconds: float) -> None:
        """The engine took so long for these texts."""
        self._texts.measured(sum(map(characters, texts)), seconds)
        self.on_progress()

    def processed(self, records: int, seconds: float) -> None:
        """So many records took so long, embedding apart."""
        self._records.measured(records, max(0.0, seconds))  # a difference of clocks may be less than nothing
