"""What a micro-batch comes to, counted while its results are made, and the cut where that passes a limit."""

from worker.limits import Limit
from worker.processing.config import BatchLimits
from worker.processing.pace import Pace


class TooMuch(Exception):
    """A micro-batch passes a limit: only its first `keep` records go on. Never leaves the processor."""

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
        """So many sentences and characters to be embedded are planned with the record of this index.

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
            raise TooMuch(Limit.BATCH_TIME if is_slow else Limit.TRANSACTION_BYTES, self._records // 2)
