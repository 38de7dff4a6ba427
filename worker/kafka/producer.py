"""One Kafka transaction per micro-batch: summary changes, dead letters, changelog rows and source
offsets, all or nothing.

The broker refuses offsets under a stale generation, so a worker that was paused past its session
can publish nothing (a zombie). A commit that fails, or is not answered, is in doubt: it is never
sent again. `decide` has it decided under the same transactional id; then what is committed says
whether it happened (`worker.stream.settlement`).
"""

import time
from collections.abc import Callable, Iterable, Mapping

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from worker.clock import Clock
from worker.errors import Crash, Fenced, InDoubt, Overtaken, SetupError, Unanswered
from worker.events import Message
from worker.kafka.clients import Clients
from worker.kafka.errors import unanswered
from worker.kafka.group import Membership, group_metadata
from worker.kafka.transaction import (
    SOCKET_TIMEOUT_MS,
    Hung,
    TransactionError,
    Transactions,
    UnwrittenError,
    Within,
    within,
)
from worker.settings import Settings

START_SECONDS = 20.0
"""For taking over the transactional id."""
DECISION_SECONDS = 5.0
"""For the first answer to the client that decides; then it has the time of any renewal."""
ANSWER_SECONDS = 2.0
"""For a coordinator's answer to one of the two small steps of a commit, which it usually gives in
milliseconds. Whoever does not get it asks anew over new connections; each time this was not enough
it is doubled, up to COVERSUMM_COMMIT_TIMEOUT_MS.
"""
ANSWERS = 3
"""So many times what the last answer took is waited for at least."""
OVERTAKEN = frozenset(
    {KafkaError.ILLEGAL_GENERATION, KafkaError.UNKNOWN_MEMBER_ID, KafkaError.REBALANCE_IN_PROGRESS}
)
"""What the group's coordinator answers to a membership that is over, or about to be."""
FENCED_AGAIN = 5
"""So often in a row is no broker that gave up on a transaction, nor a call of a client before that
came late.
"""
REFUSALS = frozenset(
    {
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.RECORD_LIST_TOO_LARGE,
        KafkaError.INVALID_RECORD,
        KafkaError.INVALID_MSG_SIZE,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        KafkaError.UNSUPPORTED_VERSION,
        KafkaError.POLICY_VIOLATION,
    }
)
"""What stays refused however often it is sent: the process ends, and its last line says what to
mend.
"""


