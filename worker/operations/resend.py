"""Dead letters sent again, exactly once: `dlq send`.

One transaction carries some letters to the input topic and, as offsets of the group `APP_ID-dlq` on the dead letter topic,
which letters have been sent by now (`worker.operations.sent`). So after a kill at any moment both are there or neither, and the
next run goes on with the rest. Two runs at once: the transactional id `APP_ID-dlq` is taken over *before* the group's offsets are
read, so the older run is refused by the broker, and what it sent is known to the younger.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, NamedTuple, Self

from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition

from worker.errors import Crash, Fenced, SurroundingsError
from worker.events import Record
from worker.kafka.reader import TIMEOUT_SECONDS, TopicReader, broker_errors, client_config
from worker.kafka.retry import FENCED
from worker.operations.dead_letters import DeadLetter, NotTheOriginal, Selection, Source
from worker.operations.sent import Sent, Tally, TooScattered, UnknownMetadata
from worker.settings import Settings

TRANSACTION_LETTERS = 500
TRANSACTION_BYTES = 8 * 2**20
MAX_MESSAGE_BYTES = 10**9  # librdkafka's own limit: what was in the input topic before fits into it again

SENT, ALREADY_SENT, IMPOSSIBLE = "sent", "already sent", "impossible"

# told(offsets walked over, letters sent)
Progress = Callable[[int, int], None]


class Outcome(NamedTuple):
    """What became of a letter: SENT, ALREADY_SENT (by an earlier run) or IMPOSSIBLE, and then why."""

    letter: DeadLetter
    status: str
    why: str | None = None


class Impossible(Exception):
    """This letter cannot be sent; the message says why."""


def group_of(settings: Settings) -> str:
    """The group that remembers what was sent, and the transactional id of the one run that may send."""
    return f"{settings.app_id}-dlq"


def open_letters(settings: Settings) -> TopicReader:
    """A reader of the dead letter topic, in the group that remembers what was sent."""
    return TopicReader(settings, settings.dlq_topic, group_of(settings))


def sent_so_far(letters: TopicReader) -> dict[int, Sent]:
    """By partition, all of the topic: what runs so far have sent."""
    try:
        committed = {p: Sent.parse(offset, text) for p, (offset, text) in letters.committed().items()}
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
) -> Iterator[Outcome]:
    """Send the selected of the letters, and tell of each when it is decided: SENT when its transaction is committed.

    With `dry_run` nothing is sent, taken over or committed; SENT is what would be.

    Raises:
        Fenced: another run began meanwhile; it goes on with what is left.
        SurroundingsError: topics or broker are not as they must be, or the letters sent lie too scattered.
    """
    with (
        Originals(settings) as originals,
        _sender(settings, letters, dry_run) as sender,
    ):
        sent = sent_so_far(letters)
        walked = total_sent = 0
        for partition in letters.partitions:
            walk = _Walk(letters, originals, sender, Tally(sent[partition]), sent[partition])
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
    originals: Originals
    sender: Sender | None
    tally: Tally
    before: Sent
    batch: list[tuple[DeadLetter, Record]] = field(default_factory=list)

    def along(self, partition: int, selection: Selection) -> Iterator[Outcome]:
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
                    yield Outcome(letter, ALREADY_SENT)
                continue
            try:
                original = self.originals.of(letter)
            except Impossible as impossible:
                self.tally.passed(letter.place.offset, False)
                yield Outcome(letter, IMPOSSIBLE, str(impossible))
                continue
            if self._full(original):
                yield from self._commit(partition)
            self.tally.passed(letter.place.offset, True)
            self.batch.append((letter, original))
        yield from self._commit(partition)

    def _full(self, one_more: Record) -> bool:
        size = sum(len(record.value or b"") for _, record in self.batch) + len(one_more.value or b"")
        return len(self.batch) >= TRANSACTION_LETTERS or (bool(self.batch) and size > TRANSACTION_BYTES)

    def _commit(self, partition: int) -> Iterator[Outcome]:
        batch, self.batch = self.batch, []
        if batch and self.sender is not None:
            self.sender.commit([record for _, record in batch], partition, self._state(partition))
        yield from (Outcome(letter, SENT) for letter, _ in batch)

    def _state(self, partition: int) -> TopicPartition:
        sent = self.tally.now()
        try:
            return TopicPartition(self.letters.topic, partition, sent.first_unsent, sent.metadata())
        except TooScattered as error:
            raise SurroundingsError(
                f"the dead letters sent from partition {partition} would lie too scattered to be remembered ({error}): first "
                f"send those between, from {partition}:{sent.first_unsent} on, or all (`coversumm-worker dlq send`)"
            ) from error


class Originals:
    """The records that dead letters were made of: from the letters themselves, or from their source where they are cut."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._source: TopicReader | None = None

    def __enter__(self) -> Self:
        self._source = TopicReader(self._settings, self._settings.input_topic, group_of(self._settings))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._source is not None
        self._source.__exit__(kind, error, trace)

    def of(self, letter: DeadLetter) -> Record:
        """Key and value to send, with where to. Raises Impossible."""
        assert self._source is not None
        source, wanted = letter.source, self._settings.input_topic
        if source is None:
            raise Impossible("its headers do not say where it came from")
        if source.topic != wanted:
            raise Impossible(
                f"it came from {source.topic}, the input topic is {wanted} (COVERSUMM_INPUT_TOPIC)"
            )
        if source.partition not in self._source.partitions:
            raise Impossible(f"{wanted} has no partition {source.partition}")
        if not letter.truncated:
            return Record(*source, letter.timestamp_ms, letter.key, letter.value)
        return self._read(source, letter)

    def _read(self, source: Source, letter: DeadLetter) -> Record:
        assert self._source is not None
        found = next(iter(self._source.read(source.partition, source.offset, source.offset + 1)), None)
        if found is None or found.record.offset != source.offset:
            raise Impossible(f"it is cut, and its original at {source} is gone")
        try:
            letter.check_original(found.record)
        except NotTheOriginal as error:
            raise Impossible(f"it is cut, and {error} ({source}): the topic was made anew") from error
        return found.record


