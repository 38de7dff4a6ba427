"""Generated pages are those of the code and the records, and the tables have every row."""

import re
from pathlib import Path

import pytest

from docs.build.__main__ import main
from docs.build.limits import LIMITS, limits_table
from docs.build.render import ROOT, TABLES, filled
from docs.build.soaks import quiet_soak, storm
from docs.build.tables import commands_table, metrics_table, settings_table
from worker.limits import Limit
from worker.settings import PREFIX, settings_by_field
from worker.telemetry.metrics import Metrics


def test_every_file_is_as_generated() -> None:
    assert main([]) == 0, "run `make docs`"


def test_what_differs_is_named_and_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    same, old, missing = (tmp_path / name for name in ("same", "old", "missing"))
    same.write_text("µ")
    old.write_text("old")
    wanted = [(same, "µ"), (old, "new"), (missing, "new")]
    assert main([], wanted) == 1
    said = capsys.readouterr().err.splitlines()
    assert [line.split()[0] for line in said] == [str(old), str(missing)]
    assert old.read_text() == "old"
    assert main(["--write"], wanted) == 0
    assert [path.read_text() for path, _ in wanted] == ["µ", "new", "new"]
    assert main([], wanted) == 0
    assert main(["--wirte"], wanted) == 2


def test_every_place_for_a_table_is_filled() -> None:
    marks = {
        path.relative_to(ROOT).as_posix(): set(
            re.findall(r"^<!-- (\w+) -->$", path.read_text(), flags=re.M)
        )
        for path in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md"))
    }
    assert {name: found for name, found in marks.items() if found} == {
        name: set(tables) for name, tables in TABLES.items()
    }


def test_a_table_has_exactly_one_place() -> None:
    place = "<!-- x -->\nold\n<!-- /x -->\n"
    assert (
        filled(f"a\n{place}b\n", {"x": lambda: "new\n"}) == "a\n<!-- x -->\nnew\n<!-- /x -->\nb\n"
    )
    for text in ("", place * 2):
        with pytest.raises(ValueError, match="places for the x table"):
            filled(text, {"x": lambda: "new\n"})


def test_the_table_of_settings_has_each() -> None:
    rows = settings_table().splitlines()[2:]
    assert len(rows) == len({setting.variable for setting in settings_by_field().values()})
    for row, setting in zip(rows, settings_by_field().values(), strict=True):
        assert row.startswith(f"| `{setting.variable}` | ")
        assert row.count(" | ") == 2
        assert setting.help in row


def test_the_table_of_metrics_has_each() -> None:
    lines = metrics_table().splitlines()
    assert lines[:2] == ["| metric | kind | labels | meaning |", "|---|---|---|---|"]
    assert len(lines) - 2 == len(Metrics().families)
    assert any(
        line.startswith("| `coversumm_events_total` | counter | `type`, `outcome` |")
        for line in lines
    )


def test_the_table_of_limits_has_each_with_its_setting() -> None:
    lines = limits_table().splitlines()
    assert len(lines) - 2 == len(LIMITS)
    assert (
        "| `in_flight` | `COVERSUMM_IN_FLIGHT_MESSAGES` (`100000`), `COVERSUMM_IN_FLIGHT_BYTES` "
        "(`128MiB`) | "
        "publishing waits until the broker has taken some | the counter |"
    ) in lines


def test_every_limit_is_described_and_names_settings_that_exist() -> None:
    variables = {setting.variable for setting in settings_by_field().values()}
    assert {limit.value for limit in Limit} <= {one.name for one in LIMITS}
    for one in LIMITS:
        assert {PREFIX + name for name in one.variables} <= variables
        assert (one.seen_in == "the counter") == (one.name in set(Limit))


def test_the_table_of_commands_has_each_with_its_arguments() -> None:
    rows = commands_table().splitlines()
    assert rows[:2] == ["| command | does |", "|---|---|"]
    assert [row.split("`")[1] for row in rows[2:]] == [
        "demo",
        "summarize FILE...",
        "config",
        "facets suggest FILE...",
        "mapping check FILE",
        "topics",
        "schemas register",
        "run",
        "bridge",
        "send FILE...",
        "replay",
        "compare A B",
        "promote APP_ID OUTPUT_TOPIC",
        "vectors info",
        "status",
        "entities [PREFIX]",
        "watch [ENTITY]",
        "inspect ENTITY",
        "history ENTITY",
        "verify",
        "dlq list",
        "dlq show PARTITION:OFFSET",
        "dlq send [PARTITION:OFFSET]...",
        "skip PARTITION:OFFSET",
        "reset",
    ]
    assert all(row.endswith(" |") and row.count("|") == 3 for row in rows[2:])


def test_a_soak_that_was_loud_or_lost_something_says_so() -> None:
    worker = {"loud": [], "info_lines_per_hour": 0.0}
    quiet = {
        "date": "2026-11-22T12:00:00+00:00",
        "machine": {"cores": 2, "cpu": "a processor"},
        "minutes": 60.1,
        "events_sent": 180_000,
        "workers": {"idle 1": worker, "busy": {"loud": [], "info_lines_per_hour": 30.0}},
        "lost": 0,
        "repeated": 0,
        "wrong": 0,
    }
    assert quiet_soak(quiet).splitlines() == [
        "60 minutes, 180,000 events: no lines at WARNING or above, at most 0 lines per hour at "
        "INFO from an idle worker; "
        "nothing lost, nothing repeated, nothing wrong.",
        "",
        "Recorded 2026-11-22 on 2 cores (a processor).",
    ]
    loud = {**quiet, "workers": {"idle 1": {**worker, "loud": ["ERROR x: y"]}}, "repeated": 2}
    assert " 1 line at WARNING or above," in quiet_soak(loud)
    assert "; 2 repeated." in quiet_soak(loud)


def test_a_storm_that_ended_a_worker_or_lost_something_says_so() -> None:
    record = {
        "date": "2026-11-22T12:00:00+00:00",
        "machine": {"cores": 2, "cpu": "a processor"},
        "seed": 7,
        "seconds": 1790,
        "events": 50_000,
        "faults_struck": 300,
        "kinds": {"quota": 12, "disk full": 10},
        "ends_in_order": {"disk full": 14},
        "unordered_ends": [],
        "seconds_to_ready": 12.3,
        "promoted": True,
        "lost": 0,
        "repeated": 0,
        "wrong": 0,
    }
    assert storm(record).splitlines() == [
        "| fault | times |",
        "|---|---|",
        "| quota | 12 |",
        "| disk full | 10 |",
        "",
        "300 faults of seed 7 in 30 minutes, 50,000 events: nothing lost, nothing repeated, "
        "nothing wrong. "
        "Unexpected ends of workers: none; ends that a fault causes by design: disk full 14. "
        "Ready 12 s after the last fault. `promote` accepted the replay.",
        "",
        "Recorded 2026-11-22 on 2 cores (a processor).",
    ]
    bad = {**record, "unordered_ends": ["one with 3"], "promoted": False, "lost": 2}
    assert ": 2 lost. Unexpected ends of workers: 1;" in storm(bad)
    assert "**not**" in storm(bad)
