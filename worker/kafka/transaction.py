"""Kafka transactions: records and the offsets they were made from become visible together, or not
at all.

The producer has a stable transactional id: a second process that takes it over fences this one. The
offsets are committed under the group metadata of any consumer, a member of its group or a
standalone one.

A transaction whose end is not known is decided by `Transactions.decide`: a new client takes over
the same transactional id. That aborts what is open, waits for what is about to be committed, and
fences the client before it, wherever that still hangs.
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from worker.clock import Clock
from worker.errors import SetupError
from worker.kafka.clients import Clients
from worker.kafka.errors import passes

T = TypeVar("T")


class Hung(Exception):
    """A call has not returned in time; it may yet do what it was asked for."""


class Within(Protocol):
    """Runs work that may hang."""

    def __call__(self, seconds: float, work: Callable[[], T], /) -> T:
        """The result of `work`. Raises Hung past `seconds`: then the work is left to itself."""


def within(seconds: float, work: Callable[[], T], /) -> T:
    """See `Within`: a thread of its own for each call, which does not keep the process alive."""
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
            raise  # it was the work that raised it
        raise Hung from None


Outgoing = tuple[str, int, bytes | None, bytes | None, Sequence[tuple[str, bytes]]]
"""A record: topic, partition, key, value, headers."""
FENCED = frozenset(
    {KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH}
)
"""What broker and client answer when another producer took over the transactional id."""
PURGED = frozenset({KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT})
"""What the client says of records that it gave up because the transaction failed: not
why that was.
"""
SOCKET_TIMEOUT_MS = 6_000
"""Rows that a frozen leader holds are written to its successor before the transaction's time is
over. No longer than that time: librdkafka makes no such producer.
"""
ABORT_SECONDS = 1.0
"""For an abort at the end of a process: the client tells an error it has lost, and readers need not
wait for the timeout.
"""
RENEWAL_SECONDS = 10.0
"""For a new client to take over the transactional id, once a broker answers it."""
GRACE_SECONDS = 0.5
"""So long past its own timeout a call of the client is waited for."""


class TransactionError(Exception):
    """A step of a transaction failed; whether it was committed may be unknown.

    Attributes:
        error: of the broker or the client.
    """

    def __init__(self, error: KafkaError) -> None:
        super().__init__(f"{error.name()}: {error.str()}")
        self.error = error

    @property
    def fenced(self) -> bool:
        """Whether the transactional id belongs to another producer now."""
        return self.error.code() in FENCED


class UnwrittenError(Exception):
    """Records of a transaction were not written before its deadline."""


class Transaction:
    """A transaction of one client, from `begin` to its end.

    Attributes:
        answered_seconds: how long the slower of its steps was waited for that coordinators
            answered.

    Args:
        producer: librdkafka's, with its transactional id taken over.
        write_seconds: for writing all records.
        answer_seconds: for the answer to each of the steps after it, which are small.
        on_full: called when a record waits for room in the producer's queue.
        clock: measures waiting for room.
        bounded: runs the steps that may hang.
    """

    def __init__(
        self,
        producer: Any,
        write_seconds: float,
        answer_seconds: float,
        on_full: Callable[[], None],
        clock: Clock,
        bounded: Within,
    ) -> None:
        self._producer = producer
        self._write_seconds = write_seconds
        self._answer_seconds = answer_seconds
        self._on_full = on_full
        self._clock = clock
        self._bounded = bounded
        self._refused: KafkaError | None = None
        self.answered_seconds = 0.0

    def begin(self) -> None:
        """Open it. Raises KafkaException."""
        self._producer.begin_transaction()

    def produce(self, records: Iterable[Outgoing]) -> None:
        """Hand records to the producer.

        Raises UnwrittenError where the producer's queue stays full.
        """
        for record in records:
            self._enqueue(record)

    def produce_rows(
        self,
        topic: str,
        partition: int,
        rows: Mapping[bytes, bytes | None],
        last_offsets: dict[int, int],
    ) -> None:
        """Hand a partition's rows to the producer, in order; `last_offsets` gets the offset of the
        last one when it is written.

        All but the last in one call, and without reports of their delivery: each call and each
        report would take the interpreter from whoever else computes, thousands of times a
        transaction. Where a record is not written the transaction has failed, and says so to the
        next step. Raises UnwrittenError as `produce`, and KafkaException.
        """

        def on_delivery(error: KafkaError | None, message: Any) -> None:
            if error is not None:
                self._refused = self._refused or error
            else:
                last_offsets[partition] = message.offset()

        *others, (key, value) = rows.items()
        batch: list[dict[str, Any]] = [{"key": key, "value": value} for key, value in others]
        if batch and self._producer.produce_batch(topic, batch, partition) < len(batch):
            self.produce(
                (topic, partition, one["key"], one["value"], ()) for one in batch if "_error" in one
            )
        self._enqueue((topic, partition, key, value, ()), on_delivery)

    def commit(
        self,
        offsets: Sequence[TopicPartition],
        group_metadata: Any,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        """Write all records, then commit them with the offsets of a group.

        `check` is called when all records are written and nothing is committed: what it raises ends
        the transaction. `group_metadata` is a consumer's, or bytes in its form.

        Raises:
            UnwrittenError: the deadline passed before the check. KafkaException: what the broker or
            the client refuses. Hung: the client does not return; what it was asked for may yet
            happen, until another has the transactional id.
        """
        # Records first: accepted offsets then imply that all records are below the high watermarks.
        if self._producer.flush(self._write_seconds):
            raise UnwrittenError
        if self._refused is not None:
            raise KafkaException(self._reason(self._refused))
        check()
        producer, seconds = self._producer, self._answer_seconds
        self._ask(
            "sending the offsets",
            lambda: producer.send_offsets_to_transaction(list(offsets), group_metadata, seconds),
        )
        self._ask("committing", lambda: producer.commit_transaction(seconds))

    def _ask(self, step: str, call: Callable[[], None]) -> None:
        """A step that a coordinator answers. Raises KafkaException and Hung."""
        asked = self._clock.monotonic()
        try:
            self._bounded(self._answer_seconds + GRACE_SECONDS, call)
        except Hung:
            raise Hung(f"{step} takes longer than {self._answer_seconds:g} s") from None
        self.answered_seconds = max(self.answered_seconds, self._clock.monotonic() - asked)

    def _reason(self, refused: KafkaError) -> KafkaError:
        """Why a record was not written.

        Why a transaction failed the client tells whoever asks for something that it cannot do then.
        """
        if refused.code() in PURGED:
            try:
                self._producer.begin_transaction()
            except KafkaException as told:
                error: KafkaError = told.args[0]
                return refused if error.code() == KafkaError._STATE else error
        return refused

    def abort(self, seconds: float) -> KafkaError | None:
        """Abort it; the error that this meets, if any."""
        try:
            self._producer.abort_transaction(seconds)
        except KafkaException as told:
            error: KafkaError = told.args[0]
            return error
        return None

    def _enqueue(
        self, record: Outgoing, on_delivery: Callable[[KafkaError | None, Any], None] | None = None
    ) -> None:
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
                    give_up = self._clock.monotonic() + self._write_seconds
                    self._on_full()
                elif self._clock.monotonic() > give_up:
                    raise UnwrittenError from None
                self._producer.poll(0.1)


class Transactions:
    """The transactions of one transactional id, one after the other.

    Args:
        clients: make the producer.
        transactional_id: another producer that takes it over fences this one.
        timeout_ms: after it the broker aborts a transaction that is still open; committed readers
            wait that long.
        write_seconds: for writing the records of a transaction.
        abort_seconds: for the abort that follows a failure; None where `decide` or the end of the
            process follows.
        options: more of librdkafka's for the producer.
        on_full: called when a record waits for room in the producer's queue.
        clock: measures what is waited for.
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
        self._open: Transaction | None = (
            None  # also one whose end is not known, until it is decided
        )
        self._is_suspect = False
        self._candidate: Any = None  # a client that has asked for the id, and has no answer yet
        self._clients = clients
        self._options = {
            "transactional.id": transactional_id,
            "transaction.timeout.ms": timeout_ms,
            "socket.timeout.ms": min(SOCKET_TIMEOUT_MS, timeout_ms),
            "compression.type": "lz4",
            "allow.auto.create.topics": False,  # a topic that is gone is not made again by who asks for it
            **options,
        }
        self._producer = clients.producer(self._options)

    def take_over(self, timeout_seconds: float) -> None:
        """Take over the transactional id: fences its last holder and waits for the end of its
        transaction.

        Raises KafkaException where the broker does not grant it in time.
        """
        self._producer.init_transactions(timeout_seconds)

    def decide(self, timeout_seconds: float) -> None:
        """Take over the transactional id from the client before: when this returns, its
        transactions are decided.

        Whatever it was still asked for is refused from here on. Raises KafkaException and Hung
        where nothing is decided yet.
        """
        with self._renewing:
            self._renew(None, timeout_seconds)
            self._open = None

    @property
    def is_open(self) -> bool:
        """Whether there is a transaction whose end is not known, or not there yet."""
        return self._open is not None

    def suspect(self) -> None:
        """It has heard of no broker for long: the next question and the next transaction go over
        new connections.

        librdkafka does not always find back by itself. A broker that was away may at first tell of
        no brokers at all, its own name included, and then it is not asked again; a group's
        coordinator that left the list is waited for without end. Nothing is open between
        transactions, so a new client may take over the transactional id, as after a restart.
        """
        self._is_suspect = True

    def ask(self, topic: str, timeout_seconds: float) -> None:
        """Ask any broker for a topic over this producer's own connections, from any thread.

        Raises KafkaException and Hung where none answers.
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
        """What a client has to tell of its connections piles up until it is polled.

        In a transaction that is done anyway, and delivery reports are called in the thread that
        polls.
        """
        if self._renewing.acquire(blocking=False):
            try:
                if self._open is None:
                    producer.poll(0)
            finally:
                self._renewing.release()

    def _renew(self, topic: str | None, timeout_seconds: float) -> None:
        """A new client in place of the present one. Raises KafkaException and Hung, and then all is
        as before.
        """
        fresh, self._candidate = self._candidate or self._clients.producer(self._options), None
        try:
            # Fails sooner than the takeover where no broker answers.
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
            if passes(cause):
                # It may yet be given the id, and by that fence whoever got it meanwhile: so the
                # next attempt is its own.
                self._candidate = fresh
            raise
        except Hung:
            raise Hung(
                f"taking over {self.transactional_id} takes longer than {RENEWAL_SECONDS:g} s"
            ) from None

    @contextmanager
    def transaction(self, answer_seconds: float) -> Iterator[Transaction]:
        """One transaction: `produce` into it, then `commit` it. `answer_seconds`: see
        `Transaction`.

        Raises TransactionError for what the broker or the client refuses; any other exception
        passes through unchanged.
        """
        transaction = None
        try:
            transaction = self._next(answer_seconds)
            transaction.begin()
            yield transaction
            self._open = None
        except BaseException as cause:
            told = None if transaction is None else self._abort(transaction, cause)
            if isinstance(cause, KafkaException):
                # A fenced producer may get another error first, and the true one when it aborts.
                error = told if told is not None and told.code() in FENCED else cause.args[0]
            elif isinstance(cause, SystemError):
                error = told or KafkaError(KafkaError._FAIL)
            else:
                raise
            raise TransactionError(error) from cause

    def _next(self, answer_seconds: float) -> Transaction:
        """The next transaction, over a client that is not suspect and has none that was left open;
        not begun yet.
        """
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
        """Abort after a failure, where that is wanted; the error that the abort itself meets, if
        any.

        After a SystemError it is always wanted: confluent-kafka's `flush` and `poll` lose a fatal
        error (they return nothing and set no exception), and an abort raises it. After a refusal
        nothing is in doubt, and nobody need wait for the timeout.
        """
        seconds = self._abort_seconds
        if seconds is None:
            if not isinstance(cause, (SystemError, SetupError)):
                return None
            seconds = ABORT_SECONDS
        told = transaction.abort(seconds)
        if told is None:
            self._open = None
        return told
