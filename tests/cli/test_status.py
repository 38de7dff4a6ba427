"""`status` on a terminal: whole names at 80 columns, what is wrong on standard error."""

import json

import pytest

from tests.harness.terminal import CONTROL
from worker.cli.output import ranges
from worker.tools import status as group_status
from worker.tools.status import GroupStatus, MemberStatus, PartitionStatus

NAME = "coversumm-worker-0-1f8e"
FOUND = GroupStatus(
    group="coversumm-worker",
    state="stable",
    topic="marketplace.reviews.v1",
    workers=[
        MemberStatus(
            NAME,
            "http://worker-0:8080",
            True,
            "processing 2 of 3 partitions",
            [0, 1],
            [2],
            7,
            "0.1.0",
        ),
        MemberStatus("b\x1b[2J", None, None, "no answer from here: refused", [2], [], None, None),
    ],
    partitions=[
        PartitionStatus(0, NAME, 1000, 1007, 7),
        PartitionStatus(1, NAME, None, 0, 0),
        PartitionStatus(2, None, 5, 5, 0),
    ],
    problems=["no worker owns partition 2"],
)


@pytest.fixture
def found(monkeypatch):
    monkeypatch.setattr(group_status, "group_status", lambda _settings: FOUND)


@pytest.mark.parametrize("columns", [80, 160])
def test_on_a_terminal(run, found, terminal, monkeypatch, columns):
    terminal()
    monkeypatch.setenv("COLUMNS", str(columns))
    ended = run("status")
    assert (ended.code, ended.err) == (1, "coversumm-worker: error: no worker owns partition 2\n")
    lines = CONTROL.sub("", ended.out).splitlines()
    assert lines[0] == "group coversumm-worker: stable; marketplace.reviews.v1: 3 partitions, lag 7"
    row = next(line for line in lines if line.startswith(NAME) and "yes" in line)
    assert "http://worker-0:8080" in row
    assert "0-1" in row
    assert max(map(len, lines)) <= columns
    assert "\x1b[2J" not in ended.out
    assert "b\N{REPLACEMENT CHARACTER}[2J: no answer from here: refused" in lines
    assert f"{NAME}: processing 2 of 3 partitions" not in lines, "one that is ready needs no reason"


def test_json_is_one_object(run, found):
    (line,) = run("status").out.splitlines()
    assert json.loads(line)["workers"][1]["ready"] is None


@pytest.mark.parametrize(
    ("numbers", "text"),
    [([], "-"), ([3], "3"), ([0, 1, 2, 7, 9, 10], "0-2, 7, 9-10"), ([1, 3], "1, 3")],
)
def test_ranges(numbers, text):
    assert ranges(numbers) == text
