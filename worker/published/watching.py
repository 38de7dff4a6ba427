"""The output topic as it grows: committed messages the moment they are there, and what was
published before.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Final, NamedTuple, Self

from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from worker.errors import SetupError
from worker.kafka.clients import KafkaClients
from worker.kafka.errors import broker_errors
from worker.kafka.reader import TopicReader
from worker.kafka.topics import Topics
from worker.settings import Settings

WAIT_SECONDS: Final = 0.1
MESSAGES_AT_ONCE: Final = 500
QUIET_SECONDS: Final = 5.0
"""After so long without a message the broker is asked whether it is there."""
ANSWER_SECONDS: Final = 2.0
LOST_SECONDS: Final = 30.0
"""Without an answer for so long, nobody waits any more."""
Progress = Callable[[int], None]
"""Told how many messages are read."""


class OutputMessage(NamedTuple):
    """A message of the output topic: a `summary.changed`, or the tombstone of an entity's deletion,
    where there is no value.
    """

    entity_id: str
    value: bytes | None
    place: str
    """`PARTITION:OFFSET`, for messages about it."""


class TopicWatch:
    """A committed reader of the output topic that never ends; a context manager. It joins no group
    and commits nothing.

    Args:
        settings: broker and topic.
        from_beginning: begin with the oldest message there is, not with the next one.

    Raises:
        SetupError: the topic does not exist, or no broker answers.
    """

    def __init__(self, settings: Settings, *, from_beginning: bool = False) -> None:
        self.topic = settings.output_topic
        self._group = settings.app_id
        self._clients = KafkaClients(settings)
        if self.topic not in Topics(settings, self._clients).partitions:
            raise SetupError(
                f"there is no topic {self.topic}: COVERSUMM_OUTPUT_TOPIC names another; the worker creates its own when it starts"
            )
        with TopicReader(self._clients, self.topic, self._group) as reader:
            bounds = {partition: reader.bounds(partition) for partition in reader.partitions}
        self._starts = {p: one.start if from_beginning else one.stop for p, one in bounds.items()}
        self._consumer = self._clients.standalone_consumer(
            self._group, "read_committed", {"auto.offset.reset": "error"}
        )
        self._consumer.assign(
            [TopicPartition(self.topic, p, start) for p, start in self._starts.items()]
        )
        self._heard_at = self._asked_at = time.monotonic()
        self._is_lost = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._consumer.close()

    @property
    def partitions(self) -> int:
        """How many the topic has."""
        return len(self._starts)

    @property
    def lost_seconds(self) -> float | None:
        """How long no broker has answered; None while one does."""
        return time.monotonic() - self._heard_at if self._is_lost else None

    def current(self, entity_id: str, progress: Progress) -> OutputMessage | None:
        """The entity's last message before the watch begins; None where there is none.

        It is in the partition of the entity's key; where its producers chose others, all are
        searched.
        """
        with TopicReader(self._clients, self.topic, self._group) as reader:
            for partitions in reader.usual_first(entity_id):
                found = None
                for count, message in enumerate(self._before(reader, partitions)):
                    progress(count)
                    if message.entity_id == entity_id:
                        found = message
                if found is not None:
                    return found
        return None

    def receive(self) -> list[OutputMessage]:
        """The next messages; waits a moment for them. Raises SetupError where the topic or
        the broker is gone for good.
        """
        with broker_errors(f"{self.topic} cannot be read on"):
            messages = [
                m for m in self._consumer.consume(MESSAGES_AT_ONCE, WAIT_SECONDS) if _is_there(m)
            ]
        now = time.monotonic()
        if messages:
            self._heard_at, self._is_lost = now, False
        elif now - max(self._heard_at, self._asked_at) >= (
            ANSWER_SECONDS if self._is_lost else QUIET_SECONDS
        ):
            self._ask()
        return [_published(f"{m.partition()}:{m.offset()}", m.key(), m.value()) for m in messages]

    def _before(self, reader: TopicReader, partitions: list[int]) -> Iterator[OutputMessage]:
        """The messages below where the watch begins."""
        for partition in partitions:
            for stored in reader.read(partition, end=self._starts[partition]):
                record = stored.record
                yield _published(f"{partition}:{record.offset}", record.key, record.value)

    def _ask(self) -> None:
        """Whether the broker, and the topic on it, is still there."""
        try:
            topic = self._consumer.list_topics(self.topic, timeout=ANSWER_SECONDS).topics[
                self.topic
            ]
        except KafkaException as cause:
            self._asked_at, self._is_lost = time.monotonic(), True
            if self._asked_at - self._heard_at >= LOST_SECONDS:
                raise SetupError(
                    f"no broker has answered for {LOST_SECONDS:.0f} s ({cause.args[0].str()}): check KAFKA_BOOTSTRAP_SERVERS "
                    "and the network, then watch again"
                ) from cause
            return
        self._heard_at, self._is_lost = time.monotonic(), False
        if topic.error is not None:
            raise SetupError(f"the topic {self.topic} is gone ({topic.error.str()})")


def _is_there(message: Message) -> bool:
    """Whether it is a message: what passes by itself is waited for, the rest raises
    KafkaException.
    """
    error = message.error()
    if error is None:
        return True
    if error.retriable() or error.code() in (KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT):
        return False
    raise KafkaException(error)


def _published(place: str, key: bytes | None, value: bytes | None) -> OutputMessage:
    return OutputMessage((key or b"").decode(errors="replace"), value, place)
