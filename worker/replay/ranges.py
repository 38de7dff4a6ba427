"""The offsets that a replay reads from each partition, of its topic and of files before it.

The end of a partition as of now is that for an uncommitted reader: everything below it will be
decided. As of a time it is the first committed record at or after that time, so that what is read
is a prefix of the log.
"""

import time
from collections.abc import Callable, Collection, Mapping
from contextlib import closing

from msgspec import Struct

from worker.clock import Clock
from worker.errors import SetupError
from worker.events.messages import timestamp
from worker.kafka.clients import READ_TO_END, Clients
from worker.kafka.errors import broker_errors
from worker.kafka.offsets import (
    CUT_SHORT_SECONDS,
    TIMEOUT_SECONDS,
    cut_short,
    first_records,
    first_records_at,
    watermarks,
)
from worker.replay.request import Request
from worker.settings import Settings

PAUSE_SECONDS = 0.5


class Range(Struct, frozen=True):
    """Offsets of a partition: the first to read, the end, and where the log began."""

    first: int
    end: int
    log_start: int

    @property
    def size(self) -> int:
        """The number of offsets; some may hold no record."""
        return max(0, self.end - self.first)


def gone_before(ranges: Mapping[int, Range]) -> dict[str, int]:
    """The first remaining offset of each partition whose beginning retention has removed."""
    return {str(partition): span.log_start for partition, span in ranges.items() if span.log_start}


def ranges_of(
    request: Request, clients: Clients, settings: Settings, partitions: int
) -> dict[int, Range]:
    """The range of each partition as of now; `settings` are those of the replay's worker.

    Raises SetupError if a requested partition does not exist, or requested records are missing.
    """
    beyond = [partition for partition in request.partitions or () if partition >= partitions]
    if beyond:
        raise SetupError(
            f"--partitions {min(beyond)}: {settings.input_topic} has the partitions 0 to "
            f"{partitions - 1}"
        )
    by_record = request.by == "timestamp"
    since_ms = request.since_ms if by_record else None
    until_ms = request.until_ms if by_record else None
    history = request.history
    in_files = {} if history is None else history.partitions()
    ranges = dict.fromkeys(in_files, Range(0, 0, 0))
    if request.topic:
        ranges = find_ranges(
            clients,
            settings.app_id,
            request.topic,
            partitions,
            since_ms=since_ms,
            until_ms=until_ms,
            only=request.partitions,
            file_ranges=in_files,
        )
    for partition, offsets in in_files.items():
        if history is not None and (request.partitions is None or partition in request.partitions):
            of_log = _of_log(ranges, partition, offsets, settings.input_topic)
            first = offsets.start if since_ms is None else history.first_at(partition, since_ms)
            first = of_log.first if first is None else first
            end = None if until_ms is None else history.first_at(partition, until_ms)
            end = max(of_log.end, offsets.stop) if end is None else end
            ranges[partition] = Range(min(first, end), end, offsets.start)
    return ranges


def _of_log(ranges: Mapping[int, Range], partition: int, in_files: range, topic: str) -> Range:
    """The log's range of a partition whose first records are in files. Refuses a hole between."""
    if partition not in ranges:
        raise SetupError(f"the files have a partition {partition}, but {topic} does not")
    if ranges[partition].log_start > in_files.stop:
        raise SetupError(
            f"{topic}-{partition}: the files end before offset {in_files.stop}, and the log begins "
            f"at {ranges[partition].log_start}: the records between are missing"
        )
    return ranges[partition]


def find_ranges(
    clients: Clients,
    group: str,
    topic: str,
    partitions: int,
    *,
    since_ms: int | None = None,
    until_ms: int | None = None,
    only: Collection[int] | None = None,
    file_ranges: Mapping[int, range] = {},
) -> dict[int, Range]:
    """The range of each partition of a topic as of now; an empty one for those not in `only`.

    `file_ranges` are offsets, by partition, whose records come from files: a log may begin after
    them. Raises SetupError if a range ends before the log begins, or the broker does not answer.
    """
    with (
        closing(clients.standalone_consumer(group, "read_uncommitted")) as asker,
        closing(clients.standalone_consumer(group, "read_committed", READ_TO_END)) as reader,
        broker_errors(f"could not fetch offsets of {topic}"),
    ):
        bounds = {p: watermarks(asker, topic, p, TIMEOUT_SECONDS) for p in range(partitions)}
        chosen = {p: bound for p, bound in bounds.items() if only is None or p in only}

        def at(time_ms: int | None) -> Mapping[int, int]:
            return (
                {} if time_ms is None else first_records_at(asker, reader, topic, chosen, time_ms)
            )

        firsts, ends = at(since_ms), at(until_ms)
        # A log that lost its beginning may have nothing but markers left before the end.
        cut = {
            p: range(offsets.start, ends[p])
            for p, offsets in chosen.items()
            if offsets.start and p in ends
        }
        records = first_records(
            reader, topic, {p: offsets for p, offsets in cut.items() if p not in file_ranges}
        )
    for partition, offset in records.items():
        if until_ms is not None and offset >= ends[partition]:
            raise SetupError(
                f"{topic}-{partition}: everything before {timestamp(until_ms)} is gone, retention "
                f"has removed the offsets 0 to {bounds[partition].start - 1}: ask for a later "
                "--until, or leave the partition out (--partitions)"
            )
    ranges = {}
    for partition, offsets in bounds.items():
        end = ends.get(partition, offsets.stop) if partition in chosen else offsets.start
        ranges[partition] = Range(
            min(firsts.get(partition, offsets.start), end), end, offsets.start
        )
    return ranges


def check_ends(
    clients: Clients,
    group: str,
    topic: str,
    ends: Mapping[int, int],
    clock: Clock = time,
    error: Callable[[str, int, int, int], SetupError] = cut_short,
) -> None:
    """Raise `error` if a partition's log ends below its wanted end, by default the planned one.

    It gets the topic, the partition, the end of the log and the wanted end.
    """
    with (
        closing(clients.standalone_consumer(group, "read_uncommitted")) as asker,
        broker_errors(f"could not fetch offsets of {topic}"),
    ):
        give_up = clock.monotonic() + CUT_SHORT_SECONDS
        for partition, end in ends.items():
            while (found := watermarks(asker, topic, partition, TIMEOUT_SECONDS, clock).stop) < end:
                if clock.monotonic() > give_up:
                    raise error(topic, partition, found, end)
                clock.sleep(PAUSE_SECONDS)
