"""A run that ends: it reads its input between given offsets, keeps an account, and stops.

Without bounds a worker begins at the log's start and runs until it is stopped.
"""

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from worker.clock import Clock
from worker.errors import Crash
from worker.events import Record
from worker.kafka.errors import is_retriable
from worker.kafka.offsets import Start
from worker.processing.config import ALL, Emit, RecordSelection
from worker.processing.processor import ProcessedBatch
from worker.stream.assignment import Assignment
from worker.stream.surroundings import Surroundings

IDLE_SECONDS = 0.2  # seconds between two checks whether this process has finished its partitions
ASK_SECONDS = 1.0  # seconds between two requests to the group, once this process has


class Ledger:
    """The account of a run: by partition a note that is committed with each offset. Here: none."""

    def begin(self, starts: Mapping[int, Start]) -> None:
        """These partitions are taken over, with their committed offsets and notes."""

    def notes(self, batch: ProcessedBatch) -> Mapping[int, str]:
        """The notes of the batch's partitions once it is committed."""
        return {}

    def committed(self, batch: ProcessedBatch, notes: Mapping[int, str]) -> None:
        """The batch is committed with these notes."""

    def is_over(self, partition: int) -> bool:
        """True if a held partition is committed up to its end."""
        return False


NO_LEDGER = Ledger()


class FileRecords(Protocol):
    """Records replayed from files before the log."""

    def partitions(self) -> Mapping[int, range]:
        """Offsets by partition of records in files."""

    def read(self, partition: int, start: int) -> Iterator[Record]:
        """The records of a partition from an offset on, in order."""


BURST_SECONDS = 0.25  # seconds of the allowed rate that one read takes: others wait only briefly


@dataclass(eq=False)
class RateThrottle:
    """Keeps average rates; saves up at most one unused second."""

    events_per_s: float | None = None  # upper bound; None: no limit
    bytes_per_s: float | None = None  # upper bound of keys and values; None: no limit
    clock: Clock = time  # measures time

    def __post_init__(self) -> None:
        self._due = self.clock.monotonic()  # when everything read so far should have been read

    @property
    def is_on(self) -> bool:
        """True if there is a limit."""
        return self.events_per_s is not None or self.bytes_per_s is not None

    @property
    def events_at_once(self) -> int | None:
        """Events of a micro-batch, at least one; None: no limit."""
        return (
            None if self.events_per_s is None else max(1, round(self.events_per_s * BURST_SECONDS))
        )

    @property
    def bytes_at_once(self) -> int | None:
        """Bytes of a micro-batch of several events; None: no limit."""
        return None if self.bytes_per_s is None else max(1, round(self.bytes_per_s * BURST_SECONDS))

    def pause(self, events: int, size: int) -> float:
        """Seconds to wait before reading on, after this many events of `size` bytes."""
        now = self.clock.monotonic()
        seconds = max(
            events / self.events_per_s if self.events_per_s else 0.0,
            size / self.bytes_per_s if self.bytes_per_s else 0.0,
        )
        self._due = max(self._due, now - 1.0) + seconds
        return max(0.0, self._due - now)


@dataclass(frozen=True)
class RunBounds:
    """The bounds of a run, its speed and its account."""

    first: Mapping[int, int] = field(default_factory=dict)
    """By partition, where to begin without a committed offset; by default the log's start."""
    ends: Mapping[int, int] = field(default_factory=dict)
    """By partition, the first offset that is not read; no end for partitions left out."""
    emit: Emit | None = None  # what is published, in place of the setting
    selection: RecordSelection = ALL  # which records are processed
    ledger: Ledger = NO_LEDGER  # keeps the account
    throttle: RateThrottle = field(default_factory=RateThrottle)  # limits the speed
    history: FileRecords | None = None  # records to read before the log, instead of its beginning
    open_partitions: Callable[[], Collection[int]] = tuple
    """Asks the group which partitions are not finished. Raises brokers' errors."""
    topic_id: str = ""  # the id that the input must have; empty if unknown


ENDLESS = RunBounds()


@dataclass(eq=False)
class Ending:
    """Calls `end`, which ends this process in order, when the group has finished all partitions."""

    bounds: RunBounds
    assignment: Assignment
    end: Callable[[], None]
    surroundings: Surroundings

    async def watch(self) -> None:
        """Wait for the end of the run, then end this process.

        A process without work stays, because it may be given another one's partitions.
        """
        try:
            while not (self._is_idle() and await self._is_over()):
                seconds = ASK_SECONDS if self._is_idle() else IDLE_SECONDS
                await self.surroundings.pause(seconds)
            if len(self.assignment.positions) < len(self.bounds.ends):
                # The end of this member moves partitions: other processes should have ended first.
                await self.surroundings.pause(2 * ASK_SECONDS)
        except Exception as cause:
            self.surroundings.die(cause)
        self.end()

    def _is_idle(self) -> bool:
        held = list(self.assignment.positions)
        is_taken_over = self.assignment.is_flowing
        return is_taken_over and all(self.bounds.ledger.is_over(partition) for partition in held)

    async def _is_over(self) -> bool:
        try:
            return not await self.surroundings.threads.beside(self.bounds.open_partitions)
        except Exception as cause:
            if not isinstance(cause, Crash) and not is_retriable(cause):
                raise
            return False
