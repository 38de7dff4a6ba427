"""Sends the records of an archive to a new topic: each once, those of a key in their order.

A transaction sends records to the partitions of their keys. A header has their place in the
archive, so the last record of each partition says where the next run resumes, also after a kill.
"""

import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from hashlib import sha256

from confluent_kafka import KafkaException

from worker.errors import SetupError
from worker.events import Record
from worker.kafka.clients import KafkaClients
from worker.kafka.errors import FENCED, broker_errors
from worker.kafka.offsets import TIMEOUT_SECONDS
from worker.kafka.reader import Stored, TopicReader, removing
from worker.kafka.topics import Topics, partition_of, policy_complaint
from worker.operations.file_sending import SendReport, paced
from worker.operations.letter_sending import (
    MAX_MESSAGE_BYTES,
    TRANSACTION_BYTES,
    TRANSACTION_LETTERS,
)
from worker.replay.archive_check import holes_of, listed
from worker.replay.ranges import Range
from worker.replay.record_source import Archived
from worker.settings import Settings
from worker.view import output

HEADER = "coversumm-archive"
"""Header of a sent record: a digest of the archive, the partition and the offset in it."""
LOOKED_AT = 1000  # offsets at the end of a partition to look at first for its last record


def send_archive(
    history: Archived, settings: Settings, rate: float | None, *, skip_bad: bool
) -> SendReport:
    """Send what the topic does not have yet. Raises SetupError."""
    started = time.monotonic()
    clients = KafkaClients(settings)
    _check_topic(Topics(settings, clients))
    skipped = _check_archive(history, skip_bad=skip_bad)
    sending = _Sending(history, settings, clients)
    try:
        sending.run(rate)
    except (KafkaException, KeyboardInterrupt) as cause:
        raise sending.ended(cause) from cause
    seconds = round(time.monotonic() - started, 3)
    return SendReport(settings.input_topic, sending.sent, skipped, seconds)


def _check_topic(topics: Topics) -> None:
    """Raise SetupError for a topic that would not keep the records."""
    spec, _ = topics.specs["input"], topics.input_partitions
    if (config := topics.config(spec)) is None:
        raise SetupError(f"a broker does not know {spec.name} yet: give the command again")
    if complaint := policy_complaint(spec, config):
        raise SetupError(complaint)
    if limits := removing(config):
        raise SetupError(
            f"{spec.name} has {' and '.join(limits)} and would remove the archive's records, which "
            "are old: set retention.ms=-1 and retention.bytes=-1"
        )


def _check_archive(history: Archived, *, skip_bad: bool) -> int:
    """The number of unreadable rows; notes missing offsets. Raises SetupError unless `skip_bad`."""
    offsets = history.partitions()
    holes = holes_of(history, {p: Range(0, offset.stop, 0) for p, offset in offsets.items()})
    if holes.unreadable and not skip_bad:
        raise SetupError(
            f"{output.many(holes.unreadable, 'rows')} of the files cannot be read, the first: "
            f"{holes.first_unreadable}; nothing was sent: fix them, or skip them with --skip-bad"
        )
    if later := [
        f"partition {p} at offset {offset.start}" for p, offset in offsets.items() if offset.start
    ]:
        output.note(f"the archive begins in {', '.join(later)}")
    if holes.missing:
        output.note(
            f"offsets that no file has ({listed(holes.missing)}): compaction and transactions "
            "leave such gaps, and so does a missing file"
        )
    return holes.unreadable


class _Sending:
    """Fences an earlier run, then knows by partition the place of the last record sent."""

    def __init__(self, history: Archived, settings: Settings, clients: KafkaClients) -> None:
        self._history, self._topic = history, settings.input_topic
        self.sent = 0
        name = f"{self._topic}-send"
        self._producer = clients.producer(
            {"transactional.id": name, "message.max.bytes": MAX_MESSAGE_BYTES}
        )
        with broker_errors(f"the broker did not start a transaction of {name}"):
            self._producer.init_transactions(TIMEOUT_SECONDS)
        with TopicReader(clients, self._topic, settings.app_id) as reader:
            # with other partitions, keys would have other places
            whole = repr((history.read_with, reader.partitions))
            self._digest = sha256(whole.encode()).hexdigest()[:16]
            self._last = {number: self._end(reader, number) for number in reader.partitions}

    def _end(self, reader: TopicReader, partition: int) -> tuple[int, int]:
        """The place of the last record. Raises SetupError if it or the first one is another's."""
        first, back = next(reader.read(partition), None), LOOKED_AT
        if first is None:
            return (-1, -1)
        self._place(first)
        while not (last := deque(reader.read(partition, reader.bounds(partition).stop - back), 1)):
            back *= 8  # aborted records
        return self._place(last[0])

    def _place(self, stored: Stored) -> tuple[int, int]:
        digest, _, place = stored.headers.get(HEADER, b"").decode(errors="replace").partition(" ")
        if digest != self._digest:
            raise SetupError(
                f"{self._topic} has a record that is not of these files as they are now, or came "
                f"before partitions were added (partition {stored.record.partition}, offset "
                f"{stored.record.offset}): send an archive to a new topic, which nothing else "
                "writes to until it is complete"
            )
        partition, _, offset = place.partition(":")
        return int(partition), int(offset)

    def run(self, rate: float | None) -> None:
        batch: list[Record] = []
        size = 0
        with output.file_progress(sum(map(len, self._history.partitions().values()))) as progress:
            for record in paced(self._unsent(), rate):
                batch.append(record)
                size += len(record.value or b"")
                if len(batch) >= TRANSACTION_LETTERS or size >= TRANSACTION_BYTES:
                    self._commit(batch)
                    batch, size = [], 0
                    progress.update(self.sent, self.sent)
            self._commit(batch)

    def _unsent(self) -> Iterator[Record]:
        for partition in self._history.partitions():
            for record in self._history.in_files(partition, 0):
                if (partition, record.offset) > self._last[self._target(record)]:
                    yield record

    def _target(self, record: Record) -> int:
        """The partition of the key; without a key that of the archive, so that order holds."""
        if record.key is None:
            return record.partition % len(self._last)
        return partition_of(record.key, len(self._last))

    def _commit(self, batch: Sequence[Record]) -> None:
        self._producer.begin_transaction()
        for archived in batch:
            self._producer.produce(
                self._topic,
                archived.value,
                archived.key,
                self._target(archived),
                timestamp=max(0, archived.timestamp_ms),
                headers={HEADER: f"{self._digest} {archived.partition}:{archived.offset}".encode()},
            )
        self._producer.commit_transaction(TIMEOUT_SECONDS)
        self.sent += len(batch)

    def ended(self, cause: BaseException) -> BaseException:
        """Abort; the error for the user."""
        with suppress(KafkaException):
            self._producer.abort_transaction(TIMEOUT_SECONDS)
        sent = output.many(self.sent, "records")
        resume = f"{sent} sent; give the same command again to send the rest"
        if not isinstance(cause, KafkaException):
            output.note(f"interrupted: {resume}")
            return cause
        error = cause.args[0]
        if error.code() in FENCED:
            return SetupError(f"another `send` to {self._topic} has started, and sends the rest")
        return SetupError(f"the broker did not take records ({error.str()}); {resume}")
