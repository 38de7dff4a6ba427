"""The transactions of one transactional id.

The producer has a stable transactional id: a second process that takes it over fences the first. If
the end of a transaction is unknown, `Transactions.decide` decides it: a new client takes over the
same transactional id. That aborts an open transaction, waits for one that is being committed, and
fences the previous client, even if it still hangs.
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from worker.clock import Clock
from worker.errors import SetupError
from worker.kafka.clients import Clients
from worker.kafka.errors import FENCED, is_retriable
from worker.kafka.transaction import (
    GRACE_SECONDS,
    Hung,
    Transaction,
    TransactionError,
    Within,
    within,
)

SOCKET_TIMEOUT_MS = 6_000
"""Timeout of a request.

Rows that a frozen leader holds are written to its successor before the transaction times out. It
may not exceed the transaction's timeout: librdkafka creates no such producer.
"""
ABORT_SECONDS = 1.0
"""Seconds for an abort before the process ends.

It returns an error that the client lost, and readers need not wait for the transaction's timeout.
"""
RENEWAL_SECONDS = 10.0
"""Seconds for a new client to take over the transactional id, once a broker answers it."""


class Transactions:
    """The transactions of one transactional id, one after the other.

    Args:
        transactional_id: another producer that takes it over fences this one.
        timeout_ms: after it the broker aborts an open transaction; committed readers wait for it.
        write_seconds: for writing the records of a transaction.
        abort_seconds: for the abort after a failure; None if `decide` or the end of the process
            follows.
        options: of the producer, beyond those of any client.
        on_full: called when a record waits for room in the producer's queue.
        bounded: runs calls that may hang.
    """

    def __init__(
        self,
        clients: Clients,
        transactional_id: str,
        *,
        timeout_ms: int,
        write_seconds: float,
        abort_seconds: float | None,
        options: Mapping[str, Any],
        on_full: Callable[[], None] = lambda: None,
        clock: Clock = time,
        bounded: Within = within,
    ) -> None:
        self.transactional_id = transactional_id
        self._write_seconds = write_seconds
        self._abort_seconds = abort_seconds
        self._on_full = on_full
        self._clock = clock
        self._bounded = bounded
        self._renewing = threading.Lock()
        self._open: Transaction | None = None  # also one in doubt, until it is decided
        self._is_suspect = False
        self._candidate: Any = None  # a client whose takeover has no answer yet
        self._clients = clients
        self._options = {
            "transactional.id": transactional_id,
            "transaction.timeout.ms": timeout_ms,
            "socket.timeout.ms": min(SOCKET_TIMEOUT_MS, timeout_ms),
            "compression.type": "lz4",
            "allow.auto.create.topics": False,  # a request must not create a deleted topic again
            **options,
        }
        self._producer = clients.producer(self._options)

    def take_over(self, timeout_seconds: float) -> None:
        """Take over the transactional id: fences its last holder and waits for its transaction.

        Raises KafkaException if the broker does not grant it in time.
        """
        self._producer.init_transactions(timeout_seconds)

    def decide(self, timeout_seconds: float) -> None:
        """Take over the transactional id from the client before, which decides its transactions.

        The broker refuses all later requests of that client. Raises KafkaException and Hung if
        nothing is decided yet.
        """
        with self._renewing:
            self._renew(None, timeout_seconds)
            self._open = None

    @property
    def is_open(self) -> bool:
        """Whether a transaction is open or in doubt."""
        return self._open is not None

    def suspect(self) -> None:
        """After a long silence of the brokers: use new connections from the next request on.

        librdkafka does not always recover. A broker that returns may first list no brokers at all,
        and librdkafka does not ask it again. It also waits forever for a group coordinator that
        left the list. Nothing is open between transactions, so a new client may take over the
        transactional id, as after a restart.
        """
        self._is_suspect = True

    def ask(self, topic: str, timeout_seconds: float) -> None:
        """Ask any broker for a topic over this producer's connections, from any thread.

        Raises KafkaException and Hung if none answers.
        """
        if self._is_suspect and self._renewing.acquire(blocking=False):
            try:
                if self._open is None:
                    self._renew(topic, timeout_seconds)
            finally:
                self._renewing.release()
        producer = self._producer
        try:
            producer.list_topics(topic, timeout=timeout_seconds)
        finally:
            self._let_log(producer)

    def _let_log(self, producer: Any) -> None:
        """Poll, so that the client's messages about connections do not pile up.

        A transaction polls anyway, and delivery reports run in the thread that polls.
        """
        if self._renewing.acquire(blocking=False):
            try:
                if self._open is None:
                    producer.poll(0)
            finally:
                self._renewing.release()

    def _renew(self, topic: str | None, timeout_seconds: float) -> None:
        """Replace the client. Raises KafkaException and Hung, and then changes nothing."""
        fresh, self._candidate = self._candidate or self._clients.producer(self._options), None
        try:
            # Fails sooner than the takeover if no broker answers.
            fresh.list_topics(topic, timeout=timeout_seconds)
            self._take_over_with(fresh)
        finally:
            fresh.poll(0)
        self._producer = fresh
        self._is_suspect = False

    def _take_over_with(self, fresh: Any) -> None:
        try:
            self._bounded(
                RENEWAL_SECONDS + GRACE_SECONDS, lambda: fresh.init_transactions(RENEWAL_SECONDS)
            )
        except KafkaException as cause:
            if is_retriable(cause):
                # The broker may still grant it the id, which would fence a later client that got
                # it first. So the next attempt uses the same client.
                self._candidate = fresh
            raise
        except Hung:
            raise Hung(
                f"taking over {self.transactional_id} takes longer than {RENEWAL_SECONDS:g} s"
            ) from None

    @contextmanager
    def transaction(self, answer_seconds: float) -> Iterator[Transaction]:
        """One transaction: `produce` into it, then `commit` it; see `Transaction`.

        Raises TransactionError if the broker or the client refuses; other exceptions pass through.
        """
        transaction = None
        try:
            transaction = self._next(answer_seconds)
            transaction.begin()
            yield transaction
            self._open = None
        except BaseException as cause:
            aborted = None if transaction is None else self._abort(transaction, cause)
            if isinstance(cause, KafkaException):
                # A fenced producer may get another error first, and FENCED when it aborts.
                error = aborted if aborted and aborted.code() in FENCED else cause.args[0]
            elif isinstance(cause, SystemError):
                error = aborted or KafkaError(KafkaError._FAIL)
            else:
                raise
            raise TransactionError(error) from cause

    def _next(self, answer_seconds: float) -> Transaction:
        """The next transaction, not begun, of a client that is not suspect and has none open."""
        with self._renewing:
            if self._is_suspect or self._open is not None:
                self._renew(None, RENEWAL_SECONDS)
            self._open = transaction = Transaction(
                self._producer,
                self._write_seconds,
                answer_seconds,
                self._on_full,
                self._clock,
                self._bounded,
            )
        return transaction

    def _abort(self, transaction: Transaction, cause: BaseException) -> KafkaError | None:
        """Abort after a failure, if `abort_seconds` or the failure asks for it; the abort's error.

        A SystemError always does: confluent-kafka's `flush` and `poll` lose a fatal error (they
        return nothing and set no exception), and an abort raises it. So does a SetupError: nothing
        is in doubt, and nobody need wait for the timeout.
        """
        seconds = self._abort_seconds
        if seconds is None:
            if not isinstance(cause, (SystemError, SetupError)):
                return None
            seconds = ABORT_SECONDS
        error = transaction.abort(seconds)
        if error is None:
            self._open = None
        return error
