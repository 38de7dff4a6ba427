"""Screens of any size hold what they must, and never a line or a cell too many."""

import io
import random
import re
from itertools import product

import pytest
from msgspec import structs
from rich.console import Console
from rich.text import Text

from tests.view.changes import body, facets_changed
from worker.events import Ratings, Record
from worker.events.json_codec import encode
from worker.events.outputs import Mentions
from worker.events.publishing import FACETS, SUMMARIES
from worker.view.changes import Board
from worker.view.texts import one_line
from worker.view.viewer import REST_SECONDS, Viewer

LONG = (
    "A very long \x1b[31msentence about 日本 and the élan of it all,\nwith a "
    "Wordthatneverendsandnobodycouldsayaloud [bold] "
)


class TerminalFile(io.StringIO):
    def isatty(self):
        return True


def viewer_of(board, width=80, height=24, terminal=True, **options):
    console = Console(
        file=TerminalFile() if terminal else io.StringIO(), force_terminal=terminal,
        width=width, height=height, markup=False, emoji=False,
    )  # fmt: skip
    return Viewer(console, board, **options)


def tell(board, entity_id, before, after, **more):
    """A message that brings the first sentence of `after` and removes the first one of `before`."""
    old, new = next(iter(before)), next(iter(after))
    for number, (texts, added, removed) in enumerate(
        ((before, list(before), []), (after, [new], [old]))
    ):
        review = added[0].rpartition("#")[0]
        value = body(entity_id, number, texts, added, removed, review=review, **more)
        record = Record("out", 0, number, 0, entity_id.encode(), value)
        changes = board.take(record, SUMMARIES, is_change=number > 0)
    return record, changes


def tell_facets(board, entity_id, facets):
    value = facets_changed(entity_id, 9, facets, list(facets))
    parts = [
        structs.replace(facet, mentions=Mentions(93, Ratings(0, None))) for facet in value.facets
    ]
    value = encode(structs.replace(value, facets=[*parts[:1], *value.facets[1:]]))
    board.take(Record("facets", 0, 0, 0, entity_id.encode(), value), FACETS)


SHORT = {f"{letter}#0": f"Sentence {letter} is good." for letter in "abcde"}
BEFORE = {"old#0": "What was said before.", **dict(list(SHORT.items())[1:])}


def plain(lines):
    return [line.plain.rstrip() for line in lines]


def test_a_screen_has_what_just_changed_above_the_overview_of_the_entity():
    board = Board()
    tell(board, "e", BEFORE, SHORT)
    facets = {"parking": {"p#0": "Easy \x1b[31mparking."}, "noise": {"n#0": "Quiet."}, "heat": {}}
    tell_facets(board, "e", facets)
    assert plain(viewer_of(board).screen([Text("head")], 0.0)) == [
        "head",
        "e: review a came in: it is closer to what most say than what it pushes out",
        "  - What was said before.",
        "  + Sentence a is good.",
        *[""] * 4,
        "─" * 80,
        "e                                              5 reviews, 50 sentences, 1 change",
        " 1 + Sentence a is good.",
        " 2   Sentence b is good.",
        " 3   Sentence c is good.",
        " 4   Sentence d is good.",
        " 5   Sentence e is good.",
        "parking  93 mentions   Easy [31mparking.",
        "noise    10 sentences  Quiet.",
    ]


def test_a_screen_may_lead_with_the_overview_above_the_changes_of_its_entity_alone():
    board = Board()
    tell(board, "e", BEFORE, SHORT)
    tell(board, "other", BEFORE, SHORT)
    shown = plain(viewer_of(board, entity="e", leads=True).screen([Text("head")], 0.0))
    assert shown[:3] == [
        "head",
        "e                                              5 reviews, 50 sentences, 1 change",
        " 1 + Sentence a is good.",
    ]
    assert shown[16:] == [
        "─" * 80,
        "e: review a came in: it is closer to what most say than what it pushes out",
        "  - What was said before.",
        "  + Sentence a is good.",
        *[""] * 4,
    ]


def test_sentences_are_cut_where_they_leave_no_room_for_facets():
    board = Board()
    tell(board, "e", BEFORE, {f"{letter}#0": LONG + letter for letter in "abcde"})
    wrapped = plain(viewer_of(board, height=40).screen([], 0.0))
    assert " ".join(" ".join(wrapped).split()).count("aloud [bold]") == 6
    tell_facets(board, "e", {name: {"p#0": "Easy."} for name in ("parking", "noise", "heat")})
    cut = plain(viewer_of(board, height=19).screen([], 0.0))
    starts = [line.split()[0] for line in cut[-8:]]
    assert starts == ["1", "2", "3", "4", "5", "parking", "noise", "heat"]


