"""What is known after some messages, and the reasons, which say what the messages prove."""

import pytest

from tests.view.changes import body, facets_body
from worker.events import Record
from worker.events.publishing import FACETS, SUMMARIES
from worker.view.changes import ENTITIES, Board, change_lines, headline

DELETED = {"cause": "review.deleted"}
SINGLE = {"cause": "sentences.deleted", "review": None}
CLOSER = "it is closer to what most say than what it pushes out"
SHIFTED = "shifted the average: another sentence is closer to it now"


def message(value, entity_id="e"):
    return Record("t", 0, 0, 0, entity_id.encode(), value)


def take(board, value, entity_id="e", **more):
    return board.take(message(value, entity_id), board.kind, **more)


def texts_of(letters):
    """Upper case letters are other texts of the same sentences."""
    return {f"{letter.lower()}#0": letter for letter in letters}


def change(before, after, **facts):
    """The change of a summary from one set to another."""
    board, old, new = Board(), texts_of(before), texts_of(after)
    if before:
        assert take(board, body("e", 0, old, list(old)), is_change=False) == []
    added = [identifier for identifier in new if old.get(identifier) != new[identifier]]
    removed = [identifier for identifier in old if new.get(identifier) != old[identifier]]
    (made,) = take(board, body("e", 1, new, added, removed, **facts))
    return made


@pytest.mark.parametrize(
    ("before", "after", "facts", "reason"),
    [
        ("ab", "nb", {"review": "n"}, f"review n came in: {CLOSER}"),
        ("ab", "bc", {"review": "n"}, f"review n came in and {SHIFTED}"),
        ("ab", "abn", {"review": "n"},
         "review n came in: the summary still has room for what it says"),
        ("", "n", {"review": "n", "previous": None},
         "review n came in: the first sentences of the summary"),
        ("ab", "b", {"review": "n"}, "review n came in: 1 sentence left the summary"),
        ("ab", "Ab", {"review": "a"}, "review a was edited: 1 old sentence left the summary"),
        ("ab", "bc", {"review": "a"}, "review a was edited: 1 old sentence left the summary,"
         " another sentence entered"),
        ("ab", "bc", {"review": "a", **DELETED},
         "review a was taken down: its sentence is gone, this one entered"),
        ("ab", "b", {"review": "a", **DELETED}, "review a was taken down: its sentence is gone"),
        ("ab", "bc", {"review": "x", **DELETED}, f"review x was taken down, which {SHIFTED}"),
        ("ab", "b", {"review": "x", **DELETED},
         "review x was taken down: 1 sentence left the summary"),
        ("ab", "b", SINGLE, "single sentences were taken down: 1 sentence left the summary"),
        ("ab", "", {"cause": "entity.deleted", "review": None},
         "entity deleted: nothing is left to summarize"),
        ("ab", "nb", {"review": "n", "occurred_at": "2018-05-03T00:00:00Z"},
         f"review n (3 May 2018) came in: {CLOSER}"),
        ("ab", "nb", {"review": "n\x1b", "occurred_at": "2018-02-30T00:00:00Z"},
         f"review n came in and {SHIFTED}"),
    ],
)  # fmt: skip
def test_reasons(before, after, facts, reason):
    assert headline(change(before, after, **facts)) == reason


def test_a_change_has_the_sentences_that_came_and_left_in_lines_that_are_safe():
    board = Board()
    take(board, body("e\n", 1, {"a#0": "One\x1b[31m.\nTwo."}, ["a#0"], previous=None), "e\n")
    changes = take(board, body("e\n", 2, {"b#0": "\x07B"}, ["b#0"], ["a#0"], review="b"), "e\n")
    assert change_lines(*changes) == [
        f"e: review b came in: {CLOSER}",
        "  - One [31m. Two.",
        "  + B",
    ]
    assert (board.changes, board.entities["e\n"].changes) == (2, 2)
    assert board.latest[0] is changes[0]


def test_of_an_unknown_set_before_no_reason_is_made_up():
    board = Board(FACETS)
    (made,) = take(board, facets_body("e", 5, {"news": texts_of("a")}, ["news"], previous=3))
    assert change_lines(made) == ["e, news: review.upserted: what came and left is not known here"]


def test_a_tombstone_ends_an_entity_and_only_so_many_are_known():
    board = Board()
    value = body("e", 0, texts_of("a"), ["a#0"], previous=None)
    for number in range(ENTITIES + 1):
        take(board, value.replace(b'"e"', b'"e%d"' % number), f"e{number}")
    assert (len(board.entities), "e0" in board.entities) == (ENTITIES, False)
    assert take(board, None, "e7") == []
    assert "e7" not in board.entities


def test_a_change_of_a_facet_in_one_language_is_none_of_the_others():
    board = Board(FACETS)
    before = {("parking", "en"): texts_of("a"), ("parking", "fr"): texts_of("b")}
    assert len(take(board, facets_body("e", 5, before, ["parking"], previous=3))) == 2
    two = before | {("parking", "fr"): texts_of("c")}
    (made,) = take(board, facets_body("e", 6, two, ["parking"], previous=5))
    assert (made.name.facet, [it.text for it in made.added]) == ("parking (fr)", ["c"])
    assert [it.text for it in made.removed] == ["b"]
    assert list(board.entities["e"].sets) == ["parking (en)", "parking (fr)"]


def test_facets_that_a_message_does_not_change_are_known_after_it():
    """The next one tells what came. A board of summaries knows facets too, and lists none."""
    board, quiet = Board(FACETS), Board(SUMMARIES)
    before = {"parking": texts_of("a"), "noise": texts_of("b")}
    take(board, facets_body("e", 5, before, ["parking"], previous=3))
    value = facets_body(
        "e", 6, before | {"noise": texts_of("c")}, ["noise"], previous=5, review="c"
    )
    assert change_lines(*take(board, value)) == [
        f"e, noise: review c came in: {CLOSER}",
        "  - b",
        "  + c",
    ]
    take(quiet, body("e", 1, texts_of("a"), ["a#0"], previous=None))
    assert quiet.take(message(value), FACETS) == []
    assert (list(quiet.entities["e"].sets), quiet.changes) == ([None, "parking", "noise"], 1)
