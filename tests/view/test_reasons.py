"""The reasons say what the messages prove."""

import pytest

from tests.view.changes import summary
from worker.view.board import Board, EntityNames
from worker.view.reasons import headline, why_come, why_gone
from worker.view.screen import change_lines

BEFORE = {"a#0": "1", "b#0": "2"}
DELETED = {"cause": "review.deleted"}
SINGLE = {"cause": "sentences.deleted", "review": None}
CLOSER = "it is closer to what most say than what it pushes out"
SHIFTED = "shifted the average: another sentence is closer to it now"


def change(texts, added=(), removed=(), before=BEFORE, **facts):
    board = Board()
    if before:
        board.begin_with(summary("e", 0, before, list(before)))
    return board.take(summary("e", 1, texts, added, removed, **facts), 1.0)


@pytest.mark.parametrize(
    ("after", "before", "facts", "reason", "come", "gone"),
    [
        ("nb", "ab", {"review": "n"}, f"review n came in: {CLOSER}", "new", "pushed out"),
        ("bc", "ab", {"review": "n"}, f"review n came in and {SHIFTED}", "entered", "pushed out"),
        ("abn", "ab", {"review": "n"},
         "review n came in: the summary still has room for what it says", "new", None),
        ("n", "", {"review": "n", "previous": None}, "review n came in: the first summary", "new",
         None),
        ("Ab", "ab", {"review": "a"}, "review a was edited: its old words are gone", "edited",
         "edited away"),
        ("bc", "ab", {"review": "a"},
         "review a was edited: its old words are gone, another sentence entered", "entered",
         "edited away"),
        ("bc", "ab", {"review": "a", **DELETED},
         "review a was taken down: its sentence is gone, this one entered", "entered",
         "taken down"),
        ("b", "ab", {"review": "a", **DELETED}, "review a was taken down: its sentence is gone",
         None, "taken down"),
        ("bc", "ab", {"review": "x", **DELETED}, f"review x was taken down, which {SHIFTED}",
         "entered", "pushed out"),
        ("b", "ab", SINGLE, "single sentences were taken down: 1 left the summary", None, "gone"),
        ("", "ab", {"cause": "entity.deleted", "review": None},
         "entity deleted: nothing is left to summarize", None, "gone"),
    ],
)  # fmt: skip
def test_reasons(after, before, facts, reason, come, gone):
    """Sets as letters; an upper case letter is another text of the same sentence."""
    old, new = texts_of(before), texts_of(after)
    added = [one for one in new if old.get(one) != new[one]]
    removed = [one for one in old if new.get(one) != old[one]]
    made = change(new, added, removed, before=old, **facts)
    assert headline(made, EntityNames()) == reason
    assert {why_come(made, one) for one in made.added} == ({come} if come else set())
    assert {why_gone(made, one) for one in made.removed_ids} == ({gone} if gone else set())


def texts_of(letters):
    return {f"{one.lower()}#0": one for one in letters}


@pytest.mark.parametrize(
    ("after", "before", "facts", "reason"),
    [
        ("b", "ab", {"review": "n"}, "review n came in: one sentence left the facet"),
        ("", "ab", {"review": "n"}, "review n came in: 2 sentences left the facet"),
        ("b", "ab", {"review": "a"}, "review a was edited: one sentence of it left the facet"),
        ("cb", "ab", {"review": "a"},
         "review a was edited: one sentence of it left the facet, another sentence entered"),
        ("Ab", "ab", {"review": "a"}, "review a was edited: its old words are gone"),
        ("b", "ab", {"review": "n", **DELETED},
         "review n was taken down: one sentence left the facet"),
        ("b", "ab", {"review": "a", **DELETED}, "review a was taken down: its sentence is gone"),
        ("abn", "ab", {"review": "n"},
         "review n came in: the facet still has room for what it says"),
        ("n", "", {"review": "n", "previous": None},
         "review n came in: the first sentences of the facet"),
        ("b", "ab", SINGLE, "single sentences were taken down: 1 left the facet"),
    ],
)  # fmt: skip
def test_reasons_of_facets(after, before, facts, reason):
    board = Board()
    board.begin_with(summary("e", 0, texts_of(before), list(texts_of(before))), "news")
    made = board.take(summary("e", 1, texts_of(after), **facts), 1.0, "news")
    assert headline(made, EntityNames()) == reason


def test_of_an_unknown_set_before_no_reason_is_made_up():
    made = Board().take(summary("e", 9, BEFORE, review="n"), 1.0, "news")
    assert headline(made, EntityNames()) == (
        "review.upserted: what came and left is not known here"
    )
    assert change_lines(made, EntityNames())[0].startswith("e, news: ")


@pytest.mark.parametrize(
    ("occurred_at", "shown"),
    [
        ("2018-05-03T00:00:00Z", "review 7 (3 May 2018) came"),
        ("2018-02-30T00:00:00Z", "review 7 came"),
        (None, "review 7 came"),
    ],
)
def test_the_day_is_shown_where_it_is_known(occurred_at, shown):
    made = change({"x:7#0": "New."}, ["x:7#0"], review="x:7", occurred_at=occurred_at)
    assert headline(made, EntityNames(prefix="x:")).startswith(shown)


def test_plain_lines_have_name_reason_and_sentences():
    made = change({"n#0": "New\x1b[2J.", "b#0": "2"}, ["n#0"], ["a#0"], review="n")
    assert change_lines(made, EntityNames({"e": "Earl's loft"})) == [
        "Earl's loft: review n came in: it is closer to what most say than what it pushes out",
        "  - 1",
        "  + New [2J.",
    ]
