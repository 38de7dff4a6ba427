"""`history` of files: changes with texts, times, limits, and what is missing."""

import json

import pytest

from tests.view.changes import body, facets_body

DAYS = [f"2026-11-{day:02d}T12:00:00Z" for day in range(1, 5)]
BODIES = [
    body("e", 1, {"a#0": "It was lovely."}, ["a#0"], review="a", previous=None,
     occurred_at=DAYS[0]),
    body("other", 2, {"z#0": "Loud."}, ["z#0"], review="z", previous=None, occurred_at=DAYS[0]),
    body("e", 3, {"a#0": "It was lovely.", "b#0": "Near\x1b[2J."}, ["b#0"], review="b", previous=1,
     occurred_at=DAYS[1]),
    body("e", 5, {"b#0": "Near\x1b[2J."}, [], ["a#0"], "review.deleted", review="a", previous=3),
    body("e", 8, {}, [], ["b#0"], "entity.deleted", review=None, previous=5, occurred_at=DAYS[2]),
    body("e", 9, {"c#0": "Again."}, ["c#0"], review="c", previous=None, occurred_at=DAYS[3]),
]  # fmt: skip


@pytest.fixture
def file(write):
    return write("changes.jsonl.gz", BODIES)


def rows(ended, code=0):
    assert ended.code == code, ended.err
    return [json.loads(line) for line in ended.out.splitlines()]


def sequences(ended):
    return [row["sequence"] for row in rows(ended)]


def test_all_of_it(run, file):
    ended = run("history", "e", "--from", file)
    found = rows(ended)
    assert ended.err == ""
    assert [row["sequence"] for row in found] == [1, 3, 5, 8, 9]
    assert [row["cause"]["type"] for row in found[2:4]] == ["review.deleted", "entity.deleted"]
    assert found[1]["added_texts"] == {"b#0": "Near\x1b[2J."}
    assert found[2]["removed_texts"] == {"a#0": "It was lovely."}
    assert {row["published_at"] for row in found} == {None}
    assert found[3]["occurred_at"] == DAYS[2]
    assert not any(row["incomplete"] or row["tombstone"] for row in found)


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        (["--limit", "2"], [8, 9]),
        (["--since", "2026-11-02"], [3, 5, 8, 9]),
        (["--since", "2026-11-02T12:00:00.001Z"], [8, 9]),
        (["--until", "2026-11-02T12:00:00Z"], [1]),
        (["--until", "2026-11-03"], [1, 3, 5]),
        (["--since", "2026-11-02", "--until", "2026-11-04"], [3, 5, 8]),
        (["--since", "2026-11-02", "--limit", "1"], [9]),
    ],
)
def test_some_of_it(run, file, options, wanted):
    """A change without a time lies where it stands."""
    assert sequences(run("history", "e", "--from", file, *options)) == wanted


def test_what_was_before_the_time_is_not_known(run, file):
    ended = run("history", "e", "--from", file, "--since", "2026-11-03")
    first = rows(ended)[0]
    assert (first["incomplete"], first["removed_texts"]) == (True, {"b#0": None})
    assert "before --since" in ended.err


def test_what_is_missing_is_told(run, write):
    ended = run("history", "e", "--from", write("last.jsonl", [BODIES[0], BODIES[4]]))
    assert [row["incomplete"] for row in rows(ended)] == [False, True]
    assert "not in" in ended.err
    assert "last.jsonl" in ended.err


@pytest.mark.parametrize("options", [[], ["--until", "2020-01-01"]])
def test_nothing_of_it(run, file, options):
    ended = run("history", "e" if options else "nobody", "--from", file, *options)
    assert rows(ended, 1) == []
    assert "there is nothing published of" in ended.err
    assert ("in that time" in ended.err) == bool(options)


def test_times_that_contradict(run, file):
    ended = run("history", "e", "--from", file, "--since", "2026-11-03", "--until", "2026-11-03")
    assert ended.code == 2
    assert "--until is not after --since" in ended.err


FACETS = [
    facets_body("e", 1, {"parking": {"a#0": "Easy."}, "noise": {}}, ["parking"], previous=None,
                review="a", occurred_at=DAYS[0]),
    facets_body("e", 5, {"parking": {"a#0": "Easy."}, "noise": {"b#0": "Loud\x1b[2J."}}, ["noise"],
                previous=1, review="b", occurred_at=DAYS[1]),
    facets_body("e", 9, {"noise": {"b#0": "Loud\x1b[2J."}, "parking": {}}, ["parking"], previous=5,
                cause="review.deleted", review="a", occurred_at=DAYS[2]),
]  # fmt: skip


@pytest.fixture
def both(write):
    """As `summarize --facets` writes it."""
    return write("both.jsonl", [BODIES[0], FACETS[0], BODIES[2], FACETS[1], FACETS[2]])


def test_facets_in_place_of_the_summary(run, both):
    found = rows(run("history", "e", "--from", both, "--facets"))
    assert [(row["facet"], row["sequence"], row["added"], row["removed"]) for row in found] == [
        ("parking", 1, ["a#0"], []),
        ("noise", 5, ["b#0"], []),
        ("parking", 9, [], ["a#0"]),
    ]
    assert found[2]["removed_texts"] == {"a#0": "Easy."}
    assert not any(row["incomplete"] for row in found)
    summaries = rows(run("history", "e", "--from", both))
    assert [(row["facet"], row["sequence"]) for row in summaries] == [(None, 1), (None, 3)]
