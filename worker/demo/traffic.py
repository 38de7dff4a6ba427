"""The demo's two clients: one that sends reviews, one that reads the summary changes."""

from __future__ import annotations

from typing import Final, Self

from confluent_kafka import TopicPartition

from worker.demo.reviews import Produced
from worker.errors import Crash
from worker.kafka.clients import Clients
from worker.settings import Settings

POLL_SECONDS: Final = 0.05
_FLUSH_SECONDS: Final = 90


class Traffic:
    """Producer of the input topic and consumer of the output topic, from its beginning; a context manager."""

    def __init__(self, clients: Clients, settings: Settings, partitions: int) -> None:
        self._input_topic = settings.input_topic
        self._producer = clients.producer({"partitioner": "murmur2_random", "linger.ms": 5})
        self._consumer = clients.standalone_consumer("demo", "read_committed", {"fetch.wait.max.ms": 50})
        self._consumer.assign([TopicPartition(settings.output_topic, p, 0) for p in range(partitions)])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    def send(self, event: Produced) -> None:
        """Send one event to the input topic."""
        self._producer.produce(self._input_topic, event.value, event.key)

    def flush(self) -> None:
        """Wait until all is sent. Raises Crash where that does not happen."""
        if self._producer.flush(_FLUSH_SECONDS):
            raise Crash("the embedded broker does not take the reviews")

    def receive(self) -> list[bytes]:
        """The next summary changes; waits a moment for them."""
        self._producer.poll(0)
        messages = self._consumer.consume(200, POLL_SECONDS)
        return [v for m in messages if m.error() is None and (v := m.value()) is not None]
