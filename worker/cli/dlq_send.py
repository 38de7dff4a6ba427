"""Sends dead letters again, exactly once.

A transaction sends letters to the input topic, and commits which letters have been sent as offsets
of the group `APP_ID-dlq` on the dead letter topic. So after a kill both are there or neither, and
the next run sends the rest. Of two runs at once, the second fences the first by the transactional
id `APP_ID-dlq` *before* it reads the group's offsets, so that it knows what the first one sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from confluent_kafka import KafkaError, TopicPartition

from worker.cli.letters import (
    ALREADY_SENT,
    IMPOSSIBLE,
    SENT,
    DeadLetter,
    Impossible,
    LetterSelection,
    group_of,
    original,
)
from worker.cli.sent_letters import Sent, Tally, TooScattered, sent_so_far
from worker.errors import Crash, Fenced, SetupError
from worker.events import Record
from worker.kafka.clients import Clients, KafkaClients
from worker.kafka.errors import broker_errors
from worker.kafka.offsets import TIMEOUT_SECONDS
from worker.kafka.reader import TopicReader
from worker.kafka.transactions import Hung, TransactionError, Transactions, UnwrittenError
from worker.settings import Settings

TRANSACTION_LETTERS = 500
TRANSACTION_BYTES = 8 * 2**20
MAX_MESSAGE_BYTES = 10**9
"""librdkafka's upper bound: the letter was in the input topic before."""
Progress = Callable[[int, int], None]
"""Called with the number of offsets read, and of letters sent."""


class LetterOutcome(NamedTuple):
    """A letter's status: SENT, ALREADY_SENT (by an earlier run), or IMPOSSIBLE with a reason."""

    letter: DeadLetter
    status: str
    why: str | None = None


def resend(
    settings: Settings,
    letters: TopicReader,
    selection: LetterSelection,
    *,
    dry_run: bool = False,
    progress: Progress = lambda *_: None,
) -> Iterator[LetterOutcome]:
    """Send the selected letters; yield the outcome of each, SENT when its transaction is committed.

    With `dry_run` it sends, fences and commits nothing; SENT is what would be sent. Raises Fenced
    if another run starts. Raises SetupError for problems of topics or broker, or if the sent
    letters have too many ranges.
    """
    clients = KafkaClients(settings)
    with TopicReader(clients, settings.input_topic, group_of(settings)) as source:
        producer = None if dry_run else LetterProducer(settings, clients, letters)
        # the transaction of another run ends soon once it is fenced
        sent = sent_so_far(letters, wait=not dry_run)
        walked = total_sent = 0
        for partition in letters.partitions:
            walk = _Walk(letters, source, producer, Tally(sent[partition]), sent[partition])
            bounds, begun = letters.bounds(partition), walked
            for outcome in walk.along(partition, selection):
                total_sent += outcome.status == SENT
                progress(begun + outcome.letter.place.offset + 1 - bounds.start, total_sent)
                yield outcome
            walked += len(bounds)
            progress(walked, total_sent)


@dataclass
class _Walk:
    """Sends the letters of a partition in transactions."""

    letters: TopicReader
    source: TopicReader
    producer: LetterProducer | None
    tally: Tally
    before: Sent
    batch: list[tuple[DeadLetter, Record]] = field(default_factory=list)

    def along(self, partition: int, selection: LetterSelection) -> Iterator[LetterOutcome]:
        bounds, span = self.letters.bounds(partition), selection.span(partition)
        if span is None:
            span = bounds
        elif not span:
            return
        for stored in self.letters.read(
            partition, min(span.start, self.before.first_unsent), span.stop
        ):
            letter = DeadLetter.of(stored)
            already = letter.place.offset in self.before
            if letter not in selection or already:
                self.tally.passed(letter.place.offset, already)
                if already and letter in selection:
                    yield LetterOutcome(letter, ALREADY_SENT)
                continue
            try:
                record = original(letter, self.source)
            except Impossible as impossible:
                self.tally.passed(letter.place.offset, False)
                yield LetterOutcome(letter, IMPOSSIBLE, str(impossible))
                continue
            if self._full(record):
                yield from self._commit(partition)
            self.tally.passed(letter.place.offset, True)
            self.batch.append((letter, record))
        yield from self._commit(partition)

    def _full(self, one_more: Record) -> bool:
        size = sum(len(record.value or b"") for _, record in self.batch) + len(
            one_more.value or b""
        )
        return len(self.batch) >= TRANSACTION_LETTERS or (
            bool(self.batch) and size > TRANSACTION_BYTES
        )

    def _commit(self, partition: int) -> Iterator[LetterOutcome]:
        batch, self.batch = self.batch, []
        if batch and self.producer is not None:
            self.producer.commit([record for _, record in batch], self._sent(partition))
        yield from (LetterOutcome(letter, SENT) for letter, _ in batch)

    def _sent(self, partition: int) -> TopicPartition:
        """What was sent of the partition so far, as an offset to commit."""
        sent = self.tally.now()
        try:
            return TopicPartition(self.letters.topic, partition, sent.first_unsent, sent.metadata())
        except TooScattered as error:
            raise SetupError(
                f"the dead letters sent from partition {partition} would lie too scattered to be "
                f"remembered ({error}): first send those between, from "
                f"{partition}:{sent.first_unsent} on, or all (`coversumm-worker dlq send`)"
            ) from error


class LetterProducer:
    """The transactional producer of a run; it fences that of an earlier run."""

    def __init__(self, settings: Settings, clients: Clients, letters: TopicReader) -> None:
        self._topic = settings.input_topic
        self._id = group_of(settings)
        self._letters = letters
        self._transactions = Transactions(
            clients,
            self._id,
            timeout_ms=settings.transaction_timeout_ms,
            write_seconds=TIMEOUT_SECONDS,
            abort_seconds=TIMEOUT_SECONDS,  # readers need not wait for the broker's timeout
            options={"message.max.bytes": MAX_MESSAGE_BYTES},
        )
        with broker_errors(f"the broker did not start a transaction of {self._id}"):
            self._transactions.take_over(TIMEOUT_SECONDS)

    def commit(self, records: list[Record], sent: TopicPartition) -> None:
        """Send the records to their partitions, and commit `sent`, in one transaction.

        Raises Fenced, SetupError, or Crash; the next run knows whether it was committed.
        """
        try:
            with self._transactions.transaction(TIMEOUT_SECONDS) as transaction:
                transaction.produce(
                    (self._topic, r.partition, r.key, r.value, r.headers) for r in records
                )
                transaction.commit([sent], self._letters.group_metadata)
        except (UnwrittenError, Hung):
            raise Crash(
                f"timeout for dead letters of partition {sent.partition}: run `dlq send` again"
            ) from None
        except TransactionError as cause:
            raise self._failure(cause) from cause

    def _failure(self, cause: TransactionError) -> Crash | Fenced | SetupError:
        if cause.fenced:
            return Fenced(
                f"another `dlq send` of {self._id} has started and sends the rest; "
                "no letter is sent twice"
            )
        if cause.error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
            return SetupError(
                f"{self._topic} rejects a message that it once took ({cause.error.str()}): raise "
                "its max.message.bytes; nothing of this transaction was sent"
            )
        return Crash(f"sending dead letters failed ({cause}); run it again")
