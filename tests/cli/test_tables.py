"""Tables keep ids and names whole and lose columns instead, at every width."""

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


def test_nothing_moves_the_cursor(shown):
    assert "\x1b[2J" not in "".join(shown(80, show_table, (Column("id"),), [("a\x1b[2J",)]))
    assert "\x1b[2J" not in "".join(shown(80, show_facts, [("id", "a\x1b[2J")]))


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
