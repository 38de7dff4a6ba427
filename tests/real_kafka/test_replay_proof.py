"""How the record of replays at length is made of what was compared; no Kafka is needed to look at
it.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from docs.build.replays import replays, replays_table
from tests.harness.replay_proof import (
    RESULTS,
    Findings,
    Foretold,
    by_entity,
    entities_unlike,
    is_before,
    unlike,
    with_others,
)


def test_places_that_differ_are_counted_and_so_are_missing_ones() -> None:
    assert unlike([1, 2, 3], [1, 2, 3]) == 0
    assert unlike([1, 5, 3], [1, 2, 3]) == 1
    assert unlike([1, 2], [1, 2, None]) == 1
    assert unlike([1, 2, None], [1, 2]) == 1


def test_a_change_is_before_where_its_cause_is() -> None:
    """A partition without a boundary has nothing at or past the time."""
    boundaries = {0: 10}
    found = [
        is_before({"partition": p, "offset": o}, boundaries) for p, o in ((0, 9), (0, 10), (1, 99))
    ]
    assert found == [True, False, True]


def body(entity_id: str, *ids: str) -> dict[str, object]:
    return {
        "entity_id": entity_id,
        "previous_sequence": 4,
        "sentences": [{"sentence_id": one} for one in ids],
        "added": [ids[0]],
        "removed": ["gone"],
    }


def final(entity_id: str, *ids: str) -> dict[str, object]:
    return {**body(entity_id, *ids), "previous_sequence": None, "added": list(ids), "removed": []}


@pytest.mark.parametrize(
    ("found", "different"),
    [
        ([final("a", "x", "y"), final("b", "z")], 0),
        ([final("a", "x", "y")], 1),
        ([final("a", "x", "y"), final("b", "z"), final("c", "z")], 1),
        ([final("a", "x", "y"), body("b", "z")], 1),
        ([final("a", "y", "x"), final("b", "q")], 2),
    ],
)
def test_entities_that_differ_are_missing_or_too_many(
    tmp_path: Path, found: list[dict[str, object]], different: int
) -> None:
    file = tmp_path / "then.jsonl"
    file.write_text("".join(json.dumps(one) + "\n" for one in found))
    assert entities_unlike(file, {"a": body("a", "x", "y"), "b": body("b", "z")}) == (2, different)


def test_changes_agree_by_entity_whatever_their_places() -> None:
    one, other = (
        {**body("a", "x"), "sequence": sequence, "cause": {}, "epoch": 1} for sequence in (1, 2)
    )
    assert by_entity([one]) == by_entity([other])
    assert by_entity([one, one]) != by_entity([one])


@pytest.mark.parametrize(
    ("foretold", "faults"),
    [
        ((100.0, 100.0, 90.0, 90.0), 0),
        ((125.0, 100.0, 103.0, 90.0), 0),
        ((126.0, 100.0, 90.0, 90.0), 1),
        ((74.0, 100.0, 105.0, 90.0), 2),
        ((100.0, 100.0, None, None), 1),
        ((40.0, 40.0, 10.0, 29.0), 0),
        ((10.0, 10.0, None, None), 0),
    ],
)
def test_what_was_foretold_badly_is_a_fault(
    foretold: tuple[float, float, float, float], faults: int
) -> None:
    findings = Findings()
    findings.foresaw(Foretold("city", "whole", *foretold))
    assert len(findings.faults) == faults


def test_what_differs_or_compared_nothing_is_a_fault() -> None:
    findings = Findings()
    for counts in ((10, 0), (10, 1), (0, 0)):
        with findings.of("city", "whole", "messages") as compared:
            compared(*counts)
            compared(0, 0)
    assert len(findings.faults) == 2


def test_a_record_is_shown() -> None:
    proofs = [
        {"history": "city", "proof": "whole", "compared": "messages", "count": 1234, "different": 0}
    ]
    foretold = [Foretold("city", "whole", 9.0, 10.0, None, 5.25)._asdict()]
    record = {
        "machine": {"cores": 2, "cpu": "c"},
        "histories": [
            {
                "history": "city",
                "reviews": 1000,
                "events": 1300,
                "date": "2026-11-22T10",
                "command": "x",
                "load_before": 0.25,
            }
        ],
        "proofs": proofs,
        "foretold": foretold,
    }
    shown = replays(record)
    assert (
        "- city: 1,000 reviews in 1,300 events; recorded 2026-11-22 by `x`, while the machine had "
        "a load of 0.2 from other work" in shown
    )
    assert "| city | whole | messages | 1,234 | 0 |" in shown
    assert "| city | whole | 9.0 s | 10.0 s | - | 5.2 s |" in shown


def test_a_run_takes_the_place_of_the_same_and_stays_beside_others(tmp_path: Path) -> None:
    def found(history: str, proof: str, count: int) -> dict[str, list[dict[str, object]]]:
        row = {
            "history": history,
            "proof": proof,
            "replay": proof,
            "command": proof,
            "count": count,
        }
        return {rows: [row] for rows in ("histories", "proofs", "foretold")}

    path = tmp_path / "replays.json"
    assert with_others(path, found("a", "x", 1)) == found("a", "x", 1)
    for new in (found("a", "x", 1), found("a", "y", 2), found("b", "x", 3), found("a", "x", 4)):
        path.write_text(json.dumps({"date": "x", **with_others(path, new)}))
    record = json.loads(path.read_text())
    for rows in ("histories", "proofs", "foretold"):
        assert [row["count"] for row in record[rows]] == [4, 2, 3]


def test_the_record_that_is_kept_is_one_to_keep() -> None:
    """Nothing differs."""
    if not RESULTS.exists():
        assert "Not recorded" in replays_table()
        return
    record = json.loads(RESULTS.read_text())
    assert record["proofs"]
    for one in record["proofs"]:
        assert one["count"], one
        assert not one["different"], one
