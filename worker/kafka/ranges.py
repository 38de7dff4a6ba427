"""From where to where a replay reads each partition: offsets, looked up once.

The end of a partition as of now is that for an uncommitted reader: whatever is below it will be
decided. As of a time it is the first committed record whose timestamp is at or past it, so that
what is read is a prefix of the log.
"""

import logging
import time
from collections.abc import Collection, Mapping
from contextlib import closing

from msgspec import Struct

from worker.clock import Clock
from worker.errors import SetupError
from worker.events.messages import timestamp
from worker.kafka.clients import READ_TO_END, Clients
from worker.kafka.offsets import watermarks
from worker.kafka.offsets_by_time import TIMEOUT_SECONDS, first_records, first_records_at
from worker.kafka.reader import broker_errors

log = logging.getLogger(__name__)


CUT_SHORT_SECONDS = 45.0
"""Seconds for which a log may end below a planned end: a new leader knows its end once its
followers have fetched from it, or were dropped as too slow (30 s).
"""
PAUSE_SECONDS = 0.5


class Range(Struct, frozen=True):
    """Offsets of a partition: the first that is read, the first that is not, and where the log
    began.
    """

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

    `elsewhere` are offsets, by partition, whose records are had from somewhere else: a log may
    begin after them.

    Raises SetupError where a range ends before the log begins, or the broker does not tell.
    """
    with (
        closing(clients.standalone_consumer(group, "read_uncommitted")) as asker,
        closing(clients.standalone_consumer(group, "read_committed", READ_TO_END)) as reader,
        broker_errors(f"could not fetch offsets of {topic}"),
    ):
        bounds = {p: watermarks(asker, topic, p, TIMEOUT_SECONDS) for p in range(partitions)}
        chosen = {p: one for p, one in bounds.items() if only is None or p in only}

        def at(time_ms: int | None) -> Mapping[int, int]:
            return (
                {} if time_ms is None else first_records_at(asker, reader, topic, chosen, time_ms)
            )

        firsts, ends = at(since_ms), at(until_ms)
        # Of a log that lost its beginning: markers alone are no history either.
        cut = {p: range(one.start, ends[p]) for p, one in chosen.items() if one.start and p in ends}
        records = first_records(
            reader, topic, {p: one for p, one in cut.items() if p not in elsewhere}
        )
    for partition, offset in records.items():
        if until_ms is not None and offset >= ends[partition]:
            raise SetupError(
                f"{topic}-{partition}: everything before {timestamp(until_ms)} is gone, retention has removed the offsets 0 to "
                f"{bounds[partition].start - 1}: ask for a later --until, or leave the partition out (--partitions)"
            )
    ranges = {}
    for partition, offsets in bounds.items():
        end = ends.get(partition, offsets.stop) if partition in chosen else offsets.start
        ranges[partition] = Range(
            min(firsts.get(partition, offsets.start), end), end, offsets.start
        )
    return ranges


def check_ends(
    clients: Clients, group: str, topic: str, ends: Mapping[int, int], clock: Clock = time
) -> None:
    """Raise SetupError where a partition's log ends below the end that is planned for it."""
    with (
        closing(clients.standalone_consumer(group, "read_uncommitted")) as asker,
        broker_errors(f"could not fetch offsets of {topic}"),
    ):
        give_up = clock.monotonic() + CUT_SHORT_SECONDS
        for partition, end in ends.items():
            while (found := watermarks(asker, topic, partition, TIMEOUT_SECONDS, clock).stop) < end:
                if clock.monotonic() > give_up:
                    raise cut_short(topic, partition, found, end)
                clock.sleep(PAUSE_SECONDS)


def cut_short(topic: str, partition: int, found: int, end: int) -> SetupError:
    """The error of a log that ends below its planned end."""
    return SetupError(
        f"{topic}-{partition} ends at offset {found}, and the plan of the replay at {end}: the topic was deleted and created "
        "again, or a broker lost records; start over with `coversumm-worker reset`"
    )
