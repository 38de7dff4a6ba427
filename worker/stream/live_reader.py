"""The reader of a worker that runs until it is stopped.

A reader decides which partitions are fetched next and how many fetches become one micro-batch. The
consumer (`worker.stream.faust.consumer`) fetches and applies the cursor rules.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from worker.kafka.offsets import Start
from worker.stream.delivery import MicroBatch
from worker.stream.worker import StreamWorker

if TYPE_CHECKING:
    from worker.stream.faust.consumer import GuardedConsumer

FETCH_SECONDS = 1.0
"""Longest wait for records of any partition."""
BUSY_POLL_SECONDS = 0.01
"""Poll interval while the previous micro-batch is busy."""

Fetched = dict[int, list[Any]]
"""Records of the consumer's client, by partition."""


class LiveReader:
    """Reads all partitions at once, without an end."""

    def __init__(self, consumer: GuardedConsumer, worker: StreamWorker) -> None:
        self._input = consumer
        self._assignment = worker.assignment
        self._delivery = worker.delivery
        self._linger_seconds = worker.settings.batch_linger_ms / 1000
        self._batch_seconds = worker.settings.batch_ms / 1000
        self._batch_events = worker.settings.batch_size
        self._previous: MicroBatch | None = None

    def start(self, starts: Mapping[int, Start]) -> Mapping[int, int]:
        """Begin at these offsets; returns by partition the offset to fetch from."""
        return {partition: start.offset for partition, start in starts.items()}

    async def next(self) -> MicroBatch | None:
        """The next micro-batch; None if there is nothing to hand over."""
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

        Each micro-batch waits for the commits before its own, and a small one takes nearly as long
        as a large one. So a micro-batch that would wait takes more records first.
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
        """Seconds until the next look at the previous micro-batch of this tenure; 0 if not busy."""
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
