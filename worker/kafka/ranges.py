"""From where to where a replay reads each partition: offsets, looked up once.

The end of a partition as of now is that for an uncommitted reader: whatever is below it will be decided. As of a time it is the
first record whose timestamp is at or past it, so that what is read is a prefix of the log.
"""

from collections.abc import Collection, Mapping

from confluent_kafka import Consumer
from msgspec import Struct

from worker.errors import SurroundingsError
from worker.events.messages import timestamp
from worker.kafka.clients import Clients
from worker.kafka.offsets import offsets_at, watermarks
from worker.kafka.reader import broker_errors

TIMEOUT_SECONDS = 30.0


class Range(Struct, frozen=True):
    """Offsets of a partition: the first that is read, the first that is not, and where the log began."""

    first: int
    end: int
    log_start: int

    @property
    def size(self) -> int:
        """How many offsets; some may hold no record."""
        return max(0, self.end - self.first)


def find_ranges(
    clients: Clients,
    group: str,
    topic: str,
    partitions: int,
    *,
    since_ms: int | None = None,
    until_ms: int | None = None,
    only: Collection[int] | None = None,
    elsewhere: Mapping[int, range] = {},
) -> dict[int, Range]:
    """The range of each partition now; those that are not in `only` have an empty one.

    `elsewhere` are offsets, by partition, whose records are had from somewhere else: a log may begin after them.

    Raises SurroundingsError where a range ends before the log begins, or the broker does not tell.
    """
    consumer = clients.standalone_consumer(group, "read_uncommitted")
    try:
        with broker_errors(f"the offsets of {topic} are not told"):
            bounds = {p: watermarks(consumer, topic, p, TIMEOUT_SECONDS) for p in range(partitions)}
            firsts = _at_time(consumer, topic, bounds, since_ms) if since_ms is not None else {}
            ends = _at_time(consumer, topic, bounds, until_ms) if until_ms is not None else {}
    finally:
        consumer.close()
    ranges = {}
    for partition, offsets in bounds.items():
        low, high = offsets.start, offsets.stop
        end = ends.get(partition, high)
        if only is not None and partition not in only:
            end = low
        elif end <= low and low > 0 and until_ms is not None and partition not in elsewhere:
            raise SurroundingsError(
                f"{topic}-{partition}: everything before {timestamp(until_ms)} is gone, retention has removed the offsets 0 to "
                f"{low - 1}: ask for a later --until, or leave the partition out (--partitions)"
            )
        ranges[partition] = Range(min(firsts.get(partition, low), end), end, low)
    return ranges


def _at_time(consumer: Consumer, topic: str, bounds: Mapping[int, range], time_ms: int) -> dict[int, int]:
    """By partition the first offset whose timestamp is at or past a time; its end where there is none."""
    ends = {partition: offsets.stop for partition, offsets in bounds.items()}
    return ends | offsets_at(consumer, topic, bounds, time_ms, TIMEOUT_SECONDS)
