"""A record that many processes agree on: the first writes it to its topic, others read it.

The writer holds a transactional id. Of two concurrent writers the first is fenced, and reads the
record of the second. A process creates its record before it takes the id, and a fenced process
pauses and reads again before it takes the id back.
"""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from worker.clock import Clock
from worker.errors import SetupError
from worker.kafka.clients import Clients
from worker.kafka.errors import FENCED, broker_errors
from worker.kafka.reader import NoTopic, TopicReader

SECONDS = 30.0  # timeout of a request
DEADLINE_SECONDS = 120.0  # seconds for all attempts to write the record
KNOWN_SECONDS, PAUSE_SECONDS = 5.0, 0.2  # until every broker knows a new topic, and between lookups
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.5, 8.0
"""Bounds of the pause after a fenced attempt; it doubles. A write takes some tenths of a second."""
TRANSACTION_TIMEOUT_MS = 10_000
KEY = b"agreed"


@dataclass(eq=False)
class AgreedRecord:
    """The record of a topic with one partition, whose name is the transactional id too."""

    clients: Clients
    admin: AdminClient
    topic: str
    clock: Clock = time

    def read(self) -> bytes | None:
        """The record, None if there is none. Raises SetupError if no broker answers."""
        with broker_errors("no answer from the broker"):
            if self.topic not in self.admin.list_topics(timeout=SECONDS).topics:
                return None
        found = None
        with self._reader() as reader:
            for stored in reader.read(0):
                found = stored.record.value
        return found

    def _reader(self) -> TopicReader:
        """A reader of a topic that one broker knows; others may not know it yet."""
        give_up = self.clock.monotonic() + KNOWN_SECONDS
        while True:
            try:
                return TopicReader(self.clients, self.topic, self.topic)
            except NoTopic:
                if self.clock.monotonic() > give_up:
                    raise
                self.clock.sleep(PAUSE_SECONDS)

    def agree(self, make: Callable[[], bytes], check: Callable[[], None] = lambda: None) -> bytes:
        """The existing record, else a new one of this or another process. Raises SetupError.

        `check` is called once every process can read the record. A new record that it refuses with
        a SetupError is withdrawn: of two processes that look for each other's, one finds it.
        """
        record = written = None
        give_up = self.clock.monotonic() + DEADLINE_SECONDS
        longest = FIRST_PAUSE_SECONDS
        while (found := self.read()) is None:
            if record is None:
                self._create()
                record = make()
                continue
            if self.clock.monotonic() > give_up:
                raise SetupError(
                    f"{self.topic} is not written after {DEADLINE_SECONDS:g} s: other processes "
                    "keep writing it; give the same command again"
                )
            if written is not None:  # brokers learn of it
                self.clock.sleep(PAUSE_SECONDS)
            elif (written := self._write(record)) is None:
                self.clock.sleep(random.uniform(longest / 2, longest))
                longest = min(2 * longest, LONGEST_PAUSE_SECONDS)
        try:
            check()
        except SetupError:
            if written is not None and written is record:
                self._write(None)
            raise
        return found

    def _create(self) -> None:
        topic = NewTopic(self.topic, 1, -1, config={"cleanup.policy": "compact"})
        try:
            self.admin.create_topics([topic])[self.topic].result(SECONDS)
        except KafkaException as cause:
            if cause.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise SetupError(
                    f"the topic {self.topic} could not be created: {cause.args[0].str()}"
                ) from cause

    def _write(self, record: bytes | None) -> bytes | None:
        """Write the record, or return another's; None if another process fences this one. Without
        a record, withdraw the existing one.
        """
        producer = self.clients.producer(
            {"transactional.id": self.topic, "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS}
        )
        try:
            producer.init_transactions(SECONDS)
            found = self.read()
            if found is not None and record is not None:
                return found
            producer.begin_transaction()
            producer.produce(self.topic, record, KEY, 0)
            producer.commit_transaction(SECONDS)
        except KafkaException as cause:
            error = cause.args[0]
            if error.code() in FENCED:
                return None
            raise SetupError(
                f"{self.topic} cannot be written ({error.name()}: {error.str()}): check the "
                "brokers, and the permission to write and describe the transactional id of this "
                "name"
            ) from cause
        return record
