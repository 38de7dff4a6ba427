"""The record of a run says what held, what did not, and what was not shown; the table of the
results is made of it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.harness.patience import PATIENCE_SECONDS
from tests.harness.pauses import Pause
from tests.harness.record import (
    CLUSTER_RESULTS,
    INVARIANTS,
    RESULTS,
    ClusterRow,
    Enough,
    Recorder,
    cluster_table,
    faults_table,
)
from tests.harness.run import Strike
from tests.harness.site import End

ROOT = Path(__file__).parents[2]
TOPICS = ["I1", "I2", "I3", "I4", "I5", "I8"]


def report(**differences: int) -> dict[str, Any]:
    """A verifier's report; `I3_lost=1` is a difference."""
    named = {name.replace("_", " "): count for name, count in differences.items()}
    return {"records": 100, "checked": TOPICS, "differences": named}


def judged(recorder: Recorder, verdict: dict[str, Any], *seconds: float) -> None:
    """A row with a verifier's report, ready after each of `seconds`."""
    with recorder.row("x") as row:
        row.judge(verdict)
        for one in seconds or (1,):
            row.ready_after(one)


def test_a_row_holds_when_all_it_checks_was_shown() -> None:
    recorder = Recorder()
    with recorder.row("kills") as row:
        row.faults = 3
        row.judge(report())
        row.ready_after(3.21)
        row.ready_after(2.0)
    assert row.invariants == dict.fromkeys(INVARIANTS, True)
    assert (row.events, row.lost, row.repeated, row.wrong, row.seconds_to_ready) == (
        100,
        0,
        0,
        0,
        3.2,
    )


def test_what_is_not_checked_is_none() -> None:
    with Recorder().row("disk full", checks=["I1", "I7"]) as row:
        row.judge(report())
        row.ready_after(59.9)
    assert row.invariants == {name: True if name in ("I1", "I7") else None for name in INVARIANTS}


@pytest.mark.parametrize(
    ("differences", "counts", "broken"),
    [
        ({"I3_lost": 2}, (2, 0, 0), ["I3", "I6"]),
        ({"I3_repeated": 1, "I4_repeated": 1}, (0, 2, 0), ["I2", "I3", "I4", "I6"]),
        ({"I2_reordered": 1}, (0, 0, 1), ["I2"]),
        ({"I1_wrong": 1, "I8_wrong": 5}, (0, 0, 6), ["I1", "I8"]),
        ({"I5_additional": 1}, (0, 0, 1), ["I5"]),
    ],
)
def test_differences_break_invariants(
    differences: dict[str, int], counts: tuple[int, int, int], broken: list[str]
) -> None:
    recorder = Recorder()
    with pytest.raises(AssertionError, match="do not hold"):
        judged(recorder, report(**differences))
    (row,) = recorder.rows
    assert (row.lost, row.repeated, row.wrong) == counts
    assert row.broken == broken


def test_differences_in_what_is_not_checked_are_errors_too() -> None:
    """Of coalesced changes I3 is not shown, but one that is in no history is wrong."""
    with (
        pytest.raises(AssertionError, match="differences"),
        Recorder().row("x", checks=["I1"]) as row,
    ):
        row.judge(report(I3_additional=1))


def test_too_late_is_not_ready() -> None:
    with pytest.raises(AssertionError, match="I7"):
        judged(Recorder(), report(), 60, 1)


def test_what_is_not_shown_does_not_hold() -> None:
    """A block that ends early, in order or not, leaves false invariants."""
    recorder = Recorder()
    with pytest.raises(AssertionError, match="I8"), recorder.row("half", checks=["I8"]):
        pass
    with pytest.raises(KeyError), recorder.row("failed", checks=["I8"]):
        raise KeyError
    assert [row.broken for row in recorder.rows] == [["I8"], ["I8"]]


def test_the_record_and_its_table(tmp_path: Path) -> None:
    path = tmp_path / "faults.json"
    assert "Not recorded" in faults_table(path)
    recorder = Recorder()
    with recorder.row("kills") as row:
        row.faults = 50
        row.judge({**report(), "records": 99_000})
        row.ready_after(7.0)
    with recorder.row("disk full", checks=["I1"]) as row:
        row.faults = 2
        row.judge({**report(), "records": 999})
    assert recorder.write(path, "make faults")["enough"] is False
    with recorder.row("one more", checks=["I1"]) as row:
        row.judge({**report(), "records": 1})
    written = recorder.write(path, "make faults")
    assert (written["events"], written["faults"], written["enough"]) == (100_000, 52, True)
    assert list(json.loads(path.read_text())["rows"][0]) == [
        *(
            "fault",
            "events",
            "faults",
            "lost",
            "repeated",
            "wrong",
            "seconds_to_ready",
            "invariants",
        )
    ]
    table = faults_table(path).splitlines()
    assert table[4] == "| kills | 99,000 | 50 | 0 | 0 | 0 | 7.0 |" + " yes |" * 8
    assert table[5] == "| disk full | 999 | 2 | 0 | 0 | 0 | - | yes |" + " - |" * 7
    assert table[-1] == "| **all** | 100,000 | 52 | 0 | 0 | 0 | 7.0 |" + " yes |" * 8


