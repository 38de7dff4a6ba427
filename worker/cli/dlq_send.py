"""`dlq send`: send dead letters again, exactly once.

A transaction sends letters to the input topic, and commits which letters have been sent as offsets
of the group `APP_ID-dlq` on the dead letter topic. So after a kill both are there or neither, and
the next run sends the rest. Of two runs at once, the second fences the first by the transactional
id `APP_ID-dlq` *before* it reads the group's offsets, so that it knows what the first one sent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import click
from confluent_kafka import KafkaError, TopicPartition

from worker.cli import output
from worker.cli.command import Command
from worker.cli.letters import (
    PLACE,
    DeadLetter,
    Impossible,
    LetterSelection,
    Place,
    group_of,
    open_letters,
    original,
    selection_of,
    selection_options,
)
from worker.cli.options import DECLINED, agreed, check_can_ask, yes_option
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
SENT, ALREADY_SENT, IMPOSSIBLE = "sent", "already sent", "impossible"
Progress = Callable[[int, int], None]
"""Called with the number of offsets read, and of letters sent."""


class LetterOutcome(NamedTuple):
    """A letter's status: SENT, ALREADY_SENT (by an earlier run), or IMPOSSIBLE with a reason."""

    letter: DeadLetter
    status: str
    why: str | None = None


@click.command(
    "send",
    cls=Command,
    short_help="Send dead letters to the input topic again, each exactly once.",
    examples=[
        ("coversumm-worker dlq send --dry-run", "how many there are to send"),
        ("coversumm-worker dlq send --reason text_too_long", "after the limit was raised"),
        ("coversumm-worker dlq send 3:991 3:994", "these two"),
    ],
)
@click.argument("places", type=PLACE, nargs=-1, metavar="[PARTITION:OFFSET]...")
@selection_options
@click.option("--dry-run", is_flag=True, help="Send nothing.")
@yes_option
@output.json_option
def send(
    places: tuple[Place, ...],
    reasons: tuple[str, ...],
    since: int | None,
    entity: str | None,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> int:
    """Send dead letters to the input topic again, after a fix: with the original key and value, to
    the original partition. By default all that were not sent yet.

    Each letter is sent exactly once, even if the command is killed, repeated, or run twice at the
    same time: the transaction that sends also commits what was sent.

    For the worker it is a new record at a new offset. So an event without a review_version counts
    as the newest of its review, even if a later one was applied since. One with an older
    review_version is ignored.

    A letter that was cut for its size is read from its source. Exit code 1 if the source is gone,
    or a letter cannot be sent for another reason.

    Says how many letters would be sent, then asks. Exit code 1 if the answer is no.
    """
    settings = Settings.from_environment()
    check_can_ask(yes, dry_run)
    selection = selection_of(reasons, since, entity, places)
    counts: Counter[str] = Counter()
    try:
        with open_letters(settings) as letters:
            if not (dry_run or _agreed(settings, letters, selection, yes)):
                return DECLINED
            with output.file_progress(letters.size, "sent") as progress:
                for outcome in resend(
                    settings, letters, selection, dry_run=dry_run, progress=progress.update
                ):
                    counts[outcome.status] += 1
                    if outcome.why is not None:
                        output.note(f"{outcome.letter.place} cannot be sent: {outcome.why}")
    except BaseException:
        if counts:
            _report(settings, counts, dry_run, as_json)
        raise
    _report(settings, counts, dry_run, as_json)
    missing = len(selection.places) - counts.total()
    if missing > 0:
        output.complain(f"{missing} of the letters named are not there, or not as chosen")
    return output.CHECK_FAILED if counts[IMPOSSIBLE] or missing > 0 else 0


def _agreed(
    settings: Settings, letters: TopicReader, selection: LetterSelection, yes: bool
) -> bool:
    """Whether to send, by the user's answer; nothing to send needs none."""
    outcomes = resend(settings, letters, selection, dry_run=True)
    reasons = Counter(outcome.letter.reason for outcome in outcomes if outcome.status == SENT)
    if not reasons:
        return True
    output.note(
        f"to be sent to {settings.input_topic} again, each once: "
        f"{output.many(reasons.total(), 'dead letters')} ({by_reason(reasons)}). An event without "
        "a review_version counts as the newest of its review then: it may overwrite a later edit, "
        "or bring a deleted review back"
    )
    return agreed("Send them?", yes)


def by_reason(counts: Counter[str]) -> str:
    """Numbers of letters by reason, for people."""
    return ", ".join(f"{n:,} {reason or 'without a reason'}" for reason, n in counts.most_common())


def _report(settings: Settings, counts: Counter[str], dry_run: bool, as_json: bool) -> None:
    if as_json:
        named = {
            status.replace(" ", "_"): counts[status] for status in (SENT, ALREADY_SENT, IMPOSSIBLE)
        }
        output.print_json({"topic": settings.input_topic, **named, "dry_run": dry_run})
    else:
        sent = f"{counts[SENT]:,} {'would be ' if dry_run else ''}sent to {settings.input_topic}"
        output.say(
            f"{sent}, {counts[ALREADY_SENT]:,} were already, {counts[IMPOSSIBLE]:,} cannot be"
        )


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
