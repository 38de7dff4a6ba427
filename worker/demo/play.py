"""The demo: real reviews through the real worker on an embedded broker; some are taken down again.

    bundled reviews -> embedded broker (in this process) -> `run` (a child process, RocksDB in a
    temporary directory)
                              |-> changes of summaries and facets -> viewer

Reviews are sent only a little ahead of the worker, so that the viewer shows what is happening. The
demo removes its processes and files.
"""

from __future__ import annotations

import json
import math
import shutil
import sys
import tempfile
import time
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from worker.demo.broker import EmbeddedBroker
from worker.demo.closing import PROGRAM, print_closing
from worker.demo.process import WorkerProcess
from worker.demo.reviews import ATTRIBUTION, FACETS, Produced, bundled_reviews, take_down
from worker.errors import Crash, many
from worker.events import SummaryChanged
from worker.events.publishing import SUMMARIES, TOPICS
from worker.kafka.clients import KafkaClients
from worker.kafka.topics import topic_specs
from worker.published.watching import TopicWatch
from worker.settings import Settings, origins
from worker.storage.verify import verify_data_dir
from worker.view.changes import Board
from worker.view.texts import ending_signals, one_line
from worker.view.viewer import Viewer

FIRST_PER_SECOND: Final = 1.5  # reviews on a screen at the start; each of them adds 1 to the rate
HURRIED: Final = 60  # reviews after which a person cannot follow every one
BRIEF_SECONDS: Final = 11.0  # seconds of reviews in a brief demo: a thousand on two idle processors
AHEAD: Final = 120  # events sent ahead of the worker: few, so that counts on a screen are current
DELETIONS: Final = 2  # each with time to read
BEFORE_SECONDS: Final = 0.8
AFTER_SECONDS: Final = 1.8
POLL_SECONDS: Final = 0.05
COUNTS_SECONDS: Final = 0.2  # seconds between two requests for the worker's metrics
STILL_SECONDS: Final = 90  # seconds without progress before the demo fails
PARTITIONS: Final = 4


def run_demo(
    reviews: int | None, k: int, as_json: bool, is_brief: bool = False, is_served: bool = False
) -> None:
    """Run the demo on standard output with this number of the bundled reviews, or all (None).

    `is_brief`: leaves out reviews that a slow machine does not process in time. `is_served`: the
    worker's page stays up until Ctrl-C. Its processes and files are removed at the end, also after
    a CoversummError, Ctrl-C, SIGTERM or SIGHUP.
    """
    # people see ids on screens and on the page, so there a stay's name is its id
    chosen = bundled_reviews(by_name=is_served or not as_json)[:reviews]
    console, board = Console(highlight=False, emoji=False, markup=False), Board()
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
    viewer = Viewer(console, board, as_json=as_json, introduction=introduction, is_brief=True)
    with ending_signals(), ExitStack() as stage:
        stage.push(_note_interrupt)
        settings, worker = _start(stage, k, is_served)
        with viewer:
            viewer.say(f"{PROGRAM} demo: {promise}. {ATTRIBUTION}")
            play = Play(board, viewer, worker, settings, chosen, is_served)
            stage.callback(play.close)
            play.wait_until_ready()
            with suppress(KeyboardInterrupt) if is_served else nullcontext():
                play.send_reviews(BRIEF_SECONDS if is_brief else math.inf)
                play.take_reviews_down()
                if is_served:
                    play.serve()
            play.verify()
    if as_json:
        viewer.write(json.dumps(play.figures(), ensure_ascii=False))
    else:
        print_closing(console, viewer, play.overview, play.outcome())


def _note_interrupt(kind: type[BaseException] | None, *_: object) -> None:
    if kind is KeyboardInterrupt:
        sys.stderr.write("interrupted; everything is removed again\n")


