"""The demo: real reviews through the real worker on an embedded broker; some are taken down again.

    bundled reviews -> embedded broker (in this process) -> `run` (a child process, RocksDB in a
    temporary directory)
                              |-> changes of summaries and facets -> display

Reviews are sent only a little ahead of the worker, so that the display shows what is happening. The
demo removes its processes and files.
"""

from __future__ import annotations

import math
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from rich.console import Console

from worker.demo.broker import EmbeddedBroker
from worker.demo.closing import closing_lines
from worker.demo.process import WorkerProcess
from worker.demo.reviews import FACETS, NO_NAMES, Produced, bundled_reviews, stay_names, take_down
from worker.demo.story import Phase, Story
from worker.errors import Crash
from worker.events.publishing import TOPICS
from worker.kafka.clients import KafkaClients
from worker.kafka.topics import topic_specs
from worker.published.publication import SetName
from worker.published.watching import TopicWatch
from worker.settings import Settings, origins
from worker.storage.verify import verify_data_dir
from worker.view.texts import ending_signals
from worker.view.viewer import Viewer, make_viewer

FIRST_PER_SECOND: Final = 1.5
GROWTH: Final = 1.0  # growth of the rate each second, in powers of e
MAX_PER_SECOND: Final = 180.0
HURRIED_PER_SECOND: Final = 60.0  # rate from which a person cannot follow every review
BRIEF_SECONDS: Final = 11.0  # seconds of reviews in a brief demo: a thousand on two idle processors
_GROWING_SECONDS: Final = math.log(MAX_PER_SECOND / FIRST_PER_SECOND) / GROWTH
_GROWING_REVIEWS: Final = (MAX_PER_SECOND - FIRST_PER_SECOND) / GROWTH


def due(number: int) -> float:
    """Seconds from the first review until the review of this number (from 0) is sent."""
    if number < _GROWING_REVIEWS:
        return math.log1p(number * GROWTH / FIRST_PER_SECOND) / GROWTH
    return _GROWING_SECONDS + (number - _GROWING_REVIEWS) / MAX_PER_SECOND


def is_hurried(number: int) -> bool:
    """Whether reviews come faster than a person can read when this one is sent."""
    return FIRST_PER_SECOND + number * GROWTH >= HURRIED_PER_SECOND


POLL_SECONDS: Final = 0.05
_FLUSH_SECONDS: Final = 90
PARTITIONS: Final = 4
BATCH_SIZE: Final = 60  # events in a micro-batch: few, so that changes come all the time
AHEAD: Final = 200  # events sent ahead of the worker
AHEAD_WATCHED: Final = 120
"""Events sent ahead of the worker on a live screen, so that its counts are current."""
SHOWN_DELETIONS: Final = 2  # deletions that are shown one by one, with time to read
BEFORE_SECONDS: Final = 0.8
AFTER_SECONDS: Final = 1.8
BETWEEN_SECONDS: Final = 0.2
READY_SECONDS: Final = 90
STILL_SECONDS: Final = 90  # seconds without progress before the demo fails
_COUNTS_SECONDS: Final = 0.2  # seconds between two requests for the worker's metrics


