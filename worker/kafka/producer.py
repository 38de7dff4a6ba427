"""One Kafka transaction per micro-batch: summary changes, dead letters, changelog rows and source offsets, all or nothing.

The broker refuses offsets under a stale generation, so a worker that was paused past its session can publish nothing (a zombie).
Every failure ends the process (`worker.stream.fatal`): an aborted or doubtful transaction is never retried inside.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping

from confluent_kafka import KafkaException, TopicPartition

from worker.clock import Clock
from worker.errors import Crash, Fenced, SurroundingsError
from worker.events import Message
from worker.kafka.clients import Clients
from worker.kafka.membership import Membership, group_metadata
from worker.kafka.transaction import Outgoing, TransactionError, Transactions, UnwrittenError
from worker.settings import Settings

START_SECONDS = 20.0
"""For taking over the transactional id."""


class TransactionalProducer:
    """Commits a worker's micro-batches, one transaction each.

    Args:
        settings: the worker's; its transactional id is stable over restarts and unique among running workers.
        clients: make the producer.
        on_full: called when a commit waits because as many records or bytes as may be are on their way.
        clock: measures how long a transaction takes.
    """

    def __init__(
        self,
        settings: Settings,
        clients: Clients,
        on_full: Callable[[], None] = lambda: None,
        clock: Clock = time,
    ) -> None:
        self._group = settings.app_id
        self._timeout_seconds = settings.transaction_timeout_ms / 1000
        self._transactions = Transactions(
            clients,
            settings.transactional_id,
            timeout_ms=settings.transaction_timeout_ms,
            deadline_seconds=settings.commit_timeout_ms / 1000,
            abort_seconds=None,
            options={
                "partitioner": "murmur2_random",  # as every Kafka client but librdkafka's default
                "linger.ms": 1,  # a batch is produced at once and flushed: waiting longer only adds latency
                "queue.buffering.max.messages": settings.in_flight_messages,
                "queue.buffering.max.kbytes": settings.in_flight_bytes // 1024,
                "message.max.bytes": settings.max_message_bytes,
            },
            on_full=on_full,
            clock=clock,
        )

    def start(self, timeout_seconds: float = START_SECONDS) -> None:
        """Take over the transactional id: fences its last holder and waits for the end of its transaction.

        Raises:
            SurroundingsError: the broker offers no transactions, or cannot be asked.
        """
        try:
            self._transactions.take_over(timeout_seconds)
        except KafkaException as cause:
            error = cause.args[0]
            raise SurroundingsError(
                f"the broker did not start a transactional producer ({error.name()}: {error.str()}): exactly-once delivery needs "
                "Kafka 2.5 or newer with transactions enabled (transaction.state.log.replication.factor not above the number of "
                "brokers), and the right to write and describe the transactional id"
            ) from cause

    def ask(self, topic: str, timeout_seconds: float) -> None:
        """Ask any broker for a topic over this producer's own connections. Raises KafkaException where none answers."""
        self._transactions.ask(topic, timeout_seconds)

    def suspect(self) -> None:
        """It has heard of no broker for long: what comes next goes over new connections."""
        self._transactions.suspect()

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

        `check_topics` is called when all rows are written and nothing is committed: then the rows are in the log that was
        restored, and the records were read from the log they count in. What it raises ends the commit.

        Raises:
            Fenced: another process holds the transactional id now.
            Crash: anything else; whether the transaction was committed may be unknown.
        """
        if membership.generation < 0 or not membership.member_id:
            raise Crash("a commit without a membership would not be checked by the broker")
        last_changelog_offsets: dict[int, int] = {}
        offsets = [TopicPartition(input_topic, p, offset) for p, offset in next_offsets.items()]
        try:
            with self._transactions.transaction():
                self._transactions.produce(_changelog_records(changelog_topic, rows), last_changelog_offsets)
                self._transactions.produce(messages)
                self._transactions.commit(offsets, group_metadata(self._group, membership), check_topics)
        except UnwrittenError:
            raise Crash("changelog rows and outputs were not written before the commit deadline") from None
        except TransactionError as cause:
            raise self._failure(cause) from cause
        return last_changelog_offsets

    def _failure(self, cause: TransactionError) -> Crash | Fenced:
        # After the timeout the broker itself gave up on the transaction: no other worker has the id, and a restart puts it right.
        if cause.fenced and cause.seconds < self._timeout_seconds:
            return Fenced(
                f"another worker has this instance id: the transactional id {self._transactions.transactional_id} was taken over "
                f"({cause}); give each worker its own COVERSUMM_INSTANCE_ID"
            )
        return Crash(
            f"the transaction of a micro-batch failed ({cause}); nothing of it is visible unless it committed"
        )


def _changelog_records(topic: str, rows: Mapping[int, Mapping[bytes, bytes | None]]) -> Iterator[Outgoing]:
    for partition, changes in rows.items():
        for key, value in changes.items():
            yield topic, partition, key, value, ()
