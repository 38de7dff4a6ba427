"""Commits a micro-batch in one Kafka transaction, all or nothing.

It contains summary changes, dead letters, changelog rows and source offsets. The broker refuses
offsets under a stale generation, so a worker that was paused past its session (a zombie) publishes
nothing. A commit that fails or gets no answer is in doubt and never sent again: `decide` has it
decided under the same transactional id, and then the committed offsets show whether it happened
(`worker.stream.settlement`).
"""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from worker.clock import Clock
from worker.errors import Crash, Fenced, InDoubt, Overtaken, SetupError, Unanswered
from worker.events import Message
from worker.kafka.clients import Clients, OnError
from worker.kafka.errors import OVERTAKEN, REFUSED, unanswered
from worker.kafka.group import Membership, group_metadata
from worker.kafka.transactions import (
    SOCKET_TIMEOUT_MS,
    Hung,
    TransactionError,
    Transactions,
    UnwrittenError,
    Within,
    within,
)
from worker.settings import Settings

START_SECONDS = 20.0  # seconds to take over the transactional id at the start
DECISION_SECONDS = 5.0  # for the first answer to the client that decides
ANSWER_SECONDS = 2.0
"""Seconds for a coordinator's answer to each of the two small steps of a commit.

Usually it takes milliseconds. Without an answer the worker asks again over new connections, and the
limit doubles, up to COVERSUMM_COMMIT_TIMEOUT_MS.
"""
ANSWERS = 3  # the wait for an answer is at least this many times the last answer's time
FENCED_AGAIN = 5
"""Fenced commits in a row that prove another worker.

Neither a broker that gave up on a transaction nor a late call of an old client causes so many.
"""


