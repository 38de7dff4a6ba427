"""Limits time and size of micro-batches by the time of recent ones.

Processors differ tenfold in speed, and sentences hundredfold in length. Nothing is known at first,
so the first micro-batch is small. A link to the brokers may be slow or have a quota, so
transactions have a limit of their own (`TransactionSize`).
"""

import math
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from worker.clock import Clock
from worker.events import Record
from worker.limits import Limit
from worker.processing.config import BatchLimits

HALF_LIFE_SECONDS = 5.0  # of work, after which a measurement counts half
TEXT_OVERHEAD = 20  # characters that a text costs besides its own, with the default engine
MOST = 2**30  # records; more than any micro-batch has
MOST_BYTES = 2**31  # more than any transaction has
FIRST_CHARACTERS, FIRST_RECORDS = 2000, 100
"""Tried while nothing is known: about 20 sentences, a tenth of a second on a common processor."""
FIRST_BYTES = 2**20  # of a transaction, tried while nothing is known
LEAST_BYTES = 2**16
"""Of a transaction that is slow or not written: an outage is likelier than so slow a link, unless
it happens twice in a row.
"""
FAST, SLOW = 1 / 4, 1 / 2
"""Shares of a transaction's time limit: it grows if faster than the first, shrinks if slower than
the second.
"""
AIMED_AT = 3 / 4  # share of a transaction's largest size to fill, so that few are cut twice


def characters(text: str) -> int:
    """The cost of embedding a text, in characters."""
    return len(text) + TEXT_OVERHEAD


class Rate:
    """Recent seconds per unit of work: an average that forgets with HALF_LIFE_SECONDS.

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
        """Record that these units took this long."""
        kept = 0.5 ** (seconds / HALF_LIFE_SECONDS)
        self._units = kept * self._units + units
        self._seconds = kept * self._seconds + seconds

    def seconds(self, units: int) -> float:
        """Expected seconds. While nothing is known: 0 up to `first` units, infinite beyond."""
        if not self._units:
            return 0.0 if units <= self._first else math.inf
        return self._seconds / self._units * units

    def units(self, seconds: float) -> float:
        """Units expected to be done in this time."""
        if not self._units:
            return self._first
        return math.inf if not self._seconds else self._units / self._seconds * seconds


class TransactionSize:
    """The most bytes, `most`, of a transaction of several records, by how long recent ones took.

    As TCP finds the rate of a link: doubled while transactions are fast, and a quarter of the last
    one after one that was not written in time. From then on it grows with the time that
    transactions take: a quota lets megabytes pass at full speed before it slows them down, so
    doubling would fail the same way every time. The committing thread writes it, the processing
    thread reads it.

    >>> size = TransactionSize(seconds=10.0)
    >>> size.unwritten(records=100, size=800_000, seconds=12.0), size.most
    (True, 200000)
    >>> size.written(200_000, 1.25)
    >>> size.most
    300001
    """

    __slots__ = ("_has_failed", "_seconds", "_was_small", "most")

    def __init__(self, seconds: float = math.inf) -> None:
        """`seconds`: time limit for writing a transaction; infinite: the size is not limited."""
        self._seconds = seconds
        self._has_failed = False
        self._was_small = False  # the last one was slow, and small
        self.most = MOST_BYTES if seconds == math.inf else FIRST_BYTES

    def written(self, size: int, seconds: float) -> None:
        """Record that a transaction of `size` bytes was committed in this time."""
        if seconds > SLOW * self._seconds:
            self._reduce(size, size // 2)
            return
        self._was_small = False
        if seconds * LEAST_BYTES <= FAST * self._seconds * size:
            self.most = max(self.most, LEAST_BYTES)
        if 4 * size >= self.most and seconds * self.most <= FAST * self._seconds * size:
            share = min(1.0, seconds / (FAST * self._seconds)) if self._has_failed else 1.0
            self.most = min(self.most + 1 + int(share * self.most), MOST_BYTES)

    def unwritten(self, records: int, size: int, seconds: float) -> bool:
        """Record that a transaction failed after this time; returns whether the next one is
        smaller.

        It is not if the transaction failed too early for its size to be the cause, has one record,
        or is small and the first one.
        """
        if seconds < SLOW * self._seconds or records <= 1:
            return False
        self._has_failed = True
        self._reduce(size, min(self.most, size) // 4)
        return self.most < size

    def _reduce(self, size: int, wanted: int) -> None:
        """Make the next ones smaller than this one was."""
        self.most = min(self.most, max(wanted, 1 if self._was_small else LEAST_BYTES))
        self._was_small = size <= LEAST_BYTES


class Pace:
    """The pace of a processor.

    `limit_seconds` bounds a micro-batch of several records, its commit excluded, and
    `transaction_seconds` the writing of a transaction; without them there is no limit.
    `on_progress` is called after each part of the work.
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
        self._most = MOST  # records, after a cut: the number processed, then doubled each time
        self._record_bytes = 0.0  # of a transaction, by the last micro-batch
        self._record_loaded = 0.0  # likewise, bytes of entities that it read into memory

    def first_part(
        self, records: Sequence[Record], limits: BatchLimits
    ) -> tuple[Sequence[Record], Limit | None]:
        """The first records that are likely to fit into a micro-batch, at least one, and the limit
        that keeps the next one out.
        """
        likely = self.most_records(limits.loaded_bytes)
        most, limit = min((limits.events, Limit.BATCH_EVENTS), (likely, Limit.BATCH_TIME))
        first = records[: min(most, self._most)]
        sizes = [*accumulate([record.size for record in first])]
        fitting = max(1, bisect_right(sizes, limits.bytes))
        if fitting < len(first):
            return first[:fitting], Limit.BATCH_BYTES
        return first, limit if len(first) == most < len(records) else None

    def is_too_long(self, records: int, characters: int) -> bool:
        """True if these records with this much new text are expected to exceed the limit."""
        return self._records.seconds(records) + self._texts.seconds(characters) > self.limit_seconds

    def most_records(self, loaded_bytes: float = math.inf) -> int:
        """Records without new text that fit into the limit, a transaction, and so many bytes of
        entities read into memory; at least one.
        """
        is_limited = self.limit_seconds != math.inf
        likely = self._records.units(self.limit_seconds) if is_limited else MOST
        if self._record_bytes:
            likely = min(likely, AIMED_AT * self.transaction.most / self._record_bytes)
        if self._record_loaded:
            likely = min(likely, AIMED_AT * loaded_bytes / self._record_loaded)
        return max(1, int(min(likely, MOST)))

    def parts(self, texts: Sequence[str]) -> Iterator[Sequence[str]]:
        """The texts in order, in parts that are each expected to be embedded within the limit.

        A part has at least one text. A part's measured time sizes the next one: large enough for an
        engine to work at its best, small enough that a huge record shows progress.
        """
        if self.limit_seconds == math.inf:
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

    def embedded(self, texts: Sequence[str], seconds: float) -> None:
        """Record that the engine took this long for these texts."""
        self._texts.measured(sum(map(characters, texts)), seconds)
        self.on_progress()

    def processed(
        self, records: int, seconds: float, size: int = 0, loaded: int = 0, *, is_cut: bool = False
    ) -> None:
        """Record the time of these records without embedding, and the bytes they wrote and read.
        `is_cut`: more were tried first, and were too much.
        """
        self._most = records if is_cut else min(2 * self._most, MOST)
        # a difference of clocks may be negative
        self._records.measured(records, max(0.0, seconds))
        self._record_bytes = size / max(1, records)
        self._record_loaded = loaded / max(1, records)


