"""A record that many processes agree on: a topic for it alone, which the first one writes and all
others find.

Its writer holds a transactional id: of two that write at once the first is fenced, and finds the
record of the second. The new record is made before the id is taken, and a fenced process pauses and
reads again before it takes the id from another one.
"""

import random
import time
from collections.abc import Callable

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from worker.clock import Clock
from worker.errors import SetupError
from worker.kafka.clients import Clients
from worker.kafka.reader import NoTopic, TopicReader, broker_errors
from worker.kafka.transaction import FENCED

SECONDS = 30.0
DEADLINE_SECONDS = 120.0
"""For all attempts together to write the record."""
KNOWN_SECONDS, PAUSE_SECONDS = 5.0, 0.2
"""How long a broker may not know a topic that has just been created, and the pause between two
looks.
"""
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.5, 8.0
"""Bounds of the pause after an attempt that was fenced, twice as long after each: a write takes
some tenths of a second.
"""
TRANSACTION_TIMEOUT_MS = 10_000
KEY = b"agreed"


class AgreedRecord:
    """The record of one topic, which has one partition.

    Args:
        clients: reach its Kafka.
        admin: creates the topic.
        topic: its name; the transactional id too.
        clock: limits how long is tried.
    """

    def __init__(
        self, clients: Clients, admin: AdminClient, topic: str, clock: Clock = time
    ) -> None:
        self.topic = topic
        self._clock = clock
        self._clients = clients
        self._admin = admin

    def read(self) -> bytes | None:
        """The record; None where none was written yet. Raises SetupError where no broker
        answers.
        """
        with broker_errors("no answer from the broker"):
            if self.topic not in self._admin.list_topics(timeout=SECONDS).topics:
                return None
        found = None
        with self._reader() as reader:
            for stored in reader.read(0):
                found = stored.record.value
        return found

    def _reader(self) -> TopicReader:
        """A reader of the topic, which one broker knows of: where it was created just now, others
        may not yet.
        """
        give_up = self._clock.monotonic() + KNOWN_SECONDS
        while True:
            try:
                return TopicReader(self._clients, self.topic, self.topic)
            except NoTopic:
                if self._clock.monotonic() > give_up:
                    raise
                self._clock.sleep(PAUSE_SECONDS)

    def agree(self, make: Callable[[], bytes]) -> bytes:
        """The record that is there, else a new one, unless another process writes one first. Raises
        SetupError.
        """
        found = self.read()
        if found is not None:
            return found
        self._create()
        record = make()
        give_up = self._clock.monotonic() + DEADLINE_SECONDS
        longest = FIRST_PAUSE_SECONDS
        while (found := self.read()) is None and (found := self._write(record)) is None:
            if self._clock.monotonic() > give_up:
                raise SetupError(
                    f"{self.topic} is not written after {DEADLINE_SECONDS:g} s: other processes write it again and again; "
                    "give the same command again"
                )
            self._clock.sleep(random.uniform(longest / 2, longest))
            longest = min(2 * longest, LONGEST_PAUSE_SECONDS)
        return found

    def _create(self) -> None:
        topic = NewTopic(self.topic, 1, -1, config={"cleanup.policy": "compact"})
        try:
            self._admin.create_topics([topic])[self.topic].result(SECONDS)
        except KafkaException as cause:
            if cause.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise SetupError(
                    f"the topic {self.topic} could not be created: {cause.args[0].str()}"
                ) from cause

    def _write(self, record: bytes) -> bytes | None:
        """Write a new record, or find that of another; None where another process fences
        this one.
        """
        producer = self._clients.producer(
            {"transactional.id": self.topic, "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS}
        )
        try:
            producer.init_transactions(SECONDS)
            found = self.read()
            if found is not None:
                return found
            producer.begin_transaction()
            producer.produce(self.topic, record, KEY, 0)
            producer.commit_transaction(SECONDS)
        except KafkaException as cause:
            error = cause.args[0]
            if error.code() in FENCED:
                return None
            raise SetupError(
                f"{self.topic} cannot be written ({error.name()}: {error.str()}): look at the brokers, and at the right to write "
                "and describe the transactional id of this name"
            ) from cause
        return record
