"""The reasons say what the messages prove."""

import pytest

from tests.view.changes import summary
from worker.view.board import Board, EntityNames
from worker.view.reasons import headline, why_come, why_gone
from worker.view.screen import change_lines

BEFORE = {"a#0": "One.", "b#0": "Two."}


def change(texts, added=(), removed=(), before=BEFORE, **facts):
    board = Board()
    if before:
        board.begin_with(summary("e", 0, before, list(before)))
    return board.take(summary("e", 1, texts, added, removed, **facts), 1.0)


@pytest.mark.parametrize(
    ("made", "told", "come", "gone"),
    [
        (
            change({"n#0": "New.", "b#0": "Two."}, ["n#0"], ["a#0"], review="n"),
            "review n came in: it is closer to what most say than what it pushes out",
            ["new"],
            ["pushed out"],
        ),
        (
            change({"b#0": "Two.", "c#0": "Three."}, ["c#0"], ["a#0"], review="n"),
            "review n came in and shifted the average: another sentence is closer to it now",
            ["entered"],
            ["pushed out"],
        ),
        (
            change({**BEFORE, "n#0": "New."}, ["n#0"], review="n"),
            "review n came in: the summary still has room for what it says",
            ["new"],
            [],
        ),
        (
            change({"n#0": "New."}, ["n#0"], before=None, review="n", previous=None),
            "review n came in: the first summary",
            ["new"],
            [],
        ),
        (
            change({"a#0": "One!", "b#0": "Two."}, ["a#0"], ["a#0"], review="a"),
            "review a was edited: its old words are gone",
            ["edited"],
            ["edited away"],
        ),
        (
            change({"b#0": "Two.", "c#0": "Three."}, ["c#0"], ["a#0"], review="a"),
            "review a was edited: its old words are gone, another sentence entered",
            ["entered"],
            ["edited away"],
        ),
        (
            change(
                {"b#0": "Two.", "c#0": "Three."},
                ["c#0"],
                ["a#0"],
                cause="review.deleted",
                review="a",
            ),
            "review a was taken down: its sentence is gone, this one entered",
            ["entered"],
            ["taken down"],
        ),
        (
            change({"b#0": "Two."}, [], ["a#0"], cause="review.deleted", review="a"),
            "review a was taken down: its sentence is gone",
            [],
            ["taken down"],
        ),
        (
            change(
                {"c#0": "3", "d#0": "4"},
                ["c#0", "d#0"],
                ["a#0", "a#1"],
                before={"a#0": "1", "a#1": "2"},
                cause="review.deleted",
                review="a",
            ),
            "review a was taken down: its sentences are gone, 2 others entered",
            ["entered", "entered"],
            ["taken down", "taken down"],
        ),
        (
            change(
                {"b#0": "Two.", "c#0": "3"}, ["c#0"], ["a#0"], cause="review.deleted", review="x"
            ),
            "review x was taken down, which shifted the average: another sentence is closer to it "
            "now",
            ["entered"],
            ["pushed out"],
        ),
        (
            change({"b#0": "Two."}, [], ["a#0"], cause="sentences.deleted", review=None),
            "single sentences were taken down: 1 left the summary",
            [],
            ["gone"],
        ),
        (
            change({}, [], ["a#0", "b#0"], cause="entity.deleted", review=None),
            "entity deleted: nothing is left to summarize",
            [],
            ["gone", "gone"],
        ),
    ],
)
def test_reasons(made, told, come, gone):
    assert headline(made, EntityNames()) == told
    assert [why_come(made, one) for one in made.added] == come
    assert [why_gone(made, one) for one in made.removed_ids] == gone


def facet_change(texts, before=BEFORE, **facts):
    board = Board()
    board.begin_with(summary("e", 0, before, list(before)), "news")
    return board.take(summary("e", 1, texts, **facts), 1.0, "news")


ONE_LEFT = {"b#0": "Two."}


@pytest.mark.parametrize(
    ("made", "told"),
    [
        (facet_change(ONE_LEFT, review="n"), "review n came in: one sentence left the facet"),
        (facet_change({}, review="n"), "review n came in: 2 sentences left the facet"),
        (
            facet_change(ONE_LEFT, review="a"),
            "review a was edited: one sentence of it left the facet",
        ),
        (
            facet_change({"c#0": "Three.", "b#0": "Two."}, review="a"),
            "review a was edited: one sentence of it left the facet, another sentence entered",
        ),
        (
            facet_change({"a#0": "One!", "b#0": "Two."}, review="a"),
            "review a was edited: its old words are gone",
        ),
        (
            facet_change(ONE_LEFT, cause="review.deleted", review="n"),
            "review n was taken down: one sentence left the facet",
        ),
        (
            facet_change(ONE_LEFT, cause="review.deleted", review="a"),
            "review a was taken down: its sentence is gone",
        ),
        (
            facet_change({**BEFORE, "n#0": "New."}, review="n"),
            "review n came in: the facet still has room for what it says",
        ),
        (
            facet_change({"n#0": "New."}, before={}, review="n", previous=None),
            "review n came in: the first sentences of the facet",
        ),
        (
            facet_change(ONE_LEFT, cause="sentences.deleted", review=None),
            "single sentences were taken down: 1 left the facet",
        ),
    ],
)
def test_reasons_of_facets(made, told):
    assert headline(made, EntityNames()) == told


def test_of_an_unknown_set_before_no_reason_is_made_up():
    made = Board().take(summary("e", 9, BEFORE, review="n"), 1.0, "news")
    assert headline(made, EntityNames()) == (
        "review.upserted: what came and left is not known here"
    )
    assert change_lines(made, EntityNames())[0].startswith("e, news: ")


def test_what_was_never_seen_is_not_taken_for_room():
    made = change({"n#0": "New."}, ["n#0"], ["z#0"], before=None, review="n")
    assert headline(made, EntityNames()).endswith("than what it pushes out")


@pytest.mark.parametrize(
    ("occurred_at", "told"),
    [
        ("2018-05-03T00:00:00Z", "review 7 (3 May 2018) came"),
        ("2018-02-30T00:00:00Z", "review 7 came"),
        (None, "review 7 came"),
    ],
)
def test_the_day_is_told_where_it_is_known(occurred_at, told):
    made = change({"x:7#0": "New."}, ["x:7#0"], review="x:7", occurred_at=occurred_at)
    assert headline(made, EntityNames(prefix="x:")).startswith(told)


def test_plain_lines_have_name_reason_and_sentences():
    made = change({"n#0": "New\x1b[2J.", "b#0": "Two."}, ["n#0"], ["a#0"], review="n")
    assert change_lines(made, EntityNames({"e": "Earl's loft"})) == [
        "Earl's loft: review n came in: it is closer to what most say than what it pushes out",
        "  - One.",
        "  + New [2J.",
    ]
