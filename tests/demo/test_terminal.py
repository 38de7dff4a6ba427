"""The demo in a terminal: every frame fits it, it is given back as it was, and what stays on it is whole."""

import re

import pytest
from rich.cells import cell_len

from tests.harness.terminal import (
    CONTROL_C,
    CURSOR,
    FIRST_SCREEN,
    OTHER_SCREEN,
    Terminal,
    frames,
    without_control,
)


@pytest.mark.parametrize(("columns", "rows"), [(80, 24), (160, 50)])
def test_every_frame_fits_and_the_end_stays(tmp_path, columns, rows):
    with Terminal(columns, rows, "demo", "--reviews", "25", TMPDIR=str(tmp_path)) as terminal:
        code, written = terminal.finish()
    assert code == 0
    drawn = frames(written)
    assert len(drawn) > 20
    for frame in drawn:
        lines = frame.split("\n")
        assert len(lines) <= rows
        assert max(map(cell_len, lines)) <= columns
    everything = "\n".join(drawn)
    for seen in (
        " of 25 reviews in, ",
        "CC BY 4.0",
        "Elizabeth's room",
        "(new)",
        "(pushed out)",
        " was taken down: its sentence",
        "a review is about to be taken down",
        "(taken down)",
        "brute force",
    ):
        assert seen in everything, seen
    before, _, after = written.partition(OTHER_SCREEN)
    kept = without_control(after.partition(FIRST_SCREEN)[2])
    assert without_control(before).strip() == ""
    assert re.search(r"^ 5   \S", kept, flags=re.M)
    assert "…" not in kept
    assert "25 reviews in, 2 taken down" in kept
    assert "-m worker watch" in kept
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("moment", ["The worker is starting", "reviews arrive"])
def test_interrupted_the_terminal_is_as_it_was(tmp_path, moment):
    with Terminal(80, 24, "demo", TMPDIR=str(tmp_path)) as terminal:
        terminal.read_until(moment)
        terminal.press(CONTROL_C)
        code, written = terminal.finish()
    assert code == 130
    assert written.count(OTHER_SCREEN) == written.count(FIRST_SCREEN) == 1
    assert CURSOR in written
    assert written.endswith(f"{FIRST_SCREEN}interrupted; everything is removed again\n")
    assert list(tmp_path.iterdir()) == []