def _start(stage: ExitStack, k: int, is_served: bool) -> tuple[Settings, WorkerProcess]:
    """Start broker and worker, to be ended with the stage. Raises SetupError."""
    directory = Path(tempfile.mkdtemp(prefix="coversumm-demo-"))
    stage.callback(shutil.rmtree, directory, ignore_errors=True)
    settings = Settings(data_dir=directory, k=k, facets=FACETS)
    topics = {spec.name: PARTITIONS for spec in topic_specs(settings).values()}
    broker = stage.enter_context(EmbeddedBroker(topics, rebalance_delay_ms=100))
    variables = {
        "KAFKA_BOOTSTRAP_SERVERS": broker.bootstrap_servers,
        "COVERSUMM_K": str(k),
        "COVERSUMM_FACETS": FACETS,
        "COVERSUMM_BATCH_SIZE": "60",  # few events, so that changes come all the time
        "COVERSUMM_BATCH_LINGER_MS": "20",
    }
    port = None
    if is_served:
        given = Settings.from_environment()
        port = None if origins()["web_port"] == "default" else given.web_port
        if given.review_url:
            variables["COVERSUMM_REVIEW_URL"] = given.review_url
        if given.web_origins:
            variables["COVERSUMM_WEB_ORIGINS"] = given.web_origins
    worker = stage.enter_context(WorkerProcess(directory, variables, port))
    if is_served:
        sys.stderr.write(f"the page: {worker.url}/ (up until Ctrl-C)\n")
        sys.stderr.flush()
    return replace(settings, bootstrap_servers=broker.bootstrap_servers), worker