def run_demo(
    reviews: int | None, k: int, as_json: bool, is_brief: bool = False, is_served: bool = False
) -> None:
    """Run the demo on standard output with this number of the bundled reviews, or all (None).

    `is_brief`: leaves out reviews that a slow machine does not process in time. `is_served`: the
    worker's page stays up until Ctrl-C. Its processes and files are removed at the end, also after
    a CoversummError, Ctrl-C, SIGTERM or SIGHUP.
    """
    names = stay_names()
    # the page shows ids, so there a stay's name is its id
    chosen = bundled_reviews(names.entities if is_served else NO_NAMES)[:reviews]
    story = Story(k=k, reviews=len(chosen), names=names)
    console = Console(highlight=False, emoji=False, markup=False)
    viewer = make_viewer(console, story, as_json=as_json)
    with ending_signals(), _noting_interrupts(), ExitStack() as stage:
        directory = Path(tempfile.mkdtemp(prefix="coversumm-demo-"))
        stage.callback(shutil.rmtree, directory, ignore_errors=True)
        settings = Settings(data_dir=directory, k=k, facets=FACETS)
        story.facets_topic = settings.facets_topic
        topics = {spec.name: PARTITIONS for spec in topic_specs(settings).values()}
        broker = stage.enter_context(EmbeddedBroker(topics, rebalance_delay_ms=100))
        settings = replace(settings, bootstrap_servers=broker.bootstrap_servers)
        variables = {
            "KAFKA_BOOTSTRAP_SERVERS": broker.bootstrap_servers,
            "COVERSUMM_K": str(k),
            "COVERSUMM_FACETS": FACETS,
            "COVERSUMM_BATCH_SIZE": str(BATCH_SIZE),
            "COVERSUMM_BATCH_LINGER_MS": "20",
        }
        port = None
        if is_served:
            port, own = _of_the_page()
            variables |= own
        worker = stage.enter_context(WorkerProcess(directory, variables, port))
        if is_served:
            story.page = f"{worker.url}/"
            sys.stderr.write(f"the page: {story.page} (up until Ctrl-C)\n")
            sys.stderr.flush()
        with viewer:
            play = Play(story, viewer, worker, settings)
            stage.callback(play.close)
            play.wait_until_ready()
            with suppress(KeyboardInterrupt) if is_served else nullcontext():
                play.send_reviews(chosen, BRIEF_SECONDS if is_brief else math.inf)
                play.take_reviews_down()
                if is_served:
                    play.serve()
            play.verify()
    viewer.end(story.figures(), partial(closing_lines, console, story))


