"""One Kafka transaction per micro-batch: summary changes, dead letters, changelog rows and source offsets, all or nothing.

The producer is librdkafka's, with a stable transactional id: a second process with the same id fences this one, and the broker
refuses offsets under a stale generation, so a worker that was paused past its session can publish nothing (a zombie).
Every failure ends the process (`worker.stream.fatal`): an aborted or doubtful transaction is never retried inside.
"""

import struct
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Self

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from worker.errors import Crash, Fenced, SurroundingsError
from worker.events import Message
from worker.kafka.retry import FENCED
from worker.settings import Settings


class Membership(NamedTuple):
    """The consumer group membership of one assignment, captured when it was made.

    Never read live: after a failed heartbeat the coordinator holds (-1, ""), which a broker accepts without any check.
    """

    generation: int
    member_id: str


def group_metadata(group: str, membership: Membership) -> bytes:
    """Encode a membership the way librdkafka serialises `ConsumerGroupMetadata` (version 2, no static membership).

    The membership is Faust's, the producer confluent-kafka's, so the object cannot come from a confluent consumer.
    """
    return (
        b"CGMDv2:"
        + struct.pack("<i", membership.generation)
        + group.encode()
        + b"\0"
        + membership.member_id.encode()
        + b"\0\x01"
    )


def check_group_metadata(client_config: Mapping[str, object], group: str) -> None:
    """Compare `group_metadata` with what the installed confluent-kafka makes; raise SurroundingsError if they differ."""
    consumer = Consumer({**client_config, "group.id": group})
    try:
        made = bytes(consumer.consumer_group_metadata())
    finally:
        consumer.close()
    if made != group_metadata(group, Membership(-1, "")):
        raise SurroundingsError(
            "the installed confluent-kafka writes another group metadata format than this worker knows: "
            "install the version that pyproject.toml pins"
        )