def test_a_row_is_renewed_in_its_place(tmp_path: Path) -> None:
    """The sums with it; a row of a new name comes last."""
    path = tmp_path / "faults.json"
    first, second = Recorder(), Recorder()
    with first.row("kept", checks=[]) as row:
        row.faults = 2
    with pytest.raises(AssertionError), first.row("mended", checks=["I1"]) as row:
        row.faults = 3
    first.write(path, "make faults")
    for name in ("new", "mended"):
        with second.row(name, checks=["I1"]) as row:
            row.faults = 5
            row.judge({**report(), "records": 10})
    assert second.renew(path, "make faults ONLY=mended") == ["mended", "new"]
    record = json.loads(path.read_text())
    assert (record["command"], record["events"], record["faults"]) == ("make faults", 20, 12)
    kept, mended, new = record["rows"]
    assert "again" not in kept
    assert (kept["fault"], mended["invariants"]["I1"], new["fault"]) == ("kept", True, "new")
    for row in (mended, new):
        assert row["again"].endswith(" by `make faults ONLY=mended`")
    assert faults_table(path).splitlines()[-1].startswith("Run again 2")


def test_the_record_that_is_kept_is_one_to_keep() -> None:
    """Enough events and faults, every checked invariant true."""
    if not RESULTS.exists():
        assert "Not recorded" in faults_table()
        return
    record = json.loads(RESULTS.read_text())
    assert record["enough"]
    for row in record["rows"]:
        assert not row["lost"] + row["repeated"] + row["wrong"], row
        assert False not in row["invariants"].values(), row


def test_a_row_of_a_cluster_has_its_pauses_and_ends(tmp_path: Path) -> None:
    """The longest pause of each partition during the faults; pauses between them are nobody's."""
    recorder = Recorder(ClusterRow, Enough(100, 2))
    pauses = [
        Pause(0, 0, 9000),
        Pause(0, 10_000, 14_000),
        Pause(1, 20_500, 26_000),
        Pause(1, 40_000, 90_000),
    ]
    strikes = [
        Strike("stop 1", 9500, 15_000, 1.0, ()),
        Strike("kill 2", 20_000, 30_000, 2.26, (End("one", 3), End("two", 3))),
    ]
    with recorder.row("both", checks=["I1", "I7"]) as row:
        row.take(strikes, pauses)
        row.judge(report())
    assert (row.faults, row.ends, row.pauses, row.pause) == (2, 2, {"0": 4.0, "1": 5.5}, 5.5)
    assert row.seconds_to_ready == 2.3
    assert [one["pause"] for one in row.each] == [4.0, 5.5]
    assert row.each[1]["ends"] == ["one with 3", "two with 3"]
    path = tmp_path / "cluster.json"
    assert "Not recorded" in cluster_table(path)
    assert recorder.write(path, "make cluster-faults")["enough"]
    assert cluster_table(path).splitlines()[-1] == "| both | 100 | 2 | 0 | 0 | 0 | 2 | 5.5 s |"


def test_the_record_of_a_cluster_that_is_kept_is_one_to_keep() -> None:
    """Enough, nothing lost, and no worker ended."""
    if not CLUSTER_RESULTS.exists():
        assert "Not recorded" in cluster_table()
        return
    record = json.loads(CLUSTER_RESULTS.read_text())
    assert record["enough"]
    for row in record["rows"]:
        assert not row["lost"] + row["repeated"] + row["wrong"] + row["ends"], row


SUITE = {
    "conftest.py": """
from pathlib import Path
import tests.real_kafka.conftest as real
from tests.real_kafka.conftest import pytest_terminal_summary, recorder
real.RESULTS = Path(__file__).with_name("faults.json")
def pytest_addoption(parser):
    parser.addoption("--share", default="1")
def pytest_configure(config):
    config.addinivalue_line("markers", "faults: long ones")
""",
    "test_suite.py": """
import pytest
pytestmark = pytest.mark.faults
def test_good(recorder):
    with recorder.row("good", checks=["I7"]) as row:
        row.ready_after(1)
def test_bad(recorder):
    with recorder.row("bad", checks=["I8"]) as row:
        row.faults = 1
""",
}


@pytest.mark.parametrize(
    ("arguments", "written"),
    [
        (["-m", "faults", "."], ["good", "bad"]),
        (["-m", "faults", ".", "-k", "good"], None),
        (["-m", "faults", "test_suite.py", "--share", "0.5"], None),
    ],
    ids=["the whole", "by name", "a share of a file"],
)
def test_only_a_whole_run_is_recorded(
    tmp_path: Path, arguments: list[str], written: list[str] | None
) -> None:
    """A run of pytest in a folder of its own, with the hooks of this one; a failing test has its
    row too.
    """
    for name, text in SUITE.items():
        (tmp_path / name).write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )
    assert "good: 0 events, 0 faults" in done.stdout, done.stdout
    path = tmp_path / "faults.json"
    assert path.exists() == (written is not None)
    if written is not None:
        rows = json.loads(path.read_text())["rows"]
        assert [row["fault"] for row in rows] == written
        assert [row["invariants"]["I8"] for row in rows] == [None, False]
        assert "BROKEN I8" in done.stdout
        assert "TOO FEW" in done.stdout
