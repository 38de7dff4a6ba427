"""The demo as its audience has it: a process that is started, watched, interrupted, killed."""

import json
import os
import re
import signal

import pytest

from worker.demo.reviews import ATTRIBUTION, bundled_reviews


def wait_for_a_change(demo):
    """Wait for the first line about a change."""
    while " came in: " not in demo.process.stdout.readline():
        assert demo.process.poll() is None


def test_reviews_become_summaries_and_some_are_taken_down(start):
    """Its lines have the names of stays, counts, reasons, and an overview."""
    demo = start("demo", "--k", "3", "--reviews", "60")
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
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP], ids=lambda s: s.name)
def test_an_interrupted_demo_leaves_nothing_behind(start, number):
    demo = start("demo")
    wait_for_a_change(demo)
    assert demo.children()
    demo.process.send_signal(number)
    code, _, err = demo.finish()
    assert code == 130
    assert err == "interrupted; everything is removed again\n"
    demo.wait_until_nothing_is_left()


@pytest.mark.long
def test_a_killed_demo_leaves_nothing_behind(start):
    demo = start("demo")
    wait_for_a_change(demo)
    demo.process.kill()
    demo.wait_until_nothing_is_left()


@pytest.mark.long
def test_a_killed_worker_ends_the_demo(start):
    demo = start("demo")
    wait_for_a_change(demo)
    (worker,) = demo.children()
    os.kill(worker, signal.SIGKILL)
    code, _, err = demo.finish()
    assert code == 3
    assert err.startswith("coversumm-worker: error: the worker ended with exit code -9")
    demo.wait_until_nothing_is_left()


def test_what_the_worker_complains_about_is_told(start):
    demo = start("demo", "--k", "3", "--reviews", "10", COVERSUMM_BATCH_SIZ="7")
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
