"""Dead letters sent again, exactly once: `dlq send`.

One transaction carries some letters to the input topic and, as offsets of the group `APP_ID-dlq` on
the dead letter topic, which letters have been sent by now (`worker.tools.resend`). So after a kill
at any moment both are there or neither, and the next run goes on with the rest. Two runs at once:
the transactional id `APP_ID-dlq` is taken over *before* the group's offsets are read, so the older
run is refused by the broker, and what it sent is known to the younger.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from confluent_kafka import KafkaError, TopicPartition

from worker.errors import CoversummError, Crash, Fenced, SetupError
from worker.events import Record
from worker.kafka.clients import Clients, KafkaClients
from worker.kafka.errors import broker_errors
from worker.kafka.offsets import TIMEOUT_SECONDS
from worker.kafka.reader import TopicReader
from worker.kafka.topics import reached
from worker.kafka.transaction import Hung, TransactionError, UnwrittenError
from worker.kafka.transactions import Transactions
from worker.settings import Settings
from worker.tools.dlq import DeadLetter, Impossible, LetterSelection, original

FORMAT = "1:"
MAX_METADATA_CHARS = 4000
"""Brokers take fewer than 4,096 by default (`offset.metadata.max.bytes`)."""


class TooScattered(CoversummError):
    """The offsets sent lie in too many pieces for the metadata."""


class UnknownMetadata(CoversummError):
    """The commit's metadata is not what this module writes."""


@dataclass(frozen=True, slots=True)
class Sent:
    """All letters below `first_unsent`, and those in `beyond`: ranges that ascend, apart from each
    other and from it.
    """

    first_unsent: int = 0
    beyond: tuple[range, ...] = ()

    def __contains__(self, offset: int) -> bool:
        return offset < self.first_unsent or any(offset in part for part in self.beyond)

    def metadata(self) -> str:
        """What goes with the commit of `first_unsent`. Raises TooScattered."""
        if not self.beyond:
            return ""
        packed = bytearray()
        at = self.first_unsent
        for part in self.beyond:
            packed += _leb128(part.start - at) + _leb128(len(part))
            at = part.stop
        text = FORMAT + base64.b64encode(packed).decode()
        if len(text) > MAX_METADATA_CHARS:
            raise TooScattered(
                f"{len(self.beyond)} pieces take {len(text)} of {MAX_METADATA_CHARS} characters"
            )
        return text

    @classmethod
    def parse(cls, first_unsent: int, metadata: str) -> Sent:
        """Inverse of `metadata`. Raises UnknownMetadata."""
        if not metadata:
            return cls(first_unsent)
        if not metadata.startswith(FORMAT):
            raise UnknownMetadata(f"{metadata[:40]!r} is not of format {FORMAT!r}")
        try:
            lengths = list(_lengths(base64.b64decode(metadata[len(FORMAT) :], validate=True)))
        except (binascii.Error, ValueError) as error:
            raise UnknownMetadata(f"{metadata[:40]!r} cannot be read ({error})") from error
        if len(lengths) % 2 or 0 in lengths:
            raise UnknownMetadata(f"{metadata[:40]!r} has a piece without a length")
        beyond, at = [], first_unsent
        for gap, length in zip(lengths[::2], lengths[1::2], strict=True):
            beyond.append(range(at + gap, at + gap + length))
            at += gap + length
        return cls(first_unsent, tuple(beyond))


class Tally:
    """What was sent of a partition, along a walk over *all* of its letters in the order of their
    offsets.

    The walk begins at or before the first that was not sent. Offsets without a letter (transaction
    markers, aborted ones) go with whatever lies around them, so that they do not scatter the set.
    """

    def __init__(self, before: Sent) -> None:
        self._before = before
        self._first_unsent: int | None = None
        self._at = before.first_unsent
        self._beyond: list[range] = []
        self._in_run = False

    def passed(self, offset: int, sent: bool) -> None:
        """The next letter on the walk, and whether it is sent now."""
        self._at = max(self._at, offset + 1)
        if not sent:
            assert offset not in self._before
            if self._first_unsent is None:
                self._first_unsent = offset
            self._in_run = False
        elif self._first_unsent is not None:
            start = self._beyond.pop().start if self._in_run else offset
            self._beyond.append(range(start, offset + 1))
            self._in_run = True

    def now(self) -> Sent:
        """All that was sent so far, what lies ahead of the walk as it was."""
        ahead = [range(max(part.start, self._at), part.stop) for part in self._before.beyond]
        ahead = [part for part in ahead if part]
        first_unsent = self._at if self._first_unsent is None else self._first_unsent
        beyond = [*self._beyond, *ahead]
        while beyond and beyond[0].start == first_unsent:
            first_unsent = beyond.pop(0).stop
        return Sent(first_unsent, tuple(_joined(beyond)))


