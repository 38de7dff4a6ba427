"""The comparison's rows, and how they are shown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.bench.kafka_streams.comparison import FAULTS, faults_of, rows, turns
from tests.bench.kafka_streams.contenders import CONTENDERS, DEFAULTS, STREAMS, WORKER
from tests.bench.kafka_streams.faults import INSTANCES
from tests.bench.kafka_streams.table import RESULTS, TITLES, streams_table
from tests.bench.machine import machine

pytestmark = pytest.mark.long

FAULT = next(iter(INSTANCES))


def turn(contender: str, pause_s: float, *, ends: int = 0, lost: int = 0) -> dict[str, Any]:
    measured = {
        "longest_pause_s": pause_s,
        "each_s": [pause_s],
        "ends": ["0 with 3"] * ends,
        "seconds": 10,
    }
    faults = dict.fromkeys(FAULTS[1], measured)
    return {
        "round": 0,
        "contender": contender,
        "standbys": 1,
        "faults": faults,
        "lost": lost,
        "repeated": 0,
        "wrong": 0,
    }


def test_contenders_take_turns_and_the_slow_one_has_a_single_one() -> None:
    taken = list(turns(3, [WORKER, STREAMS, DEFAULTS], [0, 1]))
    assert [one.contender for one in taken if one.standbys == 0] == [
        *(WORKER, STREAMS, DEFAULTS),
        *(STREAMS, WORKER),
        *(WORKER, STREAMS),
    ]
    assert [one.contender for one in taken if one.standbys == 1] == [
        WORKER,
        STREAMS,
        STREAMS,
        WORKER,
        WORKER,
        STREAMS,
    ]
    assert len({one.name for one in taken}) == len(taken)


def test_a_row_has_the_median_and_all_ends() -> None:
    done = [
        turn("worker", 3.0, ends=1),
        turn("worker", 9.0, ends=1),
        turn("worker", 4.0),
        turn("streams", 2.0),
    ]
    found = rows(done)
    assert [row["fault"] for row in found] == list(FAULTS[1])
    assert found[0] == {
        "fault": FAULT,
        "standbys": 1,
        "worker": {"longest_pauses_s": [3.0, 9.0, 4.0], "median_s": 4.0, "ends": 2},
        "streams": {"longest_pauses_s": [2.0], "median_s": 2.0, "ends": 0},
    }


def test_what_is_lost_fails_the_run_whoever_lost_it() -> None:
    assert faults_of([turn("worker", 1.0), turn("streams", 1.0)]) == []
    assert faults_of([turn("worker", 1.0), turn("streams", 1.0, lost=2)]) == [
        "streams, round 1: 2 lost"
    ]


def test_the_record_is_shown_with_a_column_for_each_that_took_part(tmp_path: Path) -> None:
    record = tmp_path / "record.json"
    assert "make bench-streams" in streams_table(record)
    done = [turn("worker", 3.25, ends=1), turn("streams", 12.0)]
    head = {"machine": machine(), "date": "2026-11-22T00:00:00+00:00", "command": "python -m x"}
    record.write_text(json.dumps(head | {"rows": rows(done)}))
    lines = streams_table(record).splitlines()
    assert lines[0] == "| fault | standbys | worker | Kafka Streams, static members |"
    assert lines[2] == f"| {FAULT} | 1 | 3.2 s (1 end) | 12.0 s |"
    assert TITLES.keys() == CONTENDERS.keys()
    assert RESULTS.parent.is_dir()
