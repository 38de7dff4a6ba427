"""`ask` and `trend`: what a worker answers, as JSON and for people."""

import json

import pytest

from tests.cli.stored import store_rows
from tests.cli.web_worker import ANSWER, RISEN
from tests.harness.drive import Driver, upsert
from tests.processing.test_trend import complained
from worker.storage.snapshot import PARTIAL_KEY


@pytest.fixture
def asked(run, port):
    return lambda *given: run(*given, "--url", f"http://127.0.0.1:{port}")


def test_an_answer(asked, terminal):
    ended = asked("ask", "x", "Is it quiet?", "--rating-max", "3", "--json")
    assert (ended.code, json.loads(ended.out), ended.err) == (0, ANSWER, "")
    terminal()
    shown = asked("ask", "x", "Is it quiet?", "--rating-max", "3")
    assert shown.code == 0
    assert "0.60" in shown.out
    assert "Grün." in shown.out
    assert "at least 1 of 2 reviews speak of it; 1 have the word 'quiet'" in shown.out


@pytest.mark.parametrize(
    ("given", "code", "said"),
    [
        (("x", "casino"), 1, "nobody says so, of 2 reviews; 1 have the word 'quiet'"),
        (("x", "any"), 0, "the nearest of 2 reviews: the model declares no cosines that answer"),
        (("x", "quiet", "--since", "x"), 2, "answers 400: since is a date"),
        (("nobody", "quiet"), 1, "there is no entity 'nobody'"),
    ],
)
def test_other_ends(asked, terminal, given, code, said):
    terminal()
    ended = asked("ask", *given)
    assert ended.code == code
    assert said in ended.out + ended.err


def test_a_trend(asked, terminal):
    ended = asked("trend", "x", "--by", "quarter", "--json")
    assert (ended.code, json.loads(ended.out)) == (0, RISEN)
    assert asked("trend", "nobody").code == 1
    terminal()
    shown = asked("trend", "x", "--by", "quarter")
    assert "2026-Q4" in shown.out
    assert "9 (before 1), rose" in shown.out
    assert "0 (before 0), too few reviews to tell" in shown.out


def test_what_rose_of_all_entities(asked):
    ended = asked("trend", "--rose", "--json")
    (line,) = ended.out.splitlines()
    found = json.loads(line)
    assert (found["entity_id"], found["complaints"]["recent"]) == (RISEN["entity_id"], 9)
    for given in (("trend",), ("trend", "x", "--rose")):
        assert "give ENTITY, or --rose for all entities" in asked(*given).err


def test_what_rose_of_a_data_directory(run, tmp_path):
    rows = dict(complained(12, 30, 2, 60).rows[0].scan(b""))
    store_rows(tmp_path, 0, rows)
    store_rows(tmp_path, 1, rows | {PARTIAL_KEY: b""})
    ended = run("trend", "--rose", "--data-dir", tmp_path, "--json")
    (line,) = map(json.loads, ended.out.splitlines())
    assert (line["entity_id"], line["name"], line["recent_reviews"]) == ("e", "loud", 30)
    assert line["complaints"] == {"recent": 12, "before": 2, "rose": True, "may_have_risen": True}
    assert (ended.code, "partition 1 has no complete rows" in ended.err) == (0, True)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("x",), "--data-dir is for --rose, without --url"),
        (("--rose", "--url", "http://localhost"), "--data-dir is for --rose, without --url"),
        (("--rose",), "there are no facets in this state"),
    ],
)
def test_a_data_directory_that_cannot_be_used(run, tmp_path, given, said):
    driver = Driver()
    driver.run(upsert(0, "r", "one"))
    store_rows(tmp_path, 0, dict(driver.rows[0].scan(b"")))
    ended = run("trend", *given, "--data-dir", tmp_path)
    assert (ended.code, said in ended.err) == (2, True)
