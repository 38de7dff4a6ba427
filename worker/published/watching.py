"""An output topic as it grows: new committed messages as soon as they are readable."""

from __future__ import annotations

import time
from collections import deque
from contextlib import AbstractContextManager
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from worker.errors import SetupError
from worker.events import Record
from worker.events.publishing import FACETS, SUMMARIES, OutputTopic
from worker.kafka.clients import KafkaClients
from worker.kafka.errors import broker_errors
from worker.kafka.permissions import READ
from worker.kafka.reader import record_of
from worker.kafka.topics import Topics
from worker.published.published import Progress, PublishedTopic
from worker.registry.lookup import AsJson
from worker.settings import Settings

WAIT_SECONDS: Final = 0.1  # longest wait for messages in one `receive`
MESSAGES_AT_ONCE: Final = 500
QUIET_SECONDS: Final = 5.0
"""Time without a message after which the broker is asked whether it is reachable."""
ANSWER_SECONDS: Final = 2.0
LOST_SECONDS: Final = 30.0  # time without an answer of a broker after which the watch ends


class TopicWatch(AbstractContextManager["TopicWatch"]):
    """An endless committed reader of an output topic, from its oldest message or the next new one;
    a context manager. It joins no group and commits nothing.

    Raises SetupError if the topic does not exist, or no broker answers.
    """

    def __init__(
        self, settings: Settings, *, from_beginning: bool = False, kind: OutputTopic = SUMMARIES
    ) -> None:
        self.topic = kind.of(settings)
        self.kind = kind
        self._settings = settings
        self._as_json = AsJson(settings)
        clients = KafkaClients(settings)
        if not Topics(settings, clients).exists(self.topic, READ):
            needs = " with COVERSUMM_FACETS" if kind is FACETS else ""
            raise SetupError(
                f"there is no topic {self.topic}: {kind.setting} names another; "
                f"the worker creates its own when it starts{needs}"
            )
        with PublishedTopic(self.topic, settings) as topic:
            bounds = topic.bounds
        self._starts = {
            p: bound.start if from_beginning else bound.stop for p, bound in bounds.items()
        }
        self._consumer = clients.standalone_consumer(
            settings.app_id,
            "read_committed",
            {"auto.offset.reset": "error", "fetch.wait.max.ms": 100},
        )
        self._consumer.assign(
            [TopicPartition(self.topic, p, start) for p, start in self._starts.items()]
        )
        self._heard_at = self._asked_at = time.monotonic()
        self._is_lost = False

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the reading."""
        self._consumer.close()

    @property
    def lost_seconds(self) -> float | None:
        """Seconds since a broker last answered; None while a broker answers."""
        return time.monotonic() - self._heard_at if self._is_lost else None

    def current(self, entity_id: str, progress: Progress) -> Record | None:
        """The entity's last message before the start of the watch; None where there is none."""
        with PublishedTopic(self.topic, self._settings) as topic:
            last = deque(topic.records(entity_id, {}, self._starts, progress), maxlen=1)
        return last[0] if last else None

    def receive(self, seconds: float = WAIT_SECONDS) -> list[Record]:
        """Wait a moment for messages. Raises SetupError if topic or broker is permanently gone."""
        with broker_errors(f"{self.topic} cannot be read any further"):
            consumed: list[Any] = self._consumer.consume(MESSAGES_AT_ONCE, seconds)
            messages = [message for message in consumed if _is_data(message)]
        now = time.monotonic()
        silence = now - max(self._heard_at, self._asked_at)
        if messages:
            self._heard_at, self._is_lost = now, False
        elif silence >= (ANSWER_SECONDS if self._is_lost else QUIET_SECONDS):
            self._ask()
        return [self._as_json(record_of(message, with_headers=False)) for message in messages]

    def _ask(self) -> None:
        """Check whether the broker, and the topic on it, still exist."""
        try:
            topics = self._consumer.list_topics(self.topic, timeout=ANSWER_SECONDS).topics
        except KafkaException as cause:
            self._asked_at, self._is_lost = time.monotonic(), True
            if self._asked_at - self._heard_at >= LOST_SECONDS:
                raise SetupError(
                    f"no broker has answered for {LOST_SECONDS:.0f} s ({cause.args[0].str()}): "
                    "check KAFKA_BOOTSTRAP_SERVERS and the network, then watch again"
                ) from cause
            return
        self._heard_at, self._is_lost = time.monotonic(), False
        error = topics[self.topic].error
        if error is not None:
            raise SetupError(f"the topic {self.topic} cannot be read any more ({error.str()})")


def _is_data(message: Any) -> bool:
    """False for a retriable error; raises KafkaException for any other error."""
    error = message.error()
    if error is None:
        return True
    if error.retriable() or error.code() in (KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT):
        return False
    raise KafkaException(error)
