"""The transactions of one transactional id.

In a Kafka transaction, records and the offsets they result from become visible together, or never.
The offsets may be committed with the group metadata of any consumer, even one outside the group.

The producer has a stable transactional id: a second process that takes it over fences the first. If
the end of a transaction is unknown, `Transactions.decide` decides it: a new client takes over the
same transactional id. That aborts an open transaction, waits for one that is being committed, and
fences the previous client, even if it still hangs.
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass
from typing import Any, Protocol, TypeVar

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from worker.clock import Clock
from worker.errors import SetupError
from worker.kafka.clients import Clients
from worker.kafka.errors import FENCED, PURGED, is_retriable, retry

T = TypeVar("T")

Outgoing = tuple[str, int, bytes | None, bytes | None, Sequence[tuple[str, bytes | None]]]
"""A record: topic, partition, key, value, headers."""
DECISION_SECONDS = 120.0
"""For which brokers may write the markers of the last holder's transaction, after the first answer
that they still do: a slow or frozen leader delays them.
"""
GRACE_SECONDS = 0.5  # extra wait after a call's own timeout
SOCKET_TIMEOUT_MS = 6_000
"""Timeout of a request.

Rows that a frozen leader holds are written to its successor before the transaction times out. It
may not exceed the transaction's timeout: librdkafka creates no such producer.
"""
ABORT_SECONDS = 1.0
"""Seconds for an abort before the process ends.

