"""Sends lines of files to the input topic, and tracks which ones the broker acknowledged."""

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
"""Seconds to wait for events in flight when sending ends early."""


class Sender:
    """An idempotent producer that partitions as Java producers and Faust do."""

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
        """Send an event. Raises SetupError if an earlier one was not delivered."""
        line = record.offset + 1
        self._acknowledged.expect(line)
        done = partial(self._on_delivery, line)
        while True:
            try:
                self._producer.produce(self._topic, record.value, record.key, on_delivery=done)
                break
            except BufferError:  # the queue is full
                self._producer.poll(0.1)
        self._producer.poll(0)
        self._raise_error()

    def flush(self) -> None:
        """Wait until all events are delivered. Raises SetupError if one was not."""
        self._producer.flush(DELIVERY_TIMEOUT_MS / 1000 + 5)
        self._raise_error()

    def give_up(self) -> None:
        """Wait LAST_WAIT_SECONDS for events in flight, and drop the others."""
        self._producer.flush(LAST_WAIT_SECONDS)
        self._producer.purge()
        self._producer.poll(0)

    def how_to_resume(self, first_line: int, place: Callable[[int], str]) -> str:
        """For people: the number of delivered events and the line (from 1) to resume from.

        That is `first_line` if none was sent. `place`: the text of a line for `--from-line`.
        """
        line = shlex.quote(place(self._acknowledged.next_line or first_line))
        beyond = self._acknowledged.beyond
        repeated = f" (it repeats {beyond:,} of them, which lie beyond that line)" if beyond else ""
        return f"{self.delivered:,} events were sent; resume with --from-line {line}{repeated}"

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
    """Lines that were sent in ascending order and are acknowledged in any order.

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
        """Add a line that is sent."""
        self._waiting.append(line)
        self._last = line

    def add(self, line: int) -> None:
        """Add a line that was acknowledged."""
        self._early.add(line)
        while self._waiting and self._waiting[0] in self._early:
            self._early.remove(self._waiting.popleft())

    @property
    def next_line(self) -> int:
        """The first line without acknowledgement, or the one after the last; 0 if none was sent."""
        return self._waiting[0] if self._waiting else self._last + 1 if self._last else 0

    @property
    def beyond(self) -> int:
        """The number of acknowledged lines beyond `next_line`."""
        return len(self._early)
