"""The two logs that a worker lives on, without Faust: the input that it reads, and the changelog
that is its state.
"""

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from worker.clock import Clock
from worker.errors import SetupError
from worker.kafka.changelog import Apply, ChangelogReader, FirstRow, first_rows
from worker.kafka.clients import Clients
from worker.kafka.offsets import LogBounds, Start, committed_starts, log_bounds
from worker.kafka.topic_ids import TopicIds


class InputLog:
    """The input topic as the worker's group reads it."""

    def __init__(
        self,
        clients: Clients,
        topic: str,
        group: str,
        clock: Clock = time,
        first: Mapping[int, int] = {},
        elsewhere: Mapping[int, range] = {},
        ends: Mapping[int, int] = {},
    ) -> None:
        """`first`: by partition where to begin, in place of the log's start; `elsewhere` and
        `ends`: see `committed_starts`.
        """
        self.topic = topic
        self._clients = clients
        self._group = group
        self._clock = clock
        self._first = first
        self._elsewhere = elsewhere
        self._ends = ends

    def starts(self, partitions: Iterable[int]) -> dict[int, Start]:
        """See `committed_starts`."""
        found = committed_starts(
            self._clients,
            self._group,
            self.topic,
            partitions,
            self._clock,
            self._elsewhere,
            self._ends,
        )
        return {partition: self._begun(partition, start) for partition, start in found.items()}

    def _begun(self, partition: int, start: Start) -> Start:
        first = self._first.get(partition, start.offset)
        if start.committed or first == start.offset:
            return start
        if first < start.offset and first not in self._elsewhere.get(partition, ()):
            raise SetupError(
                f"{self.topic}-{partition} is to be read from offset {first}, and its log begins at {start.offset} by now: the "
                "records between were removed before they were read"
            )
        return start._replace(offset=first)


class ChangelogLog:
    """The changelog topic; whoever reads it asks under the name of the worker's group, joins
    nothing and commits nothing.
    """

    def __init__(
        self, clients: Clients, topic: str, group: str, ids: TopicIds, clock: Clock = time
    ) -> None:
        self.topic = topic
        self._clients = clients
        self._group = group
        self._ids = ids
        self._clock = clock

    def bounds(self, partitions: Iterable[int]) -> dict[int, LogBounds]:
        """See `log_bounds`."""
        life_ms = self._ids.tombstone_life_ms(self.topic)
        return log_bounds(self._clients, self._group, self.topic, partitions, life_ms, self._clock)

    def reader(self, starts: Mapping[int, int], apply: Apply) -> ChangelogReader:
        """A reader of the partitions in `starts`, from the offsets there on."""
        return ChangelogReader(self._clients, self._group, self.topic, starts, apply, self._clock)

    def first_rows(self, partitions: Iterable[int]) -> Iterator[FirstRow]:
        """See `worker.kafka.changelog`."""
        return first_rows(self._clients, self._group, self.topic, partitions, self._clock)


@dataclass(frozen=True)
class Logs:
    """Input and changelog, the topic that summaries are published to (None: nowhere), and which
    topics the names stand for.
    """

    input: InputLog
    changelog: ChangelogLog
    ids: TopicIds
    output: str | None = None
