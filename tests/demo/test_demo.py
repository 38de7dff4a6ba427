"""The demo as its audience has it: a process that is started, watched, interrupted, killed."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from urllib.parse import quote
from urllib.request import Request

import pytest

from tests.harness.eventually import eventually
from tests.harness.long import one_of
from tests.harness.node import free_port
from tests.harness.patience import PATIENCE_SECONDS
from worker.demo.reviews import ATTRIBUTION, bundled_reviews


class Demo:
    """A demo whose temporary files are all in one directory."""

    def __init__(self, directory, *arguments, **environment):
        self.directory = directory
        self.process = subprocess.Popen(
            [sys.executable, "-m", "worker", "demo", "--k", "3", *arguments],
            env={**os.environ, "TMPDIR": str(directory), **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def finish(self):
        out, err = self.process.communicate(timeout=PATIENCE_SECONDS)
        return self.process.returncode, out, err

    def wait_for_a_change(self):
        """Wait for the first line about a change."""
        while " came in: " not in self.process.stdout.readline():
            assert self.process.poll() is None

    def children(self):
        """Its worker's process id, by what it was started with."""
        found = subprocess.run(
            ["pgrep", "-f", f"worker.cli.child {self.directory}/"], capture_output=True, text=True
        )
        return [int(pid) for pid in found.stdout.split()]

    def wait_until_nothing_is_left(self):
        def left():
            return [*self.children(), *self.directory.iterdir()]

        eventually(lambda: not left(), left)


@pytest.fixture
def start(tmp_path):
    started = []

    def begin(*arguments, **environment):
        started.append(Demo(tmp_path, *arguments, **environment))
        return started[-1]

    yield begin
    for demo in started:
        demo.process.kill()
        demo.process.communicate()


def test_reviews_become_summaries_and_some_are_taken_down(start):
    """Its lines have the names of stays, counts, reasons, and an overview."""
    demo = start("--reviews", "60")
    code, out, err = demo.finish()
    assert (code, err) == (0, "")
    for line in (
        r"coversumm-worker demo: for each stay the 3 sentences .*",
        r"\d+ reviews in, \d+ changes out",
        r"Elizabeth's room: review abnb:\d+ was taken down: its .*",
        r"  - \w.*",
        r"  \+ \w.*",
        r"[\w' ]+ \d+ reviews, \d+ sentences",
        r"location +\d+ mentions +\w.*",
    ):
        assert re.search(f"^{line}$", out, re.M), line
    told = " ".join(out.split())
    assert re.search(r" 60 reviews in, 2 taken down, \d+ changes out in \d+ s\. Verified: ", told)
    assert " equal brute force over all their sentences; 0 dead letters. " in told
    assert ATTRIBUTION in told
    assert "\x1b" not in out
    closing = out.partition("What guests say")[2].partition("Next, ")[0]
    assert max(map(len, closing.splitlines())) <= 80
    demo.wait_until_nothing_is_left()


@pytest.mark.long
def test_whoever_has_read_enough_ends_it_quietly(start):
    """As a user types it: `demo | head -1`."""
    demo = start("--reviews", "20")
    assert demo.process.stdout.readline().startswith("coversumm-worker demo: ")
    demo.process.stdout.close()
    assert demo.process.stderr.read() == ""
    assert demo.process.wait(PATIENCE_SECONDS) == 0
    demo.wait_until_nothing_is_left()


@pytest.mark.long
@pytest.mark.parametrize(
    "number", one_of([signal.SIGINT, signal.SIGTERM, signal.SIGHUP]), ids=lambda s: s.name
)
def test_an_interrupted_demo_leaves_nothing_behind(start, number):
    demo = start()
    demo.wait_for_a_change()
    assert demo.children()
    demo.process.send_signal(number)
    code, _, err = demo.finish()
    assert code == 130
    assert err == "interrupted; everything is removed again\n"
    demo.wait_until_nothing_is_left()


@pytest.mark.long
def test_a_killed_demo_leaves_nothing_behind(start):
    demo = start()
    demo.wait_for_a_change()
    demo.process.kill()
    demo.wait_until_nothing_is_left()


@pytest.mark.long
def test_a_killed_worker_ends_the_demo(start):
    demo = start()
    demo.wait_for_a_change()
    (worker,) = demo.children()
    os.kill(worker, signal.SIGKILL)
    code, _, err = demo.finish()
    assert code == 3
    assert err.startswith("coversumm-worker: error: the demo's worker ended with exit code -9")
    demo.wait_until_nothing_is_left()


def test_what_the_worker_complains_about_is_told(start):
    demo = start("--reviews", "10", COVERSUMM_BATCH_SIZ="7")
    code, _, err = demo.finish()
    assert code == 2
    assert err == (
        "coversumm-worker: error: COVERSUMM_BATCH_SIZ: there is no such setting; "
        "COVERSUMM_BATCH_SIZE is the nearest: rename or unset\n"
    )
    demo.wait_until_nothing_is_left()


def test_reviews_are_events_in_the_order_of_their_days():
    reviews = bundled_reviews()
    events = [json.loads(value) for _, value in reviews]
    assert len(events) == 4771
    assert {event["type"] for event in events} == {"review.upserted"}
    days = [event["occurred_at"] for event in events]
    assert days == sorted(days)
    assert [event["entity_id"].encode() for event in events] == [key for key, _ in reviews]
    assert "Elizabeth's room" in {event["entity_id"] for event in events}


def test_its_page_stays_up_until_ctrl_c(start):
    """The demo prints the page's address first, with the port that is set. The page has the other
    settings, too. The demo ends in order, with every summary verified.
    """
    port = free_port()
    of_page = {"review_url": "https://shop.example/{review_id}", "web_origins": "https://a.example"}
    settings = {f"COVERSUMM_{name.upper()}": text for name, text in of_page.items()}
    demo = start("--reviews", "20", "--serve", COVERSUMM_WEB_PORT=str(port), **settings)
    line = demo.process.stderr.readline()
    address = line.split()[2]
    assert line.startswith(f"the page: http://127.0.0.1:{port}/ ")

    def entities():
        with (
            contextlib.suppress(OSError),
            urllib.request.urlopen(f"{address}page/entities", timeout=5) as answer,
        ):
            return json.load(answer)["entities"]

    eventually(entities)
    with urllib.request.urlopen(address, timeout=30) as answer:
        assert b"page/page.js" in answer.read()
    with urllib.request.urlopen(f"{address}widget.js", timeout=30) as answer:
        assert of_page["review_url"] in answer.read().decode()
    while "The page stays up" not in demo.process.stdout.readline():
        assert demo.process.poll() is None
    found = entities()
    asked = Request(
        f"{address}entities/{quote(found[0]['entity_id'])}/summary",
        headers={"Origin": of_page["web_origins"]},
    )
    with urllib.request.urlopen(asked, timeout=30) as answer:
        assert answer.headers["Access-Control-Allow-Origin"] == of_page["web_origins"]
    demo.process.send_signal(signal.SIGINT)
    code, out, _ = demo.finish()
    assert code == 0
    assert "Verified: the stored summaries" in " ".join(out.split())
    demo.wait_until_nothing_is_left()