class TransactionalProducer:
    """Commits a worker's micro-batches, one transaction each.

    Args:
        settings: the worker's; its transactional id is stable over restarts and unique among
            running workers.
        clients: make the producer.
        on_full: called when a commit waits because as many records or bytes as may be are on their
            way.
        clock: measures how long a transaction takes.
        bounded: runs calls that may hang.
    """

    def __init__(
        self,
        settings: Settings,
        clients: Clients,
        on_full: Callable[[], None] = lambda: None,
        clock: Clock = time,
        bounded: Within = within,
    ) -> None:
        self._group = settings.app_id
        self._instance_id = settings.instance_id
        self._patience = Patience(settings.commit_timeout_ms / 1000)
        self._fenced_in_a_row = 0
        self._timeout_seconds = settings.transaction_timeout_ms / 1000
        self._clock = clock
        self._transactions = Transactions(
            clients,
            settings.transactional_id,
            timeout_ms=settings.transaction_timeout_ms,
            write_seconds=settings.commit_timeout_ms / 1000,
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
            bounded=bounded,
        )

    def start(self, timeout_seconds: float = START_SECONDS) -> None:
        """Take over the transactional id: fences its last holder and waits for the end of its
        transaction.

        Raises:
            SetupError: the broker offers no transactions, or cannot be asked.
        """
        try:
            self._transactions.take_over(timeout_seconds)
        except KafkaException as cause:
            error = cause.args[0]
            raise SetupError(
                f"the broker did not start a transactional producer ({error.name()}: {error.str()}): exactly-once delivery needs "
                "Kafka 2.5 or newer with transactions enabled (transaction.state.log.replication.factor not above the number of "
                "brokers), and the right to write and describe the transactional id"
            ) from cause

    def ask(self, topic: str, timeout_seconds: float) -> None:
        """Ask any broker for a topic over this producer's own connections. Raises KafkaException
        where none answers.
        """
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
        check: Callable[[Mapping[int, int]], None] = lambda last_offsets: None,
        notes: Mapping[int, str] = {},
    ) -> dict[int, int]:
        """Publish a micro-batch; return the last changelog offset by partition.

        `notes` are committed beside the offsets: whoever goes on from an offset is given its note
        (`Start.note`). `check` is called with the last changelog offsets when all rows are written
        and nothing is committed: then the rows are in the log that was restored, and the records
        were read from the log they count in. What it raises ends the commit.

        Raises:
            Overtaken: the group does not know the membership any more; nothing was committed.
            InDoubt: it failed, or no answer came; whether it was committed is for `decide` to find
            out. Fenced: the group gave the membership to another process with this instance id.
            Crash: it is refused, and would be again.
        """
        if membership.generation < 0 or not membership.member_id:
            raise Crash("a commit without a membership would not be checked by the broker")
        last_changelog_offsets: dict[int, int] = {}
        began = self._clock.monotonic()
        offsets = [
            _noted(input_topic, p, offset, notes.get(p)) for p, offset in next_offsets.items()
        ]
        try:
            with self._transactions.transaction(self._patience.seconds) as transaction:
                for partition, changed in rows.items():
                    if changed:
                        transaction.produce_rows(
                            changelog_topic, partition, changed, last_changelog_offsets
                        )
                transaction.produce(messages)
                transaction.commit(
                    offsets,
                    group_metadata(self._group, membership),
                    lambda: check(last_changelog_offsets),
                )
        except UnwrittenError:
            raise InDoubt(
                "not all rows and messages were written before the commit deadline"
            ) from None
        except (Hung, Unanswered) as cause:
            raise InDoubt(str(cause)) from cause
        except TransactionError as cause:
            raise self._failure(cause, self._clock.monotonic() - began) from cause
        self._patience.answered(transaction.answered_seconds)
        self._fenced_in_a_row = 0
        return last_changelog_offsets

    def decide(self) -> None:
        """Have the transaction of a commit in doubt decided: when this returns it is committed, or
        it never will be.

        It may have been another process with this instance id that fenced this one. Then that one
        is fenced in turn; which of the two has to go is for the group to say, where an instance id
        has one member.

        Raises Unanswered where brokers do not tell yet, and Crash where they refuse to.
        """
        self._patience.was_short()
        try:
            self._transactions.decide(DECISION_SECONDS)
        except Hung as cause:
            raise Unanswered(str(cause)) from cause
        except KafkaException as cause:
            error = cause.args[0]
            if error.code() in REFUSALS:
                raise Crash(
                    f"a commit in doubt cannot be decided ({error.name()}: {error.str()})"
                ) from cause
            raise unanswered(
                f"{self._transactions.transactional_id} is not taken over", error
            ) from cause

    def decide_open(self) -> None:
        """The same, where a transaction was left open. Raises Unanswered, Crash."""
        if self._transactions.is_open:
            self.decide()

    def _failure(self, cause: TransactionError, seconds: float) -> Crash | Fenced:
        """What a transaction failed of, so many seconds after its begin."""
        code = cause.error.code()
        if code == KafkaError.FENCED_INSTANCE_ID:
            return self._fenced(str(cause))
        if code in OVERTAKEN:
            return Overtaken(str(cause))
        # After its timeout the coordinator aborts a transaction, and answers as if another client
        # had taken over the id.
        is_others = cause.fenced and seconds < self._timeout_seconds
        self._fenced_in_a_row = self._fenced_in_a_row + 1 if is_others else 0
        if self._fenced_in_a_row == FENCED_AGAIN:
            return self._fenced(
                f"{self._transactions.transactional_id} is taken over again and again"
            )
        if code in REFUSALS:
            return Crash(
                f"the transaction of a micro-batch is refused ({cause}); nothing of it is visible"
            )
        return InDoubt(str(cause))

    def _fenced(self, why: str) -> Fenced:
        return Fenced(
            f"another worker has the instance id {self._instance_id} ({why}); give each worker its own COVERSUMM_INSTANCE_ID"
        )


def write_seconds(settings: Settings) -> float:
    """Seconds within which a transaction has to be written: its timeout, or where that is long what
    its requests may take.
    """
    return min(settings.transaction_timeout_ms, 2 * SOCKET_TIMEOUT_MS) / 1000


class Patience:
    """How long a coordinator's answer is waited for: longer where the last one took long, or did
    not come.
    """

    def __init__(self, most_seconds: float) -> None:
        self._most_seconds = most_seconds
        self.seconds = min(ANSWER_SECONDS, most_seconds)

    def answered(self, seconds: float) -> None:
        """An answer came in so long. On a cluster that is always slow, what was enough once stays
        enough.
        """
        self.seconds = min(max(ANSWER_SECONDS, ANSWERS * seconds), self._most_seconds)

    def was_short(self) -> None:
        """It may have been too short."""
        self.seconds = min(2 * self.seconds, self._most_seconds)


def _noted(topic: str, partition: int, offset: int, note: str | None) -> TopicPartition:
    """An offset to commit. Without a note it has no metadata at all, as the offsets of a worker
    never had.
    """
    if note is None:
        return TopicPartition(topic, partition, offset)
    return TopicPartition(topic, partition, offset, metadata=note)