def _joined(parts: list[range]) -> Iterator[range]:
    """The same offsets, ranges that touch as one."""
    last: range | None = None
    for part in parts:
        if last is not None and last.stop == part.start:
            last = range(last.start, part.stop)
        else:
            if last is not None:
                yield last
            last = part
    if last is not None:
        yield last


def _leb128(number: int) -> bytes:
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def _lengths(packed: bytes) -> Iterator[int]:
    number = shift = 0
    for byte in packed:
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            yield number
            number = shift = 0
    if shift:
        raise ValueError("it ends within a number")


TRANSACTION_LETTERS = 500
TRANSACTION_BYTES = 8 * 2**20
# librdkafka's own limit: what was in the input topic before fits into it again
MAX_MESSAGE_BYTES = 10**9
SENT, ALREADY_SENT, IMPOSSIBLE = "sent", "already sent", "impossible"

# progress(offsets walked over, letters sent)
Progress = Callable[[int, int], None]


class LetterOutcome(NamedTuple):
    """What became of a letter: SENT, ALREADY_SENT (by an earlier run) or IMPOSSIBLE, and
    then why.
    """

    letter: DeadLetter
    status: str
    why: str | None = None


def group_of(settings: Settings) -> str:
    """The group that remembers what was sent, and the transactional id of the one run that may
    send.
    """
    return f"{settings.app_id}-dlq"


def open_letters(settings: Settings) -> TopicReader:
    """A reader of the dead letter topic, in the group that remembers what was sent."""
    return TopicReader(
        reached(settings, KafkaClients(settings)), settings.dlq_topic, group_of(settings)
    )


def sent_so_far(letters: TopicReader, *, wait: bool = True) -> dict[int, Sent]:
    """By partition, all of the topic: what runs so far have sent. Without `wait` what a run is just
    sending does not count.
    """
    try:
        committed = {
            p: Sent.parse(offset, text)
            for p, (offset, text) in letters.committed(wait=wait).items()
        }
    except UnknownMetadata as error:
        raise SetupError(
            f"the offsets that remember which dead letters of {letters.topic} were sent are not readable ({error}): another "
            "version of the worker wrote them; use that version"
        ) from error
    return {partition: committed.get(partition, Sent()) for partition in letters.partitions}


def resend(
    settings: Settings,
    letters: TopicReader,
    selection: LetterSelection,
    *,
    dry_run: bool = False,
    progress: Progress = lambda *_: None,
) -> Iterator[LetterOutcome]:
    """Send the selected letters; yield the outcome of each as soon as it is decided: SENT when its
    transaction is committed.

    With `dry_run` nothing is sent, taken over or committed; SENT is what would be.

    Raises:
        Fenced: another run began meanwhile; it goes on with what is left. SetupError: topics
        or broker are not as they must be, or the letters sent lie too scattered.
    """
    clients = KafkaClients(settings)
    with TopicReader(clients, settings.input_topic, group_of(settings)) as source:
        producer = None if dry_run else LetterProducer(settings, clients, letters)
        # a run under way is waited for only once it is taken over
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
    """Over the letters of one partition, in transactions."""

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
                f"the dead letters sent from partition {partition} would lie too scattered to be remembered ({error}): first "
                f"send those between, from {partition}:{sent.first_unsent} on, or all (`coversumm-worker dlq send`)"
            ) from error


class LetterProducer:
    """The one producer that may send letters again: transactional, and it fences the one
    before it.
    """

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

        Raises Fenced, and Crash where it failed in any other way: then the next run knows whether
        it was committed.
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

    def _failure(self, cause: TransactionError) -> Crash | Fenced | SetupError:
        if cause.fenced:
            return Fenced(
                f"another `dlq send` of {self._id} began meanwhile and goes on with what is left: nothing is sent twice"
            )
        if cause.error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
            return SetupError(
                f"{self._topic} does not take a message as large as it once did ({cause.error.str()}): raise its "
                "max.message.bytes; nothing of this transaction was sent"
            )
        return Crash(f"sending dead letters failed ({cause}); run it again")
