"""The demo: real reviews through the real worker on an embedded broker, some of them taken down again.

    bundled reviews -> embedded broker (in this process) -> `run` (a child process, RocksDB in a temporary directory)
                              |-> summary changes -> display

The reviews are sent a little ahead of the worker, so that what is shown is what is happening. Nothing is left behind.
"""

from __future__ import annotations

import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Final

from confluent_kafka import TopicPartition
from rich.console import Console

from worker.demo.broker import EmbeddedBroker
from worker.demo.display import Display, make_display
from worker.demo.process import WorkerProcess
from worker.demo.reviews import Produced, bundled_reviews, take_down
from worker.demo.story import Story
from worker.errors import Crash
from worker.kafka.clients import SILENT, Clients, KafkaClients
from worker.kafka.topics import topic_specs
from worker.operations.verification import verify_data_dir
from worker.settings import Settings

PARTITIONS: Final = 4
BATCH_SIZE: Final = 40
"""Small micro-batches: something happens all the time."""
AHEAD: Final = 200
"""Events sent ahead of the worker."""
TAKEN_DOWN: Final = 2
"""Reviews taken down of each entity: those of its summary's first sentences."""
READY_SECONDS: Final = 90
STILL_SECONDS: Final = 90
_POLL_SECONDS: Final = 0.1
_COUNTS_EVERY_SECONDS: Final = 0.4
_ENDING_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def play(reviews: int | None, k: int, as_json: bool) -> None:
    """Run the demo; arguments and errors as `worker.demo.run_demo` says."""
    chosen = bundled_reviews()[:reviews]
    story = Story(k=k, total=len(chosen))
    display = make_display(Console(highlight=False, emoji=False, markup=False), story, as_json)
    with _ending_signals(), _farewell(), ExitStack() as stage:
        directory = _temporary_directory(stage)
        settings = Settings(data_dir=directory, k=k)
        topics = {spec.name: PARTITIONS for spec in topic_specs(settings).values()}
        broker = stage.enter_context(EmbeddedBroker(topics, rebalance_delay_ms=100))
        clients = KafkaClients(replace(settings, bootstrap_servers=broker.bootstrap_servers), SILENT)
        variables = {
            "KAFKA_BOOTSTRAP_SERVERS": broker.bootstrap_servers,
            "COVERSUMM_K": str(k),
            "COVERSUMM_BATCH_SIZE": str(BATCH_SIZE),
            "COVERSUMM_BATCH_LINGER_MS": "20",
        }
        worker = stage.enter_context(WorkerProcess(directory, variables))
        with display:
            play = Play(story, display, worker, Kafka(stage, clients, settings))
            play.wait_until_ready()
            play.send_reviews(chosen)
            play.take_reviews_down()
            play.verify()
    display.close()


class Kafka:
    """The demo's producer and consumer."""

    def __init__(self, stage: ExitStack, clients: Clients, settings: Settings) -> None:
        self._input_topic = settings.input_topic
        self._producer = clients.producer({"partitioner": "murmur2_random", "linger.ms": 5})
        self._consumer = clients.standalone_consumer("demo", "read_committed", {"fetch.wait.max.ms": 50})
        stage.callback(self._consumer.close)
        self._consumer.assign([TopicPartition(settings.output_topic, p, 0) for p in range(PARTITIONS)])

    def send(self, event: Produced) -> None:
        """Send one event to the input topic."""
        self._producer.produce(self._input_topic, event.value, event.key)

    def flush(self) -> None:
        """Wait until all is sent."""
        if self._producer.flush(STILL_SECONDS):
            raise Crash("the embedded broker does not take the reviews")

    def receive(self) -> list[bytes]:
        """The next summary changes; waits a moment for them."""
        self._producer.poll(0)
        messages = self._consumer.consume(200, _POLL_SECONDS)
        return [v for m in messages if m.error() is None and (v := m.value()) is not None]


class Play:
    """The scenes, one after the other. Each raises Crash or SurroundingsError when the worker ended or stands still."""

    def __init__(self, story: Story, display: Display, worker: WorkerProcess, kafka: Kafka) -> None:
        self._story = story
        self._display = display
        self._worker = worker
        self._kafka = kafka
        self._moved_at = time.monotonic()
        self._counted_at = 0.0

    def wait_until_ready(self) -> None:
        """The worker loads its model and joins its group."""
        self._story.phase = "starting the worker"
        deadline = time.monotonic() + READY_SECONDS
        while not self._worker.is_ready():
            if time.monotonic() > deadline:
                raise Crash(f"the demo's worker is not ready: {self._worker.last_words()}")
            self._display.update()
            time.sleep(_POLL_SECONDS)

    def send_reviews(self, reviews: list[Produced]) -> None:
        """All reviews, never far ahead of the worker."""
        story = self._story
        story.phase, story.started_at = "reading reviews", time.monotonic()
        for review in reviews:
            while story.sent - story.processed >= AHEAD:
                self._watch()
            self._send(review)
        self._catch_up()

    def take_reviews_down(self) -> None:
        """The reviews that the summaries' first sentences come from, an entity after the other, for eyes to follow."""
        story = self._story
        story.phase = "taking reviews down"
        doomed = {
            entity.entity_id: list(dict.fromkeys(s.review_id for s in entity.sentences))[:TAKEN_DOWN]
            for entity in story.in_order()
        }
        story.total += sum(map(len, doomed.values()))
        for entity_id, review_ids in doomed.items():
            for review_id in review_ids:
                self._send(take_down(entity_id, review_id))
            self._catch_up()
        story.ended_at = time.monotonic()

    def verify(self) -> None:
        """Stop the worker; every summary it has stored must equal brute force."""
        self._story.phase = "verifying the stored summaries"
        self._display.update()
        self._worker.stop()
        for check in verify_data_dir(self._worker.data_dir):
            if check.problems:
                entity = None if check.entity is None else check.entity.entity_id
                raise Crash(f"the stored summary of {entity} is wrong: {check.problems[0]}")
            self._story.verified += 1

    def _send(self, event: Produced) -> None:
        self._kafka.send(event)
        self._story.sent += 1

    def _catch_up(self) -> None:
        self._kafka.flush()
        while not self._story.caught_up:
            self._watch()

    def _watch(self) -> None:
        """Take in what happened in the last moment."""
        story = self._story
        before = story.changes, story.processed
        for value in self._kafka.receive():
            story.take_change(value, time.monotonic())
            self._display.changed(value)
        now = time.monotonic()
        if now - self._counted_at > _COUNTS_EVERY_SECONDS:
            self._counted_at = now
            story.take_counts(self._worker.counts())
        if before != (story.changes, story.processed):
            self._moved_at = now
        elif now - max(self._moved_at, story.started_at or 0.0) > STILL_SECONDS:
            raise Crash(f"nothing happened for {STILL_SECONDS} s: {self._worker.last_words()}")
        self._display.update()


def _temporary_directory(stage: ExitStack) -> Path:
    directory = Path(tempfile.mkdtemp(prefix="coversumm-demo-"))
    stage.callback(shutil.rmtree, directory, ignore_errors=True)
    return directory


@contextmanager
def _farewell() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        sys.stderr.write("interrupted; everything is removed again\n")
        raise


@contextmanager
def _ending_signals() -> Iterator[None]:
    """The first of them raises KeyboardInterrupt, which cleans up; that takes seconds, and further ones do not disturb it."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        for number in _ENDING_SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in _ENDING_SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
