"""The demo: real reviews through the real worker on an embedded broker; some are taken down again.

    bundled reviews -> embedded broker (in this process) -> `run` (a child process, RocksDB in a
    temporary directory)
                              |-> changes of summaries and facets -> viewer

Reviews are sent only a little ahead of the worker, so that the viewer shows what is happening. The
demo removes its processes and files.
"""

from __future__ import annotations

import math
import time
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final
from urllib.parse import quote

from worker.demo.closing import PROGRAM, print_closing
from worker.demo.process import WorkerProcess
from worker.demo.reviews import ATTRIBUTION, FACETS, bundled_reviews, take_down
from worker.errors import Crash, many
from worker.events import SummaryChanged
from worker.events.publishing import TOPICS
from worker.kafka.clients import KafkaClients
from worker.kafka.topics import topic_specs
from worker.published.watching import TopicWatch
from worker.settings import Settings, origins, settings_by_field
from worker.storage.verify import verify_data_dir
from worker.view import output
from worker.view.changes import Board
from worker.view.texts import ending_signals
from worker.view.viewer import Viewer

FIRST_PER_SECOND: Final = 1.5  # reviews on a screen at the start; each of them adds 1 to the rate
AHEAD: Final = 120  # events sent ahead of the worker: few, so that counts on a screen are current
DELETIONS: Final = 2  # each with time to read
BEFORE_SECONDS: Final = 0.8
AFTER_SECONDS: Final = 1.8
POLL_SECONDS: Final = 0.05
COUNTS_SECONDS: Final = 0.2  # seconds between two requests for the worker's metrics
STILL_SECONDS: Final = 90  # seconds without progress before the demo fails
OF_PAGE: Final = ("web_port", "review_url", "web_origins")
# A producer that has a Kafka broker in threads of its library: librdkafka's mock cluster.
BROKER: Final = {"test.mock.num.brokers": 1, "partitioner": "murmur2_random", "linger.ms": 5}
WORKER: Final = {
    "COVERSUMM_FACETS": FACETS,
    "COVERSUMM_BATCH_SIZE": "60",  # few events, so that changes come all the time
    "COVERSUMM_BATCH_LINGER_MS": "20",
}


def run_demo(reviews: int, k: int, is_served: bool = False) -> None:
    """Run the demo on standard output with this number of the bundled reviews.

    `is_served`: the worker's page stays up until Ctrl-C. Its processes and files are removed at the
    end, also after a CoversummError, Ctrl-C, SIGTERM or SIGHUP.
    """
    promise = (
        f"for each stay the {k} sentences closest to what most guests say, exact after every "
        "review, exactly once"
    )
    introduction = (
        "Real reviews of Airbnb stays go through the real worker, on an embedded Kafka broker. It "
        f"keeps {promise}. Soon here: what just left a summary (-) and came to it (+), and why; "
        "below it one stay, with what guests say about subjects such as parking or noise.",
        ATTRIBUTION,
    )
    console = output.console()
    viewer = Viewer(console, Board(), introduction=introduction, pause=1.0)
    try:
        with ending_signals(), ExitStack() as stage:
            play = Play(stage, viewer, bundled_reviews()[:reviews], k, is_served)
            stage.enter_context(viewer)
            viewer.say(f"{PROGRAM} demo: {promise}. {ATTRIBUTION}")
            play.wait_until_ready()
            with suppress(KeyboardInterrupt) if is_served else nullcontext():
                play.send_reviews()
                play.take_reviews_down()
                if is_served:
                    play.serve()
            play.verify()
    except KeyboardInterrupt:
        output.note("interrupted; everything is removed again")
        raise
    print_closing(console, viewer, play.overview, play.outcome())