class Sender:
    """The one producer that may send letters again: transactional, and it fences the one before it. A context manager."""

    def __init__(self, settings: Settings, letters: TopicReader) -> None:
        self._topic = settings.input_topic
        self._id = group_of(settings)
        self._letters = letters
        self._refused: KafkaError | None = None
        self._producer = Producer(
            {
                **client_config(settings),
                "transactional.id": self._id,
                "transaction.timeout.ms": settings.transaction_timeout_ms,
                "compression.type": "lz4",
                "message.max.bytes": MAX_MESSAGE_BYTES,
            }
        )
        with broker_errors(f"the broker did not start a transaction of {self._id}"):
            self._producer.init_transactions(TIMEOUT_SECONDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:  # readers of the input topic need not wait for the broker's timeout
            with suppress(KafkaException):
                self._producer.abort_transaction(TIMEOUT_SECONDS)

    def commit(self, records: list[Record], partition: int, state: TopicPartition) -> None:
        """Send the records to where they came from, and commit `state`, in one transaction.

        Raises Fenced, and Crash where it failed in any other way: then the next run knows whether it was committed.
        """
        try:
            self._producer.begin_transaction()
            for record in records:
                self._producer.produce(
                    self._topic, record.value, record.key, record.partition, on_delivery=self._on_delivery
                )
            if self._producer.flush(TIMEOUT_SECONDS):
                raise Crash(f"the broker took too long for dead letters of partition {partition}; send again")
            if self._refused is not None:
                raise KafkaException(self._refused)
            metadata = self._letters.consumer.consumer_group_metadata()
            self._producer.send_offsets_to_transaction([state], metadata, TIMEOUT_SECONDS)
            self._producer.commit_transaction(TIMEOUT_SECONDS)
        except KafkaException as cause:
            raise self._failure(self._root(cause.args[0])) from cause
        except SystemError as cause:  # confluent-kafka's `flush` loses a fatal error: it sets no exception
            raise self._failure(self._root(KafkaError(KafkaError._FAIL))) from cause

    def _root(self, error: KafkaError) -> KafkaError:
        """A fenced producer may be told something else first; when it aborts it is told."""
        try:
            self._producer.abort_transaction(TIMEOUT_SECONDS)
        except KafkaException as found:
            told: KafkaError = found.args[0]
            return told if told.code() in FENCED else error
        return error

    def _on_delivery(self, error: KafkaError | None, _message: Any) -> None:
        self._refused = self._refused or error

    def _failure(self, error: KafkaError) -> Crash | Fenced | SurroundingsError:
        if error.code() in FENCED:
            return Fenced(
                f"another `dlq send` of {self._id} began meanwhile and goes on with what is left: nothing is sent twice"
            )
        if error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
            return SurroundingsError(
                f"{self._topic} does not take a message as large as it once did ({error.str()}): raise its max.message.bytes; "
                "nothing of this transaction was sent"
            )
        return Crash(f"sending dead letters failed ({error.name()}: {error.str()}); run it again")


def _sender(settings: Settings, letters: TopicReader, dry_run: bool) -> AbstractContextManager[Sender | None]:
    return nullcontext(None if dry_run else Sender(settings, letters))
