"""A record that many processes agree on: a topic for it alone, which the first one writes and all others find.

Who writes it holds a transactional id, so that of two that write at once the first is fenced, and finds the record of the second.
"""

import time
from collections.abc import Callable

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from worker.errors import SurroundingsError
from worker.kafka.clients import Clients
from worker.kafka.reader import NoTopic, TopicReader, broker_errors
from worker.kafka.transaction import FENCED

SECONDS = 30.0
ATTEMPTS = 20
PAUSE_SECONDS = 0.2
TRANSACTION_TIMEOUT_MS = 10_000
KEY = b"agreed"


class AgreedRecord:
    """The record of one topic, which has one partition.

    Args:
        clients: reach its Kafka.
        admin: creates the topic.
        topic: its name; the transactional id too.
    """

    def __init__(self, clients: Clients, admin: AdminClient, topic: str) -> None:
        self.topic = topic
        self._clients = clients
        self._admin = admin

    def read(self) -> bytes | None:
        """The record; None where none was written yet. Raises SurroundingsError where no broker answers."""
        with broker_errors("no answer from the broker"):
            if self.topic not in self._admin.list_topics(timeout=SECONDS).topics:
                return None
        found = None
        with self._reader() as reader:
            for stored in reader.read(0):
                found = stored.record.value
        return found

    def _reader(self) -> TopicReader:
        """A reader of the topic, which one broker knows of: where it was created just now, others may not yet."""
        for _ in range(ATTEMPTS):
            try:
                return TopicReader(self._clients, self.topic, self.topic)
            except NoTopic:
                time.sleep(PAUSE_SECONDS)
        return TopicReader(self._clients, self.topic, self.topic)

    def agree(self, make: Callable[[], bytes]) -> bytes:
        """The record that is there, else a new one, unless another process writes one first. Raises SurroundingsError."""
        found = self.read()
        if found is not None:
            return found
        self._create()
        for _ in range(ATTEMPTS):
            written = self._write(make)
            if written is not None:
                return written
        raise SurroundingsError(f"{self.topic} is not written: others write it again and again")

    def _create(self) -> None:
        topic = NewTopic(self.topic, 1, -1, config={"cleanup.policy": "compact"})
        try:
            self._admin.create_topics([topic])[self.topic].result(SECONDS)
        except KafkaException as cause:
            if cause.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise SurroundingsError(
                    f"the topic {self.topic} could not be created: {cause.args[0].str()}"
                ) from cause

    def _write(self, make: Callable[[], bytes]) -> bytes | None:
        """Write a new record, or find that of another; None where somebody else is faster."""
        producer = self._clients.producer(
            {"transactional.id": self.topic, "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS}
        )
        try:
            producer.init_transactions(SECONDS)
            found = self.read()
            if found is not None:
                return found
            record = make()
            producer.begin_transaction()
            producer.produce(self.topic, record, KEY, 0)
            producer.commit_transaction(SECONDS)
        except KafkaException as cause:
            error = cause.args[0]
            if error.code() in FENCED:
                return None
            raise SurroundingsError(
                f"{self.topic} cannot be written ({error.name()}: {error.str()}): look at the brokers, and at the right to write "
                "and describe the transactional id of this name"
            ) from cause
        return record
