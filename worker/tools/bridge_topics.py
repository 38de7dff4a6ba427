"""The source and the target of a bridge by their ids, beside its committed offsets.

An offset means nothing in a later topic of the same name, and a target that was created again lacks
what was bridged before. So the ids are the metadata of each committed offset. Offsets that an
operator sets have none: they hold for the topics as they are. Kafka itself forgets the offsets of a
source that is deleted.
"""

from collections.abc import Callable

from confluent_kafka import TopicPartition

from worker.errors import SetupError
from worker.kafka.clients import Clients
from worker.kafka.topic_ids import TopicIds
from worker.settings import Settings

NOTE = "topics"
"""Begins the metadata of a bridge's offsets."""


class BridgedTopics:
    """Fetches and compares the ids. `settings` are those of a bridge."""

    def __init__(self, settings: Settings, clients: Clients) -> None:
        self._group = settings.app_id
        self._source, self._target = self._names = settings.input_topic, settings.output_topic
        self._ids = TopicIds(clients, self._names, {}, settings.commit_timeout_ms / 1000)

    def read(self) -> None:
        """Fetch the ids at a takeover. Raises Crash if one changed since the first takeover."""
        self._ids.read()

    def ask_ahead(self) -> Callable[[], None]:
        """Request the ids. The result waits for the answer, and raises Crash as `read` does."""
        return self._ids.ask_ahead(self._names)

    def note(self) -> str:
        """The metadata of offsets that are committed now."""
        source, target = map(self._ids.known, self._names)
        return f"{NOTE} {source} {target} {self._target}"

    def check(self, start: TopicPartition) -> None:
        """Raise SetupError if a committed offset is of other topics."""
        match (start.metadata or "").split(" "):
            case [note, source, target, name] if note == NOTE:
                self._compare(start, self._source, source)
                if name == self._target:  # another one is the operator's decision
                    self._compare(start, self._target, target)

    def _compare(self, start: TopicPartition, topic: str, stored: str) -> None:
        found = self._ids.known(topic)
        if stored and found and stored != found:
            raise SetupError(
                f"the group {self._group} has read {start.topic} [{start.partition}] to offset "
                f"{start.offset} when {topic} had the id {stored}, and now it has the id {found}: "
                "it was deleted and created again; choose where to resume with "
                "`kafka-consumer-groups.sh --reset-offsets`"
            )
