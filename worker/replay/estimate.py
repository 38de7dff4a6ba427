"""Estimates a replay before it begins: a sample of its records goes through the processor.

No row is written. A sample does not show how long a process takes to start and end, nor the time of
commits and reading beside the processing: these are a constant and a share, measured once.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from worker.clock import Clock
from worker.events import Record
from worker.processing.config import ProcessorConfig
from worker.processing.embed import VectorStore
from worker.processing.pace import Pace
from worker.processing.processor import Processor
from worker.replay.ranges import Range
from worker.state import MemoryRows
from worker.stream.run_bounds import RateThrottle
from worker.text.engine import EmbeddingEngine

SAMPLE_SECONDS = 10.0  # seconds to process the sample, shared by its places
WINDOWS, WINDOW_RECORDS = 20, 600
"""Places of the sample, spread over all partitions, and records at each, if there is time."""
START_SECONDS = 5.0  # seconds that an empty replay takes to join its group and to leave it
COMMIT_SHARE = 0.32  # share of commits and reading in a replay's time without embedding
SHARED = 2.0
"""How many times longer a replay takes whose processors brokers and other workers use too."""

Read = Callable[[int, int, int], Iterator[Record]]
"""The records of a partition, from an offset to before another."""


class Estimate(NamedTuple):
    """The likely cost of a replay by one process."""

    records: int  # offsets; some hold no record
    size: int  # bytes of keys and values
    seconds: float  # with the processors of the sample
    disk_bytes: int  # of the rows, which the changelog has too
    sampled: int  # records that were processed
    sampled_entities: int
    sampled_embedded: int  # texts
    sampled_known: int  # texts found in the vector store
    seconds_at_most: float  # while brokers and other workers use half of the processors


def estimate(
    read: Read,
    ranges: Mapping[int, Range],
    config: ProcessorConfig,
    engine: EmbeddingEngine | None,
    vectors: VectorStore | None,
    throttle: RateThrottle,
    clock: Clock = time,
) -> Estimate:
    """Read a sample and process it. Raises SetupError if it cannot be read."""
    places = list(_windows(ranges))
    seconds = SAMPLE_SECONDS / max(1, len(places))
    sample = _Sample(ranges, config, engine, vectors, seconds, clock)
    for number, (partition, start) in enumerate(places):
        end = min(ranges[partition].end, start + 4 * WINDOW_RECORDS)
        records = list(islice(read(partition, start, end), WINDOW_RECORDS))
        if number == 0:  # warms up libraries, which are slow at first
            _Sample(ranges, config, engine, None, seconds, clock).take(records)
        sample.take(records)
    return sample.scaled(sum(span.size for span in ranges.values()), throttle)


@dataclass(eq=False)
class _Sample:
    """Sampled records in a processor of their own, and their cost."""

    ranges: Mapping[int, Range]
    config: ProcessorConfig
    engine: EmbeddingEngine | None
    vectors: VectorStore | None  # with known vectors
    most_seconds: float  # for the records of one place
    clock: Clock

    def __post_init__(self) -> None:
        self._rows = {partition: MemoryRows() for partition in self.ranges}
        pace = Pace(self.most_seconds, self.clock)
        self._processor = Processor(
            self.config, self._rows.__getitem__, self.engine, pace, self.vectors
        )
        self._records = self._size = self._embedded = self._known = 0
        self._entities: set[bytes | None] = set()
        self._seconds = self._embed_seconds = 0.0

    def take(self, records: list[Record]) -> None:
        """Process records of one place while there is time, at least one micro-batch."""
        give_up = self.clock.monotonic() + self.most_seconds
        while records:
            started = self.clock.monotonic()
            batch = self._processor.process(records)
            for number, changes in batch.rows.items():
                self._rows[number].write(changes)
            self._processor.committed(batch)
            now = self.clock.monotonic()
            self._seconds += now - started
            self._embed_seconds += batch.stats.embed_seconds
            self._embedded += batch.stats.sentences_embedded
            self._known += batch.stats.vectors_found
            done, records = records[: batch.taken], records[batch.taken :]
            self._records += len(done)
            self._size += sum(len(record.key or b"") + len(record.value or b"") for record in done)
            self._entities |= {record.key for record in done}
            if now > give_up:
                return

    def scaled(self, offsets: int, throttle: RateThrottle) -> Estimate:
        """The cost of `offsets` records like those of the sample, at the throttle's rates."""
        scale = offsets / self._records if self._records else 0.0
        size = round(self._size * scale)
        throttled = throttle.pause(offsets, size)
        work = self._embed_seconds + (self._seconds - self._embed_seconds) / (1 - COMMIT_SHARE)
        return Estimate(
            records=offsets,
            size=size,
            seconds=START_SECONDS + max(work * scale, throttled),
            disk_bytes=round(sum(row.size_bytes for row in self._rows.values()) * scale),
            sampled=self._records,
            sampled_entities=len(self._entities),
            sampled_embedded=self._embedded,
            sampled_known=self._known,
            seconds_at_most=START_SECONDS + max(SHARED * work * scale, throttled),
        )


def _windows(ranges: Mapping[int, Range]) -> Iterator[tuple[int, int]]:
    """Sampled places by partition and offset, spread evenly, in ascending order."""
    total = sum(span.size for span in ranges.values())
    if total <= WINDOWS * WINDOW_RECORDS:
        for partition, span in sorted(ranges.items()):
            yield from ((partition, start) for start in range(span.first, span.end, WINDOW_RECORDS))
        return
    step, due, before = total / WINDOWS, 0.0, 0
    for partition, span in sorted(ranges.items()):
        while due < before + span.size:
            yield partition, span.first + int(due - before)
            due += step
        before += span.size
