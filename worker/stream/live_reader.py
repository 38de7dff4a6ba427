"""The reader of a worker that runs until it is stopped, and what any reader needs of the consumer.

A reader decides which partitions are fetched next and how many fetches become one micro-batch. The
consumer (`worker.stream.faust.consumer`) fetches and applies the cursor rules.
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any, Protocol

from worker.kafka.offsets import Start
from worker.stream.assignment import Tenure
from worker.stream.delivery import MicroBatch
from worker.stream.worker import StreamWorker

FETCH_SECONDS = 1.0
"""Longest wait for records of any partition."""
BUSY_POLL_SECONDS = 0.01
"""Poll interval while the previous micro-batch is busy."""

Fetched = dict[int, list[Any]]
"""Records of the consumer's client, by partition."""


class GuardedInput(Protocol):
    """The consumer as its reader uses it."""

    cursors: dict[int, int]
    """By partition, the offset after the last record that was handed over."""

    @property
    def should_stop(self) -> bool:
        """Whether the worker stops."""

    async def sleep(self, seconds: Any) -> None:
        """Wait, or return when the worker stops."""

    async def fetch(self, seconds: float, partitions: Container[int] | None = None) -> Fetched:
        """Records of these partitions, or of all; waits for the first one.

        Raises Crash if the log has no record at a partition's position.
        """

    def holds(self, tenure: Tenure | None) -> bool:
        """Whether what was fetched under this tenure may be handed over."""

    def merged(self, fetches: Sequence[Fetched], tenure: Tenure | None) -> Fetched | None:
        """Several fetches as one; None if the tenure has ended, and they are read again."""

    def guard(self, fetched: Fetched, tenure: Tenure) -> MicroBatch | None:
        """The records that are proven to follow the cursors, which move behind them."""

    def read_again(self, partitions: Iterable[int]) -> None:
        """Fetch from the cursors next."""

    def fetch_position(self, partition: int) -> int | None:
        """Where the next fetch begins."""

    def last_stable_offset(self, partition: int) -> int | None:
        """The end of what a committed reader may read, as of the last fetch."""

    def high_watermark(self, partition: int) -> int:
        """The end of the log, as of the last fetch."""

    async def is_empty(self, partition: int, position: int, end: int) -> bool:
        """Whether the log has no record from a position to an end."""


class Reader(Protocol):
    """Makes micro-batches of what the consumer fetches."""

    def start(self, starts: Mapping[int, Start]) -> Mapping[int, int]:
        """Begin at these offsets; returns by partition the offset to fetch from."""

    async def next(self) -> MicroBatch | None:
        """The next micro-batch; None if there was nothing to hand over."""


class LiveReader:
    """Reads all partitions at once, without an end."""

    def __init__(self, source: GuardedInput, worker: StreamWorker) -> None:
        self._input = source
        self._assignment = worker.assignment
        self._delivery = worker.delivery
        self._linger_seconds = worker.settings.batch_linger_ms / 1000
        self._batch_seconds = worker.settings.batch_ms / 1000
        self._batch_events = worker.settings.batch_size
        self._previous: MicroBatch | None = None

    def start(self, starts: Mapping[int, Start]) -> Mapping[int, int]:
        """See `Reader`."""
        return {partition: start.offset for partition, start in starts.items()}

    async def next(self) -> MicroBatch | None:
        """See `Reader`."""
        tenure = self._assignment.tenure
        fetched = await self._input.fetch(FETCH_SECONDS)
        more = await self._linger(fetched) if fetched else []
        merged = self._input.merged([fetched, *more], tenure)
        if merged is None or tenure is None:
            return None
        batch = self._input.guard(merged, tenure)
        self._previous = batch or self._previous
        return batch

    async def _linger(self, fetched: Fetched) -> list[Fetched]:
        """What arrives during the linger time, and while the previous micro-batch is busy.

        A micro-batch that is handed over before it can be processed would be smaller. Each one has
        to wait for the commits before its own, and small ones take nearly as long as large ones.
        """
        more: list[Fetched] = []
        events, waited = count(fetched), 0.0
        seconds = self._linger_seconds or self._busy_seconds(waited)
        while events < self._batch_events and seconds:
            await self._input.sleep(seconds)
            more.append(await self._input.fetch(0.0))
            events, waited = events + count(more[-1]), waited + seconds
            seconds = self._busy_seconds(waited)
        return more

    def _busy_seconds(self, waited: float) -> float:
        """How long to wait for the previous micro-batch of this tenure until the next look; 0 if it
        is not busy.
        """
        previous = self._previous
        is_busy = (
            previous is not None
            and previous.tenure == self._assignment.tenure
            and not self._delivery.commit_started(previous)
            and not self._input.should_stop
            and waited < self._batch_seconds  # a queue that lost it would never let it begin
        )
        return BUSY_POLL_SECONDS if is_busy else 0.0


def count(fetched: Mapping[int, Sequence[Any]]) -> int:
    """The number of records."""
    return sum(len(records) for records in fetched.values())
