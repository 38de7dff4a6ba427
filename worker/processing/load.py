"""What a micro-batch comes to, counted while its results are made, and the cut where that passes a limit."""

from worker.limits import Limit
from worker.processing.config import BatchLimits


class TooMuch(Exception):
    """A micro-batch passes a limit: only its first `keep` records go on. Never leaves the processor."""

    def __init__(self, limit: Limit, keep: int) -> None:
        self.limit = limit
        self.keep = keep


class Load:
    """What `records` records come to so far. One record alone is never too much."""

    __slots__ = ("_limits", "_micro_batch", "records", "size")

    def __init__(self, limits: BatchLimits, records: int) -> None:
        self._limits = limits
        self._micro_batch = records
        self.records = 0
        """Messages and rows of the transaction."""
        self.size = 0
        """Bytes of their keys and values."""

    def check_sentences(self, sentences: int, index: int) -> None:
        """So many sentences are planned with the record of this index. Raises TooMuch, to go on without that record."""
        if sentences > self._limits.sentences and index:
            raise TooMuch(Limit.BATCH_SENTENCES, index)

    def add(self, key: bytes | None, value: bytes | None) -> None:
        """Count one message or row. Raises TooMuch, to go on with half of the records."""
        self.records += 1
        self.size += len(key or b"") + len(value or b"")
        if self._micro_batch > 1:
            if self.records > self._limits.transaction_records:
                raise TooMuch(Limit.TRANSACTION_RECORDS, self._micro_batch // 2)
            if self.size > self._limits.transaction_bytes:
                raise TooMuch(Limit.TRANSACTION_BYTES, self._micro_batch // 2)