class TransactionalProducer:
    """Commits micro-batches, one transaction each.

    Args:
        client_config: librdkafka settings that reach the broker.
        transactional_id: stable for this worker instance; unique among running ones.
        group: the consumer group whose offsets are committed.
        transaction_timeout_ms: after it the broker aborts a dead worker's transaction; readers wait that long.
        deadline_seconds: for one whole commit.
        max_message_bytes: the largest record the broker takes.
        in_flight_messages: records that are produced and not yet written, at most.
        in_flight_bytes: the same in bytes.
        on_full: called when a commit waits because of them.
    """

    def __init__(
        self,
        client_config: Mapping[str, object],
        *,
        transactional_id: str,
        group: str,
        transaction_timeout_ms: int,
        deadline_seconds: float,
        max_message_bytes: int,
        in_flight_messages: int = 100_000,
        in_flight_bytes: int = 128 * 2**20,
        on_full: Callable[[], None] = lambda: None,
    ) -> None:
        self._on_full = on_full
        self._group = group
        self._transactional_id = transactional_id
        self._transaction_timeout_seconds = transaction_timeout_ms / 1000
        self._deadline_seconds = deadline_seconds
        self._producer = Producer(
            {
                **client_config,
                "transactional.id": transactional_id,
                "transaction.timeout.ms": transaction_timeout_ms,
                "partitioner": "murmur2_random",  # as every Kafka client but librdkafka's default
                "compression.type": "lz4",
                "linger.ms": 1,  # a batch is produced at once and flushed: waiting longer only adds latency
                "queue.buffering.max.messages": in_flight_messages,
                "queue.buffering.max.kbytes": in_flight_bytes // 1024,
                "message.max.bytes": max_message_bytes,
            }
        )
        self._refused: KafkaError | None = None

    @classmethod
    def configured(
        cls, settings: Settings, client_config: Mapping[str, object], on_full: Callable[[], None]
    ) -> Self:
        """The producer of the worker with these settings."""
        return cls(
            client_config,
            transactional_id=f"{settings.app_id}-{settings.instance_id}",
            group=settings.app_id,
            transaction_timeout_ms=settings.transaction_timeout_ms,
            deadline_seconds=settings.commit_timeout_ms / 1000,
            max_message_bytes=settings.max_message_bytes,
            in_flight_messages=settings.in_flight_messages,
            in_flight_bytes=settings.in_flight_bytes,
            on_full=on_full,
        )

    def start(self, timeout_seconds: float = 20) -> None:
        """Take over the transactional id: fences its last holder and waits for the end of its transaction.

        Raises:
            SurroundingsError: the broker offers no transactions, or cannot be asked.
        """
        try:
            self._producer.init_transactions(timeout_seconds)
        except KafkaException as cause:
            raise SurroundingsError(
                f"the broker did not start a transactional producer ({_text(cause)}): exactly-once delivery needs Kafka 2.5 or "
                "newer with transactions enabled (transaction.state.log.replication.factor not above the number of brokers), "
                "and the right to write and describe the transactional id"
            ) from cause

    def commit(
        self,
        messages: Iterable[Message],
        changelog_topic: str,
        rows: Mapping[int, Mapping[bytes, bytes | None]],
        input_topic: str,
        next_offsets: Mapping[int, int],
        membership: Membership,
        check_topics: Callable[[], None] = lambda: None,
    ) -> dict[int, int]:
        """Publish a micro-batch; return the last changelog offset by partition.

        `check_topics` is called when all rows are written and nothing is committed: what it raises ends the commit.

        Raises:
            Fenced: another process holds the transactional id now.
            Crash: anything else; whether the transaction was committed may be unknown.
        """
        started = time.monotonic()
        if membership.generation < 0 or not membership.member_id:
            raise Crash("a commit without a membership would not be checked by the broker")
        last_changelog_offsets: dict[int, int] = {}
        try:
            self._producer.begin_transaction()
            self._produce(messages, changelog_topic, rows, last_changelog_offsets)
            # Rows first: an accepted offset commit then implies that all rows are below the next owner's high watermark.
            if self._producer.flush(self._deadline_seconds):
                raise Crash("changelog rows and outputs were not written before the commit deadline")
            if self._refused is not None:
                raise KafkaException(self._refused)
            check_topics()  # the rows are in the log that was restored, and the records are from the log they count in
            self._producer.send_offsets_to_transaction(
                [TopicPartition(input_topic, p, offset) for p, offset in next_offsets.items()],
                group_metadata(self._group, membership),
                self._deadline_seconds,
            )
            self._producer.commit_transaction(self._deadline_seconds)
        except KafkaException as cause:
            raise self._failure(cause, time.monotonic() - started) from cause
        except SystemError as cause:
            raise self._failure(self._lost_error(), time.monotonic() - started) from cause
        return last_changelog_offsets

    def _produce(
        self,
        messages: Iterable[Message],
        changelog_topic: str,
        rows: Mapping[int, Mapping[bytes, bytes | None]],
        last_changelog_offsets: dict[int, int],
    ) -> None:
        def refused(error: KafkaError | None, _message: Any) -> None:
            if error is not None:
                self._refused = error

        def written(error: KafkaError | None, message: Any) -> None:
            if error is not None:
                self._refused = error
            else:
                partition, offset = message.partition(), message.offset()
                last_changelog_offsets[partition] = max(offset, last_changelog_offsets.get(partition, -1))

        for partition, changes in rows.items():
            for key, value in changes.items():
                self._enqueue(changelog_topic, value, key, partition, written)
        for message in messages:
            self._enqueue(
                message.topic, message.value, message.key, message.partition, refused, message.headers
            )

    def _enqueue(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        partition: int,
        on_delivery: Callable[[KafkaError | None, Any], None],
        headers: Sequence[tuple[str, bytes]] = (),
    ) -> None:
        give_up = time.monotonic() + self._deadline_seconds
        waited = False
        while True:
            try:
                self._producer.produce(
                    topic, value, key, partition, on_delivery=on_delivery, headers=list(headers)
                )
                return
            except BufferError:  # librdkafka's queue is full: let it drain
                if time.monotonic() > give_up:
                    raise Crash("the producer's queue did not drain before the commit deadline") from None
                if not waited:
                    waited = True
                    self._on_full()
                self._producer.poll(0.1)

    def _lost_error(self) -> KafkaException:
        """The fatal error that confluent-kafka's `flush` and `poll` lose: they return nothing and set no exception."""
        try:
            self._producer.abort_transaction(1)
        except KafkaException as found:
            return found
        return KafkaException(KafkaError(KafkaError._FAIL))

    def _failure(self, cause: KafkaException, elapsed_seconds: float) -> Crash | Fenced:
        error = cause.args[0]
        if error.code() in FENCED and elapsed_seconds < self._transaction_timeout_seconds:
            return Fenced(
                f"another worker has this instance id: the transactional id {self._transactional_id} was taken over "
                f"({_text(cause)}); give each worker its own COVERSUMM_INSTANCE_ID"
            )
        return Crash(
            f"the transaction of a micro-batch failed ({_text(cause)}); nothing of it is visible unless it committed"
        )


def _text(cause: KafkaException) -> str:
    error = cause.args[0]
    return f"{error.name()}: {error.str()}"