def test_of_a_deleted_entity_its_last_change_is_shown():
    board = Board()
    tell(board, "e", BEFORE, SHORT, cause="entity.deleted")
    board.take(Record("out", 0, 2, 0, b"e", None), SUMMARIES)
    shown = plain(viewer_of(board, entity="e", introduction=("Nothing.",)).screen([], 0.0))
    assert shown[0] == "e: entity deleted: nothing is left to summarize"
    assert shown[-1] == "Nothing."


def test_no_screen_is_higher_or_wider_than_its_terminal():
    chance, board = random.Random(7), Board()
    for number in range(12):
        texts = {f"r{number}#{i}": LONG * chance.randrange(1, 4) for i in range(20)}
        name = f"e {number} 日本" * chance.randrange(1, 4)
        tell(board, name, BEFORE, texts, k=20)
        tell_facets(board, name, {LONG: texts, "日本" * 9: texts})
    head = [Text("head")] * 3
    for width, height in product([1, 7, 40, 80, 300], [1, 3, 8, 24, 100]):
        viewer = viewer_of(board, width, height)
        for viewer.entity in (*list(board.entities)[:2], "nothing", None):
            lines = viewer.screen([line[:width] for line in head], 1.0)
            assert len(lines) <= height, (width, height)
            assert max(line.cell_len for line in lines) <= width, (width, height)
            assert not set("\n\r\t\x1b").intersection("".join(plain(lines)))


def test_the_entity_that_changed_last_is_shown_for_a_while_and_then_the_next():
    board = Board()
    viewer = viewer_of(board, introduction=("Nothing yet.",))
    assert plain(viewer.screen([], 0.0)) == ["", "Nothing yet."]
    for now, name, shown in ((1.0, "a", "a"), (1.2, "b", "a"), (1.0 + REST_SECONDS, "b", "b")):
        tell(board, name, BEFORE, SHORT)
        assert viewer.screen([], now)[8].plain.split()[0] == shown
    viewer.entity = "a"
    assert viewer.screen([], 99.0)[8].plain.split()[0] == "a"


@pytest.mark.parametrize("is_brief", [False, True])
def test_plain_lines_have_every_change_or_the_newest_of_a_pause(is_brief):
    """Each is printed once, also if counts grow."""
    viewer = viewer_of(Board(), terminal=False, pause=9.0 * is_brief)
    with viewer:
        for name in "abc":
            record, _ = tell(Board(), name, BEFORE, SHORT)
            viewer.take(record, SUMMARIES)
        viewer.update("title", "3 reviews in", ["state"])
        viewer.update("title", "4 reviews in", ["state"])
    lines = viewer._console.file.getvalue().splitlines()
    assert re.findall(r"^(\w): ", "\n".join(lines), re.M) == ["c"] if is_brief else ["a", "b", "c"]
    assert [line for line in lines if "in" in line.split()[-1:]] == ["3 reviews in"] * is_brief
    assert len(lines) == (3 if is_brief else 6)
    viewer.pause = 0.0  # the next change does not wait for the rest of the pause
    viewer.take(record, SUMMARIES)
    viewer.update("title", "5 reviews in", ["state"])
    assert (
        viewer._console.file.getvalue().splitlines()[len(lines)].startswith("c: review a came in")
    )


@pytest.mark.parametrize("dumb", ["dumb", "unknown"])
def test_a_terminal_that_cannot_redraw_gets_lines(monkeypatch, dumb):
    monkeypatch.setenv("TERM", dumb)
    assert not viewer_of(Board()).is_screen


def test_without_colours_marks_are_left(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    board = Board()
    tell(board, "e", BEFORE, SHORT)
    viewer = viewer_of(board)
    with viewer:
        viewer.update("title", "counts", ["state"], 0.5)
    drawn = viewer._console.file.getvalue()
    assert not re.search(r"\x1b\[(?:\d+;)*3[0-7]", drawn)
    assert " 1 + " in re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", drawn)


def test_one_line_is_one_line():
    assert one_line(" a\r\n\tb\x00\x9b\u2028c ") == "a b c"
    assert one_line("Très bien 👍🏼, e\u0301té ❤\ufe0f 日本!") == "Très bien , été 日本!"
