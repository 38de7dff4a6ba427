"""`ask` and `trend`: what a worker answers, as JSON and for people."""

import json

import pytest

from tests.cli.web_worker import ANSWER, RISEN


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
