"""The first records of a partition where they are had elsewhere than in its log: in files, read bit by bit."""

from collections.abc import Iterator, Mapping

from worker.events import Record
from worker.kafka.offsets import Start
from worker.stream.bounded import Course

MAX_BYTES = 4 * 2**20
"""Of the records that are taken at once; a larger one comes alone."""


class Past:
    """What is left of one partition.

    Attributes:
        stop: the offset after it, where the log goes on, or the run ends.
    """

    def __init__(self, records: Iterator[Record], stop: int) -> None:
        self.stop = stop
        self._records = records

    def take(self, most: int) -> tuple[tuple[Record, ...], int]:
        """The next records, at most so many, and the offset after them; `stop` when they are all. Blocks."""
        taken: list[Record] = []
        size = 0
        for record in self._records:
            if record.offset >= self.stop:
                break
            taken.append(record)
            size += len(record.key or b"") + len(record.value or b"")
            if len(taken) >= most or size >= MAX_BYTES:
                return tuple(taken), record.offset + 1
        return tuple(taken), self.stop


def pasts(course: Course, starts: Mapping[int, Start]) -> dict[int, Past]:
    """By partition, what is had elsewhere from where it is read on."""
    found = {}
    for partition, had in (course.history.partitions() if course.history else {}).items():
        start = starts.get(partition)
        stop = min(had.stop, course.ends.get(partition, had.stop))
        if course.history is not None and start is not None and start.offset < stop:
            found[partition] = Past(course.history.read(partition, start.offset), stop)
    return found
