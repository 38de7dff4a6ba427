"""From where to where a replay reads: the ranges of a topic, and of what is in files before it."""

from collections.abc import Mapping

from worker.errors import SetupError
from worker.kafka.clients import Clients
from worker.kafka.ranges import Range, find_ranges
from worker.replay.record_source import RecordSource
from worker.replay.request import Request
from worker.settings import Settings


def ranges_of(
    request: Request, clients: Clients, settings: Settings, partitions: int
) -> dict[int, Range]:
    """The range of each partition, as of now.

    Args:
        request: what is asked for.
        clients: reach the Kafka of the topic.
        settings: of the replay's worker; they name the topic.
        partitions: how many it has.

    Raises SetupError where there is no such partition, or records that are asked for are
    nowhere.
    """
    beyond = [partition for partition in request.partitions or () if partition >= partitions]
    if beyond:
        raise SetupError(
            f"--partitions {min(beyond)}: {settings.input_topic} has the partitions 0 to {partitions - 1}"
        )
    by_record = request.by == "timestamp"
    since_ms = request.since_ms if by_record else None
    until_ms = request.until_ms if by_record else None
    history = request.history
    had = {} if history is None else history.partitions()
    ranges = dict.fromkeys(had, Range(0, 0, 0))
    if request.topic:
        ranges = find_ranges(
            clients,
            settings.app_id,
            request.topic,
            partitions,
            since_ms=since_ms,
            until_ms=until_ms,
            only=request.partitions,
            elsewhere=had,
        )
    for partition, offsets in had.items():
        if history is not None and (request.partitions is None or partition in request.partitions):
            of_log = _of_log(ranges, partition, offsets, settings.input_topic)
            ranges[partition] = _with(history, partition, offsets, of_log, since_ms, until_ms)
    return ranges


def _of_log(ranges: Mapping[int, Range], partition: int, had: range, topic: str) -> Range:
    """What the log has of a partition whose first records are in files; a hole between the two is
    refused.
    """
    if partition not in ranges:
        raise SetupError(f"the files have a partition {partition}, which {topic} has not")
    if ranges[partition].log_start > had.stop:
        raise SetupError(
            f"{topic}-{partition}: the files end before offset {had.stop}, and the log begins at "
            f"{ranges[partition].log_start}: the records between are nowhere"
        )
    return ranges[partition]


def _with(
    history: RecordSource,
    partition: int,
    had: range,
    of_log: Range,
    since_ms: int | None,
    until_ms: int | None,
) -> Range:
    """The range of a partition over what the files have and what the log has."""
    first = had.start if since_ms is None else history.first_at(partition, since_ms)
    end = None if until_ms is None else history.first_at(partition, until_ms)
    end = max(of_log.end, had.stop) if end is None else end
    return Range(min(of_log.first if first is None else first, end), end, had.start)