class Play:
    """The scenes of the demo. Each raises Crash or SetupError if the worker ends or stalls."""

    def __init__(
        self, story: Story, viewer: Viewer, worker: WorkerProcess, settings: Settings
    ) -> None:
        self._story = story
        self._viewer = viewer
        self._worker = worker
        self._input_topic = settings.input_topic
        self._producer = KafkaClients(settings).producer(
            {"partitioner": "murmur2_random", "linger.ms": 5}
        )
        self._watches = [TopicWatch(settings, from_beginning=True, kind=kind) for kind in TOPICS]
        self._moved_at = time.monotonic()
        self._counted_at = 0.0

    def close(self) -> None:
        """End the reading of what the worker publishes."""
        for watch in self._watches:
            watch.close()

    def wait_until_ready(self) -> None:
        """Wait until the worker has loaded its model and joined its group."""
        deadline = time.monotonic() + READY_SECONDS
        while not self._worker.is_ready():
            if time.monotonic() > deadline:
                raise Crash(f"the demo's worker is not ready: {self._worker.last_words()}")
            self._viewer.update()
            time.sleep(POLL_SECONDS)

    def send_reviews(self, reviews: list[Produced], seconds: float) -> None:
        """Send reviews for at most `seconds`, never far ahead of the worker.

        On a live screen they come slowly at first.
        """
        story, is_watched = self._story, self._viewer.is_screen
        story.phase, story.started_at = Phase.ARRIVING, time.monotonic()
        ahead = AHEAD_WATCHED if is_watched else AHEAD
        for number, review in enumerate(reviews):
            if is_hurried(number):
                story.phase = Phase.HURRYING
            if is_watched:
                self._watch_until(story.started_at + due(number))
            while story.sent - story.processed >= ahead:
                self._watch()
            if time.monotonic() - story.started_at > seconds:
                story.reviews, story.left_out = number, len(reviews) - number
                break
            self._send(review)
        self._catch_up()

    def take_reviews_down(self) -> None:
        """Take down the review of each summary's first sentence; the first ones slowly."""
        story = self._story
        story.phase = Phase.TAKING_DOWN
        stays = sorted(story.board.entities.values(), key=lambda one: (-one.review_count, one.name))
        doomed = {one.name.entity_id: one.sentences[0].review_id for one in stays if one.sentences}
        story.to_take_down = len(doomed)
        for number, (entity_id, review_id) in enumerate(doomed.items()):
            if number < SHOWN_DELETIONS:
                self._take_down_slowly(entity_id, review_id)
            else:
                story.focus.pin(None)
                self._send(take_down(entity_id, review_id))
                self._pause(BETWEEN_SECONDS)
        self._catch_up()
        story.ended_at = time.monotonic()

    def _take_down_slowly(self, entity_id: str, review_id: str) -> None:
        story = self._story
        story.focus.pin(SetName(entity_id))
        story.doomed = frozenset({review_id})
        self._pause(BEFORE_SECONDS)
        self._send(take_down(entity_id, review_id))
        self._catch_up()
        story.doomed = frozenset()
        self._pause(AFTER_SECONDS)

    def serve(self) -> None:
        """Keep the worker's page up until Ctrl-C."""
        self._story.phase = Phase.SERVING
        while True:
            self._worker.check()
            self._viewer.update()
            time.sleep(POLL_SECONDS)

    def verify(self) -> None:
        """Take an overview, stop the worker, and compare every stored summary with brute force."""
        self._story.phase = Phase.VERIFYING
        if self._story.ended_at is None:  # Ctrl-C during the reviews
            self._story.ended_at = time.monotonic()
        self._viewer.update()
        self._pause(BETWEEN_SECONDS)  # time to read the phase
        self._story.overview = self._worker.overview(self._story.largest())
        self._worker.stop()
        for check in verify_data_dir(self._worker.data_dir):
            if check.problems:
                entity = None if check.entity is None else check.entity.entity_id
                raise Crash(f"the stored summary of {entity} is wrong: {check.problems[0]}")
            self._story.verified += 1

    def _send(self, event: Produced) -> None:
        self._producer.produce(self._input_topic, event.value, event.key)
        self._story.sent += 1

    def _catch_up(self) -> None:
        if self._producer.flush(_FLUSH_SECONDS):
            raise Crash("the embedded broker does not take the reviews")
        while not self._story.caught_up:
            self._watch()

    def _pause(self, seconds: float) -> None:
        """Give a person time to read."""
        if self._viewer.is_screen:
            self._watch_until(time.monotonic() + seconds)

    def _watch_until(self, end: float) -> None:
        self._moved_at = time.monotonic()  # waiting on purpose is not a stall
        while time.monotonic() < end:
            self._watch()

    def _watch(self) -> None:
        """Take new changes and counts, and show them."""
        story = self._story
        before = story.board.changes, story.processed
        self._producer.poll(0)
        for watch in self._watches:
            for message in watch.receive(POLL_SECONDS / len(self._watches)):
                self._viewer.take(message)
        now = time.monotonic()
        if now - self._counted_at > _COUNTS_SECONDS:
            self._counted_at = now
            story.take_counts(self._worker.counts())
        if before != (story.board.changes, story.processed):
            self._moved_at = now
        elif now - max(self._moved_at, story.started_at or 0.0) > STILL_SECONDS:
            raise Crash(f"nothing happened for {STILL_SECONDS} s: {self._worker.last_words()}")
        self._viewer.update()


def _of_the_page() -> tuple[int | None, dict[str, str]]:
    """The port that the environment names, and its variables for the page. Raises SetupError."""
    settings = Settings.from_environment()
    own = {
        "COVERSUMM_REVIEW_URL": settings.review_url,
        "COVERSUMM_WEB_ORIGINS": settings.web_origins,
    }
    port = None if origins()["web_port"] == "default" else settings.web_port
    return port, {name: value for name, value in own.items() if value}


@contextmanager
def _noting_interrupts() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        sys.stderr.write("interrupted; everything is removed again\n")
        raise
