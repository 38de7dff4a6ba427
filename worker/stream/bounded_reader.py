"""The end of a partition in a bounded run: when nothing below it is left to be read.

Its last offsets may hold no record: transaction markers, aborted records, what compaction removed.
So it is the *position* that has to pass the end, not a record. A position is believed when a second
fetch from the cursor brings it there again, as a gap is: what a fetch from before a seek moved does
not count.
"""

import logging
from collections.abc import Iterator, Mapping
from typing import Any

from aiokafka.errors import KafkaError
from aiokafka.protocol.fetch import FetchRequest
from aiokafka.structs import TopicPartition

from worker.events import Record
from worker.kafka.offsets import CUT_SHORT_SECONDS, Start
from worker.stream.run_bounds import RunBounds

log = logging.getLogger(__name__)
READ_COMMITTED = 1
FETCH_BYTES = 2**20
WAIT_MS = 100


class Tail:
    """What is known of the end of a partition.

    >>> tail = Tail(end=10)
    >>> tail.is_reached(cursor=7, position=12), tail.is_to_be_shown_again(cursor=7, position=12)
    (False, True)
    >>> tail.is_reached(cursor=7, position=12)
    True
    """

    def __init__(self, end: int, *, is_in_log: bool = True) -> None:
        """`is_in_log`: False where the records up to the end are had elsewhere."""
        self.end = end
        self.is_in_log = is_in_log
        self._shown: int | None = None  # from which cursor the end was reached once
        self._hole: int | None = None
        self._is_waiting = False
        self._short_since: float | None = None

    def is_reached(self, cursor: int, position: int) -> bool:
        """Whether nothing is left: `cursor` is after the last record handed over, the next fetch is
        from `position`.
        """
        return (
            cursor >= self.end
            or cursor == self._hole
            or (self._shown == cursor and self._leaves_nothing(position))
        )

    def is_to_be_shown_again(self, cursor: int, position: int) -> bool:
        """Whether to fetch from the cursor once more, as the end was reached for the first time
        from there.
        """
        if self._shown == cursor or not self._leaves_nothing(position):
            return False
        self._shown = cursor
        return True

    def _leaves_nothing(self, position: int) -> bool:
        return position >= self.end or position == self._hole

    def wait(self, tp: TopicPartition, position: int, stable: int) -> None:
        """Say, once, that an open transaction lies before the end, and that everything before it is
        read.
        """
        if position >= stable and not self._is_waiting:
            self._is_waiting = True
            log.warning(
                "%s-%d: an open transaction of a producer begins at offset %d, before the end at %d: waiting until it is decided",
                tp.topic,
                tp.partition,
                stable,
                self.end,
            )

    def is_cut_short(self, highwater: int, now: float) -> bool:
        """Whether the log has ended below the end since `CUT_SHORT_SECONDS` ago; `now` is a
        monotonic time.
        """
        if highwater >= self.end:
            self._short_since = None
        elif self._short_since is None:
            self._short_since = now
        return self._short_since is not None and now - self._short_since > CUT_SHORT_SECONDS

    def is_hole_from(self, position: int) -> None:
        """There is nothing from this position to the end."""
        self._hole = position


async def is_empty(client: Any, tp: TopicPartition, position: int, end: int) -> bool:
    """Whether a partition has nothing from `position` on, though its stable part reaches to `end`.

    Asked for it alone: beside others an answer may have had no room for it. A broker hands out at
    least one batch, however large. Without an answer it is not known to be empty.
    """
    node = client.cluster.leader_for_partition(tp)
    if node is None or node < 0:
        return False
    request = FetchRequest(
        WAIT_MS,
        0,
        FETCH_BYTES,
        READ_COMMITTED,
        [(tp.topic, [(tp.partition, position, FETCH_BYTES)])],
    )
    try:
        answer = await client.send(node, request)
    # it does not lead any more, or is away: whoever does is asked next time
    except KafkaError as cause:
        log.debug("not known whether %s is empty from %d on: %r", tp, position, cause)
        return False
    for _topic, partitions in answer.topics:
        for _partition, error, _highwater, stable, *_others, records in partitions:
            return bool(error == 0 and stable >= end and not records)
    return False


BACKLOG_BYTES = 4 * 2**20
"""Of the records that are taken at once; a larger one comes alone."""


class FileBacklog:
    """What is left of one partition.

    Attributes:
        stop: the offset after it, where the log goes on, or the run ends.
    """

    def __init__(self, records: Iterator[Record], stop: int) -> None:
        self.stop = stop
        self._records = records

    def take(self, most: int) -> tuple[tuple[Record, ...], int]:
        """The next records, at most so many, and the offset after them; `stop` when they are all.
        Blocks.
        """
        taken: list[Record] = []
        size = 0
        for record in self._records:
            if record.offset >= self.stop:
                break
            taken.append(record)
            size += len(record.key or b"") + len(record.value or b"")
            if len(taken) >= most or size >= BACKLOG_BYTES:
                return tuple(taken), record.offset + 1
        return tuple(taken), self.stop


def file_backlogs(bounds: RunBounds, starts: Mapping[int, Start]) -> dict[int, FileBacklog]:
    """By partition, what is had elsewhere from where it is read on."""
    found = {}
    for partition, had in (bounds.history.partitions() if bounds.history else {}).items():
        start = starts.get(partition)
        stop = min(had.stop, bounds.ends.get(partition, had.stop))
        if bounds.history is not None and start is not None and start.offset < stop:
            found[partition] = FileBacklog(bounds.history.read(partition, start.offset), stop)
    return found
