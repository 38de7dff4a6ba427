"""What the worker's benchmark is made of, without a worker."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

from tests.bench.memory import CASES, MANY, bound_mib, renewed
from tests.bench.tables import read_record
from tests.bench.worker.__main__ import PARTS, against_targets
from tests.bench.worker.budget import Sampled, stage_of
from tests.bench.worker.contenders import Contender, contenders
from tests.bench.worker.events import busy, even, nearer, real, reviews
from tests.bench.worker.latency import percentiles, until_changes, until_committed
from tests.bench.worker.launch import CHECKOUT
from tests.bench.worker.threads import used
from tests.bench.worker.throughput import FIGURES, _summed_up, in_turns, ratios
from tests.bench.worker.workloads import WORKLOADS
from tests.harness.load import HashedVectors, Review, Sent
from tests.harness.recovered import Commit
from tests.harness.topics import Message
from tests.harness.workers import ROOT, Pipeline

pytestmark = pytest.mark.long


def body(event: Sent) -> dict[str, Any]:
    assert event.value is not None
    found: dict[str, Any] = json.loads(event.value)
    return found


def test_each_workload_is_as_long_as_asked_and_the_same_again() -> None:
    for name in ("synthetic", "zipf"):
        made = list(WORKLOADS[name].make(50, Path("unused")))
        assert len(made) == 50
        assert made == list(WORKLOADS[name].make(50, Path("unused")))


def test_nine_tenths_of_busy_events_are_for_a_tenth_of_the_entities() -> None:
    counts = Counter(event.key for event in busy(4000, 50))
    few = sum(
        count for key, count in counts.items() if key in {f"entity-{n}".encode() for n in range(5)}
    )
    assert 0.87 < few / 4000 < 0.93


def test_reviews_that_run_out_come_again_as_those_of_other_entities() -> None:
    found = [Review("a", "1", 5.0, None, "Good. Fine."), Review("b", "1", None, None, "Bad.")]
    made = [body(event) for event in real(found, HashedVectors(4), 5)]
    ids = [(one["entity_id"], one["review_id"]) for one in made]
    assert ids == [("a", "1"), ("b", "1"), ("a/1", "1"), ("b/1", "1"), ("a/2", "1")]
    assert [sentence["text"] for sentence in made[2]["sentences"]] == ["Good.", "Fine."]
    assert made[0]["sentences"] == made[2]["sentences"]


def test_reviews_that_come_nearer_are_of_the_first_entity_of_the_backlog() -> None:
    assert {event.key for event in nearer(5)} == {event.key for event in reviews(5, 1)}
    assert len({event.value for event in nearer(5)}) == 5


def test_every_other_round_goes_the_other_way_round() -> None:
    who = [Contender("ours"), Contender("theirs")]
    assert [one.name for number in range(3) for one in in_turns(who, number)] == [
        *("ours", "theirs"),
        *("theirs", "ours"),
        *("ours", "theirs"),
    ]


def test_a_row_of_memory_is_renewed_and_says_when(tmp_path: Path) -> None:
    record = {"date": "now", "command": "this", "machine": {"cores": 2}}
    rows = [{"case": "a", "peak_mib": 1}, {"case": "b", "peak_mib": 2}]
    file = tmp_path / "memory.json"
    assert renewed(file, record, rows) == record | {"rows": rows}
    file.write_text(json.dumps(record | {"date": "then", "rows": rows}))
    found = renewed(file, record, [{"case": "b", "peak_mib": 3}])
    assert found["date"] == "then"
    assert found["rows"] == [rows[0], {"case": "b", "peak_mib": 3} | record]


def test_the_largest_state_took_what_its_settings_come_to_and_300_mib_at_most() -> None:
    (row,) = [row for row in read_record("memory.json")["rows"] if row["case"] == MANY.name]
    assert row["events"] * row["sentences"] == 2_000_000
    assert max(row["peak_mib"], row["restoring_mib"]) <= row["bound_mib"] + 300


def test_the_largest_state_is_bounded_by_its_settings_and_spread_evenly() -> None:
    assert bound_mib(MANY) == 256 + 256 + 128 + 64 + 16
    assert bound_mib(CASES[2]) == 16 + 16 + 16 + 8 + 4
    counts: Counter[bytes | None] = Counter()
    for event in even(7, 20, 10):
        counts[event.key] += len(body(event)["sentences"])
    assert set(counts.values()) == {20}
    assert len(counts) == 7


def row(events_per_s: float, digest: str = "x") -> dict[str, Any]:
    times = dict.fromkeys(FIGURES[1:], 100.0)
    return {"events_per_s": events_per_s, **times, "changes": 7, "digest": digest, "last": "y"}


def test_a_ratio_is_the_median_of_the_rounds_and_other_bytes_are_told() -> None:
    ours, theirs = [row(200), row(300), row(100, "z")], [row(100), row(100), row(100)]
    found = ratios(ours, theirs)
    assert found["events_per_s"] == 2.0
    assert found["process_us_per_event"] == 1.0
    assert (found["same_changes"], found["same_digest"], found["same_last"]) == (True, False, True)


def test_targets_are_held_against_what_was_measured_alone() -> None:
    report = {"throughput": {"over_base": {"events_per_s": 2.5, "process_us_per_event": 0.3}}}
    assert against_targets(report, "base") == {"synthetic events/s": 2.5, "synthetic process": 0.3}
    assert against_targets(report, "none") == {}
    assert set(WORKLOADS) < set(PARTS)


def message(offset: int, at_ms: int, value: dict[str, Any] | None = None) -> Message:
    return Message("topic", 0, offset, at_ms, b"a", json.dumps(value or {}).encode(), ())


def test_the_wait_for_a_change_is_that_of_its_cause() -> None:
    received = {(0, 5): 1000, (0, 6): 1010}
    changes = [
        message(0, 900, {"cause": {"partition": 0, "offset": 4}}),
        message(1, 1200, {"cause": {"partition": 0, "offset": 6}}),
    ]
    assert until_changes(received, changes) == [190]


def test_the_wait_for_a_commit_ends_with_the_first_beyond_the_event() -> None:
    commits = [Commit(0, 5, False, 100), Commit(0, 8, False, 200)]
    assert until_committed([message(4, 90), message(5, 95), message(7, 96)], commits) == [
        (90, 10),
        (95, 105),
        (96, 104),
    ]
    assert percentiles([1, 2, 3])["p50_ms"] == 2


def test_every_module_of_the_worker_has_a_stage_and_nothing_else_has() -> None:
    of = defaultdict(set)
    for path in (ROOT / "worker").rglob("*.py"):
        of[stage_of(str(path))].add(path)
    assert {"decode", "plan", "rank", "messages", "rows", "the rest"} == set(of)
    assert stage_of(json.__file__) is None


def test_what_runs_is_sampled() -> None:
    with Sampled() as sampled:
        total = sum(number * number for number in range(3_000_000))
    assert total
    assert sampled.counts["outside"] > 0


def test_the_time_of_threads_is_that_of_the_process() -> None:
    found = used()
    assert "MainThread" in found
    assert all(seconds >= 0 for seconds in found.values())


def test_another_commits_worker_runs_from_its_checkout_and_an_unknown_one_is_told(
    tmp_path: Path,
) -> None:
    site = Pipeline(None, "bench", tmp_path)  # type: ignore[arg-type]
    site.broker = type("Kafka", (), {"bootstrap_servers": "somewhere"})()
    worker = Contender("old", tmp_path).worker(site, "bench-old-0", emit="coalesced")
    assert worker.environment[CHECKOUT] == str(tmp_path)
    assert worker.environment["COVERSUMM_APP_ID"] == "bench-old-0"
    assert worker.environment["COVERSUMM_EMIT"] == "coalesced"
    with pytest.raises(SystemExit, match="--against"), contenders("no-such-commit", tmp_path):
        pass
    with contenders(None, tmp_path) as alone:
        assert [one.name for one in alone] == ["ours"]


@pytest.mark.native
def test_another_commits_native_code_is_built_if_ours_is(tmp_path: Path) -> None:
    with contenders("HEAD", tmp_path) as (_, other):
        assert other.checkout is not None
        assert list(other.checkout.glob("worker/_native*.so"))
    assert not other.checkout.exists()


def test_ours_has_medians_and_ratios() -> None:
    def turn(events_per_s: float) -> dict[str, Any]:
        return dict.fromkeys(FIGURES, events_per_s) | {"changes": 1, "digest": "d", "last": "l"}

    ours = _summed_up({"ours": [turn(20.0)], "base": [turn(10.0)]}, "ours")
    assert (ours["events_per_s"], ours["over_base"]["events_per_s"]) == (20.0, 2.0)
    assert against_targets({"throughput": ours}, "base")["synthetic events/s"] == 2.0
