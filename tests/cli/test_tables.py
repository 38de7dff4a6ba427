"""Tables keep ids and names whole and lose columns instead, at every width."""

import itertools
import json

import pytest

from tests.cli.web_worker import VIEW
from tests.harness.terminal import CONTROL
from worker.view.tables import GAP, PROSE, Column, fitting, show_facts, show_table

ID = "review-" + "0123456789" * 3
COLUMNS = (
    Column("place", drop=1, right=True),
    Column("id"),
    Column("text", prose=PROSE),
    Column("time", drop=3),
    Column("size", drop=2, right=True),
)
ROW = (7, ID, "A sentence that goes on for a while. " * 4, "2026-11-20T12:00:00Z", "1,024")


@pytest.fixture
def shown(monkeypatch, capsys):
    """The lines of what is printed in so many columns."""

    def shown(columns, show, *arguments):
        monkeypatch.setenv("COLUMNS", str(columns))
        show(*arguments)
        return capsys.readouterr().out.splitlines()

    return shown


def test_the_least_important_go_first_and_the_essential_never():
    widths = [5, 10, PROSE, 20, 5]
    everything = sum(widths) + 4 * GAP
    assert fitting(COLUMNS, widths, everything) == [0, 1, 2, 3, 4]
    assert fitting(COLUMNS, widths, everything - 1) == [0, 1, 2, 4]
    assert fitting(COLUMNS, widths, everything - 24) == [0, 1, 2]
    assert fitting(COLUMNS, widths, everything - 32) == [1, 2]
    assert fitting(COLUMNS, widths, 1) == [1, 2]


@pytest.mark.parametrize("columns", [64, 80, 100, 160])
def test_ids_are_whole_and_lines_fit(shown, columns):
    lines = shown(columns, show_table, COLUMNS, [ROW, ROW])
    assert max(map(len, lines)) <= columns
    assert sum(ID in line for line in lines) == 2
    assert "…" not in "".join(lines)
    names = set(lines[0].split())
    omitted = lines[-1] if "no room" in lines[-1] else ""
    assert names | set(omitted.replace(",", "").replace(";", "").split()) >= {
        column.name for column in COLUMNS
    }
    assert bool(omitted) == (len(names) < len(COLUMNS))


def test_narrower_than_the_essential_an_id_goes_on_in_the_next_line(shown):
    lines = shown(30, show_table, COLUMNS, [ROW])
    assert max(map(len, lines)) <= 30
    folded = "".join(line.split("  ")[0].strip() for line in lines[2:-2])
    assert ID in folded
    assert "…" not in "".join(lines)


def test_prose_is_wrapped_to_no_less_than_it_needs(shown):
    lines = shown(len(ID) + GAP + PROSE, show_table, COLUMNS[1:3], [ROW[1:3]])
    assert len(lines) > 4
    words = itertools.chain.from_iterable(line[len(ID) :].split() for line in lines[2:])
    assert " ".join(words) == ROW[2].strip()


def test_a_name_is_broken_at_its_separators(shown):
    name, path = "marketplace.review-summaries.v1", "/var/lib/coversumm/worker-0"
    columns = (Column("setting"), Column("value", prose=PROSE))
    for width in (34, 40, 52):
        lines = shown(width, show_table, columns, [("TOPIC", name), ("DIR", path)])
        values = [line[5 + GAP :].strip() for line in lines[2:]]
        assert "".join(values) == name + path
        assert all(value[-1] in "./-" for value in values if value[-1] not in "10"), values
        assert max(map(len, lines)) <= width


def test_a_value_of_several_lines(shown):
    lines = shown(
        80, show_table, (Column("id"), Column("changes")), [("x", ["+ a", "- b"]), ("y", None)]
    )
    assert [line.split() for line in lines[2:]] == [["x", "+", "a"], ["-", "b"], ["y", "-"]]


def test_wide_characters_count_as_two(shown):
    lines = shown(
        20, show_table, (Column("id"), Column("size", drop=1)), [("日本語日本語日本", "12345")]
    )
    assert "日本語日本語日本" in lines[2]
    assert "no room here for: size;" in " ".join(line.strip() for line in lines)


def test_nothing_moves_the_cursor(shown):
    assert "\x1b[2J" not in "".join(shown(80, show_table, (Column("id"),), [("a\x1b[2J",)]))
    assert "\x1b[2J" not in "".join(shown(80, show_facts, [("id", "a\x1b[2J")]))


def test_facts_go_on_below_where_they_are_long(shown):
    lines = shown(30, show_facts, [("entity id", "x" * 60), ("reviews", 3)])
    assert "".join(line.removeprefix("entity id").strip() for line in lines[:-1]) == "x" * 60
    assert lines[-1].split() == ["reviews", "3"]


@pytest.mark.parametrize("columns", [80, 160])
def test_a_summary_at_two_widths(run, port, terminal, monkeypatch, columns):
    """The command itself: text, rank and rating are there, the sentence's id only where there is
    room.
    """
    sentence = {**VIEW["sentences"][0], "sentence_id": ID, "text": "Good. " * 30, "rating": 4.0}
    monkeypatch.setitem(VIEW, "sentences", [sentence])
    terminal()
    monkeypatch.setenv("COLUMNS", str(columns))
    ended = run("inspect", "a/b é", "--url", f"http://127.0.0.1:{port}")
    lines = CONTROL.sub("", ended.out).splitlines()
    assert max(map(len, lines)) <= columns
    heading = next(line for line in lines if "text" in line)
    assert {"rank", "text", "rating", "support"} <= set(heading.split())
    assert ("sentence " in heading) == any(ID in line for line in lines) == (columns == 160)
    assert json.dumps(lines).count("Good.") == 30
