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
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final
from urllib.parse import quote

from worker.demo.closing import PROGRAM, print_closing
from worker.demo.embedded import EmbeddedWorker
from worker.demo.reviews import ATTRIBUTION, FACETS, bundled_reviews, take_down
from worker.errors import Crash, many
from worker.events import SummaryChanged
from worker.events.publishing import TOPICS
from worker.published.watching import TopicWatch
from worker.settings import Settings
from worker.storage.verify import verify_data_dir
from worker.view import output
from worker.view.changes import Board
from worker.view.texts import ending_signals
from worker.view.viewer import Viewer
from worker.web.server import free_port

FIRST_PER_SECOND: Final = 1.5  # reviews on a screen at the start; each of them adds 1 to the rate
AHEAD: Final = 120  # events sent ahead of the worker: few, so that counts on a screen are current
DELETIONS: Final = 2  # each with time to read
BEFORE_SECONDS: Final = 0.8
AFTER_SECONDS: Final = 1.8
POLL_SECONDS: Final = 0.05
BATCH_SIZE: Final = 60  # few events in a micro-batch, so that changes come all the time


def run_demo(reviews: int, k: int) -> None:
    """Run the demo on standard output with this number of the bundled reviews. Its processes and
    files are removed at the end, also after a CoversummError, Ctrl-C, SIGTERM or SIGHUP.
    """
    promise = (
        f"for each stay the {k} sentences closest to what most guests say, exact after every "
        "review, exactly once"
    )
    introduction = (
        "Real reviews of Airbnb stays go through the real worker, on an embedded Kafka broker. It "
        f"keeps {promise}. Soon here: one stay, and what guests say about subjects such as "
        "parking or noise; below it what just left its summary (-) and came to it (+), and why.",
        ATTRIBUTION,
    )
    console = output.console()
    viewer = Viewer(console, Board(), introduction=introduction, pause=1.0, leads=True)
    try:
        with ending_signals(), ExitStack() as stage:
            play = Play(stage, viewer, bundled_reviews()[:reviews], k)
            stage.enter_context(viewer)
            viewer.say(f"{PROGRAM} demo: {promise}. {ATTRIBUTION}")
            play.wait_until_ready()
            play.send_reviews()
            play.take_reviews_down()
            play.verify()
    except KeyboardInterrupt:
        output.note("interrupted; everything is removed again")
        raise
    print_closing(console, viewer, play.overview, play.outcome())


