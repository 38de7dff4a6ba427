"""A run that ends: a worker that reads its input from given offsets to given offsets, keeps account
of it, and stops.

Without it a worker begins where the log begins, and never stops.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from worker.events import Record
from worker.kafka.offsets import Start
from worker.processing.config import ALL, Emit, RecordSelection
from worker.processing.processor import ProcessedBatch


class Ledger(Protocol):
    """What was done so far, by partition, as a note that is committed with each offset: what the
    offset survives, it does.
    """

    def begin(self, starts: Mapping[int, Start]) -> None:
        """These partitions are taken over, each with the offset and the note that are committed."""

    def notes(self, batch: ProcessedBatch) -> Mapping[int, str]:
        """The notes of the batch's partitions once it is committed."""

    def committed(self, batch: ProcessedBatch, notes: Mapping[int, str]) -> None:
        """It is committed, under these notes."""

    def is_over(self, partition: int) -> bool:
        """Whether everything of a held partition is done and committed, up to its end."""


class NoLedger:
    """The ledger of a worker that never stops."""

    def begin(self, starts: Mapping[int, Start]) -> None:
        """See `Ledger`."""

    def notes(self, batch: ProcessedBatch) -> Mapping[int, str]:
        """See `Ledger`."""
        return {}

    def committed(self, batch: ProcessedBatch, notes: Mapping[int, str]) -> None:
        """See `Ledger`."""

    def is_over(self, partition: int) -> bool:
        """See `Ledger`."""
        return False


NO_LEDGER = NoLedger()


class FileRecords(Protocol):
    """Records that are had elsewhere: the first ones of a partition."""

    def partitions(self) -> Mapping[int, range]:
        """By partition the offsets that are had."""

    def read(self, partition: int, start: int) -> Iterator[Record]:
        """Those of a partition from an offset on, in order."""


class Throttle(Protocol):
    """How fast the input may be read."""

    def pause(self, events: int, size: int) -> float:
        """Seconds to wait before more is read, where so many events of so many bytes were."""


class NoThrottle:
    """As fast as it goes."""

    def pause(self, events: int, size: int) -> float:
        """See `Throttle`."""
        return 0.0


@dataclass(frozen=True)
class RunBounds:
    """The course of a run: from where to where, how fast, and who keeps account.

    Attributes:
        first: by partition, where one begins of which nothing is committed; the log's start where
            there is none.
        ends: by partition, the first offset that is not read any more; no end where there is none.
        emit: what is published, in place of the setting.
        selection: of the records.
        history: what is read before the log, and in place of it.
        open_partitions: asks the group which partitions are not over yet.
        topic_id: that the input must have; empty where it is not known.
    """

    first: Mapping[int, int] = field(default_factory=dict)
    ends: Mapping[int, int] = field(default_factory=dict)
    emit: Emit | None = None
    selection: RecordSelection = ALL
    ledger: Ledger = NO_LEDGER
    throttle: Throttle = field(default_factory=NoThrottle)
    history: FileRecords | None = None
    open_partitions: Callable[[], Collection[int]] = tuple
    topic_id: str = ""


ENDLESS = RunBounds()
