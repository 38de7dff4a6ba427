"""What `make bench-queries` makes of commits and of turns, and how its record is shown."""

import pytest

from tests.bench import tables
from tests.bench.queries import paired, rate_since
from tests.harness.recovered import Commit

pytestmark = pytest.mark.long


def test_a_rate_is_that_of_the_commits_after_a_moment_over_all_partitions() -> None:
    found = [
        Commit(0, 100, False, 1_000),
        Commit(1, 50, False, 1_500),
        Commit(0, 300, False, 2_500),  # the first: 350 by then
        Commit(0, 0, True, 2_700),  # no worker's
        Commit(1, 250, False, 3_500),
        Commit(0, 1_100, False, 4_500),
    ]
    assert rate_since(reversed(found), 2_000) == 1000 * (1_350 - 350) / 2_000
    with pytest.raises(SystemExit, match="ask for more --events"):
        rate_since(found, 4_000)


def test_what_drifts_from_pair_to_pair_costs_nothing() -> None:
    quiet = [6_000.0, 4_000.0, 2_000.0]
    assert paired(quiet, [one * 0.97 for one in quiet]) == (0.97, [0.97, 0.97])
    ratio, between = paired(quiet, [5_900.0, 4_000.0, 1_900.0])
    assert between is not None
    assert between[0] < ratio < 1 < between[1]
    assert paired([2.0], [1.0]) == (0.5, None)


def test_pages_are_told_of_where_they_were_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    record = tables.read_record("queries.json")
    record.pop("under_pages", None)
    monkeypatch.setattr(tables, "read_record", lambda _: record)
    assert "live pages" not in tables.queries_table()
    record["under_pages"] = {
        "pages": 100,
        "throughput_ratio": 0.987,
        "throughput_ratio_95": [0.961, 1.014],
    }
    assert (
        "With 100 [live pages](../page.md) open in place of these clients it has 98.7 % of the "
        "throughput (95 %: 96.1 to 101.4)."
    ) in tables.queries_table()