class Play:
    """The scenes of the demo. Each raises Crash or SetupError if the worker ends or stalls."""

    def __init__(
        self,
        board: Board,
        viewer: Viewer,
        worker: WorkerProcess,
        settings: Settings,
        reviews: list[Produced],
        is_served: bool = False,
    ) -> None:
        self.overview: dict[str, Any] | None = None  # of the largest stay, in JSON
        self._board = board
        self._viewer = viewer
        self._worker = worker
        self._input_topic = settings.input_topic
        self._reviews = reviews
        self._page = (f"{worker.url}/",) if is_served else ()
        self._scene = ""
        self._producer = KafkaClients(settings).producer(
            {"partitioner": "murmur2_random", "linger.ms": 5}
        )
        self._watches = [TopicWatch(settings, from_beginning=True, kind=kind) for kind in TOPICS]
        self._counts: dict[str, float] = {}  # the worker's metrics
        self._sent = self._facets_seen = self._verified = self._left_out = 0
        self._moved_at = self._started_at = time.monotonic()
        self._counted_at = 0.0
        self._ended_at: float | None = None  # time after the last event, or of Ctrl-C

    def close(self) -> None:
        """End the reading of what the worker publishes."""
        for watch in self._watches:
            watch.close()

    def wait_until_ready(self) -> None:
        """Wait until the worker has loaded its model and joined its group."""
        self._begin("The worker is starting: it loads its model, joins its group.")
        deadline = time.monotonic() + STILL_SECONDS
        while not self._worker.is_ready():
            if time.monotonic() > deadline:
                raise Crash(f"the demo's worker is not ready: {self._worker.last_words()}")
            self._update()
            time.sleep(POLL_SECONDS)

    def send_reviews(self, seconds: float) -> None:
        """Send reviews for at most `seconds`, never far ahead of the worker.

        On a live screen they come slowly at first.
        """
        self._begin("Guests' reviews arrive, slowly at first, as events on Kafka.")
        self._started_at = time.monotonic()
        for number, review in enumerate(self._reviews):
            if number == HURRIED:
                self._begin("Faster: the more is known, the less a review changes.")
            if self._viewer.is_screen:
                self._watch_until(self._started_at + math.log1p(number / FIRST_PER_SECOND))
            while self._sent - self._processed >= AHEAD:
                self._watch()
            if time.monotonic() - self._started_at > seconds:
                self._left_out = len(self._reviews) - number
                del self._reviews[number:]
                break
            self._send(review)
        self._catch_up()

    def take_reviews_down(self) -> None:
        """Take down the review of the first sentence of the largest summaries, one by one."""
        self._begin("Some reviews are taken down: what they say must leave.")
        self._viewer.is_brief = False
        for stay, summary in self._by_reviews()[:DELETIONS]:
            self._viewer.entity = stay
            self._pause(BEFORE_SECONDS)
            self._send(take_down(stay, summary.sentences[0].review_id))
            self._catch_up()
            self._pause(AFTER_SECONDS)
        self._ended_at = time.monotonic()

    def serve(self) -> None:
        """Keep the worker's page up until Ctrl-C."""
        self._begin("All of it is in. The page stays up until Ctrl-C.")
        while True:
            self._worker.check()
            self._update()
            time.sleep(POLL_SECONDS)

    def verify(self) -> None:
        """Take an overview, stop the worker, and compare every stored summary with brute force."""
        if self._ended_at is None:  # Ctrl-C during the reviews
            self._ended_at = time.monotonic()
        self._begin("Comparing every stored summary with brute force.")
        self._pause(BEFORE_SECONDS)
        stays = self._by_reviews()
        self.overview = self._worker.overview(stays[0][0]) if stays else None
        self._worker.stop()
        for check in verify_data_dir(self._worker.data_dir):
            if check.problems:
                entity = None if check.entity is None else check.entity.entity_id
                raise Crash(f"the stored summary of {entity} is wrong: {check.problems[0]}")
            self._verified += 1

    def outcome(self) -> list[str]:
        """The outcome, for people."""
        reviews = len(self._reviews)
        left_out = (
            f"{many(self._left_out, 'reviews')} were left out, since this machine is slow or busy "
            f"now: `demo --reviews {reviews + self._left_out}` sends all."
        )
        return [
            f"{self._in_and_out()} in {self._seconds():.0f} s. Verified: the stored summaries of "
            f"{many(self._verified, 'stays')} equal brute force over all their sentences; "
            f"{many(self._count('dead_letters'), 'dead letters')}.",
            *([left_out] if self._left_out else []),
            f"It ran on an embedded broker; everything is removed again. {ATTRIBUTION}.",
        ]

    def figures(self) -> dict[str, Any]:
        """The figures of the last JSON line."""
        seconds = max(self._seconds(), 1e-9)
        return {
            "type": "demo.done",
            "events": self._processed,
            "seconds": round(seconds, 2),
            "events_per_second": round(self._processed / seconds, 1),
            "sentences_embedded_per_second": round(self._count("embedded_sentences") / seconds, 1),
            "summary_changes": self._board.changes,
            "facets_changes": self._facets_seen,
            "dead_letters": self._count("dead_letters"),
            "entities_verified": self._verified,
            "entities": [
                {
                    "entity_id": stay,
                    "reviews": summary.review_count,
                    "sentences": summary.sentence_count,
                    "changes": self._board.entities[stay].changes,
                    "first_sentence": one_line(summary.sentences[0].text),
                }
                for stay, summary in sorted(self._by_reviews())
            ],
        }

    @property
    def _processed(self) -> int:
        return self._count("events")

    def _count(self, metric: str) -> int:
        return int(self._counts.get(f"coversumm_{metric}_total", 0))

    def _seconds(self) -> float:
        return 0.0 if self._ended_at is None else self._ended_at - self._started_at

    def _by_reviews(self) -> list[tuple[str, SummaryChanged]]:
        """The ids and summaries of the stays that have one, those with the most reviews first."""
        summaries = ((one.entity_id, one.summary) for one in self._board.entities.values())
        known = [(stay, summary) for stay, summary in summaries if summary and summary.sentences]
        return sorted(known, key=lambda one: (-one[1].review_count, one[0]))

    def _in_and_out(self) -> str:
        reviews = min(self._processed, len(self._reviews))
        taken_down = self._processed - reviews
        down = f", {taken_down:,} taken down" if taken_down else ""
        return f"{many(reviews, 'reviews')} in{down}, {many(self._board.changes, 'changes')} out"

    def _begin(self, scene: str) -> None:
        self._scene = scene
        self._viewer.say(scene)
        self._update()

    def _update(self) -> None:
        share = min(self._processed / (len(self._reviews) + DELETIONS), 1.0)
        state = (*self._page, self._scene)
        self._viewer.update(f"{PROGRAM} demo", self._in_and_out(), state, share)

    def _send(self, event: Produced) -> None:
        self._producer.produce(self._input_topic, event.value, event.key)
        self._sent += 1

    def _catch_up(self) -> None:
        """Watch until all events are processed, and all that was published is received."""
        if self._producer.flush(STILL_SECONDS):
            raise Crash("the embedded broker does not take the reviews")
        while (
            self._processed < self._sent
            or self._board.changes < self._count("summary_changes")
            or self._facets_seen < self._count("facets_changes")
        ):
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
        before = self._board.changes, self._processed
        self._producer.poll(0)
        for watch in self._watches:
            for message in watch.receive(POLL_SECONDS / len(self._watches)):
                self._viewer.take(message, self._board.take(message, watch.kind))
                self._facets_seen += watch.kind is not SUMMARIES
        now = time.monotonic()
        if now - self._counted_at > COUNTS_SECONDS or not self._processed:
            self._counted_at = now
            self._counts = self._worker.counts() or self._counts
        if before != (self._board.changes, self._processed):
            self._moved_at = now
        elif now - max(self._moved_at, self._started_at) > STILL_SECONDS:
            raise Crash(f"nothing happened for {STILL_SECONDS} s: {self._worker.last_words()}")
        self._update()
