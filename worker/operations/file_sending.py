"""Reviews and events of files on their way to the input topic."""

import shlex
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from confluent_kafka import KafkaError

from worker.errors import SetupError
from worker.events import Record
from worker.events.decode import RecordMapping
from worker.events.notes import NOTES, left_out
from worker.kafka.clients import KafkaClients
from worker.kafka.errors import Diagnosis
from worker.mapping.contract import event_of
from worker.operations.findings import Findings, counted, warn_left_out, warn_unread
from worker.processing.config import event_limits
from worker.settings import Settings
from worker.sources import Entry, ReviewFiles, judged
from worker.view import output

DELIVERY_TIMEOUT_MS = 60_000
LAST_WAIT_SECONDS = 10.0  # seconds to wait for events in flight when sending ends early


class SendReport(NamedTuple):
    """The report of sending, as JSON has it; `skipped` counts lines that could not be used."""

    topic: str
    sent: int
    skipped: int
    seconds: float


def check(
    reviews: ReviewFiles, settings: Settings, first_line: int, mapping: RecordMapping | None
) -> None:
    """Raise SetupError if a line cannot be used, after notes that name the first ones."""
    findings = Findings(reviews)
    entries = judged(reviews, event_limits(settings), mapping)
    try:
        deque(findings.usable(entries, f"{reviews.unit} checked"), 0)
    except KeyboardInterrupt:
        output.note("interrupted: nothing was sent")
        raise
    if not findings.lines and reviews.lines < first_line - 1:
        place = reviews.place(first_line)
        raise SetupError(f"--from-line {place}: there are only {reviews.lines:,} {reviews.unit}")
    if findings.total:
        findings.note_groups()
        raise SetupError(
            f"{findings.total:,} of {findings.lines:,} {reviews.unit} cannot be used "
            f"({counted(findings.reasons)}), so nothing was sent: "
            "fix them, or skip them with --skip-bad"
        )