@dataclass(eq=False)
class TransactionalProducer:
    """Commits a worker's micro-batches, one transaction each.

    Its transactional id is stable over restarts and unique among running workers.
    """

    settings: Settings
    clients: Clients
    on_full: Callable[[], None] = lambda: None  # called when a commit waits for room in the queue
    clock: Clock = time
    bounded: Within = within  # runs calls that may hang
    on_error: OnError | None = None

    def __post_init__(self) -> None:
        self._patience = Patience(self.settings.commit_timeout_ms / 1000)
        self._fenced_in_a_row = 0
        self._timeout_seconds = self.settings.transaction_timeout_ms / 1000
        self._transactions = Transactions(
            self.clients,
            self.settings.transactional_id,
            timeout_ms=self.settings.transaction_timeout_ms,
            write_seconds=self.settings.commit_timeout_ms / 1000,
            abort_seconds=None,
            options={
                "partitioner": "murmur2_random",  # Kafka's default, but not librdkafka's
                "linger.ms": 1,  # a batch is queued at once and flushed: more only adds latency
                "queue.buffering.max.messages": self.settings.in_flight_messages,
                "queue.buffering.max.kbytes": self.settings.in_flight_bytes // 1024,
                "message.max.bytes": self.settings.max_message_bytes,
                **({} if self.on_error is None else {"error_cb": self.on_error}),
            },
            on_full=self.on_full,
            clock=self.clock,
            bounded=self.bounded,
        )

    def start(self, timeout_seconds: float = START_SECONDS) -> None:
        """Take over the transactional id: fences its last holder and waits for its transaction.

        Raises SetupError if the broker offers no transactions, or does not answer.
        """
        try:
            self._transactions.take_over(timeout_seconds)
        except KafkaException as cause:
            error = cause.args[0]
            raise SetupError(
                f"the broker did not start a transactional producer ({error.name()}: "
                f"{error.str()}): exactly-once delivery needs Kafka 2.5 or newer with transactions "
                "enabled (transaction.state.log.replication.factor not above the number of "
                "brokers), and the right to write and describe the transactional id"
            ) from cause

    def ask(self, topic: str, timeout_seconds: float) -> None:
        """Ask any broker for a topic, from any thread. Raises KafkaException and Hung."""
        self._transactions.ask(topic, timeout_seconds)

    def suspect(self) -> None:
        """Use new connections from the next request on, after a long silence of the brokers."""
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

        `notes` are committed beside the offsets; a resume returns them as `Start.note`. `check` is
        called with the last changelog offsets after all rows are written and before anything is
        committed: if the topics are still the same then, the rows are in the log that was restored,
        and the records came from the log that the offsets count. Its exception ends the commit.

        Raises:
            Overtaken: the group no longer accepts the membership; nothing was committed.
            InDoubt: it failed, or got no answer; `decide` decides whether it was committed.
            Fenced: the group gave the membership to another process with this instance id.
            Crash: it is refused, and would be again.
        """
        if membership.generation < 0 or not membership.member_id:
            raise Crash("a commit without a membership would not be checked by the broker")
        last_changelog_offsets: dict[int, int] = {}
        began = self.clock.monotonic()
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
                    group_metadata(self.settings.app_id, membership),
                    lambda: check(last_changelog_offsets),
                )
        except UnwrittenError:
            raise InDoubt(
                "not all rows and messages were written before the commit deadline"
            ) from None
        except (Hung, Unanswered) as cause:
            raise InDoubt(str(cause)) from cause
        except TransactionError as cause:
            raise self._failure(cause, self.clock.monotonic() - began) from cause
        self._patience.answered(transaction.answered_seconds)
        self._fenced_in_a_row = 0
        return last_changelog_offsets

    def decide(self) -> None:
        """Decide the commit in doubt: after this it is committed, or never will be.

        If another process with this instance id had fenced this one, that process is fenced in
        turn. The group, in which an instance id has one member, decides which of them must end.

        Raises Unanswered if brokers do not answer yet, and Crash if they refuse.
        """
        self._patience.was_short()
        try:
            self._transactions.decide(DECISION_SECONDS)
        except Hung as cause:
            raise Unanswered(str(cause)) from cause
        except KafkaException as cause:
            error = cause.args[0]
            if error.code() in REFUSED:
                raise Crash(
                    f"a commit in doubt cannot be decided ({error.name()}: {error.str()})"
                ) from cause
            raise unanswered(
                f"{self._transactions.transactional_id} is not taken over", error
            ) from cause

    def decide_open(self) -> None:
        """`decide`, if a transaction was left open."""
        if self._transactions.is_open:
            self.decide()

    def _failure(self, cause: TransactionError, seconds: float) -> Crash | Fenced:
        """The worker's error for a transaction that failed `seconds` after its begin."""
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
        if code in REFUSED:
            return Crash(
                f"the transaction of a micro-batch is refused ({cause}); nothing of it is visible"
            )
        return InDoubt(str(cause))

    def _fenced(self, why: str) -> Fenced:
        return Fenced(
            f"another worker has the instance id {self.settings.instance_id} ({why}); give each "
            "worker its own COVERSUMM_INSTANCE_ID"
        )


def write_seconds(settings: Settings) -> float:
    """Seconds to write a transaction: its timeout, but at most what its requests may take."""
    return min(settings.transaction_timeout_ms, 2 * SOCKET_TIMEOUT_MS) / 1000


class Patience:
    """Seconds to wait for a coordinator's answer: more after a slow answer, or none."""

    def __init__(self, most_seconds: float) -> None:
        self._most_seconds = most_seconds
        self.seconds = min(ANSWER_SECONDS, most_seconds)

    def answered(self, seconds: float) -> None:
        """An answer took `seconds`. On a cluster that is always slow, the wait stays long."""
        self.seconds = min(max(ANSWER_SECONDS, ANSWERS * seconds), self._most_seconds)

    def was_short(self) -> None:
        """The wait may have been too short."""
        self.seconds = min(2 * self.seconds, self._most_seconds)


def _noted(topic: str, partition: int, offset: int, note: str | None) -> TopicPartition:
    """An offset to commit; without a note it has no metadata at all."""
    if note is None:
        return TopicPartition(topic, partition, offset)
    return TopicPartition(topic, partition, offset, metadata=note)
