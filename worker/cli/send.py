"""`send`: a file of events to the input topic."""

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from worker.cli import output
from worker.cli.command import Command
from worker.errors import SurroundingsError
from worker.settings import Settings

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

    from worker.cli.lines import EventFile
    from worker.events import Record

DELIVERY_TIMEOUT_MS = 60_000


@click.command(
    "send",
    cls=Command,
    short_help="Produce a file of reviews or events to the input topic.",
    examples=[
        ("coversumm-worker send reviews.jsonl.gz", "a whole file"),
        ("head -100 reviews.jsonl | coversumm-worker send - --rate 10", "its beginning, ten a second"),
    ],
)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, readable=True, allow_dash=True))
@click.option(
    "--rate", type=click.FloatRange(min=0, min_open=True), help="Most events a second; without it, no limit."
)
@output.json_option
def command(file: str, rate: float | None, as_json: bool) -> None:
    """Produce a JSONL file (also .gz; - for standard input) of review events, or of bare reviews (`entity_id, review_id,
    text, ...`: unversioned upserts), with a progress bar.

    Stops at a line that no worker could use.
    """
    settings = Settings.from_environment()
    from worker.cli.lines import EventFile
    from worker.kafka.clients import KafkaClients
    from worker.kafka.topics import Topics

    Topics(settings, KafkaClients(settings)).input_partitions  # noqa: B018 - raises where there is no broker or no topic
    events = EventFile(file)
    sender = Sender(settings)
    started = time.monotonic()
    try:
        with output.file_progress(events.size) as progress:
            for record in paced(checked(events, settings), rate):
                sender.send(record.key, record.value)
                progress.update(events.position, sender.delivered)
            sender.flush()
    except (KeyboardInterrupt, SurroundingsError) as end:
        sender.flush(quiet=True)
        if isinstance(end, KeyboardInterrupt):
            output.note(f"interrupted: {sender.delivered} events were sent")
            raise
        raise SurroundingsError(f"{end}; {sender.delivered} events were sent before it") from end
    _report(settings.input_topic, sender.delivered, time.monotonic() - started, as_json)


def _report(topic: str, sent: int, seconds: float, as_json: bool) -> None:
    if as_json:
        output.print_json({"topic": topic, "sent": sent, "seconds": round(seconds, 3)})
    else:
        output.console().print(
            f"{sent:,} events sent to {topic} in {seconds:.1f} s ({sent / max(seconds, 1e-9):,.0f} a second)"
        )


def checked(events: "EventFile", settings: Settings) -> "Iterator[Record]":
    """The records of a file, up to the first that no worker could use: SurroundingsError names its line.

    What depends on the worker's model (dimension, model's name, whether it embeds) is the worker's to judge.
    """
    from worker.events import Reason, Rejected, decode
    from worker.processing.config import event_limits

    limits = event_limits(settings)
    tolerated = {Reason.WRONG_DIMENSION, Reason.WRONG_MODEL, Reason.NO_EMBEDDING}
    for record in events:
        (event,) = decode([record], limits)
        if isinstance(event, Rejected) and event.reason not in tolerated:
            raise SurroundingsError(f"line {record.offset} (counted from 0): {event.reason}: {event.detail}")
        yield record


def paced(records: "Iterator[Record]", rate: float | None) -> "Iterator[Record]":
    """The same, at most `rate` a second."""
    started = time.monotonic()
    for number, record in enumerate(records):
        if rate is not None and (wait := started + number / rate - time.monotonic()) > 0:
            time.sleep(wait)
        yield record


class Sender:
    """An idempotent producer that puts an entity's events into the partition where Java producers and Faust put them."""

    def __init__(self, settings: Settings) -> None:
        from worker.kafka.clients import SILENT, KafkaClients
        from worker.kafka.diagnosis import Diagnosis

        self._diagnosis = Diagnosis(settings)
        self._topic = settings.input_topic
        self._error: KafkaError | None = None
        self.delivered = 0
        self._producer = KafkaClients(settings, SILENT).producer(
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

    def send(self, key: bytes | None, value: bytes | None) -> None:
        """Hand over one event; SurroundingsError where an earlier one could not be delivered."""
        while True:
            try:
                self._producer.produce(self._topic, value, key, on_delivery=self._on_delivery)
                break
            except BufferError:  # the queue is full: wait for the broker
                self._producer.poll(0.1)
        self._producer.poll(0)
        self._raise_error()

    def flush(self, *, quiet: bool = False) -> None:
        """Wait until all is delivered; SurroundingsError where something was not, unless `quiet`."""
        self._producer.flush(DELIVERY_TIMEOUT_MS / 1000 + 5)
        if not quiet:
            self._raise_error()

    def _on_delivery(self, error: "KafkaError | None", _message: Any) -> None:
        self.delivered += error is None
        self._error = self._error or error

    def _raise_error(self) -> None:
        if self._error is not None:
            raise SurroundingsError(
                f"the broker did not take an event for {self._topic} ({self._error.str()}): "
                f"{self._diagnosis.reason()}"
            )
