"""How the record of restarts is made of what was measured; no Kafka is needed to look at it."""

from __future__ import annotations

from tests.harness.pauses import Pause
from tests.harness.restarts import measured, medians
from tests.harness.run import Strike

KILL = "kill -9 and start"
RESTART = Strike(KILL, 10_000, 20_000, 1.0, ())


def test_pauses_of_an_event_are_of_any_partition_and_of_the_others() -> None:
    found = [
        Pause(0, 9_000, 14_000),  # of the worker that ended
        Pause(2, 12_000, 13_500),
        Pause(3, 12_000, 12_400),
        Pause(2, 21_000, 99_000),  # after the event
    ]
    assert measured(KILL, RESTART, frozenset({0, 1}), found) == {
        "event": KILL,
        "any": 5.0,
        "others": 1.5,
    }


def test_where_every_worker_ends_there_are_no_others() -> None:
    found = [Pause(2, 11_000, 14_000)]
    assert measured(KILL, RESTART, frozenset({0, 1, 2}), found)["others"] is None


def run(members: str, seconds: float, others: float | None) -> dict[str, object]:
    return {"event": "update", "members": members, "standbys": 0, "any": seconds, "others": others}


def test_rows_are_medians_of_rounds_by_kind_of_members() -> None:
    runs = [run("static", s, 0.1) for s in (3.0, 9.0, 4.0)] + [
        run("dynamic", s, None) for s in (2.0, 6.0)
    ]
    dynamic, static = medians(runs)
    assert (dynamic["members"], dynamic["any"], dynamic["others"], dynamic["rounds"]) == (
        "dynamic",
        4.0,
        None,
        2,
    )
    assert (static["members"], static["any"], static["others"], static["rounds"]) == (
        "static",
        4.0,
        0.1,
        3,
    )