class Play:
    """The scenes of the demo. Each raises Crash or SetupError if the worker ends or stalls."""

    def __init__(
        self, stage: ExitStack, viewer: Viewer, reviews: list[tuple[bytes, bytes]], k: int
    ) -> None:
        """Start broker and worker, to be ended with the stage. Raises SetupError."""
        temporary = TemporaryDirectory(prefix="coversumm-demo-", ignore_cleanup_errors=True)
        directory = Path(stage.enter_context(temporary))
        port = free_port("127.0.0.1")
        settings = Settings(
            k=k, facets=FACETS, batch_size=BATCH_SIZE, batch_linger_ms=20, web_port=port
        )
        self._worker = stage.enter_context(EmbeddedWorker(directory, settings))
        settings = self._worker.settings
        watches = (TopicWatch(settings, from_beginning=True, kind=kind) for kind in TOPICS)
        self._watches = [stage.enter_context(watch) for watch in watches]
        self.overview: bytes | None = None  # of the largest stay, in JSON
        self._scene, self._leads = "", True  # the stay with the most reviews is shown
        self._viewer, self._reviews = viewer, reviews
        self._received = self._verified = 0
        self._started_at = self._ended_at = time.monotonic()

    def wait_until_ready(self) -> None:
        """Wait until the worker has loaded its model and joined its group."""
        self._begin("The worker is starting: it loads its model, joins its group.")
        while self._worker.get("readyz") is None:
            self._watch()

    def send_reviews(self) -> None:
        """Send reviews, never far ahead of the worker, and on a live screen slowly at first."""
        self._begin("Guests' reviews arrive, slowly at first, as events on Kafka.")
        self._started_at = time.monotonic()
        for number, review in enumerate(self._reviews):
            if self._viewer.is_screen:
                self._watch_until(self._started_at + math.log1p(number / FIRST_PER_SECOND))
            while self._worker.sent - self._worker.count("events") >= AHEAD:
                self._watch()
            self._worker.send(*review)
        self._catch_up()

    def take_reviews_down(self) -> None:
        """Take down the review of the first sentence of the largest summaries, one by one."""
        self._begin("Some reviews are taken down: what they say must leave.")
        self._viewer.pause, self._leads = 0.0, False
        for summary in self._by_reviews()[:DELETIONS]:
            self._viewer.entity = summary.entity_id
            self._pause(BEFORE_SECONDS)
            self._worker.send(*take_down(summary.entity_id, summary.sentences[0].review_id))
            self._catch_up()
            self._pause(AFTER_SECONDS)
        self._ended_at = time.monotonic()

    def verify(self) -> None:
        """Take an overview, stop the worker, and compare every stored summary with brute force."""
        self._begin("Comparing every stored summary with brute force.")
        self._pause(BEFORE_SECONDS)
        for summary in self._by_reviews()[:1]:
            path = f"entities/{quote(summary.entity_id, safe='')}/summary?view=overview"
            self.overview = self._worker.get(path)
        self._worker.stop()
        for check in verify_data_dir(self._worker.settings.data_dir):
            if check.problems:
                entity = None if check.entity is None else check.entity.entity_id
                raise Crash(f"the stored summary of {entity} is wrong: {check.problems[0]}")
            self._verified += 1

    def outcome(self) -> list[str]:
        """The outcome, for people."""
        seconds = self._ended_at - self._started_at
        return [
            f"{self._in_and_out()} in {seconds:.0f} s. Verified: the stored summaries of "
            f"{many(self._verified, 'stays')} equal brute force over all their sentences; "
            f"{many(self._worker.count('dead_letters'), 'dead letters')}.",
            f"It ran on an embedded broker; everything is removed again. {ATTRIBUTION}.",
        ]

    def _by_reviews(self) -> list[SummaryChanged]:
        """The summaries that have sentences, those of the most reviews first."""
        known = (entity.summary for entity in self._viewer.board.entities.values())
        found = [summary for summary in known if summary and summary.sentences]
        return sorted(found, key=lambda summary: (-summary.review_count, summary.entity_id))

    def _in_and_out(self) -> str:
        reviews = min(self._worker.count("events"), len(self._reviews))
        taken_down = self._worker.count("events") - reviews
        down = f", {taken_down:,} taken down" if taken_down else ""
        changes = many(self._viewer.board.changes, "changes")
        return f"{many(reviews, 'reviews')} in{down}, {changes} out"

    def _begin(self, scene: str) -> None:
        self._scene = scene
        self._viewer.say(scene)
        self._update()

    def _update(self) -> None:
        share = min(self._worker.count("events") / (len(self._reviews) + DELETIONS), 1.0)
        self._viewer.update(f"{PROGRAM} demo", self._in_and_out(), [self._scene], share)

    def _catch_up(self) -> None:
        """Watch until all events are processed, and all that was published is received."""
        while self._worker.count("events") < self._worker.sent or self._received < sum(
            self._worker.count(f"{kind}_changes") for kind in ("summary", "facets")
        ):
            self._watch()

    def _pause(self, seconds: float) -> None:
        """Give a person time to read."""
        if self._viewer.is_screen:
            self._watch_until(time.monotonic() + seconds)

    def _watch_until(self, end: float) -> None:
        while time.monotonic() < end:
            self._watch()
            self._worker.moved_at = time.monotonic()  # waiting on purpose is not a stall

    def _watch(self) -> None:
        """Take new changes and counts, and show them."""
        for watch in self._watches:
            for message in watch.receive(POLL_SECONDS / len(self._watches)):
                self._viewer.take(message, watch.kind)
                self._received += message.value is not None
        if self._leads:
            self._viewer.entity = next((summary.entity_id for summary in self._by_reviews()), None)
        self._worker.observe(self._received)
        self._update()
