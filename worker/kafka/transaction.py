"""Kafka transactions: records and the offsets they were made from become visible together, or not at all.

The producer has a stable transactional id: a second process that takes it over fences this one. The offsets are committed under
the group metadata of any consumer, a member of its group or a standalone one.
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from worker.clock import Clock
from worker.errors import Crash, SurroundingsError
from worker.kafka.clients import Clients

Outgoing = tuple[str, int, bytes | None, bytes | None, Sequence[tuple[str, bytes]]]
"""A record: topic, partition, key, value, headers."""

FENCED = frozenset({KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH})
"""What broker and client answer when another producer took over the transactional id."""
ABORT_SECONDS = 1.0
"""For an abort at the end of a process: the client tells an error it has lost, and readers need not wait for the timeout."""
RENEWAL_SECONDS = 10.0
"""For a new client to take over the transactional id, once a broker answers it."""


class TransactionError(Exception):
    """A step of a transaction failed; whether it was committed may be unknown.

    Attributes:
        error: of the broker or the client.
        seconds: from the transaction's beginning to the failure.
    """

    def __init__(self, error: KafkaError, seconds: float) -> None:
        super().__init__(f"{error.name()}: {error.str()}")
        self.error = error
        self.seconds = seconds

    @property
    def fenced(self) -> bool:
        """Whether the transactional id belongs to another producer now."""
        return self.error.code() in FENCED


class UnwrittenError(Exception):
    """Records of a transaction were not written before its deadline."""


class Transactions:
    """The transactions of one producer, one after the other.

    Args:
        clients: make the producer.
        transactional_id: another producer that takes it over fences this one.
        timeout_ms: after it the broker aborts a transaction that is still open; committed readers wait that long.
        deadline_seconds: for each step of a commit.
        abort_seconds: for the abort that follows a failure; None where a failure ends the process, which aborts nothing.
        options: more of librdkafka's for the producer.
        on_full: called when a record waits for room in the producer's queue.
        clock: measures how long a transaction takes.
    """

    def __init__(
        self,
        clients: Clients,
        transactional_id: str,
        *,
        timeout_ms: int,
        deadline_seconds: float,
        abort_seconds: float | None,
        options: Mapping[str, Any],
        on_full: Callable[[], None] = lambda: None,
        clock: Clock = time,
    ) -> None:
        self.transactional_id = transactional_id
        self._deadline_seconds = deadline_seconds
        self._abort_seconds = abort_seconds
        self._on_full = on_full
        self._clock = clock
        self._refused: KafkaError | None = None
        self._in_transaction = threading.Lock()
        self._is_suspect = False
        self._clients = clients
        self._options = {
            "transactional.id": transactional_id,
            "transaction.timeout.ms": timeout_ms,
            "compression.type": "lz4",
            "allow.auto.create.topics": False,  # a topic that is gone is not made again by who asks for it
            **options,
        }
        self._producer = clients.producer(self._options)

    def take_over(self, timeout_seconds: float) -> None:
        """Take over the transactional id: fences its last holder and waits for the end of its transaction.

        Raises KafkaException where the broker does not grant it in time.
        """
        self._producer.init_transactions(timeout_seconds)

    def suspect(self) -> None:
        """It has heard of no broker for long: the next question and the next transaction go over new connections.

        librdkafka does not always find back by itself. A broker that was away may at first tell of no brokers at all, its own
        name included, and then it is not asked again; a group's coordinator that left the list is waited for without end. Nothing
        is open between transactions, so a new client may take over the transactional id, as after a restart.
        """
        self._is_suspect = True

    def ask(self, topic: str, timeout_seconds: float) -> None:
        """Ask any broker for a topic over this producer's own connections, from any thread.

        Raises KafkaException where none answers.
        """
        is_idle = self._in_transaction.acquire(blocking=False)
        try:
            if is_idle and self._is_suspect:
                self._renew(topic, timeout_seconds)
            else:
                self._producer.list_topics(topic, timeout=timeout_seconds)
        finally:
            # What the client has to tell of its connections piles up until it is polled; in a transaction that is done anyway,
            # and delivery reports are called in the thread that polls.
            if is_idle:
                self._producer.poll(0)
                self._in_transaction.release()

    def _renew(self, topic: str | None, timeout_seconds: float) -> None:
        """A new client in place of the suspect one. Raises KafkaException, and then all is as before."""
        fresh = self._clients.producer(self._options)
        try:
            fresh.list_topics(
                topic, timeout=timeout_seconds
            )  # fails sooner than the takeover where no broker answers
            fresh.init_transactions(RENEWAL_SECONDS)
        finally:
            fresh.poll(0)
        self._producer = fresh
        self._is_suspect = False

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """One transaction: `produce` into it, then `commit` it.

        Raises TransactionError for what the broker or the client refuses; any other exception passes through unchanged.
        """
        with self._in_transaction:
            yield from self._attempt()

    def _attempt(self) -> Iterator[None]:
        """The body of `transaction`."""
        began = self._clock.monotonic()
        self._refused = None
        try:
            if self._is_suspect:
                self._renew(None, RENEWAL_SECONDS)
            self._producer.begin_transaction()
            yield
        except BaseException as cause:
            told = self._abort(cause)
            if isinstance(cause, KafkaException):
                # A fenced producer may get another error first, and the true one when it aborts.
                error = told if told is not None and told.code() in FENCED else cause.args[0]
            elif isinstance(cause, SystemError):
                error = told or KafkaError(KafkaError._FAIL)
            else:
                raise
            raise TransactionError(error, self._clock.monotonic() - began) from cause

    def produce(self, records: Iterable[Outgoing], last_offsets: dict[int, int] | None = None) -> None:
        """Hand records to the producer; `last_offsets` gets the last offset of each partition as they are written.

        Raises Crash where the producer's queue stays full.
        """

        def on_delivery(error: KafkaError | None, message: Any) -> None:
            if error is not None:
                self._refused = self._refused or error  # later ones may only follow from the first
            elif last_offsets is not None:
                partition, offset = message.partition(), message.offset()
                last_offsets[partition] = max(offset, last_offsets.get(partition, -1))

        for record in records:
            self._enqueue(record, on_delivery)

    def commit(
        self,
        offsets: Sequence[TopicPartition],
        group_metadata: Any,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        """Write all records, then commit them with the offsets of a group.

        `check` is called when all records are written and nothing is committed: what it raises ends the transaction.
        `group_metadata` is a consumer's, or bytes in its form. Raises UnwrittenError where the deadline passes before the check.
        """
        # Records first: accepted offsets then imply that all records are below the high watermarks.
        if self._producer.flush(self._deadline_seconds):
            raise UnwrittenError
        if self._refused is not None:
            raise KafkaException(self._refused)
        check()
        self._producer.send_offsets_to_transaction(list(offsets), group_metadata, self._deadline_seconds)
        self._producer.commit_transaction(self._deadline_seconds)

    def _enqueue(self, record: Outgoing, on_delivery: Callable[[KafkaError | None, Any], None]) -> None:
        topic, partition, key, value, headers = record
        give_up: float | None = None
        while True:
            try:
                self._producer.produce(
                    topic, value, key, partition, on_delivery=on_delivery, headers=list(headers)
                )
                return
            except BufferError:  # librdkafka's queue is full: let it drain
                if give_up is None:
                    give_up = self._clock.monotonic() + self._deadline_seconds
                    self._on_full()
                elif self._clock.monotonic() > give_up:
                    raise Crash("the producer's queue did not drain before the commit deadline") from None
                self._producer.poll(0.1)

    def _abort(self, cause: BaseException) -> KafkaError | None:
        """Abort after a failure, where that is wanted; the error that the abort itself meets, if any.

        After a SystemError it is always wanted: confluent-kafka's `flush` and `poll` lose a fatal error (they return nothing and
        set no exception), and an abort raises it. After a refusal nothing is in doubt, and nobody need wait for the timeout.
        """
        seconds = self._abort_seconds
        if seconds is None:
            if not isinstance(cause, (SystemError, SurroundingsError)):
                return None
            seconds = ABORT_SECONDS
        try:
            self._producer.abort_transaction(seconds)
        except KafkaException as told:
            error: KafkaError = told.args[0]
            return error
        return None
