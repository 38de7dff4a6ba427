"""Sends dead letters again, exactly once.

A transaction sends letters to the input topic, and commits which letters have been sent as offsets
of the group `APP_ID-dlq` on the dead letter topic. So after a kill both are there or neither, and
the next run sends the rest. Of two runs at once, the second fences the first by the transactional
id `APP_ID-dlq` *before* it reads the group's offsets, so that it knows what the first one sent.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from confluent_kafka import KafkaError, TopicPartition

from worker.errors import CoversummError, Crash, Fenced, SetupError
from worker.events import Record
from worker.kafka.clients import Clients, KafkaClients
from worker.kafka.errors import broker_errors
from worker.kafka.offsets import TIMEOUT_SECONDS
from worker.kafka.reader import TopicReader
from worker.kafka.transactions import Hung, TransactionError, Transactions, UnwrittenError
from worker.operations.letters import (
    ALREADY_SENT,
    IMPOSSIBLE,
    SENT,
    DeadLetter,
    Impossible,
    LetterSelection,
    group_of,
    original,
)
from worker.settings import Settings

TRANSACTION_LETTERS = 500
TRANSACTION_BYTES = 8 * 2**20
MAX_MESSAGE_BYTES = 10**9  # librdkafka's upper bound: the letter was in the input topic before
FORMAT = "1:"
MAX_METADATA_CHARS = 4000  # brokers accept 4,096 bytes by default (`offset.metadata.max.bytes`)


class LetterOutcome(NamedTuple):
    """A letter's status: SENT, ALREADY_SENT (by an earlier run), or IMPOSSIBLE with a reason."""

    letter: DeadLetter
    status: str
    why: str | None = None


def resend(
    settings: Settings, letters: TopicReader, selection: LetterSelection, *, dry_run: bool = False
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
        for partition in letters.partitions:
            walk = _Walk(letters, source, producer, Tally(sent[partition]))
            yield from walk.along(partition, selection)


@dataclass
class _Walk:
    """Sends the letters of a partition in transactions."""

    letters: TopicReader
    source: TopicReader
    producer: LetterProducer | None
    tally: Tally
    batch: list[tuple[DeadLetter, Record]] = field(default_factory=list)

    def along(self, partition: int, selection: LetterSelection) -> Iterator[LetterOutcome]:
        bounds, span = self.letters.bounds(partition), selection.span(partition)
        if span is None:
            span = bounds
        elif not span:
            return
        for stored in self.letters.read(
            partition, min(span.start, self.tally.before.first_unsent), span.stop
        ):
            letter = DeadLetter.of(stored)
            already = letter.place.offset in self.tally.before
            if letter not in selection or already:
                self.tally.passed(letter.place.offset, already)
                if already and letter in selection:
                    yield LetterOutcome(letter, ALREADY_SENT)
                continue
            try:
                record = letter.again(original(letter, self.source))
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
        size = sum(record.size for _, record in self.batch) + one_more.size
        return len(self.batch) >= TRANSACTION_LETTERS or (
            bool(self.batch) and size > TRANSACTION_BYTES
        )

    def _commit(self, partition: int) -> Iterator[LetterOutcome]:
        batch, self.batch = self.batch, []
        if batch and self.producer is not None:
            self.producer.commit([record for _, record in batch], self._sent(partition))
        yield from (LetterOutcome(letter, SENT) for letter, _ in batch)

    def _sent(self, partition: int) -> TopicPartition:
        """The sent part of the partition, as an offset to commit."""
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


class TooScattered(CoversummError):
    """The sent offsets have too many ranges for the metadata."""


class UnknownMetadata(CoversummError):
    """The metadata of a commit has another format."""


@dataclass(frozen=True, slots=True)
class Sent:
    """All letters below `first_unsent`, and those in `beyond`: ascending ranges with gaps between
    each other and after `first_unsent`.
    """

    first_unsent: int = 0
    beyond: tuple[range, ...] = ()

    def __contains__(self, offset: int) -> bool:
        return offset < self.first_unsent or any(offset in part for part in self.beyond)

    def metadata(self) -> str:
        """The metadata of the commit of `first_unsent`. Raises TooScattered."""
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
    """The sent letters of a partition, during a walk over *all* of its letters by offset.

    The walk begins at or before the first unsent letter. Offsets without a letter (transaction
    markers, aborted records) belong to the range around them, so that they do not split it.
    """

    def __init__(self, before: Sent) -> None:
        self.before = before
        self._first_unsent: int | None = None
        self._at = before.first_unsent
        self._beyond: list[range] = []
        self._in_run = False

    def passed(self, offset: int, sent: bool) -> None:
        """Take the next letter of the walk, and whether it is sent."""
        self._at = max(self._at, offset + 1)
        if not sent:
            assert offset not in self.before
            if self._first_unsent is None:
                self._first_unsent = offset
            self._in_run = False
        elif self._first_unsent is not None:
            start = self._beyond.pop().start if self._in_run else offset
            self._beyond.append(range(start, offset + 1))
            self._in_run = True

    def now(self) -> Sent:
        """The sent letters so far, with earlier ones ahead of the walk."""
        ahead = [range(max(part.start, self._at), part.stop) for part in self.before.beyond]
        ahead = [part for part in ahead if part]
        first_unsent = self._at if self._first_unsent is None else self._first_unsent
        beyond = [*self._beyond, *ahead]
        while beyond and beyond[0].start == first_unsent:
            first_unsent = beyond.pop(0).stop
        return Sent(first_unsent, tuple(_joined(beyond)))


def _joined(parts: list[range]) -> list[range]:
    """Adjacent ranges become one."""
    joined: list[range] = []
    for part in parts:
        if joined and joined[-1].stop == part.start:
            part = range(joined.pop().start, part.stop)
        joined.append(part)
    return joined


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


def sent_so_far(letters: TopicReader, *, wait: bool = True) -> dict[int, Sent]:
    """The sent letters of every partition; without `wait` without those of an open transaction."""
    try:
        committed = {
            p: Sent.parse(offset, text)
            for p, (offset, text) in letters.committed(wait=wait).items()
        }
    except UnknownMetadata as error:
        raise SetupError(
            f"the offsets of the sent dead letters of {letters.topic} are not readable ({error}): "
            "another version of the worker wrote them; use that version"
        ) from error
    return {partition: committed.get(partition, Sent()) for partition in letters.partitions}