@dataclass(eq=False)
class Sending:
    """Sends the lines of files from one line on, and knows which ones are acknowledged.

    The producer is idempotent, and partitions as Java producers and Faust do.
    """

    reviews: ReviewFiles
    settings: Settings
    first_line: int
    skip_bad: bool
    mapping: RecordMapping | None

    def __post_init__(self) -> None:
        settings = self.settings
        self._topic = settings.input_topic
        self._findings = Findings(self.reviews)
        self._left_out: Counter[str] = Counter()
        self._delivered = 0
        self._acknowledged = Acknowledged()
        self._error: KafkaError | None = None
        self._diagnosis = Diagnosis(settings)
        self._producer = KafkaClients(settings).producer(
            {
                "error_cb": self._diagnosis,
                "enable.idempotence": True,
                "acks": "all",
                "partitioner": "murmur2_random",
                "linger.ms": 20,
                "message.max.bytes": settings.max_event_bytes + 2**16,
                "delivery.timeout.ms": DELIVERY_TIMEOUT_MS,
            }
        )

    def run(self, rate: float | None) -> SendReport:
        """Send all lines. Raises SetupError, which names the line to resume from."""
        started = time.monotonic()
        try:
            with output.file_progress(self.reviews.size) as progress:
                for record in paced(self._records(), rate):
                    self._send(record)
                    progress.update(self.reviews.position, self._delivered)
                self._producer.flush(DELIVERY_TIMEOUT_MS / 1000 + 5)
                self._raise_error()
        except (KeyboardInterrupt, SetupError) as end:
            self._producer.flush(LAST_WAIT_SECONDS)
            self._producer.purge()
            self._producer.poll(0)
            if isinstance(end, KeyboardInterrupt):
                output.note(f"interrupted: {self._how_to_resume()}")
                raise
            raise SetupError(f"{end}; {self._how_to_resume()}") from end
        seconds = round(time.monotonic() - started, 3)
        return SendReport(self._topic, self._delivered, self._findings.total, seconds)

    def report_bad(self) -> None:
        """Name what was left out, and the lines that were skipped."""
        warn_left_out(self.reviews)
        warn_unread(self._left_out)
        self._findings.complain()

    def _records(self) -> Iterator[Record]:
        """The usable lines. Raises SetupError for a line that was usable before."""
        entries: Iterable[Entry | None] = self.reviews
        if self.skip_bad or self.mapping is not None:
            entries = judged(entries, event_limits(self.settings), self.mapping)
        for entry in entries:
            self._findings.lines += entry is not None
            if isinstance(entry, Record) and self.mapping is not None:
                NOTES.take()  # of the check
                bodies = self.mapping.read_all(entry)
                self._left_out += left_out(NOTES.take())
                for body in bodies:
                    key, value = event_of(body)
                    yield entry._replace(key=key, value=value)
            elif isinstance(entry, Record):
                yield entry
            elif entry is not None:
                if not self.skip_bad:
                    where = self.reviews.where(entry.line)
                    raise SetupError(f"{where} has changed since it was checked: {entry.detail}")
                self._findings.add(entry)
                self._findings.lines += entry.lines - 1

    def _send(self, record: Record) -> None:
        """Send an event. Raises SetupError if an earlier one was not delivered."""
        line = record.offset + 1
        self._acknowledged.expect(line)
        done = partial(self._on_delivery, line)
        while True:
            try:
                self._producer.produce(self._topic, record.value, record.key, on_delivery=done)
                break
            except BufferError:  # the queue is full
                self._producer.poll(0.1)
        self._producer.poll(0)
        self._raise_error()

    def _on_delivery(self, line: int, error: KafkaError | None, _message: Any) -> None:
        if error is None:
            self._delivered += 1
            self._acknowledged.add(line)
        self._error = self._error or error

    def _raise_error(self) -> None:
        if self._error is not None:
            raise SetupError(
                f"the broker did not take an event for {self._topic} ({self._error.str()}): "
                f"{self._diagnosis.reason()}"
            )

    def _how_to_resume(self) -> str:
        """The number of delivered events, for people, and the option to resume with."""
        line = self.reviews.place(self._acknowledged.next_line or self.first_line)
        beyond = self._acknowledged.beyond
        repeated = f" (it repeats {beyond:,} of them, which lie beyond that line)" if beyond else ""
        sent = output.many(self._delivered, "events")
        return f"{sent} sent; resume with --from-line {shlex.quote(line)}{repeated}"


class Acknowledged:
    """Lines that were sent in ascending order and are acknowledged in any order.

    >>> lines = Acknowledged()
    >>> for line in (3, 4, 7): lines.expect(line)
    >>> lines.add(4), lines.next_line, lines.beyond
    (None, 3, 1)
    >>> lines.add(3), lines.next_line, lines.beyond
    (None, 7, 0)
    """

    def __init__(self) -> None:
        self._waiting: deque[int] = deque()
        self._early: Counter[int] = Counter()  # of a line as often as it has events
        self._last = 0

    def expect(self, line: int) -> None:
        """Add a line that is sent."""
        self._waiting.append(line)
        self._last = line

    def add(self, line: int) -> None:
        """Add a line that was acknowledged."""
        self._early[line] += 1
        while self._waiting and (count := self._early.pop(self._waiting[0], 0)):
            first = self._waiting.popleft()
            if count > 1:
                self._early[first] = count - 1

    @property
    def next_line(self) -> int:
        """The first line without acknowledgement, or the one after the last; 0 if none was sent."""
        return self._waiting[0] if self._waiting else self._last + 1 if self._last else 0

    @property
    def beyond(self) -> int:
        """The number of acknowledged lines beyond `next_line`."""
        return self._early.total()


def paced(records: Iterator[Record], rate: float | None) -> Iterator[Record]:
    """The records, at most `rate` a second."""
    started = time.monotonic()
    for number, record in enumerate(records):
        if rate is not None and (wait := started + number / rate - time.monotonic()) > 0:
            time.sleep(wait)
        yield record
