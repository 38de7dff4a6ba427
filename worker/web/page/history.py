"""An entity's last changes, from the end of its partition of the output topic or of that of facets.

A request reads a bounded number of messages; the next request continues with older ones.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Final

from worker.errors import SetupError
from worker.events import Record
from worker.events.publishing import FACETS, SUMMARIES, OutputTopic
from worker.kafka.clients import Clients
from worker.kafka.reader import TopicReader
from worker.kafka.topics import partition_of
from worker.processing.entity_view import NoFacets
from worker.published.history import PublishedChange, last_steps
from worker.published.publication import publications
from worker.stream.surroundings import OneThread

LOOKED_AT: Final = 3000  # messages of the partition that one request reads, of any entity
MOST_CHANGES: Final = 100
MOST_WAITING: Final = 100


class NoHistory(Exception):
    """The topic is unreadable, or there is none; the message says why."""


@dataclass(frozen=True, slots=True)
class ChangeHistory:
    """Changes, the newest last."""

    changes: list[PublishedChange]
    before: int | None  # where to continue with older ones; None if the topic has none
    looked_at: int  # messages read, of any entity


@dataclass(slots=True)
class RecentHistory:
    """Reads histories in `thread`, one after the other."""

    clients: Clients
    topic: str
    facets_topic: str | None  # None without facets
    group: str  # its offsets are neither read nor changed
    thread: OneThread
    as_json: Callable[[Record], Record] = lambda record: record  # turns messages into JSON
    _waiting: dict[tuple[str, int | None, OutputTopic], asyncio.Future[ChangeHistory]] = field(
        default_factory=dict
    )

    async def read(
        self, entity_id: str, before: int | None, kind: OutputTopic = SUMMARIES
    ) -> ChangeHistory:
        """The changes of the entity's summary, or of its facets, among the last messages before an
        offset (None: the end of the partition). Raises NoHistory, NoFacets.

        Equal requests that wait share one answer.
        """
        asked = entity_id, before, kind
        if asked not in self._waiting:
            if len(self._waiting) >= MOST_WAITING:
                raise NoHistory("too many requests for histories at once")

            def work() -> ChangeHistory:
                self._waiting.pop(asked, None)
                return self._read(*asked)

            self._waiting[asked] = asyncio.ensure_future(self.thread.run(work))
        return await asyncio.shield(self._waiting[asked])

    def _read(self, entity_id: str, before: int | None, kind: OutputTopic) -> ChangeHistory:
        topic = self.facets_topic if kind is FACETS else self.topic
        if topic is None:
            raise NoFacets
        key = entity_id.encode()

        def partition_alone(partitions: Sequence[int]) -> tuple[int, ...]:
            return (partition_of(entity_id, len(partitions)),)

        try:
            with TopicReader(self.clients, topic, self.group, partition_alone) as reader:
                (partition,) = reader.partitions
                bounds = reader.bounds(partition)
                end = bounds.stop if before is None else min(max(before, bounds.start), bounds.stop)
                start = max(bounds.start, end - LOOKED_AT)
                messages = (stored.record for stored in reader.read(partition, start, end))
                found = chain.from_iterable(
                    publications(self.as_json(record), kind=kind)
                    for record in messages
                    if record.key == key
                )
                shown = (
                    change for change in found if change.body is None or change.body.k
                )  # no pros and cons
                one_more = [
                    PublishedChange.of(step) for step in last_steps(shown, MOST_CHANGES + 1)
                ]
        except SetupError as error:
            raise NoHistory(str(error)) from error
        if len(one_more) > MOST_CHANGES:  # a message of facets is cut out as a whole
            changes = [change for change in one_more if change.offset > one_more[0].offset]
            return ChangeHistory(changes, one_more[0].offset + 1, end - start)
        return ChangeHistory(one_more, start if start > bounds.start else None, end - start)
