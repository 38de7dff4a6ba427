"""A Kafka transaction: records and the offsets they result from become visible together, or never.

The offsets may be committed with the group metadata of any consumer, even one outside the group.
"""

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Protocol, TypeVar

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from worker.clock import Clock
from worker.kafka.errors import FENCED, PURGED

T = TypeVar("T")

Outgoing = tuple[str, int, bytes | None, bytes | None, Sequence[tuple[str, bytes | None]]]
"""A record: topic, partition, key, value, headers."""
GRACE_SECONDS = 0.5
"""Extra wait after a call's own timeout."""


class Hung(Exception):
    """A call did not return in time; it may still take effect."""


class Within(Protocol):
    """Runs work that may hang."""

    def __call__(self, seconds: float, work: Callable[[], T], /) -> T:
        """The result of `work`. Raises Hung after `seconds`; the work may continue."""


def within(seconds: float, work: Callable[[], T], /) -> T:
    """See `Within`: runs each call in a daemon thread of its own."""
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
    """A step of a transaction failed; whether it was committed may be unknown.

    Attributes:
        error: of the broker or the client.
    """

    def __init__(self, error: KafkaError) -> None:
        super().__init__(f"{error.name()}: {error.str()}")
        self.error = error

    @property
    def fenced(self) -> bool:
        """Whether another producer has taken over the transactional id."""
        return self.error.code() in FENCED


class UnwrittenError(Exception):
    """Records of a transaction were not written before its deadline."""


class Transaction:
    """A transaction of one client, from `begin` to its end.

    Attributes:
        answered_seconds: how long the coordinator took for its slowest answer.

    Args:
        producer: librdkafka's, which holds its transactional id.
        write_seconds: for writing all records.
        answer_seconds: for each of the small steps after that.
        on_full: called when a record waits for room in the producer's queue.
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
        """Run a step that a coordinator answers. Raises KafkaException and Hung."""
        asked = self._clock.monotonic()
        try:
            self._bounded(self._answer_seconds + GRACE_SECONDS, call)
        except Hung:
            raise Hung(f"{step} takes longer than {self._answer_seconds:g} s") from None
        self.answered_seconds = max(self.answered_seconds, self._clock.monotonic() - asked)

    def _reason(self, refused: KafkaError) -> KafkaError:
        """Why a record was not written.

        The client reveals why a transaction failed when it is asked for a step that is impossible
        after the failure.
        """
        if refused.code() in PURGED:
            try:
                self._producer.begin_transaction()
            except KafkaException as cause:
                error: KafkaError = cause.args[0]
                return refused if error.code() == KafkaError._STATE else error
        return refused

    def abort(self, seconds: float) -> KafkaError | None:
        """Abort it; the error of the abort, if any."""
        try:
            self._producer.abort_transaction(seconds)
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
