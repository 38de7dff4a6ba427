"""Screens of any size hold what they must, and never a line or a cell too many."""

import io
import random
from itertools import product

from rich.console import Console
from rich.text import Text

from tests.view.changes import summary
from worker.published.publication import SetName
from worker.view.board import REST_SECONDS, Board, EntityNames, Focus
from worker.view.card import FRESH_SECONDS, card
from worker.view.screen import Frame, screen
from worker.view.texts import one_line

SHORT = {f"{letter}#0": f"Sentence {letter} is good." for letter in "abcde"}
LONG = (
    "A very long sentence about 日本 and the élan of it all, with a "
    "Wordthatneverendsandnobodycouldsayaloud "
)


def console(width=80, height=24):
    return Console(
        file=io.StringIO(),
        force_terminal=True,
        width=width,
        height=height,
        markup=False,
        emoji=False,
    )


def board_of(texts=SHORT, k=5):
    """A board with one change of two sentences, at second 10."""
    board = Board()
    before = {"old#0": "What was said before.", **dict(list(texts.items())[1:])}
    board.begin_with(summary("e", 0, before, list(before), k=k))
    first = next(iter(texts))
    board.take(
        summary("e", 1, texts, [first], ["old#0"], review=first.rpartition("#")[0], k=k), 10.0
    )
    return board


def plain(lines):
    return [line.plain for line in lines]


def words(lines):
    return " ".join(" ".join(plain(lines)).split())


def test_a_card_shows_all_sentences_the_reason_and_what_left():
    lines = card(
        console(), board_of().entities["e", None], EntityNames({"e": "Earl's loft"}), 80, 13, 10.0
    )
    assert plain(lines) == [
        "Earl's loft                                    5 reviews, 50 sentences, 1 change",
        "     review a came in: it is closer to what most say than what it pushes out",
        " 1 + Sentence a is good. (new)",
        " 2   Sentence b is good.",
        " 3   Sentence c is good.",
        " 4   Sentence d is good.",
        " 5   Sentence e is good.",
        "   - What was said before. (pushed out)",
    ]


def styles(line):
    return " ".join(str(span.style) for span in line.spans)


def test_what_is_new_flashes_and_what_left_is_struck_through_for_a_moment():
    entity = board_of().entities["e", None]
    flash = card(console(), entity, EntityNames(), 80, 13, 10.1)
    assert "reverse" in styles(flash[2])
    assert "strike" in styles(flash[-1])
    later = card(console(), entity, EntityNames(), 80, 13, 11.0)
    assert "reverse" not in styles(later[2])
    assert "green" in styles(later[2])
    calm = card(console(), entity, EntityNames(), 80, 13, 10.0 + FRESH_SECONDS)
    assert plain(calm)[2] == " 1   Sentence a is good."
    assert "What was said before." not in words(calm)


def test_marks_are_those_of_the_change_that_the_headline_tells():
    """A sentence that came a moment before a review was taken down is not new by that."""
    board = board_of()
    left = dict(list(SHORT.items())[:4])
    board.take(summary("e", 2, left, [], ["e#0"], "review.deleted", review="e", k=5), 10.2)
    lines = plain(card(console(), board.entities["e", None], EntityNames(), 80, 13, 10.3))
    assert "review e was taken down: its sentence is gone" in lines[1]
    assert lines[2] == " 1   Sentence a is good."
    assert [line for line in lines if line.startswith("   - ")] == [
        "   - Sentence e is good. (taken down)"
    ]


def test_a_review_that_is_about_to_go_is_marked():
    lines = plain(
        card(
            console(), board_of().entities["e", None], EntityNames(), 80, 13, 30.0, frozenset({"c"})
        )
    )
    assert lines[1].strip() == "a review is about to be taken down"
    assert lines[4].startswith(" 3 ! Sentence c is good.")


