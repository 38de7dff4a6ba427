"""The demo in a terminal: every frame fits it, it is given back as it was, and what stays on it is
whole.
"""

import os
import re
import sys
from pathlib import Path

import pytest
from rich.cells import cell_len

from tests.harness.long import one_of
from tests.harness.terminal import (
    CONTROL,
    CONTROL_C,
    FIRST_SCREEN,
    OTHER_SCREEN,
    SHOW_CURSOR,
    Terminal,
    environment,
    worker_command,
)


def demo(directory, *arguments, columns=80, rows=24):
    """With Python on the PATH: the commands at its end are as short wherever this is installed."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return Terminal(
        worker_command("demo", *arguments),
        environment=environment(TMPDIR=str(directory), PATH=path),
        columns=columns,
        rows=rows,
    )


@pytest.mark.parametrize(("columns", "rows"), one_of([(60, 24), (160, 50)]))
def test_every_frame_fits_and_the_end_stays(tmp_path, columns, rows):
    with demo(tmp_path, "--reviews", "25", columns=columns, rows=rows) as terminal:
        assert terminal.wait() == 0
        written, drawn = terminal.written, terminal.frames()
    assert len(drawn) > 20
    for frame in drawn:
        lines = frame.split("\n")
        assert len(lines) <= rows
        assert max(map(cell_len, lines)) <= columns
    everything = " ".join(" ".join(drawn).split())
    for seen in (
        "25 reviews in, ",
        "CC BY 4.0",
        "Elizabeth's room: review ",
        " came in: it is closer to what most say than what it pushes out - ",
        " was taken down: its sentence",
        " 1 + ",
        "brute force",
        "location ",
    ):
        assert seen in everything, seen
    before, _, after = written.partition(OTHER_SCREEN)
    kept = CONTROL.sub("", after.partition(FIRST_SCREEN)[2])
    assert CONTROL.sub("", before).strip() == ""
    assert len(kept.splitlines()) < rows, "the overview is still to be seen above the prompt"
    assert kept.startswith("What guests say of the stay with the most reviews\nElizabeth's room ")
    subjects = len(re.findall(r"^[a-z-]+ +\d+ mentions? +\S", kept, flags=re.M))
    more = re.search(r"^\.\.\. (\d+) more subjects? in a taller window", kept, flags=re.M)
    assert subjects + int(more[1] if more else 0) == 6
    assert (more is None) == (rows == 50)
    assert max(map(cell_len, kept.splitlines())) <= columns
    assert "25 reviews in, 2 taken down" in kept
    assert "-m worker serve\n" in kept
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("moment", ["The worker is starting", "reviews arrive"])
def test_interrupted_the_terminal_is_as_it_was(tmp_path, moment):
    with demo(tmp_path) as terminal:
        terminal.wait_for(moment)
        terminal.type(CONTROL_C)
        assert terminal.wait() == 130
        written = terminal.written
    assert written.count(OTHER_SCREEN) == written.count(FIRST_SCREEN) == 1
    assert SHOW_CURSOR in written
    assert written.endswith(f"{FIRST_SCREEN}interrupted; everything is removed again\n")
    assert list(tmp_path.iterdir()) == []