It returns an error that the client lost, and readers need not wait for the transaction's timeout.
"""
RENEWAL_SECONDS = 10.0  # for a new client to take over the transactional id, once a broker answers


class Hung(Exception):
    """A call did not return in time; it may still take effect."""


class Within(Protocol):
    """Runs work that may hang."""

    def __call__(self, seconds: float, work: Callable[[], T], /) -> T:
        """The result of `work`. Raises Hung after `seconds`; the work may continue."""


def within(seconds: float, work: Callable[[], T], /) -> T:
    """The result of `work`, run in a daemon thread of its own. Raises Hung after `seconds`."""
    done: Future[T] = Future()

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as error:
            done.set_exception(error)

    threading.Thread(target=run, name="kafka-call", daemon=True).start()
    try:
        return done.result(seconds)
    except TimeoutError:
        if done.done():
            raise  # the work raised it
        raise Hung from None


class TransactionError(Exception):
    """A step of a transaction failed; whether it was committed may be unknown."""

    def __init__(self, error: KafkaError) -> None:
        super().__init__(f"{error.name()}: {error.str()}")
        self.error = error  # of the broker or the client

    @property
    def fenced(self) -> bool:
        """True if another producer has taken over the transactional id."""
        return self.error.code() in FENCED


class UnwrittenError(Exception):
    """Records of a transaction were not written before its deadline."""


@dataclass(eq=False)
class Transaction:
    """A transaction of one client, from `begin` to its end."""

    owner: "Transactions"  # of its id; it has the time to write the records
    producer: Any  # librdkafka's, which holds the id
    answer_seconds: float  # for each of the small steps after the records are written

    def __post_init__(self) -> None:
        self._refused: KafkaError | None = None
        self.answered_seconds = 0.0  # how long the coordinator took for its slowest answer

    def begin(self) -> None:
        """Open it. Raises KafkaException."""
        self.producer.begin_transaction()

    def produce(self, records: Iterable[Outgoing]) -> None:
        """Queue records. Raises UnwrittenError if the producer's queue stays full."""
        for record in records:
            self._enqueue(record)

    def produce_rows(
        self,
        topic: str,
        partition: int,
        rows: Mapping[bytes, bytes | None],
        last_offsets: dict[int, int],
    ) -> None:
        """Queue a partition's rows in order; `last_offsets` gets the offset of the last one.

        All but the last are queued in one call without delivery reports, because thousands of
        calls and reports would slow down the processor. If one is not written, the next step of the
        transaction raises. Raises UnwrittenError as `produce` does, and KafkaException.
        """

        def on_delivery(error: KafkaError | None, message: Any) -> None:
            if error is not None:
                self._refused = self._refused or error
            else:
                last_offsets[partition] = message.offset()

        *others, (key, value) = rows.items()
        batch: list[dict[str, Any]] = [{"key": key, "value": value} for key, value in others]
        if batch and self.producer.produce_batch(topic, batch, partition) < len(batch):
            self.produce(
                (topic, partition, message["key"], message["value"], ())
                for message in batch
                if "_error" in message
            )
        self._enqueue((topic, partition, key, value, ()), on_delivery)

    def commit(
        self,
        offsets: Sequence[TopicPartition],
        group_metadata: Any,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        """Write all records, call `check`, then commit them with the offsets of a group.

        An exception of `check` ends the transaction before anything is committed. `group_metadata`
        is a consumer's, or bytes in the same format.

        Raises:
            UnwrittenError: the deadline passed before the check.
            KafkaException: the broker or the client refuses.
            Hung: the client does not return. The step may still take effect, until another producer
                takes over the transactional id.
        """
        # Records first: accepted offsets then imply that all records are below the high watermarks.
        if self.producer.flush(self.owner.write_seconds):
            raise UnwrittenError
        if self._refused is not None:
            raise KafkaException(self._reason(self._refused))
        check()
        producer, seconds = self.producer, self.answer_seconds
        self._ask(
            "sending the offsets",
            lambda: producer.send_offsets_to_transaction(list(offsets), group_metadata, seconds),
        )
        self._ask("committing", lambda: producer.commit_transaction(seconds))

    def _ask(self, step: str, call: Callable[[], None]) -> None:
        """Run a step that a coordinator answers. Raises KafkaException and Hung."""
        asked = self.owner.clock.monotonic()
        try:
            self.owner.bounded(self.answer_seconds + GRACE_SECONDS, call)
        except Hung:
            raise Hung(f"{step} takes longer than {self.answer_seconds:g} s") from None
        self.answered_seconds = max(self.answered_seconds, self.owner.clock.monotonic() - asked)

    def _reason(self, refused: KafkaError) -> KafkaError:
        """Why a record was not written.

        The client reveals why a transaction failed when it is asked for a step that is impossible
        after the failure.
        """
        if refused.code() in PURGED:
            try:
                self.producer.begin_transaction()
            except KafkaException as cause:
                error: KafkaError = cause.args[0]
                return refused if error.code() == KafkaError._STATE else error
        return refused

    def abort(self, seconds: float) -> KafkaError | None:
        """Abort it; the error of the abort, if any."""
        try:
            self.producer.abort_transaction(seconds)
        except KafkaException as cause:
            error: KafkaError = cause.args[0]
            return error
        return None

    def _enqueue(
        self, record: Outgoing, on_delivery: Callable[[KafkaError | None, Any], None] | None = None
    ) -> None:
        topic, partition, key, value, headers = record
        give_up: float | None = None
        while True:
            try:
                self.producer.produce(
                    topic, value, key, partition, on_delivery=on_delivery, headers=list(headers)
                )
                return
            except BufferError:  # librdkafka's queue is full: let it drain
                if give_up is None:
                    give_up = self.owner.clock.monotonic() + self.owner.write_seconds
                    self.owner.on_full()
                elif self.owner.clock.monotonic() > give_up:
                    raise UnwrittenError from None
                self.producer.poll(0.1)


@dataclass(eq=False)
class Transactions:
    """The transactions of one transactional id, one after the other."""

    clients: Clients
    transactional_id: str  # another producer that takes it over fences this one
    _: KW_ONLY
    timeout_ms: int  # after it the broker aborts an open transaction; committed readers wait for it
    write_seconds: float  # for writing the records of a transaction
    abort_seconds: float | None  # for an abort; None if `decide` or the end of the process follows
    options: Mapping[str, Any]  # of the producer, beyond those of any client
    on_full: Callable[[], None] = lambda: None  # called when a record waits for room in the queue
    clock: Clock = time
    bounded: Within = within  # runs calls that may hang

    def __post_init__(self) -> None:
        self._renewing = threading.Lock()
        self._open: Transaction | None = None  # also one in doubt, until it is decided
        self._is_suspect = False
        self._candidate: Any = None  # a client whose takeover has no answer yet
        self._options = {
            "transactional.id": self.transactional_id,
            "transaction.timeout.ms": self.timeout_ms,
            "socket.timeout.ms": min(SOCKET_TIMEOUT_MS, self.timeout_ms),
            "compression.type": "lz4",
            "allow.auto.create.topics": False,  # a request must not create a deleted topic again
            **self.options,
        }
        self._producer = self.clients.producer(self._options)

    def take_over(self, timeout_seconds: float) -> None:
        """Take over the transactional id: fences its last holder and waits for its transaction.

        Brokers that still decide that transaction are asked again. Raises KafkaException if the
        broker does not grant it in time.
        """
        retry(
            lambda: self._producer.init_transactions(timeout_seconds),
            {KafkaError.CONCURRENT_TRANSACTIONS: DECISION_SECONDS},
            self.clock,
        )

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
        """True if a transaction is open or in doubt."""
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
        fresh, self._candidate = self._candidate or self.clients.producer(self._options), None
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
            self.bounded(
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
            self._open = transaction = Transaction(self, self._producer, answer_seconds)
        return transaction

    def _abort(self, transaction: Transaction, cause: BaseException) -> KafkaError | None:
        """Abort after a failure, if `abort_seconds` or the failure asks for it; the abort's error.

        A SystemError always does: confluent-kafka's `flush` and `poll` lose a fatal error (they
        return nothing and set no exception), and an abort raises it. So does a SetupError: nothing
        is in doubt, and nobody need wait for the timeout.
        """
        seconds = self.abort_seconds
        if seconds is None:
            if not isinstance(cause, (SystemError, SetupError)):
                return None
            seconds = ABORT_SECONDS
        error = transaction.abort(seconds)
        if error is None:
            self._open = None
        return error
