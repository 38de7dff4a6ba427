"""Dead letters sent again, exactly once: `dlq send`.

One transaction carries some letters to the input topic and, as offsets of the group `APP_ID-dlq` on the dead letter topic,
which letters have been sent by now (`worker.operations.sent`). So after a kill at any moment both are there or neither, and the
next run goes on with the rest. Two runs at once: the transactional id `APP_ID-dlq` is taken over *before* the group's offsets are
read, so the older run is refused by the broker, and what it sent is known to the younger.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from confluent_kafka import KafkaError, TopicPartition

from worker.errors import Crash, Fenced, SurroundingsError
from worker.events import Record
from worker.kafka.bounded import Hung
from worker.kafka.clients import Clients, KafkaClients
from worker.kafka.reach import reached
from worker.kafka.reader import TIMEOUT_SECONDS, TopicReader, broker_errors
from worker.kafka.transaction import TransactionError, Transactions, UnwrittenError
from worker.operations.dead_letters import DeadLetter, Selection
from worker.operations.originals import Impossible, original
from worker.operations.sent import Sent, Tally, TooScattered, UnknownMetadata
from worker.settings import Settings

TRANSACTION_LETTERS = 500
TRANSACTION_BYTES = 8 * 2**20
MAX_MESSAGE_BYTES = 10**9  # librdkafka's own limit: what was in the input topic before fits into it again

SENT, ALREADY_SENT, IMPOSSIBLE = "sent", "already sent", "impossible"

# progress(offsets walked over, letters sent)
Progress = Callable[[int, int], None]


class LetterOutcome(NamedTuple):
    """What became of a letter: SENT, ALREADY_SENT (by an earlier run) or IMPOSSIBLE, and then why."""

    letter: DeadLetter
    status: str
    why: str | None = None


def group_of(settings: Settings) -> str:
    """The group that remembers what was sent, and the transactional id of the one run that may send."""
    return f"{settings.app_id}-dlq"


def open_letters(settings: Settings) -> TopicReader:
    """A reader of the dead letter topic, in the group that remembers what was sent."""
    return TopicReader(reached(settings, KafkaClients(settings)), settings.dlq_topic, group_of(settings))


def sent_so_far(letters: TopicReader, *, wait: bool = True) -> dict[int, Sent]:
    """By partition, all of the topic: what runs so far have sent. Without `wait` what a run is just sending does not count."""
    try:
        committed = {
            p: Sent.parse(offset, text) for p, (offset, text) in letters.committed(wait=wait).items()
        }
    except UnknownMetadata as error:
        raise SurroundingsError(
            f"the offsets that remember which dead letters of {letters.topic} were sent are not readable ({error}): another "
            "version of the worker wrote them; use that version"
        ) from error
    return {partition: committed.get(partition, Sent()) for partition in letters.partitions}


def resend(
    settings: Settings,
    letters: TopicReader,
    selection: Selection,
    *,
    dry_run: bool = False,
    progress: Progress = lambda *_: None,
) -> Iterator[LetterOutcome]:
    """Send the selected letters; yield the outcome of each as soon as it is decided: SENT when its transaction is committed.

    With `dry_run` nothing is sent, taken over or committed; SENT is what would be.

    Raises:
        Fenced: another run began meanwhile; it goes on with what is left.
        SurroundingsError: topics or broker are not as they must be, or the letters sent lie too scattered.
    """
    clients = KafkaClients(settings)
    with TopicReader(clients, settings.input_topic, group_of(settings)) as source:
        producer = None if dry_run else LetterProducer(settings, clients, letters)
        sent = sent_so_far(
            letters, wait=not dry_run
        )  # a run under way is waited for only once it is taken over
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
    """Over the letters of one partition, in transactions."""

    letters: TopicReader
    source: TopicReader
    producer: LetterProducer | None
    tally: Tally
    before: Sent
    batch: list[tuple[DeadLetter, Record]] = field(default_factory=list)

    def along(self, partition: int, selection: Selection) -> Iterator[LetterOutcome]:
        bounds, span = self.letters.bounds(partition), selection.span(partition)
        if span is None:
            span = bounds
        elif not span:
            return
        for stored in self.letters.read(partition, min(span.start, self.before.first_unsent), span.stop):
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
        size = sum(len(record.value or b"") for _, record in self.batch) + len(one_more.value or b"")
        return len(self.batch) >= TRANSACTION_LETTERS or (bool(self.batch) and size > TRANSACTION_BYTES)

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
            raise SurroundingsError(
                f"the dead letters sent from partition {partition} would lie too scattered to be remembered ({error}): first "
                f"send those between, from {partition}:{sent.first_unsent} on, or all (`coversumm-worker dlq send`)"
            ) from error


class LetterProducer:
    """The one producer that may send letters again: transactional, and it fences the one before it."""

    def __init__(self, settings: Settings, clients: Clients, letters: TopicReader) -> None:
        self._topic = settings.input_topic
        self._id = group_of(settings)
        self._letters = letters
        self._transactions = Transactions(
            clients,
            self._id,
            timeout_ms=settings.transaction_timeout_ms,
            write_seconds=TIMEOUT_SECONDS,
            abort_seconds=TIMEOUT_SECONDS,  # readers of the input topic need not wait for the broker's timeout
            options={"message.max.bytes": MAX_MESSAGE_BYTES},
        )
        with broker_errors(f"the broker did not start a transaction of {self._id}"):
            self._transactions.take_over(TIMEOUT_SECONDS)

    def commit(self, records: list[Record], sent: TopicPartition) -> None:
        """Send the records to where they came from, and commit `sent`, in one transaction.

        Raises Fenced, and Crash where it failed in any other way: then the next run knows whether it was committed.
        """
        try:
            with self._transactions.transaction(TIMEOUT_SECONDS) as transaction:
                transaction.produce((self._topic, r.partition, r.key, r.value, ()) for r in records)
                transaction.commit([sent], self._letters.group_metadata)
        except (UnwrittenError, Hung):
            raise Crash(
                f"the broker took too long for dead letters of partition {sent.partition}; send again"
            ) from None
        except TransactionError as cause:
            raise self._failure(cause) from cause

    def _failure(self, cause: TransactionError) -> Crash | Fenced | SurroundingsError:
        if cause.fenced:
            return Fenced(
                f"another `dlq send` of {self._id} began meanwhile and goes on with what is left: nothing is sent twice"
            )
        if cause.error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
            return SurroundingsError(
                f"{self._topic} does not take a message as large as it once did ({cause.error.str()}): raise its "
                "max.message.bytes; nothing of this transaction was sent"
            )
        return Crash(f"sending dead letters failed ({cause}); run it again")
