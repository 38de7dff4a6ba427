"""What was found on a cluster of three: `tests/bench/results/cluster.json`, and its table of the
results.

Besides what every row says, one counts the workers that ended though nobody ordered it, and has the
longest time that a partition went without a commit (`pauses.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.harness.pauses import Pause, longest
from tests.harness.record import RESULTS, Enough, Row, read_rows
from tests.harness.ride import Ridden

CLUSTER_RESULTS = RESULTS.with_name("cluster.json")
CLUSTER_ENOUGH = Enough(40_000, 50)


@dataclass
class ClusterRow(Row):
    """One scenario on a cluster.

    `ends`: of workers, not ordered. `pauses`: by partition, seconds of the longest one during the
    faults. `each`: every fault with the longest pause of any partition, the seconds until all was
    well again, and the workers that ended.
    """

    ends: int = 0
    pauses: dict[str, float] = field(default_factory=dict)
    each: list[dict[str, Any]] = field(default_factory=list)

    @property
    def pause(self) -> float:
        """The longest of all partitions, in seconds."""
        return max(self.pauses.values(), default=0.0)

    def measured(self) -> str:
        """What was measured besides, in words."""
        each = "".join(
            f"\n    {one['fault']}: {one['pause']} s, ready after {one['ready']} s "
            f"{' '.join(one['ends'])}"
            for one in self.each
        )
        return f"{super().measured()}, {self.ends} ends, longest pause {self.pause} s{each}"

    def rode(self, ridden: Sequence[Ridden], pauses: Sequence[Pause]) -> None:
        """Take what became of the faults."""
        self.faults += len(ridden)
        for one in ridden:
            by_partition = longest(pauses, one.since_ms, one.until_ms)
            for partition, seconds in by_partition.items():
                self.pauses[str(partition)] = max(
                    round(seconds, 1), self.pauses.get(str(partition), 0.0)
                )
            self.each.append(
                {
                    "fault": one.fault,
                    "pause": round(max(by_partition.values(), default=0.0), 1),
                    "ready": round(one.ready_s, 1),
                    "ends": list(one.ends),
                }
            )
            self.ends += len(one.ends)
            self.ready_after(one.ready_s)


def cluster_table(path: Path = CLUSTER_RESULTS) -> str:
    """The record as a Markdown table, with what it was recorded on; says so when there is none."""
    if not path.exists():
        return "Not recorded yet: `make faults ONLY=cluster` does it."
    return read_rows(path, ClusterRow, _table)


def _table(rows: Iterable[ClusterRow]) -> list[str]:
    head = (
        "| fault | events | faults | lost | repeated | wrong | worker ends | longest without a "
        "commit |"
    )
    return [head, "|---" * 8 + "|", *(_line(row) for row in rows)]


def _line(row: ClusterRow) -> str:
    counted = (row.events, row.faults, row.lost, row.repeated, row.wrong, row.ends)
    return (
        f"| {' | '.join([row.fault, *(f'{count:,}' for count in counted), f'{row.pause:.1f} s'])} |"
    )
