"""`compare` of files: counts, examples, exit codes, and what is no file of summaries."""

import gzip
import json
import os
import threading

import pytest

from tests.harness.terminal import CONTROL
from tests.view.changes import body, facets_body

FOUR = {f"r{i}#0": f"Sentence {i}." for i in range(4)}
HOSTILE = "[bold]Good\x1b[2J\u202e"


def build(**entities):
    return [body(name, i, texts) for i, (name, texts) in enumerate(entities.items())]


@pytest.fixture
def a(write):
    return write("a.jsonl", build(same=FOUR, other=FOUR, gone=FOUR, empty={}))


@pytest.fixture
def b(write):
    changed = {**FOUR, "r1#0": HOSTILE}
    del changed["r2#0"]
    return write("b.jsonl.gz", build(same=FOUR, other=changed, come=FOUR))


def report(ended, code=0):
    assert ended.code == code, ended.err
    return json.loads(ended.out)


def test_two_files(run, a, b):
    ended = run("compare", a, b)
    found = report(ended)
    assert ended.err == ""
    assert (found["a"], found["b"]) == (str(a), str(b))
    names = (
        "entities",
        "equal",
        "contained",
        "changed",
        "missing_in_a",
        "missing_in_b",
        "beyond",
        "ok",
    )
    assert [found[name] for name in names] == [4, 1, 0, 1, 1, 1, 3, None]
    assert found["differing"] == {"0": 1, "2": 1}
    assert (found["some_missing_in_a"], found["some_missing_in_b"]) == (["come"], ["gone"])
    (example,) = found["examples"]
    assert (example["entity_id"], example["differing"], example["both"]) == ("other", 2, 2)
    assert [sentence["sentence_id"] for sentence in example["only_a"]] == ["r1#0", "r2#0"]
    assert [sentence["text"] for sentence in example["only_b"]] == [HOSTILE]


@pytest.mark.parametrize(
    ("bound", "code"),
    [("75%", 0), ("74.9%", 1), ("3", 0), ("2", 1), ("0", 1), ("100%", 0), ("0%", 1)],
)
def test_the_bound(run, a, b, bound, code):
    ended = run("compare", a, b, "--max-changed", bound)
    assert report(ended, code)["ok"] == (code == 0)
    assert ended.err.count("\n") == code
    assert ("3 of 4 entities are changed or missing (75.00 %)" in ended.err) == (code == 1)


@pytest.mark.parametrize("bound", ["many", "-1", "1.5", "101%", "%", "nan%", "nan", "inf"])
def test_a_bound_that_is_none(run, a, bound):
    ended = run("compare", a, a, "--max-changed", bound)
    assert ended.code == 2
    assert "neither a number of entities like 12 nor a share like 5%" in ended.err


def test_facets(run, write, terminal):
    """Each facet of an entity counts; an empty one is none."""
    sets = {"parking": FOUR, "noise": FOUR, "host": {}}
    a = write("a.jsonl", [body("e", 0, FOUR), facets_body("e", 0, sets)])
    b = write("b.jsonl", [facets_body("e", 7, {"parking": FOUR, "host": FOUR})])
    found = report(run("compare", a, b, "--facets", "--max-changed", "1"), 1)
    names = ("entities", "equal", "identical", "missing_in_a", "missing_in_b", "ok")
    assert [found[name] for name in names] == [3, 1, 1, 1, 1, False]
    assert found["some_missing_in_a"] == [{"entity_id": "e", "facet": "host"}]
    b = write("b.jsonl", [facets_body("e", 7, sets | {"noise": {**FOUR, "r1#0": HOSTILE}})])
    (example,) = report(run("compare", a, b, "--facets"))["examples"]
    assert (example["entity_id"], example["facet"], example["differing"]) == ("e", "noise", 1)
    terminal()
    shown = CONTROL.sub("", run("compare", a, b, "--facets").out)
    assert "e, noise: 1 differ, 3 in both" in shown
    assert "\nfacets " in shown
    ended = run("compare", a, a, "--facets", "--max-changed", "0")
    assert ended.code == 0


def test_nothing_to_compare(run, write):
    a = write("a.jsonl", build(one={}))
    ended = run("compare", a, write("b.jsonl", []), "--max-changed", "5%")
    assert report(ended, 1)["ok"] is False
    assert "nothing to compare" in ended.err


def test_a_pipe_is_read_once(run, a, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    ended = run("compare", a, pipe)
    assert (ended.code, ended.out) == (2, "")
    assert "--examples 0" in ended.err
    writer = threading.Thread(target=pipe.write_bytes, args=[a.read_bytes()])
    writer.start()
    assert report(run("compare", a, pipe, "--examples", "0"))["identical"] == 3
    writer.join()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("reviews.jsonl", b'{"entity_id": "e", "review_id": "r", "text": "Good."}\n', "line 1 of"),
        ("late.jsonl", body("e", 0, FOUR) + b"\n\n{}\n", "line 3 of"),
        ("torn.jsonl", body("e", 0, FOUR)[:-9], "line 1 of"),
        ("latin.jsonl", b'{"type":"summary.changed","entity_id":"\xff"}', "line 1 of"),
        ("table.csv", b"entity_id,text\ne,Good.\n", "is a table: expected one body per line"),
        ("list.jsonl", b"[1,\n2]", "looks like"),
        ("cut.jsonl.gz", gzip.compress(body("e", 0, FOUR) * 500)[:-20], "cannot be read"),
    ],
)  # fmt: skip
def test_what_is_no_file_of_summaries(run, a, tmp_path, name, content, message):
    path = tmp_path / name
    path.write_bytes(content)
    ended = run("compare", a, path)
    assert (ended.code, ended.out) == (2, "")
    assert message in ended.err
    assert name in ended.err
    assert ended.err.count("\n") == 1


def test_a_file_that_is_not_there(run, a):
    ended = run("compare", a, "none.jsonl")
    assert ended.code == 2
    assert "there is no file none.jsonl" in ended.err
    assert ended.err.count("\n") == 1
