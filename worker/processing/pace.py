"""How long a micro-batch is likely to take, by what the last ones took: so that commits come every
few seconds.

A processor may be ten times slower than another, and a sentence a hundred times longer than
another. What tells is the time that texts and records took lately. Nothing is known at first, so
the first micro-batch is a small one.

A link to the brokers may be slow, or have a quota, so transactions have a size of their own that
follows what they took (`TransactionSize`).
"""

import math
import time
from collections.abc import Callable, Iterator, Sequence

from worker.clock import Clock
from worker.limits import Limit
from worker.processing.config import BatchLimits

HALF_LIFE_SECONDS = 5.0
"""After so much work a measurement counts half."""
TEXT_OVERHEAD = 20
"""What a text costs besides its characters, in characters: measured with the default engine."""
MOST = 2**30
"""More records than any micro-batch has."""
MOST_BYTES = 2**31
"""More bytes than any transaction has."""
FIRST_CHARACTERS, FIRST_RECORDS = 2000, 100
"""What is tried while nothing is known: some twenty sentences, a tenth of a second on a common
processor.
"""
FIRST_BYTES = 2**20
"""Bytes of a transaction that are tried while nothing is known."""
FAST, SLOW = 1 / 4, 1 / 2
"""Shares of a transaction's time: one that takes less than the first may grow, one that takes more
than the second shrinks.
"""
AIMED_AT = 3 / 4
"""Share of a transaction's most bytes that its records are likely to fill, so that few
micro-batches are cut twice.
"""


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
        """How long so many are likely to take. While nothing is known: no time for a few, and no
        end of it for more.
        """
        if not self._units:
            return 0.0 if units <= self._first else math.inf
        return self._seconds / self._units * units

    def units(self, seconds: float) -> float:
        """How many are likely to be done in so many seconds."""
        if not self._units:
            return self._first
        return math.inf if not self._seconds else self._units / self._seconds * seconds


