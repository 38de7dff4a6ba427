"""Lines of files to the input topic, and which of them the broker has acknowledged."""

from __future__ import annotations

import shlex
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from confluent_kafka import KafkaError

from worker.errors import SetupError
from worker.events import Record
from worker.kafka.clients import KafkaClients
from worker.kafka.errors import Diagnosis
from worker.settings import Settings

DELIVERY_TIMEOUT_MS = 60_000
LAST_WAIT_SECONDS = 10.0
"""For what is on its way when sending ends early: what is not acknowledged by then is
sent again.
"""


class Sender:
    """An idempotent producer that puts an entity's events into the partition where Java producers
    and Faust put them.
    """

    def __init__(self, settings: Settings) -> None:
        self._diagnosis = Diagnosis(settings)
        self._topic = settings.input_topic
        self._error: KafkaError | None = None
        self._acknowledged = Acknowledged()
        self.delivered = 0
        self._producer = KafkaClients(settings).producer(
            {
                "error_cb": self._diagnosis,
                "enable.idempotence": True,
                "acks": "all",
                "partitioner": "murmur2_random",
                "linger.ms": 20,
                "message.max.bytes": settings.max_event_bytes + 2**16,
                "delivery.timeout.ms": DELIVERY_TIMEOUT_MS,
            }
        )

    def send(self, record: Record) -> None:
        """Hand over one event; SetupError where an earlier one could not be delivered."""
        line = record.offset + 1
        self._acknowledged.expect(line)
        while True:
            try:
                on_delivery = partial(self._on_delivery, line)
                self._producer.produce(
                    self._topic, record.value, record.key, on_delivery=on_delivery
                )
                break
            except BufferError:  # the queue is full: wait for the broker
                self._producer.poll(0.1)
        self._producer.poll(0)
        self._raise_error()

    def flush(self) -> None:
        """Wait until all is delivered; SetupError where something was not."""
        self._producer.flush(DELIVERY_TIMEOUT_MS / 1000 + 5)
        self._raise_error()

    def give_up(self) -> None:
        """Wait a moment for what is on its way; after it no more is sent."""
        self._producer.flush(LAST_WAIT_SECONDS)
        self._producer.purge()
        self._producer.poll(0)

    def where_to_go_on(self, first_line: int, place: Callable[[int], str]) -> str:
        """For people: what was delivered, and the line (from 1) to go on from; `first_line` where
        nothing was.

        `place`: what `--from-line` calls a line.
        """
        line = self._acknowledged.next_line or first_line
        beyond = self._acknowledged.beyond
        repeated = f" (it repeats {beyond:,} of them, which lie beyond that line)" if beyond else ""
        return f"{self.delivered:,} events were sent; go on with --from-line {shlex.quote(place(line))}{repeated}"

    def _on_delivery(self, line: int, error: KafkaError | None, _message: Any) -> None:
        if error is None:
            self.delivered += 1
            self._acknowledged.add(line)
        self._error = self._error or error

    def _raise_error(self) -> None:
        if self._error is not None:
            raise SetupError(
                f"the broker did not take an event for {self._topic} ({self._error.str()}): "
                f"{self._diagnosis.reason()}"
            )


class Acknowledged:
    """Which of the lines handed over, in ascending order, were acknowledged, in whatever order.

    >>> lines = Acknowledged()
    >>> for line in (3, 4, 7): lines.expect(line)
    >>> lines.add(4), lines.next_line, lines.beyond
    (None, 3, 1)
    >>> lines.add(3), lines.next_line, lines.beyond
    (None, 7, 0)
    """

    def __init__(self) -> None:
        self._waiting: deque[int] = deque()
        self._early: set[int] = set()
        self._last = 0

    def expect(self, line: int) -> None:
        """A line that is handed over."""
        self._waiting.append(line)
        self._last = line

    def add(self, line: int) -> None:
        """A line that was acknowledged."""
        self._early.add(line)
        while self._waiting and self._waiting[0] in self._early:
            self._early.remove(self._waiting.popleft())

    @property
    def next_line(self) -> int:
        """The first that was not acknowledged, or the one after the last; 0 where none was handed
        over.
        """
        return self._waiting[0] if self._waiting else self._last + 1 if self._last else 0

    @property
    def beyond(self) -> int:
        """How many were acknowledged beyond `next_line`."""
        return len(self._early)