class Play:
    """The scenes of the demo. Each raises Crash or SetupError if the worker ends or stalls."""

    def __init__(
        self,
        stage: ExitStack,
        viewer: Viewer,
        reviews: list[tuple[bytes, bytes]],
        k: int,
        is_served: bool,
    ) -> None:
        """Start broker and worker, to be ended with the stage. Raises SetupError."""
        temporary = TemporaryDirectory(prefix="coversumm-demo-", ignore_cleanup_errors=True)
        directory = Path(stage.enter_context(temporary))
        settings = Settings(data_dir=directory, k=k, facets=FACETS)
        self._producer = KafkaClients(settings).producer(BROKER)
        for spec in topic_specs(settings).values():  # a lookup creates a topic, of 4 partitions
            brokers = self._producer.list_topics(spec.name, STILL_SECONDS).brokers
        servers = ",".join(f"{one.host}:{one.port}" for one in brokers.values())
        settings = replace(settings, bootstrap_servers=servers)
        own = {"KAFKA_BOOTSTRAP_SERVERS": servers, "COVERSUMM_K": str(k)}
        page = _page_settings() if is_served else {}
        self._worker = stage.enter_context(WorkerProcess(directory, {**WORKER, **own, **page}))
        watches = (TopicWatch(settings, from_beginning=True, kind=kind) for kind in TOPICS)
        self._watches = [stage.enter_context(watch) for watch in watches]
        if is_served:
            output.note(f"the page: {self._worker.url} (up until Ctrl-C)")
        self.overview: bytes | None = None  # of the largest stay, in JSON
        self._state = [*([self._worker.url] if is_served else []), ""]  # the scene is the last line
        self._viewer, self._reviews, self._input_topic = viewer, reviews, settings.input_topic
        self._counts: dict[str, float] = {}  # the worker's metrics
        self._sent = self._received = self._verified = 0
        self._moved_at = self._started_at = time.monotonic()
        self._count_at = 0.0
        self._ended_at: float | None = None  # time after the last event, or of Ctrl-C

    def wait_until_ready(self) -> None:
        """Wait until the worker has loaded its model and joined its group."""
        self._begin("The worker is starting: it loads its model, joins its group.")
        while self._worker.get("readyz") is None:
            self._watch()

    def send_reviews(self) -> None:
        """Send reviews, never far ahead of the worker, and on a live screen slowly at first."""
        self._begin("Guests' reviews arrive, slowly at first, as events on Kafka.")
        self._started_at = self._moved_at = time.monotonic()
        for number, review in enumerate(self._reviews):
            if self._viewer.is_screen:
                self._watch_until(self._started_at + math.log1p(number / FIRST_PER_SECOND))
            while self._sent - self._count("events") >= AHEAD:
                self._watch()
            self._send(*review)
        self._catch_up()

    def take_reviews_down(self) -> None:
        """Take down the review of the first sentence of the largest summaries, one by one."""
        self._begin("Some reviews are taken down: what they say must leave.")
        self._viewer.pause = 0.0
        for summary in self._by_reviews()[:DELETIONS]:
            self._viewer.entity = summary.entity_id
            self._pause(BEFORE_SECONDS)
            self._send(*take_down(summary.entity_id, summary.sentences[0].review_id))
            self._catch_up()
            self._pause(AFTER_SECONDS)
        self._ended_at = time.monotonic()

    def serve(self) -> None:
        """Keep the worker's page up until Ctrl-C."""
        self._begin("All of it is in. The page stays up until Ctrl-C.")
        self._watch_until(math.inf)

    def verify(self) -> None:
        """Take an overview, stop the worker, and compare every stored summary with brute force."""
        if self._ended_at is None:  # Ctrl-C during the reviews
            self._ended_at = time.monotonic()
        self._begin("Comparing every stored summary with brute force.")
        self._pause(BEFORE_SECONDS)
        for summary in self._by_reviews()[:1]:
            path = f"entities/{quote(summary.entity_id, safe='')}/summary?view=overview"
            self.overview = self._worker.get(path)
        self._worker.stop()
        for check in verify_data_dir(self._worker.data_dir):
            if check.problems:
                entity = None if check.entity is None else check.entity.entity_id
                raise Crash(f"the stored summary of {entity} is wrong: {check.problems[0]}")
            self._verified += 1

    def outcome(self) -> list[str]:
        """The outcome, for people."""
        seconds = 0.0 if self._ended_at is None else self._ended_at - self._started_at
        return [
            f"{self._in_and_out()} in {seconds:.0f} s. Verified: the stored summaries of "
            f"{many(self._verified, 'stays')} equal brute force over all their sentences; "
            f"{many(self._count('dead_letters'), 'dead letters')}.",
            f"It ran on an embedded broker; everything is removed again. {ATTRIBUTION}.",
        ]

    def _count(self, metric: str) -> int:
        return int(self._counts.get(f"coversumm_{metric}_total", 0))

    def _by_reviews(self) -> list[SummaryChanged]:
        """The summaries that have sentences, those of the most reviews first."""
        known = (one.summary for one in self._viewer.board.entities.values())
        found = [summary for summary in known if summary and summary.sentences]
        return sorted(found, key=lambda one: (-one.review_count, one.entity_id))

    def _in_and_out(self) -> str:
        reviews = min(self._count("events"), len(self._reviews))
        taken_down = self._count("events") - reviews
        down = f", {taken_down:,} taken down" if taken_down else ""
        changes = many(self._viewer.board.changes, "changes")
        return f"{many(reviews, 'reviews')} in{down}, {changes} out"

    def _begin(self, scene: str) -> None:
        self._state[-1] = scene
        self._viewer.say(scene)
        self._update()

    def _update(self) -> None:
        share = min(self._count("events") / (len(self._reviews) + DELETIONS), 1.0)
        self._viewer.update(f"{PROGRAM} demo", self._in_and_out(), self._state, share)

    def _send(self, key: bytes, value: bytes) -> None:
        self._producer.produce(self._input_topic, value, key)
        self._sent += 1

    def _catch_up(self) -> None:
        """Watch until all events are processed, and all that was published is received."""
        if self._producer.flush(STILL_SECONDS):
            raise Crash("the embedded broker does not take the reviews")
        while self._count("events") < self._sent or self._received < sum(
            self._count(f"{kind}_changes") for kind in ("summary", "facets")
        ):
            self._watch()

    def _pause(self, seconds: float) -> None:
        """Give a person time to read."""
        if self._viewer.is_screen:
            self._watch_until(time.monotonic() + seconds)

    def _watch_until(self, end: float) -> None:
        while time.monotonic() < end:
            self._watch()
            self._moved_at = time.monotonic()  # waiting on purpose is not a stall

    def _watch(self) -> None:
        """Take new changes and counts, and show them."""
        before = self._received, self._count("events")
        self._producer.poll(0)
        for watch in self._watches:
            for message in watch.receive(POLL_SECONDS / len(self._watches)):
                self._viewer.take(message, watch.kind)
                self._received += message.value is not None
        now = time.monotonic()
        if now >= self._count_at:
            self._count_at = now + COUNTS_SECONDS
            self._counts = self._worker.counts() or self._counts
        if before != (self._received, self._count("events")):
            self._moved_at = now
        elif now - self._moved_at > STILL_SECONDS:
            raise Crash(f"nothing happened for {STILL_SECONDS} s: {self._worker.last_words()}")
        self._update()


def _page_settings() -> dict[str, str]:
    """The variables of the page that are set here."""
    given, source, known = Settings.from_environment(), origins(), settings_by_field()
    fields = (field for field in OF_PAGE if source[field] != "default")
    return {known[field].variable: str(getattr(given, field)) for field in fields}