class TransactionSize:
    """The most bytes of a transaction of several records, by what the last transactions took.

    As TCP finds the rate of a link: doubled while transactions are fast, and a quarter of the last
    one after one that was not written in time. From then on it grows with the time that
    transactions take: a quota lets megabytes pass at full speed before it slows them down, so
    doubling would end in the same failure every time. Written by the thread that commits, read by
    the one that processes.

    >>> size = TransactionSize(seconds=10.0)
    >>> size.unwritten(records=100, size=800_000, seconds=12.0), size.most
    (True, 200000)
    >>> size.written(200_000, 1.25)
    >>> size.most
    300001

    Attributes:
        most: bytes.

    Args:
        seconds: within which a transaction has to be written; infinite: there is no limit.
    """

    __slots__ = ("_has_failed", "_seconds", "most")

    def __init__(self, seconds: float = math.inf) -> None:
        self._seconds = seconds
        self._has_failed = False
        self.most = MOST_BYTES if seconds == math.inf else FIRST_BYTES

    def written(self, size: int, seconds: float) -> None:
        """A transaction of so many bytes was committed in so many seconds."""
        if seconds > SLOW * self._seconds:
            self.most = min(self.most, max(1, size // 2))
        elif 4 * size >= self.most and seconds * self.most <= FAST * self._seconds * size:
            share = min(1.0, seconds / (FAST * self._seconds)) if self._has_failed else 1.0
            self.most = min(self.most + 1 + int(share * self.most), MOST_BYTES)

    def unwritten(self, records: int, size: int, seconds: float) -> bool:
        """A transaction of so many records and bytes failed after so many seconds; whether the next
        one is smaller for it.

        It is not where the transaction failed too early for its size to be the cause, or has a
        single record.
        """
        if seconds < SLOW * self._seconds or records <= 1:
            return False
        self.most = max(1, min(self.most, size) // 4)
        self._has_failed = True
        return True


class Pace:
    """The pace of a processor.

    Attributes:
        transaction: how large transactions may be.

    Args:
        limit_seconds: how long a micro-batch of several records should take at most, its commit
            apart; by default as long as it takes.
        clock: measures.
        on_progress: called whenever a part of the work is done, however long the whole takes.
        transaction_seconds: within which a transaction has to be written; by default there is no
            limit.
    """

    def __init__(
        self,
        limit_seconds: float = math.inf,
        clock: Clock = time,
        on_progress: Callable[[], None] = lambda: None,
        transaction_seconds: float = math.inf,
    ) -> None:
        self.transaction = TransactionSize(transaction_seconds)
        self.limit_seconds = limit_seconds
        self.clock = clock
        self.on_progress = on_progress
        self._texts = Rate(FIRST_CHARACTERS)
        self._records = Rate(FIRST_RECORDS)
        self._record_bytes = 0.0  # of a transaction, by the last micro-batch

    # -- what is likely
    # --------------------------------------------------------------------------------------

    def is_too_long(self, records: int, characters: int) -> bool:
        """Whether so many records with so much new text are likely to take longer than
        the limit.
        """
        if not self._is_limited:
            return False
        return self._records.seconds(records) + self._texts.seconds(characters) > self.limit_seconds

    def most_records(self) -> int:
        """How many records without new text are within the limit, and fit into a transaction; at
        least one.
        """
        likely = self._records.units(self.limit_seconds) if self._is_limited else MOST
        if self._record_bytes:
            likely = min(likely, AIMED_AT * self.transaction.most / self._record_bytes)
        return max(1, int(min(likely, MOST)))

    def parts(self, texts: Sequence[str]) -> Iterator[Sequence[str]]:
        """The texts in order, in parts that are likely to be embedded within the limit each, or are
        a single text.

        What the parts before took counts for the next one: so many at once that engines work at
        their best, and so few that there is progress to be seen of a record of very many sentences.
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

    # -- what was
    # --------------------------------------------------------------------------------------------

    def embedded(self, texts: Sequence[str], seconds: float) -> None:
        """The engine took so long for these texts."""
        self._texts.measured(sum(map(characters, texts)), seconds)
        self.on_progress()

    def processed(self, records: int, seconds: float, size: int = 0) -> None:
        """So many records took so long, embedding apart, and came to so many bytes of a
        transaction.
        """
        # a difference of clocks may be less than nothing
        self._records.measured(records, max(0.0, seconds))
        self._record_bytes = size / max(1, records)


class TooMuch(Exception):
    """A micro-batch passes a limit: only its first `keep` records go on. Never leaves the
    processor.
    """

    def __init__(self, limit: Limit, keep: int) -> None:
        self.limit = limit
        self.keep = keep


class Load:
    """What `records` records come to so far. One record alone is never too much.

    Attributes:
        size: bytes of messages and rows.
    """

    __slots__ = ("_limits", "_most_bytes", "_pace", "_records", "_transaction_records", "size")

    def __init__(self, limits: BatchLimits, pace: Pace, records: int) -> None:
        self._limits = limits
        self._pace = pace
        self._records = records
        self._transaction_records = 0
        self._most_bytes = min(limits.transaction_bytes, pace.transaction.most)
        self.size = 0

    def check_plan(self, sentences: int, characters: int, index: int) -> None:
        """So many sentences and characters to be embedded are planned with the record of this
        index.

        Raises TooMuch, to go on without that record.
        """
        if not index:
            return
        if sentences > self._limits.sentences:
            raise TooMuch(Limit.BATCH_SENTENCES, index)
        if characters and self._pace.is_too_long(index + 1, characters):
            raise TooMuch(Limit.BATCH_TIME, index)

    def add(self, key: bytes | None, value: bytes | None) -> None:
        """Count one message or row. Raises TooMuch, to go on with half of the records."""
        self.count()
        self.weigh(len(key or b"") + len(value or b""))

    def count(self) -> None:
        """Count one message that is still to be made. Raises TooMuch as `add` does."""
        self._transaction_records += 1
        if self._transaction_records > self._limits.transaction_records and self._records > 1:
            raise TooMuch(Limit.TRANSACTION_RECORDS, self._records // 2)

    def weigh(self, size: int) -> None:
        """Count the bytes of messages or rows that are counted. Raises TooMuch as `add` does."""
        self.size += size
        if self.size > self._most_bytes and self._records > 1:
            is_slow = self._most_bytes < self._limits.transaction_bytes
            raise TooMuch(
                Limit.BATCH_TIME if is_slow else Limit.TRANSACTION_BYTES, self._records // 2
            )