class TooMuch(Exception):
    """A micro-batch exceeds a limit: the processor continues with its first `keep` records."""

    def __init__(self, limit: Limit, keep: int) -> None:
        self.limit = limit
        self.keep = keep


@dataclass(slots=True, eq=False)
class Load:
    """The size of a micro-batch of `records` records so far, in bytes. One record always fits."""

    limits: BatchLimits
    pace: Pace
    records: int
    size: int = 0
    loaded: int = 0
    _transaction_records: int = 0
    _most_bytes: int = field(init=False)

    def __post_init__(self) -> None:
        self._most_bytes = min(self.limits.transaction_bytes, self.pace.transaction.most)

    def check_plan(self, sentences: int, characters: int, index: int) -> None:
        """Check sentences and characters to embed, counted up to the record of this index.

        Raises TooMuch, to continue without that record.
        """
        if not index:
            return
        if sentences > self.limits.sentences:
            raise TooMuch(Limit.BATCH_SENTENCES, index)
        if characters and self.pace.is_too_long(index + 1, characters):
            raise TooMuch(Limit.BATCH_TIME, index)

    def hold(self, size: int, index: int) -> None:
        """Count the bytes of an entity that the record of this index was the first to read into
        memory; one that shrank counts none. Raises TooMuch, to continue without that record.
        """
        self.loaded += max(0, size)
        self.check_loaded(self.loaded, index)

    def check_loaded(self, loaded: int, index: int) -> None:
        """Check the bytes of entities that were read into memory. Raises TooMuch as `hold` does."""
        if index and loaded > self.limits.loaded_bytes:
            raise TooMuch(Limit.CACHE_BYTES, index)

    def add(self, number: int, size: int) -> None:
        """Count messages or rows, and their bytes, now or later. Raises TooMuch, to continue with
        half of the records.
        """
        self._transaction_records += number
        self.size += size
        if self.records == 1:
            return
        if self._transaction_records > self.limits.transaction_records:
            raise TooMuch(Limit.TRANSACTION_RECORDS, self.records // 2)
        if self.size > self._most_bytes:
            is_slow = self._most_bytes < self.limits.transaction_bytes
            raise TooMuch(
                Limit.BATCH_TIME if is_slow else Limit.TRANSACTION_BYTES, self.records // 2
            )
