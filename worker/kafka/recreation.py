"""A topic deleted and created again as it was, empty: partition count, replication factor and configuration stay."""

import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, ConfigResource, ConfigSource  # type: ignore[attr-defined]
from confluent_kafka.cimpl import NewTopic

from worker.errors import SurroundingsError
from worker.kafka.reader import TIMEOUT_SECONDS, broker_errors

TOPIC_SECONDS = 120
"""How long the broker may take to delete a topic, and to create it."""
PAUSE_SECONDS = 0.2


class RecreatedTopic:
    """A topic that can be emptied. Construction looks at it, and changes nothing.

    Raises SurroundingsError where the broker does not answer.
    """

    def __init__(self, admin: AdminClient, name: str) -> None:
        self._admin = admin
        self._name = name
        self._new: NewTopic | None = None
        if not self.exists:
            return
        with broker_errors(f"the broker does not describe the topic {name}"):
            resource = ConfigResource(ConfigResource.Type.TOPIC, name)
            config = admin.describe_configs([resource])[resource].result(TIMEOUT_SECONDS)
        partitions = self._topics()[name].partitions
        self._new = NewTopic(
            name,
            len(partitions),
            len(partitions[0].replicas),
            config={
                option: entry.value
                for option, entry in config.items()
                if entry.source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value
            },
        )

    @property
    def exists(self) -> bool:
        """Whether the broker has the topic now."""
        return self._name in self._topics()

    def recreate(self) -> None:
        """Delete the topic and create it again; do nothing where it was not there at construction.

        Raises SurroundingsError where the broker does not: the topic may be deleted by then.
        """
        if self._new is None:
            return
        old_id = self._id()
        with broker_errors(f"the broker does not delete the topic {self._name}"):
            self._admin.delete_topics([self._name], request_timeout=TIMEOUT_SECONDS)[self._name].result()
        _wait(lambda: not self.exists, f"{self._name} is not gone")
        new = self._new
        with broker_errors(f"the broker does not create the topic {self._name} again"):
            _wait(lambda: self._created(new), f"{self._name} is not created again")
        _wait(lambda: self.exists, f"{self._name} is not there again")
        if self._id() == old_id:
            raise SurroundingsError(f"the broker did not delete {self._name}: reset it again")

    def _created(self, new: NewTopic) -> bool:
        try:
            self._admin.create_topics([new], request_timeout=TIMEOUT_SECONDS)[self._name].result()
        except KafkaException as cause:
            if cause.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
            return self.exists  # else it is still being deleted
        return True

    def _topics(self) -> Any:
        """All topics: asked for one alone, a broker may create it."""
        with broker_errors("no answer from the broker"):
            return self._admin.list_topics(timeout=TIMEOUT_SECONDS).topics

    def _id(self) -> str:
        described = self._admin.describe_topics(
            TopicCollection([self._name]), request_timeout=TIMEOUT_SECONDS
        )
        with broker_errors(f"the broker does not describe the topic {self._name}"):
            return str(described[self._name].result().topic_id)


def _wait(condition: Callable[[], bool], complaint: str) -> None:
    give_up = time.monotonic() + TOPIC_SECONDS
    while not condition():
        if time.monotonic() > give_up:
            raise SurroundingsError(
                f"after {TOPIC_SECONDS} s {complaint}: look at the brokers, then reset again"
            )
        time.sleep(PAUSE_SECONDS)
