"""The demo as its audience has it: a process that is started, watched, interrupted, killed."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections import Counter
from urllib.parse import quote
from urllib.request import Request

import pytest

from tests.harness.eventually import eventually
from tests.harness.long import one_of
from tests.harness.node import free_port
from tests.harness.patience import PATIENCE_SECONDS
from worker.demo.reviews import ATTRIBUTION, bundled_reviews, stay_names

CODE = """
import sys
from worker.demo.play import run_demo
from worker.errors import CoversummError
try:
    is_served = sys.argv[2:] == ["json", "serve"]
    sys.exit(run_demo(int(sys.argv[1]), 3, sys.argv[2] == "json", is_served=is_served))
except KeyboardInterrupt:
    sys.exit(130)
except CoversummError as error:
    sys.exit(f"{error.exit_code} {error}")
"""


class Demo:
    """A demo whose temporary files are all in one directory."""

    def __init__(self, directory, reviews, *form, **environment):
        self.directory = directory
        self.process = subprocess.Popen(
            [sys.executable, "-c", CODE, str(reviews), *form],
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
        line = self.process.stdout.readline()
        assert json.loads(line)["type"] in ("summary.changed", "facets.changed")

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

    def begin(reviews, *form, **environment):
        started.append(Demo(tmp_path, reviews, *(form or ("json",)), **environment))
        return started[-1]

    yield begin
    for demo in started:
        demo.process.kill()
        demo.process.communicate()


def test_reviews_become_summaries_and_some_are_taken_down(start):
    demo = start(60)
    code, out, err = demo.finish()
    assert (code, err) == (0, "")
    *published, done = map(json.loads, out.splitlines())
    changes = [one for one in published if one["type"] == "summary.changed"]
    of_facets = [one for one in published if one["type"] == "facets.changed"]
    assert {facet["name"] for one in of_facets for facet in one["facets"]} >= {"parking", "noise"}
    last = {}
    for change in changes:
        assert change["previous_sequence"] == last.get(change["entity_id"], {}).get("sequence")
        assert change["k"] == 3
        last[change["entity_id"]] = change
    deletions = [c for c in changes if c["cause"]["type"] == "review.deleted"]
    assert deletions
    for deletion in deletions:
        final = last[deletion["entity_id"]]["sentences"]
        assert deletion["cause"]["review_id"] not in {sentence["review_id"] for sentence in final}
    assert done["events"] > 60
    assert done["dead_letters"] == 0
    assert done["summary_changes"] == len(changes)
    assert done["facets_changes"] == len(of_facets)
    assert done["entities_verified"] == len(done["entities"]) == len(last)
    changes_by_entity = Counter(change["entity_id"] for change in changes)
    assert {
        entity["entity_id"]: entity["changes"] for entity in done["entities"]
    } == changes_by_entity
    demo.wait_until_nothing_is_left()


def test_whoever_has_read_enough_ends_it_quietly(tmp_path):
    """As a user types it: `demo | head -1`."""
    demo = subprocess.Popen(
        [sys.executable, "-m", "worker", "demo", "--reviews", "20"],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with demo:
        assert demo.stdout.readline().startswith(b"coversumm-worker demo: ")
        demo.stdout.close()
        assert demo.stderr.read() == b""
        assert demo.wait(PATIENCE_SECONDS) == 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "number", one_of([signal.SIGINT, signal.SIGTERM, signal.SIGHUP]), ids=lambda s: s.name
)
def test_an_interrupted_demo_leaves_nothing_behind(start, number):
    demo = start(1000)
    demo.wait_for_a_change()
    assert demo.children()
    demo.process.send_signal(number)
    code, _, err = demo.finish()
    assert code == 130
    assert err == "interrupted; everything is removed again\n"
    demo.wait_until_nothing_is_left()


def test_a_killed_demo_leaves_nothing_behind(start):
    demo = start(1000)
    demo.wait_for_a_change()
    demo.process.kill()
    demo.wait_until_nothing_is_left()


def test_a_killed_worker_ends_the_demo(start):
    demo = start(1000)
    demo.wait_for_a_change()
    (worker,) = demo.children()
    os.kill(worker, signal.SIGKILL)
    code, _, err = demo.finish()
    assert code == 1
    assert err.startswith("3 the demo's worker ended with exit code -9")
    demo.wait_until_nothing_is_left()


def test_what_the_worker_complains_about_is_told(start):
    demo = start(10, COVERSUMM_BATCH_SIZ="7")
    code, _, err = demo.finish()
    assert code == 1
    assert err == (
        "2 COVERSUMM_BATCH_SIZ: there is no such setting; COVERSUMM_BATCH_SIZE is the nearest: "
        "rename or unset\n"
    )
    demo.wait_until_nothing_is_left()


def test_a_brief_demo_in_a_pipe_sends_no_more_than_there_is_time_for(tmp_path):
    """A demo of a second ends long before all reviews are in, and reports those that arrived and
    how many did not. Its lines have the names of stays, counts, reasons, and an overview.
    """
    code = (
        "from worker.demo import play\nplay.BRIEF_SECONDS = 1.0\nplay.run_demo(None, 3, False, "
        "is_brief=True)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )
    assert (done.returncode, done.stderr) == (0, "")
    told = " ".join(done.stdout.split())
    outcome = re.search(
        r"([\d,]+) reviews in, [\w ,]* out in \d+ s\. .* ([\d,]+) reviews were left out, since",
        told,
    )
    assert outcome is not None
    came, left = (int(one.replace(",", "")) for one in outcome.groups())
    assert 0 < came < came + left == 4771
    assert "`demo --reviews 4771` sends all" in told
    for line in (
        r"\d+ reviews in, \d+ changes out",
        r"Elizabeth's room: review abnb:\d+ was taken down: its .*",
        r"  - \w.*",
        r"What guests say of \w+'s \w+ +\d+ reviews, \d+ sentences",
        r"location +\d+ mentions +\w.*",
    ):
        assert re.search(f"^{line}$", done.stdout, re.M), line
    assert ATTRIBUTION in told
    assert "\x1b" not in done.stdout
    closing = done.stdout.partition("What guests say")[2].partition("Next, ")[0]
    assert max(map(len, closing.splitlines())) <= 80
    assert list(tmp_path.iterdir()) == []


def test_reviews_are_events_in_the_order_of_their_days():
    events = [json.loads(review.value) for review in bundled_reviews()]
    assert len(events) == 4771
    assert {event["type"] for event in events} == {"review.upserted"}
    days = [event["occurred_at"] for event in events]
    assert days == sorted(days)
    named = bundled_reviews(by_name=True)
    assert [stay_names()[event["entity_id"]].encode() for event in events] == [
        review.key for review in named
    ]


def test_its_page_stays_up_until_ctrl_c(start):
    """The demo prints the page's address first, with the port that is set. The page shows the names
    of the terminal. The demo ends in order, with every summary verified.
    """
    port = free_port()
    of_page = {"review_url": "https://shop.example/{review_id}", "web_origins": "https://a.example"}
    settings = {f"COVERSUMM_{name.upper()}": text for name, text in of_page.items()}
    demo = start(20, "json", "serve", COVERSUMM_WEB_PORT=str(port), **settings)
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
    lines = []
    while not any('"cause":{"type":"review.deleted"' in line for line in lines):
        lines.append(demo.process.stdout.readline())
    assert demo.process.poll() is None
    with urllib.request.urlopen(f"{address}page/entities", timeout=30) as answer:
        found = json.load(answer)["entities"]
    assert {one["entity_id"] for one in found} <= set(stay_names().values())
    origin = {"Origin": of_page["web_origins"]}
    asked = Request(f"{address}entities/{quote(found[0]['entity_id'])}/summary", headers=origin)
    with urllib.request.urlopen(asked, timeout=30) as answer:
        assert answer.headers["Access-Control-Allow-Origin"] == of_page["web_origins"]
    demo.process.send_signal(signal.SIGINT)
    code, out, _ = demo.finish()
    assert code == 0
    assert json.loads(out.splitlines()[-1])["entities_verified"] == len(found) > 0
    demo.wait_until_nothing_is_left()