def test_where_room_lacks_the_last_sentence_is_cut_and_no_other():
    texts = {f"{letter}#0": LONG + letter for letter in "abcde"}
    full = card(console(), board_of(texts).entities["e", None], EntityNames(), 80, 40, 30.0)
    lines = card(
        console(), board_of(texts).entities["e", None], EntityNames(), 80, len(full) - 2, 30.0
    )
    assert len(lines) == len(full) - 2  # the reason went first
    for text in list(texts.values())[:-1]:
        assert one_line(text) in words(lines)
    assert one_line(texts["e#0"]) not in words(lines)
    assert [line for line in plain(lines) if "…" in line] == [plain(lines)[-1]]
    assert plain(lines)[-1].endswith("…")


def many():
    """Entities with all sorts of texts and ids."""
    words = [
        "Great",
        "日本語のレビュー",
        "e\u0301té",
        "👍🏼",
        "\x1b[31m",
        "\u202e",
        "x" * 200,
        "[bold]",
        "\t\n",
        "good",
        "ﷺ",
    ]
    chance, board = random.Random(7), Board()
    for number in range(60):
        texts = {
            f"r{number}-{i}#0": " ".join(chance.choices(words, k=chance.randrange(1, 40)))
            for i in range(chance.randrange(1, 21))
        }
        board.take(
            summary(
                f"e {number % 12} 日本" * chance.randrange(1, 4), number, texts, list(texts), k=20
            ),
            10.0 + number,
        )
    return board


def test_no_screen_is_higher_or_wider_than_its_terminal():
    board = many()
    sizes = product([1, 7, 20, 40, 80, 160, 300], [1, 3, 8, 24, 50, 100])
    for (width, height), others in product(sizes, (0, 7)):
        on = console(width, height)
        for focus in (None, *list(board.entities)[:3]):
            shown, head = list(board.entities.values()), [Text("head " * 100)] * 3
            lines = screen(on, Frame(head, board, focus, shown, others=others), 69.5)
            assert len(lines) <= height, (width, height, others)
            widest = max((line.cell_len for line in lines), default=0)
            assert widest <= width, (width, height, others)
            on.print(*lines, sep="\n", end="")
            assert not set("\n\r\t\x1b").intersection("".join(plain(lines)))


def test_a_terminal_of_24_lines_has_room_for_five_sentences_and_seven_others():
    board = board_of({f"{letter}#0": LONG[:90] + letter for letter in "abcde"})
    others = [
        board.begin_with(summary(f"other {n}", n, {"x#0": "Fine."}, ["x#0"])) for n in range(7)
    ]
    frame = Frame([Text("head")] * 3, board, SetName("e"), others, label="label")
    shown = screen(console(), frame, 10.0)
    assert len(shown) == 24
    for letter in "abcde":
        assert f"{one_line(LONG[:90])}{letter}".replace(" ", "") in words(shown).replace(" ", "")
    assert all(f"other {n}" in words(shown) for n in range(7))
    assert "What was said before." in words(shown)


def test_a_high_terminal_shows_the_latest_changes_too():
    shown = screen(console(160, 50), Frame([Text("head")], board_of(), SetName("e")), 10.0)
    assert "latest changes" in words(shown)
    assert "+ Sentence a is good. - What was said before." in words(shown)


def test_the_look_rests_and_then_follows():
    board, focus = Board(), Focus()
    assert focus.choose(board, 0.0) is None
    board.take(summary("a", 0, SHORT, list(SHORT)), 1.0)
    assert focus.choose(board, 1.0) == ("a", None)
    board.take(summary("b", 1, SHORT, list(SHORT)), 1.1)
    assert focus.choose(board, 1.2) == ("a", None)
    assert focus.choose(board, 1.0 + REST_SECONDS) == ("b", None)
    focus.pin(SetName("a"))
    assert focus.choose(board, 9.0) == ("a", None)
    focus.pin(None)
    assert focus.choose(board, 9.0) == ("b", None)


def test_one_line_is_one_line():
    assert one_line(" a\r\n\tb\x00\x9b\u2028c ") == "a b c"
    assert one_line("Très bien 👍🏼, e\u0301té ❤\ufe0f 日本!") == "Très bien , été 日本!"


def test_a_name_without_visible_characters_is_shown_all_the_same():
    assert EntityNames().of(SetName("\x00")) == r"'\x00'"
    assert EntityNames(prefix="x:").review("x:7") == "7"
